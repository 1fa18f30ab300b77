//! Masks the values of variables in messages.

use std::collections::HashSet;

use millstream_model::secrets::MASK;

use super::node::{Node, Substituted};

/// Minimum number of consecutive characters from a value that are masked in an error about the
/// option. The error may quote any part of the value.
const PART: usize = 4;

/// Minimum number of consecutive characters that are masked in other errors and in advice. It is
/// longer than `https://` and `host:8080/`, which occur in examples.
const PART_ELSEWHERE: usize = 11;

/// Returns a message without the values of variables. `${NAME}` replaces a whole value, and
/// `REDACTED` a part of a value; letter case is ignored. `own` are the values of the option that
/// the message is about, `others` the values of other options.
pub fn masked(message: &str, own: &[&Substituted], others: &[&Substituted]) -> String {
    let chars: Vec<char> = message.chars().collect();
    let folded = fold(message);
    let mut replacements = vec![None; chars.len()];
    for substituted in others {
        let value = fold(&substituted.value);
        let part = PART_ELSEWHERE.max(value.len() / 2);
        mark_parts(&folded, &value, part, &mut replacements);
        mark_whole(&folded, &value, &substituted.shown, &mut replacements);
    }
    for substituted in own {
        let value = fold(&substituted.value);
        mark_parts(&folded, &value, PART, &mut replacements);
        mark_whole(&folded, &value, &substituted.shown, &mut replacements);
    }
    replaced(&chars, &replacements)
}

/// Returns advice without the values of variables. Only quoted text may be a part of the option's
/// value; the other words, such as `http://` in an example, come from the program.
pub fn masked_advice(advice: &str, own: &[&Substituted], others: &[&Substituted]) -> String {
    let all = [own, others].concat();
    let mut text = String::new();
    let mut is_quoted = false;
    for part in advice.split_inclusive(['`', '"']) {
        let of_part = if is_quoted { masked(part, own, others) } else { masked(part, &[], &all) };
        text += &of_part;
        is_quoted = !is_quoted;
    }
    text
}

/// Returns the start of a message about an option: the name of the option, and the variable in it.
pub fn subject(node: &Node, option: &str) -> String {
    match &node.template {
        Some(template) => format!("`{option}` (from `{template}`): "),
        None if option.is_empty() => String::new(),
        None => format!("`{option}`: "),
    }
}

/// Returns the given advice. If a check of a variable's value provides none, returns advice on
/// where to look.
pub fn advice(node: &Node, given: String) -> String {
    match &node.template {
        Some(_) if given.is_empty() => "check the value of the variable".to_owned(),
        _ => given,
    }
}

/// Returns the characters in lowercase, one for each character of the text.
fn fold(text: &str) -> Vec<char> {
    text.chars().map(|c| c.to_lowercase().next().unwrap_or(c)).collect()
}

fn mark_parts(message: &[char], value: &[char], part: usize, replacements: &mut [Option<&str>]) {
    let parts: HashSet<&[char]> = value.windows(part).collect();
    for (at, window) in message.windows(part).enumerate() {
        if parts.contains(window) {
            replacements[at..at + part].fill(Some(MASK));
        }
    }
}

/// Marks the occurrences of the whole value, except in the middle of a word.
fn mark_whole<'s>(
    message: &[char],
    value: &[char],
    shown: &'s str,
    replacements: &mut [Option<&'s str>],
) {
    if value.is_empty() {
        return;
    }
    for (at, window) in message.windows(value.len()).enumerate() {
        let end = at + value.len();
        if window == value && is_boundary(message, at) && is_boundary(message, end) {
            replacements[at..end].fill(Some(shown));
        }
    }
}

/// Returns whether a position is a word boundary.
fn is_boundary(message: &[char], at: usize) -> bool {
    let before = at.checked_sub(1).and_then(|before| message.get(before));
    let is_word = |c: Option<&char>| c.is_some_and(|c| c.is_alphanumeric());
    !(is_word(before) && is_word(message.get(at)))
}

fn replaced(chars: &[char], replacements: &[Option<&str>]) -> String {
    let mut text = String::new();
    let mut last = None;
    for (c, replacement) in chars.iter().zip(replacements) {
        match replacement {
            None => text.push(*c),
            Some(shown) if last != Some(*shown) => text += shown,
            Some(_) => {}
        }
        last = *replacement;
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn this(message: &str, value: &str) -> String {
        masked(message, &[&of(value)], &[])
    }

    fn other(message: &str, value: &str) -> String {
        masked(message, &[], &[&of(value)])
    }

    fn of(value: &str) -> Substituted {
        Substituted { shown: "${V}".into(), value: value.into() }
    }

    /// A whole value, a part and other letter cases are masked; other text stays.
    #[test]
    fn values_and_their_parts_are_masked() {
        assert_eq!(this("bad value hunter2, hunter2!", "hunter2"), "bad value ${V}, ${V}!");
        assert_eq!(this("unclosed class at 'NTER'", "hunter2"), "unclosed class at 'REDACTED'");
        assert_eq!(this("`x1` is wrong in x10", "x1"), "`${V}` is wrong in x10");
        assert_eq!(this("`%Q` is unknown", "%Q"), "`${V}` is unknown");
        assert_eq!(this("not a number", "hunter2"), "not a number");
        assert_eq!(this("ends in huntér2", "HUNTÉR2"), "ends in ${V}");
        assert_eq!(this("nothing", ""), "nothing");
    }

    /// An error about another option keeps words that also occur in a value.
    #[test]
    fn errors_about_other_options_keep_their_words() {
        let uri = "https://logs.example.com/in";
        let advice = "use, for example, http://proxy.example:3128";
        assert_eq!(other(advice, uri), advice);
        assert_eq!(other("cannot reach logs.example.com", uri), "cannot reach REDACTED");
        assert_eq!(other("after \"hunter2\"", "hunter2"), "after \"${V}\"");
    }

    /// Advice keeps the words of the program, and the text that it quotes shows no part of a value.
    #[test]
    fn advice_keeps_its_words() {
        let advice = |text: &str, value: &str| masked_advice(text, &[&of(value)], &[]);
        let example = "use, for example, http://host:8080/path";
        assert_eq!(advice(example, "localhost:8080/in"), example);
        assert_eq!(advice("use `hunter2` before it", "(?<=hunter2)x"), "use `REDACTED` before it");
        assert_eq!(advice("use hunter2", "hunter2"), "use ${V}");
    }

    /// Of two values at the same position, one is shown.
    #[test]
    fn values_may_overlap() {
        let [host, uri] = [
            of("search-1"),
            Substituted { shown: "${U}".into(), value: "https://search-1/x".into() },
        ];
        assert_eq!(masked("at https://search-1/x", &[&host, &uri], &[]), "at ${U}");
    }
}
