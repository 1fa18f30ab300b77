//! The JVM inside the process.

use crate::bridge::Natives;
use crate::buffer::Pool;
use crate::collector::{self, Collector, CollectorSpec, CollectorsStats, Deliver};
use crate::control::{self, Blueprint, Control, Started};
use crate::create;
use crate::discover::{Java, Places, find_jar};
use crate::error::{CallError, RegisterError, StartError};
use crate::operator::{Operator, OperatorSpec};
use crate::options::JvmOptions;
use crate::recorded::recorded;
use crate::worker::{self, Shared};
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use std::ffi::c_int;
use std::io::Write;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Environment variables with options that the JVM applies in addition to the declared options.
const VARIABLES: [&str; 2] = ["JAVA_TOOL_OPTIONS", "_JAVA_OPTIONS"];

/// This process's running JVM, with its options.
static RUNNING: Mutex<Option<(JvmOptions, Jvm)>> = Mutex::new(None);

/// The process's JVM, which runs until the process exits. Cheap to clone.
#[derive(Clone)]
pub struct Jvm(Arc<Inner>);

struct Inner {
    shared: Arc<Shared>,
    control: Control,
    info: JvmInfo,
}

/// Information about a running JVM.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct JvmInfo {
    /// Java home.
    pub home: std::path::PathBuf,
    /// Java version, such as `25.0.1`.
    pub java_version: String,
    /// Name of the virtual machine.
    pub vm: String,
    /// Time that the start took.
    pub start: Duration,
    /// Warnings about options with unexpected effects.
    pub warnings: Vec<String>,
}

/// Statistics about a JVM.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
pub struct JvmStats {
    /// Bytes of objects, including objects that the next collection will free.
    pub heap_used: u64,
    /// Bytes of the heap that are backed by memory.
    pub heap_committed: u64,
    /// Maximum heap size in bytes.
    pub heap_max: u64,
    /// Bytes of classes and compiled code.
    pub non_heap_used: u64,
    /// Bytes of classes.
    pub metaspace_used: u64,
    /// Number of garbage collections.
    pub collections: u64,
    /// Total time of all collections in milliseconds.
    pub collection_ms: u64,
    /// Number of threads, including workers.
    pub threads: u64,
    /// Number of loaded classes.
    pub classes: u64,
}

/// The heap size after a collection.
#[derive(Clone, Copy, Debug, Deserialize)]
pub struct HeapSize {
    /// Bytes of objects.
    #[serde(rename = "heap_used")]
    pub used: u64,
    /// Bytes that are backed by memory.
    #[serde(rename = "heap_committed")]
    pub committed: u64,
}

impl Jvm {
    /// Starts the process's JVM, or returns the running JVM.
    ///
    /// # Errors
    /// Returns an error if the JVM cannot start, or a JVM with other options is running.
    pub fn start(options: &JvmOptions) -> Result<Jvm, StartError> {
        let mut running = RUNNING.lock();
        if let Some((used, jvm)) = &*running {
            return if used == options { Ok(jvm.clone()) } else { Err(StartError::Different) };
        }
        let jvm = start(options)?;
        *running = Some((options.clone(), jvm.clone()));
        Ok(jvm)
    }

    /// Checks everything that can be checked without starting the JVM: the options, Java, the jar
    /// and the user.
    ///
    /// # Errors
    /// See [`Jvm::start`].
    pub fn check(options: &JvmOptions) -> Result<(), StartError> {
        blueprint(options).map(drop)
    }

    /// Returns information about the running JVM.
    pub fn info(&self) -> &JvmInfo {
        &self.0.info
    }

    /// Compiles an operator.
    ///
    /// # Errors
    /// Returns an error if the source contains an error, or the JVM does not respond.
    pub fn register(&self, spec: &OperatorSpec) -> Result<Operator, RegisterError> {
        Operator::register(&self.0.shared, &self.0.control, spec)
    }

    /// Compiles a collector. Use [`Collector::start`] to start calling it.
    pub fn collector(
        &self,
        spec: &CollectorSpec,
        deliver: Arc<dyn Deliver>,
    ) -> Result<Collector, RegisterError> {
        Collector::register(&self.0.control, spec, deliver)
    }

    /// Returns statistics about the collectors, and records the calls that have ended since the
    /// previous request. Calls Java on the current thread.
    ///
    /// # Errors
    /// See [`Jvm::stats`].
    pub fn collector_stats(&self) -> Result<CollectorsStats, CallError> {
        recorded(None, worker::collector_stats(&self.0.shared)?)
    }

    /// Returns the state that calling threads share.
    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.0.shared
    }

    /// Returns the control thread.
    pub(crate) fn control(&self) -> &Control {
        &self.0.control
    }

    /// Returns statistics about the JVM, and records its garbage collections since the previous
    /// request. Calls Java on the current thread.
    ///
    /// # Errors
    /// Returns an error if the thread cannot call Java, or Java threw an exception.
    pub fn stats(&self) -> Result<JvmStats, CallError> {
        recorded(None, worker::process(&self.0.shared)?)
    }

    /// Collects garbage and returns memory to the system. After this call, the heap keeps little
    /// memory beyond the used part. Returns the size of the heap after the collection. Calls Java
    /// on the current thread, for the duration of the collection.
    ///
    /// # Errors
    /// Returns an error if the thread cannot call Java, or Java threw an exception.
    pub fn tighten_heap(&self) -> Result<HeapSize, CallError> {
        recorded(None, worker::heap(&self.0.shared, true)?)
    }

    /// Lets the heap keep as much memory as its options allow, so that it is collected less often.
    ///
    /// # Errors
    /// See [`Jvm::tighten_heap`].
    pub fn relax_heap(&self) -> Result<HeapSize, CallError> {
        recorded(None, worker::heap(&self.0.shared, false)?)
    }

    /// Calls a Java method that does nothing `count` times on the current thread, to measure the
    /// cost of a call.
    pub fn noop(&self, count: u64) -> Result<(), CallError> {
        worker::noop(&self.0.shared, count)
    }
}

/// Exits the process immediately with this code if it has a JVM, even one that is being created or
/// that failed to start. A normal exit would run the destructors of the JVM's library while its
/// threads are still running, and the process could crash.
pub fn end_process(code: u8) {
    if !create::was_called() {
        return;
    }
    end_now(code)
}

/// Exits the process immediately with this code.
pub(crate) fn end_now(code: u8) -> ! {
    _ = std::io::stdout().flush();
    // SAFETY: `_exit` has no preconditions.
    unsafe { _exit(c_int::from(code)) }
}

unsafe extern "C" {
    fn _exit(code: c_int) -> !;
}

fn start(options: &JvmOptions) -> Result<Jvm, StartError> {
    let begin = Instant::now();
    let blueprint = blueprint(options)?;
    let home = blueprint.java.home.clone();
    let Started { vm, bridge, control, java } = control::start(blueprint)?;
    let shared = Arc::new(Shared { vm, bridge, pool: Pool::new(options.threads) });
    let info = JvmInfo {
        home,
        java_version: java.java_version,
        vm: java.vm,
        start: begin.elapsed(),
        warnings: warnings(options),
    };
    Ok(Jvm(Arc::new(Inner { shared, control, info })))
}

fn blueprint(options: &JvmOptions) -> Result<Blueprint, StartError> {
    options.check()?;
    if is_root() && !options.allow_root {
        return Err(StartError::Root);
    }
    let java: Java = Places::of_process().find(options.home.as_deref())?;
    let program = std::env::current_exe().unwrap_or_default();
    let jar = find_jar(options.jar.as_deref(), Path::new(&program))?;
    let arguments = options.arguments(&jar, java.version);
    let natives =
        Natives { grow: worker::grow, deliver: collector::deliver, stopped: collector::stopped };
    Ok(Blueprint { java, jar, arguments, natives })
}

/// Returns warnings about options with unexpected effects.
fn warnings(options: &JvmOptions) -> Vec<String> {
    let mut warnings = Vec::new();
    if is_root() && options.allow_root {
        warnings.push("the code of operators runs as root".to_owned());
    }
    for name in VARIABLES {
        if let Some(value) = std::env::var_os(name).filter(|value| !value.is_empty()) {
            warnings.push(format!(
                "{name} changes the JVM options, and possibly the JVM's memory use: {}",
                value.display()
            ));
        }
    }
    warnings
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}
