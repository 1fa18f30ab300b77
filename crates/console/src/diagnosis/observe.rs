//! The task that takes snapshots for the diagnosis.

use super::{Bottleneck, Diagnoser, Diagnosis};
use crate::TakeSnapshot;
use parking_lot::Mutex;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Shortest and longest time between two snapshots.
const INTERVAL: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(5));

/// Ratio of the time between two snapshots to the time that a snapshot takes. It keeps snapshots
/// cheap even with thousands of files.
const PAUSES: u32 = 500;

/// The diagnoses of all sources, at most a few seconds old. Clones share the state.
#[derive(Clone, Default)]
pub struct DiagnosisState(Arc<Mutex<Diagnoser>>);

impl DiagnosisState {
    /// Returns the diagnoses of all sources.
    pub fn diagnosis(&self) -> Diagnosis {
        self.0.lock().diagnosis().clone()
    }

    /// Returns the bottleneck.
    pub fn bottleneck(&self) -> Bottleneck {
        self.0.lock().bottleneck().clone()
    }

    /// Takes snapshots until the task is aborted. Snapshots before the engine runs are empty and
    /// are ignored.
    pub async fn observe(self, snapshot: Arc<TakeSnapshot>) {
        loop {
            let begun = Instant::now();
            let taken = snapshot().engine;
            if taken.uptime_seconds > 0.0 {
                let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
                self.0.lock().observe(taken, since_epoch.as_nanos() as i64);
            }
            let pause = (begun.elapsed() * PAUSES).clamp(INTERVAL.0, INTERVAL.1);
            tokio::time::sleep(pause).await;
        }
    }
}
