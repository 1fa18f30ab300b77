//! The JVM of the process.

use crate::buffer::Pool;
use crate::collector::{Collector, CollectorSpec, CollectorsStats, Deliver};
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

/// Environment variables from which the JVM takes options, behind those that were declared.
const VARIABLES: [&str; 2] = ["JAVA_TOOL_OPTIONS", "_JAVA_OPTIONS"];

/// The JVM that runs in this process, with its options.
static RUNNING: Mutex<Option<(JvmOptions, Jvm)>> = Mutex::new(None);

/// The JVM of the process. Cheap to clone. It ends with the process.
#[derive(Clone)]
pub struct Jvm(Arc<Inner>);

struct Inner {
    shared: Arc<Shared>,
    control: Control,
    info: JvmInfo,
}

/// What runs.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct JvmInfo {
    /// Home of Java.
    pub home: std::path::PathBuf,
    /// Its version, such as `25.0.1`.
    pub java_version: String,
    /// Name of the virtual machine.
    pub vm: String,
    /// Duration of the start.
    pub start: Duration,
    /// What may surprise.
    pub warnings: Vec<String>,
}

/// Numbers about the JVM.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
pub struct JvmStats {
    /// Bytes of objects, also those that the next collection frees.
    pub heap_used: u64,
    /// Bytes of the heap that are backed by memory.
    pub heap_committed: u64,
    /// Largest heap in bytes.
    pub heap_max: u64,
    /// Bytes of classes and compiled code.
    pub non_heap_used: u64,
    /// Bytes of classes.
    pub metaspace_used: u64,
    /// Number of collections.
    pub collections: u64,
    /// Time of all collections in milliseconds.
    pub collection_ms: u64,
    /// Number of threads, workers included.
    pub threads: u64,
    /// Number of loaded classes.
    pub classes: u64,
}

/// The heap after a collection.
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
    /// Starts the JVM of the process, or returns the one that runs.
    ///
    /// # Errors
    /// It cannot start, or one with other options runs.
    pub fn start(options: &JvmOptions) -> Result<Jvm, StartError> {
        let mut running = RUNNING.lock();
        if let Some((used, jvm)) = &*running {
            return if used == options { Ok(jvm.clone()) } else { Err(StartError::Different) };
        }
        let jvm = start(options)?;
        *running = Some((options.clone(), jvm.clone()));
        Ok(jvm)
    }

    /// Checks what can be checked without a start: the options, Java, the jar and the user.
    ///
    /// # Errors
    /// As of [`Jvm::start`].
    pub fn check(options: &JvmOptions) -> Result<(), StartError> {
        blueprint(options).map(drop)
    }

    /// Returns what runs.
    pub fn info(&self) -> &JvmInfo {
        &self.0.info
    }

    /// Compiles an operator.
    ///
    /// # Errors
    /// Its source has a fault, or the JVM does not answer.
    pub fn register(&self, spec: &OperatorSpec) -> Result<Operator, RegisterError> {
        Operator::register(&self.0.shared, &self.0.control, spec)
    }

    /// Compiles a collector; [`Collector::start`] begins to call it.
    ///
    /// # Errors
    /// As of [`Jvm::register`].
    pub fn collector(
        &self,
        spec: &CollectorSpec,
        deliver: Arc<dyn Deliver>,
    ) -> Result<Collector, RegisterError> {
        Collector::register(&self.0.control, spec, deliver)
    }

    /// Returns what the collectors did, and records their calls that have ended since. Runs on the
    /// current thread, as a call does.
    ///
    /// # Errors
    /// As of [`Jvm::stats`].
    pub fn collector_stats(&self) -> Result<CollectorsStats, CallError> {
        recorded(None, worker::collector_stats(&self.0.shared)?)
    }

    /// Returns what threads that call need.
    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.0.shared
    }

    /// Returns the control thread.
    pub(crate) fn control(&self) -> &Control {
        &self.0.control
    }

    /// Returns numbers about the JVM, and records its garbage collections since the last call. Runs on
    /// the current thread, as a call does.
    ///
    /// # Errors
    /// The thread cannot call Java, or Java threw an exception.
    pub fn stats(&self) -> Result<JvmStats, CallError> {
        recorded(None, worker::process(&self.0.shared)?)
    }

    /// Collects, and returns memory to the system: from now on the heap keeps little beyond what is
    /// in use. Returns what it has then. Runs on the current thread, for as long as the collection
    /// takes.
    ///
    /// # Errors
    /// The thread cannot call Java, or Java threw an exception.
    pub fn tighten_heap(&self) -> Result<HeapSize, CallError> {
        recorded(None, worker::heap(&self.0.shared, true)?)
    }

    /// Lets the heap keep what its options say again, so that it is collected less often.
    ///
    /// # Errors
    /// As of [`Jvm::tighten_heap`].
    pub fn relax_heap(&self) -> Result<HeapSize, CallError> {
        recorded(None, worker::heap(&self.0.shared, false)?)
    }

    /// Calls a method of Java that does nothing, `count` times on the current thread: measures what
    /// a call costs.
    ///
    /// # Errors
    /// The thread cannot call Java.
    pub fn noop(&self, count: u64) -> Result<(), CallError> {
        worker::noop(&self.0.shared, count)
    }
}

/// Ends the process at once with this code if it has a JVM, also one that is being created or whose
/// start has failed: the threads of a JVM run on while the destructors of its library do, which may
/// crash.
pub fn end_process(code: u8) {
    if !create::was_called() {
        return;
    }
    end_now(code)
}

/// Ends the process at once with this code.
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
    Ok(Blueprint { java, jar, arguments })
}

/// Returns what may surprise.
fn warnings(options: &JvmOptions) -> Vec<String> {
    let mut warnings = Vec::new();
    if is_root() && options.allow_root {
        warnings.push("the code of operators runs as root".to_owned());
    }
    for name in VARIABLES {
        if let Some(value) = std::env::var_os(name).filter(|value| !value.is_empty()) {
            warnings.push(format!(
                "{name} changes the options of the JVM, and perhaps its memory: {}",
                value.display()
            ));
        }
    }
    warnings
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}
