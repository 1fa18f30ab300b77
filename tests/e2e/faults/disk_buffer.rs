//! Tests disk buffers of the real binary: outages, kills, full and damaged disks.

use super::endpoint::{Act, Endpoint};
use super::remote_write::{assert_exact, forward, send_points, sink, wait_sum};
use super::{PATIENCE, counted, send, start_ready, stop};
use crate::e2e::full::SmallDisk;
use crate::support::{Agent, folder, wait_until};
use millstream_testkit_random::{Report, TestSize};
use millstream_testkit_servers::http::{HttpOptions, ReceivedRequest, Reply};
use millstream_testkit_servers::ports::free_port;
use millstream_testkit_servers::prometheus::Prometheus;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Length of a line of the long outage in bytes, including its newline.
const LINE_BYTES: usize = 100;

/// Lines per second during the long outage, which make 10 MB/s.
const LINES_PER_SECOND: u64 = 100_000;

/// Duration of the long outage in seconds.
const OUTAGE: TestSize = TestSize { gate: 6, long: 600 };

/// Writes numbered lines at the rate until `until`, which gets the number of lines so far, returns
/// true. Returns the number of lines.
fn write_lines(mut out: impl Write, until: impl Fn(u64) -> bool) -> u64 {
    let (begun, mut written) = (Instant::now(), 0);
    while !until(written) {
        let batch: String = (written..written + 1000).map(numbered).collect();
        out.write_all(batch.as_bytes()).unwrap();
        written += 1000;
        let due = Duration::from_secs_f64(written as f64 / LINES_PER_SECOND as f64);
        std::thread::sleep(due.saturating_sub(begun.elapsed()));
    }
    written
}

fn numbered(number: u64) -> String {
    format!("{number:010} {:1$}\n", "some words of a line", LINE_BYTES - 12)
}

/// Accepts connections at an address, and checks that numbered lines arrive once and in order.
fn receive(address: SocketAddr, received: Arc<AtomicU64>) {
    let listener = TcpListener::bind(address).unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            for line in BufReader::with_capacity(1 << 16, stream.unwrap()).lines() {
                let expected = received.load(Ordering::Relaxed);
                assert_eq!(line.unwrap().get(..10), Some(&*format!("{expected:010}")));
                received.store(expected + 1, Ordering::Relaxed);
            }
        }
    });
}

/// Returns a free address without a listener.
fn unused_address() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], free_port()))
}

fn resident_mib(agent: &Agent) -> f64 {
    agent.metric("millstream_process_resident_memory_bytes").unwrap_or(0.0) / f64::from(1 << 20)
}

/// A sink is unavailable for a while, with 10 MB/s from a source that cannot read its input twice.
#[test]
fn an_outage_loses_nothing_keeps_order_and_disturbs_no_other_sink() {
    let report = Report::of_test();
    let outage = Duration::from_secs(OUTAGE.get());
    report.count(outage.as_secs());
    // The data of a long outage does not fit into memory, where the other tests have their folders.
    let is_long = outage > Duration::from_secs(60);
    let dir = if is_long { tempfile::tempdir().unwrap() } else { folder() };
    let address = unused_address();
    let config = format!(
        "limits: {{ memory: 64MiB }}\nsources: {{ in: {{ type: stdin }} }}\nsinks:\n  \
         out: {{ type: tcp, inputs: [in], address: '{address}', encoding: {{ codec: text }}, \
         buffer: {{ type: disk, max: 60GiB }} }}\n  \
         copy: {{ type: blackhole, inputs: [in] }}\n"
    );
    let (reader, writer) = std::io::pipe().unwrap();
    let mut agent = Agent::spawn(dir.path(), &config, &[], |command| {
        command.stdin(Stdio::from(reader));
    });
    let (ends, written) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let (ends_soon, writes) = (ends.clone(), written.clone());
    let feed = std::thread::spawn(move || {
        write_lines(writer, |count| {
            writes.store(count, Ordering::Relaxed);
            ends_soon.load(Ordering::Relaxed)
        })
    });
    let copied = "millstream_component_sent_events_total{component_id=\"copy\"";
    let has_copied = |lines: u64| agent.metric(copied).is_some_and(|sent| sent >= lines as f64);
    // The outage counts only from when lines flow, because the agent starts late on a busy host.
    wait_until("lines flow", PATIENCE, || has_copied(LINES_PER_SECOND / 2));
    std::thread::sleep(outage / 2);
    let before = resident_mib(&agent);
    std::thread::sleep(outage / 2);
    let during = resident_mib(&agent);
    assert!(during < before + 16.0, "{before} MiB, then {during} MiB");
    // A source that waited for the sink could read only as much as fits into memory.
    let many = LINES_PER_SECOND * outage.as_secs() / 3;
    let is_fed = || written.load(Ordering::Relaxed) >= many;
    wait_until("the source does not wait", PATIENCE.max(outage), is_fed);
    let fed = written.load(Ordering::Relaxed);
    wait_until("the other sink has it", PATIENCE, || has_copied(fed));
    wait_until("it is on disk", PATIENCE, || {
        agent.metric("millstream_disk_buffer_bytes{").is_some_and(|bytes| bytes > fed as f64 * 80.0)
    });
    let received = Arc::new(AtomicU64::new(0));
    receive(address, received.clone());
    std::thread::sleep(Duration::from_secs(1));
    ends.store(true, Ordering::Relaxed);
    let lines = feed.join().unwrap();
    let caught_up = || received.load(Ordering::Relaxed) == lines;
    wait_until("everything has arrived", PATIENCE.max(outage), caught_up);
    let after = resident_mib(&agent);
    assert!(after < before + 32.0, "{before} MiB, then {after} MiB");
    wait_until("the buffer is empty", PATIENCE, || segments(dir.path()).is_empty());
    assert_eq!(counted(&agent, "dropped_events", ""), 0);
    assert!(agent.stop().success(), "{}", agent.log());
}

/// Returns the segments of the disk buffer of `out`, oldest first.
fn segments(dir: &Path) -> Vec<PathBuf> {
    let Ok(files) = fs::read_dir(dir.join("data/spool/out")) else { return Vec::new() };
    let paths = files.map(|file| file.unwrap().path());
    let mut paths: Vec<PathBuf> = paths.filter(|path| path.extension().is_some()).collect();
    paths.sort();
    paths
}

/// Starts an endpoint that refuses requests while the returned switch is on.
fn endpoint_that_is_away() -> (Endpoint, Arc<AtomicBool>) {
    let is_away = Arc::new(AtomicBool::new(true));
    let away = is_away.clone();
    let endpoint = Endpoint::start(move |_, _| match away.load(Ordering::Relaxed) {
        true => Act::Instead(Reply::status(503)),
        false => Act::Keep,
    });
    (endpoint, is_away)
}

/// Returns the options of an HTTP sink that sends each line as text.
fn to_http(endpoint: &Endpoint, buffer: &str) -> String {
    format!(
        "type: http, uri: '{}', encoding: {{ codec: text }}, batch: {{ timeout: 10ms, bytes: 64KiB }}, {buffer}",
        endpoint.server.uri("/in")
    )
}

fn from_files(sink: &str) -> String {
    format!(
        "sources: {{ app: {{ type: file, include: ['DIR/in/*.log'] }} }}\n\
         sinks: {{ out: {{ inputs: [app], {sink} }} }}\n"
    )
}

fn append(dir: &Path, numbers: std::ops::Range<u64>) {
    fs::create_dir_all(dir.join("in")).unwrap();
    let mut out = File::options().create(true).append(true).open(dir.join("in/a.log")).unwrap();
    out.write_all(numbers.map(numbered).collect::<String>().as_bytes()).unwrap();
}

fn numbers(text: &str) -> Vec<u64> {
    text.lines().map(|line| line[..10].parse().unwrap()).collect()
}

/// In mode `always`, the lines go to the disk buffer even while the endpoint is down, and their
/// files can then be deleted. Kills between the runs lose nothing.
#[test]
fn kills_lose_nothing_of_what_is_on_disk_only() {
    let (endpoint, is_away) = endpoint_that_is_away();
    let dir = folder();
    let config =
        from_files(&to_http(&endpoint, "buffer: { type: disk, max: 256MiB, mode: always }"));
    const LINES: u64 = 20_000;
    for round in 0..10 {
        append(dir.path(), round * LINES..(round + 1) * LINES);
        let mut agent = Agent::start(dir.path(), &config, &[]);
        // Some rounds end while the agent reads files, others while it sends requests.
        is_away.store(round % 3 != 2, Ordering::Relaxed);
        std::thread::sleep(Duration::from_millis(150 + 100 * round));
        agent.kill();
    }
    is_away.store(true, Ordering::Relaxed);
    let mut agent = Agent::start(dir.path(), &config, &[]);
    let is_read = || {
        let files = agent.metric("millstream_source_files{");
        files == Some(1.0) && agent.metric("millstream_source_lag_bytes{") == Some(0.0)
    };
    wait_until("everything is in the buffer", PATIENCE, is_read);
    std::thread::sleep(Duration::from_millis(1200));
    wait_until("it is committed", PATIENCE, || {
        agent.single("millstream_checkpoint_age_seconds") == Some(0.0)
    });
    agent.kill();
    fs::remove_dir_all(dir.path().join("in")).unwrap();
    is_away.store(false, Ordering::Relaxed);
    let agent = Agent::start(dir.path(), &config, &[]);
    wait_until("the buffer is empty", PATIENCE, || segments(dir.path()).is_empty());
    let mut found = numbers(&endpoint.text());
    let count = found.len();
    found.sort_unstable();
    found.dedup();
    assert_eq!(found, (0..10 * LINES).collect::<Vec<_>>(), "{count} with repeats");
    stop(agent);
}

/// Fills a buffer while the endpoint is away, and stops the agent. Returns the endpoint, its switch
/// and the configuration.
fn filled(dir: &Path, lines: u64) -> (Endpoint, Arc<AtomicBool>, String) {
    filled_until(dir, lines, stop)
}

/// Fills a buffer like [`filled`], but ends the agent by calling `end`.
fn filled_until(
    dir: &Path,
    lines: u64,
    end: impl Fn(Agent),
) -> (Endpoint, Arc<AtomicBool>, String) {
    let (endpoint, is_away) = endpoint_that_is_away();
    let config =
        from_files(&to_http(&endpoint, "buffer: { type: disk, max: 256MiB, mode: always }"));
    append(dir, 0..lines);
    let agent = Agent::start(dir, &config, &[]);
    let on_disk = || agent.metric("millstream_disk_buffer_events{") == Some(lines as f64);
    wait_until("everything is in the buffer", PATIENCE, on_disk);
    end(agent);
    fs::remove_dir_all(dir.join("in")).unwrap();
    (endpoint, is_away, config)
}

#[test]
fn a_damaged_segment_loses_only_what_is_damaged_and_counts_it() {
    let dir = folder();
    const LINES: u64 = 50_000;
    let (endpoint, is_away, config) = filled(dir.path(), LINES);
    let path = segments(dir.path()).remove(0);
    let mut bytes = fs::read(&path).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle..middle + 100].fill(b'#');
    fs::write(&path, bytes).unwrap();
    is_away.store(false, Ordering::Relaxed);
    let agent = Agent::start(dir.path(), &config, &[]);
    let is_over = || agent.metric("millstream_disk_buffer_events{") == Some(0.0);
    wait_until("the rest is sent", PATIENCE, is_over);
    let found = numbers(&endpoint.text());
    assert!(found.is_sorted() && found.len() < LINES as usize, "{} lines", found.len());
    let dropped = counted(&agent, "dropped_events", "reason=\"buffer_damaged\"");
    assert_eq!(found.len() as u64 + dropped, LINES);
    assert_eq!(agent.metric("millstream_disk_buffer_damaged_entries_total{"), Some(1.0));
    agent.assert_logs("is damaged");
    stop(agent);
    let kept = segments(dir.path());
    assert_eq!(kept.len(), 1, "the damaged file is kept: {kept:?}");
}

/// Kills an agent once its data on disk is committed.
fn kill_committed(mut agent: Agent) {
    wait_committed(&agent);
    agent.kill();
}

fn wait_committed(agent: &Agent) {
    std::thread::sleep(Duration::from_millis(1200));
    wait_until("it is committed", PATIENCE, || {
        agent.single("millstream_checkpoint_age_seconds") == Some(0.0)
    });
}

/// The end of a buffer is missing, as after a restored backup or an incomplete copy.
#[test]
fn the_end_of_a_buffer_that_is_missing_is_counted_after_a_stop_and_a_kill() {
    const LINES: u64 = 50_000;
    let cut = |path: &Path| {
        let file = File::options().write(true).open(path).unwrap();
        file.set_len(file.metadata().unwrap().len() * 2 / 3).unwrap();
    };
    let remove = |path: &Path| fs::remove_file(path).unwrap();
    let ends: [fn(Agent); 2] = [stop, kill_committed];
    for (end, is_cut) in ends.into_iter().flat_map(|end| [(end, true), (end, false)]) {
        let dir = folder();
        let (endpoint, is_away, config) = filled_until(dir.path(), LINES, end);
        let newest = segments(dir.path()).pop().unwrap();
        if is_cut {
            cut(&newest)
        } else {
            remove(&newest)
        }
        // The agent counts the loss once, although it is killed immediately after the count.
        let mut agent = Agent::start(dir.path(), &config, &[]);
        let dropped = damaged_at_start(&agent);
        agent.assert_logs("damaged or missing and lost");
        agent.kill();
        is_away.store(false, Ordering::Relaxed);
        let agent = Agent::start(dir.path(), &config, &[]);
        assert_eq!(damaged_at_start(&agent), 0);
        let is_over = || agent.metric("millstream_disk_buffer_events{") == Some(0.0);
        wait_until("the rest is sent", PATIENCE, is_over);
        let found = numbers(&endpoint.text());
        assert!(dropped > 0 && found.is_sorted_by(|a, b| a < b));
        assert_eq!(found.len() as u64 + dropped, LINES);
        stop(agent);
        assert_eq!(newest.with_extension("damaged").exists(), is_cut);
    }
}

/// The events that a full buffer has dropped and the events that it still contains add up to all
/// events after every shutdown and kill. Dropped segments do not count as lost segments.
#[test]
fn drops_are_counted_once_over_stops_and_kills() {
    const LINES: u64 = 100_000;
    let (endpoint, is_away) = endpoint_that_is_away();
    let dir = folder();
    let buffer = "buffer: { type: disk, max: 16MiB, mode: always, when_full: drop_oldest }";
    let config = from_files(&to_http(&endpoint, buffer));
    let (mut written, mut dropped) = (0, 0);
    for round in 0..4 {
        append(dir.path(), written..written + LINES);
        written += LINES;
        let mut agent = Agent::start(dir.path(), &config, &[]);
        let now = || counted(&agent, "dropped_events", "reason=\"buffer_full\"");
        let held = || agent.metric("millstream_disk_buffer_events{").unwrap_or_default() as u64;
        wait_until("all is in the buffer or dropped", PATIENCE, || {
            agent.metric("millstream_source_lag_bytes{") == Some(0.0)
                && dropped + now() + held() == written
        });
        wait_committed(&agent);
        dropped += now();
        assert_eq!(counted(&agent, "dropped_events", "reason=\"buffer_damaged\""), 0);
        match round % 2 {
            0 => agent.kill(),
            _ => stop(agent),
        }
    }
    assert!(dropped > 0);
    is_away.store(false, Ordering::Relaxed);
    let agent = Agent::start(dir.path(), &config, &[]);
    wait_until("the buffer is empty", PATIENCE, || segments(dir.path()).is_empty());
    assert_eq!(counted(&agent, "dropped_events", ""), 0);
    stop(agent);
    let mut found = numbers(&endpoint.text());
    found.sort_unstable();
    found.dedup();
    assert_eq!(found.len() as u64 + dropped, written);
}

/// Returns the number of events that the agent has found missing at its start.
fn damaged_at_start(agent: &Agent) -> u64 {
    let is_open = || agent.metric("millstream_disk_buffer_events{").is_some();
    wait_until("the buffer is open", PATIENCE, is_open);
    counted(agent, "dropped_events", "reason=\"buffer_damaged\"")
}

/// A segment that was dropped right before a kill, but is still in the last committed state, does
/// not count as damaged.
#[test]
fn a_kill_behind_a_drop_is_not_taken_for_damage() {
    const LINES: u64 = 100_000;
    let (endpoint, _is_away) = endpoint_that_is_away();
    let dir = folder();
    let buffer = "buffer: { type: disk, max: 16MiB, mode: always, when_full: drop_oldest }";
    let config = from_files(&to_http(&endpoint, buffer));
    append(dir.path(), 0..LINES);
    for round in 1..4 {
        let mut agent = Agent::start(dir.path(), &config, &[]);
        assert_eq!(damaged_at_start(&agent), 0);
        wait_committed(&agent);
        let before = segments(dir.path());
        append(dir.path(), round * LINES..(round + 1) * LINES);
        let begun = Instant::now();
        while before.iter().all(|segment| segment.exists()) {
            assert!(begun.elapsed() < PATIENCE, "nothing is dropped");
            std::thread::sleep(Duration::from_micros(100));
        }
        agent.kill();
    }
    let agent = Agent::start(dir.path(), &config, &[]);
    assert_eq!(damaged_at_start(&agent), 0);
    stop(agent);
}

#[test]
fn a_buffer_that_another_agent_uses_is_refused() {
    let dir = folder();
    let (_endpoint, _, config) = filled(dir.path(), 1000);
    // Create another data folder whose buffer is a link to the first one, as on a shared disk.
    let other = folder();
    fs::create_dir_all(other.path().join("data/spool")).unwrap();
    let buffer = dir.path().join("data/spool/out");
    std::os::unix::fs::symlink(&buffer, other.path().join("data/spool/out")).unwrap();
    let agent = Agent::start(dir.path(), &config, &[]);
    wait_until("it runs", PATIENCE, || agent.get("/ready").is_some());
    let mut second = Agent::start(other.path(), &config, &[]);
    assert!(!second.wait(PATIENCE).success());
    second.assert_logs("is in use by another agent");
    stop(agent);
}

/// The disk is smaller than the limit of the buffer. The agent sends the data on the disk although
/// it cannot write to the disk, and then the rest of the file, in order.
#[test]
fn a_full_disk_gets_room_by_delivering() {
    const LINES: u64 = 100_000;
    let dir = folder();
    fs::create_dir(dir.path().join("data")).unwrap();
    let Some(_disk) = SmallDisk::mount(dir.path().join("data/spool")) else { return };
    let (endpoint, is_away) = endpoint_that_is_away();
    let buffer = "buffer: { type: disk, max: 64MiB, mode: always }";
    append(dir.path(), 0..LINES);
    let agent = Agent::start(dir.path(), &from_files(&to_http(&endpoint, buffer)), &[]);
    let is_full = || agent.get("/ready").is_some_and(|ready| ready.contains("No space left"));
    wait_until("the disk is full", PATIENCE, is_full);
    is_away.store(false, Ordering::Relaxed);
    let arrived = || endpoint.text().lines().count() as u64 >= LINES;
    wait_until("everything arrives", PATIENCE, arrived);
    assert_eq!(numbers(&endpoint.text()), (0..LINES).collect::<Vec<_>>());
    wait_until("the disk works again", PATIENCE, || {
        agent.get("/ready").is_some_and(|ready| !ready.contains("No space left"))
    });
    stop(agent);
}

/// The sink for rejected events is down. The endpoint refuses more lines than the feed and the
/// memory queue of this sink can hold.
#[test]
fn rejected_events_go_to_disk_and_do_not_stop_their_sink() {
    const LINES: usize = 600;
    let endpoint = Endpoint::start(|seen, _| match seen.body.windows(4).any(|w| w == b"bad ") {
        true => Act::Instead(Reply::status(400)),
        false => Act::Keep,
    });
    let (letters, is_away) = endpoint_that_is_away();
    let dir = folder();
    let sink = |endpoint: &Endpoint| to_http(endpoint, "compression: none");
    let config = format!(
        "sources: {{ app: {{ type: file, include: ['DIR/in/*.log'] }} }}\nsinks:\n  \
         out: {{ inputs: [app], {} }}\n  \
         letters: {{ inputs: [out.rejected], buffer: {{ type: disk, max: 256MiB }}, {} }}\n",
        sink(&endpoint),
        sink(&letters),
    );
    fs::create_dir_all(dir.path().join("in")).unwrap();
    let line = |n: usize| {
        format!("{n:010} {} {:20000}\n", if n.is_multiple_of(2) { "bad " } else { "good" }, "")
    };
    let text: String = (0..LINES).map(line).collect();
    fs::write(dir.path().join("in/a.log"), text).unwrap();
    let agent = Agent::start(dir.path(), &config, &[]);
    let all = |odd: u64| (0..LINES as u64).filter(|n| n % 2 == odd).collect::<Vec<_>>();
    wait_until("the other half arrives", PATIENCE, || numbers(&endpoint.text()) == all(1));
    wait_until("the rejected half waits on disk", PATIENCE, || {
        agent.metric("millstream_disk_buffer_events{").is_some_and(|events| events > 0.0)
    });
    is_away.store(false, Ordering::Relaxed);
    wait_until("the rejected half arrives", PATIENCE, || numbers(&letters.text()) == all(0));
    stop(agent);
}

#[test]
fn sums_in_prometheus_are_exact_after_an_outage_that_goes_to_disk() {
    let is_away = Arc::new(AtomicBool::new(false));
    let away = is_away.clone();
    let act = move |_: &ReceivedRequest, _: usize| match away.load(Ordering::Relaxed) {
        true => Act::Instead(Reply::status(503)),
        false => Act::Keep,
    };
    let endpoint =
        Endpoint::before(HttpOptions::default(), act, |seen| forward(Prometheus::shared(), seen));
    let dir = folder();
    let uri = endpoint.server.uri("/api/v1/write");
    let config = sink(&uri, "disk").replace("batch:", "buffer: { type: disk, max: 64MiB }, batch:");
    // The memory queue is small, so that the points of most periods go to disk. Above 80% of the
    // limit the agent would count new series together.
    let config = format!("limits: {{ memory: 100MiB }}\n{config}");
    let agent = start_ready(dir.path(), &config);
    send_points(dir.path(), 1);
    wait_sum("disk", 1);
    is_away.store(true, Ordering::Relaxed);
    for _ in 0..12 {
        send_points(dir.path(), 5);
        let filler = |series| format!("filler.{series}:1|c|#path:/some/long/path/of/a/request");
        send(dir.path(), (0..20_000).map(filler));
        std::thread::sleep(Duration::from_millis(600));
    }
    wait_until("points are on disk", PATIENCE, || {
        agent.metric("millstream_disk_buffer_events{").is_some_and(|events| events > 0.0)
    });
    is_away.store(false, Ordering::Relaxed);
    wait_sum("disk", 61);
    assert_exact(&agent, "disk");
    stop(agent);
}
