//! Errors in expressions.

use std::fmt;

/// The reason why an expression is invalid.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Position in the text, in bytes.
    pub at: usize,
    /// Line of the position, counted from 1.
    pub line: usize,
    /// Byte within the line, counted from 1.
    pub column: usize,
    /// What is wrong.
    pub message: String,
    /// What to use instead. Empty if there is no advice.
    pub advice: String,
}

impl Fault {
    pub(crate) fn new(at: usize, message: impl Into<String>, advice: impl Into<String>) -> Fault {
        Fault { at, line: 0, column: 0, message: message.into(), advice: advice.into() }
    }

    /// Sets the line and column from the position in `text`.
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

/// Returns "did you mean" followed by the names in `known` that are similar to `name`. Returns an
/// empty string if no name is similar.
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

/// Returns the edit distance between two names, ignoring ASCII case.
fn distance(a: &str, b: &str) -> usize {
    strsim::levenshtein(&a.to_ascii_lowercase(), &b.to_ascii_lowercase())
}
