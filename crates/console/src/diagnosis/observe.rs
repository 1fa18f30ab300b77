//! The task that takes snapshots for the diagnosis.

use super::{Bottleneck, Diagnoser, Diagnosis};
use crate::routes::TakeSnapshot;
use parking_lot::Mutex;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Shortest and longest time between two snapshots.
const INTERVAL: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(5));

/// The time between snapshots is so many times what one takes, so that thousands of files cost little.
const PAUSES: u32 = 500;

/// The state of all sources, as of a second ago. Clones are the same.
#[derive(Clone, Default)]
pub struct DiagnosisState(Arc<Mutex<Diagnoser>>);

impl DiagnosisState {
    /// Returns the state of all sources.
    pub fn diagnosis(&self) -> Diagnosis {
        self.0.lock().diagnosis().clone()
    }

    /// Returns what limits the rate.
    pub fn bottleneck(&self) -> Bottleneck {
        self.0.lock().bottleneck().clone()
    }

    /// Takes snapshots until it is aborted. Those before the engine runs are empty, and left out.
    pub async fn observe(self, snapshot: Arc<TakeSnapshot>) {
        loop {
            let begun = Instant::now();
            let taken = snapshot();
            if taken.uptime_seconds > 0.0 {
                let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
                self.0.lock().observe(taken, since_epoch.as_nanos() as i64);
            }
            let pause = (begun.elapsed() * PAUSES).clamp(INTERVAL.0, INTERVAL.1);
            tokio::time::sleep(pause).await;
        }
    }
}
