//! Errors, typed by how the caller must react.

use std::time::Duration;

/// A component cannot be built from its configuration.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct BuildError(pub String);

/// A component failed as a whole, not on one event.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct ComponentError {
    /// Short name for the `error_type` label.
    pub kind: &'static str,
    /// What happened, for people.
    pub message: String,
}

impl ComponentError {
    /// Creates an error of `kind`.
    pub fn new(kind: &'static str, message: impl Into<String>) -> Self {
        ComponentError { kind, message: message.into() }
    }
}

/// A failed delivery, and whether a retry can help.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct DeliverError {
    /// Short name for the `error_type` label.
    pub kind: &'static str,
    /// What happened, for people.
    pub message: String,
    /// Whether the same payload may be accepted later.
    pub retry: bool,
    /// How long the endpoint asked us to wait, if it did.
    pub retry_after: Option<Duration>,
}

impl DeliverError {
    /// Creates a transient error.
    pub fn retry(kind: &'static str, message: impl Into<String>) -> Self {
        DeliverError { kind, message: message.into(), retry: true, retry_after: None }
    }

    /// Creates the error of a payload that is rejected permanently.
    pub fn reject(kind: &'static str, message: impl Into<String>) -> Self {
        DeliverError { kind, message: message.into(), retry: false, retry_after: None }
    }
}
