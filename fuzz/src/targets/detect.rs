//! Detection of data that must not leave the host.

use crate::lines::{lines, lossy};
use millstream_detect::{Candidate, Detector, Detectors, Hit, PATTERN};
use regex::bytes::Regex;
use std::sync::LazyLock;

pub const WORDS: &[&[u8]] = &[
    b"4111111111111111",
    b"4111 1111 1111 1111",
    b"5500-0000-0000-0004",
    b"a.b@example.com",
    b"@",
    b"+49 30 1234567",
    b"(555) 123-4567",
    b"10.0.0.1",
    b"::ffff:10.0.0.1",
    b"fe80::1%eth0",
    b"2001:db8::",
    b"::",
    b"Bearer ",
    b"eyJhbGciOi",
    b"ghp_",
    b"AKIA",
    b"password=",
    b"\"secret\": \"",
    b"api_key: ",
    b"-----BEGIN RSA PRIVATE KEY-----",
    b"-----END RSA PRIVATE KEY-----",
    b"\n",
    b" ",
    b".",
    b":",
    b"-",
    b"0",
    "é".as_bytes(),
    b"\xFF",
    b"\\\"",
    b"id-77",
];

/// All built-in detectors, and two patterns.
static DETECTORS: LazyLock<Detectors> = LazyLock::new(|| {
    let patterns = [r"id-\d+", "(?s-u)k(.?)k"].map(|text| Regex::new(text).expect("sound"));
    Detectors::new(Detector::ALL, patterns.to_vec())
});

/// Checks that hits are within the text and in order, and that the text and every line with a hit
/// of a built-in detector contain a candidate for this detector.
pub fn detect(input: &[u8]) {
    let mut candidates = Vec::new();
    DETECTORS.candidates(input, &mut candidates);
    assert!(candidates.is_sorted_by_key(|candidate| candidate.at), "candidates are in order");
    assert!(
        candidates.iter().all(|candidate| (candidate.at as usize) < input.len().max(1)),
        "candidates are inside"
    );
    piece(input, 0, &candidates);
    let mut at = 0;
    for line in lines(input) {
        piece(line, at, &candidates);
        at += line.len() + 1;
    }
}

/// Checks `text`, which is the part of the input that begins at `at`.
fn piece(text: &[u8], at: usize, candidates: &[Candidate]) {
    let hits = find(text, u8::MAX);
    assert!(
        hits.iter().all(|hit| hit.start < hit.end && hit.end <= text.len()),
        "{hits:?}: {}",
        lossy(text)
    );
    assert!(hits.windows(2).all(|pair| pair[0].end <= pair[1].start), "{hits:?}: {}", lossy(text));
    for &one in Detector::ALL {
        let hits = find(text, 1 << one as u8);
        // Patterns are searched for regardless of the mask.
        let Some(hit) = hits.iter().find(|hit| hit.what < PATTERN) else { continue };
        let is_near = |candidate: &&Candidate| {
            candidate.mask & 1 << one as u8 != 0
                && (at..at + text.len()).contains(&(candidate.at as usize))
        };
        assert!(
            candidates.iter().any(|c| is_near(&c)),
            "{} {hit:?} without a candidate: {}",
            one.name(),
            lossy(text)
        );
    }
    if let Ok(text) = std::str::from_utf8(text) {
        let built_in = hits.iter().filter(|hit| hit.what < PATTERN);
        let mut ends = built_in.flat_map(|hit| [hit.start, hit.end]);
        assert!(ends.all(|at| text.is_char_boundary(at)), "{hits:?} cut a character: {text}");
    }
}

fn find(text: &[u8], mask: u8) -> Vec<Hit> {
    let mut hits = Vec::new();
    DETECTORS.find(text, mask, &mut hits);
    hits
}
