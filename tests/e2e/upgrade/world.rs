//! A folder in which programs run in turn under load, and the checks of everything that they
//! delivered.

use super::input::{COUNTERS, SmallLogs, Totals, Written, totals};
use crate::support::{Agent, lines};
use fastrand::Rng;
use millstream_testkit_servers::http::{HttpServer, ReceivedRequest, Reply};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Time limit of the last run, which delivers the rest.
const PATIENCE: Duration = Duration::from_secs(180);

/// The endpoint answers every request.
const UP: u8 = 0;

/// The endpoint accepts every request, but closes some connections without a response.
const FAULTY: u8 = 1;

/// The endpoint accepts no request.
const AWAY: u8 = 2;

/// Events that an endpoint accepted, by path, in order of arrival.
#[derive(Clone, Default)]
pub struct Arrived(BTreeMap<String, Vec<Value>>);

impl Arrived {
    /// Returns the events for a path.
    pub fn events(&self, path: &str) -> &[Value] {
        self.0.get(path).map_or(&[], Vec::as_slice)
    }

    /// Returns how many times each message arrived.
    pub fn counts(&self, path: &str) -> BTreeMap<String, usize> {
        let mut counts = BTreeMap::new();
        for event in self.events(path) {
            *counts.entry(text(&event["message"])).or_default() += 1;
        }
        counts
    }

    /// Returns the ids of each message.
    pub fn ids(&self, path: &str) -> BTreeMap<String, BTreeSet<String>> {
        let mut ids = BTreeMap::<String, BTreeSet<String>>::new();
        for event in self.events(path) {
            ids.entry(text(&event["message"])).or_default().insert(id(event));
        }
        ids
    }
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_else(|| panic!("{value} is not a text")).to_owned()
}

fn id(event: &Value) -> String {
    text(&event["meta"]["id"])
}

#[derive(Default)]
struct State {
    /// `UP`, `FAULTY` or `AWAY`.
    mode: AtomicU8,
    requests: AtomicU64,
    arrived: Mutex<Arrived>,
}

impl State {
    fn answer(&self, request: &ReceivedRequest) -> Reply {
        let (mode, count) =
            (self.mode.load(Ordering::SeqCst), self.requests.fetch_add(1, Ordering::SeqCst));
        if mode == AWAY {
            return if count.is_multiple_of(2) { Reply::status(503) } else { Reply::Close };
        }
        let body = request.text();
        let events = body.lines().map(|line| serde_json::from_str(line).expect("a whole event"));
        self.arrived.lock().unwrap().0.entry(request.path.clone()).or_default().extend(events);
        if mode == FAULTY && count.is_multiple_of(8) { Reply::Close } else { Reply::status(200) }
    }
}

/// An HTTP endpoint that stores the events that it accepts, and that can be away.
pub struct Endpoint {
    state: Arc<State>,
    server: HttpServer,
}

impl Endpoint {
    /// Starts the endpoint, which answers every request.
    pub fn start() -> Endpoint {
        let state = Arc::new(State::default());
        let answering = state.clone();
        Endpoint { state, server: HttpServer::start(move |request| answering.answer(request)) }
    }

    /// Returns the port.
    pub fn port(&self) -> u16 {
        self.server.port
    }

    /// Returns the events so far.
    pub fn arrived(&self) -> Arrived {
        self.state.arrived.lock().unwrap().clone()
    }

    fn set(&self, mode: u8) {
        self.state.mode.store(mode, Ordering::SeqCst);
    }
}

/// The way in which a run of a program ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// SIGKILL.
    Kill,
    /// SIGTERM.
    Stop,
}

/// The conditions of a run.
struct Conditions {
    /// Minimum time until the program is killed or stopped.
    time: Duration,
    /// Modes of the endpoint before and after `change`.
    modes: [u8; 2],
    change: Duration,
    /// Whether the run ends only after the program has delivered a line.
    must_deliver: bool,
}

/// A folder with the configuration of the fixtures, its input, and the endpoint of its sinks.
pub struct World {
    dir: TempDir,
    endpoint: Endpoint,
    random: Rng,
    /// The logs of the source `temp`.
    pub small_logs: SmallLogs,
}

impl World {
    /// Takes a folder that contains `millstream.yaml`, and starts the endpoint.
    pub fn new(dir: TempDir, seed: u64) -> World {
        fs::create_dir_all(dir.path().join("temp")).unwrap();
        let mut small_logs = SmallLogs::new(dir.path());
        small_logs.step();
        World { dir, endpoint: Endpoint::start(), random: Rng::with_seed(seed), small_logs }
    }

    /// Returns the folder.
    pub fn path(&self) -> &Path {
        self.dir.path()
    }

    fn start(&self, program: &Path, args: &[&str]) -> Agent {
        let mut command = Command::new(program);
        command.args(["run", "-c", "millstream.yaml"]).args(args).current_dir(self.path());
        command.env("DIR", self.path()).env("PORT", self.endpoint.port().to_string());
        Agent::launch(self.path(), command)
    }

    /// Draws the conditions of the next run. In a long run the endpoint is away, so that the agent
    /// links rotated files.
    fn draw(&mut self) -> Conditions {
        let random = &mut self.random;
        let is_long = random.u8(..6) == 0;
        let ms = if is_long { 2500..4000 } else { 200..1500 };
        let mut mode = || if is_long { AWAY } else { random.u8(UP..=AWAY) };
        let modes = [mode(), mode()];
        Conditions {
            time: Duration::from_millis(random.u64(ms)),
            modes,
            change: Duration::from_millis(random.u64(100..1500)),
            must_deliver: random.bool(),
        }
    }

    /// Runs a program for a random time, in which the endpoint is away or faulty at random. The
    /// error is the log of a program that ends without a signal.
    pub fn run(&mut self, program: &Path, end: End) -> Result<(), String> {
        let (log_before, bytes_before) = (self.log().len(), self.delivered_bytes());
        let Conditions { time, modes, change, must_deliver } = self.draw();
        self.endpoint.set(modes[0]);
        let begun = Instant::now();
        let mut agent = self.start(program, &[]);
        while begun.elapsed() < time || must_deliver && self.delivered_bytes() <= bytes_before {
            if agent.poll_ended() {
                return Err(self.log().split_off(log_before));
            }
            if begun.elapsed() > change {
                self.endpoint.set(modes[1]);
            }
            assert!(begun.elapsed() < PATIENCE, "nothing is delivered:\n{}", self.log());
            std::thread::sleep(Duration::from_millis(10));
        }
        match end {
            End::Kill => agent.kill(),
            End::Stop => drop(agent.stop()),
        }
        // A log is rotated only after runs of a program, because the first start of a source skips
        // rotated files.
        self.small_logs.step();
        Ok(())
    }

    /// Returns the size of the file with the delivered lines and their ids.
    fn delivered_bytes(&self) -> u64 {
        fs::metadata(self.path().join("ids.json")).map_or(0, |metadata| metadata.len())
    }

    /// Runs a program until it has delivered everything.
    pub fn finish(&self, program: &Path) {
        let before = self.log().len();
        self.endpoint.set(UP);
        let mut agent = self.start(program, &["--until-eof"]);
        let status = agent.wait(PATIENCE);
        let log = self.log().split_off(before);
        assert!(status.success() && !log.contains(" ERROR "), "{log}");
    }

    /// Returns the log of all runs.
    pub fn log(&self) -> String {
        fs::read_to_string(self.path().join("agent.log")).unwrap_or_default()
    }

    /// Returns the events that arrived at the endpoint.
    pub fn arrived(&self) -> Arrived {
        self.endpoint.arrived()
    }

    /// Checks that each line arrived at every sink, always under one id, and counted once.
    pub fn check(&self, written: &[Written]) {
        let expected: Vec<&str> = written.iter().map(|line| &*line.text).collect();
        let mut found = lines(&self.path().join("lines.txt"));
        found.sort_unstable();
        assert!(found == expected, "sink lines: {}", difference(&found, &expected));
        let ids = self.check_ids(written);
        let arrived = self.arrived();
        let spooled = arrived.ids("/spooled");
        let found: Vec<&String> = spooled.keys().collect();
        assert!(found == expected, "sink spooled: {}", difference(&found, &expected));
        for (line, found) in &spooled {
            let known: BTreeSet<String> = [ids[line].clone()].into();
            assert_eq!(*found, known, "sink spooled: {line:?} arrived under an unknown id");
        }
        assert_totals(arrived.events("/results"), &totals(written.len()));
    }

    /// Checks that exactly these messages arrived for a path, each always under one id.
    pub fn check_messages(&self, path: &str, expected: &[String]) {
        let ids = self.arrived().ids(path);
        let expected: BTreeSet<&str> = expected.iter().map(String::as_str).collect();
        let expected: Vec<&str> = expected.into_iter().collect();
        let found: Vec<&String> = ids.keys().collect();
        assert!(found == expected, "{path}: {}", difference(&found, &expected));
        let changed = ids.iter().find(|(_, ids)| ids.len() > 1);
        assert_eq!(changed, None, "{path}: a message arrived under two ids");
    }

    /// Returns the id of each line at the sink `ids`, and checks that each line has one id, which
    /// consists of an id of the file and the offset of the line.
    fn check_ids(&self, written: &[Written]) -> HashMap<String, String> {
        let events = lines(&self.path().join("ids.json"));
        let parse = |line: &String| serde_json::from_str::<Value>(line).expect("a whole event");
        let mut ids = HashMap::new();
        for event in events.iter().map(parse) {
            let again = ids.insert(text(&event["message"]), id(&event));
            assert!(again.is_none(), "sink ids: {event} came again, after the id {again:?}");
        }
        let mut files: HashMap<usize, &str> = HashMap::new();
        for line in written {
            let id = ids.get(&line.text).unwrap_or_else(|| panic!("{:?} is lost", line.text));
            let (file, offset) = id.rsplit_once('-').expect("a file and an offset");
            assert_eq!(offset, line.offset.to_string(), "{:?} has the id {id}", line.text);
            let known = files.entry(line.generation).or_insert(file);
            assert_eq!(*known, file, "{:?} came under another file_id", line.text);
        }
        let different: BTreeSet<&&str> = files.values().collect();
        assert_eq!(different.len(), files.len(), "two files have the same file_id");
        ids
    }
}

/// Describes the first lines that are lost, unknown or repeated in a sorted list.
fn difference<T: AsRef<str>>(found: &[T], expected: &[&str]) -> String {
    let found_set: BTreeSet<&str> = found.iter().map(AsRef::as_ref).collect();
    let expected_set: BTreeSet<&str> = expected.iter().copied().collect();
    let first = |lines: Vec<&&str>| format!("{} ({:?})", lines.len(), lines.first());
    let lost = first(expected_set.difference(&found_set).collect());
    let unknown = first(found_set.difference(&expected_set).collect());
    let repeated = found.len() - found_set.len();
    format!("of {} lines: lost {lost}, unknown {unknown}, repeated {repeated}", expected.len())
}

/// Checks that the results, each once by its id, add up to the totals.
fn assert_totals(events: &[Value], expected: &Totals) {
    let mut results: BTreeMap<String, &Value> = BTreeMap::new();
    for event in events {
        let before = results.insert(id(event), event);
        assert!(before.is_none_or(|before| before == event), "{before:?} {event}");
    }
    let mut found = Totals::new();
    for event in results.values() {
        let name = text(&event["name"]);
        if COUNTERS.contains(&&*name) {
            let key = (name, text(&event["tags"]["service"]), text(&event["timestamp"]));
            *found.entry(key).or_default() += event["value"].as_u64().expect("a count");
        }
    }
    let keys: BTreeSet<_> = found.keys().chain(expected.keys()).collect();
    let differ = keys.into_iter().filter(|key| found.get(*key) != expected.get(*key));
    let differ: Vec<_> = differ.map(|key| (key, found.get(key), expected.get(key))).collect();
    assert!(differ.is_empty(), "{} results differ: {:?}", differ.len(), &differ[..1]);
}
