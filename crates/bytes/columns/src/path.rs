//! Paths to values within JSON.

use crate::text::push_json_string;
use std::fmt::{self, Display, Formatter};

/// A step of a path: to a member of an object, or to an element of an array.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Step {
    /// The member with this name.
    Member(String),
    /// The element at this index, counted from 0.
    Element(u32),
}

impl Display for Step {
    /// Writes `["name"]` or `[0]`.
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Step::Member(name) => {
                let mut quoted = Vec::new();
                push_json_string(name.as_bytes(), &mut quoted);
                write!(out, "[{}]", String::from_utf8_lossy(&quoted))
            }
            Step::Element(index) => write!(out, "[{index}]"),
        }
    }
}

/// A path in its text form, such as `a.b[0]["c.d"]`.
pub struct DisplayPath<'p>(pub &'p [Step]);

impl Display for DisplayPath<'_> {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        for (at, step) in self.0.iter().enumerate() {
            match step {
                Step::Member(name) if is_plain(name) => {
                    let dot = if at == 0 { "" } else { "." };
                    write!(out, "{dot}{name}")?;
                }
                step => write!(out, "{step}")?,
            }
        }
        Ok(())
    }
}

/// Returns whether a path can contain the name without quotes.
fn is_plain(name: &str) -> bool {
    let is_part = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    name.bytes().all(is_part) && name.starts_with(|first: char| !first.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_written_as_they_are_read() {
        let member = |name: &str| Step::Member(name.to_owned());
        let path = [member("a"), member("_b1"), Step::Element(0), member("c.\"d"), member("1e")];
        assert_eq!(DisplayPath(&path).to_string(), r#"a._b1[0]["c.\"d"]["1e"]"#);
        assert_eq!(DisplayPath(&[Step::Element(3), member("")]).to_string(), r#"[3][""]"#);
    }
}
