//! Tests files that are rotated and deleted while a sink is behind, with the real binary.

use crate::e2e::full::SmallDisk;
use crate::support::{Agent, folder, wait_until};
use millstream_testkit_servers::http::{HttpServer, ReceivedRequest, Reply};
use rustix::process::Signal;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(60);

/// Number of rotated files that the writer keeps; the writer deletes older files.
const KEPT: usize = 3;

/// Number of rotations in a test. Most files are deleted before its end.
const ROTATIONS: usize = 9;

const LINES_PER_FILE: usize = 5000;

/// An endpoint that rejects all requests until it is opened. It stores the ids with which each line
/// arrived.
#[derive(Clone, Default)]
struct Endpoint {
    open: Arc<AtomicBool>,
    /// Whether it responds without a pause.
    is_fast: bool,
    taken: Arc<Mutex<BTreeMap<usize, Vec<String>>>>,
}

impl Endpoint {
    fn serve(&self) -> HttpServer {
        let endpoint = self.clone();
        HttpServer::start(move |seen| endpoint.answer(seen))
    }

    fn answer(&self, seen: &ReceivedRequest) -> Reply {
        if !self.open.load(Relaxed) {
            return Reply::status(503);
        }
        let mut taken = self.taken.lock().unwrap();
        for line in seen.body.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
            let event: Value = serde_json::from_slice(line).unwrap();
            let message = event["message"].as_str().unwrap();
            let number = message[5..11].parse().unwrap();
            assert_eq!(message, text(number), "a line is torn");
            taken.entry(number).or_default().push(event["meta"]["id"].as_str().unwrap().to_owned());
        }
        drop(taken);
        // The pause is long enough that most lines are undelivered when the agent stops.
        if !self.is_fast {
            std::thread::sleep(Duration::from_millis(50));
        }
        Reply::status(200)
    }

    fn lines_taken(&self) -> usize {
        self.taken.lock().unwrap().len()
    }

    /// Asserts that each line arrived, and always with the same id.
    fn assert_once_by_id(&self, lines: usize) {
        let taken = self.taken.lock().unwrap();
        let missing: Vec<usize> = (0..lines).filter(|line| !taken.contains_key(line)).collect();
        assert!(
            missing.is_empty(),
            "{} of {lines} lines are missing: {:?}…",
            missing.len(),
            &missing[..1]
        );
        let changed = taken.iter().find(|(_, ids)| ids.iter().any(|id| *id != ids[0]));
        assert_eq!(changed, None, "a line came under two ids");
    }
}

/// Returns the text of a numbered line.
fn text(number: usize) -> String {
    format!("line {number:06} {}", "x".repeat(number % 50))
}

/// A writer of numbered lines that rotates its log by renaming.
struct Writer {
    folder: PathBuf,
    written: usize,
}

impl Writer {
    fn new(folder: &Path) -> Writer {
        fs::create_dir_all(folder).unwrap();
        Writer { folder: folder.to_path_buf(), written: 0 }
    }

    fn path(&self, generation: usize) -> PathBuf {
        let ending = if generation == 0 { String::new() } else { format!(".{generation}") };
        self.folder.join(format!("app.log{ending}"))
    }

    fn write(&mut self, lines: usize) {
        let text: String =
            (self.written..self.written + lines).map(|number| text(number) + "\n").collect();
        let mut file = File::options().create(true).append(true).open(self.path(0)).unwrap();
        file.write_all(text.as_bytes()).unwrap();
        self.written += lines;
    }

    fn rotate(&self) {
        let _ = fs::remove_file(self.path(KEPT));
        for generation in (0..KEPT).rev() {
            let _ = fs::rename(self.path(generation), self.path(generation + 1));
        }
    }

    /// Returns the total size of the existing files in bytes.
    fn bytes_on_disk(&self) -> u64 {
        let size = |generation| fs::metadata(self.path(generation)).map_or(0, |stat| stat.len());
        (0..=KEPT).map(size).sum()
    }
}

fn config(logs: &Path, uri: &str, held: &str) -> String {
    format!(
        "sources: {{ app: {{ type: file, include: ['{}/*.log'], held: {held} }} }}
sinks: {{ out: {{ type: http, inputs: [app], uri: '{uri}', batch: {{ bytes: 64KiB, timeout: 100ms }}, buffer: {{ max: 512KiB }} }} }}
limits: {{ memory: 64MiB }}
shutdown_timeout: 2s
",
        logs.display()
    )
}

/// Counts the files in a folder; 0 if it does not exist.
fn count(folder: &Path) -> usize {
    fs::read_dir(folder).map_or(0, Iterator::count)
}

/// Writes and rotates while the endpoint rejects all requests. The agent discovers each file before
/// its rotation and, if it can create links, links it in `held` before its deletion.
fn flood(agent: &Agent, writer: &mut Writer, held: Option<&Path>) {
    for files in 1..=ROTATIONS {
        writer.write(LINES_PER_FILE);
        wait_until("the file is seen", PATIENCE, || {
            agent.metric("millstream_source_files").is_some_and(|seen| seen >= files as f64)
        });
        wait_until("rotated files are linked", PATIENCE, || {
            held.is_none_or(|held| count(held) == files - 1)
        });
        if files < ROTATIONS {
            writer.rotate();
        }
    }
}

/// Starts the agent, waits until every line is delivered, and stops the agent.
fn deliver_all(dir: &Path, config: &str, endpoint: &Endpoint, lines: usize) {
    endpoint.open.store(true, Relaxed);
    let mut agent = Agent::start(dir, config, &[]);
    wait_until("every line has arrived", PATIENCE, || {
        assert!(!agent.poll_ended(), "{}", agent.log());
        endpoint.lines_taken() >= lines
    });
    assert_eq!(agent.stop().code(), Some(0), "{}", agent.log());
    endpoint.assert_once_by_id(lines);
}

/// Returns the last log line, which summarizes the shutdown.
fn farewell(agent: &Agent) -> String {
    let log = agent.log();
    log.lines().rev().find(|line| line.contains("stopped; ")).unwrap_or_default().to_owned()
}

#[test]
fn linked_files_survive_sigterm_and_kill_until_they_are_delivered() {
    for signal in [Signal::TERM, Signal::KILL] {
        let dir = folder();
        let endpoint = Endpoint::default();
        let server = endpoint.serve();
        let mut writer = Writer::new(&dir.path().join("in"));
        let config = config(&dir.path().join("in"), &server.uri("/in"), "{ link: true }");
        let mut agent = Agent::start(dir.path(), &config, &[]);
        let held_dir = dir.path().join("data/held/app");
        flood(&agent, &mut writer, Some(&held_dir));
        wait_until("what is held is shown", PATIENCE, || {
            agent
                .metric("millstream_held_files")
                .is_some_and(|files| files == (ROTATIONS - 1 - KEPT) as f64)
        });
        wait_until("their bytes are shown", PATIENCE, || {
            agent.metric("millstream_held_bytes").is_some_and(|bytes| bytes > 0.0)
        });
        let says = |path: &str, text: &str| agent.get(path).is_some_and(|body| body.contains(text));
        wait_until("the API says so", PATIENCE, || {
            says("/api/files", "\"held_by\":\"disk\"")
                && says("/ready", "\"held\":[{\"source\":\"app\"")
        });
        agent.send(signal);
        let status = agent.wait(PATIENCE);
        if signal == Signal::TERM {
            assert_eq!(status.code(), Some(0), "{}", agent.log());
            assert!(farewell(&agent).contains("in 9 files; lost: nothing"), "{}", agent.log());
        }
        // End the agent a second time, in the middle of the delivery.
        endpoint.open.store(true, Relaxed);
        let mut agent = Agent::start(dir.path(), &config, &[]);
        wait_until("some lines have arrived", PATIENCE, || endpoint.lines_taken() > LINES_PER_FILE);
        agent.send(signal);
        agent.wait(PATIENCE);
        deliver_all(dir.path(), &config, &endpoint, writer.written);
        assert_eq!(count(&held_dir), 0, "they go when they are settled");
    }
}

/// Returns a folder on a different file system than [`folder`].
fn other_file_system() -> tempfile::TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap()
}

#[test]
fn if_files_cannot_be_linked_a_stop_copies_undelivered_data() {
    let (dir, logs) = (folder(), other_file_system());
    let endpoint = Endpoint::default();
    let server = endpoint.serve();
    let mut writer = Writer::new(logs.path());
    let config = config(logs.path(), &server.uri("/in"), "{}");
    let mut agent = Agent::start(dir.path(), &config, &[]);
    flood(&agent, &mut writer, None);
    assert_eq!(agent.stop().code(), Some(0), "{}", agent.log());
    assert!(farewell(&agent).contains("in 9 files; lost: nothing"), "{}", agent.log());
    deliver_all(dir.path(), &config, &endpoint, writer.written);
}

/// Returns the names of the copies with a valid part.
fn copies(held: &Path) -> Vec<String> {
    let entries = fs::read_dir(held).into_iter().flatten().flatten();
    let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
    names.filter(|name| !name.ends_with(".tmp")).collect()
}

/// The agent is killed twice: after it has copied the deleted files, and during the delivery.
#[test]
fn files_that_cannot_be_linked_survive_kill_once_they_are_copied() {
    let (dir, logs) = (folder(), other_file_system());
    let endpoint = Endpoint::default();
    let server = endpoint.serve();
    let mut writer = Writer::new(logs.path());
    let config = config(logs.path(), &server.uri("/in"), "{}");
    let mut agent = Agent::start(dir.path(), &config, &[]);
    let held_dir = dir.path().join("data/held/app");
    flood(&agent, &mut writer, None);
    wait_until("deleted files are copied", PATIENCE, || {
        copies(&held_dir).len() == ROTATIONS - 1 - KEPT
    });
    wait_until("the size of the copies is shown", PATIENCE, || {
        agent.metric("millstream_held_copied_bytes").is_some_and(|bytes| bytes > 0.0)
    });
    let told = || agent.log().matches("undelivered bytes of the deleted file").count();
    wait_until("each copy is logged", PATIENCE, || told() == ROTATIONS - 1 - KEPT);
    agent.send(Signal::KILL);
    agent.wait(PATIENCE);
    endpoint.open.store(true, Relaxed);
    let mut agent = Agent::start(dir.path(), &config, &[]);
    wait_until("some lines have arrived", PATIENCE, || endpoint.lines_taken() > LINES_PER_FILE);
    agent.send(Signal::KILL);
    agent.wait(PATIENCE);
    deliver_all(dir.path(), &config, &endpoint, writer.written);
    assert_eq!(count(&held_dir), 0, "copies are removed when they are settled");
}

/// Lines in a file that is killed while it is copied arrive whole, in order and with one id, up to
/// the point that the copy had reached.
#[test]
fn a_kill_in_the_middle_of_a_copy_tears_no_line() {
    const LINES: usize = 900_000;
    let (dir, logs) = (folder(), other_file_system());
    let endpoint = Endpoint { is_fast: true, ..Endpoint::default() };
    let server = endpoint.serve();
    let mut writer = Writer::new(logs.path());
    let config = config(logs.path(), &server.uri("/in"), "{}");
    let mut agent = Agent::start(dir.path(), &config, &[]);
    let held_dir = dir.path().join("data/held/app");
    writer.write(LINES);
    wait_until("the file is seen", PATIENCE, || {
        agent.metric("millstream_source_files").is_some_and(|files| files > 0.0)
    });
    fs::remove_file(writer.path(0)).unwrap();
    wait_until("the copy begins", PATIENCE, || count(&held_dir) > 0);
    agent.send(Signal::KILL);
    agent.wait(PATIENCE);
    writer.write(1);
    endpoint.open.store(true, Relaxed);
    let mut agent = Agent::start(dir.path(), &config, &[]);
    wait_until("the next file has arrived", PATIENCE, || {
        endpoint.taken.lock().unwrap().contains_key(&LINES)
    });
    let waits = || {
        let lag = agent.metric("millstream_source_lag_bytes{");
        lag.is_none_or(|lag| lag > 0.0) || count(&held_dir) > 0
    };
    wait_until("the copied part has arrived", PATIENCE, || !waits());
    assert_eq!(agent.stop().code(), Some(0), "{}", agent.log());
    let mut taken = endpoint.taken.lock().unwrap().clone();
    taken.remove(&LINES);
    assert!(taken.keys().copied().eq(0..taken.len()), "{} lines", taken.len());
    assert!(taken.values().all(|ids| ids.iter().all(|id| *id == ids[0])));
    println!("{} of {LINES} lines were copied", taken.len());
}

/// A deleted file is held by its descriptor if `data_dir` has no space for a copy.
#[test]
fn without_space_for_a_copy_the_log_says_so_and_the_data_is_delivered() {
    let (dir, logs) = (folder(), other_file_system());
    let Some(_disk) = SmallDisk::mount(dir.path().join("data")) else { return };
    let endpoint = Endpoint::default();
    let server = endpoint.serve();
    let mut writer = Writer::new(logs.path());
    let config = config(logs.path(), &server.uri("/in"), "{ max: 100MiB }");
    let mut agent = Agent::start(dir.path(), &config, &[]);
    writer.write(20 * LINES_PER_FILE);
    wait_until("the file is seen", PATIENCE, || {
        agent.metric("millstream_source_files").is_some_and(|files| files > 0.0)
    });
    fs::remove_file(writer.path(0)).unwrap();
    let told = "cannot copy the undelivered part of the deleted file";
    wait_until("the log tells it", PATIENCE, || agent.log().contains(told));
    endpoint.open.store(true, Relaxed);
    wait_until("every line has arrived", PATIENCE, || endpoint.lines_taken() >= writer.written);
    assert_eq!(agent.stop().code(), Some(0), "{}", agent.log());
    assert_eq!(agent.log().matches(told).count(), 1, "{}", agent.log());
    endpoint.assert_once_by_id(writer.written);
}

#[test]
fn data_lost_at_a_stop_is_counted_to_the_byte() {
    let (dir, logs) = (folder(), other_file_system());
    let endpoint = Endpoint::default();
    let server = endpoint.serve();
    let mut writer = Writer::new(logs.path());
    let config = config(logs.path(), &server.uri("/in"), "{ copy_at_stop: false }");
    let mut agent = Agent::start(dir.path(), &config, &[]);
    flood(&agent, &mut writer, None);
    let all: u64 = (0..writer.written).map(|number| 13 + number as u64 % 50).sum();
    let (kept, deleted) = (writer.bytes_on_disk(), (ROTATIONS - 1 - KEPT) * LINES_PER_FILE);
    assert_eq!(agent.stop().code(), Some(1), "{}", agent.log());
    let lost = format!(
        "waiting on disk for the next start: {kept} bytes in {} files; lost: {deleted} events \
         ({deleted} deleted_undelivered (source app)), {} bytes from files",
        KEPT + 1,
        all - kept
    );
    assert!(farewell(&agent).contains(&lost), "{lost}\n{}", agent.log());
    // The remaining lines arrive.
    endpoint.open.store(true, Relaxed);
    let mut agent = Agent::start(dir.path(), &config, &[]);
    wait_until("the rest has arrived", PATIENCE, || {
        endpoint.lines_taken() == writer.written - deleted
    });
    assert_eq!(agent.stop().code(), Some(0), "{}", agent.log());
}

/// Above `held.max` the running agent gives up the oldest files and counts their events and bytes.
#[test]
fn deleted_files_are_given_up_oldest_first_beyond_their_limit() {
    let dir = folder();
    let endpoint = Endpoint::default();
    let server = endpoint.serve();
    let mut writer = Writer::new(&dir.path().join("in"));
    let config = config(&dir.path().join("in"), &server.uri("/in"), "{ max: 400KiB }");
    let mut agent = Agent::start(dir.path(), &config, &[]);
    flood(&agent, &mut writer, None);
    let label = "component_id=\"app\",component_type=\"file\",component_kind=\"source\",reason=\"held_max\"";
    let dropped = |what: &str| {
        agent
            .metric(&format!("millstream_component_dropped_{what}_total{{{label}}}"))
            .unwrap_or_default() as usize
    };
    wait_until("the limit holds", PATIENCE, || {
        dropped("events") > 0
            && agent.metric("millstream_held_bytes").is_some_and(|bytes| bytes <= 409_600.0)
    });
    let (events, bytes) = (dropped("events"), dropped("bytes"));
    assert!(bytes > 13 * events, "{bytes} bytes, {events} lines");
    let told = "undelivered deleted files use";
    wait_until("the log tells it", PATIENCE, || agent.log().contains(told));
    endpoint.open.store(true, Relaxed);
    // A deletion that the agent notices late may also exceed the limit.
    wait_until("everything else has arrived", PATIENCE, || {
        endpoint.lines_taken() + dropped("events") >= writer.written
    });
    agent.stop();
    let taken = endpoint.taken.lock().unwrap();
    let last = ROTATIONS * LINES_PER_FILE - 4 * LINES_PER_FILE;
    assert!((last..writer.written).all(|line| taken.contains_key(&line)), "the youngest are kept");
}
