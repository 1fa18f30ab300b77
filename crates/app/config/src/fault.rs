//! Errors in a configuration file, with their positions.

use std::fmt::{self, Write};
use std::sync::Arc;

/// A position in a configuration file.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Place {
    /// Path of the file as given.
    pub file: Arc<str>,
    /// Line, counted from 1.
    pub line: usize,
    /// Column in characters, counted from 1.
    pub column: usize,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}", self.file, self.line, self.column)
    }
}

/// An error in a configuration, printed as `file:line:column: what is wrong; what to use instead`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Fault {
    /// Position of the error; `None` if it is not in a file.
    pub place: Option<Place>,
    /// What is wrong.
    pub what: String,
    /// Advice on what to use instead; may be empty.
    pub advice: String,
}

impl Fault {
    /// Creates an error at `place`.
    pub fn new(place: &Place, what: impl Into<String>, advice: impl Into<String>) -> Self {
        Fault { place: Some(place.clone()), what: what.into(), advice: advice.into() }
    }

    /// Creates an error without a position in a file.
    pub fn anywhere(what: impl Into<String>, advice: impl Into<String>) -> Self {
        Fault { place: None, what: what.into(), advice: advice.into() }
    }

    /// Creates an error from a message of the form "what is wrong; what to use instead".
    pub fn from_message(place: &Place, prefix: &str, message: &str) -> Self {
        let (what, advice) = message.split_once("; ").unwrap_or((message, ""));
        Fault::new(place, format!("{prefix}{what}"), advice)
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(place) = &self.place {
            write!(f, "{place}: ")?;
        }
        let separator = if self.advice.is_empty() { "" } else { "; " };
        // The message may quote a multi-line value, but must stay on one line.
        for c in [&self.what, separator, &self.advice].into_iter().flat_map(str::chars) {
            if c.is_control() { write!(f, "{}", c.escape_default())? } else { f.write_char(c)? }
        }
        Ok(())
    }
}
