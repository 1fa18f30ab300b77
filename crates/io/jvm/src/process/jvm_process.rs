//! The handle to a JVM in a separate process.

use super::collector::CollectorSlot;
use super::frame::Kind;
use super::life::Life;
use super::settings::ProcessOptions;
use super::slot::Slot;
use super::supervisor::{Component, Inner, ProcessState};
use crate::collector::{Collector, CollectorSpec, CollectorsStats, Deliver};
use crate::error::{CallError, RegisterError, StartError};
use crate::jvm::{HeapSize, JvmInfo, JvmStats};
use crate::operator::{Operator, OperatorSpec};
use crate::recorded::recorded;
use parking_lot::Mutex;
use std::sync::{Arc, Weak};

/// Locked while a process starts, so that no process is started twice.
static STARTING: Mutex<()> = Mutex::new(());

/// The processes in use.
static PROCESSES: Mutex<Vec<Weak<Inner>>> = Mutex::new(Vec::new());

/// A JVM in a separate process. Cheap to clone. The process ends when the last clone and the last
/// operator are dropped.
#[derive(Clone)]
pub struct JvmProcess(Arc<Inner>);

impl JvmProcess {
    /// Starts a process, or returns the running process with this name.
    ///
    /// # Errors
    /// Returns an error if the process cannot start, or runs with other options.
    pub fn open(name: &str, options: &ProcessOptions) -> Result<JvmProcess, StartError> {
        let _starting = STARTING.lock();
        if let Some(known) = JvmProcess::all().into_iter().find(|known| known.name() == name) {
            let is_same = known.0.state().has_options(options);
            return if is_same { Ok(known) } else { Err(StartError::Different) };
        }
        let process = JvmProcess(Inner::start(name, options)?);
        let mut processes = PROCESSES.lock();
        processes.retain(|inner| inner.strong_count() > 0);
        processes.push(Arc::downgrade(&process.0));
        Ok(process)
    }

    /// Returns the processes in use.
    pub fn all() -> Vec<JvmProcess> {
        let processes = PROCESSES.lock();
        processes.iter().filter_map(Weak::upgrade).map(JvmProcess).collect()
    }

    /// Returns the name of the process.
    pub fn name(&self) -> &str {
        &self.0.state().name
    }

    /// Returns the state of the process.
    pub fn state(&self) -> ProcessState {
        self.0.state().process_state()
    }

    /// Returns information about the running JVM; `None` while no child is running.
    pub fn info(&self) -> Option<JvmInfo> {
        self.0.state().current().map(|life| life.info.clone())
    }

    /// Compiles an operator in the process.
    pub fn register(&self, spec: &OperatorSpec) -> Result<Operator, RegisterError> {
        let (slot, registered) = Slot::register(&self.0, spec)?;
        let component: Arc<dyn Component> = Arc::<Slot>::clone(&slot);
        self.0.state().add_operator(&component);
        Ok(Operator::in_process(spec, slot, registered))
    }

    /// Compiles a collector in the process. Use [`Collector::start`] to start calling it.
    pub fn collector(
        &self,
        spec: &CollectorSpec,
        deliver: Arc<dyn Deliver>,
    ) -> Result<Collector, RegisterError> {
        CollectorSlot::register(&self.0, spec, deliver).map(Collector::in_process)
    }

    /// Returns statistics about the collectors since the process was started, and records the calls
    /// that have ended since the previous request.
    ///
    /// # Errors
    /// See [`JvmProcess::stats`].
    pub fn collector_stats(&self) -> Result<CollectorsStats, CallError> {
        recorded(Some(self.name()), self.life()?.figures(Kind::CollectorStats, 0)?)
    }

    /// Returns statistics about the JVM, and records its garbage collections since the previous
    /// request.
    ///
    /// # Errors
    /// Returns an error if the process is not running or does not respond, or if Java threw an
    /// exception.
    pub fn stats(&self) -> Result<JvmStats, CallError> {
        recorded(Some(self.name()), self.life()?.figures(Kind::Process, 0)?)
    }

    /// Does the same as [`Jvm::tighten_heap`](crate::Jvm::tighten_heap) in the process.
    ///
    /// # Errors
    /// See [`JvmProcess::stats`].
    pub fn tighten_heap(&self) -> Result<HeapSize, CallError> {
        recorded(Some(self.name()), self.life()?.heap(true)?)
    }

    /// Lets the heap keep as much memory as its options allow, so that it is collected less often.
    ///
    /// # Errors
    /// See [`JvmProcess::stats`].
    pub fn relax_heap(&self) -> Result<HeapSize, CallError> {
        recorded(Some(self.name()), self.life()?.heap(false)?)
    }

    fn life(&self) -> Result<Arc<Life>, CallError> {
        self.0.state().current().ok_or_else(|| self.0.state().ended())
    }

    /// Calls a Java method that does nothing `count` times, to measure the cost of a call.
    pub fn noop(&self, count: u64) -> Result<(), CallError> {
        let life = self.life()?;
        let ended = || self.0.state().ended();
        let mut connection = life.connection().map_err(|_| ended())?;
        for _ in 0..count {
            connection.noop(&|| life.is_over()).map_err(|_| ended())?;
        }
        life.give_back(connection);
        Ok(())
    }
}
