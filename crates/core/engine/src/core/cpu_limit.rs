//! The limit on the process's CPU time in one topology.

use crate::pace::CpuCeiling;
use millstream_model::EngineTime;
use parking_lot::Mutex;
use std::sync::Arc;
use std::time::Duration;

/// The limit on the CPU time of the process, if there is one.
#[derive(Clone, Default)]
pub(crate) struct CpuLimit {
    cores: Option<f64>,
    ceiling: Option<Arc<Mutex<CpuCeiling>>>,
}

impl CpuLimit {
    /// Returns the limit for the next topology. If the number of cores does not change, the time
    /// used so far still counts.
    pub fn renewed(&self, cores: Option<f64>) -> CpuLimit {
        if cores == self.cores {
            return self.clone();
        }
        let ceiling = cores.map(|cores| Arc::new(Mutex::new(CpuCeiling::new(cores))));
        CpuLimit { cores, ceiling }
    }

    /// Returns the maximum number of cores that the process may use; `None` if there is no limit.
    pub fn cores(&self) -> Option<f64> {
        self.cores
    }

    /// Returns how long to wait before the next poll may begin; `None` if there is no limit.
    pub fn wait(&self, now: EngineTime) -> Option<Duration> {
        let ceiling = self.ceiling.as_ref()?;
        let used = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
        let used = Duration::new(used.tv_sec as u64, used.tv_nsec as u32);
        Some(ceiling.lock().wait(now, used))
    }
}
