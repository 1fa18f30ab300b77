//! Format of log lines.

use crate::text::escaped;
use crate::time::Rfc3339;
use log::Level;
use std::time::SystemTime;

/// Maximum length of a target, usually a module path, in bytes.
const TARGET_BYTES_MAX: usize = 200;

/// Formats a complete log line.
pub fn format_line(time: SystemTime, level: Level, target: &str, message: &str) -> String {
    let target = escaped(format_args!("{target}"), TARGET_BYTES_MAX);
    format!("{} {level:<5} {target}  {message}\n", Rfc3339(time))
}

/// Returns the longest prefix of `text` that fits in `bytes_max`, truncated at a character
/// boundary.
pub fn cut(text: &str, bytes_max: usize) -> &str {
    &text[..text.floor_char_boundary(bytes_max)]
}
