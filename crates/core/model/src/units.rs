//! Sizes and durations as people write them: a number with its unit.
//!
//! Examples: `64MiB`, `1.5GiB`, `500ms`, `1m30s`. A number without a unit is an error, and so are
//! zero, negative numbers and values beyond 2⁶⁴ bytes or nanoseconds.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

/// A number of bytes, written with a unit: `10B`, `512KiB`, `1GB`, `1.5GiB`.
///
/// Binary units count in 1024 (`KiB`, `MiB`, `GiB`, `TiB`), decimal ones in 1000 (`KB`, `MB`, `GB`,
/// `TB`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "Cow<'_, str>", into = "String")]
pub struct Size(pub u64);

/// A length of time, written with units: `500ms`, `10s`, `1m30s`, `2h`, `1d`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "Cow<'_, str>", into = "String")]
pub struct Interval(pub Duration);

/// How long an unused item is kept: an [`Interval`], or `never` for as long as the agent runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "Cow<'_, str>", into = "String")]
pub enum Expiry {
    /// The item expires after this time without use.
    After(Interval),
    /// The item does not expire.
    Never,
}

/// Reason why a string is not an [`Expiry`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}, or never")]
pub struct ExpiryError(UnitError);

/// Reason why a string is not a [`Size`] or an [`Interval`].
///
/// Messages have the form "what is wrong; what to use instead".
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UnitError {
    /// A bare number.
    #[error("{text:?} has no unit; use, for example, {example}")]
    NoUnit {
        /// The text that was passed.
        text: String,
        /// Two valid values.
        example: &'static str,
    },
    /// The unit is unknown.
    #[error("{text:?} has the unknown unit {unit:?}; use {units}")]
    UnknownUnit {
        /// The text that was passed.
        text: String,
        /// The unknown unit.
        unit: String,
        /// All known units.
        units: &'static str,
    },
    /// Not a number.
    #[error("{text:?} is not a {what}; use, for example, {example}")]
    Malformed {
        /// The text that was passed.
        text: String,
        /// `size` or `duration`.
        what: &'static str,
        /// Two valid values.
        example: &'static str,
    },
    /// Zero or less.
    #[error("{text:?} must be greater than zero; use, for example, {example}")]
    NotPositive {
        /// The text that was passed.
        text: String,
        /// Two valid values.
        example: &'static str,
    },
    /// Too large.
    #[error("{text:?} is too large; use at most {most}")]
    TooLarge {
        /// The text that was passed.
        text: String,
        /// The largest value.
        most: &'static str,
    },
    /// A fraction of a byte or a nanosecond.
    #[error("{text:?} is not a whole number of {base}; use a smaller unit")]
    NotWhole {
        /// The text that was passed.
        text: String,
        /// `bytes` or `nanoseconds`.
        base: &'static str,
    },
}

/// The differences between sizes and durations: units, examples, and whether parts may be
/// concatenated.
struct Family {
    what: &'static str,
    base: &'static str,
    example: &'static str,
    most: &'static str,
    units_listed: &'static str,
    /// Name of each unit and its value in bytes or nanoseconds, largest first.
    units: &'static [(&'static str, u64)],
    /// Whether parts may be concatenated, as in `1m30s`.
    compound: bool,
}

static SIZES: Family = Family {
    what: "size",
    base: "bytes",
    example: "64MiB or 512KiB",
    most: "16777215TiB",
    units_listed: "B, KiB, MiB, GiB, TiB or KB, MB, GB, TB",
    units: &[
        ("TiB", 1 << 40),
        ("TB", 1_000_000_000_000),
        ("GiB", 1 << 30),
        ("GB", 1_000_000_000),
        ("MiB", 1 << 20),
        ("MB", 1_000_000),
        ("KiB", 1 << 10),
        ("KB", 1_000),
        ("kB", 1_000),
        ("B", 1),
    ],
    compound: false,
};

static INTERVALS: Family = Family {
    what: "duration",
    base: "nanoseconds",
    example: "10s or 500ms",
    most: "213503d",
    units_listed: "d, h, m, s, ms, us or ns",
    units: &[
        ("d", 86_400_000_000_000),
        ("h", 3_600_000_000_000),
        ("m", 60_000_000_000),
        ("s", 1_000_000_000),
        ("ms", 1_000_000),
        ("us", 1_000),
        ("ns", 1),
    ],
    compound: true,
};

impl Family {
    /// Returns the value of `text` in bytes or nanoseconds.
    fn parse(&self, text: &str) -> Result<u64, UnitError> {
        if text.starts_with('-') {
            return Err(UnitError::NotPositive { text: text.into(), example: self.example });
        }
        let (mut total, mut rest, mut smallest) = (0u64, text, u64::MAX);
        loop {
            let (number, unit, behind) = split_part(rest);
            let worth = self.worth(text, number, unit)?;
            // Units must descend, because `30s1m` and `1s1s` are more likely typos than intent.
            if worth >= smallest || (!self.compound && !behind.is_empty()) {
                return Err(self.malformed(text));
            }
            let part = self.scaled(text, number, worth)?;
            total = total.checked_add(part).ok_or_else(|| self.too_large(text))?;
            (rest, smallest) = (behind, worth);
            if rest.is_empty() {
                break;
            }
        }
        if total == 0 {
            return Err(UnitError::NotPositive { text: text.into(), example: self.example });
        }
        Ok(total)
    }

    /// Returns the value of one `unit`, which follows `number` in `text`.
    fn worth(&self, text: &str, number: &str, unit: &str) -> Result<u64, UnitError> {
        if number.is_empty() {
            return Err(self.malformed(text));
        }
        if unit.is_empty() {
            return Err(UnitError::NoUnit { text: text.into(), example: self.example });
        }
        let found = self.units.iter().find(|(name, _)| *name == unit);
        found.map(|(_, worth)| *worth).ok_or_else(|| UnitError::UnknownUnit {
            text: text.into(),
            unit: unit.into(),
            units: self.units_listed,
        })
    }

    /// Returns `number` (digits, optionally a fraction) times `worth`, exactly.
    fn scaled(&self, text: &str, number: &str, worth: u64) -> Result<u64, UnitError> {
        let (whole, fraction) = match number.split_once('.') {
            Some((whole, fraction)) => (whole, fraction.trim_end_matches('0')),
            None => (number, ""),
        };
        if whole.is_empty() || number.ends_with('.') || fraction.contains('.') {
            return Err(self.malformed(text));
        }
        if fraction.len() > 12 {
            return Err(UnitError::NotWhole { text: text.into(), base: self.base });
        }
        let digits: u128 =
            format!("{whole}{fraction}").parse().map_err(|_| self.too_large(text))?;
        let product = digits.checked_mul(worth.into()).ok_or_else(|| self.too_large(text))?;
        let scale = 10u128.pow(fraction.len() as u32);
        if product % scale != 0 {
            return Err(UnitError::NotWhole { text: text.into(), base: self.base });
        }
        u64::try_from(product / scale).map_err(|_| self.too_large(text))
    }

    /// Returns the shortest form of `total` as a whole number of one unit. If several forms are
    /// equally short, uses the largest unit.
    fn shortest(&self, total: u64) -> String {
        let exact = self.units.iter().filter(|(_, worth)| total.is_multiple_of(*worth));
        let forms = exact.map(|(name, worth)| format!("{}{name}", total / worth));
        forms.min_by_key(String::len).unwrap_or_default()
    }

    fn malformed(&self, text: &str) -> UnitError {
        UnitError::Malformed { text: text.into(), what: self.what, example: self.example }
    }

    fn too_large(&self, text: &str) -> UnitError {
        UnitError::TooLarge { text: text.into(), most: self.most }
    }
}

/// Splits `1m30s` into `1`, `m` and `30s`.
fn split_part(text: &str) -> (&str, &str, &str) {
    let numeric = |c: char| c.is_ascii_digit() || c == '.';
    let unit_at = text.find(|c| !numeric(c)).unwrap_or(text.len());
    let (number, rest) = text.split_at(unit_at);
    let next_at = rest.find(numeric).unwrap_or(rest.len());
    let (unit, behind) = rest.split_at(next_at);
    (number, unit, behind)
}

impl Size {
    /// Regular expression of all accepted forms, for editors.
    pub const PATTERN: &str = r"^[0-9]+(\.[0-9]+)?([KMGT]i?B|kB|B)$";
}

impl Interval {
    /// Regular expression of all accepted forms, for editors.
    pub const PATTERN: &str = r"^([0-9]+(\.[0-9]+)?(d|h|ms|m|s|us|ns))+$";
}

impl Expiry {
    const NEVER: &str = "never";

    /// Returns the time after which an unused item expires, if it does.
    pub fn duration(self) -> Option<Duration> {
        match self {
            Expiry::After(Interval(duration)) => Some(duration),
            Expiry::Never => None,
        }
    }
}

impl FromStr for Expiry {
    type Err = ExpiryError;

    fn from_str(text: &str) -> Result<Self, ExpiryError> {
        match text {
            Expiry::NEVER => Ok(Expiry::Never),
            text => text.parse().map(Expiry::After).map_err(ExpiryError),
        }
    }
}

impl fmt::Display for Expiry {
    /// Writes the shortest form of the interval, or `never`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Expiry::After(interval) => interval.fmt(f),
            Expiry::Never => f.pad(Expiry::NEVER),
        }
    }
}

impl FromStr for Size {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<Self, UnitError> {
        SIZES.parse(text).map(Size)
    }
}

impl FromStr for Interval {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<Self, UnitError> {
        INTERVALS.parse(text).map(|nanos| Interval(Duration::from_nanos(nanos)))
    }
}

impl fmt::Display for Size {
    /// Writes the shortest exact form as a whole number: `1536MiB`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            0 => f.pad("0B"),
            bytes => f.pad(&SIZES.shortest(bytes)),
        }
    }
}

impl fmt::Display for Interval {
    /// Writes the shortest exact form as a whole number of one unit: `90s`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Every parsed interval fits; an interval constructed beyond 584 years prints as the
        // longest one.
        match u64::try_from(self.0.as_nanos()).unwrap_or(u64::MAX) {
            0 => f.pad("0s"),
            nanos => f.pad(&INTERVALS.shortest(nanos)),
        }
    }
}

macro_rules! text_conversions {
    ($type:ident, $format:literal, $description:literal, $examples:expr) => {
        impl TryFrom<Cow<'_, str>> for $type {
            type Error = <$type as FromStr>::Err;

            fn try_from(text: Cow<'_, str>) -> Result<Self, Self::Error> {
                text.parse()
            }
        }

        impl From<$type> for String {
            fn from(value: $type) -> String {
                value.to_string()
            }
        }

        impl JsonSchema for $type {
            fn schema_name() -> Cow<'static, str> {
                stringify!($type).into()
            }

            fn inline_schema() -> bool {
                true
            }

            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                json_schema!({
                    "description": $description,
                    "type": "string",
                    "format": $format,
                    "examples": $examples,
                })
            }
        }
    };
}

text_conversions!(Size, "size", "A number of bytes with its unit.", ["64MiB", "512KiB", "1GB"]);
text_conversions!(
    Interval,
    "duration",
    "A length of time with its unit.",
    ["10s", "500ms", "1m30s"]
);
text_conversions!(Expiry, "expiry", "A length of time with its unit, or never.", ["10m", "never"]);

#[cfg(test)]
mod tests {
    use super::*;

    fn size_error(text: &str) -> String {
        text.parse::<Size>().unwrap_err().to_string()
    }

    fn interval_error(text: &str) -> String {
        text.parse::<Interval>().unwrap_err().to_string()
    }

    /// Every unit, whole and with a fraction, yields the exact number of bytes.
    #[test]
    fn sizes_are_parsed_exactly() {
        for (text, bytes) in [
            ("10B", 10),
            ("512KiB", 512 << 10),
            ("64MiB", 64 << 20),
            ("1GB", 1_000_000_000),
            ("1KB", 1_000),
            ("1kB", 1_000),
            ("1.5GiB", 3 << 29),
            ("0.50KiB", 512),
            ("2TiB", 2 << 40),
            ("18446744073709551615B", u64::MAX),
            ("16777215TiB", 16_777_215 << 40),
        ] {
            assert_eq!(text.parse(), Ok(Size(bytes)), "{text}");
        }
    }

    /// Single and compound durations yield the exact time.
    #[test]
    fn intervals_are_parsed_exactly() {
        for (text, millis) in [
            ("10s", 10_000),
            ("500ms", 500),
            ("1m", 60_000),
            ("2h", 7_200_000),
            ("1d", 86_400_000),
            ("1m30s", 90_000),
            ("1d2h3m4s5ms", 93_784_005),
            ("1.5s", 1_500),
        ] {
            assert_eq!(text.parse(), Ok(Interval(Duration::from_millis(millis))), "{text}");
        }
        assert_eq!("7ns".parse(), Ok(Interval(Duration::from_nanos(7))));
        assert_eq!("7us".parse(), Ok(Interval(Duration::from_micros(7))));
        assert!("213503d".parse::<Interval>().is_ok());
    }

    /// Each invalid size has a separate message with advice.
    #[test]
    fn errors_of_sizes_give_advice() {
        for (text, message) in [
            ("10", r#""10" has no unit; use, for example, 64MiB or 512KiB"#),
            ("", r#""" is not a size; use, for example, 64MiB or 512KiB"#),
            ("MiB", r#""MiB" is not a size; use, for example, 64MiB or 512KiB"#),
            ("1.MiB", r#""1.MiB" is not a size; use, for example, 64MiB or 512KiB"#),
            ("1.2.3MiB", r#""1.2.3MiB" is not a size; use, for example, 64MiB or 512KiB"#),
            ("1GiB5MiB", r#""1GiB5MiB" is not a size; use, for example, 64MiB or 512KiB"#),
            (
                "64mb",
                r#""64mb" has the unknown unit "mb"; use B, KiB, MiB, GiB, TiB or KB, MB, GB, TB"#,
            ),
            ("0MiB", r#""0MiB" must be greater than zero; use, for example, 64MiB or 512KiB"#),
            ("-1MiB", r#""-1MiB" must be greater than zero; use, for example, 64MiB or 512KiB"#),
            ("16777216TiB", r#""16777216TiB" is too large; use at most 16777215TiB"#),
            ("1.5B", r#""1.5B" is not a whole number of bytes; use a smaller unit"#),
        ] {
            assert_eq!(size_error(text), message);
        }
        assert!(size_error(&format!("{}MiB", "9".repeat(60))).contains("too large"));
        assert!(size_error(&format!("0.{}MiB", "3".repeat(60))).contains("whole number"));
    }

    /// Each invalid duration has a separate message with advice.
    #[test]
    fn errors_of_intervals_give_advice() {
        for (text, message) in [
            ("10", r#""10" has no unit; use, for example, 10s or 500ms"#),
            ("1m30", r#""1m30" has no unit; use, for example, 10s or 500ms"#),
            ("soon", r#""soon" is not a duration; use, for example, 10s or 500ms"#),
            ("10sec", r#""10sec" has the unknown unit "sec"; use d, h, m, s, ms, us or ns"#),
            ("30s1m", r#""30s1m" is not a duration; use, for example, 10s or 500ms"#),
            ("0s", r#""0s" must be greater than zero; use, for example, 10s or 500ms"#),
            ("213504d", r#""213504d" is too large; use at most 213503d"#),
        ] {
            assert_eq!(interval_error(text), message);
        }
    }

    /// `never` is not an interval, and every error mentions it.
    #[test]
    fn an_expiry_is_an_interval_or_never() {
        let after = Expiry::After(Interval(Duration::from_secs(90)));
        for (text, expiry, duration) in
            [("1m30s", after, Some(Duration::from_secs(90))), ("never", Expiry::Never, None)]
        {
            assert_eq!(text.parse(), Ok(expiry));
            assert_eq!(expiry.duration(), duration);
            assert_eq!(serde_json::from_value::<Expiry>(text.into()).unwrap(), expiry);
        }
        assert_eq!((after.to_string(), Expiry::Never.to_string()), ("90s".into(), "never".into()));
        assert_eq!(serde_json::to_value(Expiry::Never).unwrap(), "never");
        for (text, message) in [
            ("soon", r#""soon" is not a duration; use, for example, 10s or 500ms, or never"#),
            ("Never", r#""Never" is not a duration; use, for example, 10s or 500ms, or never"#),
            ("10", r#""10" has no unit; use, for example, 10s or 500ms, or never"#),
            ("0s", r#""0s" must be greater than zero; use, for example, 10s or 500ms, or never"#),
        ] {
            assert_eq!(text.parse::<Expiry>().unwrap_err().to_string(), message);
        }
        assert!("never".parse::<Interval>().is_err());
    }

    /// Formatting gives the shortest form, and parsing it returns the same value.
    #[test]
    fn formatted_values_are_short_and_round_trip() {
        for (bytes, text) in
            [(3 << 29, "1536MiB"), (1_000, "1KB"), (1_001, "1001B"), (1 << 40, "1TiB")]
        {
            assert_eq!(Size(bytes).to_string(), text);
            assert_eq!(text.parse(), Ok(Size(bytes)));
        }
        for (millis, text) in
            [(90_000, "90s"), (60_000, "1m"), (86_400_000, "1d"), (1_500, "1500ms")]
        {
            let interval = Interval(Duration::from_millis(millis));
            assert_eq!(interval.to_string(), text);
            assert_eq!(text.parse(), Ok(interval));
        }
        assert_eq!(
            (Size(0).to_string(), Interval(Duration::ZERO).to_string()),
            ("0B".into(), "0s".into())
        );
        assert_eq!(format!("{:>6}", Size(1)), "    1B");
    }

    /// JSON represents sizes and intervals as text; a bare number is an error there too.
    #[test]
    fn units_are_json_strings() {
        assert_eq!(serde_json::to_string(&Size(1 << 20)).unwrap(), r#""1MiB""#);
        assert_eq!(serde_json::from_str::<Size>(r#""1MiB""#).unwrap(), Size(1 << 20));
        assert!(serde_json::from_str::<Size>("1").is_err());
        assert!(
            serde_json::from_str::<Interval>(r#""1""#).unwrap_err().to_string().contains("no unit")
        );
    }

    /// The schema names the format that validation looks up.
    #[test]
    fn schema_names_the_format() {
        let schema = schemars::schema_for!(Interval);
        assert_eq!(schema.get("format").unwrap(), "duration");
        assert_eq!(schemars::schema_for!(Size).get("type").unwrap(), "string");
    }
}
