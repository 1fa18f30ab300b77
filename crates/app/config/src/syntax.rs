//! Explains syntax errors from the YAML parser.

use std::sync::Arc;

use saphyr_parser::{Marker, ScanError};

use super::fault::{Fault, Place};

/// Returns the error for the position in `text` where the parser stopped.
pub fn syntax_fault(file: &Arc<str>, text: &str, error: &ScanError) -> Fault {
    let marker = error.marker();
    if let Some((line, column)) = tab_indent(text, marker.line()) {
        let place = Place { file: file.clone(), line, column };
        return Fault::new(&place, "a tab in the indentation", "indent with spaces");
    }
    let place = Place { file: file.clone(), line: marker.line(), column: marker.col() + 1 };
    if is_variable(text, marker) {
        let advice = "put quotes around it, even if it is a number";
        return Fault::new(&place, "an unquoted variable inside { } or [ ]", advice);
    }
    let info = error.info();
    Fault::new(&place, format!("not YAML: {info}"), syntax_advice(info))
}

/// Returns whether the error is at the brace of a `${`, which starts a map in YAML.
fn is_variable(text: &str, marker: &Marker) -> bool {
    let line = text.lines().nth(marker.line().saturating_sub(1)).unwrap_or_default();
    let mut around = line.chars().skip(marker.col().saturating_sub(1));
    around.next() == Some('$') && around.next() == Some('{')
}

/// Returns the line and column of a tab in the indentation of `line` or the next line. The parser
/// may stop at either line.
fn tab_indent(text: &str, line: usize) -> Option<(usize, usize)> {
    let near = text.lines().enumerate().skip(line.saturating_sub(1)).take(2);
    for (index, content) in near {
        let indent = content.len() - content.trim_start_matches([' ', '\t']).len();
        if let Some(tab) = content[..indent].find('\t') {
            return Some((index + 1, tab + 1));
        }
    }
    None
}

/// Returns advice for a message from the YAML parser.
fn syntax_advice(info: &str) -> &'static str {
    const ADVICE: &[(&str, &str)] = &[
        ("unknown anchor", "put quotes around a string that begins with *"),
        ("unexpected character", "put quotes around a string that begins with this character"),
        (
            "mapping values are not allowed",
            "put quotes around a string that contains \": \", or check the indentation",
        ),
        ("unexpected end of stream", "close the quotes"),
        ("recursion limit", "remove some levels of brackets"),
        ("escape", "use single quotes, in which a backslash is a normal character"),
        ("trailing content", "put the whole text inside the quotes"),
        ("flow", "close the brackets [ ] or { }"),
        ("block", "indent all keys of a level equally"),
    ];
    let found = ADVICE.iter().find(|(part, _)| info.contains(part));
    found.map_or(
        "check quotes, brackets and indentation on this line and the previous line",
        |(_, advice)| *advice,
    )
}

#[cfg(test)]
mod tests {
    use super::super::parse::parse;

    fn message(text: &str) -> String {
        parse(&"f.yaml".into(), text, &mut Vec::new()).unwrap_err().to_string()
    }

    /// Syntax errors have a position and advice.
    #[test]
    fn syntax_faults() {
        for (text, fault) in [
            ("a:\n\tb: 1\n", "f.yaml:2:1: a tab in the indentation; indent with spaces"),
            ("a: 1\n \tb: 1\n", "f.yaml:2:2: a tab in the indentation; indent with spaces"),
            (
                "a: [*.tmp]\n",
                "f.yaml:1:5: not YAML: while parsing node, found unknown anchor; put quotes around a string that \
                 begins with *",
            ),
            (
                "a: {b: ${B}}\n",
                "f.yaml:1:9: an unquoted variable inside { } or [ ]; put quotes around it, even if \
                 it is a number",
            ),
            (
                "a: [${B}]\n",
                "f.yaml:1:6: an unquoted variable inside { } or [ ]; put quotes around it, even if \
                 it is a number",
            ),
            (
                "a: %d\n",
                "f.yaml:1:4: not YAML: unexpected character: `%'; put quotes around a string that begins with this \
                 character",
            ),
            (
                "a:\n  b: 1\n c: 2\n",
                "f.yaml:3:2: not YAML: while parsing a block mapping, did not find expected key; \
                 indent all keys of a level equally",
            ),
        ] {
            assert_eq!(message(text), fault, "{text}");
        }
    }
}
