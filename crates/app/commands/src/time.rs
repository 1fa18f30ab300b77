//! Dates and times in UTC.

use std::fmt;
use std::time::{SystemTime, UNIX_EPOCH};

/// A time in UTC with milliseconds.
pub struct Rfc3339(pub SystemTime);

impl fmt::Display for Rfc3339 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let since_1970 = self.0.duration_since(UNIX_EPOCH).unwrap_or_default();
        let (days, of_day) = (since_1970.as_secs() / 86_400, since_1970.as_secs() % 86_400);
        let (year, month, day) = date(days);
        let (hour, minute, second) = (of_day / 3600, of_day / 60 % 60, of_day % 60);
        let ms = since_1970.subsec_millis();
        write!(f, "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{ms:03}Z")
    }
}

/// Converts a number of days since 1970-01-01 to a year, month and day. Years are counted from
/// March 1, so that the leap day is the last day of the year.
pub fn date(days: u64) -> (u64, u64, u64) {
    // Days since 0000-03-01; 400 years have 146,097 days.
    let days = days + 719_468;
    let (era, of_era) = (days / 146_097, days % 146_097);
    let year_of_era = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let from_march = (5 * of_year + 2) / 153;
    let day = of_year - (153 * from_march + 2) / 5 + 1;
    let month = if from_march < 10 { from_march + 3 } else { from_march - 9 };
    (400 * era + year_of_era + u64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_follow_the_calendar() {
        let cases =
            [(0, (1970, 1, 1)), (58, (1970, 2, 28)), (59, (1970, 3, 1)), (11_016, (2000, 2, 29))];
        let later = [
            (11_017, (2000, 3, 1)),
            (19_722, (2023, 12, 31)),
            (19_782, (2024, 2, 29)),
            (47_541, (2100, 3, 1)),
        ];
        for (days, expected) in cases.into_iter().chain(later) {
            assert_eq!(date(days), expected, "day {days}");
        }
    }
}
