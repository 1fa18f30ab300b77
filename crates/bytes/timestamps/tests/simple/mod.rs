//! A simple reference implementation without optimizations.

const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];
const DAYS: [&str; 7] =
    ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"];

/// The fields parsed so far.
#[derive(Default)]
struct Parsed {
    year: Option<i64>,
    month: i64,
    day: i64,
    day_of_year: i64,
    hour: i64,
    half: Option<(i64, bool)>,
    minute: i64,
    second: i64,
    fraction_ns: i64,
    offset: i64,
    epoch_ns: Option<i128>,
}

/// Returns the nanoseconds and the length of the time at the start of `text`.
pub fn parse(format: &str, text: &[u8], offset: i64, reference_ns: i64) -> Option<(i64, usize)> {
    let format = match format {
        // Letters that formats do not use represent steps that exist only in presets.
        "iso8601" => "%F%1%T%.f%2".to_owned(),
        "rfc3339" => "%F%1%T%.f%z".to_owned(),
        "epoch_s" => "%s%.f".to_owned(),
        "epoch_ms" => "%3".to_owned(),
        "epoch_us" => "%4".to_owned(),
        "epoch_ns" => "%5".to_owned(),
        format => format.to_owned(),
    };
    let composites = [("%F", "%Y-%m-%d"), ("%T", "%R:%S"), ("%R", "%H:%M"), ("%D", "%m/%d/%y")];
    let format = composites.iter().fold(format, |format, (from, to)| format.replace(from, to));
    let (mut read, mut rest, mut format) = (Parsed::default(), text, format.as_bytes());
    read.offset = offset;
    while let Some((first, after)) = format.split_first() {
        if *first != b'%' {
            rest = rest.strip_prefix(&[*first])?;
            format = after;
            continue;
        }
        let (specifier, after) = match after {
            [b'-', letter, after @ ..] => (vec![b'-', *letter], after),
            [b'.', b'f', after @ ..] => (b".f".to_vec(), after),
            [count @ b'1'..=b'9', b'f', after @ ..] => (vec![*count, b'f'], after),
            [letter, after @ ..] => (vec![*letter], after),
            [] => panic!("an invalid format"),
        };
        rest = read.specifier(&specifier, rest)?;
        format = after;
    }
    Some((read.resolve(reference_ns)?, text.len() - rest.len()))
}

/// Parses between `least` and `most` consecutive digits.
fn digits(text: &[u8], least: usize, most: usize) -> Option<(i128, &[u8])> {
    let len = text.iter().take(most).take_while(|b| b.is_ascii_digit()).count();
    if len < least {
        return None;
    }
    let number = text[..len].iter().fold(0, |number, b| number * 10 + i128::from(b - b'0'));
    Some((number, &text[len..]))
}

fn padded(text: &[u8]) -> Option<(i64, &[u8])> {
    let (number, rest) = match text.strip_prefix(b" ") {
        Some(text) => digits(text, 1, 1)?,
        None => digits(text, 1, 2)?,
    };
    Some((number as i64, rest))
}

fn parse_name<'t>(
    text: &'t [u8],
    names: &[&str],
    abbreviation: usize,
) -> Option<(usize, &'t [u8])> {
    names.iter().enumerate().find_map(|(index, name)| {
        let name = &name[..name.len().min(abbreviation)];
        let begin = text.get(..name.len())?;
        begin.eq_ignore_ascii_case(name.as_bytes()).then(|| (index, &text[name.len()..]))
    })
}

fn fraction(text: &[u8], least: usize, most: usize) -> Option<(i64, &[u8])> {
    let (number, rest) = digits(text, least, most)?;
    let len = text.len() - rest.len();
    Some(((number * 10_i128.pow(9 - len as u32)) as i64, rest))
}

impl Parsed {
    fn specifier<'t>(&mut self, specifier: &[u8], text: &'t [u8]) -> Option<&'t [u8]> {
        let rest;
        let two = || digits(text, 2, 2).map(|(number, rest)| (number as i64, rest));
        match specifier {
            b"Y" => {
                let (year, after) = digits(text, 4, 4)?;
                (self.year, rest) = (Some(year as i64), after);
            }
            b"y" => {
                let (year, after) = two()?;
                (self.year, rest) = (Some(if year >= 69 { 1900 } else { 2000 } + year), after);
            }
            b"m" => (self.month, rest) = two()?,
            b"d" => (self.day, rest) = two()?,
            b"H" => (self.hour, rest) = two()?,
            b"M" => (self.minute, rest) = two()?,
            b"S" => (self.second, rest) = two()?,
            b"-m" => (self.month, rest) = padded(text)?,
            b"e" | b"-d" => (self.day, rest) = padded(text)?,
            b"k" | b"-H" => (self.hour, rest) = padded(text)?,
            b"I" | b"l" | b"-I" => {
                let (hour, after) = if specifier == b"I" { two()? } else { padded(text)? };
                self.half = Some((hour, self.half.is_some_and(|half| half.1)));
                rest = after;
            }
            b"p" => {
                let (index, after) = parse_name(text, &["AM", "PM"], 2)?;
                self.half = Some((self.half.map_or(0, |half| half.0), index == 1));
                rest = after;
            }
            b"b" | b"h" | b"B" => {
                let (index, after) =
                    parse_name(text, &MONTHS, if specifier == b"B" { 9 } else { 3 })?;
                (self.month, rest) = (index as i64 + 1, after);
            }
            b"a" | b"A" => rest = parse_name(text, &DAYS, if specifier == b"A" { 9 } else { 3 })?.1,
            b"j" => {
                let (day, after) = digits(text, 3, 3)?;
                (self.day_of_year, rest) = (day as i64, after);
            }
            b"%" => rest = text.strip_prefix(b"%")?,
            other => return self.rest(other, text),
        }
        Some(rest)
    }

    fn rest<'t>(&mut self, specifier: &[u8], text: &'t [u8]) -> Option<&'t [u8]> {
        let rest;
        match specifier {
            b"f" => (self.fraction_ns, rest) = fraction(text, 1, 9)?,
            b".f" => {
                let elapsed = text.strip_prefix(b".").or(text.strip_prefix(b","));
                let found = elapsed.and_then(|text| fraction(text, 1, 9));
                (self.fraction_ns, rest) = found.unwrap_or((0, text));
            }
            [count, b'f'] => {
                let count = usize::from(count - b'0');
                (self.fraction_ns, rest) = fraction(text, count, count)?;
            }
            b"1" => {
                return text
                    .strip_prefix(b"T")
                    .or(text.strip_prefix(b"t"))
                    .or(text.strip_prefix(b" "));
            }
            b"z" => return self.offset(text),
            b"2" => {
                let is_offset = matches!(text, [b'Z' | b'z', ..])
                    || matches!(text, [b'+' | b'-', d, ..] if d.is_ascii_digit());
                return if is_offset { self.offset(text) } else { Some(text) };
            }
            b"Z" => {
                self.offset = 0;
                return text.strip_prefix(b"UTC").or(text.strip_prefix(b"GMT"));
            }
            b"s" | b"3" | b"4" | b"5" => {
                let unit = [("s", 1_000_000_000), ("3", 1_000_000), ("4", 1000), ("5", 1)];
                let unit = unit.iter().find(|(name, _)| name.as_bytes() == specifier).unwrap().1;
                let (number, after) = digits(text, 1, 30)?;
                if text.len() - after.len() > 19 {
                    return None;
                }
                (self.epoch_ns, rest) = (Some(number * unit), after);
            }
            other => panic!("unknown specifier {other:?}"),
        }
        Some(rest)
    }

    fn offset<'t>(&mut self, text: &'t [u8]) -> Option<&'t [u8]> {
        let (sign, text) = match text {
            [b'Z' | b'z', rest @ ..] => {
                self.offset = 0;
                return Some(rest);
            }
            [b'+', rest @ ..] => (1, rest),
            [b'-', rest @ ..] => (-1, rest),
            _ => return None,
        };
        let (hours, rest) = digits(text, 2, 2)?;
        let (minutes, rest) = match rest {
            [b':', d, ..] if d.is_ascii_digit() => digits(&rest[1..], 2, 2)?,
            [d, ..] if d.is_ascii_digit() => digits(rest, 2, 2)?,
            _ => (0, rest),
        };
        self.offset = sign * (hours * 3600 + minutes * 60) as i64;
        (hours < 24 && minutes < 60).then_some(rest)
    }

    fn resolve(&self, reference_ns: i64) -> Option<i64> {
        if let Some(ns) = self.epoch_ns {
            return i64::try_from(ns + i128::from(self.fraction_ns)).ok();
        }
        let hour = match self.half {
            Some((1..=11, false)) => self.half?.0,
            Some((1..=11, true)) => self.half?.0 + 12,
            Some((12, is_pm)) => 12 * i64::from(is_pm),
            Some(_) => return None,
            None => self.hour,
        };
        if hour > 23 || self.minute > 59 || self.second > 60 {
            return None;
        }
        let seconds = hour * 3600 + self.minute * 60 + self.second - self.offset;
        let ns = |days: i64| (days * 86_400 + seconds) * 1_000_000_000 + self.fraction_ns;
        if let Some(year) = self.year {
            let is_year = (1678..=2261).contains(&year);
            return days(year, self.month, self.day, self.day_of_year).filter(|_| is_year).map(ns);
        }
        let limit = reference_ns + 86_400_000_000_000;
        let years = (1678..=2261).rev().filter_map(|year| days(year, self.month, self.day, 0));
        years.map(ns).find(|ns| *ns <= limit)
    }
}

/// Returns the number of days since 1970-01-01, counted year by year.
fn days(year: i64, month: i64, day: i64, day_of_year: i64) -> Option<i64> {
    let is_leap = |year: i64| (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
    let len = |year: i64| 365 + i64::from(is_leap(year));
    let february = 28 + i64::from(is_leap(year));
    let months = [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    let before: i64 = (1970..year).map(len).sum::<i64>() - (year..1970).map(len).sum::<i64>();
    if day_of_year > 0 {
        return (day_of_year <= len(year)).then_some(before + day_of_year - 1);
    }
    let month_index = usize::try_from(month - 1).ok().filter(|index| *index < 12)?;
    let exists = (1..=months[month_index]).contains(&day);
    exists.then(|| before + months[..month_index].iter().sum::<i64>() + day - 1)
}
