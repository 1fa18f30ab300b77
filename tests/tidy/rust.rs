//! A minimal reader of Rust source: code, tests, and the ends of functions.

/// A function and its length, from `fn` to its closing brace.
#[derive(Debug, PartialEq, Eq)]
pub struct Function {
    pub name: String,
    /// Number of the line with its `fn`.
    pub line: usize,
    pub lines: usize,
}

/// Blanks comments, strings and test-only code, and keeps the line numbers.
pub fn production(source: &str) -> String {
    let mut text = code(source).into_bytes();
    let marker = b"#[cfg(test)]";
    while let Some(begin) = text.windows(marker.len()).position(|part| part == marker) {
        let end = item_end(&text, begin + marker.len());
        text[begin..end].iter_mut().filter(|byte| **byte != b'\n').for_each(|byte| *byte = b' ');
    }
    String::from_utf8(text).expect("only whole characters were made blank")
}

/// Returns the names of test-only modules that are in separate files.
pub fn test_modules(source: &str) -> Vec<String> {
    let code = code(source);
    let behind = code.split("#[cfg(test)]").skip(1);
    // The attribute may be followed by a visibility: `pub(super) mod tests;`.
    let names = behind.filter_map(|rest| rest.split_once(';')?.0.split_once("mod "));
    let is_module = |(before, name): &(&str, &str)| {
        name.chars().all(is_name) && (before.trim().is_empty() || before.trim().starts_with("pub"))
    };
    names.filter(is_module).map(|(_, name)| name.to_owned()).collect()
}

/// Returns the functions with a body.
pub fn functions(production: &str) -> Vec<Function> {
    let bytes = production.as_bytes();
    let starts = production
        .match_indices("fn ")
        .filter(|(at, _)| *at == 0 || !is_name(bytes[at - 1] as char));
    let function = |(at, _): (usize, &str)| {
        let name: String = production[at + 3..].chars().take_while(|c| is_name(*c)).collect();
        let end = item_end(bytes, at);
        let has_body = bytes.get(end - 1) == Some(&b'}');
        let line = production[..at].matches('\n').count() + 1;
        let lines = production[at..end].matches('\n').count() + 1;
        (has_body && !name.is_empty()).then_some(Function { name, line, lines })
    };
    starts.filter_map(function).collect()
}

fn is_name(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// Returns the end of the item at `from`: after its `;` or the closing brace of its body.
fn item_end(text: &[u8], from: usize) -> usize {
    let (mut braces, mut brackets) = (0, 0);
    for (at, byte) in text.iter().enumerate().skip(from) {
        match byte {
            b'{' => braces += 1,
            b'}' if braces <= 1 => return at + 1,
            b'}' => braces -= 1,
            b'(' | b'[' => brackets += 1,
            b')' | b']' => brackets -= 1,
            b';' if braces == 0 && brackets == 0 => return at + 1,
            _ => {}
        }
    }
    text.len()
}

/// Blanks comments and the contents of strings.
pub fn code(source: &str) -> String {
    let (mut out, mut rest) = (String::with_capacity(source.len()), source);
    while let Some(c) = rest.chars().next() {
        let inside_name = out.chars().next_back().is_some_and(is_name);
        let (blank, kept) = skipped(rest, inside_name);
        if blank > 0 {
            out.extend(rest[..blank].chars().map(|c| if c == '\n' { '\n' } else { ' ' }));
            rest = &rest[blank..];
        } else {
            let kept = kept.max(c.len_utf8());
            out.push_str(&rest[..kept]);
            rest = &rest[kept..];
        }
    }
    out
}

/// Returns how many bytes at the start of `rest` are to be blanked (a comment or string), and how
/// many of them are to be kept.
fn skipped(rest: &str, inside_name: bool) -> (usize, usize) {
    let find = |end: &str| rest.find(end).unwrap_or(rest.len());
    if rest.starts_with("//") {
        return (find("\n"), 0);
    }
    if rest.starts_with("/*") {
        return (block_comment(rest), 0);
    }
    if !inside_name && let Some(length) = raw_text(rest) {
        return (length, 0);
    }
    match rest.as_bytes()[0] {
        b'"' => (quoted(rest, '"'), 0),
        b'\'' if is_character(rest) => (quoted(rest, '\''), 0),
        _ => (0, 0),
    }
}

fn block_comment(rest: &str) -> usize {
    let mut depth = 0;
    let mut at = 0;
    while at < rest.len() {
        match &rest.as_bytes()[at..] {
            [b'/', b'*', ..] => (depth, at) = (depth + 1, at + 2),
            [b'*', b'/', ..] if depth == 1 => return at + 2,
            [b'*', b'/', ..] => (depth, at) = (depth - 1, at + 2),
            _ => at += 1,
        }
    }
    rest.len()
}

/// Returns the length of a raw string such as `r#"…"#` or `br"…"`, if there is one.
fn raw_text(rest: &str) -> Option<usize> {
    let behind = rest.strip_prefix("br").or_else(|| rest.strip_prefix('r'))?;
    let hashes = behind.len() - behind.trim_start_matches('#').len();
    let inside = behind[hashes..].strip_prefix('"')?;
    let end = format!("\"{}", "#".repeat(hashes));
    let begin = rest.len() - inside.len();
    Some(inside.find(&end).map_or(rest.len(), |at| begin + at + end.len()))
}

/// Returns whether a quote starts a character rather than a lifetime.
fn is_character(rest: &str) -> bool {
    let mut behind = rest.chars().skip(1);
    behind.next() == Some('\\') || behind.next() == Some('\'')
}

/// Returns the length of a quoted string, including the quotes.
fn quoted(rest: &str, quote: char) -> usize {
    let mut escaped = false;
    for (at, c) in rest.char_indices().skip(1) {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            c if c == quote => return at + c.len_utf8(),
            _ => {}
        }
    }
    rest.len()
}

#[test]
fn comments_strings_and_tests_are_not_production_code() {
    let source = r##"
        // fn comment() {
        /* fn /* nested */ comment() { */
        fn first<'a>(text: &'a str, end: [u8; 2]) -> char {
            let _ = ("fn text() { \" }", r#"fn raw() { " }"#, b'{', '\'', '{');
            '}'
        }
        trait Promise { fn without_body(&self); }
        #[cfg(test)]
        pub(super) mod tests;
        #[cfg(test)]
        mod inside { fn of_a_test() { } }
        fn last() {}
    "##;
    let found = functions(&production(source));
    let seen: Vec<_> = found.iter().map(|f| (f.name.as_str(), f.line, f.lines)).collect();
    assert_eq!(seen, [("first", 4, 4), ("last", 13, 1)]);
    assert_eq!(test_modules(source), ["tests"]);
}
