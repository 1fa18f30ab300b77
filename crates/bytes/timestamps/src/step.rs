//! The steps of a compiled format, each of which parses a part of the text.

use crate::fields::{Fields, TimeField, ZoneField};
use crate::{SECOND_NS, zone};

/// A step of a format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// A literal byte.
    Byte(u8),
    /// `T`, `t` or a space.
    DateEnd,
    /// Two digits.
    Two(TimeField),
    /// One or two digits, or a space and a digit.
    Padded(TimeField),
    /// A four-digit year.
    Year,
    /// A two-digit year: 69 to 99 are in the 20th century, and all other years are in the 21st
    /// century.
    YearOfCentury,
    /// A three-digit day of the year.
    DayOfYear,
    /// Hour, minute and second, two digits each, with this separator.
    Clock(u8),
    /// Year, month and day with this separator: `2026-11-21`.
    YearMonthDay(u8),
    /// Day, month name and year with this separator: `21/Nov/2026`.
    DayMonthYear(u8),
    /// The name of a month, either its first three letters or in full.
    Month { full: bool },
    /// The name of a weekday, which is not compared with the date.
    Weekday { full: bool },
    /// An hour in 12-hour time.
    Hour12 { padded: bool },
    /// `AM` or `PM`.
    Meridiem,
    /// The digits of fractional seconds: their minimum and maximum number.
    Fraction(u8, u8),
    /// An optional decimal point or comma followed by one to nine digits.
    PointFraction,
    /// `+02:00`, `+0200`, `+02` or `Z`. May be optional.
    Offset { optional: bool },
    /// `UTC` or `GMT`.
    Utc,
    /// `UTC`, `GMT` or a name that the time zone uses, such as `CEST`.
    ZoneName,
    /// A count since 1970. The value is the unit in nanoseconds.
    Epoch(i64),
}

/// Returns the value of a digit, or at least 10 for any other byte.
#[inline]
fn digit(byte: u8) -> u8 {
    byte.wrapping_sub(b'0')
}

#[inline]
pub fn two_digits(text: &[u8], at: usize) -> Option<u16> {
    let [tens, ones] = [digit(*text.get(at)?), digit(*text.get(at + 1)?)];
    (tens < 10 && ones < 10).then_some(u16::from(tens) * 10 + u16::from(ones))
}

/// Returns the value and number of the digits at the start of `text`, at most `most` digits. The
/// value is exact for up to 19 digits.
#[inline]
pub fn parse_digits(text: &[u8], most: usize) -> (u64, usize) {
    let (mut value, mut len) = (0_u64, 0);
    while let Some(chunk) = text[len..].first_chunk() {
        let (more, count) = parse_up_to_eight(u64::from_le_bytes(*chunk), most - len);
        value = value.wrapping_mul(TENS[count]).wrapping_add(more);
        len += count;
        if count < 8 {
            return (value, len);
        }
    }
    for byte in text[len..].iter().take(most - len).take_while(|byte| byte.is_ascii_digit()) {
        value = value.wrapping_mul(10).wrapping_add(u64::from(digit(*byte)));
        len += 1;
    }
    (value, len)
}

const TENS: [u64; 10] =
    [1, 10, 100, 1000, 10_000, 100_000, 1_000_000, 10_000_000, 100_000_000, 1_000_000_000];

/// Parses up to eight digits at once. The lowest byte is the first digit.
#[inline]
fn parse_up_to_eight(bytes: u64, most: usize) -> (u64, usize) {
    const EACH: u64 = 0x0101_0101_0101_0101;
    let values = bytes ^ (EACH * 0x30);
    // Sets the high bit of each byte that is above 9. The additions never carry into the next byte.
    let others = (((values & (EACH * 0x7F)) + EACH * 0x76) | values) & (EACH * 0x80);
    let count = (others.trailing_zeros() as usize / 8).min(most);
    if count == 0 {
        return (0, 0);
    }
    // The shift adds leading zeros, because the first digit is in the lowest byte.
    let ones = values << (64 - 8 * count);
    // Combines neighboring digits into pairs, pairs into fours, and fours into eight.
    let pairs = ((ones * 10) + (ones >> 8)) & 0x00FF_00FF_00FF_00FF;
    let fours = ((pairs * 100) + (pairs >> 16)) & 0x0000_FFFF_0000_FFFF;
    (((fours * 10_000) + (fours >> 32)) & 0xFFFF_FFFF, count)
}

/// Converts a fraction with `len` digits, at most nine, to nanoseconds.
#[inline]
pub fn fraction_ns(value: u64, len: usize) -> i64 {
    (value * TENS[9 - len]) as i64
}

impl Step {
    /// Parses this step at `at`. Returns the position of the next step, or `None` if the text does
    /// not match.
    #[inline]
    pub fn read(self, text: &[u8], at: usize, fields: &mut Fields) -> Option<usize> {
        match self {
            Step::Byte(byte) => (*text.get(at)? == byte).then_some(at + 1),
            Step::DateEnd => matches!(text.get(at)?, b'T' | b't' | b' ').then_some(at + 1),
            Step::Two(part) => {
                fields.set(part, two_digits(text, at)?);
                if part == TimeField::Second {
                    fields.second_at = Some(at);
                }
                Some(at + 2)
            }
            Step::Clock(separator) => clock(text, at, separator, fields),
            Step::YearMonthDay(separator) => year_month_day(text, at, separator, fields),
            Step::DayMonthYear(separator) => day_month_year(text, at, separator, fields),
            Step::Month { full: false } => {
                fields.set(TimeField::Month, short_month(text.get(at..)?.first_chunk()?)?);
                Some(at + 3)
            }
            Step::Offset { optional } => offset(text, at, optional, fields),
            Step::Fraction(least, most) => fraction(text, at, least, most, fields),
            Step::PointFraction => match text.get(at) {
                // A point that no digits follow ends a sentence and is not part of the time.
                Some(b'.' | b',') => fraction(text, at + 1, 1, 9, fields).or(Some(at)),
                _ => Some(at),
            },
            Step::Epoch(unit_ns) => {
                // Allows one digit more than the longest valid number, so that longer numbers are
                // detected.
                let (value, len) = parse_digits(text.get(at..)?, 20);
                fields.epoch_ns = i64::try_from(value).ok()?.checked_mul(unit_ns)?;
                (1..20).contains(&len).then_some(at + len)
            }
            other => other.parse_number(text, at, fields),
        }
    }

    /// Parses numbers in less common formats.
    fn parse_number(self, text: &[u8], at: usize, fields: &mut Fields) -> Option<usize> {
        let (part, value, end) = match self {
            Step::Padded(part) => {
                let (value, end) = padded(text, at)?;
                (part, value, end)
            }
            Step::Year => {
                (TimeField::Year, two_digits(text, at)? * 100 + two_digits(text, at + 2)?, at + 4)
            }
            Step::YearOfCentury => {
                let year = two_digits(text, at)?;
                (TimeField::Year, year + if year < 69 { 2000 } else { 1900 }, at + 2)
            }
            Step::DayOfYear => {
                let (day, len) = parse_digits(text.get(at..)?, 3);
                (TimeField::DayOfYear, day as u16, if len == 3 { at + 3 } else { return None })
            }
            Step::Hour12 { padded: is_padded } => {
                let (hour, end) =
                    if is_padded { padded(text, at)? } else { (two_digits(text, at)?, at + 2) };
                // Hour 12 is the hour before hour 1. An invalid hour becomes a value that is
                // rejected later.
                let hour = if (1..=12).contains(&hour) { hour % 12 } else { 99 };
                (TimeField::Hour, fields.get(TimeField::Hour) as u16 + hour, end)
            }
            other => return other.parse_word(text, at, fields),
        };
        fields.set(part, value);
        Some(end)
    }

    /// Parses names and other words.
    fn parse_word(self, text: &[u8], at: usize, fields: &mut Fields) -> Option<usize> {
        match self {
            Step::Month { .. } => parse_name(text, at, &MONTHS).map(|(index, end)| {
                fields.set(TimeField::Month, index as u16 + 1);
                end
            }),
            Step::Weekday { full: true } => parse_name(text, at, &WEEKDAYS).map(|(_, end)| end),
            Step::Weekday { .. } => {
                let short = text.get(at..at + 3)?;
                WEEKDAYS.iter().any(|day| day[..3].eq_ignore_ascii_case(short)).then_some(at + 3)
            }
            Step::Meridiem => {
                let word = text.get(at..at + 2)?;
                let is_pm = word.eq_ignore_ascii_case(b"PM");
                let hour = fields.get(TimeField::Hour) as u16 + if is_pm { 12 } else { 0 };
                fields.set(TimeField::Hour, hour);
                (is_pm || word.eq_ignore_ascii_case(b"AM")).then_some(at + 2)
            }
            Step::Utc => {
                fields.zone = ZoneField::Offset(0);
                matches!(text.get(at..at + 3)?, b"UTC" | b"GMT").then_some(at + 3)
            }
            Step::ZoneName => {
                let (name, len) = zone::parse_name(text.get(at..)?)?;
                fields.zone =
                    if zone::is_utc(name) { ZoneField::Offset(0) } else { ZoneField::Name(name) };
                Some(at + len)
            }
            _ => None,
        }
    }
}

/// Parses two-digit numbers, and validates all digits at once at the end.
struct TwoDigits<'a> {
    text: &'a [u8],
    max_digit: u8,
}

impl TwoDigits<'_> {
    #[inline]
    fn at(&mut self, index: usize) -> u16 {
        let [tens, ones] = [digit(self.text[index]), digit(self.text[index + 1])];
        self.max_digit = self.max_digit.max(tens).max(ones);
        u16::from(tens.wrapping_mul(10).wrapping_add(ones))
    }

    #[inline]
    fn are_digits(&self) -> bool {
        self.max_digit < 10
    }
}

/// Parses a time such as `10:00:00` as a whole.
#[inline]
fn clock(text: &[u8], at: usize, separator: u8, fields: &mut Fields) -> Option<usize> {
    let text: &[u8; 8] = text.get(at..)?.first_chunk()?;
    let mut pairs = TwoDigits { text, max_digit: 0 };
    fields.set(TimeField::Hour, pairs.at(0));
    fields.set(TimeField::Minute, pairs.at(3));
    fields.set(TimeField::Second, pairs.at(6));
    fields.second_at = Some(at + 6);
    (pairs.are_digits() && [text[2], text[5]] == [separator; 2]).then_some(at + 8)
}

/// Parses a date such as `2026-11-21` as a whole.
#[inline]
fn year_month_day(text: &[u8], at: usize, separator: u8, fields: &mut Fields) -> Option<usize> {
    let text: &[u8; 10] = text.get(at..)?.first_chunk()?;
    let mut pairs = TwoDigits { text, max_digit: 0 };
    fields.set(TimeField::Year, pairs.at(0) * 100 + pairs.at(2));
    fields.set(TimeField::Month, pairs.at(5));
    fields.set(TimeField::Day, pairs.at(8));
    (pairs.are_digits() && [text[4], text[7]] == [separator; 2]).then_some(at + 10)
}

/// Parses a date such as `21/Nov/2026` as a whole.
#[inline]
fn day_month_year(text: &[u8], at: usize, separator: u8, fields: &mut Fields) -> Option<usize> {
    let text: &[u8; 11] = text.get(at..)?.first_chunk()?;
    let mut pairs = TwoDigits { text, max_digit: 0 };
    fields.set(TimeField::Day, pairs.at(0));
    fields.set(TimeField::Month, short_month(&[text[3], text[4], text[5]])?);
    fields.set(TimeField::Year, pairs.at(7) * 100 + pairs.at(9));
    (pairs.are_digits() && [text[2], text[6]] == [separator; 2]).then_some(at + 11)
}

/// Parses one or two digits, or a space and a digit.
fn padded(text: &[u8], at: usize) -> Option<(u16, usize)> {
    let spaces = usize::from(*text.get(at)? == b' ');
    let (value, len) = parse_digits(&text[at + spaces..], 2 - spaces);
    (len > 0).then_some((value as u16, at + spaces + len))
}

/// Parses the digits of a fraction: at least `least` and at most `most` of them.
#[inline]
fn fraction(text: &[u8], at: usize, least: u8, most: u8, fields: &mut Fields) -> Option<usize> {
    let (value, len) = parse_digits(text.get(at..)?, usize::from(most));
    if len < usize::from(least) {
        return None;
    }
    (fields.fraction_ns, fields.fraction_at, fields.fraction_len) =
        (fraction_ns(value, len), at, len);
    Some(at + len)
}

/// Parses `Z`, or a sign and hours. Minutes follow if there is a digit, or a colon and a digit.
fn offset(text: &[u8], at: usize, optional: bool, fields: &mut Fields) -> Option<usize> {
    let is_digit = |at: usize| text.get(at).is_some_and(u8::is_ascii_digit);
    let sign = match text.get(at) {
        Some(b'Z' | b'z') => {
            fields.zone = ZoneField::Offset(0);
            return Some(at + 1);
        }
        Some(b'+') if is_digit(at + 1) => 1,
        Some(b'-') if is_digit(at + 1) => -1,
        _ => return optional.then_some(at),
    };
    let (hours, mut end) = (two_digits(text, at + 1)?, at + 3);
    let has_colon = text.get(end) == Some(&b':') && is_digit(end + 1);
    let mut minutes = 0;
    if has_colon || is_digit(end) {
        end += usize::from(has_colon);
        minutes = two_digits(text, end)?;
        end += 2;
    }
    fields.zone = ZoneField::Offset(sign * (i32::from(hours) * 3600 + i32::from(minutes) * 60));
    (hours < 24 && minutes < 60).then_some(end)
}

const MONTHS: [&[u8]; 12] = [
    b"january",
    b"february",
    b"march",
    b"april",
    b"may",
    b"june",
    b"july",
    b"august",
    b"september",
    b"october",
    b"november",
    b"december",
];

const WEEKDAYS: [&[u8]; 7] =
    [b"monday", b"tuesday", b"wednesday", b"thursday", b"friday", b"saturday", b"sunday"];

/// Returns the index of the name in `names` with which the text starts, and the end of the name.
/// Ignores ASCII case.
fn parse_name(text: &[u8], at: usize, names: &[&[u8]]) -> Option<(usize, usize)> {
    let rest = text.get(at..)?;
    let begins =
        |name: &&[u8]| rest.get(..name.len()).is_some_and(|text| text.eq_ignore_ascii_case(name));
    let index = names.iter().position(begins)?;
    Some((index, at + names[index].len()))
}

/// Returns the month number for the first three letters of a month name. Ignores ASCII case.
#[inline]
fn short_month(abbreviation: &[u8; 3]) -> Option<u16> {
    let word = u32::from_le_bytes([
        abbreviation[0] | 0x20,
        abbreviation[1] | 0x20,
        abbreviation[2] | 0x20,
        0,
    ]);
    let (known, month) = SHORT_MONTHS[hash(word)];
    // Setting that bit might have turned a character that is not a letter into a letter.
    (known == word && abbreviation.iter().all(u8::is_ascii_alphabetic)).then_some(month)
}

/// Returns a five-bit hash that is unique for each month.
const fn hash(word: u32) -> usize {
    (word.wrapping_mul(MULTIPLIER) >> 27) as usize
}
const MULTIPLIER: u32 = 0x0741_C7A9;

/// The months, indexed by their hash.
const SHORT_MONTHS: [(u32, u16); 32] = {
    let mut slots = [(0, 0); 32];
    let mut index = 0;
    while index < 12 {
        let name = MONTHS[index];
        let word = u32::from_le_bytes([name[0], name[1], name[2], 0]);
        assert!(slots[hash(word)].1 == 0, "two months in one slot");
        index += 1;
        slots[hash(word)] = (word, index as u16);
    }
    slots
};

/// The units of counts since 1970, in nanoseconds.
pub const EPOCH_UNITS: [(&str, i64); 4] =
    [("epoch_s", SECOND_NS), ("epoch_ms", 1_000_000), ("epoch_us", 1000), ("epoch_ns", 1)];
