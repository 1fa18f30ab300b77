//! Tests data directories of an earlier release: the program continues where that release ended.
//!
//! `tests/fixtures/upgrade/write` wrote the folders, whose names contain the release: 1,000 lines
//! of a log are delivered, results of their first hour wait, their second hour is open, 500 lines
//! of standard input are in a disk buffer, and a stopped agent holds 200 lines of a deleted file.
//! The log itself is omitted, because an unpacked file has another inode and is a new file.

use crate::support::{folder, lines, millstream};
use flate2::read::GzDecoder;
use millstream_testkit_servers::http::{HttpServer, ReceivedRequest, Reply};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use tempfile::TempDir;

/// Number of lines that the earlier release has read, and the total number of lines.
const READ: usize = 1000;
const ALL: usize = 1500;

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/upgrade").join(name)
}

/// Returns the lines `from` to `to` of the log.
fn log_lines(from: usize, to: usize) -> Vec<u8> {
    let mut command = Command::new(fixture("lines"));
    let output = command.args([from.to_string(), to.to_string()]).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    output.stdout
}

/// Requests that arrived at the endpoint.
struct Arrived(Vec<ReceivedRequest>);

impl Arrived {
    /// Returns the events for a path, without metadata.
    fn events(&self, path: &str) -> Vec<Value> {
        let requests = self.0.iter().filter(|request| request.path == path);
        let lines = requests
            .flat_map(|request| request.text().lines().map(str::to_owned).collect::<Vec<_>>());
        let event = |line: String| {
            let mut event: Value = serde_json::from_str(&line).unwrap();
            event.as_object_mut().unwrap().remove("meta");
            event
        };
        lines.map(event).collect()
    }

    fn messages(&self, path: &str) -> BTreeMap<String, usize> {
        let mut messages = BTreeMap::new();
        for event in self.events(path) {
            *messages.entry(event["message"].as_str().unwrap().to_owned()).or_default() += 1;
        }
        messages
    }

    /// Returns the results of the rules as text.
    fn results(&self) -> BTreeSet<String> {
        self.events("/results").iter().map(Value::to_string).collect()
    }
}

/// Runs the program in the folder until it has delivered everything.
fn run(dir: &Path) -> Arrived {
    let endpoint = HttpServer::start(|_| Reply::status(200));
    let mut command = Command::new(millstream());
    command.args(["run", "-c", "millstream.yaml", "--until-eof"]).current_dir(dir);
    command.env("DIR", dir).env("PORT", endpoint.port.to_string()).stdin(Stdio::null());
    let output = command.output().unwrap();
    let log = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{log}");
    assert!(!log.contains(" ERROR "), "{log}");
    Arrived(endpoint.requests())
}

/// Writes a log as input of the program.
fn write_log(dir: &Path, lines: &[u8]) {
    ["in", "temp"].iter().for_each(|name| fs::create_dir(dir.join(name)).unwrap());
    fs::write(dir.join("in/b.log"), lines).unwrap();
}

/// Returns the requests of an agent of this build that reads all lines from the start.
fn from_scratch() -> Arrived {
    let dir = folder();
    fs::copy(fixture("millstream.yaml"), dir.path().join("millstream.yaml")).unwrap();
    write_log(dir.path(), &log_lines(0, ALL));
    run(dir.path())
}

fn unpack(name: &str) -> TempDir {
    let dir = folder();
    let archive = GzDecoder::new(File::open(fixture(name)).unwrap());
    tar::Archive::new(archive).unpack(dir.path()).unwrap();
    dir
}

/// Checks the events that arrive when this build continues in an old folder and reads the remaining
/// lines. The old release left `held` lines of a deleted file undelivered.
fn continues(name: &str, held: usize) {
    let dir = unpack(name);
    write_log(dir.path(), &log_lines(READ, ALL));
    let arrived = run(dir.path());
    let numbered = |prefix: &str, count: usize| -> BTreeMap<String, usize> {
        (1..=count).map(|number| (format!("{prefix} {number}"), 1)).collect()
    };
    assert_eq!(arrived.messages("/kept"), numbered("piped", 500));
    assert_eq!(arrived.messages("/late"), numbered("temp", held));
    let results = arrived.results();
    assert!(results.len() > 90, "{} results", results.len());
    assert_eq!(results, from_scratch().results());
    let expected = String::from_utf8(log_lines(0, ALL)).unwrap();
    assert_eq!(lines(&dir.path().join("lines.txt")).join("\n") + "\n", expected);
}

#[test]
fn a_folder_of_0_1_0_that_was_stopped_is_continued() {
    continues("0.1.0-stop.tar.gz", 200);
}

#[test]
fn a_folder_of_0_1_0_that_was_killed_is_continued() {
    continues("0.1.0-kill.tar.gz", 0);
}
