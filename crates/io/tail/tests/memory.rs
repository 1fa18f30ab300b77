//! Memory per tracked file, allocated by the source and its ledger.

mod common;

use common::settings;
use millstream_model::Polled;
use millstream_tail::{FileSource, TailSettings};
use millstream_testkit::SourceRig;
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::fs;
use std::path::Path;
use std::time::Duration;

/// Counts the bytes that this thread has allocated.
struct Counting;

thread_local! {
    static BYTES: Cell<i64> = const { Cell::new(0) };
}

// SAFETY: all calls are forwarded to the system's allocator unchanged; the counter does not
// allocate.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        BYTES.set(BYTES.get() + layout.size() as i64);
        // SAFETY: the caller meets the conditions of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        BYTES.set(BYTES.get() - layout.size() as i64);
        // SAFETY: the caller meets the conditions of `dealloc`.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Number of files.
const FILES: usize = 2500;

/// Longer than any pause between two polls of the source.
const STEP: Duration = Duration::from_millis(200);

/// Polls for `time`, delivers the rows that are read, and commits the checkpoints. Returns the
/// number of rows.
fn run(rig: &mut SourceRig, source: &mut FileSource, time: Duration) -> usize {
    let mut rows = 0;
    let until = rig.now.since_start + time;
    while rig.now.since_start < until {
        match rig.poll(source) {
            Polled::Batch(batch, _) => {
                rows += batch.rows();
                batch.segments.iter().for_each(|segment| segment.ack.finish());
            }
            _ => {
                rig.commit();
                rig.ledger.sample(STEP);
                rig.advance(STEP);
            }
        }
    }
    rows
}

/// Returns how many bytes per file the source and its ledger have allocated once all files are
/// idle. `idle_files_max` files are tracked in full.
fn bytes_per_file(idle_files_max: usize) -> usize {
    let memory = Path::new("/dev/shm");
    let dir = if memory.is_dir() { tempfile::tempdir_in(memory) } else { tempfile::tempdir() };
    let dir = dir.unwrap();
    let line = "a line of a log that nobody writes to any more\n";
    for file in 0..FILES {
        fs::write(dir.path().join(format!("service-{file:06}.log")), line.repeat(20)).unwrap();
    }
    let mut rig = SourceRig::new(&["out"]);
    let settings =
        TailSettings { idle_files_max: Some(idle_files_max), ..settings(dir.path(), "*.log") };
    let mut source = FileSource::open(settings, rig.open()).unwrap();
    assert_eq!(run(&mut rig, &mut source, Duration::from_secs(150)), 20 * FILES);
    let is_finished = idle_files_max == 0;
    let finished = rig.counters.snapshot().finished_files;
    assert_eq!(finished, if is_finished { FILES as u64 } else { 0 });
    // The memory of the store does not count.
    let store = rig.store.clone();
    let before = BYTES.get();
    drop((source, rig));
    let bytes = (before - BYTES.get()) as usize / FILES;
    drop(store);
    bytes
}

#[test]
fn an_idle_file_takes_at_most_1536_bytes_and_a_finished_one_400() {
    let (idle, finished) = (bytes_per_file(FILES), bytes_per_file(0));
    println!("an idle file takes {idle} bytes, a finished one {finished}");
    assert!((500..=1536).contains(&idle), "{idle}");
    assert!((50..=400).contains(&finished), "{finished}");
}
