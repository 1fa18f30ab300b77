//! The list of compiled collectors, so that the same collector is compiled only once.

use super::figures::{Figures, look};
use super::queue::Queue;
use crate::util::jvm::{self, JarState, Java, Place, advised, keep, placed};
use millstream_jvm::{Collector, CollectorSpec};
use parking_lot::Mutex;
use std::path::PathBuf;
use std::sync::{Arc, Weak};

/// Compiled collectors that are in use. Entries of other collectors are removed.
static KNOWN: Mutex<Vec<Weak<Built>>> = Mutex::new(Vec::new());

/// A compiled collector. It stays listed while a source uses it, so that a reload can recognize an
/// unchanged collector without recompiling it.
pub struct Built {
    spec: CollectorSpec,
    jars: Vec<Option<JarState>>,
    java: Java,
    /// The collector; `None` after a source has taken it.
    ready: Mutex<Option<Ready>>,
}

/// A collector that is not called yet, and its queue.
pub struct Ready {
    /// The collector, which stops when it is dropped.
    pub collector: Collector,
    /// Queue for its events.
    pub queue: Arc<Queue>,
    /// Statistics of the collector.
    pub figures: Arc<Figures>,
}

impl Built {
    /// Returns whether the collector is called at intervals.
    pub fn has_interval(&self) -> bool {
        self.spec.interval_ms > 0
    }

    /// Takes the collector. Compiles a second collector if a source has already taken the first.
    ///
    /// # Errors
    /// Returns an error if the collector no longer compiles.
    pub fn take(&self) -> Result<Ready, String> {
        let ready = self.ready.lock().take();
        ready.map_or_else(|| ready_of(&self.java, &self.spec), Ok)
    }
}

/// Returns the collector for a specification. Starts the JVM and compiles the collector if
/// necessary.
///
/// # Errors
/// Returns an error if there is no suitable JVM or the collector is invalid. The error says what is
/// wrong and where.
pub fn built(place: &Place<'_>, spec: CollectorSpec) -> Result<Arc<Built>, String> {
    let java = place.start().map_err(|error| advised(error.to_string()))?;
    let jars: Vec<Option<JarState>> = jars_of(&spec).map(|path| JarState::of(path)).collect();
    jvm::report(&java);
    jvm::watch(&java, look);
    let mut known = KNOWN.lock();
    known.retain(|built| built.strong_count() > 0);
    let is_same = |built: &Arc<Built>| {
        built.java.process() == java.process() && built.spec == spec && built.jars == jars
    };
    if let Some(same) = known.iter().filter_map(Weak::upgrade).find(is_same) {
        keep(same.clone());
        return Ok(same);
    }
    let ready = Mutex::new(Some(ready_of(&java, &spec)?));
    let built = Arc::new(Built { spec, jars, java, ready });
    known.push(Arc::downgrade(&built));
    keep(built.clone());
    Ok(built)
}

fn jars_of(spec: &CollectorSpec) -> impl Iterator<Item = &PathBuf> {
    spec.jar.iter().chain(&spec.jars)
}

fn ready_of(java: &Java, spec: &CollectorSpec) -> Result<Ready, String> {
    let queue = Arc::<Queue>::default();
    let collector = java.collector(spec, queue.clone()).map_err(|error| placed(&error))?;
    let process = java.process().map(str::to_owned);
    let number = collector.number().clone();
    let figures = Arc::new(Figures::new(spec.component.clone(), process, number));
    Ok(Ready { collector, queue, figures })
}
