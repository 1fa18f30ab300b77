//! Where code runs: in the JVM of the agent's process, or in that of a separate one.

use millstream_jvm::{
    CallError, Collector, CollectorSpec, CollectorsStats, Deliver, HeapSize, Jvm, JvmInfo,
    JvmOptions, JvmProcess, JvmStats, Operator, OperatorSpec, ProcessOptions, RegisterError,
    StartError,
};
use std::sync::Arc;

/// A JVM in which code runs.
pub enum Java {
    /// In the agent's process.
    Inside(Jvm),
    /// In a separate process.
    Process(JvmProcess),
}

/// Where code is to run.
pub enum Place<'a> {
    /// In the JVM of the agent's process.
    Inside(&'a JvmOptions),
    /// In the process with this name.
    Process(&'a str, &'a ProcessOptions),
}

impl Place<'_> {
    /// Returns the options of its JVM.
    pub fn jvm(&self) -> &JvmOptions {
        match self {
            Place::Inside(jvm) => jvm,
            Place::Process(_, process) => &process.jvm,
        }
    }

    /// Starts its JVM unless it runs.
    ///
    /// # Errors
    /// It cannot be started.
    pub fn start(&self) -> Result<Java, StartError> {
        match self {
            Place::Inside(jvm) => Jvm::start(jvm).map(Java::Inside),
            Place::Process(name, process) => JvmProcess::open(name, process).map(Java::Process),
        }
    }
}

impl Java {
    /// Returns the name of its process, unless that is the agent's.
    pub fn process(&self) -> Option<&str> {
        match self {
            Java::Inside(_) => None,
            Java::Process(process) => Some(process.name()),
        }
    }

    /// Returns what runs; `None` while nothing does.
    pub fn info(&self) -> Option<JvmInfo> {
        match self {
            Java::Inside(jvm) => Some(jvm.info().clone()),
            Java::Process(process) => process.info(),
        }
    }

    /// Compiles an operator.
    ///
    /// # Errors
    /// As of [`Jvm::register`].
    pub fn register(&self, spec: &OperatorSpec) -> Result<Operator, RegisterError> {
        match self {
            Java::Inside(jvm) => jvm.register(spec),
            Java::Process(process) => process.register(spec),
        }
    }

    /// Compiles a collector.
    ///
    /// # Errors
    /// As of [`Jvm::register`].
    pub fn collector(
        &self,
        spec: &CollectorSpec,
        deliver: Arc<dyn Deliver>,
    ) -> Result<Collector, RegisterError> {
        match self {
            Java::Inside(jvm) => jvm.collector(spec, deliver),
            Java::Process(process) => process.collector(spec, deliver),
        }
    }

    /// Returns what the collectors did.
    ///
    /// # Errors
    /// As of [`Jvm::stats`].
    pub fn collector_stats(&self) -> Result<CollectorsStats, CallError> {
        match self {
            Java::Inside(jvm) => jvm.collector_stats(),
            Java::Process(process) => process.collector_stats(),
        }
    }

    /// Collects and returns memory to the system, or lets the heap keep what its options say.
    ///
    /// # Errors
    /// As of [`Jvm::stats`].
    pub fn set_heap_tight(&self, is_tight: bool) -> Result<HeapSize, CallError> {
        match (self, is_tight) {
            (Java::Inside(jvm), true) => jvm.tighten_heap(),
            (Java::Inside(jvm), false) => jvm.relax_heap(),
            (Java::Process(process), true) => process.tighten_heap(),
            (Java::Process(process), false) => process.relax_heap(),
        }
    }

    /// Returns numbers about the JVM.
    ///
    /// # Errors
    /// As of [`Jvm::stats`].
    pub fn stats(&self) -> Result<JvmStats, CallError> {
        match self {
            Java::Inside(jvm) => jvm.stats(),
            Java::Process(process) => process.stats(),
        }
    }
}
