//! Shared code of components that run code in the JVM: scripts, errors and statistics.

mod figures;
mod heap;
mod java;
mod kept;
mod mode;
mod runtime;
pub mod scripts;

pub use figures::{jvm_process_snapshots, jvm_snapshot, promised_bytes, watch};
pub use heap::note_pressure;
pub use java::{Java, Place};
pub use kept::{KeptOperators, keep};
pub use mode::JvmMode;
pub use runtime::{JVM, JvmRuntime, processes_of, runs_inside};

use millstream_jvm::{JvmInfo, RegisterError};
use parking_lot::Mutex;
use std::path::Path;
use std::time::SystemTime;

/// The class of the exception that Java throws when memory runs out.
const OUT_OF_MEMORY: &str = "OutOfMemoryError";

/// Errors that Java throws instead of an out-of-memory error, directly or as a cause, if the
/// metaspace is exhausted while Java links the runtime's first classes.
const UNLINKED: [&str; 3] =
    ["java.lang.InternalError", "java.lang.BootstrapMethodError", "java.lang.NoClassDefFoundError"];

/// Calls that only print, log, or read the call stack. `log.*` matches every call on a variable
/// `log`.
const REMOVED_CALLS: &[&str] =
    &["print", "println", "printf", "dump", "printStackTrace", "dumpStack", "log.*", "logger.*"];

/// Returns the default of the `removed_calls` option.
pub fn removed_calls() -> Vec<String> {
    REMOVED_CALLS.iter().map(|&name| name.to_owned()).collect()
}

/// Size and modification time of a jar, by which a change is detected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JarState {
    bytes: u64,
    modified: Option<SystemTime>,
}

impl JarState {
    /// Returns the state of a file; `None` if it does not exist.
    pub fn of(path: &Path) -> Option<JarState> {
        let metadata = path.metadata().ok()?;
        Some(JarState { bytes: metadata.len(), modified: metadata.modified().ok() })
    }
}

/// Returns the message of an error, prefixed with its location in the script if the location is
/// known.
pub fn placed(error: &RegisterError) -> String {
    let text = error.to_string();
    match error {
        _ if text.contains(OUT_OF_MEMORY) => advised(text),
        RegisterError::Fault { message, rule: Some(rule), line: 0, .. } => {
            format!("{rule}: {message}")
        }
        RegisterError::Fault { message, rule: Some(rule), line, column } => {
            format!("{rule}:{line}:{column}: {message}")
        }
        _ => text,
    }
}

/// Returns a message, with advice if Java has run out of memory.
pub fn advised(text: String) -> String {
    if text.contains("OutOfMemoryError: Metaspace") {
        return format!("{text}; raise -XX:MaxMetaspaceSize in jvm.options");
    }
    if text.contains(OUT_OF_MEMORY) {
        return format!("{text}; raise jvm.heap");
    }
    let reason = text.split_once("does not work: ").map_or("", |(_, reason)| reason);
    if UNLINKED.iter().any(|class| reason.contains(class)) {
        return format!("{text}; if jvm.options limits the metaspace, raise -XX:MaxMetaspaceSize");
    }
    text
}

/// Returns whether logging has started. A configuration is checked before logging starts.
pub fn has_log() -> bool {
    log::max_level() != log::LevelFilter::Off
}

/// Logs which JVM was started, once per JVM. Does nothing before logging has started, because a
/// configuration is checked before that.
pub fn report(java: &Java) {
    /// JVMs that were logged; a separate process is identified by its name.
    static REPORTED: Mutex<Vec<Option<String>>> = Mutex::new(Vec::new());
    let process = java.process().map(str::to_owned);
    let mut reported = REPORTED.lock();
    if !has_log() || reported.contains(&process) {
        return;
    }
    let Some(JvmInfo { java_version, home, warnings, .. }) = java.info() else { return };
    let home = home.display();
    match &process {
        None => log::info!("operators run on Java {java_version} of {home}"),
        Some(name) => log::info!("process {name} runs on Java {java_version} of {home}"),
    }
    warnings.iter().for_each(|warning| log::warn!("{warning}"));
    reported.push(process);
}

#[cfg(test)]
mod tests {
    use super::advised;

    #[test]
    fn an_unlinked_class_is_a_lack_of_metaspace_alone_and_as_a_cause() {
        let texts = [
            "the runtime does not work: java.lang.NoClassDefFoundError: a",
            "the runtime does not work: java.lang.IllegalArgumentException: \
             java.lang.InternalError: java.lang.NoSuchMethodException: a",
        ];
        for text in texts {
            let advice = advised(text.to_owned());
            assert!(advice.contains("raise -XX:MaxMetaspaceSize"), "{advice}");
        }
        let other = "a script failed: java.lang.InternalError: a";
        assert_eq!(advised(other.to_owned()), other);
    }
}
