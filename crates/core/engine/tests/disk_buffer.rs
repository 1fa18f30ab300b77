//! Events that wait on disk for a sink that is making no progress.

use crate::common::{LINE_BYTES, blueprint, numbered_of, settings, wait_until};
use millstream_engine::{
    Blueprint, Buffer, DiskMode, DiskOptions, Running, Settings, Store, WhenFull,
};
use millstream_model::limits::PAYLOAD_BYTES;
use millstream_model::snapshot::DiskBufferSnapshot;
use millstream_testkit::{FakeSink, MemoryEndpoint, SinkBehavior};
use millstream_testkit_random::{Seed, TestSize};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Lines that the source emits, each in a payload.
const LINES: u64 = 500;

/// Bytes in memory before the buffer writes: five lines.
const MEMORY_BYTES: u64 = 5 * (LINE_BYTES as u64 + PAYLOAD_BYTES);

fn buffer(mode: DiskMode) -> Buffer {
    let disk = DiskOptions { bytes_max: 64 << 20, mode, replay_rate: None };
    Buffer { bytes_max: Some(MEMORY_BYTES), when_full: WhenFull::Block, disk: Some(disk) }
}

/// An agent that can be stopped and restarted.
struct Agent {
    folder: tempfile::TempDir,
    endpoint: MemoryEndpoint,
    given: Arc<AtomicU64>,
    behavior: SinkBehavior,
    format: &'static str,
    line_bytes: usize,
    buffer: Buffer,
}

impl Agent {
    fn new(buffer: Buffer) -> Agent {
        Agent {
            folder: tempfile::tempdir().unwrap(),
            endpoint: MemoryEndpoint::default(),
            given: Arc::default(),
            behavior: SinkBehavior::default(),
            format: "fake/1",
            line_bytes: LINE_BYTES,
            buffer,
        }
    }

    fn blueprint(&self) -> Blueprint {
        let source = numbered_of(&self.given, LINES, self.line_bytes);
        let mut parts = blueprint(vec![source], &self.endpoint);
        parts.sinks[0].buffer = self.buffer;
        let behavior = self.behavior;
        let format = self.format;
        let sink = FakeSink { behavior, format, ..FakeSink::new(&self.endpoint) };
        parts.sinks[0].sink = Arc::new(sink);
        parts
    }

    fn start(&self) -> Running {
        let store = Arc::new(Store::open(self.folder.path()).unwrap());
        let built = self.blueprint().build(&engine_settings(), store).unwrap();
        built.start(&tokio::runtime::Handle::current())
    }

    /// Runs until the source has emitted everything into the buffer of a stalled sink.
    async fn fill(&self) -> Running {
        self.endpoint.stall(true);
        let running = self.start();
        self.wait_for_source().await;
        running
    }

    async fn wait_for_source(&self) {
        wait_until(|| self.given.load(Ordering::Relaxed) == LINES).await;
    }

    async fn wait_for_lines(&self, count: usize) {
        wait_until(|| self.endpoint.lines().len() >= count).await;
    }

    fn numbers(&self) -> Vec<u64> {
        self.endpoint.lines().iter().map(|line| line.trim().parse().unwrap()).collect()
    }

    fn segments(&self) -> Vec<String> {
        segments(&self.folder.path().join("spool/out"))
    }
}

fn engine_settings() -> Settings {
    settings(None, false)
}

fn segments(folder: &Path) -> Vec<String> {
    let Ok(files) = std::fs::read_dir(folder) else { return Vec::new() };
    let names = files.map(|file| file.unwrap().file_name().into_string().unwrap());
    names.filter(|name| name.ends_with(".spool")).collect()
}

fn all() -> Vec<u64> {
    (0..LINES).collect()
}

fn disk_of(running: &Running) -> DiskBufferSnapshot {
    let components = running.snapshot().components.into_iter();
    components.filter_map(|component| component.disk_buffer).next().unwrap()
}

async fn stop(running: Running) -> u64 {
    let (full, damaged) = stop_counted(running).await;
    assert_eq!(damaged, 0);
    full
}

/// Stops an agent; returns the number of events that it dropped as `buffer_full` and as
/// `buffer_damaged`.
async fn stop_counted(running: Running) -> (u64, u64) {
    let stopped = running.stop(Duration::from_secs(30)).await;
    assert!(stopped.drained, "held by {:?}", stopped.holders);
    assert_eq!((stopped.uncommitted, stopped.unsettled.is_empty()), (None, true));
    let sink = stopped.snapshot.components.iter().find(|component| component.id == "out").unwrap();
    let dropped = |reason: &str| sink.counters.dropped_events.get(reason).copied().unwrap_or(0);
    (dropped("buffer_full"), dropped("buffer_damaged"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_source_does_not_wait_for_a_sink_that_is_away_and_order_is_kept() {
    let agent = Agent::new(buffer(DiskMode::Overflow));
    let running = agent.fill().await;
    wait_until(|| disk_of(&running).events > 0).await;
    assert!(!agent.segments().is_empty());
    agent.endpoint.stall(false);
    agent.wait_for_lines(LINES as usize).await;
    assert_eq!(agent.numbers(), all());
    wait_until(|| agent.segments().is_empty()).await;
    assert_eq!(stop(running).await, 0);
    assert!(!agent.folder.path().join("spool/out").exists(), "an empty buffer leaves no file");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_sink_that_keeps_up_writes_nothing() {
    let agent = Agent::new(Buffer { bytes_max: Some(1 << 20), ..buffer(DiskMode::Overflow) });
    let running = agent.start();
    agent.wait_for_lines(LINES as usize).await;
    assert!(!agent.folder.path().join("spool").exists());
    assert_eq!(agent.numbers(), all());
    stop(running).await;
}

/// The queue never fills up, and its sink fails for more than a second.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn what_a_failing_sink_has_in_memory_is_written() {
    let agent = Agent::new(Buffer { bytes_max: Some(1 << 20), ..buffer(DiskMode::Overflow) });
    let running = agent.fill().await;
    wait_until(|| disk_of(&running).events == LINES).await;
    agent.endpoint.stall(false);
    agent.wait_for_lines(LINES as usize).await;
    assert_eq!(agent.numbers(), all());
    stop(running).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn what_waits_is_sent_after_a_restart() {
    let agent = Agent::new(buffer(DiskMode::Overflow));
    assert_eq!(stop(agent.fill().await).await, 0);
    assert!(agent.endpoint.lines().is_empty() && !agent.segments().is_empty());
    agent.endpoint.stall(false);
    let running = agent.start();
    agent.wait_for_lines(LINES as usize).await;
    assert_eq!(agent.numbers(), all());
    stop(running).await;
    assert!(agent.segments().is_empty(), "{:?}", agent.segments());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn everything_is_on_disk_first_in_mode_always() {
    let agent = Agent::new(buffer(DiskMode::Always));
    let running = agent.start();
    agent.wait_for_lines(LINES as usize).await;
    assert_eq!(agent.numbers(), all());
    wait_until(|| agent.segments().is_empty()).await;
    stop(running).await;
}

/// Sinks that sync, that send ahead, and that complete or return payloads in any order.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn every_kind_of_sink_delivers_from_disk() {
    let syncs = SinkBehavior { syncs: true, ..SinkBehavior::default() };
    let sends = SinkBehavior { sends: true, ..SinkBehavior::default() };
    let unordered = SinkBehavior { sends: true, unordered: true, ..SinkBehavior::default() };
    for (behavior, is_ordered) in [(syncs, true), (sends, true), (unordered, false)] {
        for mode in [DiskMode::Overflow, DiskMode::Always] {
            let agent = Agent { behavior, ..Agent::new(buffer(mode)) };
            stop(agent.fill().await).await;
            agent.endpoint.stall(false);
            let running = agent.start();
            agent.wait_for_lines(LINES as usize).await;
            stop(running).await;
            let mut numbers = agent.numbers();
            if !is_ordered {
                numbers.sort_unstable();
            }
            assert_eq!(numbers, all(), "{behavior:?} {mode:?}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn panics_of_the_sink_lose_nothing() {
    let behavior = SinkBehavior { panics_one_in: 40, ..SinkBehavior::default() };
    let agent = Agent { behavior, ..Agent::new(buffer(DiskMode::Overflow)) };
    let running = agent.fill().await;
    agent.endpoint.stall(false);
    agent.wait_for_lines(LINES as usize).await;
    let mut numbers = agent.numbers();
    numbers.sort_unstable();
    assert_eq!(numbers, all());
    stop(running).await;
}

/// Fills a 16 KiB disk buffer; returns the delivered numbers and the number of dropped events.
async fn dropped(when_full: WhenFull) -> (Vec<u64>, u64) {
    let disk = DiskOptions { bytes_max: 1 << 14, mode: DiskMode::Overflow, replay_rate: None };
    let agent = Agent::new(Buffer { when_full, disk: Some(disk), ..buffer(DiskMode::Overflow) });
    let running = agent.fill().await;
    wait_until(|| disk_of(&running).events > 0).await;
    agent.endpoint.stall(false);
    tokio::time::sleep(Duration::from_millis(300)).await;
    let dropped = stop(running).await;
    // The next agent delivers the remaining events.
    let running = agent.start();
    wait_until(|| agent.segments().is_empty()).await;
    stop(running).await;
    (agent.numbers(), dropped)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_full_disk_buffer_drops_the_newest_and_counts_them() {
    let (numbers, dropped) = dropped(WhenFull::DropNewest).await;
    assert!(dropped > 0);
    assert_eq!(numbers.len() as u64, LINES - dropped);
    assert!(numbers.is_sorted(), "{numbers:?}");
    // Toward the end, a new line may fit again.
    let oldest = numbers.len() as u64 / 2;
    assert_eq!(numbers[..oldest as usize], (0..oldest).collect::<Vec<_>>());
}

/// Segments are 1 MiB, so a few of them are filled by lines of 32 KiB.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_full_disk_buffer_drops_the_oldest_and_counts_them() {
    let disk = DiskOptions { bytes_max: 4 << 20, mode: DiskMode::Overflow, replay_rate: None };
    let when_full = WhenFull::DropOldest;
    let mut agent = Agent::new(Buffer { bytes_max: Some(1 << 16), when_full, disk: Some(disk) });
    agent.line_bytes = 1 << 15;
    let running = agent.fill().await;
    wait_until(|| disk_of(&running).bytes <= 4 << 20).await;
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert!(disk_of(&running).bytes <= 5 << 20, "{:?}", disk_of(&running));
    agent.endpoint.stall(false);
    wait_until(|| disk_of(&running).events == 0).await;
    let dropped = stop(running).await;
    let numbers = agent.numbers();
    assert_eq!(numbers.len() as u64 + dropped, LINES);
    assert!((300..450).contains(&dropped), "{dropped}");
    // The first lines were in flight.
    let kept = numbers.iter().skip_while(|number| **number < 10);
    assert_eq!(numbers.last(), Some(&(LINES - 1)));
    assert!(kept.is_sorted() && numbers.is_sorted(), "{numbers:?}");
}

/// Agents that are stopped and reloaded at random points.
const INTERRUPTED: TestSize = TestSize { gate: 1, long: 100 };

/// Number of shutdowns and reloads per agent.
const INTERRUPTIONS: usize = 6;

/// A quarter of a four-segment buffer is in flight in a sink while events are dropped.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn drops_are_counted_exactly_over_stops_and_reloads() {
    for seed in Seed::of_test().cases(INTERRUPTED) {
        for when_full in [WhenFull::DropOldest, WhenFull::DropNewest] {
            drop_and_interrupt(when_full, seed).await;
        }
    }
}

async fn drop_and_interrupt(when_full: WhenFull, seed: u64) {
    let mut random = fastrand::Rng::with_seed(seed);
    let disk = DiskOptions { bytes_max: 4 << 20, mode: DiskMode::Overflow, replay_rate: None };
    let mut agent = Agent::new(Buffer { bytes_max: Some(1 << 20), when_full, disk: Some(disk) });
    agent.line_bytes = 1 << 15;
    agent.endpoint.stall(true);
    let mut running = agent.start();
    // There are more lines than the buffer can store, so some of them are always dropped.
    wait_until(|| agent.given.load(Ordering::Relaxed) >= LINES / 2).await;
    let mut dropped = 0;
    for _ in 0..INTERRUPTIONS {
        tokio::time::sleep(Duration::from_millis(random.u64(..300))).await;
        if random.bool() {
            dropped += stop(running).await;
            running = agent.start();
        } else {
            agent.behavior.lanes = random.usize(1..4);
            reload(&agent, &mut running).await.unwrap();
        }
        agent.endpoint.stall(random.u32(..4) > 0);
    }
    agent.wait_for_source().await;
    dropped += stop(running).await;
    agent.endpoint.stall(false);
    let running = agent.start();
    wait_until(|| agent.segments().is_empty()).await;
    dropped += stop(running).await;
    let mut numbers = agent.numbers();
    numbers.sort_unstable();
    numbers.dedup();
    assert_eq!(numbers.len() as u64 + dropped, LINES, "{dropped} dropped ({when_full:?})");
    assert!(dropped > 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_full_disk_buffer_makes_sources_wait() {
    let disk = DiskOptions { bytes_max: 1 << 14, mode: DiskMode::Overflow, replay_rate: None };
    let agent = Agent::new(Buffer { disk: Some(disk), ..buffer(DiskMode::Overflow) });
    agent.endpoint.stall(true);
    let running = agent.start();
    wait_until(|| agent.given.load(Ordering::Relaxed) > 10).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    let given = agent.given.load(Ordering::Relaxed);
    assert!(given < LINES, "{given}");
    agent.endpoint.stall(false);
    agent.wait_for_lines(LINES as usize).await;
    assert_eq!(agent.numbers(), all());
    stop(running).await;
}

/// The folder cannot be created, so the buffer follows the rule for memory buffers: the source
/// waits.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn without_a_disk_the_sources_wait_and_nothing_is_lost() {
    let agent = Agent::new(buffer(DiskMode::Overflow));
    std::fs::write(agent.folder.path().join("spool"), "a file in the way").unwrap();
    agent.endpoint.stall(true);
    let running = agent.start();
    wait_until(|| disk_of(&running).error.is_some()).await;
    tokio::time::sleep(Duration::from_millis(300)).await;
    let given = agent.given.load(Ordering::Relaxed);
    assert!(given < LINES, "{given}");
    agent.endpoint.stall(false);
    agent.wait_for_lines(LINES as usize).await;
    assert_eq!(agent.numbers(), all());
    stop(running).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_disk_that_works_again_is_used_again() {
    let agent = Agent::new(buffer(DiskMode::Overflow));
    let obstacle = agent.folder.path().join("spool");
    std::fs::write(&obstacle, "a file in the way").unwrap();
    agent.endpoint.stall(true);
    let running = agent.start();
    wait_until(|| disk_of(&running).error.is_some()).await;
    std::fs::remove_file(&obstacle).unwrap();
    agent.wait_for_source().await;
    wait_until(|| disk_of(&running).error.is_none()).await;
    agent.endpoint.stall(false);
    agent.wait_for_lines(LINES as usize).await;
    assert_eq!(agent.numbers(), all());
    stop(running).await;
}

/// Reloads with a changed sink, as after a change of its options.
async fn reload(agent: &Agent, running: &mut Running) -> Result<(), String> {
    let kept = |kind, id: &str| kind == millstream_model::Kind::Source && id == "numbered";
    let blueprint = agent.blueprint();
    let drain = Duration::from_millis(100);
    let reloaded = running.reload(blueprint, &engine_settings(), &kept, drain).await;
    reloaded.map_err(|error| error.to_string())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_reload_with_other_lanes_keeps_what_waits_and_its_order() {
    let mut agent = Agent::new(buffer(DiskMode::Overflow));
    let mut running = agent.fill().await;
    agent.behavior.lanes = 3;
    reload(&agent, &mut running).await.unwrap();
    agent.endpoint.stall(false);
    agent.wait_for_lines(LINES as usize).await;
    assert_eq!(agent.numbers(), all());
    stop(running).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_sink_that_cannot_send_what_is_on_disk_is_refused_and_nothing_is_lost() {
    let mut agent = Agent::new(buffer(DiskMode::Overflow));
    let mut running = agent.fill().await;
    agent.format = "fake/2";
    let refused = reload(&agent, &mut running).await.unwrap_err();
    let expected = "in the format `fake/1`, but the configured sink sends `fake/2`";
    assert!(refused.contains(expected), "{refused}");
    stop(running).await;
    let store = Arc::new(Store::open(agent.folder.path()).unwrap());
    let refused = agent.blueprint().build(&engine_settings(), store).err().unwrap().to_string();
    assert!(refused.contains(expected), "{refused}");
    agent.format = "fake/1";
    agent.endpoint.stall(false);
    let mut running = agent.start();
    agent.wait_for_lines(LINES as usize).await;
    assert_eq!(agent.numbers(), all());
    wait_until(|| agent.segments().is_empty()).await;
    agent.format = "fake/2";
    reload(&agent, &mut running).await.unwrap();
    stop(running).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_sink_that_is_removed_leaves_its_buffer_to_the_next_of_its_id() {
    let agent = Agent::new(buffer(DiskMode::Overflow));
    let mut running = agent.fill().await;
    let kept = |kind, id: &str| kind == millstream_model::Kind::Source && id == "numbered";
    let mut without = agent.blueprint();
    let drain = Duration::from_millis(50);
    let other = MemoryEndpoint::default();
    without.sinks[0].id = "other".to_owned();
    without.sinks[0].sink = Arc::new(FakeSink::new(&other));
    running.reload(without, &engine_settings(), &kept, drain).await.unwrap();
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert!(agent.endpoint.lines().is_empty() && other.lines().is_empty());
    agent.endpoint.stall(false);
    running.reload(agent.blueprint(), &engine_settings(), &kept, drain).await.unwrap();
    agent.wait_for_lines(LINES as usize).await;
    assert_eq!(agent.numbers(), all());
    stop(running).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_buffer_in_memory_first_sends_what_is_on_disk() {
    let mut agent = Agent::new(buffer(DiskMode::Overflow));
    stop(agent.fill().await).await;
    agent.buffer = Buffer::default();
    agent.endpoint.stall(false);
    let running = agent.start();
    agent.wait_for_lines(LINES as usize).await;
    assert_eq!(agent.numbers(), all());
    wait_until(|| agent.segments().is_empty()).await;
    stop(running).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn replay_keeps_to_its_rate() {
    let mut agent = Agent::new(buffer(DiskMode::Overflow));
    stop(agent.fill().await).await;
    let rate = LINES * LINE_BYTES as u64 / 3;
    agent.buffer.disk = agent.buffer.disk.map(|d| DiskOptions { replay_rate: Some(rate), ..d });
    agent.endpoint.stall(false);
    let begun = std::time::Instant::now();
    let running = agent.start();
    agent.wait_for_lines(LINES as usize).await;
    // The first second's worth of data may arrive all at once.
    assert!(begun.elapsed() >= Duration::from_millis(1800), "{:?}", begun.elapsed());
    assert_eq!(agent.numbers(), all());
    stop(running).await;
}

/// An operator moves a sink's full buffer from memory to disk, and back and forth.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_buffer_that_is_moved_to_disk_lets_its_sources_continue() {
    let in_memory = Buffer { disk: None, ..buffer(DiskMode::Overflow) };
    let mut agent = Agent::new(in_memory);
    agent.endpoint.stall(true);
    let mut running = agent.start();
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert!(agent.given.load(Ordering::Relaxed) < LINES / 4);
    let keep_all = |_, _: &str| true;
    for (buffer, given_min) in [(buffer(DiskMode::Overflow), LINES), (in_memory, LINES)] {
        agent.buffer = buffer;
        let drain = Duration::from_millis(100);
        running.reload(agent.blueprint(), &engine_settings(), &keep_all, drain).await.unwrap();
        wait_until(|| agent.given.load(Ordering::Relaxed) >= given_min).await;
    }
    agent.buffer = self::buffer(DiskMode::Overflow);
    let drain = Duration::from_millis(100);
    running.reload(agent.blueprint(), &engine_settings(), &keep_all, drain).await.unwrap();
    agent.endpoint.stall(false);
    agent.wait_for_lines(LINES as usize).await;
    assert_eq!(agent.numbers(), all());
    stop(running).await;
}

/// An agent whose lines fill several segments.
fn agent_with_segments() -> Agent {
    let disk = DiskOptions { bytes_max: 32 << 20, mode: DiskMode::Overflow, replay_rate: None };
    let mut agent = Agent::new(Buffer { disk: Some(disk), ..buffer(DiskMode::Overflow) });
    agent.line_bytes = 1 << 15;
    agent
}

/// Returns a stopped agent whose lines are all on disk.
async fn stopped_with_segments() -> Agent {
    let agent = agent_with_segments();
    stop(agent.fill().await).await;
    assert!(agent.segments().len() > 2);
    agent
}

/// Damages the files of a stopped agent, and returns how many events it then sends and counts as
/// damaged.
async fn damaged_after_stop(damage: fn(&Path)) -> (u64, u64) {
    let agent = stopped_with_segments().await;
    damage(&agent.folder.path().join("spool/out"));
    agent.endpoint.stall(false);
    let running = agent.start();
    wait_until(|| agent.segments().is_empty()).await;
    let (_, damaged) = stop_counted(running).await;
    // No event is counted again.
    stop(agent.start()).await;
    let sent = agent.numbers();
    assert!(sent.is_sorted_by(|a, b| a < b), "{sent:?}");
    (sent.len() as u64, damaged)
}

fn newest(folder: &Path) -> PathBuf {
    folder.join(segments(folder).into_iter().max().unwrap())
}

fn cut_newest(folder: &Path) {
    let file = std::fs::File::options().write(true).open(newest(folder)).unwrap();
    file.set_len(file.metadata().unwrap().len() / 2).unwrap();
}

fn remove_newest(folder: &Path) {
    std::fs::remove_file(newest(folder)).unwrap();
}

fn remove_oldest(folder: &Path) {
    std::fs::remove_file(folder.join(segments(folder).into_iter().min().unwrap())).unwrap();
}

fn remove_all(folder: &Path) {
    std::fs::remove_dir_all(folder).unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn what_is_missing_of_the_files_at_a_start_is_counted() {
    for damage in [cut_newest, remove_newest, remove_oldest, remove_all] {
        let (sent, damaged) = damaged_after_stop(damage).await;
        assert!(damaged > 0);
        assert_eq!(sent + damaged, LINES);
    }
}

/// Removes the files of a running agent that has an entry in flight and continues to write.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn files_that_are_removed_from_a_running_agent_are_counted() {
    let agent = agent_with_segments();
    agent.endpoint.stall(true);
    let running = agent.start();
    wait_until(|| agent.segments().len() > 2).await;
    remove_all(&agent.folder.path().join("spool/out"));
    agent.wait_for_source().await;
    agent.endpoint.stall(false);
    wait_until(|| disk_of(&running).events == 0).await;
    let (_, damaged) = stop_counted(running).await;
    let (_, again) = stop_counted(agent.start()).await;
    assert_eq!(again, 0);
    let mut sent = agent.numbers();
    sent.sort_unstable();
    sent.dedup();
    assert!(damaged > 0);
    assert_eq!(sent.len() as u64 + damaged, LINES);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_cut_file_is_kept() {
    let agent = stopped_with_segments().await;
    let folder = agent.folder.path().join("spool/out");
    cut_newest(&folder);
    let newest = newest(&folder);
    let cut = std::fs::read(&newest).unwrap();
    let running = agent.start();
    assert_eq!(std::fs::read(newest.with_extension("damaged")).unwrap(), cut);
    let (_, damaged) = stop_counted(running).await;
    assert!(damaged > 0);
}

/// Stops an agent while it sends entries from disk, in the middle of a segment.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_stop_in_the_middle_of_a_segment_repeats_nothing() {
    for mode in [DiskMode::Overflow, DiskMode::Always] {
        let mut agent = Agent::new(buffer(mode));
        stop(agent.fill().await).await;
        // The rate is so low that a busy machine can stop the agent before everything is sent.
        let rate = LINES * LINE_BYTES as u64 / 10;
        agent.buffer.disk = agent.buffer.disk.map(|d| DiskOptions { replay_rate: Some(rate), ..d });
        agent.endpoint.stall(false);
        let running = agent.start();
        agent.wait_for_lines(LINES as usize / 4).await;
        stop(running).await;
        let sent = agent.numbers().len();
        assert!(sent < LINES as usize, "{sent}");
        agent.buffer = buffer(mode);
        let running = agent.start();
        agent.wait_for_lines(LINES as usize).await;
        wait_until(|| agent.segments().is_empty()).await;
        assert_eq!(agent.numbers(), all(), "{mode:?}");
        stop(running).await;
    }
}
