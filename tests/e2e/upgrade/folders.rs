//! Tests every folder of an earlier program: this build continues where that program ended.
//!
//! `tests/fixtures/upgrade/write` wrote the folders, whose names contain the release or the commit:
//! 1,000 lines of a log are delivered, results of their first hour wait, their second hour is open,
//! 500 lines of standard input are in a disk buffer, and deleted files are held. The log itself has
//! another inode and another path after it was unpacked, so it is continued as a rotated file.

use super::world::{Arrived, Endpoint};
use super::{READ, archives, fixture, log_lines, unpack};
use crate::support::{folder, lines, millstream};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

/// Total number of lines of the log.
const ALL: usize = 1500;

/// Runs the program in the folder until it has delivered everything.
fn run(dir: &Path) -> Arrived {
    let endpoint = Endpoint::start();
    let mut command = Command::new(millstream());
    command.args(["run", "-c", "millstream.yaml", "--until-eof"]).current_dir(dir);
    command.env("DIR", dir).env("PORT", endpoint.port().to_string()).stdin(Stdio::null());
    let output = command.output().unwrap();
    let log = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{log}");
    assert!(!log.contains(" ERROR "), "{log}");
    endpoint.arrived()
}

/// Writes a log as input of the program.
fn write_log(dir: &Path, lines: &str) {
    ["in", "temp"].iter().for_each(|name| fs::create_dir_all(dir.join(name)).unwrap());
    fs::write(dir.join("in/b.log"), lines).unwrap();
}

/// Returns the results of the rules as text, without metadata.
fn results(arrived: &Arrived) -> BTreeSet<String> {
    let without_meta = |event: &serde_json::Value| {
        let mut event = event.clone();
        event.as_object_mut().unwrap().remove("meta");
        event.to_string()
    };
    arrived.events("/results").iter().map(without_meta).collect()
}

/// Returns the results of an agent of this build that reads all lines from the start.
fn results_from_scratch() -> BTreeSet<String> {
    let dir = folder();
    fs::copy(fixture("millstream.yaml"), dir.path().join("millstream.yaml")).unwrap();
    write_log(dir.path(), &log_lines(0, ALL));
    results(&run(dir.path()))
}

/// Returns the lines of the files in the folder of held files, each with the count 1.
pub fn held_lines(dir: &Path) -> BTreeMap<String, usize> {
    let Ok(files) = fs::read_dir(dir.join("data/held/temp")) else { return BTreeMap::new() };
    files.flat_map(|file| lines(&file.unwrap().path())).map(|line| (line, 1)).collect()
}

/// Checks the events that arrive when this build continues in an old folder and reads the remaining
/// lines.
fn continues(name: &str, expected: &BTreeSet<String>) {
    let dir = unpack(name);
    let held = held_lines(dir.path());
    assert!(held.len() >= 200 || name.ends_with("-kill.tar.gz"), "{name}: {} held", held.len());
    let log = dir.path().join("in/a.log");
    if log.exists() {
        fs::rename(&log, dir.path().join("in/a.log.1")).unwrap();
    }
    write_log(dir.path(), &log_lines(READ, ALL));
    let arrived = run(dir.path());
    let piped: BTreeMap<_, _> = (1..=500).map(|number| (format!("piped {number}"), 1)).collect();
    assert_eq!(arrived.counts("/kept"), piped, "{name}");
    assert_eq!(arrived.counts("/late"), held, "{name}");
    assert_eq!(&results(&arrived), expected, "{name}");
    let expected = log_lines(0, ALL);
    assert_eq!(lines(&dir.path().join("lines.txt")).join("\n") + "\n", expected, "{name}");
    let spooled = arrived.counts("/spooled");
    assert!(spooled.is_empty() || spooled.len() == ALL, "{name}: {} lines", spooled.len());
    assert!(spooled.values().all(|count| *count == 1), "{name}: {spooled:?}");
}

#[test]
fn folders_of_earlier_programs_are_continued() {
    let expected = results_from_scratch();
    assert!(expected.len() > 90, "{} results", expected.len());
    let names = archives();
    for end in ["stop", "kill"] {
        let is_end = |name: &&String| name.ends_with(&format!("-{end}.tar.gz"));
        assert!(names.iter().filter(is_end).count() >= 2, "{names:?}");
    }
    std::thread::scope(|scope| {
        for name in &names {
            scope.spawn(|| continues(name, &expected));
        }
    });
}
