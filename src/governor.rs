//! The measurements of the engine's memory governor, and its effects on other parts.

use millstream_components::transforms::jvm::{note_pressure, promised_bytes};
use millstream_engine::{MemoryHost, MemoryLook};
use millstream_host::{ResidentMemory, resident_bytes};
use millstream_jvm::JvmProcess;
use millstream_model::Pressure;
use parking_lot::Mutex;
use std::io;
use std::path::Path;
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};

/// Minimum time between two returns of free memory to the system, because each may take a tenth of
/// a second.
const TRIM_PAUSE_MIN: Duration = Duration::from_secs(5);

/// Maximum time between two of these returns, used if they return little memory.
const TRIM_PAUSE_MAX: Duration = Duration::from_secs(120);

/// Maximum time between two of these returns while the pressure is high, because only memory that
/// is returned reduces the pressure.
const TRIM_PAUSE_HIGH: Duration = Duration::from_secs(10);

/// Inverse of a share of the memory limit. A return of less than this share is considered
/// insignificant.
const LITTLE_PART: u64 = 50;

/// Time after a start or reload in which sources and sinks open their files and connections.
const SETTLING_TIME: Duration = Duration::from_secs(5);

/// The memory of the agent, which is read several times a second.
static OWN: LazyLock<io::Result<ResidentMemory>> = LazyLock::new(ResidentMemory::open);

/// Returns the measurements of this process for the governor, and the reaction to them.
pub fn memory_host() -> MemoryHost {
    let trims = Mutex::new(Trims::default());
    if let Err(error) = &*OWN {
        log::error!(
            "memory: cannot compare memory use with limits.memory: cannot read /proc/self/statm: \
             {error}"
        );
    }
    MemoryHost {
        resident_bytes: Arc::new(resident),
        promised_bytes: Arc::new(promised_bytes),
        on_look: Arc::new(move |look| act(look, &mut trims.lock())),
    }
}

/// Releases the pages of the program that only a start or reload uses, once components have settled.
/// Must be called within the network runtime.
pub fn release_unused_pages() {
    tokio::spawn(async {
        tokio::time::sleep(SETTLING_TIME).await;
        millstream_allocator::unmap_program();
    });
}

/// Returns the resident memory, in bytes, of the agent and the JVMs in separate processes. Memory
/// that several processes have mapped counts for each of them.
fn resident() -> Option<u64> {
    let own = OWN.as_ref().ok()?.bytes()?;
    let children = JvmProcess::all().into_iter().filter_map(|process| process.state().pid);
    let of_children =
        children.filter_map(|pid| resident_bytes(&Path::new("/proc").join(pid.to_string())));
    Some(of_children.fold(own, u64::saturating_add))
}

/// Passes the pressure on to the JVM, and, unless the pressure is low, returns the allocator's free
/// memory to the system from time to time. This includes normal pressure after high pressure,
/// because the memory would otherwise stay in the allocator.
fn act(look: MemoryLook, trims: &mut Trims) {
    note_pressure(look.pressure);
    if look.pressure != Pressure::Low && trims.is_due(look.pressure, Instant::now()) {
        millstream_allocator::trim();
        let after = resident().unwrap_or(look.resident_bytes);
        let has_returned =
            look.resident_bytes.saturating_sub(after) >= look.limit_bytes / LITTLE_PART;
        trims.done(has_returned, Instant::now());
    }
}

/// The schedule for returning the allocator's free memory. Each return takes time, so returns are
/// frequent only while they free much memory.
#[derive(Default)]
struct Trims {
    pause: Duration,
    last: Option<Instant>,
}

impl Trims {
    fn is_due(&self, pressure: Pressure, now: Instant) -> bool {
        let pause = match pressure {
            Pressure::High => self.pause.min(TRIM_PAUSE_HIGH),
            _ => self.pause,
        };
        self.last.is_none_or(|last| now >= last + pause)
    }

    fn done(&mut self, has_returned: bool, now: Instant) {
        let pause = if has_returned { TRIM_PAUSE_MIN } else { self.pause * 2 };
        self.pause = pause.clamp(TRIM_PAUSE_MIN, TRIM_PAUSE_MAX);
        self.last = Some(now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn returns_of_little_become_rare() {
        let (mut trims, now) = (Trims::default(), Instant::now());
        let normal = Pressure::Normal;
        assert!(trims.is_due(normal, now));
        let mut pause = |has_returned| {
            trims.done(has_returned, now);
            let is_due_after = |pause| trims.is_due(normal, now + pause);
            assert!(!is_due_after(trims.pause / 2) && is_due_after(trims.pause));
            trims.pause.as_secs()
        };
        assert_eq!([false; 6].map(&mut pause), [5, 10, 20, 40, 80, 120]);
        assert_eq!([true, false].map(pause), [5, 10]);
    }

    #[test]
    fn high_pressure_shortens_a_long_pause() {
        let now = Instant::now();
        let trims = Trims { pause: TRIM_PAUSE_MAX, last: Some(now) };
        let is_due = |pressure, seconds| trims.is_due(pressure, now + Duration::from_secs(seconds));
        assert!(!is_due(Pressure::Normal, 119) && is_due(Pressure::Normal, 120));
        assert!(!is_due(Pressure::High, 9) && is_due(Pressure::High, 10));
    }
}
