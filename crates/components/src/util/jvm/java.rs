//! The JVM in which code runs: inside the agent, or in a separate process.

use millstream_jvm::{
    CallError, Collector, CollectorSpec, CollectorsStats, Deliver, HeapSize, Jvm, JvmInfo,
    JvmOptions, JvmProcess, JvmStats, Operator, OperatorSpec, ProcessOptions, RegisterError,
    StartError,
};
use std::sync::Arc;

/// A JVM in which code runs.
pub enum Java {
    /// The JVM inside the agent.
    Inside(Jvm),
    /// A JVM in a separate process.
    Process(JvmProcess),
}

/// The JVM in which code must run, which may not have started yet.
pub enum Place<'a> {
    /// The JVM inside the agent.
    Inside(&'a JvmOptions),
    /// The separate process with this name.
    Process(&'a str, &'a ProcessOptions),
}

impl Place<'_> {
    /// Returns the options of the JVM.
    pub fn jvm(&self) -> &JvmOptions {
        match self {
            Place::Inside(jvm) => jvm,
            Place::Process(_, process) => &process.jvm,
        }
    }

    /// Starts the JVM unless it is running already.
    ///
    /// # Errors
    /// Returns an error if the JVM cannot start.
    pub fn start(&self) -> Result<Java, StartError> {
        match self {
            Place::Inside(jvm) => Jvm::start(jvm).map(Java::Inside),
            Place::Process(name, process) => JvmProcess::open(name, process).map(Java::Process),
        }
    }
}

impl Java {
    /// Returns the name of the separate process; `None` for the JVM inside the agent.
    pub fn process(&self) -> Option<&str> {
        match self {
            Java::Inside(_) => None,
            Java::Process(process) => Some(process.name()),
        }
    }

    /// Returns information about the running JVM; `None` while it does not run.
    pub fn info(&self) -> Option<JvmInfo> {
        match self {
            Java::Inside(jvm) => Some(jvm.info().clone()),
            Java::Process(process) => process.info(),
        }
    }

    /// Compiles an operator.
    ///
    /// # Errors
    /// Returns the same errors as [`Jvm::register`].
    pub fn register(&self, spec: &OperatorSpec) -> Result<Operator, RegisterError> {
        match self {
            Java::Inside(jvm) => jvm.register(spec),
            Java::Process(process) => process.register(spec),
        }
    }

    /// Compiles a collector.
    ///
    /// # Errors
    /// Returns the same errors as [`Jvm::register`].
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

    /// Returns the statistics of the collectors.
    ///
    /// # Errors
    /// Returns the same errors as [`Jvm::stats`].
    pub fn collector_stats(&self) -> Result<CollectorsStats, CallError> {
        match self {
            Java::Inside(jvm) => jvm.collector_stats(),
            Java::Process(process) => process.collector_stats(),
        }
    }

    /// Collects garbage and returns memory to the system, or lets the heap keep as much memory as
    /// its options allow.
    ///
    /// # Errors
    /// Returns the same errors as [`Jvm::tighten_heap`].
    pub fn set_heap_tight(&self, is_tight: bool) -> Result<HeapSize, CallError> {
        match (self, is_tight) {
            (Java::Inside(jvm), true) => jvm.tighten_heap(),
            (Java::Inside(jvm), false) => jvm.relax_heap(),
            (Java::Process(process), true) => process.tighten_heap(),
            (Java::Process(process), false) => process.relax_heap(),
        }
    }

    /// Returns the statistics of the JVM.
    ///
    /// # Errors
    /// Returns the same errors as [`Jvm::stats`].
    pub fn stats(&self) -> Result<JvmStats, CallError> {
        match self {
            Java::Inside(jvm) => jvm.stats(),
            Java::Process(process) => process.stats(),
        }
    }
}
