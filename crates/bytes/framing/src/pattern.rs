//! Regular expressions over lines, with a short cut for those that begin with fixed characters.

use regex::bytes::Regex;
use regex_syntax::ParserBuilder;
use regex_syntax::hir::{Class, Hir, HirKind, Look};

/// Most bytes of a line that the short cut looks at.
const PREFIX_BYTES_MAX: usize = 32;

/// A regular expression.
#[derive(Clone, Debug)]
pub struct Pattern {
    /// What a match at the beginning of the line begins with; empty if a match may begin elsewhere.
    prefix: Vec<Bytes>,
    /// The prefix is the whole expression.
    is_prefix: bool,
    regex: Regex,
}

/// The ASCII characters that may stand at a place, by their bits; and whether others may.
#[derive(Clone, Copy, Debug, Default)]
struct Bytes {
    ascii: [u64; 2],
    others: bool,
}

impl Bytes {
    fn add(&mut self, byte: u8) {
        self.ascii[usize::from(byte >> 6)] |= 1 << (byte & 63);
    }

    /// Whether an ASCII character may stand there.
    #[inline]
    fn has(&self, byte: u8) -> bool {
        self.ascii[usize::from(byte >> 6 & 1)] >> (byte & 63) & 1 == 1
    }
}

impl Pattern {
    /// Compiles it.
    ///
    /// # Errors
    ///
    /// What is wrong with it.
    pub fn new(text: &str) -> Result<Pattern, String> {
        let regex = Regex::new(text).map_err(|error| error.to_string())?;
        // The same options as those of the expression, which was accepted.
        let parsed = ParserBuilder::new().utf8(false).build().parse(text);
        let mut prefix = Vec::new();
        let is_prefix =
            parsed.is_ok_and(|parsed| is_anchored(&parsed) && read(&parsed, &mut prefix));
        Ok(Pattern { prefix, is_prefix, regex })
    }

    /// Whether it is found in `line`.
    #[inline]
    pub fn is_match(&self, line: &[u8]) -> bool {
        if line.len() < self.prefix.len() {
            return false;
        }
        for (bytes, byte) in self.prefix.iter().zip(line) {
            if *byte >= 0x80 {
                return bytes.others && self.regex.is_match(line);
            }
            if !bytes.has(*byte) {
                return false;
            }
        }
        self.is_prefix || self.regex.is_match(line)
    }
}

/// Whether it matches at the beginning of a line only.
fn is_anchored(hir: &Hir) -> bool {
    let first = match hir.kind() {
        HirKind::Concat(parts) => parts[0].kind(),
        kind => kind,
    };
    *first == HirKind::Look(Look::Start)
}

/// Appends what `hir` begins with; whether that is all of it.
fn read(hir: &Hir, prefix: &mut Vec<Bytes>) -> bool {
    if prefix.len() >= PREFIX_BYTES_MAX {
        return false;
    }
    match hir.kind() {
        HirKind::Look(Look::Start) => prefix.is_empty(),
        HirKind::Literal(literal) if literal.0.is_ascii() => {
            prefix.extend(literal.0.iter().map(|byte| {
                let mut bytes = Bytes::default();
                bytes.add(*byte);
                bytes
            }));
            true
        }
        HirKind::Class(class) => {
            prefix.push(of(class));
            true
        }
        HirKind::Capture(capture) => read(&capture.sub, prefix),
        HirKind::Concat(parts) => parts.iter().all(|part| read(part, prefix)),
        HirKind::Repetition(repetition) => {
            let is_whole = (0..repetition.min).all(|_| read(&repetition.sub, prefix));
            is_whole && repetition.max == Some(repetition.min)
        }
        _ => false,
    }
}

fn of(class: &Class) -> Bytes {
    let mut bytes = Bytes::default();
    let mut add = |start: u32, end: u32| {
        (start..=end.min(0x7F)).for_each(|byte| bytes.add(byte as u8));
        bytes.others |= end >= 0x80;
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
    fn common_expressions_are_known_by_their_prefix() {
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

    proptest! {
        #![proptest_config(ProptestConfig { cases: 4000, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn the_short_cut_answers_what_the_expression_answers(
            text in select(PATTERNS),
            line in prop::collection::vec(select(b"aAbBc01- \xc3\xa9\xd9\xa1\x80".to_vec()), 0..8),
        ) {
            let (pattern, regex) = (Pattern::new(text).unwrap(), Regex::new(text).unwrap());
            prop_assert_eq!(pattern.is_match(&line), regex.is_match(&line), "{}", text);
        }
    }
}
