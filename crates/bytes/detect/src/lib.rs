//! Finds data that must not leave the host: card numbers, addresses, tokens, keys, and matches of
//! configured patterns. No I/O, no clock.
//!
//! A separate crate because it is pure and fuzzed alone.
//!
//! Detection has two steps. [`Detectors::candidates`] scans a whole block once and records the few
//! places where a match might begin or end ([`scan`]). [`Detectors::find`] then searches only the
//! values that contain such a place.

#![forbid(unsafe_code)]

mod address;
mod card;
mod email;
mod phone;
pub mod scan;
mod secret;

#[cfg(test)]
mod tests;

use regex::bytes::Regex;
use scan::{Pattern, Scanner};

/// A built-in detector.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::VariantArray)]
#[repr(u8)]
pub enum Detector {
    /// Payment card numbers.
    Card = 0,
    /// Email addresses.
    Email = 1,
    /// Telephone numbers.
    Phone = 2,
    /// IPv4 and IPv6 addresses.
    Ip = 3,
    /// Tokens with a recognizable form: JWT, bearer tokens, tokens of well-known services.
    Token = 4,
    /// Private keys in PEM, and values that follow names such as `password`.
    Key = 5,
}

impl Detector {
    /// All detectors, in numeric order.
    pub const ALL: &[Detector] = <Detector as strum::VariantArray>::VARIANTS;

    /// Returns the name used in configurations.
    pub fn name(self) -> &'static str {
        ["card", "email", "phone", "ip", "token", "key"][self as usize]
    }

    fn mask(self) -> u8 {
        1 << self as u8
    }
}

/// A part of the text that must be hidden.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Hit {
    /// Position of the first byte.
    pub start: usize,
    /// Position after the last byte.
    pub end: usize,
    /// The source of the hit: the number of a [`Detector`], or [`PATTERN`] plus the index of a
    /// pattern.
    pub what: usize,
}

/// In [`Hit::what`], the number of the first pattern.
pub const PATTERN: usize = Detector::ALL.len();

/// A place near which a detector might find a match.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Candidate {
    /// Position of a byte in the match, or of the byte before the match.
    pub at: u32,
    /// The detectors that might match, as in [`Detectors::mask`].
    pub mask: u8,
}

/// A set of detectors and patterns.
#[derive(Clone, Debug)]
pub struct Detectors {
    mask: u8,
    scanner: Scanner,
    patterns: Vec<Regex>,
}

impl Detectors {
    /// Creates a set of detectors and user patterns. A pattern hides its group 1, or the whole
    /// match if group 1 does not exist or did not participate in the match.
    pub fn new(detectors: &[Detector], patterns: Vec<Regex>) -> Detectors {
        let triggers_of = |detector: Detector| {
            let triggers: &[Pattern] = match detector {
                Detector::Card => card::TRIGGERS,
                Detector::Email => email::TRIGGERS,
                Detector::Phone => phone::TRIGGERS,
                Detector::Ip => address::TRIGGERS,
                Detector::Token => secret::TOKEN_TRIGGERS,
                Detector::Key => secret::KEY_TRIGGERS,
            };
            triggers.iter().map(move |trigger| (*trigger, detector.mask()))
        };
        let scanner = Scanner::new(detectors.iter().copied().flat_map(triggers_of));
        let mask = detectors.iter().fold(0, |mask, detector| mask | detector.mask());
        Detectors { mask, scanner, patterns }
    }

    /// Returns the enabled built-in detectors as a bit set.
    pub fn mask(&self) -> u8 {
        self.mask
    }

    /// Returns whether there are patterns. Every value must be searched for patterns.
    pub fn has_patterns(&self) -> bool {
        !self.patterns.is_empty()
    }

    /// Appends to `out` every place near which a built-in detector might find a match, in ascending
    /// order. If a detector finds a match in a part of `block`, that part contains such a place.
    pub fn candidates(&self, block: &[u8], out: &mut Vec<Candidate>) {
        self.scanner.scan(block, out);
    }

    /// Appends the hits of the patterns and the detectors in `mask` to `out`, in ascending order
    /// and without overlaps.
    pub fn find(&self, text: &[u8], mask: u8, out: &mut Vec<Hit>) {
        let begin = out.len();
        for &detector in Detector::ALL.iter().filter(|one| one.mask() & mask & self.mask != 0) {
            let mut hit = |start, end| out.push(Hit { start, end, what: detector as usize });
            match detector {
                Detector::Card => card::find(text, &mut hit),
                Detector::Email => email::find(text, &mut hit),
                Detector::Phone => phone::find(text, &mut hit),
                Detector::Ip => address::find(text, &mut hit),
                Detector::Token => secret::find_tokens(text, &mut hit),
                Detector::Key => secret::find_keys(text, &mut hit),
            }
        }
        for (index, pattern) in self.patterns.iter().enumerate() {
            for found in pattern.captures_iter(text) {
                let hidden = found.get(1).or(found.get(0)).map(|part| part.range());
                let hidden = hidden.filter(|range| !range.is_empty());
                out.extend(hidden.map(|r| Hit {
                    start: r.start,
                    end: r.end,
                    what: PATTERN + index,
                }));
            }
        }
        join(out, begin);
    }

    /// Returns whether the whole value of a field with this name, such as `password`, must be
    /// hidden. Requires [`Detector::Key`].
    pub fn is_secret_name(&self, name: &[u8]) -> bool {
        self.mask & Detector::Key.mask() != 0 && secret::is_name(name)
    }
}

/// Sorts the hits that start at index `begin`, and merges overlapping hits.
pub fn join(hits: &mut Vec<Hit>, begin: usize) {
    hits[begin..].sort_unstable();
    let mut kept = begin;
    for index in begin..hits.len() {
        let hit = hits[index];
        if kept > begin && hit.start < hits[kept - 1].end {
            hits[kept - 1].end = hits[kept - 1].end.max(hit.end);
        } else {
            hits[kept] = hit;
            kept += 1;
        }
    }
    hits.truncate(kept);
}
