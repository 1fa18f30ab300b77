//! The steps of a compiled format, and how each reads its piece of a text.

use crate::{SECOND_NS, zone};

/// A number that a piece of a text stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    Year,
    Month,
    Day,
    DayOfYear,
    Hour,
    Minute,
    Second,
}

/// What to read next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// This byte.
    Byte(u8),
    /// `T`, `t` or a blank.
    DateEnd,
    /// Two digits.
    Two(Part),
    /// One or two digits; a blank may stand for the first of two.
    Padded(Part),
    /// A year in four digits.
    Year,
    /// A year in two digits: 69 to 99 are of the last century.
    YearOfCentury,
    /// A day of the year in three digits.
    DayOfYear,
    /// Three times two digits with this byte between them: hour, minute, second.
    Clock(u8),
    /// A year, a month and a day with this byte between them: `2026-11-21`.
    YearMonthDay(u8),
    /// The same the other way round with the name of the month: `21/Nov/2026`.
    DayMonthYear(u8),
    /// The name of a month, its first three letters or all of them.
    Month { full: bool },
    /// The name of a day of the week; it is not compared with the date.
    Weekday { full: bool },
    /// An hour of twelve.
    Hour12 { padded: bool },
    /// `AM` or `PM`.
    Meridiem,
    /// Digits of the fraction of a second, this many at least and at most.
    Fraction(u8, u8),
    /// A point or comma and one to nine digits, or nothing.
    PointFraction,
    /// `+02:00`, `+0200`, `+02` or `Z`; nothing as well, if it may be missing.
    Offset { optional: bool },
    /// `UTC` or `GMT`.
    Utc,
    /// These or a name of the time zone: `CEST`.
    ZoneName,
    /// A number of units since 1970, each of so many nanoseconds.
    Epoch(i64),
}

/// What a text says of its time zone.
#[derive(Clone, Copy, Debug)]
pub enum Said {
    /// Nothing: it is that of the format, which has more than one distance to UTC.
    Nothing,
    /// Its distance to UTC in seconds.
    Offset(i32),
    /// A name, as its number.
    Name(u64),
}

/// What was read of a text.
#[derive(Clone, Copy, Debug)]
pub struct Fields {
    parts: [u16; 8],
    pub fraction_ns: i64,
    pub zone: Said,
    pub epoch_ns: i64,
    /// Where the digits of the second are, if there are any.
    pub second_at: Option<usize>,
    pub fraction_at: usize,
    pub fraction_len: usize,
}

impl Fields {
    /// `offset_seconds` is the one distance to UTC of texts that say none, if there is one.
    pub fn new(offset_seconds: Option<i32>) -> Fields {
        Fields {
            parts: [0; 8],
            fraction_ns: 0,
            zone: offset_seconds.map_or(Said::Nothing, Said::Offset),
            epoch_ns: 0,
            second_at: None,
            fraction_at: 0,
            fraction_len: 0,
        }
    }

    /// The distance to UTC in seconds, if it is said as a number.
    pub fn offset_seconds(&self) -> Option<i32> {
        match self.zone {
            Said::Offset(seconds) => Some(seconds),
            Said::Nothing | Said::Name(_) => None,
        }
    }

    #[inline]
    pub fn get(&self, part: Part) -> i64 {
        i64::from(self.parts[part as usize])
    }

    #[inline]
    fn set(&mut self, part: Part, value: u16) {
        self.parts[part as usize] = value;
    }
}

/// Value of a digit; 10 and more for what is none.
#[inline]
fn digit(byte: u8) -> u8 {
    byte.wrapping_sub(b'0')
}

#[inline]
pub fn two_digits(text: &[u8], at: usize) -> Option<u16> {
    let [tens, ones] = [digit(*text.get(at)?), digit(*text.get(at + 1)?)];
    (tens < 10 && ones < 10).then_some(u16::from(tens) * 10 + u16::from(ones))
}

/// Value and number of the digits with which a text begins, `most` of them at most. The value is
/// right up to 19 digits.
#[inline]
pub fn number(text: &[u8], most: usize) -> (u64, usize) {
    let (mut value, mut len) = (0_u64, 0);
    while let Some(chunk) = text[len..].first_chunk() {
        let (more, count) = up_to_eight(u64::from_le_bytes(*chunk), most - len);
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

/// The same of eight bytes at once, the first one lowest.
#[inline]
fn up_to_eight(bytes: u64, most: usize) -> (u64, usize) {
    const EACH: u64 = 0x0101_0101_0101_0101;
    let values = bytes ^ (EACH * 0x30);
    // The highest bit of each byte that is more than 9; no sum reaches into the next byte.
    let others = (((values & (EACH * 0x7F)) + EACH * 0x76) | values) & (EACH * 0x80);
    let count = (others.trailing_zeros() as usize / 8).min(most);
    if count == 0 {
        return (0, 0);
    }
    // Zeros come in from below: they are in front, as the first digit is lowest.
    let ones = values << (64 - 8 * count);
    // Neighbours make a pair, pairs four digits, those eight.
    let pairs = ((ones * 10) + (ones >> 8)) & 0x00FF_00FF_00FF_00FF;
    let fours = ((pairs * 100) + (pairs >> 16)) & 0x0000_FFFF_0000_FFFF;
    (((fours * 10_000) + (fours >> 32)) & 0xFFFF_FFFF, count)
}

/// Nanoseconds of a fraction of so many digits, nine at most.
#[inline]
pub fn scaled(value: u64, len: usize) -> i64 {
    (value * TENS[9 - len]) as i64
}

impl Step {
    /// Reads the piece at `at`; returns where the next one begins, `None` if the text does not fit.
    #[inline]
    pub fn read(self, text: &[u8], at: usize, fields: &mut Fields) -> Option<usize> {
        match self {
            Step::Byte(byte) => (*text.get(at)? == byte).then_some(at + 1),
            Step::DateEnd => matches!(text.get(at)?, b'T' | b't' | b' ').then_some(at + 1),
            Step::Two(part) => {
                fields.set(part, two_digits(text, at)?);
                if part == Part::Second {
                    fields.second_at = Some(at);
                }
                Some(at + 2)
            }
            Step::Clock(separator) => clock(text, at, separator, fields),
            Step::YearMonthDay(separator) => year_month_day(text, at, separator, fields),
            Step::DayMonthYear(separator) => day_month_year(text, at, separator, fields),
            Step::Month { full: false } => {
                fields.set(Part::Month, short_month(text.get(at..)?.first_chunk()?)?);
                Some(at + 3)
            }
            Step::Offset { optional } => offset(text, at, optional, fields),
            Step::Fraction(least, most) => fraction(text, at, (least, most), fields),
            Step::PointFraction => match text.get(at) {
                // A point without digits ends a sentence.
                Some(b'.' | b',') => fraction(text, at + 1, (1, 9), fields).or(Some(at)),
                _ => Some(at),
            },
            Step::Epoch(unit_ns) => {
                // One digit more than any number that fits has.
                let (value, len) = number(text.get(at..)?, 20);
                fields.epoch_ns = i64::try_from(value).ok()?.checked_mul(unit_ns)?;
                (1..20).contains(&len).then_some(at + len)
            }
            other => other.read_rare(text, at, fields),
        }
    }

    /// Numbers that are not in the usual formats.
    fn read_rare(self, text: &[u8], at: usize, fields: &mut Fields) -> Option<usize> {
        let (part, value, end) = match self {
            Step::Padded(part) => {
                let (value, end) = padded(text, at)?;
                (part, value, end)
            }
            Step::Year => {
                (Part::Year, two_digits(text, at)? * 100 + two_digits(text, at + 2)?, at + 4)
            }
            Step::YearOfCentury => {
                let year = two_digits(text, at)?;
                (Part::Year, year + if year < 69 { 2000 } else { 1900 }, at + 2)
            }
            Step::DayOfYear => {
                let (day, len) = number(text.get(at..)?, 3);
                (Part::DayOfYear, day as u16, if len == 3 { at + 3 } else { return None })
            }
            Step::Hour12 { padded: is_padded } => {
                let (hour, end) =
                    if is_padded { padded(text, at)? } else { (two_digits(text, at)?, at + 2) };
                // The hour 12 comes before 1. What is none becomes no hour of the day either.
                let hour = if (1..=12).contains(&hour) { hour % 12 } else { 99 };
                (Part::Hour, fields.get(Part::Hour) as u16 + hour, end)
            }
            other => return other.read_word(text, at, fields),
        };
        fields.set(part, value);
        Some(end)
    }

    /// Names and other words.
    fn read_word(self, text: &[u8], at: usize, fields: &mut Fields) -> Option<usize> {
        match self {
            Step::Month { .. } => name(text, at, &MONTHS).map(|(index, end)| {
                fields.set(Part::Month, index as u16 + 1);
                end
            }),
            Step::Weekday { full: true } => name(text, at, &WEEKDAYS).map(|(_, end)| end),
            Step::Weekday { .. } => {
                let short = text.get(at..at + 3)?;
                WEEKDAYS.iter().any(|day| day[..3].eq_ignore_ascii_case(short)).then_some(at + 3)
            }
            Step::Meridiem => {
                let word = text.get(at..at + 2)?;
                let is_after_noon = word.eq_ignore_ascii_case(b"PM");
                let hour = fields.get(Part::Hour) as u16 + if is_after_noon { 12 } else { 0 };
                fields.set(Part::Hour, hour);
                (is_after_noon || word.eq_ignore_ascii_case(b"AM")).then_some(at + 2)
            }
            Step::Utc => {
                fields.zone = Said::Offset(0);
                matches!(text.get(at..at + 3)?, b"UTC" | b"GMT").then_some(at + 3)
            }
            Step::ZoneName => {
                let (name, len) = zone::name(text.get(at..)?)?;
                fields.zone = if zone::is_utc(name) { Said::Offset(0) } else { Said::Name(name) };
                Some(at + len)
            }
            _ => None,
        }
    }
}

/// Numbers of two digits, collected to be judged once.
struct Pairs<'a> {
    text: &'a [u8],
    worst: u8,
}

impl Pairs<'_> {
    #[inline]
    fn at(&mut self, index: usize) -> u16 {
        let [tens, ones] = [digit(self.text[index]), digit(self.text[index + 1])];
        self.worst = self.worst.max(tens).max(ones);
        u16::from(tens.wrapping_mul(10).wrapping_add(ones))
    }

    #[inline]
    fn are_digits(&self) -> bool {
        self.worst < 10
    }
}

/// Reads `10:00:00` in one go.
#[inline]
fn clock(text: &[u8], at: usize, separator: u8, fields: &mut Fields) -> Option<usize> {
    let text: &[u8; 8] = text.get(at..)?.first_chunk()?;
    let mut pairs = Pairs { text, worst: 0 };
    fields.set(Part::Hour, pairs.at(0));
    fields.set(Part::Minute, pairs.at(3));
    fields.set(Part::Second, pairs.at(6));
    fields.second_at = Some(at + 6);
    (pairs.are_digits() && [text[2], text[5]] == [separator; 2]).then_some(at + 8)
}

/// Reads `2026-11-21` in one go.
#[inline]
fn year_month_day(text: &[u8], at: usize, separator: u8, fields: &mut Fields) -> Option<usize> {
    let text: &[u8; 10] = text.get(at..)?.first_chunk()?;
    let mut pairs = Pairs { text, worst: 0 };
    fields.set(Part::Year, pairs.at(0) * 100 + pairs.at(2));
    fields.set(Part::Month, pairs.at(5));
    fields.set(Part::Day, pairs.at(8));
    (pairs.are_digits() && [text[4], text[7]] == [separator; 2]).then_some(at + 10)
}

/// Reads `21/Nov/2026` in one go.
#[inline]
fn day_month_year(text: &[u8], at: usize, separator: u8, fields: &mut Fields) -> Option<usize> {
    let text: &[u8; 11] = text.get(at..)?.first_chunk()?;
    let mut pairs = Pairs { text, worst: 0 };
    fields.set(Part::Day, pairs.at(0));
    fields.set(Part::Month, short_month(&[text[3], text[4], text[5]])?);
    fields.set(Part::Year, pairs.at(7) * 100 + pairs.at(9));
    (pairs.are_digits() && [text[2], text[6]] == [separator; 2]).then_some(at + 11)
}

/// One or two digits, or a blank and one.
fn padded(text: &[u8], at: usize) -> Option<(u16, usize)> {
    let blanks = usize::from(*text.get(at)? == b' ');
    let (value, len) = number(&text[at + blanks..], 2 - blanks);
    (len > 0).then_some((value as u16, at + blanks + len))
}

/// Digits of a fraction, this many at least and at most.
#[inline]
fn fraction(text: &[u8], at: usize, (least, most): (u8, u8), fields: &mut Fields) -> Option<usize> {
    let (value, len) = number(text.get(at..)?, usize::from(most));
    if len < usize::from(least) {
        return None;
    }
    (fields.fraction_ns, fields.fraction_at, fields.fraction_len) = (scaled(value, len), at, len);
    Some(at + len)
}

/// `Z`, or a sign with hours, and minutes if a digit or a colon and a digit follow.
fn offset(text: &[u8], at: usize, optional: bool, fields: &mut Fields) -> Option<usize> {
    let is_digit = |at: usize| text.get(at).is_some_and(u8::is_ascii_digit);
    let sign = match text.get(at) {
        Some(b'Z' | b'z') => {
            fields.zone = Said::Offset(0);
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
    fields.zone = Said::Offset(sign * (i32::from(hours) * 3600 + i32::from(minutes) * 60));
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

/// A name out of `names`, in letters of any case.
fn name(text: &[u8], at: usize, names: &[&[u8]]) -> Option<(usize, usize)> {
    let rest = text.get(at..)?;
    let begins =
        |name: &&[u8]| rest.get(..name.len()).is_some_and(|text| text.eq_ignore_ascii_case(name));
    let index = names.iter().position(begins)?;
    Some((index, at + names[index].len()))
}

/// Number of a month by the first three letters of its name, in letters of any case.
#[inline]
fn short_month(letters: &[u8; 3]) -> Option<u16> {
    let word = u32::from_le_bytes([letters[0] | 0x20, letters[1] | 0x20, letters[2] | 0x20, 0]);
    let (known, month) = SHORT_MONTHS[slot(word)];
    // What became a letter by that bit only is none.
    (known == word && letters.iter().all(u8::is_ascii_alphabetic)).then_some(month)
}

/// A number of five bits that each month's letters have for themselves.
const fn slot(word: u32) -> usize {
    (word.wrapping_mul(MULTIPLIER) >> 27) as usize
}
const MULTIPLIER: u32 = 0x0741_C7A9;

/// The months by the slot of their letters.
const SHORT_MONTHS: [(u32, u16); 32] = {
    let mut slots = [(0, 0); 32];
    let mut index = 0;
    while index < 12 {
        let name = MONTHS[index];
        let word = u32::from_le_bytes([name[0], name[1], name[2], 0]);
        assert!(slots[slot(word)].1 == 0, "two months in one slot");
        index += 1;
        slots[slot(word)] = (word, index as u16);
    }
    slots
};

/// Nanoseconds of the units that a count since 1970 may have.
pub const EPOCH_UNITS: [(&str, i64); 4] =
    [("epoch_s", SECOND_NS), ("epoch_ms", 1_000_000), ("epoch_us", 1000), ("epoch_ns", 1)];
