//! A thread in the pool for offload transforms.

use crate::core::FinishedCall;
use crate::current::Current;
use crate::offload::{Due, OffloadPool};
use crate::thread::spawn;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

/// Lets the pool start threads when there is work.
pub(crate) fn run_on_threads(pool: &Arc<OffloadPool>, current: &Arc<Current>) {
    let weak_pool = Arc::downgrade(pool);
    let current = Arc::downgrade(current);
    let numbers = AtomicU64::new(0);
    pool.on_work(move || {
        let (Some(pool), Some(current)) = (weak_pool.upgrade(), current.upgrade()) else { return };
        let thread = OffloadThread { current, pool };
        let number = numbers.fetch_add(1, Ordering::Relaxed);
        spawn(&format!("offload-{number}"), move || thread.run());
    });
}

/// A thread in the pool. Between calls, the thread does not keep a transform, because a reload may
/// have removed it.
struct OffloadThread {
    current: Arc<Current>,
    pool: Arc<OffloadPool>,
}

impl OffloadThread {
    /// Runs calls until the pool stops or has not needed the thread for some time.
    fn run(self) {
        while let Some(due) = self.next() {
            self.call(due);
        }
    }

    fn next(&self) -> Option<Due> {
        self.pool.wait_for_call(|| self.current.core().resources().engine_time())
    }

    fn call(&self, due: Due) {
        let core = self.current.core();
        let begun = Instant::now();
        let outputs = core.flow().call(&due.queue, due.batches);
        let Some(arrivals) = self.pool.finish(due.id) else { return };
        core.flow().resume(FinishedCall { queue: due.queue, arrivals, begun, outputs });
    }
}
