//! Format of log lines.

use log::Level;
use std::fmt::{self, Write as _};
use std::time::{SystemTime, UNIX_EPOCH};

/// Maximum bytes of a target, mostly a module's path.
const TARGET_BYTES_MAX: usize = 200;

/// A complete log line.
pub fn format_line(time: SystemTime, level: Level, target: &str, message: &str) -> String {
    let target = escaped(format_args!("{target}"), TARGET_BYTES_MAX);
    format!("{} {level:<5} {target}  {message}\n", Rfc3339(time))
}

/// Returns a text with escaped control characters, so that no message starts a second line or moves
/// the cursor of a terminal. The text has at most `bytes_max` bytes, with a mark if it is cut.
pub fn escaped(text: impl fmt::Display, bytes_max: usize) -> String {
    let mut escaper = Escaper { out: String::new(), bytes_max };
    if write!(escaper, "{text}").is_err() {
        // The text is full, or a value cannot be formatted. In both cases, more text exists than is
        // written.
        escaper.out.push('…');
    }
    escaper.out
}

struct Escaper {
    out: String,
    bytes_max: usize,
}

impl fmt::Write for Escaper {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for character in text.chars() {
            let before = self.out.len();
            match character {
                // Some readers treat line and paragraph separators as line ends.
                '\u{2028}' | '\u{2029}' => self.out.extend(character.escape_default()),
                _ if character.is_control() => self.out.extend(character.escape_default()),
                _ => self.out.push(character),
            }
            if self.out.len() > self.bytes_max {
                self.out.truncate(before);
                return Err(fmt::Error);
            }
        }
        Ok(())
    }
}

/// Returns the beginning of a text, cut between two characters.
pub fn cut(text: &str, bytes_max: usize) -> &str {
    &text[..text.floor_char_boundary(bytes_max)]
}

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

/// Returns year, month and day of a number of days since 1970-01-01. Years are counted from March
/// 1, so that the leap day is the last one.
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
