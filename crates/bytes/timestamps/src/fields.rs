//! The fields of a time, as parsed from text.

/// A numeric field of a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimeField {
    Year,
    Month,
    Day,
    DayOfYear,
    Hour,
    Minute,
    Second,
}

/// The time zone of a parsed time.
#[derive(Clone, Copy, Debug)]
pub enum ZoneField {
    /// The text contains no time zone. The format's zone applies, and that zone has several UTC
    /// offsets.
    Nothing,
    /// UTC offset in seconds.
    Offset(i32),
    /// A name, packed into an integer.
    Name(u64),
}

/// The fields of a parsed time.
#[derive(Clone, Copy, Debug)]
pub struct Fields {
    parts: [u16; 8],
    pub fraction_ns: i64,
    pub zone: ZoneField,
    pub epoch_ns: i64,
    /// Position of the digits for seconds, if the text contains any.
    pub second_at: Option<usize>,
    pub fraction_at: usize,
    pub fraction_len: usize,
}

impl Fields {
    /// Creates empty fields. `offset_seconds` is the UTC offset of times that do not include one,
    /// if that offset is fixed.
    pub fn new(offset_seconds: Option<i32>) -> Fields {
        Fields {
            parts: [0; 8],
            fraction_ns: 0,
            zone: offset_seconds.map_or(ZoneField::Nothing, ZoneField::Offset),
            epoch_ns: 0,
            second_at: None,
            fraction_at: 0,
            fraction_len: 0,
        }
    }

    /// Returns the UTC offset in seconds if it is numeric.
    pub fn offset_seconds(&self) -> Option<i32> {
        match self.zone {
            ZoneField::Offset(seconds) => Some(seconds),
            ZoneField::Nothing | ZoneField::Name(_) => None,
        }
    }

    #[inline]
    pub fn get(&self, part: TimeField) -> i64 {
        i64::from(self.parts[part as usize])
    }

    #[inline]
    pub fn set(&mut self, part: TimeField, value: u16) {
        self.parts[part as usize] = value;
    }
}
