//! Checks the names in the options of a task.

use super::emit::{Emit, is_field};
use indexmap::IndexMap;
use millstream_model::OptionError;

/// Maximum number of fields in `group_by`.
const KEYS_MAX: usize = 16;

/// Returns the errors in the `emit` and `group_by` options.
pub fn check_names(emit: &IndexMap<String, Emit>, group_by: &[String]) -> Vec<OptionError> {
    let mut errors = Vec::new();
    let mut error = |key: String, message: &str| errors.push(OptionError::new(key, message));
    if emit.is_empty() {
        error("/emit".into(), "is empty; use, for example, { requests: count() }");
    }
    for name in emit.keys().filter(|name| !is_name(name)) {
        let key = format!("/emit/{}", escaped(name));
        error(key, "is not a valid name; use letters, digits, `_` and `-`");
    }
    if group_by.len() > KEYS_MAX {
        error("/group_by".into(), "has too many fields; use at most 16");
    }
    for (index, name) in group_by.iter().enumerate() {
        let key = format!("/group_by/{index}");
        if !is_field(name) {
            error(key, "is not a field name; write only the name");
        } else if name == "overflow" {
            error(key, "is reserved for the tag of events beyond `groups_max`; rename the field");
        } else if group_by[..index].contains(name) {
            error(key, "is a duplicate; remove it");
        }
    }
    errors
}

/// Returns whether `name` is a valid task or function name.
pub fn is_name(name: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    !name.is_empty() && name.chars().all(is_plain)
}

/// Returns a key as a part of a JSON pointer, with escapes.
pub fn escaped(key: &str) -> String {
    key.replace('~', "~0").replace('/', "~1")
}
