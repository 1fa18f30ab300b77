//! Errors in the text of an expression.

use std::fmt;

/// Reason why an expression is invalid.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Position in bytes from the beginning of the text.
    pub at: usize,
    /// Line of the position, starting at 1.
    pub line: usize,
    /// Byte within that line, starting at 1.
    pub column: usize,
    /// Description of the error.
    pub message: String,
    /// Advice on what to write instead. Empty if unknown.
    pub advice: String,
}

impl Fault {
    pub(crate) fn new(at: usize, message: impl Into<String>, advice: impl Into<String>) -> Fault {
        Fault { at, line: 0, column: 0, message: message.into(), advice: advice.into() }
    }

    /// Fills in the line and column of the position in `text`.
    pub(crate) fn with_position(self, text: &str) -> Fault {
        let before = &text.as_bytes()[..self.at.min(text.len())];
        let line_start = before.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
        let line = 1 + before.iter().filter(|byte| **byte == b'\n').count();
        Fault { line, column: before.len() - line_start + 1, ..self }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "line {}, column {}: {}", self.line, self.column, self.message)?;
        match self.advice.is_empty() {
            true => Ok(()),
            false => write!(out, "; {}", self.advice),
        }
    }
}

impl std::error::Error for Fault {}

/// Returns "did you mean" with the names in `known` that are similar to `name`, or an empty string
/// if none is similar.
pub fn did_you_mean<'k>(name: &str, known: impl Iterator<Item = &'k str>) -> String {
    let most = 1 + name.len() / 3;
    let mut similar: Vec<(usize, &str)> =
        known.map(|known| (distance(name, known), known)).collect();
    similar.retain(|(distance, _)| *distance <= most);
    similar.sort();
    similar.dedup();
    match similar
        .iter()
        .take(3)
        .map(|(_, known)| format!("`{known}`"))
        .collect::<Vec<_>>()
        .join(" or ")
    {
        names if names.is_empty() => names,
        names => format!("did you mean {names}?"),
    }
}

/// Returns the edit distance, ignoring ASCII case.
fn distance(a: &str, b: &str) -> usize {
    strsim::levenshtein(&a.to_ascii_lowercase(), &b.to_ascii_lowercase())
}
