//! Explains what is wrong with a regular expression and what to use instead.
//!
//! A separate crate because it cuts a dependency: options, parsers, multi-line rules and
//! expressions give the same advice without each other.
//!
//! ```
//! use millstream_patterns::{PatternUse, pattern_fault};
//! let error = regex::bytes::Regex::new(r"\d+\Z").unwrap_err().to_string();
//! assert_eq!(
//!     pattern_fault(r"\d+\Z", &error, PatternUse::Condition),
//!     r"unrecognized escape sequence at `\Z`; use `$`, or `\z` in multi-line mode"
//! );
//! ```

#![forbid(unsafe_code)]

mod look_around;

use look_around::look_around_fault;

/// Maximum number of characters that an error message quotes from an expression.
const QUOTED_MAX: usize = 24;

/// The purpose of an expression's matches, which determines the advice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PatternUse {
    /// The match decides a condition.
    Condition,
    /// The match's named groups are extracted.
    Groups,
    /// Group 1 is hidden, or the whole match if there is no group.
    Hidden,
}

/// Returns what is wrong with an expression and what to use instead. `error` is the error message
/// of the `regex` crate.
pub fn pattern_fault(pattern: &str, error: &str, usage: PatternUse) -> String {
    let reason = reason(error);
    if reason.contains("look-around")
        && let Some(fault) = look_around_fault(pattern, usage)
    {
        return fault;
    }
    if reason.contains("size limit") {
        return "the compiled expression is too large; use fewer or smaller counted repetitions"
            .to_owned();
    }
    let rest = position(pattern, error).map(|at| chars_from(pattern, at));
    let quoted = rest.map_or(String::new(), |rest| format!(" at `{}`", shortened(rest)));
    format!("{reason}{quoted}; {}", advice(pattern, reason, rest.unwrap_or_default(), usage))
}

/// Returns the last line of an error, which contains the reason. The previous lines mark the
/// position.
fn reason(error: &str) -> &str {
    error.lines().last().unwrap_or(error).trim_start_matches("error: ")
}

/// Returns the position that an error marks with `^`, in characters. Returns `None` if there is no
/// mark for the position, as in an expression of several lines.
fn position(pattern: &str, error: &str) -> Option<usize> {
    const INDENT: usize = 4;
    let mut lines = error.lines().skip_while(|line| line.get(INDENT..) != Some(pattern)).skip(1);
    let marks = lines.next()?.trim_end();
    let is_marks = marks.ends_with('^') && marks.chars().all(|c| c == ' ' || c == '^');
    // If there are several marks, the error was noticed at the last one.
    let start = marks.trim_end_matches('^').len();
    is_marks.then(|| start.saturating_sub(INDENT))
}

fn chars_from(text: &str, at: usize) -> &str {
    text.char_indices().nth(at).map_or("", |(at, _)| &text[at..])
}

fn shortened(text: &str) -> String {
    match text.char_indices().nth(QUOTED_MAX) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// Returns what to use instead. `rest` is the expression, starting at the error.
fn advice(pattern: &str, reason: &str, rest: &str, usage: PatternUse) -> String {
    /// The advice for each phrase that a reason can contain.
    const BY_REASON: &[(&str, &str)] = &[
        ("unclosed group", r"close it with `)`, or use `\(` for the character"),
        ("unopened group", r"open it with `(`, or use `\)` for the character"),
        ("unclosed character class", r"close it with `]`, or use `\[` for the character"),
        ("duplicate capture group name", "give each group another name"),
        ("Unicode property not found", r"use, for example, `\p{L}` for letters"),
        ("backreferences", "repeat the contents of the group"),
        ("missing expression", r"use `.*` for any text, or a backslash before the character"),
        ("repetition quantifier", r"use, for example, `{2}` or `{1,3}`, or `\{` for the character"),
        ("incomplete escape", r"use `\\` for a backslash"),
    ];
    let own = grok(pattern, usage).or_else(|| group_name(pattern, reason));
    let own = own.or_else(|| atomic(reason, pattern)).or_else(|| escape(reason, rest));
    let by_reason = || BY_REASON.iter().find(|(part, _)| reason.contains(part));
    own.or_else(|| by_reason().map(|(_, advice)| (*advice).to_owned()))
        .unwrap_or_else(|| "see the syntax at https://docs.rs/regex/#syntax".to_owned())
}

/// Returns advice for an expression that contains `%{NAME}`, which is grok syntax. Returns `None`
/// for any other expression.
fn grok(pattern: &str, usage: PatternUse) -> Option<String> {
    let is_name = |rest: &str| rest.starts_with(|c: char| c.is_ascii_uppercase());
    pattern.match_indices("%{").find(|(at, opener)| is_name(&pattern[at + opener.len()..]))?;
    let advice = match usage {
        PatternUse::Groups => "`%{` is grok syntax; use `format: grok`",
        PatternUse::Condition | PatternUse::Hidden => {
            "`%{` is grok syntax, which only the `parse` transform supports; use a regular \
             expression"
        }
    };
    Some(advice.to_owned())
}

/// Returns advice for a group name with invalid characters, which the suggested name replaces with
/// underscores. Returns `None` for any other error.
fn group_name(pattern: &str, reason: &str) -> Option<String> {
    if !reason.contains("invalid capture group character") {
        return None;
    }
    let example = ["(?<", "(?P<"].iter().find_map(|opener| {
        let names = pattern.split(opener).skip(1).filter_map(|rest| rest.split_once('>'));
        names.map(|(name, _)| name).find(|name| !name.chars().all(is_name_character))
    });
    let mut advice = "use only letters, digits and underscores in a name".to_owned();
    if let Some(name) = example {
        advice += &format!(": use `(?<{}>`", valid_name(name));
    }
    Some(advice)
}

fn is_name_character(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

fn valid_name(name: &str) -> String {
    name.chars().map(|c| if is_name_character(c) { c } else { '_' }).collect()
}

fn atomic(reason: &str, pattern: &str) -> Option<String> {
    let is_atomic = reason.contains("unrecognized flag") && pattern.contains("(?>");
    is_atomic.then(|| "atomic groups are not supported: use `(?:`".to_owned())
}

/// Returns advice for an unknown escape, such as one from another regular expression dialect.
/// Returns `None` for any other error.
fn escape(reason: &str, rest: &str) -> Option<String> {
    const ESCAPES: &[(&str, &str)] = &[
        (r"\Z", r"use `$`, or `\z` in multi-line mode"),
        (r"\h", r"use `[ \t]`"),
        (r"\H", r"use `[^ \t]`"),
        (r"\R", r"use `\r?\n`"),
        (r"\N", "use `.`"),
        (r"\e", r"use `\x1b`"),
        (r"\G", "leave it out"),
        (r"\K", "remove it, and put the wanted text in a group"),
        (r"\X", "use `.` for a character"),
        (r"\k", "backreferences are not supported: repeat the contents of the group"),
        (r"\g", "backreferences are not supported: repeat the contents of the group"),
        (r"\Q", "use a backslash before each special character"),
        (r"\E", "use a backslash before each special character"),
    ];
    if !reason.contains("unrecognized escape sequence") {
        return None;
    }
    let known = ESCAPES.iter().find(|(escape, _)| rest.starts_with(escape));
    let other = r"leave out the backslash, or use `\\` for the character";
    Some(known.map_or(other, |(_, advice)| advice).to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fault(pattern: &str, usage: PatternUse) -> String {
        let error = regex::bytes::Regex::new(pattern).expect_err(pattern).to_string();
        pattern_fault(pattern, &error, usage)
    }

    /// Each error message contains the reason, its position, and advice that fits the error.
    #[test]
    fn advice_fits_the_error() {
        for (pattern, expected) in [
            (
                r"(?<client-ip>\d+)",
                r"invalid capture group character at `-ip>\d+)`; use only letters, digits and underscores in a name: use `(?<client_ip>`",
            ),
            (
                r"(?<a>\d+",
                r"unclosed group at `(?<a>\d+`; close it with `)`, or use `\(` for the character",
            ),
            (
                r"(?<a>\d+)\Z",
                r"unrecognized escape sequence at `\Z`; use `$`, or `\z` in multi-line mode",
            ),
            (
                "(?<a>x)(?<a>y)",
                "duplicate capture group name at `a>y)`; give each group another name",
            ),
            (
                r"(?<a>\p{Foo})",
                r"Unicode property not found at `\p{Foo})`; use, for example, `\p{L}` for letters",
            ),
            (
                "%{IP:x}",
                "repetition quantifier expects a valid decimal at `IP:x}`; `%{` is grok syntax; \
                 use `format: grok`",
            ),
            (
                r"(?<a>x)\1",
                r"backreferences are not supported at `\1`; repeat the contents of the group",
            ),
            (
                "(?<a>(?>x))",
                "unrecognized flag at `>x))`; atomic groups are not supported: use `(?:`",
            ),
            (
                "*.log",
                "repetition operator missing expression at `*.log`; use `.*` for any text, or a \
                 backslash before the character",
            ),
            (
                r"[a-",
                r"unclosed character class at `[a-`; close it with `]`, or use `\[` for the character",
            ),
            (r"é\h", r"unrecognized escape sequence at `\h`; use `[ \t]`"),
            (
                "[z-a]",
                "invalid character class range, the start must be <= the end at `z-a]`; see the syntax at https://docs.rs/regex/#syntax",
            ),
            (
                "(?<a>\n\\y)",
                r"unrecognized escape sequence; leave out the backslash, or use `\\` for the character",
            ),
            (
                r"\w{1000}{1000}",
                "the compiled expression is too large; use fewer or smaller counted repetitions",
            ),
        ] {
            assert_eq!(fault(pattern, PatternUse::Groups), expected, "{pattern}");
        }
        let hidden = fault("%{IP:x}", PatternUse::Hidden);
        assert!(hidden.ends_with("use a regular expression"), "{hidden}");
    }

    /// Any combination of parts must result in a message, regardless of the error.
    #[test]
    fn no_expression_panics() {
        const PARTS: &[&str] = &[
            "é", "(?<", "(?<!", "(?=", ")", "[", "]", r"\", "%{", "A", "-", ">", "*", "\n", "𝄞",
            "(?>",
        ];
        for number in 0..PARTS.len().pow(4) {
            let digits = (0..4).map(|digit| number / PARTS.len().pow(digit) % PARTS.len());
            let pattern: String = digits.map(|index| PARTS[index]).collect();
            if let Err(error) = regex::bytes::Regex::new(&pattern) {
                let message = pattern_fault(&pattern, &error.to_string(), PatternUse::Hidden);
                assert!(message.contains([';', ':']), "{pattern:?}: {message}");
            }
        }
    }
}
