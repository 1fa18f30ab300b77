//! Errors, typed by what the caller must do about them.

use std::time::Duration;

/// A component cannot be built from its configuration.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct BuildError(pub String);

/// A component failed in a way that concerns itself, not one event.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct ComponentError {
    /// Short name for the `error_type` label.
    pub kind: &'static str,
    /// What happened, for a person.
    pub message: String,
}

impl ComponentError {
    /// An error of `kind`.
    pub fn new(kind: &'static str, message: impl Into<String>) -> Self {
        ComponentError { kind, message: message.into() }
    }
}

/// A delivery that failed, and whether trying again can help.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct DeliverError {
    /// Short name for the `error_type` label.
    pub kind: &'static str,
    /// What happened, for a person.
    pub message: String,
    /// True if the same payload may be accepted later; false if it never will be.
    pub retry: bool,
    /// What the endpoint asked us to wait, if it did.
    pub retry_after: Option<Duration>,
}

impl DeliverError {
    /// A passing failure.
    pub fn retry(kind: &'static str, message: impl Into<String>) -> Self {
        DeliverError { kind, message: message.into(), retry: true, retry_after: None }
    }

    /// A payload that is refused for good.
    pub fn reject(kind: &'static str, message: impl Into<String>) -> Self {
        DeliverError { kind, message: message.into(), retry: false, retry_after: None }
    }
}
