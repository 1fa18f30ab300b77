//! A running engine: its threads, its barrier, and how it stops.

use crate::blueprint::{Built, offloads};
use crate::chain::{Worker, at_cut};
use crate::core::Core;
use crate::limits::COMMIT_INTERVAL;
use crate::snapshot;
use crate::stage::OffloadQueue;
use millstream_snapshot::Snapshot;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tokio::runtime::Handle;

/// How often a barrier looks whether it is reached.
const BARRIER_POLL: Duration = Duration::from_millis(2);

/// A running topology. Dropping it without [`Running::stop`] leaves its threads running.
pub struct Running {
    core: Arc<Core>,
    threads: Vec<JoinHandle<()>>,
    lanes: Vec<tokio::task::JoinHandle<()>>,
    offloads: Vec<Arc<OffloadQueue>>,
    committer: Arc<Committer>,
}

/// How a stop went.
#[derive(Clone, Debug)]
pub struct Stopped {
    /// Whether everything in flight was delivered in time. What was not is read again at the next
    /// start.
    pub drained: bool,
    /// What the engine had done by then.
    pub snapshot: Snapshot,
}

impl Running {
    pub(crate) fn start(built: Built, runtime: &Handle) -> Running {
        let core = built.core;
        let mut threads = Vec::new();
        for number in 0..built.threads {
            let core = core.clone();
            threads.push(spawn(&format!("worker-{number}"), move || {
                let mut worker = Worker::new(&core);
                while let Some(job) = core.next_job() {
                    core.work(&mut worker, job);
                }
            }));
        }
        let offload_queues = start_offloads(&core, &mut threads);
        let lanes = built.drivers.into_iter().map(|driver| runtime.spawn(driver.run())).collect();
        let committer = Arc::new(Committer::default());
        let after_sync = committer.clone();
        core.store.on_sync(move || after_sync.commit_soon());
        let (thread_core, thread_committer) = (core.clone(), committer.clone());
        threads.push(spawn("checkpoint", move || thread_committer.run(&thread_core)));
        Running { core, threads, lanes, offloads: offload_queues, committer }
    }

    /// What the engine is doing.
    pub fn snapshot(&self) -> Snapshot {
        snapshot::take(&self.core)
    }

    /// A handle that gives snapshots and outlives this value.
    pub fn observer(&self) -> impl Fn() -> Snapshot + Send + Sync + 'static {
        let core = self.core.clone();
        move || snapshot::take(&core)
    }

    /// Waits until every source has ended and all they gave is settled.
    pub async fn finished(&self) {
        while !self.core.is_finished() {
            if self.core.scheduler.all_ended() {
                self.core.sinks().flat_map(|(_, slot)| &slot.lanes).for_each(|lane| lane.flush());
            }
            tokio::time::sleep(BARRIER_POLL).await;
        }
    }

    /// The barrier: stops polling and waits until every ticket issued so far is done and released.
    /// Nothing is polled until [`Running::resume`].
    pub async fn barrier(&self) {
        self.core.scheduler.pause(true);
        while !self.core.is_drained() {
            tokio::time::sleep(BARRIER_POLL).await;
        }
    }

    /// Lifts the barrier.
    pub fn resume(&self) {
        self.core.scheduler.pause(false);
    }

    /// Stops reading, delivers what is in flight within `timeout`, commits checkpoints, and ends
    /// all threads.
    pub async fn stop(mut self, timeout: Duration) -> Stopped {
        let deadline = tokio::time::Instant::now() + timeout;
        let lanes = std::mem::take(&mut self.lanes);
        let aborts: Vec<_> = lanes.iter().map(tokio::task::JoinHandle::abort_handle).collect();
        let drain = async {
            self.barrier().await;
            self.core.sinks().flat_map(|(_, slot)| &slot.lanes).for_each(|lane| lane.close());
            for lane in lanes {
                let _ = lane.await;
            }
        };
        let drained = tokio::time::timeout_at(deadline, drain).await.is_ok();
        aborts.iter().for_each(tokio::task::AbortHandle::abort);
        self.core.sinks().for_each(|(_, slot)| slot.sink.close());
        self.core.sources.iter().for_each(|source| source.ledger.stop());
        self.core.scheduler.stop();
        self.offloads.iter().for_each(|queue| queue.stop());
        self.committer.stop();
        // A worker that is stuck in a component must not hold the exit: it is left behind.
        for thread in self.threads.drain(..).filter(|_| drained) {
            let _ = thread.join();
        }
        let committed = self.core.commit().inspect_err(|error| {
            log::error!("checkpoints could not be written: {error}; some data will be repeated");
        });
        let committed = committed.is_ok();
        Stopped { drained: drained && committed, snapshot: snapshot::take(&self.core) }
    }
}

fn spawn(name: &str, body: impl FnOnce() + Send + 'static) -> JoinHandle<()> {
    let builder = std::thread::Builder::new().name(name.to_owned());
    builder.spawn(body).unwrap_or_else(|error| panic!("cannot start thread {name}: {error}"))
}

fn start_offloads(core: &Arc<Core>, threads: &mut Vec<JoinHandle<()>>) -> Vec<Arc<OffloadQueue>> {
    let offloads = offloads(core);
    for (node, offload, queue) in &offloads {
        for number in 0..offload.threads().max(1) {
            let (core, node, offload, queue) = (core.clone(), *node, offload.clone(), queue.clone());
            threads.push(spawn(&format!("offload-{number}"), move || {
                queue.serve(&core.scheduler, |ticket| {
                    at_cut(&core, node, ticket, |b, out| offload.apply(b, out))
                });
            }));
        }
    }
    offloads.into_iter().map(|(_, _, queue)| queue).collect()
}

/// Commits checkpoints once per interval and soon after each sync, and samples utilisation.
#[derive(Default)]
struct Committer {
    state: Mutex<CommitterState>,
    wake: Condvar,
}

#[derive(Default)]
struct CommitterState {
    stopped: bool,
    wanted: bool,
}

impl Committer {
    fn run(&self, core: &Core) {
        let mut sampled = Instant::now();
        while !self.wait() {
            if let Err(error) = core.commit() {
                log::error!("checkpoints could not be written: {error}; trying again");
            }
            let elapsed = sampled.elapsed();
            if elapsed >= COMMIT_INTERVAL {
                sampled = Instant::now();
                core.nodes.iter().for_each(|node| node.counters.sample(elapsed));
                core.sources.iter().for_each(|source| source.sample(elapsed));
                core.watch_sinks();
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, CommitterState> {
        self.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Waits for the next interval or a sync; whether it is time to end.
    fn wait(&self) -> bool {
        let idle = |state: &mut CommitterState| !state.stopped && !state.wanted;
        let waited = self.wake.wait_timeout_while(self.lock(), COMMIT_INTERVAL, idle);
        let mut state = waited.unwrap_or_else(|poisoned| poisoned.into_inner()).0;
        state.wanted = false;
        state.stopped
    }

    fn commit_soon(&self) {
        self.lock().wanted = true;
        self.wake.notify_all();
    }

    fn stop(&self) {
        self.lock().stopped = true;
        self.wake.notify_all();
    }
}
