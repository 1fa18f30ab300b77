//! Formatting of RFC 3339 timestamps without allocation.

/// Appends a time, in nanoseconds since 1970, as RFC 3339 in UTC with milliseconds.
pub fn push_rfc3339(out: &mut Vec<u8>, unix_ns: i64) {
    out.extend_from_slice(Rfc3339::default().text(unix_ns));
}

/// Length of an RFC 3339 timestamp in bytes.
pub const RFC3339_BYTES: usize = 24;

/// Formats times as RFC 3339 in UTC with milliseconds. Caches the previous result and updates only
/// the parts that differ.
pub struct Rfc3339 {
    text: [u8; RFC3339_BYTES],
    ms: i64,
    day: i64,
}

impl Default for Rfc3339 {
    fn default() -> Rfc3339 {
        Rfc3339 { text: *b"1970-01-01T00:00:00.000Z", ms: 0, day: 0 }
    }
}

impl Rfc3339 {
    /// Formats a time, in nanoseconds since 1970, truncated to milliseconds.
    #[inline]
    pub fn text(&mut self, unix_ns: i64) -> &[u8; RFC3339_BYTES] {
        let ms = unix_ns.div_euclid(1_000_000);
        if ms != self.ms {
            self.update(ms);
        }
        &self.text
    }

    fn update(&mut self, ms: i64) {
        let (day, ms_of_day) = (ms.div_euclid(86_400_000), ms.rem_euclid(86_400_000) as u32);
        if day != self.day {
            let (year, month, day) = civil(day);
            self.write_two_digits(0, year as u32 / 100);
            self.write_two_digits(2, year as u32 % 100);
            self.write_two_digits(5, month);
            self.write_two_digits(8, day);
        }
        let (seconds, rest) = (ms_of_day / 1000, ms_of_day % 1000);
        self.write_two_digits(11, seconds / 3600);
        self.write_two_digits(14, seconds / 60 % 60);
        self.write_two_digits(17, seconds % 60);
        self.text[20] = b'0' + (rest / 100) as u8;
        self.write_two_digits(21, rest % 100);
        (self.ms, self.day) = (ms, day);
    }

    /// Writes a two-digit number.
    fn write_two_digits(&mut self, at: usize, number: u32) {
        self.text[at] = b'0' + (number / 10) as u8;
        self.text[at + 1] = b'0' + (number % 10) as u8;
    }
}

/// Returns the year, month and day for a number of days since 1970-01-01, in the proleptic
/// Gregorian calendar.
///
/// The calculation counts days from 0000-03-01, so that the leap day is the last day of its year.
/// 400 years have 146,097 days, and the lengths of the months from March to January follow (153 m +
/// 2) / 5 (Howard Hinnant, "chrono-Compatible Low-Level Date Algorithms", 2014).
pub fn civil(days: i64) -> (i64, u32, u32) {
    let days = days + 719_468;
    let era = days.div_euclid(146_097);
    let day_of_era = days.rem_euclid(146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_index = (5 * day_of_year + 2) / 153;
    let day = (day_of_year - (153 * month_index + 2) / 5 + 1) as u32;
    let month = if month_index < 10 { month_index + 3 } else { month_index - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    (year, month as u32, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_formatted_in_utc_with_milliseconds() {
        let cases = [
            (0, "1970-01-01T00:00:00.000Z"),
            (951_827_696_123_999_999, "2000-02-29T12:34:56.123Z"),
            (1_709_251_199_000_000_000, "2024-02-29T23:59:59.000Z"),
            (4_102_444_800_000_000_000, "2100-01-01T00:00:00.000Z"),
            (-1_000_000, "1969-12-31T23:59:59.999Z"),
            (-1, "1969-12-31T23:59:59.999Z"),
            (999_999, "1970-01-01T00:00:00.000Z"),
            (86_400_000_000_000, "1970-01-02T00:00:00.000Z"),
            (i64::MIN, "1677-09-21T00:12:43.145Z"),
            (i64::MAX, "2262-04-11T23:47:16.854Z"),
        ];
        let mut renderer = Rfc3339::default();
        for (ns, expected) in cases {
            let mut out = Vec::new();
            push_rfc3339(&mut out, ns);
            assert_eq!(String::from_utf8(out).unwrap(), expected);
            assert_eq!(renderer.text(ns), expected.as_bytes());
        }
    }
}
