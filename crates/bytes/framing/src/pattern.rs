//! Regular expressions for lines, with a fast path for expressions with a fixed prefix.

use millstream_patterns::{PatternUse, pattern_fault};
use regex::bytes::Regex;
use regex_syntax::ParserBuilder;
use regex_syntax::hir::{Class, Hir, HirKind, Look};

/// Maximum number of line bytes that the fast path checks.
const PREFIX_BYTES_MAX: usize = 32;

/// A compiled regular expression.
#[derive(Clone, Debug)]
pub struct Pattern {
    /// The byte sets that a match starts with. Empty if the expression is not anchored.
    prefix: Vec<ByteSet>,
    /// Whether the prefix is the complete expression.
    is_prefix: bool,
    regex: Regex,
}

/// The ASCII characters that match at one position, as a bit mask, and whether non-ASCII characters
/// match.
#[derive(Clone, Copy, Debug, Default)]
struct ByteSet {
    ascii: [u64; 2],
    non_ascii: bool,
}

impl ByteSet {
    fn insert(&mut self, byte: u8) {
        self.ascii[usize::from(byte >> 6)] |= 1 << (byte & 63);
    }

    /// Returns whether this ASCII character matches.
    #[inline]
    fn contains(&self, byte: u8) -> bool {
        self.ascii[usize::from(byte >> 6 & 1)] >> (byte & 63) & 1 == 1
    }
}

impl Pattern {
    /// Compiles an expression.
    ///
    /// # Errors
    ///
    /// Returns an error if the expression is invalid. The error says what to use instead.
    pub fn new(text: &str) -> Result<Pattern, String> {
        let regex = Regex::new(text)
            .map_err(|error| pattern_fault(text, &error.to_string(), PatternUse::Condition))?;
        // Must match the options of `Regex::new`, which accepted the expression.
        let parsed = ParserBuilder::new().utf8(false).build().parse(text);
        let mut prefix = Vec::new();
        let is_prefix =
            parsed.is_ok_and(|parsed| is_anchored(&parsed) && append_prefix(&parsed, &mut prefix));
        Ok(Pattern { prefix, is_prefix, regex })
    }

    /// Returns whether the expression matches anywhere in `line`.
    #[inline]
    pub fn is_match(&self, line: &[u8]) -> bool {
        if line.len() < self.prefix.len() {
            return false;
        }
        for (bytes, byte) in self.prefix.iter().zip(line) {
            if *byte >= 0x80 {
                return bytes.non_ascii && self.regex.is_match(line);
            }
            if !bytes.contains(*byte) {
                return false;
            }
        }
        self.is_prefix || self.regex.is_match(line)
    }
}

/// Returns whether the expression can match only at the start of a line.
fn is_anchored(hir: &Hir) -> bool {
    let first = match hir.kind() {
        HirKind::Concat(parts) => parts[0].kind(),
        kind => kind,
    };
    *first == HirKind::Look(Look::Start)
}

/// Appends the prefix of `hir`. Returns whether the prefix is the complete expression.
fn append_prefix(hir: &Hir, prefix: &mut Vec<ByteSet>) -> bool {
    if prefix.len() >= PREFIX_BYTES_MAX {
        return false;
    }
    match hir.kind() {
        HirKind::Look(Look::Start) => prefix.is_empty(),
        HirKind::Literal(literal) if literal.0.is_ascii() => {
            prefix.extend(literal.0.iter().map(|byte| {
                let mut bytes = ByteSet::default();
                bytes.insert(*byte);
                bytes
            }));
            true
        }
        HirKind::Class(class) => {
            prefix.push(byte_set(class));
            true
        }
        HirKind::Capture(capture) => append_prefix(&capture.sub, prefix),
        HirKind::Concat(parts) => parts.iter().all(|part| append_prefix(part, prefix)),
        HirKind::Repetition(repetition) => {
            let is_whole = (0..repetition.min).all(|_| append_prefix(&repetition.sub, prefix));
            is_whole && repetition.max == Some(repetition.min)
        }
        _ => false,
    }
}

fn byte_set(class: &Class) -> ByteSet {
    let mut bytes = ByteSet::default();
    let mut add = |start: u32, end: u32| {
        (start..=end.min(0x7F)).for_each(|byte| bytes.insert(byte as u8));
        bytes.non_ascii |= end >= 0x80;
    };
    match class {
        Class::Unicode(class) => {
            class.iter().for_each(|range| add(range.start().into(), range.end().into()))
        }
        Class::Bytes(class) => {
            class.iter().for_each(|range| add(range.start().into(), range.end().into()))
        }
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;
    use millstream_testkit_random::{TestSize, property};
    use proptest::prelude::*;
    use proptest::sample::select;

    const PATTERNS: &[&str] = &[
        "",
        "^",
        "^abc",
        "abc",
        "^a?b",
        "^ab*",
        "^ab+",
        "^ab{0,1}c",
        "^a{2}b",
        "^a{2,3}",
        "^(a|b)c",
        "^a|b",
        "^(?i)ab",
        "(?i)^ab",
        "(?m)^a",
        "(?s)^.a",
        "^.a",
        "^a.c$",
        "^$",
        "^(?:^a)",
        "^a^b",
        r"^\d{2}-\d\d",
        r"^(\d\d)-",
        r"^\w[^a]",
        r"^(?-u)\d[\x80-\xff]",
        "^[0-9]+ ",
        "^é",
        r"\Aab",
        r"\bab",
        "(^ab)",
    ];

    #[test]
    fn prefixes_are_extracted_from_anchored_expressions() {
        for (text, bytes, is_all) in [
            ("^abc", 3, true),
            (r"^\d{4}-\d\d-\d\d ", 11, true),
            (r"^\[\d+", 2, false),
            ("^(?i)error", 5, true),
            ("^a|b", 0, false),
            ("abc", 0, false),
            ("(?m)^a", 0, false),
        ] {
            let pattern = Pattern::new(text).unwrap();
            assert_eq!((pattern.prefix.len(), pattern.is_prefix), (bytes, is_all), "{text}");
        }
    }

    /// Number of cases per property.
    const CASES: TestSize = TestSize { gate: 4000, long: 100_000 };

    proptest! {
        #![proptest_config(property(CASES))]

        #[test]
        fn the_fast_path_agrees_with_the_regular_expression(
            text in select(PATTERNS),
            line in prop::collection::vec(select(b"aAbBc01- \xc3\xa9\xd9\xa1\x80".to_vec()), 0..8),
        ) {
            let (pattern, regex) = (Pattern::new(text).unwrap(), Regex::new(text).unwrap());
            prop_assert_eq!(pattern.is_match(&line), regex.is_match(&line), "{}", text);
        }
    }

    #[test]
    fn errors_say_what_to_write() {
        let error = Pattern::new(r"^(?!\s)").err().unwrap();
        assert_eq!(error, r"`(?!\s)` is look-ahead, which is not supported; use `(?:\S|$)`");
    }
}
