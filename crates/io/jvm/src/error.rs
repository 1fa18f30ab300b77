//! This crate's errors. Each message says what to do.

use crate::unsuitable::{JAVA_VERSION_MIN, Unsuitable};
use std::fmt::Display;
use std::path::PathBuf;

/// The reason why a JVM cannot be used.
#[derive(Clone, Debug, thiserror::Error)]
pub enum StartError {
    /// The configured home is not suitable.
    #[error(
        "{0}; `home` must be the folder of a JDK or JRE {JAVA_VERSION_MIN} or later, such as \
         /usr/lib/jvm/java-17-openjdk-amd64"
    )]
    Home(Unsuitable),
    /// No suitable Java is installed.
    #[error(
        "found no Java {JAVA_VERSION_MIN} or later{}; install one, such as the package \
         default-jre-headless, or set `home` to its folder",
        list(.0)
    )]
    NotFound(Vec<Unsuitable>),
    /// The jar with the runtime for operators is missing.
    #[error(
        "millstream-operators.jar was not found{}; copy it there from target/release, where `make \
         build` puts it",
        paths(.0)
    )]
    Jar(Vec<PathBuf>),
    /// An option of the JVM cannot be used here.
    #[error("the JVM option `{option}` cannot be used: {advice}")]
    Option {
        /// The JVM option.
        option: String,
        /// What to use instead.
        advice: String,
    },
    /// The process runs as root.
    #[error(
        "the agent runs as root, so the code of operators would also run as root; run the agent as \
         another user, or set `allow_root: true`"
    )]
    Root,
    /// The JVM library cannot be loaded.
    #[error("cannot load {}: {reason}", library.display())]
    Library {
        /// Path of the library.
        library: PathBuf,
        /// Reason for the failure.
        reason: String,
    },
    /// The JVM did not start.
    #[error("the JVM did not start ({code}){}", printed(.output))]
    Create {
        /// Description of the error.
        code: String,
        /// The text that the JVM printed.
        output: String,
    },
    /// A JVM with other options is already running.
    #[error(
        "the JVM is running with different options; restart the agent to apply the new options"
    )]
    Different,
    /// A JVM process does not start.
    #[error("process {name}: {reason}")]
    Process {
        /// Name of the process.
        name: String,
        /// Reason for the failure.
        reason: String,
    },
    /// The program cannot use the jar.
    #[error("the operators' runtime in {} does not work: {reason}", jar.display())]
    Runtime {
        /// Path of the jar.
        jar: PathBuf,
        /// Reason for the failure.
        reason: String,
    },
}

fn list(unsuitable: &[Unsuitable]) -> String {
    joined(unsuitable.iter())
}

fn paths(places: &[PathBuf]) -> String {
    joined(places.iter().map(|place| place.display()))
}

fn joined(parts: impl Iterator<Item = impl Display>) -> String {
    let parts: Vec<String> = parts.map(|part| part.to_string()).collect();
    if parts.is_empty() { String::new() } else { format!(" ({})", parts.join("; ")) }
}

fn printed(output: &str) -> String {
    let lines: Vec<&str> = output.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    match lines.is_empty() {
        true => String::new(),
        false => format!(": {}", lines.join("; ")),
    }
}

/// The reason why an operator or a collector cannot be registered.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RegisterError {
    /// The source of a rule, or the class, contains an error.
    #[error("{message}")]
    Fault {
        /// Description of the problem.
        message: String,
        /// Name of the rule; `None` if the error does not concern a rule.
        rule: Option<String>,
        /// Line in the rule, counted from 1; 0 if unknown.
        line: u32,
        /// Column in the rule, counted from 1; 0 if unknown.
        column: u32,
    },
    /// The request to the JVM failed.
    #[error(transparent)]
    Control(#[from] ControlError),
}

/// The reason why a request to the JVM's control thread failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ControlError {
    /// There was no response in time.
    #[error(
        "the JVM has not responded for {0} seconds because it is compiling a rule that is too \
         complex, or has too little memory"
    )]
    Timeout(u64),
    /// Java threw an exception.
    #[error("the JVM failed: {0}")]
    Exception(String),
    /// The answer cannot be parsed.
    #[error("cannot read the JVM's response: {0}")]
    Answer(String),
    /// The error that the JVM process returned, or the reason why that process is not running.
    #[error("{0}")]
    Process(String),
}

/// The reason why a call failed as a whole. In this case, no row is changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CallError {
    /// The thread could not be attached to the JVM.
    #[error("the thread cannot call the JVM: {0}")]
    Attach(String),
    /// The input is inconsistent.
    #[error("the input of the operator is invalid: {0}")]
    Input(&'static str),
    /// The operator is not registered.
    #[error("the JVM does not have the operator")]
    UnknownOperator,
    /// The runtime for operators could not run the operator.
    #[error("the operator failed: {0}")]
    Failed(String),
    /// Java threw an exception that no rule caught.
    #[error("the operator failed: {0}")]
    Exception(String),
    /// The answer violates the layout of the shared memory, and is rejected.
    #[error("the operator's response is invalid: {0}")]
    Invalid(&'static str),
    /// There is no memory for the answer.
    #[error("no memory for the operator's response")]
    Memory,
    /// The call took longer than its deadline, and the process was killed.
    #[error("the call exceeded its deadline, and the agent killed its process")]
    Deadline,
    /// The JVM process exited in every attempt, or the call stopped waiting for a process that is
    /// not running.
    #[error("{0}")]
    ProcessEnded(String),
}
