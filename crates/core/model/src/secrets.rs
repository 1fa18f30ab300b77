//! The agent's known secrets, and their removal from all text that leaves the agent: its log, its
//! API, its metrics, and quoted responses from endpoints.
//!
//! One list serves the whole process, because an error passes through many components before it is
//! shown. A value stays in the list after a reload, because the value may still be valid, and an
//! error that contains it may be shown later. Values that change often, such as tokens in files,
//! never displace the configuration's values.

use aho_corasick::{AhoCorasick, MatchKind};
use parking_lot::RwLock;
use std::borrow::Cow;
use std::collections::{BTreeSet, VecDeque};
use std::fmt::Write;
use std::ops::Range;
use std::sync::Arc;

/// Text that replaces a secret.
pub const MASK: &str = "REDACTED";

/// Minimum bytes of a value that is masked everywhere. Shorter values occur in ordinary text.
const EVERYWHERE_BYTES_MIN: usize = 6;

/// Minimum bytes of a value that is masked in an endpoint's response, even if the value is an
/// ordinary word.
const ANSWER_BYTES_MIN: usize = 4;

/// Maximum number of bytes of a value to search for. Of a longer value, only the first bytes are
/// masked.
const VALUE_BYTES_MAX: usize = 4 << 10;

/// Maximum total bytes for all values of one kind. Beyond this limit, the oldest values are
/// forgotten.
const VALUES_BYTES_MAX: usize = 64 << 10;

/// Minimum bytes of a line that is searched for separately. This applies to values with several
/// lines.
const LINE_BYTES_MIN: usize = 12;

/// Maximum number of characters in an ordinary word or number. A longer one is a generated secret.
const ORDINARY_CHARS_MAX: usize = 15;

/// The secrets of the whole process.
static SECRETS: RwLock<Secrets> = RwLock::new(Secrets::new());

/// The place where a secret comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// The configuration.
    Configuration,
    /// A file or a response, which may contain another secret at any time.
    Current,
}

/// Adds values to the process's secrets. Empty and short values are omitted.
pub fn remember<S: AsRef<str>>(origin: Origin, values: impl IntoIterator<Item = S>) {
    let values: Vec<S> = values.into_iter().collect();
    let is_known = {
        let secrets = SECRETS.read();
        values.iter().all(|value| secrets.has(origin, value.as_ref()))
    };
    if !is_known {
        SECRETS.write().remember(origin, values.iter().map(AsRef::as_ref));
    }
}

/// Masks the process's secrets in text that leaves the agent: secrets of at least 6 bytes that are
/// not ordinary words or numbers.
pub fn mask(text: &str) -> Cow<'_, str> {
    let masker = SECRETS.read().everywhere.clone();
    masker.map_or(Cow::Borrowed(text), |masker| masker.mask(text))
}

/// Masks the process's secrets in an endpoint's response, which may repeat the request: secrets of
/// at least 4 bytes, even ordinary words.
pub fn mask_answer(text: &str) -> Cow<'_, str> {
    let masker = SECRETS.read().in_answers.clone();
    masker.map_or(Cow::Borrowed(text), |masker| masker.mask(text))
}

/// Returns whether a value is masked in all text that leaves the agent. Short values, ordinary
/// words and numbers are not, because they occur in any text.
pub fn is_searched(value: &str) -> bool {
    value.len() >= EVERYWHERE_BYTES_MIN && !is_ordinary(value)
}

/// Returns whether a value is a word, possibly with underscores, or a number, a time or an address.
fn is_ordinary(value: &str) -> bool {
    if value.chars().count() > ORDINARY_CHARS_MAX {
        return false;
    }
    let is_letter = |c: char| c.is_alphabetic() || c == '_';
    let is_lower = value.chars().skip(1).all(|c| is_letter(c) && !c.is_uppercase());
    let is_upper = value.chars().all(|c| is_letter(c) && !c.is_lowercase());
    let is_number = value.chars().all(|c| c.is_ascii_digit() || "+-.:".contains(c));
    (value.starts_with(is_letter) && (is_lower || is_upper)) || is_number
}

/// Lists of secret values, and the maskers that find them.
struct Secrets {
    configured: Values,
    current: Values,
    everywhere: Option<Arc<Masker>>,
    in_answers: Option<Arc<Masker>>,
}

/// Secret values, the oldest first.
struct Values {
    values: VecDeque<Box<str>>,
    bytes: usize,
}

impl Values {
    const fn new() -> Values {
        Values { values: VecDeque::new(), bytes: 0 }
    }

    fn has(&self, value: &str) -> bool {
        self.values.iter().any(|known| **known == *value)
    }

    fn add(&mut self, value: &str) {
        self.bytes += value.len();
        self.values.push_back(value.into());
        while self.bytes > VALUES_BYTES_MAX {
            let Some(oldest) = self.values.pop_front() else { break };
            self.bytes -= oldest.len();
        }
    }
}

impl Secrets {
    const fn new() -> Secrets {
        Secrets {
            configured: Values::new(),
            current: Values::new(),
            everywhere: None,
            in_answers: None,
        }
    }

    fn has(&self, origin: Origin, value: &str) -> bool {
        let value = searched_part(value);
        let is_current = || origin == Origin::Current && self.current.has(value);
        value.len() < ANSWER_BYTES_MIN || self.configured.has(value) || is_current()
    }

    fn remember<'v>(&mut self, origin: Origin, values: impl Iterator<Item = &'v str>) {
        for value in values {
            if self.has(origin, value) {
                continue;
            }
            match origin {
                Origin::Configuration => self.configured.add(searched_part(value)),
                Origin::Current => self.current.add(searched_part(value)),
            }
        }
        let values = || self.configured.values.iter().chain(&self.current.values);
        let forms = || values().flat_map(|value| forms(value));
        self.everywhere = Masker::new(forms().filter(|form| is_searched(form)));
        self.in_answers = Masker::new(forms().filter(|form| form.len() >= ANSWER_BYTES_MIN));
    }
}

/// Returns the part of a value that is searched for.
fn searched_part(value: &str) -> &str {
    let value = value.trim();
    &value[..value.floor_char_boundary(VALUE_BYTES_MAX)]
}

/// Finds secret values in text.
struct Masker(AhoCorasick);

impl Masker {
    /// Creates a masker; `None` if there are no values.
    fn new(forms: impl Iterator<Item = String>) -> Option<Arc<Masker>> {
        let forms: BTreeSet<String> = forms.collect();
        if forms.is_empty() {
            return None;
        }
        // The values stay far below the builder's limits, so this does not fail.
        let built = AhoCorasick::builder().match_kind(MatchKind::Standard).build(forms);
        built.ok().map(|finder| Arc::new(Masker(finder)))
    }

    fn mask<'t>(&self, text: &'t str) -> Cow<'t, str> {
        let found = self.find(text);
        if found.is_empty() {
            return Cow::Borrowed(text);
        }
        let mut masked = String::with_capacity(text.len());
        let mut end = 0;
        for range in found {
            masked.push_str(&text[end..range.start]);
            masked.push_str(MASK);
            end = range.end;
        }
        masked.push_str(&text[end..]);
        Cow::Owned(masked)
    }

    /// Returns the ranges of the values that were found, in order. Overlapping ranges are merged.
    fn find(&self, text: &str) -> Vec<Range<usize>> {
        let found = self.0.find_overlapping_iter(text).map(|found| found.range());
        let mut found: Vec<Range<usize>> = found.collect();
        found.sort_by_key(|range| range.start);
        let mut joined: Vec<Range<usize>> = Vec::new();
        for range in found {
            match joined.last_mut() {
                Some(last) if range.start < last.end => last.end = last.end.max(range.end),
                _ => joined.push(range),
            }
        }
        joined
    }
}

/// Returns the forms in which a value may occur: unchanged, line by line, encoded for a URL or a
/// form, decoded from a URL, and in a JSON string.
fn forms(value: &str) -> Vec<String> {
    let lines = value.lines().map(str::trim).filter(|line| line.len() >= LINE_BYTES_MIN);
    let plain = [value].into_iter().chain(lines).map(str::to_owned);
    let decoded = percent_decoded(value);
    let plain: Vec<String> = plain.chain(decoded).collect();
    let others = plain.iter().flat_map(|value| {
        let upper = percent_encoded(value, |out, byte| write!(out, "%{byte:02X}"));
        let lower = percent_encoded(value, |out, byte| write!(out, "%{byte:02x}"));
        let in_form = upper.replace("%20", "+");
        [upper, lower, in_form, in_json(value)]
    });
    let others: Vec<String> = others.collect();
    [plain, others].concat()
}

fn percent_encoded(value: &str, encode: fn(&mut String, u8) -> std::fmt::Result) -> String {
    let mut out = String::with_capacity(value.len());
    for byte in value.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            out.push(char::from(byte));
        } else {
            // Writing to memory does not fail.
            let _ = encode(&mut out, byte);
        }
    }
    out
}

/// Returns the decoded form of a value that is encoded for a URL; `None` for any other value.
pub fn percent_decoded(value: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(value.len());
    let mut rest = value.as_bytes();
    while let Some((first, behind)) = rest.split_first() {
        let digits = behind.get(..2).filter(|_| *first == b'%');
        let digits = digits.and_then(|digits| std::str::from_utf8(digits).ok());
        let byte = digits.and_then(|digits| u8::from_str_radix(digits, 16).ok());
        bytes.push(byte.unwrap_or(*first));
        rest = if byte.is_some() { &behind[2..] } else { behind };
    }
    String::from_utf8(bytes).ok().filter(|decoded| decoded != value)
}

fn in_json(value: &str) -> String {
    let mut out = String::with_capacity(value.len());
    for character in value.chars() {
        match character {
            '"' | '\\' => out.extend(['\\', character]),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            other => out.push(other),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn masker(values: &[&str]) -> Secrets {
        let mut secrets = Secrets::new();
        secrets.remember(Origin::Configuration, values.iter().copied());
        secrets
    }

    fn masked(values: &[&str], text: &str) -> String {
        masker(values).everywhere.map_or(text.to_owned(), |masker| masker.mask(text).into_owned())
    }

    #[test]
    fn a_value_is_masked_in_each_form() {
        let value = "p&ss w/\"rd\u{e9}";
        for (text, expected) in [
            ("a p&ss w/\"rd\u{e9} b", "a REDACTED b"),
            ("?k=p%26ss%20w%2F%22rd%C3%A9&x=1", "?k=REDACTED&x=1"),
            ("?k=p%26ss%20w%2f%22rd%c3%a9", "?k=REDACTED"),
            ("k=p%26ss+w%2F%22rd%C3%A9", "k=REDACTED"),
            (r#"{"a":"p&ss w/\"rdé"}"#, r#"{"a":"REDACTED"}"#),
            ("p&ss w/\"rd", "p&ss w/\"rd"),
        ] {
            assert_eq!(masked(&[value], text), expected);
        }
        assert_eq!(masked(&["a%2Fb%2Fc%2Fd"], "x a/b/c/d y"), "x REDACTED y");
        let pem = "-----BEGIN KEY-----\nMIIEvQIBADANBgkq\n-----END KEY-----";
        assert_eq!(masked(&[pem], "got MIIEvQIBADANBgkq"), "got REDACTED");
    }

    #[test]
    fn values_that_overlap_leave_no_part() {
        let values = ["abc123def", "def456ghi", "123def456"];
        assert_eq!(masked(&values, "-abc123def456ghi-"), "-REDACTED-");
        assert_eq!(masked(&values, "abc123defabc123def"), "REDACTEDREDACTED");
    }

    #[test]
    fn short_and_ordinary_values_are_masked_in_answers_only() {
        let secrets = masker(&["a", "", " ", "changeme", "x1y2"]);
        let text = "a changeme x1y2";
        assert!(secrets.everywhere.is_none());
        assert_eq!(secrets.in_answers.unwrap().mask(text), "a REDACTED REDACTED");
    }

    #[test]
    fn the_list_is_bounded_and_forgets_the_oldest() {
        let value = |number: usize| format!("{number:08}-{}", "x".repeat(1000));
        let mut secrets = masker(&["of-the-options-1"]);
        for number in (0..1000).step_by(100) {
            let values: Vec<String> = (number..number + 100).map(value).collect();
            secrets.remember(Origin::Current, values.iter().map(String::as_str));
        }
        assert!(secrets.current.bytes <= VALUES_BYTES_MAX);
        let masker = secrets.everywhere.unwrap();
        assert_eq!(masker.mask("of-the-options-1"), MASK, "it is not displaced");
        assert_eq!(masker.mask(&value(999)), MASK);
        assert_eq!(masker.mask(&value(0)), value(0));
        let long = "y".repeat(10 * VALUE_BYTES_MAX);
        assert_eq!(masked(&[&long], &long[..VALUE_BYTES_MAX]), MASK);
    }

    #[test]
    fn the_process_masks_what_it_remembers() {
        remember(Origin::Configuration, ["process-secret-1"]);
        remember(Origin::Current, ["process-secret-2", "process-secret-1"]);
        assert_eq!(mask("process-secret-1, process-secret-2"), "REDACTED, REDACTED");
        assert_eq!(mask_answer("process-secret-1"), MASK);
        assert!(matches!(mask("nothing"), Cow::Borrowed(_)));
    }
}
