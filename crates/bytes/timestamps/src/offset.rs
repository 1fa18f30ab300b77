//! Parsing of UTC offsets in the configuration.

use crate::fields::Fields;
use crate::step::Step;

/// Parses a UTC offset, such as `UTC` or `+02:00`. Returns `None` for any other text.
pub fn parse_utc_offset(text: &str) -> Option<i32> {
    if text == "UTC" {
        return Some(0);
    }
    let mut fields = Fields::new(Some(0));
    let end = Step::Offset { optional: false }.read(text.as_bytes(), 0, &mut fields)?;
    let is_whole = end == text.len() && text.len() == "+02:00".len();
    fields.offset_seconds().filter(|_| is_whole)
}
