//! The words of a target as libFuzzer reads them.

use crate::Target;
use std::fmt::Write;

/// The words of a target as a dictionary of libFuzzer: one in quotes on each line, in hexadecimal.
pub fn dictionary(target: &Target) -> String {
    let mut text = String::new();
    for word in target.words.iter().filter(|word| !word.is_empty()) {
        text.push('"');
        word.iter().for_each(|byte| _ = write!(text, "\\x{byte:02X}"));
        text.push_str("\"\n");
    }
    text
}
