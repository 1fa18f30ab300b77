//! Regular expressions over lines, with a short cut for those that begin with fixed text.

use regex::bytes::Regex;

/// A regular expression.
#[derive(Clone, Debug)]
pub struct Pattern {
    /// What every match begins with, at the beginning of the line; may be empty.
    prefix: Vec<u8>,
    /// The prefix is the whole expression.
    is_prefix: bool,
    regex: Regex,
}

impl Pattern {
    /// Compiles it.
    ///
    /// # Errors
    ///
    /// What is wrong with it.
    pub fn new(text: &str) -> Result<Pattern, String> {
        let regex = Regex::new(text).map_err(|error| error.to_string())?;
        let prefix = prefix(text);
        let is_prefix = text.strip_prefix('^').is_some_and(|rest| rest.as_bytes() == prefix);
        Ok(Pattern { prefix, is_prefix, regex })
    }

    /// Whether it is found in `line`.
    #[inline]
    pub fn is_match(&self, line: &[u8]) -> bool {
        line.starts_with(&self.prefix) && (self.is_prefix || self.regex.is_match(line))
    }
}

/// The fixed text behind `^`. Where an alternative could begin otherwise, there is none.
fn prefix(text: &str) -> Vec<u8> {
    let Some(rest) = text.strip_prefix('^').filter(|rest| !rest.contains('|')) else { return Vec::new() };
    let is_fixed = |c: &char| c.is_ascii_alphanumeric() || " :;,<>=!@#%&/\"'_-".contains(*c);
    let mut fixed: Vec<u8> = rest.chars().take_while(is_fixed).map(|c| c as u8).collect();
    // What is repeated may be missing.
    if rest[fixed.len()..].starts_with(['?', '*', '{']) {
        fixed.pop();
    }
    fixed
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_is_what_every_match_begins_with() {
        let cases = [
            ("^abc", "abc"),
            ("abc", ""),
            ("^a?b", ""),
            ("^ab*", "a"),
            ("^ab+", "ab"),
            ("^ab{0,1}", "a"),
            ("^a|b", ""),
            ("^(?i)a", ""),
            ("^<[0-9]+>", "<"),
            (r"^\d", ""),
            ("^", ""),
        ];
        for (text, expected) in cases {
            assert_eq!(prefix(text), expected.as_bytes(), "{text}");
        }
    }

    #[test]
    fn the_short_cut_answers_what_the_expression_answers() {
        for text in ["^abc", "abc", "^a?b", "^ab*", "^a|b", "^(?i)a", "^", "^a.c$"] {
            let (pattern, regex) = (Pattern::new(text).unwrap(), Regex::new(text).unwrap());
            for line in ["", "a", "b", "ab", "abc", "aXc", "Abc", " abc", "abcd"] {
                assert_eq!(
                    pattern.is_match(line.as_bytes()),
                    regex.is_match(line.as_bytes()),
                    "{text} {line}"
                );
            }
        }
    }
}
