//! Tests `kill -9` under load: nothing is lost or torn, order is kept, and repeats have the same
//! ids.

use crate::support::{Agent, folder, lines, wait_until};
use millstream_testkit_random::{Seed, TestSize};
use std::collections::{HashMap, HashSet};
use std::fs::{self, File, OpenOptions};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

const FILES: usize = 50;

/// Number of lines in all files.
const LINES: TestSize = TestSize { gate: 200_000, long: 1_000_000 };
const KILLS: usize = 10;

/// Number of rotations of each file.
const ROTATIONS: usize = 4;

const CONFIG: &str = "
sources:
  app: { type: file, include: ['DIR/in/*.log*'] }
sinks:
  json: { type: file, inputs: [app], path: DIR/json.out, sync: 200ms, encoding: { metadata: [offset, id, file_id] } }
  text: { type: file, inputs: [app], path: DIR/text.out, sync: 300ms, encoding: { codec: text } }
";

fn line_count() -> usize {
    LINES.per_case() as usize
}

fn lines_per_file() -> usize {
    line_count() / FILES
}

/// A log file that is written through a buffer and rotated by renaming.
struct Log {
    path: PathBuf,
    out: BufWriter<File>,
    number: usize,
    rotations: usize,
}

impl Log {
    fn new(path: PathBuf) -> Log {
        Log { out: open(&path), path, number: 0, rotations: 0 }
    }

    /// Writes `count` lines. The buffer is flushed whenever it is full, usually in the middle of a
    /// line.
    fn write(&mut self, file: usize, count: usize) {
        for _ in 0..count {
            writeln!(self.out, "file {file:02} line {:06} and some words behind it", self.number)
                .unwrap();
            self.number += 1;
            if self.number.is_multiple_of(lines_per_file() / ROTATIONS) {
                self.out.flush().unwrap();
                self.rotations += 1;
                fs::rename(&self.path, format!("{}.{}", self.path.display(), self.rotations))
                    .unwrap();
                self.out = open(&self.path);
            }
        }
        self.out.flush().unwrap();
    }
}

fn open(path: &Path) -> BufWriter<File> {
    BufWriter::new(OpenOptions::new().create(true).append(true).open(path).unwrap())
}

/// Writes all lines into `FOLDER/in` with rotations, over about `time`.
pub fn write_load(folder: &Path, time: Duration, done: &AtomicBool) {
    let mut logs: Vec<Log> =
        (0..FILES).map(|i| Log::new(folder.join(format!("in/{i:02}.log")))).collect();
    let per_file = lines_per_file();
    let begun = Instant::now();
    let mut written = 0;
    while written < per_file {
        let step = (per_file / 400).min(per_file - written);
        logs.iter_mut().enumerate().for_each(|(i, log)| log.write(i, step));
        written += step;
        let due = time.mul_f64(written as f64 / per_file as f64);
        std::thread::sleep(due.saturating_sub(begun.elapsed()));
    }
    done.store(true, Ordering::SeqCst);
}

/// Number of rounds, each with all kills.
const ROUNDS: TestSize = TestSize { gate: 1, long: 10 };

#[test]
fn lines_survive_rotation_and_ten_kills() {
    Seed::of_test().cases(ROUNDS).for_each(survive_kills);
}

fn survive_kills(seed: u64) {
    let dir = folder();
    fs::create_dir(dir.path().join("in")).unwrap();
    let done = Arc::new(AtomicBool::new(false));
    let (path, flag) = (dir.path().to_path_buf(), done.clone());
    let writer = std::thread::spawn(move || write_load(&path, Duration::from_secs(12), &flag));
    let mut random = fastrand::Rng::with_seed(seed);
    for _ in 0..KILLS {
        let mut agent = Agent::start(dir.path(), CONFIG, &[]);
        std::thread::sleep(Duration::from_millis(300 + random.u64(..1400)));
        agent.kill();
    }
    writer.join().unwrap();
    let mut agent = Agent::start(dir.path(), CONFIG, &["--until-eof"]);
    let status = agent.wait(Duration::from_secs(120));
    assert_eq!(status.code(), Some(0), "{}", agent.log());
    check_text(&lines(&dir.path().join("text.out")));
    check_json(lines(&dir.path().join("json.out")).iter().map(String::as_bytes));
}

fn parse(line: &str) -> (usize, usize) {
    let whole = line.len() == 44
        && line.starts_with("file ")
        && line.ends_with(" and some words behind it");
    assert!(whole, "torn: {line:?}");
    (line[5..7].parse().unwrap(), line[13..19].parse().unwrap())
}

fn check_text(lines: &[String]) {
    let mut seen = vec![false; line_count()];
    for line in lines {
        let (file, number) = parse(line);
        seen[file * lines_per_file() + number] = true;
    }
    let lost = seen.iter().filter(|seen| !**seen).count();
    assert_eq!(lost, 0, "lost of {}; {} lines in all", seen.len(), lines.len());
}

/// Checks JSON events in order of arrival. Every line arrived, and its repeats have the same id.
/// Different lines have different ids, so that deduplication leaves each line once. The first
/// arrivals of each file are in order.
pub fn check_json<'e>(events: impl Iterator<Item = &'e [u8]>) {
    let mut ids: HashMap<(usize, usize), String> = HashMap::new();
    let mut last: HashMap<String, u64> = HashMap::new();
    for line in events {
        let event: serde_json::Value = serde_json::from_slice(line)
            .unwrap_or_else(|e| panic!("torn: {:?}: {e}", String::from_utf8_lossy(line)));
        let text = |value: &serde_json::Value| value.as_str().unwrap_or_default().to_owned();
        let (key, id) = (parse(event["message"].as_str().unwrap()), text(&event["meta"]["id"]));
        let (file_id, offset) =
            (text(&event["meta"]["file_id"]), event["meta"]["offset"].as_u64().unwrap());
        assert_eq!(id, format!("{file_id}-{offset}"));
        if let Some(before) = ids.get(&key) {
            assert_eq!(*before, id, "line {key:?} came again under another id");
            continue;
        }
        ids.insert(key, id);
        let before = last.insert(file_id, offset);
        assert!(before.is_none_or(|before| before < offset), "line {key:?} is out of order");
    }
    assert_eq!(ids.len(), line_count(), "lost");
    let different: HashSet<&String> = ids.values().collect();
    assert_eq!(different.len(), line_count(), "two lines have the same id");
}

#[test]
fn a_clean_restart_repeats_nothing_and_resumes() {
    let dir = folder();
    let (input, output) = (dir.path().join("a.log"), dir.path().join("out"));
    let config = "
sources: { app: { type: file, include: ['DIR/a.log'] } }
sinks: { out: { type: file, inputs: [app], path: DIR/out, encoding: { codec: text } } }
";
    fs::write(&input, "1\n2\nunfin").unwrap();
    let mut agent = Agent::start(dir.path(), config, &[]);
    wait_until("two lines", Duration::from_secs(60), || lines(&output).len() == 2);
    assert_eq!(agent.stop().code(), Some(0));
    OpenOptions::new().append(true).open(&input).unwrap().write_all(b"ished\n4\n").unwrap();
    let mut agent = Agent::start(dir.path(), config, &["--until-eof"]);
    assert_eq!(agent.wait(Duration::from_secs(60)).code(), Some(0));
    assert_eq!(lines(&output), ["1", "2", "unfinished", "4"]);
}
