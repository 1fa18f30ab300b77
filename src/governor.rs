//! What the memory governor of the engine measures, and whom it tells.

use millstream_components::transforms::jvm::note_pressure;
use millstream_engine::{MemoryHost, MemoryLook};
use millstream_host::resident_bytes;
use millstream_model::Pressure;
use parking_lot::Mutex;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Time between two returns of free memory: each may take a tenth of a second.
const TRIM_INTERVAL: Duration = Duration::from_secs(5);

/// Returns the measurement of this process.
pub fn memory_host() -> MemoryHost {
    let trimmed = Mutex::new(None);
    MemoryHost {
        resident_bytes: Arc::new(|| resident_bytes(Path::new("/proc/self"))),
        on_look: Arc::new(move |look| act(look, &mut trimmed.lock())),
    }
}

/// Passes the pressure on to the JVM, and returns what the allocator keeps while it is high.
fn act(look: MemoryLook, trimmed: &mut Option<Instant>) {
    note_pressure(look.pressure);
    let is_due = trimmed.is_none_or(|trimmed| trimmed.elapsed() >= TRIM_INTERVAL);
    if look.pressure == Pressure::High && is_due {
        millstream_allocator::trim();
        *trimmed = Some(Instant::now());
    }
}
