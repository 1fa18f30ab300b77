//! IP addresses in the syntax that the standard library accepts.

use crate::scan::Pattern;
use std::net::{Ipv4Addr, Ipv6Addr};

const HEX: &[u8] = b"0123456789abcdef:";
const DIGIT: &[u8] = b"0123456789";

pub(crate) const TRIGGERS: &[Pattern] = &[&[DIGIT, b".", DIGIT], &[b":", HEX], &[HEX, b":", HEX]];

pub(crate) fn find(text: &[u8], hit: &mut impl FnMut(usize, usize)) {
    let is_part = |byte: &u8| byte.is_ascii_hexdigit() || matches!(byte, b':' | b'.');
    let mut at = 0;
    while at < text.len() {
        let len = text[at..].iter().take_while(|byte| is_part(byte)).count();
        let is_word = |at: usize| {
            text.get(at).is_some_and(|byte| byte.is_ascii_alphanumeric() || *byte == b'_')
        };
        let (mut start, mut end) = (at, at + len);
        // A part that touches a word is not an address, as in `addr:10.0.0.1` or `10.0.0.1:x`.
        if at > 0 && is_word(at - 1) && !is_escape(text, at) {
            let colon = text[at..end].iter().position(|byte| *byte == b':');
            start = colon.map_or(end, |colon| at + colon);
            start += text[start..end].iter().take_while(|byte| **byte == b':').count();
        }
        if is_word(at + len) {
            end = text[start..end]
                .iter()
                .rposition(|byte| *byte == b':')
                .map_or(start, |colon| start + colon);
        }
        part(text, start, end, hit);
        at += len + 1;
    }
}

fn is_escape(text: &[u8], at: usize) -> bool {
    at >= 2 && text[at - 2] == b'\\' && b"nrt".contains(&text[at - 1])
}

/// Finds the addresses in a run of characters that addresses may contain.
fn part(text: &[u8], start: usize, end: usize, hit: &mut impl FnMut(usize, usize)) {
    let mut run = &text[start..end];
    let count = |sign| run.iter().filter(|byte| **byte == sign).count();
    if run.len() < 3 || count(b'.') < 3 && count(b':') < 2 {
        return;
    }
    let mut start = start;
    while let [b'.', rest @ ..] = run {
        (run, start) = (rest, start + 1);
    }
    while let [rest @ .., b'.'] = run {
        run = rest;
    }
    // The run can be an address with a port, or an address with a colon before or after it.
    let whole = [Some(run), run.strip_suffix(b":"), run.strip_prefix(b":"), before_port(run)];
    for text in whole.into_iter().flatten() {
        if is_address(text) {
            let skipped =
                usize::from(text.len() < run.len() && run.strip_prefix(b":") == Some(text));
            return hit(start + skipped, start + skipped + text.len());
        }
    }
    // The run can contain several addresses, or an address between other parts: `a:10.0.0.1:80`.
    let mut at = start;
    for piece in run.split(|byte| *byte == b':') {
        if is_v4(piece) {
            hit(at, at + piece.len());
        }
        at += piece.len() + 1;
    }
}

fn before_port(run: &[u8]) -> Option<&[u8]> {
    let colon = run.iter().rposition(|byte| *byte == b':')?;
    Some(&run[..colon]).filter(|address| is_v4(address))
}

fn is_v4(text: &[u8]) -> bool {
    // Unlike `Ipv4Addr`, this accepts leading zeros.
    let octet = |part: &[u8]| {
        let is_short = (1..=3).contains(&part.len()) && part.iter().all(u8::is_ascii_digit);
        is_short && part.iter().fold(0, |value, digit| value * 10 + u32::from(digit - b'0')) <= 255
    };
    let mut parts = 0;
    text.split(|byte| *byte == b'.').all(|part| {
        parts += 1;
        octet(part)
    }) && parts == 4
}

fn is_address(text: &[u8]) -> bool {
    let Ok(words) = std::str::from_utf8(text) else { return false };
    let is_v6 = || {
        let colons = text.iter().filter(|byte| **byte == b':').count();
        let has_digit = text.iter().any(u8::is_ascii_digit);
        colons >= 2 && (has_digit || colons >= 4) && words.parse::<Ipv6Addr>().is_ok()
    };
    is_v4(text) || words.parse::<Ipv4Addr>().is_ok() || is_v6()
}
