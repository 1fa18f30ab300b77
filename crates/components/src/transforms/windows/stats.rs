//! Statistics of each task.

use super::definition::Definition;
use super::delay::Delay;
use millstream_model::snapshot::TaskSnapshot;
use millstream_model::{Counters, Now};
use millstream_rules::TaskCounts;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// The statistics of all tasks, over all workers.
pub struct Stats(Vec<TaskStats>);

#[derive(Default)]
struct TaskStats {
    examined: AtomicU64,
    matched: AtomicU64,
    measured_ns: AtomicU64,
    groups: AtomicU64,
    memory_bytes: AtomicU64,
    emit_delay_ns_max: AtomicU64,
    overdue_windows: AtomicU64,
}

impl Stats {
    pub fn new(tasks: usize) -> Stats {
        Stats((0..tasks).map(|_| TaskStats::default()).collect())
    }

    /// Adds the counts of a task in one batch.
    pub fn add(&self, task: usize, counts: &TaskCounts) {
        let Some(stats) = self.0.get(task) else { return };
        stats.examined.fetch_add(counts.examined, Relaxed);
        stats.matched.fetch_add(counts.matched, Relaxed);
        if counts.measured_ns > 0 {
            stats.measured_ns.fetch_add(counts.measured_ns, Relaxed);
        }
    }

    /// Sets the number and memory use of the groups in a task's open windows.
    pub fn note_groups(&self, task: usize, groups: usize, memory_bytes: usize) {
        let Some(stats) = self.0.get(task) else { return };
        stats.groups.store(groups as u64, Relaxed);
        stats.memory_bytes.store(memory_bytes as u64, Relaxed);
    }

    /// Records the delay of a window whose results are now in the feed.
    pub fn note_delay(&self, delay: &Delay, now: Now, counters: &Counters) {
        let time = delay.until(now);
        let is_overdue = delay.is_overdue(now);
        counters.emit_delay().add(time);
        counters.noted("overdue_window", is_overdue.into());
        let Some(stats) = delay.task.and_then(|task| self.0.get(task)) else { return };
        stats.emit_delay_ns_max.fetch_max(time.as_nanos() as u64, Relaxed);
        stats.overdue_windows.fetch_add(is_overdue.into(), Relaxed);
    }

    /// Returns the statistics of the tasks, with the names from their definitions.
    pub fn snapshot(&self, definitions: &[Arc<Definition>]) -> Vec<TaskSnapshot> {
        let all_ns: u64 = self.0.iter().map(|stats| stats.measured_ns.load(Relaxed)).sum();
        let of_task = |(stats, definition): (&TaskStats, &Arc<Definition>)| TaskSnapshot {
            task: definition.name.clone(),
            examined: stats.examined.load(Relaxed),
            matched: stats.matched.load(Relaxed),
            time_share: stats.measured_ns.load(Relaxed) as f64 / all_ns.max(1) as f64,
            groups: stats.groups.load(Relaxed),
            memory_bytes: stats.memory_bytes.load(Relaxed),
            emit_delay_seconds_max: stats.emit_delay_ns_max.load(Relaxed) as f64 / 1e9,
            overdue_windows: stats.overdue_windows.load(Relaxed),
            ..TaskSnapshot::default()
        };
        self.0.iter().zip(definitions).map(of_task).collect()
    }
}
