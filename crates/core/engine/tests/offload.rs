//! The pool of threads for offload transforms.

mod common;

use common::{blueprint, numbered, settings, wait_until};
use millstream_engine::{Settings, Store, TransformPart};
use millstream_model::{Batch, ComponentError, Now, Offload, Outputs, Transform};
use millstream_testkit::MemoryEndpoint;
use std::collections::HashSet;
use std::sync::{Arc, Mutex};
use std::thread::{self, ThreadId};
use std::time::Duration;

/// Passes batches on, and remembers the threads it has seen.
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
        batches.into_iter().zip(outputs).for_each(|(batch, out)| out.send(0, batch));
        Ok(())
    }
}

/// Runs 20,000 batches through each of some transforms, with one thread in the pool; returns how
/// many threads each of them has seen.
async fn threads_seen(transforms: usize) -> Vec<usize> {
    const LINES: u64 = 20_000;
    let (folder, endpoint) = (tempfile::tempdir().unwrap(), MemoryEndpoint::default());
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

/// A batch that arrives while each thread is between two calls waits for one of them: a new thread
/// costs far more than a call.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn short_calls_start_no_thread_beyond_the_pool() {
    assert_eq!(threads_seen(1).await, [1]);
}

/// A transform without a call gets a thread although the pool has none left; that thread stays.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn threads_beyond_the_pool_are_used_again() {
    let threads = threads_seen(4).await;
    assert!(threads.iter().all(|threads| (1..=4).contains(threads)), "{threads:?}");
}
