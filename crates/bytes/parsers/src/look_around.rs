//! Advice for expressions with look-around, which expressions in linear time do not have.

/// The ways to look around, with the words for messages.
const OPENERS: &[(&str, Look)] = &[
    ("(?<!", Look { is_behind: true, is_negative: true }),
    ("(?<=", Look { is_behind: true, is_negative: false }),
    ("(?!", Look { is_behind: false, is_negative: true }),
    ("(?=", Look { is_behind: false, is_negative: false }),
];

/// What makes up a word, in the spellings of other programs.
const WORDS: &[&str] = &[r"\w", r"[\w]", "[A-Za-z0-9_]", "[a-zA-Z0-9_]", "[0-9A-Za-z_]"];

#[derive(Clone, Copy)]
struct Look {
    is_behind: bool,
    is_negative: bool,
}

/// Returns what to write instead of the first look-around in an expression; [`None`] if it has none.
pub fn look_around_advice(pattern: &str) -> Option<String> {
    let at = first(pattern)?;
    let (opener, look) = OPENERS.iter().find(|(opener, _)| pattern[at..].starts_with(opener))?;
    let rest = &pattern[at + opener.len()..];
    let inner = &rest[..closing(rest)];
    let name = if look.is_behind { "look-behind" } else { "look-ahead" };
    let written = format!("`{opener}{inner})` is {name}, which is not supported");
    Some(format!("{written}: {}", look.instead(inner)))
}

impl Look {
    fn instead(self, inner: &str) -> String {
        let place = if self.is_behind { "before" } else { "behind" };
        match (self.is_negative, negated(inner)) {
            (true, _) if WORDS.contains(&inner) => r"write `\b`".to_owned(),
            (true, Some(other)) if self.is_behind => format!("write `(?:^|{other})`"),
            (true, Some(other)) => format!("write `(?:{other}|$)`"),
            (true, None) => {
                "leave it out, and exclude what it excludes by a condition of its own".to_owned()
            }
            (false, _) => {
                format!(
                    "write `{inner}` {place} a group with a name, `(?<name>…)`, for what you want"
                )
            }
        }
    }
}

/// Returns the position of the first look-around outside of classes and escapes.
fn first(pattern: &str) -> Option<usize> {
    let (mut is_class, mut is_escaped) = (false, false);
    for (at, char) in pattern.char_indices() {
        match char {
            _ if is_escaped => is_escaped = false,
            '\\' => is_escaped = true,
            '[' => is_class = true,
            ']' => is_class = false,
            '(' if !is_class && OPENERS.iter().any(|(of, _)| pattern[at..].starts_with(of)) => {
                return Some(at);
            }
            _ => {}
        }
    }
    None
}

/// Returns the position of the parenthesis that closes a group whose content this begins with.
fn closing(rest: &str) -> usize {
    let (mut depth, mut is_class, mut is_escaped) = (0, false, false);
    for (at, char) in rest.char_indices() {
        match char {
            _ if is_escaped => is_escaped = false,
            '\\' => is_escaped = true,
            '[' => is_class = true,
            ']' => is_class = false,
            '(' if !is_class => depth += 1,
            ')' if !is_class && depth == 0 => return at,
            ')' if !is_class => depth -= 1,
            _ => {}
        }
    }
    rest.len()
}

/// Returns the class of all characters but those of a class or a character; [`None`] for anything
/// longer.
fn negated(inner: &str) -> Option<String> {
    let class = inner.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
    if let Some(class) = class.filter(|class| !class.contains(['[', ']'])) {
        return Some(match class.strip_prefix('^') {
            Some(positive) => format!("[{positive}]"),
            None => format!("[^{class}]"),
        });
    }
    let mut chars = inner.chars();
    match (chars.next()?, chars.next(), chars.next()) {
        ('\\', Some(class), None) if "dDsSwW".contains(class) => {
            let other = match class.is_ascii_lowercase() {
                true => class.to_ascii_uppercase(),
                false => class.to_ascii_lowercase(),
            };
            Some(format!("\\{other}"))
        }
        ('\\', Some(char), None) if !char.is_alphanumeric() => Some(format!("[^\\{char}]")),
        (char, None, None) if char.is_alphanumeric() || " -_,;:\"'/=".contains(char) => {
            Some(format!("[^{char}]"))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_look_around_has_a_rewrite_that_is_valid() {
        for (pattern, written, instead) in [
            (r"(?<!\w)ERROR", r"`(?<!\w)` is look-behind", r"`\b`"),
            (r"ERROR(?![A-Za-z0-9_])", "`(?![A-Za-z0-9_])` is look-ahead", r"`\b`"),
            (r"a(?<!\S)b", r"`(?<!\S)` is look-behind", r"`(?:^|\s)`"),
            (r"a(?!\d)", r"`(?!\d)` is look-ahead", r"`(?:\D|$)`"),
            (r"(?<![^,])b", "`(?<![^,])` is look-behind", "`(?:^|[,])`"),
            (r"a(?!\.)", r"`(?!\.)` is look-ahead", r"`(?:[^\.]|$)`"),
            (r"(?<=id=)\d+", "`(?<=id=)` is look-behind", "`id=`"),
            (r"\d+(?=(ms|s)\))", r"`(?=(ms|s)\))` is look-ahead", r"`(ms|s)\)`"),
        ] {
            let advice = look_around_advice(pattern).unwrap();
            assert!(advice.starts_with(written) && advice.contains(instead), "{pattern}: {advice}");
            let rewrite = instead.trim_matches('`');
            assert!(regex_automata::meta::Regex::new(rewrite).is_ok(), "{rewrite}");
        }
        let whole = look_around_advice("a(?!foo|bar)").unwrap();
        assert!(whole.contains("a condition of its own"), "{whole}");
        let open = look_around_advice("a(?=b").unwrap();
        assert!(open.contains("write `b`"), "{open}");
    }

    #[test]
    fn other_groups_are_none() {
        for pattern in ["(?<a>x)", "(?P<a>x)", "(?:x)", r"\(?=x", "[(?=]", "(?i)x", ""] {
            assert_eq!(look_around_advice(pattern), None, "{pattern}");
        }
    }
}
