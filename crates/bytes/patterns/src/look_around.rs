//! Advice for expressions with look-around, which linear-time regular expressions do not support.

use crate::PatternUse;

/// The prefixes of look-around groups, and what they mean.
const OPENERS: &[(&str, Look)] = &[
    ("(?<!", Look { is_behind: true, is_negative: true }),
    ("(?<=", Look { is_behind: true, is_negative: false }),
    ("(?!", Look { is_behind: false, is_negative: true }),
    ("(?=", Look { is_behind: false, is_negative: false }),
];

/// Character classes for words, as written in other tools.
const WORDS: &[&str] = &[r"\w", r"[\w]", "[A-Za-z0-9_]", "[a-zA-Z0-9_]", "[0-9A-Za-z_]"];

#[derive(Clone, Copy)]
struct Look {
    is_behind: bool,
    is_negative: bool,
}

/// Returns advice for the first look-around in an expression, or [`None`] if there is none.
pub fn look_around_fault(pattern: &str, usage: PatternUse) -> Option<String> {
    let at = first(pattern)?;
    let (opener, look) = OPENERS.iter().find(|(opener, _)| pattern[at..].starts_with(opener))?;
    let rest = &pattern[at + opener.len()..];
    let inner = &rest[..closing(rest)];
    let name = if look.is_behind { "look-behind" } else { "look-ahead" };
    let written = format!("`{opener}{inner})` is {name}, which is not supported");
    Some(format!("{written}; {}", look.instead(inner, usage)))
}

impl Look {
    fn instead(self, inner: &str, usage: PatternUse) -> String {
        let rewrite = match (self.is_negative, negated(inner)) {
            // `\b` matches no character, so it changes nothing else.
            (true, _) if WORDS.contains(&inner) => return r"use `\b`".to_owned(),
            (true, None) => return without(usage),
            (true, Some(other)) if self.is_behind => format!("(?:^|{other})"),
            (true, Some(other)) => format!("(?:{other}|$)"),
            (false, _) => inner.to_owned(),
        };
        // Unlike a look-around, the rewrite becomes part of the match.
        match usage {
            PatternUse::Condition => format!("use `{rewrite}`"),
            PatternUse::Groups if self.is_negative => format!("use `{rewrite}`"),
            PatternUse::Groups => {
                let place = self.place();
                format!("use `{rewrite}` {place} a named group, `(?<name>…)`, for the wanted text")
            }
            PatternUse::Hidden => {
                let place = self.place();
                format!(
                    "use `{rewrite}` {place} a group, `(…)`, for the text to hide: only the group \
                     is hidden"
                )
            }
        }
    }

    fn place(self) -> &'static str {
        if self.is_behind { "before" } else { "behind" }
    }
}

/// Returns advice for a look-around that has no short rewrite.
fn without(usage: PatternUse) -> String {
    let advice = match usage {
        PatternUse::Condition => {
            "match the other cases instead, or exclude the text with another condition"
        }
        PatternUse::Groups => "remove it, and exclude the same text with another condition",
        PatternUse::Hidden => {
            "remove it, and put the text to hide in a group, `(…)`, with more of the surrounding \
             text outside"
        }
    };
    advice.to_owned()
}

/// Returns the position of the first look-around that is outside classes and escapes, if there is
/// one.
fn first(pattern: &str) -> Option<usize> {
    let (mut is_class, mut is_escaped) = (false, false);
    for (at, char) in pattern.char_indices() {
        match char {
            _ if is_escaped => is_escaped = false,
            '\\' => is_escaped = true,
            '[' => is_class = true,
            ']' => is_class = false,
            '(' if !is_class
                && OPENERS.iter().any(|(opener, _)| pattern[at..].starts_with(opener)) =>
            {
                return Some(at);
            }
            _ => {}
        }
    }
    None
}

/// Returns the position of the parenthesis that closes a group. `rest` begins with the group's
/// contents.
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

/// Returns the negation of a class or a character, or [`None`] for anything longer.
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
            let advice = look_around_fault(pattern, PatternUse::Groups).unwrap();
            assert!(advice.starts_with(written) && advice.contains(instead), "{pattern}: {advice}");
            let rewrite = instead.trim_matches('`');
            assert!(regex::bytes::Regex::new(rewrite).is_ok(), "{rewrite}");
        }
        let whole = look_around_fault("a(?!foo|bar)", PatternUse::Groups).unwrap();
        assert!(whole.contains("another condition"), "{whole}");
        let open = look_around_fault("a(?=b", PatternUse::Groups).unwrap();
        assert!(open.contains("use `b`"), "{open}");
    }

    /// A rewrite matches more text than the look-around, so a hidden value needs a group.
    #[test]
    fn what_is_hidden_needs_a_group() {
        let fault = |pattern: &str, usage| look_around_fault(pattern, usage).unwrap();
        let hidden = fault(r"(?<!x)\d{6}", PatternUse::Hidden);
        let advice = "; use `(?:^|[^x])` before a group, `(…)`, for the text to hide: only the \
                      group is hidden";
        assert!(hidden.ends_with(advice), "{hidden}");
        assert!(fault(r"(?<!\d)x", PatternUse::Hidden).contains(r"`(?:^|\D)` before a group"));
        assert!(fault("(?<=id=)x", PatternUse::Hidden).contains("`id=` before a group, `(…)`"));
        assert!(fault(r"x(?!\w)", PatternUse::Hidden).ends_with(r"; use `\b`"));
        assert!(fault(r"^(?!\s)", PatternUse::Condition).ends_with(r"; use `(?:\S|$)`"));
        assert!(fault("a(?=b)", PatternUse::Condition).ends_with("; use `b`"));
    }

    #[test]
    fn other_groups_are_none() {
        for pattern in ["(?<a>x)", "(?P<a>x)", "(?:x)", r"\(?=x", "[(?=]", "(?i)x", ""] {
            assert_eq!(look_around_fault(pattern, PatternUse::Groups), None, "{pattern}");
        }
    }
}
