//! How long a condition has held.

use millstream_model::EngineTime;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// When a condition began to hold, as engine time in milliseconds plus one; 0 while the condition
/// does not hold.
#[derive(Default)]
pub(crate) struct Since(AtomicU64);

impl Since {
    /// Records whether the condition holds; returns how long it has held, or `None` if it does not
    /// hold.
    pub fn update(&self, holds: bool, now: EngineTime) -> Option<Duration> {
        if !holds {
            self.0.store(0, Ordering::Relaxed);
            return None;
        }
        let ms = now.uptime().as_millis() as u64 + 1;
        let since = match self.0.compare_exchange(0, ms, Ordering::Relaxed, Ordering::Relaxed) {
            Ok(_) => ms,
            Err(since) => since,
        };
        Some(Duration::from_millis(ms.saturating_sub(since)))
    }
}
