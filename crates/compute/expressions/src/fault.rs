//! What is wrong with the text of an expression.

use std::fmt;

/// Why a text is no expression.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Where it is wrong, in bytes from the beginning of the text.
    pub at: usize,
    /// The same as a line, from 1 on.
    pub line: usize,
    /// The same as a byte of that line, from 1 on.
    pub column: usize,
    /// What is wrong.
    pub message: String,
    /// What to write instead; empty if that is not known.
    pub advice: String,
}

impl Fault {
    pub(crate) fn new(at: usize, message: impl Into<String>, advice: impl Into<String>) -> Fault {
        Fault { at, line: 0, column: 0, message: message.into(), advice: advice.into() }
    }

    /// The same with its line and column in `text`.
    pub(crate) fn placed(self, text: &str) -> Fault {
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

/// "did you mean" with those of `known` that are close to `name`; nothing if none is.
pub fn did_you_mean<'k>(name: &str, known: impl Iterator<Item = &'k str>) -> String {
    let most = 1 + name.len() / 3;
    let mut near: Vec<(usize, &str)> = known.map(|known| (distance(name, known), known)).collect();
    near.retain(|(distance, _)| *distance <= most);
    near.sort();
    near.dedup();
    match near
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

/// Edit distance that ignores ASCII case.
fn distance(a: &str, b: &str) -> usize {
    strsim::levenshtein(&a.to_ascii_lowercase(), &b.to_ascii_lowercase())
}
