//! Offload transforms: the threads, and reloads during calls.

use crate::common::{blueprint, numbered, settings, wait_until};
use millstream_engine::{Blueprint, Settings, Store, TransformPart};
use millstream_model::{Batch, ComponentError, Kind, Now, Offload, Outputs, Transform};
use millstream_testkit::MemoryEndpoint;
use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, ThreadId};
use std::time::Duration;

/// Passes batches on, and records the threads that run it.
#[derive(Default)]
struct Passing {
    threads: Mutex<HashSet<ThreadId>>,
}

impl Offload for Passing {
    fn concurrency(&self) -> usize {
        4
    }

    fn apply(
        &self,
        _: Now,
        batches: Vec<Batch>,
        outputs: &mut [Outputs],
    ) -> Result<(), ComponentError> {
        self.threads.lock().unwrap().insert(thread::current().id());
        for (batch, out) in batches.into_iter().zip(outputs) {
            out.send(0, batch);
        }
        Ok(())
    }
}

/// Runs 20,000 batches through each of several transforms, with one thread in the pool; returns the
/// number of threads that ran each transform.
async fn threads_seen(transforms: usize) -> Vec<usize> {
    const LINES: u64 = 20_000;
    let folder = tempfile::tempdir().unwrap();
    let endpoint = MemoryEndpoint::default();
    let passing: Vec<Arc<Passing>> = (0..transforms).map(|_| Arc::default()).collect();
    let mut parts = blueprint(vec![numbered(&Arc::default(), LINES)], &endpoint);
    let ids: Vec<String> = (0..transforms).map(|number| format!("pass{number}")).collect();
    parts.sinks[0].inputs = ids.iter().map(|id| (id.clone(), 0)).collect();
    let part = |(id, transform): (&String, &Arc<Passing>)| TransformPart {
        id: id.clone(),
        type_name: "fake",
        inputs: vec![("numbered".to_owned(), 0)],
        transform: Transform::Offload(transform.clone()),
    };
    parts.transforms = ids.iter().zip(&passing).map(part).collect();
    let store = Arc::new(Store::open(folder.path()).unwrap());
    let settings = Settings { offload_threads: 1, ..settings(None, false) };
    let built = parts.build(&settings, store).unwrap();
    let running = built.start(&tokio::runtime::Handle::current());
    let expected = LINES * transforms as u64;
    wait_until(|| endpoint.lines().len() as u64 == expected).await;
    assert!(running.stop(Duration::from_secs(30)).await.drained);
    passing.iter().map(|transform| transform.threads.lock().unwrap().len()).collect()
}

/// A batch that arrives while each thread is between two calls waits for one of the threads,
/// because a new thread costs far more than a call.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn short_calls_start_no_thread_beyond_the_pool() {
    assert_eq!(threads_seen(1).await, [1]);
}

/// A transform without an active call gets a thread even if the pool has none left. This thread is
/// kept.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn threads_beyond_the_pool_are_used_again() {
    let threads = threads_seen(4).await;
    assert!(threads.iter().all(|threads| (1..=4).contains(threads)), "{threads:?}");
}

/// An offload transform that retains its batches until it is released.
#[derive(Default)]
struct Waiting {
    is_called: AtomicBool,
    is_released: AtomicBool,
    let_go: AtomicU64,
}

impl Waiting {
    fn release(&self) {
        self.is_released.store(true, Ordering::Relaxed);
    }
}

impl Offload for Waiting {
    fn concurrency(&self) -> usize {
        1
    }

    fn apply(
        &self,
        _: Now,
        batches: Vec<Batch>,
        outputs: &mut [Outputs],
    ) -> Result<(), ComponentError> {
        self.is_called.store(true, Ordering::Relaxed);
        while !self.is_released.load(Ordering::Relaxed) {
            thread::sleep(Duration::from_millis(1));
        }
        for (batch, out) in batches.into_iter().zip(outputs) {
            out.send(0, batch);
        }
        Ok(())
    }

    fn let_go(&self) {
        self.let_go.fetch_add(1, Ordering::Relaxed);
        self.release();
    }
}

/// Returns a blueprint with these transforms between a source of ten lines and a sink.
fn with_transforms(
    transforms: &[(&str, Arc<dyn Offload>)],
    endpoint: &MemoryEndpoint,
) -> Blueprint {
    let mut parts = blueprint(vec![numbered(&Arc::default(), 10)], endpoint);
    let part = |(id, transform): &(&str, Arc<dyn Offload>)| TransformPart {
        id: (*id).to_owned(),
        type_name: "fake",
        inputs: vec![("numbered".to_owned(), 0)],
        transform: Transform::Offload(transform.clone()),
    };
    parts.transforms = transforms.iter().map(part).collect();
    if !transforms.is_empty() {
        let ids = transforms.iter().map(|(id, _)| ((*id).to_owned(), 0));
        parts.sinks[0].inputs = ids.collect();
    }
    parts
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn an_idle_agent_keeps_nothing_of_a_removed_transform() {
    let folder = tempfile::tempdir().unwrap();
    let endpoint = MemoryEndpoint::default();
    let passing: Arc<Passing> = Arc::default();
    let parts = with_transforms(&[("pass", passing.clone())], &endpoint);
    let store = Arc::new(Store::open(folder.path()).unwrap());
    let built = parts.build(&settings(None, false), store).unwrap();
    let mut running = built.start(&tokio::runtime::Handle::current());
    wait_until(|| endpoint.lines().len() == 10).await;
    let stays = |kind, _: &str| kind != Kind::Transform;
    let next = with_transforms(&[], &endpoint);
    running.reload(next, &settings(None, false), &stays, Duration::from_secs(5)).await.unwrap();
    wait_until(|| Arc::strong_count(&passing) == 1).await;
    assert!(running.stop(Duration::from_secs(30)).await.drained);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_reload_that_another_transform_prevents_ends_no_call() {
    let folder = tempfile::tempdir().unwrap();
    let endpoint = MemoryEndpoint::default();
    let (going, staying): (Arc<Waiting>, Arc<Waiting>) = Default::default();
    let both =
        || with_transforms(&[("going", going.clone()), ("staying", staying.clone())], &endpoint);
    let store = Arc::new(Store::open(folder.path()).unwrap());
    let built = both().build(&settings(None, false), store).unwrap();
    let mut running = built.start(&tokio::runtime::Handle::current());
    let waits = |waiting: &Waiting| waiting.is_called.load(Ordering::Relaxed);
    wait_until(|| waits(&going) && waits(&staying)).await;
    let stays = |_, id: &str| id != "going";
    let settings = settings(None, false);
    let reload = running.reload(both(), &settings, &stays, Duration::from_secs(5)).await;
    assert!(reload.unwrap_err().to_string().contains("staying"));
    assert_eq!(going.let_go.load(Ordering::Relaxed), 0);
    staying.release();
    running.reload(both(), &settings, &stays, Duration::from_secs(5)).await.unwrap();
    assert!(going.let_go.load(Ordering::Relaxed) > 0);
    assert!(running.stop(Duration::from_secs(30)).await.drained);
}
