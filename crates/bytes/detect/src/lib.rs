//! What must not leave the host: card numbers, addresses, tokens, keys, and whatever a pattern
//! says. No I/O, no clock.
//!
//! A separate crate because it is pure and fuzzed alone.
//!
//! It works in two steps. [`Detectors::candidates`] goes once over a whole block and notes the few
//! places where something might end or begin ([`scan`]); [`Detectors::find`] looks at a text that
//! has such a place. A text without one is never looked at.

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

/// A detector that is built in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Detector {
    /// Numbers of payment cards.
    Card = 0,
    /// E-mail addresses.
    Email = 1,
    /// Telephone numbers.
    Phone = 2,
    /// IPv4 and IPv6 addresses.
    Ip = 3,
    /// Tokens with a known shape: JWT, bearer tokens, tokens of well-known services.
    Token = 4,
    /// Private keys in PEM, and values behind names such as `password`.
    Key = 5,
}

impl Detector {
    /// All of them, in the order of their numbers.
    pub const ALL: [Detector; 6] = [
        Detector::Card,
        Detector::Email,
        Detector::Phone,
        Detector::Ip,
        Detector::Token,
        Detector::Key,
    ];

    /// Its name, as configurations have it.
    pub fn name(self) -> &'static str {
        ["card", "email", "phone", "ip", "token", "key"][self as usize]
    }

    fn mask(self) -> u8 {
        1 << self as u8
    }
}

/// A part of a text that is to be hidden.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Hit {
    /// Its first byte.
    pub start: usize,
    /// Behind its last byte.
    pub end: usize,
    /// What found it: the number of a [`Detector`], or [`PATTERN`] and the index of the pattern.
    pub what: usize,
}

/// From this number on, what found a hit is a pattern.
pub const PATTERN: usize = Detector::ALL.len();

/// A place near which something might be found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Candidate {
    /// Position of a byte that is part of it, or stands right before it.
    pub at: u32,
    /// By which detectors: their [`Detectors::mask`].
    pub mask: u8,
}

/// Several detectors and patterns.
#[derive(Clone, Debug)]
pub struct Detectors {
    mask: u8,
    scanner: Scanner,
    patterns: Vec<Regex>,
}

impl Detectors {
    /// These detectors, and patterns of the user's: what group 1 of a pattern matches, or all of it
    /// if it has no group, is found.
    pub fn new(detectors: &[Detector], patterns: Vec<Regex>) -> Detectors {
        let of = |detector: Detector| {
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
        let scanner = Scanner::new(detectors.iter().copied().flat_map(of));
        let mask = detectors.iter().fold(0, |mask, detector| mask | detector.mask());
        Detectors { mask, scanner, patterns }
    }

    /// All built-in detectors that are on, as a set of bits.
    pub fn mask(&self) -> u8 {
        self.mask
    }

    /// Whether there are patterns, which are looked for in every text.
    pub fn has_patterns(&self) -> bool {
        !self.patterns.is_empty()
    }

    /// Puts every place into `out` near which a built-in detector might find something, ascending.
    /// Any piece of `block` in which one finds something has such a place within it.
    pub fn candidates(&self, block: &[u8], out: &mut Vec<Candidate>) {
        self.scanner.scan(block, out);
    }

    /// Puts what the detectors of `mask` and the patterns find in `text` into `out`, ascending and
    /// without overlap.
    pub fn find(&self, text: &[u8], mask: u8, out: &mut Vec<Hit>) {
        let begin = out.len();
        for detector in Detector::ALL.into_iter().filter(|one| one.mask() & mask & self.mask != 0) {
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

    /// Whether what a field of this name holds is to be hidden whole, as `password`: with
    /// [`Detector::Key`] only.
    pub fn is_secret_name(&self, name: &[u8]) -> bool {
        self.mask & Detector::Key.mask() != 0 && secret::is_name(name)
    }
}

/// Sorts the hits from `begin` on, and joins those that overlap.
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
