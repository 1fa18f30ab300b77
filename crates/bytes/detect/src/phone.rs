//! Phone numbers: E.164 numbers with a plus sign, and national numbers in formats that rarely occur
//! in other data.

use crate::scan::Pattern;
use regex::bytes::Regex;
use std::sync::LazyLock;

const PART: &[u8] = b"0123456789 .()/+-";

/// Minimum bytes of a number. Shorter text is rarely a phone number, and all of it would have to be
/// checked.
const BYTES_MIN: usize = 9;

pub(crate) const TRIGGERS: &[Pattern] = &[&[PART; BYTES_MIN]];

static NUMBER: LazyLock<Regex> = LazyLock::new(|| {
    let writings = [
        // International: a plus sign and 8 to 15 digits, grouped or not.
        r"\+[1-9](?:[ ./-]?\(?[0-9]\)?){7,14}",
        // North America.
        r"\([0-9]{3}\) ?[0-9]{3}[ .-][0-9]{4}",
        r"[0-9]{3}-[0-9]{3}-[0-9]{4}",
        r"[0-9]{3}\.[0-9]{3}\.[0-9]{4}",
        // Area code with a leading zero.
        r"\(0[0-9]{2,4}\) ?[0-9]{3,8}(?:[ -][0-9]{2,4}){0,2}",
        r"0[1-9][0-9]{1,3}[ /-][0-9]{3,8}(?:[ -][0-9]{2,4}){0,3}",
    ];
    Regex::new(&format!("(?-u){}", writings.join("|"))).expect("a valid expression")
});

pub(crate) fn find(text: &[u8], hit: &mut impl FnMut(usize, usize)) {
    for found in NUMBER.find_iter(text) {
        let is_word = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_alphanumeric);
        let before = found.start().checked_sub(1).and_then(|at| text.get(at));
        let goes_on =
            matches!(&text[found.end()..], [b'.' | b'-', digit, ..] if digit.is_ascii_digit());
        if found.len() >= BYTES_MIN
            && !is_word(before)
            && !matches!(before, Some(b'.' | b'-'))
            && !is_word(text.get(found.end()))
            && !goes_on
        {
            hit(found.start(), found.end());
        }
    }
}
