//! Email addresses: `local@domain`, where the domain has a dot and a plausible top-level domain.

use crate::scan::Pattern;
use memchr::{memchr_iter, memmem};

/// The encoding of `@` in URLs.
const ENCODED: &[u8] = b"%40";

pub(crate) const TRIGGERS: &[Pattern] = &[&[b"@"], &[b"%", b"4", b"0"]];

pub(crate) fn find(text: &[u8], hit: &mut impl FnMut(usize, usize)) {
    memchr_iter(b'@', text).for_each(|at| around(text, at, at + 1, hit));
    memmem::find_iter(text, ENCODED).for_each(|at| around(text, at, at + ENCODED.len(), hit));
}

/// Finds the address around the `@` or its encoding at `text[at..behind]`.
fn around(text: &[u8], at: usize, behind: usize, hit: &mut impl FnMut(usize, usize)) {
    let local = text[..at].iter().rev().take_while(|byte| is_local(**byte)).count();
    let domain = text[behind..].iter().take_while(|byte| is_domain(**byte)).count();
    let domain = trim_end(&text[behind..behind + domain]);
    let start = at - local + skip_escape(text, at - local, at);
    if start < at && has_top_level(domain) {
        hit(start, behind + domain.len());
    }
}

fn is_local(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"._%+-!#$*^~".contains(&byte) || byte >= 0x80
}

fn is_domain(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'.' || byte == b'-' || byte >= 0x80
}

/// Returns the number of bytes to skip for an escape at `start`. A letter after a backslash is not
/// part of the address: in `\nme@example.com`, `\n` is a newline.
fn skip_escape(text: &[u8], start: usize, at: usize) -> usize {
    usize::from(
        start > 0 && text[start - 1] == b'\\' && start + 1 < at && b"nrt".contains(&text[start]),
    )
}

fn trim_end(domain: &[u8]) -> &[u8] {
    let cut = domain.iter().rev().take_while(|byte| matches!(byte, b'.' | b'-')).count();
    &domain[..domain.len() - cut]
}

/// Returns whether any label except the first begins with two letters.
fn has_top_level(domain: &[u8]) -> bool {
    let mut labels = domain.split(|byte| *byte == b'.');
    let first = labels.next().is_some_and(|label| !label.is_empty());
    let is_letter = |byte: &u8| byte.is_ascii_alphabetic() || *byte >= 0x80;
    first && labels.any(|label| label.len() >= 2 && label[..2].iter().all(is_letter))
}
