//! Payment card numbers: 13 to 19 digits in the ranges of the card networks, with a valid check
//! digit (Luhn, ISO/IEC 7812-1). A number may be written without separators, or in groups of which
//! the first has four digits. Programs without integer types write it as a floating-point number:
//! `4111111111111111.0`, `4.111111111111111e+15`.

use crate::scan::Pattern;

const PART: &[u8] = b"0123456789 -";

/// A card number contains 13 consecutive digits, spaces and dashes. The exception is scientific
/// notation with few decimals, such as `4.2e+15`, which is not searched for.
pub(crate) const TRIGGERS: &[Pattern] = &[&[PART; 13]];

const DIGITS_MIN: usize = 13;
const DIGITS_MAX: usize = 19;

pub(crate) fn find(text: &[u8], hit: &mut impl FnMut(usize, usize)) {
    let mut at = 0;
    while at < text.len() {
        if !text[at].is_ascii_digit() {
            at += 1;
            continue;
        }
        let end = at + digits(&text[at..]);
        at = match number_end(text, at, end) {
            Some(behind) => {
                hit(at, behind);
                behind
            }
            None => end,
        };
    }
}

fn digits(text: &[u8]) -> usize {
    text.iter().take_while(|byte| byte.is_ascii_digit()).count()
}

/// Returns the end of a card number whose first digits are `text[start..end]`, or `None` if there
/// is no such number.
fn number_end(text: &[u8], start: usize, end: usize) -> Option<usize> {
    if is_inside(text, start) {
        return None;
    }
    if (DIGITS_MIN..=DIGITS_MAX).contains(&(end - start)) {
        let behind = end + fraction_of_zeros(&text[end..]);
        return (is_outside(text, behind) && is_card(&text[start..end])).then_some(behind);
    }
    if let Some((number, behind)) = with_exponent(text, start, end) {
        return (is_outside(text, behind) && is_card(&number)).then_some(behind);
    }
    let separator = *text.get(end).filter(|byte| matches!(byte, b' ' | b'-'))?;
    if end - start != 4 {
        return None;
    }
    let (mut number, mut longest, mut behind) = (text[start..end].to_vec(), None, end);
    while text.get(behind) == Some(&separator) {
        let group = digits(&text[behind + 1..]);
        if group == 0 || group > 7 || number.len() + group > DIGITS_MAX {
            break;
        }
        number.extend_from_slice(&text[behind + 1..behind + 1 + group]);
        behind += 1 + group;
        if number.len() >= DIGITS_MIN && is_outside(text, behind) && is_card(&number) {
            longest = Some(behind);
        }
    }
    longest
}

/// Returns the length of an all-zero fraction at the beginning of `text`, including the dot.
fn fraction_of_zeros(text: &[u8]) -> usize {
    let fraction = text.strip_prefix(b".").unwrap_or_default();
    let zeros = fraction.iter().take_while(|byte| **byte == b'0').count();
    if zeros > 0 { 1 + zeros } else { 0 }
}

/// Returns the digits and the end of an integer in scientific notation whose first digits are
/// `text[start..end]`. Returns `None` if there is no such number.
fn with_exponent(text: &[u8], start: usize, end: usize) -> Option<(Vec<u8>, usize)> {
    let fraction = text[end..].strip_prefix(b".").filter(|_| end - start == 1)?;
    let decimals = digits(fraction);
    let rest = &fraction[decimals..];
    let exponent = rest.strip_prefix(b"e").or_else(|| rest.strip_prefix(b"E"))?;
    let exponent = exponent.strip_prefix(b"+").unwrap_or(exponent);
    let places = digits(exponent);
    let value: usize = std::str::from_utf8(&exponent[..places]).ok()?.parse().ok()?;
    if value >= DIGITS_MAX || decimals > value {
        return None;
    }
    let mut number = vec![text[start]];
    number.extend_from_slice(&fraction[..decimals]);
    number.resize(value + 1, b'0');
    let behind = text.len() - exponent.len() + places;
    Some((number, behind)).filter(|(number, _)| number.len() >= DIGITS_MIN)
}

/// Returns whether the bytes at `start` continue a word or a fraction.
fn is_inside(text: &[u8], start: usize) -> bool {
    match &text[..start] {
        [.., b'\\', b'n' | b'r' | b't'] => false,
        [.., digit, b'.'] => digit.is_ascii_digit(),
        [.., before] => before.is_ascii_alphanumeric(),
        [] => false,
    }
}

/// Returns whether the text at `end` does not continue a word or a fraction.
fn is_outside(text: &[u8], end: usize) -> bool {
    match &text[end..] {
        [b'.', digit, ..] => !digit.is_ascii_digit(),
        [after, ..] => !after.is_ascii_alphanumeric(),
        [] => true,
    }
}

fn is_card(number: &[u8]) -> bool {
    is_issued(number) && luhn(number)
}

/// Returns whether a card network issues numbers with this prefix and length.
fn is_issued(number: &[u8]) -> bool {
    let first = number[..4].iter().fold(0, |value, digit| value * 10 + u32::from(digit - b'0'));
    matches!(
        (first, number.len()),
        (4000..=4999, 13 | 16 | 19)
            | (5100..=5599 | 2221..=2720, 16)
            | (3400..=3499 | 3700..=3799, 15)
            | (3000..=3059 | 3095 | 3600..=3699 | 3800..=3999, 14..=19)
            | (3528..=3589 | 6011 | 6200..=6299 | 6440..=6599 | 8100..=8171, 16..=19)
            | (5018 | 5020 | 5038 | 5893 | 6304 | 6759 | 6761..=6763, 13..=19)
            | (2200..=2204, 16..=19)
    )
}

fn luhn(number: &[u8]) -> bool {
    let value = |(index, digit): (usize, &u8)| {
        let digit = u32::from(digit - b'0');
        if index % 2 == 0 { digit } else { digit * 2 / 10 + digit * 2 % 10 }
    };
    number.iter().rev().enumerate().map(value).sum::<u32>().is_multiple_of(10)
}
