//! Errors, with one type for each way in which the caller must react.

use crate::kind::Kind;
use crate::secrets;
use std::borrow::Cow;
use std::fmt;
use std::io;
use std::time::Duration;

/// The reason why a component cannot be built from its configuration.
#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    /// The value of one option is invalid.
    #[error("{0}")]
    Option(OptionError),
    /// The combination of options is invalid. The text says what is wrong and what to use instead.
    #[error("{0}")]
    Options(String),
    /// A socket cannot be opened at an address.
    #[error("{0}")]
    Listen(String),
    /// The Kafka client rejects its settings.
    #[error("{0}")]
    Producer(String),
    /// The system cannot provide random numbers for ids.
    #[error("{0}")]
    Random(#[source] io::Error),
    /// A thread of the component cannot be started.
    #[error("{0}")]
    Thread(#[source] io::Error),
    /// The checkpoint store cannot be read.
    #[error("cannot read the checkpoint store: {0}")]
    Store(#[source] io::Error),
    /// One of the configured components cannot be built.
    #[error("{kind} {id}: {error}")]
    Component {
        /// Kind of the component.
        kind: Kind,
        /// Id of the component.
        id: String,
        /// Reason why the component cannot be built.
        #[source]
        error: Box<BuildError>,
    },
}

impl BuildError {
    /// Whether only a change to the configuration helps. Otherwise the state of the host is the
    /// reason, such as a port in use, so a later attempt may succeed.
    pub fn is_configuration(&self) -> bool {
        match self {
            BuildError::Option(_) | BuildError::Options(_) | BuildError::Producer(_) => true,
            BuildError::Listen(_)
            | BuildError::Random(_)
            | BuildError::Thread(_)
            | BuildError::Store(_) => false,
            BuildError::Component { error, .. } => error.is_configuration(),
        }
    }
}

/// An error in one of a component's options.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OptionError {
    /// JSON pointer to the option, relative to the component's options; empty for the options as a
    /// whole.
    pub pointer: String,
    /// Description of the problem.
    pub what: String,
    /// Advice on what to use instead; may be empty.
    pub advice: String,
}

impl OptionError {
    /// Creates an error from a message of the form "what is wrong; what to use instead".
    pub fn new(pointer: impl Into<String>, message: impl Into<String>) -> OptionError {
        let message = message.into();
        let (what, advice) = message.split_once("; ").unwrap_or((&message, ""));
        OptionError { pointer: pointer.into(), what: what.to_owned(), advice: advice.to_owned() }
    }

    /// Returns the message: "what is wrong; what to use instead".
    pub fn message(&self) -> String {
        let separator = if self.advice.is_empty() { "" } else { "; " };
        format!("{}{separator}{}", self.what, self.advice)
    }

    /// Returns the same error for options nested under `pointer`.
    pub fn below(self, pointer: &str) -> OptionError {
        OptionError { pointer: format!("{pointer}{}", self.pointer), ..self }
    }
}

impl fmt::Display for OptionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.pointer.is_empty() {
            write!(f, "{}: ", self.pointer)?;
        }
        f.write_str(&self.message())
    }
}

impl From<OptionError> for BuildError {
    fn from(error: OptionError) -> BuildError {
        BuildError::Option(error)
    }
}

/// Returns the message with secrets masked, because an endpoint or a library may quote its input.
fn masked(message: impl Into<String>) -> String {
    let message = message.into();
    match secrets::mask(&message) {
        Cow::Owned(masked) => masked,
        Cow::Borrowed(_) => message,
    }
}

/// An error of a component as a whole, rather than of one event.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct ComponentError {
    /// Short name for the `error_type` label.
    pub kind: &'static str,
    /// Human-readable description of the error.
    pub message: String,
}

impl ComponentError {
    /// Creates an error of `kind`. Secrets in the message are masked.
    pub fn new(kind: &'static str, message: impl Into<String>) -> Self {
        ComponentError { kind, message: masked(message) }
    }
}

/// A failed delivery, and whether a retry can help.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct DeliverError {
    /// Short name for the `error_type` label.
    pub kind: &'static str,
    /// Human-readable description of the failure.
    pub message: String,
    /// Whether the endpoint may accept the same payload later.
    pub retry: bool,
    /// Pause that the endpoint asked for, if any.
    pub retry_after: Option<Duration>,
    /// The status of an HTTP response, or a negated system error number; 0 for other errors.
    pub code: i64,
}

impl DeliverError {
    /// Creates a transient error. Secrets in the message are masked.
    pub fn retry(kind: &'static str, message: impl Into<String>) -> Self {
        DeliverError { kind, message: masked(message), retry: true, retry_after: None, code: 0 }
    }

    /// Creates the error for a permanently rejected payload. Secrets in the message are masked.
    pub fn reject(kind: &'static str, message: impl Into<String>) -> Self {
        DeliverError { kind, message: masked(message), retry: false, retry_after: None, code: 0 }
    }

    /// Sets the HTTP status of the response as the error's code.
    pub fn with_status(self, status: u16) -> Self {
        DeliverError { code: i64::from(status), ..self }
    }

    /// Sets the negated error number of a failed system call as the error's code.
    pub fn with_system_error(self, error: &io::Error) -> Self {
        DeliverError { code: -i64::from(error.raw_os_error().unwrap_or(0)), ..self }
    }
}
