//! The words of a target in the format of libFuzzer.

use crate::Target;
use std::fmt::Write;

/// Returns the words of a target as a dictionary of libFuzzer: one quoted word per line, in
/// hexadecimal.
pub fn dictionary(target: &Target) -> String {
    let mut text = String::new();
    for word in target.words.iter().filter(|word| !word.is_empty()) {
        text.push('"');
        word.iter().for_each(|byte| _ = write!(text, "\\x{byte:02X}"));
        text.push_str("\"\n");
    }
    text
}
