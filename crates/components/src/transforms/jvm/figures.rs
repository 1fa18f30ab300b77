//! Statistics of operators, read once a second while operators run.

use millstream_jvm::{Operator, RuleStats};
use millstream_model::snapshot::TaskSnapshot;
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// An operator with its statistics.
pub type Counted = (Operator, Arc<Figures>);

/// The latest statistics of an operator.
#[derive(Default)]
pub struct Figures {
    calls: AtomicU64,
    /// Number of calls at the last read.
    seen: AtomicU64,
    rules: Mutex<Vec<RuleStats>>,
}

impl Figures {
    /// Counts a call.
    pub fn count_call(&self) {
        self.calls.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns the statistics of each script.
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

    /// Reads the statistics if the operator was called since the last read. Returns whether it was.
    pub fn look(&self, operator: &Operator) -> bool {
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
