//! What operators cost, and what the JVM uses: read once a second while operators run.
//!
//! A separate thread reads them: a call into the JVM may wait for a collection, and a request for
//! the figures must not.

use super::heap;
use millstream_jvm::{Jvm, JvmStats, Operator, RuleStats};
use millstream_model::snapshot::{JvmSnapshot, TaskSnapshot};
use parking_lot::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Once};
use std::time::Duration;

/// How old the figures may be.
const INTERVAL: Duration = Duration::from_secs(1);

/// The JVM, as of the last look.
static JVM: Mutex<Option<JvmSnapshot>> = Mutex::new(None);

/// An operator with its figures.
pub type Counted = (Operator, Arc<Figures>);

/// What an operator did, as of the last look.
#[derive(Default)]
pub struct Figures {
    calls: AtomicU64,
    /// Calls at the last look.
    seen: AtomicU64,
    rules: Mutex<Vec<RuleStats>>,
}

impl Figures {
    /// Counts a call.
    pub fn count_call(&self) {
        self.calls.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns the scripts with their costs.
    pub fn tasks(&self) -> Vec<TaskSnapshot> {
        let rules = self.rules.lock();
        let all_ns: u64 = rules.iter().map(|rule| rule.ns).sum();
        let task = |rule: &RuleStats| TaskSnapshot {
            task: rule.name.clone(),
            examined: rule.rows,
            matched: rule.rows - rule.failures.min(rule.rows),
            failed: Some(rule.failures),
            seconds: Some(rule.ns as f64 / 1e9),
            time_share: rule.ns as f64 / all_ns.max(1) as f64,
            ..TaskSnapshot::default()
        };
        rules.iter().map(task).collect()
    }

    /// Reads what the operator did, if it was called since the last look; returns whether it was.
    fn look(&self, operator: &Operator) -> bool {
        let calls = self.calls.load(Ordering::Relaxed);
        if self.seen.swap(calls, Ordering::Relaxed) == calls {
            return false;
        }
        if let Ok(stats) = operator.stats() {
            *self.rules.lock() = stats.rules;
        }
        true
    }
}

/// Returns what the JVM uses; `None` if none runs.
pub fn jvm_snapshot() -> Option<JvmSnapshot> {
    let (requested_collections, ignored_collections) = heap::collections();
    let known = *JVM.lock();
    known.map(|jvm| JvmSnapshot { requested_collections, ignored_collections, ..jvm })
}

/// Begins to look at the operators that `in_use` returns, once per process.
pub fn watch(jvm: &Jvm, in_use: fn() -> Vec<Counted>) {
    static BEGUN: Once = Once::new();
    let jvm = jvm.clone();
    BEGUN.call_once(|| {
        let thread = std::thread::Builder::new().name("jvm-figures".to_owned());
        if let Err(error) = thread.spawn(move || look_forever(&jvm, in_use)) {
            log::warn!("the figures of the JVM are not read: {error}");
        }
    });
}

fn look_forever(jvm: &Jvm, in_use: fn() -> Vec<Counted>) -> ! {
    let mut is_due = true;
    loop {
        if is_due {
            look_at(jvm);
        }
        std::thread::sleep(INTERVAL);
        let looks = in_use().into_iter().map(|(operator, figures)| figures.look(&operator));
        is_due = looks.fold(false, |any, was_called| any | was_called);
    }
}

/// Reads what the JVM uses. Without memory for the answer, the figures stay those of the last look.
fn look_at(jvm: &Jvm) {
    if let Ok(stats) = jvm.stats() {
        *JVM.lock() = Some(snapshot(stats));
    }
}

fn snapshot(stats: JvmStats) -> JvmSnapshot {
    JvmSnapshot {
        heap_used_bytes: stats.heap_used,
        heap_committed_bytes: stats.heap_committed,
        heap_bytes_max: stats.heap_max,
        non_heap_used_bytes: stats.non_heap_used,
        metaspace_used_bytes: stats.metaspace_used,
        collections: stats.collections,
        requested_collections: 0,
        ignored_collections: 0,
        collection_seconds: stats.collection_ms as f64 / 1000.0,
        threads: stats.threads,
        classes: stats.classes,
    }
}
