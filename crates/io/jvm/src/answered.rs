//! The JVM's responses as JSON.

use crate::error::{CallError, ControlError};
use serde::Deserialize;
use serde::de::DeserializeOwned;

/// The JVM's response to a request that may fail.
#[derive(Deserialize)]
#[serde(untagged)]
pub enum Answered<T> {
    /// The request failed.
    Fault {
        /// The error that the JVM reported.
        error: Fault,
    },
    /// The result.
    Done(T),
}

/// An error in a rule.
#[derive(Deserialize)]
pub struct Fault {
    /// Description of the problem.
    pub message: String,
    /// Name of the rule; `None` if the error does not concern a rule.
    pub rule: Option<String>,
    /// Line in the rule, counted from 1; 0 if unknown.
    pub line: u32,
    /// Column in the rule, counted from 1; 0 if unknown.
    pub column: u32,
}

/// Parses a response from the JVM.
pub fn parsed<T: DeserializeOwned>(answer: Vec<u8>) -> Result<T, CallError> {
    serde_json::from_slice(&answer).map_err(|error| CallError::Exception(error.to_string()))
}

/// Describes a response that cannot be parsed.
pub fn unreadable(error: serde_json::Error) -> ControlError {
    ControlError::Answer(error.to_string())
}
