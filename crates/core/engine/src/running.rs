//! A running engine: the threads, the barrier, and the shutdown.

use crate::blueprint::Built;
use crate::chain::Worker;
use crate::committer::Committer;
use crate::core::{Core, Leave, SourceSlot};
use crate::current::Current;
use crate::dead_lanes::DeadLanes;
use crate::disk_buffer::DiskBuffer;
use crate::error::EngineError;
use crate::governor::MemoryState;
use crate::offload_thread::run_on_threads;
use crate::removed::{Unsettled, unsettled};
use crate::retired::Retired;
use crate::scheduler::{Job, Woken};
use crate::thread::spawn;
use millstream_model::snapshot::Snapshot;
use millstream_model::{Leftover, SinkSet};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tokio::runtime::Handle;
use tokio::time::timeout_at;

/// Interval at which the engine checks whether a barrier is reached.
const BARRIER_POLL: Duration = Duration::from_millis(2);

/// Interval at which the engine checks the progress of a run that ends with its data.
const PROGRESS_LOOK: Duration = Duration::from_millis(100);

/// Interval at which the engine checks the deadlines of offload calls.
const CALL_LOOK: Duration = Duration::from_millis(50);

/// How far a source may exceed the shutdown deadline to finish a copy. A source checks the time
/// once per megabyte, and then syncs.
const HOLD_OVERTIME: Duration = Duration::from_secs(5);

/// Time after the shutdown deadline for the disk buffers to write the data in memory, and to end.
const CLOSE_TIME: Duration = Duration::from_secs(2);

/// A running topology. Dropping it without [`Running::stop`] leaves the threads running.
pub struct Running {
    pub(crate) current: Arc<Current>,
    pub(crate) runtime: Handle,
    pub(crate) threads: Vec<JoinHandle<()>>,
    pub(crate) lanes: Vec<tokio::task::JoinHandle<()>>,
    /// Removed sinks whose lanes have not ended.
    pub(crate) retired: Vec<Arc<Retired>>,
    committer: Arc<Committer>,
    memory: Arc<MemoryState>,
    /// Checks the deadlines of offload calls.
    call_watch: Option<tokio::task::JoinHandle<()>>,
}

/// The result of shutdown.
#[derive(Clone, Debug)]
pub struct Stopped {
    /// Whether everything in flight was delivered in time. The agent rereads the remaining data
    /// after a restart.
    pub drained: bool,
    /// Components that prevented events from being delivered in time.
    pub holders: Vec<String>,
    /// Reason why the last checkpoints could not be committed. Events delivered since the previous
    /// commit are repeated after a restart.
    pub uncommitted: Option<String>,
    /// Unsettled data from sources that can reread it.
    pub left: Leftover,
    /// Unsettled data from sources that cannot reread it. This data is lost.
    pub unsettled: Unsettled,
    /// The final snapshot. It includes the events that removed components have delivered and lost.
    pub snapshot: Snapshot,
}

impl Built {
    /// Starts workers and lanes. Lanes and their deliveries run on `runtime`.
    pub fn start(self, runtime: &Handle) -> Running {
        Running::start(self, runtime)
    }
}

impl Running {
    fn start(built: Built, runtime: &Handle) -> Running {
        let Built { current, drivers, governor, threads } = built;
        let committer = Arc::new(Committer::default());
        let mut threads: Vec<_> =
            (0..threads).map(|number| start_worker(number, &current)).collect();
        let core = current.core();
        let resources = core.resources();
        run_on_threads(&resources.offload, &current);
        core.nodes().attach_disks();
        let lanes = drivers.into_iter().map(|driver| runtime.spawn(driver.run())).collect();
        let after_sync = committer.clone();
        resources.store.on_sync(move || after_sync.commit_soon());
        threads.push(start_committer(&committer, &current));
        if let Some(governor) = governor {
            threads.push(spawn("memory", move || governor.run()));
        }
        let memory = resources.memory.clone();
        let mut running = Running {
            current,
            runtime: runtime.clone(),
            threads,
            lanes,
            retired: Vec::new(),
            committer,
            memory,
            call_watch: None,
        };
        running.watch_calls(&core);
        running
    }

    /// Starts checking the deadlines of offload calls, if the topology contains offload transforms.
    pub(crate) fn watch_calls(&mut self, core: &Core) {
        if !core.nodes().has_offload() || self.call_watch.is_some() {
            return;
        }
        let current = self.current.clone();
        self.call_watch = Some(self.runtime.spawn(async move {
            loop {
                tokio::time::sleep(CALL_LOOK).await;
                current.core().flow().expire_calls();
            }
        }));
    }

    /// Returns a snapshot of the engine.
    pub fn snapshot(&self) -> Snapshot {
        self.current.core().status().snapshot()
    }

    /// Returns a function that takes snapshots and outlives this value.
    pub fn observer(&self) -> impl Fn() -> Snapshot + Send + Sync + 'static {
        let current = self.current.clone();
        move || current.core().status().snapshot()
    }

    /// Waits until every source in the current topology has ended and all its events are settled.
    /// Returns an empty list once everything is settled. If nothing more is settled for `patience`,
    /// returns the components that prevent it.
    pub async fn finished(&self, patience: Duration) -> Vec<String> {
        let core = self.current.core();
        let mut progress = core.status().progress();
        let mut since = Instant::now();
        while !finishes_within(&core, PROGRESS_LOOK).await {
            let now = core.status().progress();
            let late = core.status().late();
            if now != progress || late.is_empty() {
                (progress, since) = (now, Instant::now());
            } else if since.elapsed() >= patience {
                return late;
            }
        }
        Vec::new()
    }

    /// Reaches the barrier: stops polling and waits until every ticket issued so far is done and
    /// released. Nothing is polled until [`Running::resume`].
    ///
    /// # Errors
    ///
    /// Returns an error if the barrier is not reached within `timeout`. The error names the
    /// components where tickets wait; polling continues.
    pub async fn barrier(&self, timeout: Duration) -> Result<(), EngineError> {
        let core = self.current.core();
        core.resources().scheduler.pause(true);
        let drained = async {
            while !core.status().is_drained() {
                tokio::time::sleep(BARRIER_POLL).await;
            }
        };
        if tokio::time::timeout(timeout, drained).await.is_ok() {
            return Ok(());
        }
        let holders = core.status().holders();
        self.resume();
        Err(EngineError::Barrier { holders, timeout })
    }

    /// Polls only the sources that `goes` selects until they have ended, so that they emit the data
    /// they have kept back. The caller calls [`Running::barrier`] next.
    pub(crate) async fn close_sources(&self, for_good: bool, goes: impl Fn(&SourceSlot) -> bool) {
        let core = self.current.core();
        let scheduler = &core.resources().scheduler;
        scheduler.pause(true);
        let mut closing = Vec::new();
        for slot in core.sources().iter() {
            closing.push(goes(slot) && close(slot, for_good).await);
        }
        if !closing.contains(&true) {
            return;
        }
        scheduler.close(closing);
        while !scheduler.have_closed() {
            tokio::time::sleep(BARRIER_POLL).await;
        }
    }

    /// Lets the lanes deliver their payloads, and end. A sink's lanes end once no ticket is on its
    /// way to the sink. Sources that are fed by a sink are polled until the sink has ended.
    async fn end_lanes(&self, deadline: tokio::time::Instant) {
        let core = self.current.core();
        let nodes = core.nodes();
        let sources = core.sources();
        let scheduler = &core.resources().scheduler;
        scheduler.pause(true);
        let is_fed = |slot: &SourceSlot| slot.fed.is_some();
        if sources.iter().any(is_fed) {
            scheduler.close(sources.iter().map(is_fed).collect());
        }
        let mut closed = SinkSet::EMPTY;
        let mut dead = DeadLanes::new(&core, deadline);
        let all = nodes.all_sinks();
        while !sources.are_drained() || closed != all {
            let due = all - sources.expected_sinks(all) - sources.fed_sinks() - closed;
            for slot in nodes.slots_of(due) {
                // After this call, the disk buffer passes nothing to the lanes, and writes the
                // payloads in them.
                if let Some(disk) = &slot.disk {
                    disk.flush();
                }
                for lane in &slot.lanes {
                    lane.close();
                }
            }
            closed = closed | due;
            dead.end();
            tokio::time::sleep(BARRIER_POLL).await;
        }
        while !nodes.lanes().all(|lane| lane.has_ended()) {
            dead.end();
            tokio::time::sleep(BARRIER_POLL).await;
        }
    }

    /// Writes to disk the data that sinks with disk buffers have not settled, until `deadline` at
    /// the latest.
    async fn flush_disks(core: &Core, deadline: tokio::time::Instant) {
        for (_, disk) in core.nodes().disks() {
            disk.flush();
        }
        let is_over = || tokio::time::Instant::now() >= deadline;
        let is_done = |disk: &DiskBuffer| disk.is_durable() || disk.error().is_some();
        while !is_over() && !core.nodes().disks().all(|(_, disk)| is_done(disk)) {
            tokio::time::sleep(BARRIER_POLL).await;
        }
    }

    /// Ends the disk buffers' threads, which remove settled data.
    async fn close_disks(core: &Core) {
        for (_, disk) in core.nodes().disks() {
            disk.close();
        }
        let deadline = tokio::time::Instant::now() + CLOSE_TIME;
        let is_over = || tokio::time::Instant::now() >= deadline;
        while !is_over() && !core.nodes().disks().all(|(_, disk)| disk.has_ended()) {
            tokio::time::sleep(BARRIER_POLL).await;
        }
    }

    /// Lifts the barrier.
    pub fn resume(&self) {
        self.current.core().resources().scheduler.pause(false);
    }

    /// Stops reading, delivers the data that sources keep back and the data in flight within
    /// `timeout`, commits checkpoints, and ends all threads.
    pub async fn stop(mut self, timeout: Duration) -> Stopped {
        let core = self.current.core();
        let deadline = tokio::time::Instant::now() + timeout;
        let lanes = std::mem::take(&mut self.lanes);
        let aborts: Vec<_> = lanes.iter().map(tokio::task::JoinHandle::abort_handle).collect();
        // Sources that keep data back get half of the time, so that healthy sinks have time to
        // finish if another sink is dead.
        let given =
            tokio::time::timeout(timeout / 2, self.close_sources(true, |_| true)).await.is_ok();
        let holding = self.hold_sources(deadline.into_std(), |_| true);
        let drained = timeout_at(deadline, self.end_lanes(deadline)).await.is_ok() && given;
        let holders = if drained { Vec::new() } else { core.status().holders() };
        // Removed sinks may use the remaining time; their payloads do not block other data.
        let left = async {
            for lane in lanes {
                let _ = lane.await;
            }
        };
        let _ = timeout_at(deadline, left).await;
        for abort in aborts {
            abort.abort();
        }
        Running::flush_disks(&core, deadline + CLOSE_TIME).await;
        let drained = drained || given && core.status().rest_is_on_disk();
        end_components(&core);
        self.end_call_watch().await;
        let offload = &core.resources().offload;
        while drained && !offload.has_ended() && tokio::time::Instant::now() < deadline {
            tokio::time::sleep(BARRIER_POLL).await;
        }
        self.end_threads(drained);
        let held = timeout_at(deadline + HOLD_OVERTIME, holding).await.is_ok();
        if !held {
            log::error!("shutdown_timeout expired while deleted files were still being copied");
        }
        let uncommitted = self.current.commit().err().map(|error| error.to_string());
        Running::close_disks(&core).await;
        let (left, unsettled) = leave(&core);
        core.resources().store.finish();
        let drained = drained && held;
        let mut snapshot = core.status().snapshot();
        snapshot.components.extend(core.resources().removed_counters.snapshots());
        Stopped { drained, holders, uncommitted, left, unsettled, snapshot }
    }

    /// Ends the task that watches calls, so that it no longer references the core.
    async fn end_call_watch(&mut self) {
        let Some(watch) = self.call_watch.take() else { return };
        watch.abort();
        let _ = watch.await;
    }

    /// Ends the threads, and waits for them if everything is drained. Otherwise a worker may be
    /// stuck in a component, which must not block the exit.
    fn end_threads(&mut self, drained: bool) {
        self.committer.stop();
        self.memory.stop();
        for thread in self.threads.drain(..) {
            if drained {
                let _ = thread.join();
            }
        }
    }

    /// Starts making unsettled data durable for the sources that `goes` selects, if those sources
    /// could not otherwise reread the data. These sources must not be polled during that time.
    pub(crate) fn hold_sources(
        &self,
        deadline: Instant,
        goes: impl Fn(&SourceSlot) -> bool,
    ) -> tokio::task::JoinHandle<()> {
        let core = self.current.core();
        let selected = core.sources().iter().filter(|slot| goes(slot));
        let sources: Vec<_> = selected.map(|slot| slot.source().clone()).collect();
        self.runtime.spawn_blocking(move || {
            for source in sources {
                source.lock().hold(deadline);
            }
        })
    }
}

/// Waits until everything is settled; returns `false` if that takes longer than `time`.
async fn finishes_within(core: &Core, time: Duration) -> bool {
    let finished = async {
        while !core.status().is_finished() {
            for (_, slot) in core.nodes().sinks() {
                if core.sources().has_input_ended(slot) {
                    slot.flush();
                }
            }
            tokio::time::sleep(BARRIER_POLL).await;
        }
    };
    tokio::time::timeout(time, finished).await.is_ok()
}

/// Returns the amounts of the sources' unsettled data that can be reread, and that is lost.
fn leave(core: &Core) -> (Leftover, Unsettled) {
    let mut left = Leftover::default();
    let mut lost = core.resources().removed.unsettled();
    for slot in core.sources().iter() {
        match slot.try_leave() {
            Leave::Again(leftover) => left += leftover,
            Leave::Lost => lost += unsettled(&slot.ledger, slot.wiring.downstream),
            Leave::Busy => {}
        }
    }
    (left, lost)
}

/// Closes a source once no poll is in progress; returns whether the source still keeps data back.
async fn close(slot: &SourceSlot, for_good: bool) -> bool {
    loop {
        if let Some(has_more) = slot.try_close(for_good) {
            return has_more;
        }
        tokio::time::sleep(BARRIER_POLL).await;
    }
}

/// Ends the sinks, sources and calls once nothing more will be delivered.
fn end_components(core: &Core) {
    for (_, slot) in core.nodes().sinks() {
        slot.sink.close();
    }
    for source in core.sources().iter() {
        source.ledger.stop();
    }
    core.settle_refused();
    core.resources().scheduler.stop();
    core.flow().end_calls();
}

fn start_committer(committer: &Arc<Committer>, current: &Arc<Current>) -> JoinHandle<()> {
    let committer = committer.clone();
    let current = current.clone();
    spawn("checkpoint", move || committer.run(&current))
}

fn start_worker(number: usize, current: &Arc<Current>) -> JoinHandle<()> {
    let current = current.clone();
    spawn(&format!("worker-{number}"), move || {
        let mut core = current.core();
        let mut worker = Worker::new(&core);
        let mut generation = 0;
        while let Some(woken) = core.polling().next_job(&mut generation) {
            // After a reload, the job belongs to the new core.
            if current.renew(&mut core) {
                worker = Worker::new(&core);
            }
            let step = match woken {
                Woken::Job(Job::Poll(source)) => core.polling().poll(source),
                Woken::Job(Job::Resume(step)) => Some(step),
                Woken::Renewed => None,
            };
            if let Some(step) = step {
                core.flow().take(worker.run(step));
            }
        }
    })
}
