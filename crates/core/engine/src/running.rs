//! A running engine: its threads, its barrier, and how it stops.

use crate::blueprint::Built;
use crate::chain::Worker;
use crate::committer::Committer;
use crate::core::{Core, SourceSlot};
use crate::current::Current;
use crate::offload::{offloads, start_offload};
use crate::reload::Retired;
use crate::snapshot;
use millstream_model::Leftover;
use millstream_model::snapshot::Snapshot;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tokio::runtime::Handle;

/// How often a barrier looks whether it is reached.
const BARRIER_POLL: Duration = Duration::from_millis(2);

/// How much longer than the deadline a source may take to end what it copies: it checks the time
/// once per megabyte, and then syncs.
const HOLD_OVERTIME: Duration = Duration::from_secs(5);

/// A running topology. Dropping it without [`Running::stop`] leaves its threads running.
pub struct Running {
    pub(crate) current: Arc<Current>,
    pub(crate) runtime: Handle,
    pub(crate) threads: Vec<JoinHandle<()>>,
    pub(crate) lanes: Vec<tokio::task::JoinHandle<()>>,
    /// Sinks that a reload took out and whose lanes have not ended.
    pub(crate) retired: Vec<Arc<Retired>>,
    committer: Arc<Committer>,
}

/// How a stop went.
#[derive(Clone, Debug)]
pub struct Stopped {
    /// Whether everything in flight was delivered in time. What was not is read again at the next
    /// start.
    pub drained: bool,
    /// Why the last checkpoints could not be committed: what was delivered since those before is
    /// repeated after the next start.
    pub uncommitted: Option<String>,
    /// What sources that can read twice leave unsettled.
    pub left: Leftover,
    /// Events (bytes, of a source of bytes) of other sources that no sink has settled: they are
    /// lost.
    pub unsettled: u64,
    /// What the engine had done by then.
    pub snapshot: Snapshot,
}

impl Running {
    pub(crate) fn start(built: Built, runtime: &Handle) -> Running {
        let (current, committer) = (built.current, Arc::new(Committer::default()));
        let mut threads: Vec<_> =
            (0..built.threads).map(|number| start_worker(number, &current)).collect();
        let core = current.core();
        offloads(&core).iter().for_each(|(_, offload, queue)| {
            threads.extend(start_offload(&current, offload, queue));
        });
        let lanes = built.drivers.into_iter().map(|driver| runtime.spawn(driver.run())).collect();
        let after_sync = committer.clone();
        core.store.on_sync(move || after_sync.commit_soon());
        let (of_thread, thread_committer) = (current.clone(), committer.clone());
        threads.push(spawn("checkpoint", move || thread_committer.run(&of_thread)));
        Running {
            current,
            runtime: runtime.clone(),
            threads,
            lanes,
            retired: Vec::new(),
            committer,
        }
    }

    /// What the engine is doing.
    pub fn snapshot(&self) -> Snapshot {
        snapshot::take(&self.current.core())
    }

    /// A handle that gives snapshots and outlives this value.
    pub fn observer(&self) -> impl Fn() -> Snapshot + Send + Sync + 'static {
        let current = self.current.clone();
        move || snapshot::take(&current.core())
    }

    /// Waits until every source has ended and all they gave is settled. Of the topology that runs
    /// when this is called.
    pub async fn finished(&self) {
        let core = self.current.core();
        while !core.is_finished() {
            if core.scheduler.all_ended() {
                core.sinks().flat_map(|(_, slot)| &slot.lanes).for_each(|lane| lane.flush());
            }
            tokio::time::sleep(BARRIER_POLL).await;
        }
    }

    /// The barrier: stops polling and waits until every ticket issued so far is done and released.
    /// Nothing is polled until [`Running::resume`].
    pub async fn barrier(&self) {
        let core = self.current.core();
        core.scheduler.pause(true);
        while !core.is_drained() {
            tokio::time::sleep(BARRIER_POLL).await;
        }
    }

    /// Has sources that hold something back give it, of those for which `goes` holds, while no
    /// other is read; ends when they have. [`Running::barrier`] comes next.
    pub(crate) async fn close_sources(&self, for_good: bool, goes: impl Fn(&SourceSlot) -> bool) {
        let core = self.current.core();
        core.scheduler.pause(true);
        let mut closing = Vec::new();
        for slot in &core.sources {
            closing.push(goes(slot) && close(slot, for_good).await);
        }
        if !closing.contains(&true) {
            return;
        }
        core.scheduler.close(closing);
        while !core.scheduler.have_closed() {
            tokio::time::sleep(BARRIER_POLL).await;
        }
    }

    /// Has the lanes deliver what they have, and end.
    async fn end_lanes(&self) {
        self.barrier().await;
        let core = self.current.core();
        core.sinks().flat_map(|(_, slot)| &slot.lanes).for_each(|lane| lane.close());
        for lane in core.sinks().flat_map(|(_, slot)| &slot.lanes) {
            lane.ended().await;
        }
    }

    /// Lifts the barrier.
    pub fn resume(&self) {
        self.current.core().scheduler.pause(false);
    }

    /// Stops reading, delivers what sources hold back and what is in flight within `timeout`,
    /// commits checkpoints, and ends all threads.
    pub async fn stop(mut self, timeout: Duration) -> Stopped {
        let core = self.current.core();
        let deadline = tokio::time::Instant::now() + timeout;
        let lanes = std::mem::take(&mut self.lanes);
        let aborts: Vec<_> = lanes.iter().map(tokio::task::JoinHandle::abort_handle).collect();
        // Sources that hold something back have half of the time: a sink that is dead must not take
        // the end from those that are well.
        let given =
            tokio::time::timeout(timeout / 2, self.close_sources(true, |_| true)).await.is_ok();
        let holding = self.hold_sources(deadline.into_std(), |_| true);
        let drained = tokio::time::timeout_at(deadline, self.end_lanes()).await.is_ok() && given;
        // Sinks that a reload took out may use the rest of the time; nobody waits for what they
        // have.
        let left = async {
            for lane in lanes {
                let _ = lane.await;
            }
        };
        let _ = tokio::time::timeout_at(deadline, left).await;
        aborts.iter().for_each(tokio::task::AbortHandle::abort);
        core.sinks().for_each(|(_, slot)| slot.sink.close());
        core.sources.iter().for_each(|source| source.ledger.stop());
        core.scheduler.stop();
        offloads(&core).iter().for_each(|(_, _, queue)| queue.stop());
        self.committer.stop();
        // A worker that is stuck in a component must not hold the exit: it is left behind.
        for thread in self.threads.drain(..).filter(|_| drained) {
            let _ = thread.join();
        }
        let held = tokio::time::timeout_at(deadline + HOLD_OVERTIME, holding).await.is_ok();
        if !held {
            log::error!("deleted files are still being copied, and shutdown_timeout is over");
        }
        let uncommitted = self.current.commit().err().map(|error| error.to_string());
        let (left, unsettled) = leave(&core);
        core.store.finish();
        let drained = drained && held;
        Stopped { drained, uncommitted, left, unsettled, snapshot: snapshot::take(&core) }
    }

    /// Begins to have sources for which `goes` holds make durable what they owe and could not read
    /// again. Sources must be paused.
    pub(crate) fn hold_sources(
        &self,
        deadline: Instant,
        goes: impl Fn(&SourceSlot) -> bool,
    ) -> tokio::task::JoinHandle<()> {
        let core = self.current.core();
        let sources: Vec<_> =
            core.sources.iter().filter(|slot| goes(slot)).map(|slot| slot.source.clone()).collect();
        self.runtime.spawn_blocking(move || {
            for source in sources {
                source.lock().hold(deadline);
            }
        })
    }
}

/// What the sources leave unsettled, and what of it is lost.
fn leave(core: &Core) -> (Leftover, u64) {
    let (mut left, mut lost) = (Leftover::default(), 0);
    for slot in &core.sources {
        // One that is stuck cannot be asked.
        let Some(mut source) = slot.source.try_lock() else { continue };
        match source.leave() {
            Some(leftover) => left += leftover,
            None => lost += unsettled(core, slot),
        }
    }
    (left, lost)
}

/// What the slowest sink of a source has not settled of what was read.
fn unsettled(core: &Core, slot: &SourceSlot) -> u64 {
    let sinks = core.sinks().filter(|(_, sink)| slot.downstream.contains(sink.index));
    sinks.map(|(_, sink)| slot.ledger.progress(sink.index).unsettled).max().unwrap_or(0)
}

/// Closes a source when its poll has ended; whether it has something to give.
async fn close(slot: &SourceSlot, for_good: bool) -> bool {
    loop {
        if let Some(has_more) = slot.try_close(for_good) {
            return has_more;
        }
        tokio::time::sleep(BARRIER_POLL).await;
    }
}

pub(crate) fn spawn(name: &str, body: impl FnOnce() + Send + 'static) -> JoinHandle<()> {
    let builder = std::thread::Builder::new().name(name.to_owned());
    builder.spawn(body).unwrap_or_else(|error| panic!("cannot start thread {name}: {error}"))
}

fn start_worker(number: usize, current: &Arc<Current>) -> JoinHandle<()> {
    let current = current.clone();
    spawn(&format!("worker-{number}"), move || {
        let mut core = current.core();
        let mut worker = Worker::new(&core);
        while let Some(job) = core.next_job() {
            // A job that comes after a reload is one of the new core.
            if current.renew(&mut core) {
                worker = Worker::new(&core);
            }
            core.work(&mut worker, job);
        }
    })
}
