//! Tests the file sink with many files: names from events, rotation and compression under
//! `kill -9`.

use crate::support::{Agent, folder, lines, wait_until};
use millstream_testkit_random::{Seed, TestSize};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(120);
const LINES: usize = 200_000;
const KILLS: usize = 8;

/// Writes numbered lines for about eight seconds.
fn write_load(path: PathBuf, done: &AtomicBool) {
    let mut out = BufWriter::new(File::create(path).unwrap());
    for number in 0..LINES {
        writeln!(out, "line {number:06} and some words behind it").unwrap();
        if number % (LINES / 400) == 0 {
            out.flush().unwrap();
            std::thread::sleep(Duration::from_millis(20));
        }
    }
    out.flush().unwrap();
    done.store(true, Ordering::SeqCst);
}

/// Lists the files of a folder by name.
fn files(dir: &Path) -> Vec<PathBuf> {
    let mut all: Vec<PathBuf> =
        fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()).collect();
    all.sort();
    all
}

/// Returns the content of a file that the standard tool must be able to decompress.
fn decompressed(path: &Path) -> String {
    let gzip = path.extension().is_some_and(|extension| extension == "gz");
    if gzip {
        let output = Command::new("gzip").arg("-dc").arg(path).output().unwrap();
        assert!(
            output.status.success(),
            "{}: {}",
            path.display(),
            String::from_utf8_lossy(&output.stderr)
        );
        return String::from_utf8(output.stdout).unwrap();
    }
    fs::read_to_string(path).unwrap()
}

/// Number of rounds, each with all kills.
const ROUNDS: TestSize = TestSize { gate: 1, long: 10 };

#[test]
fn rotated_and_compressed_files_have_every_line_once_after_kills() {
    Seed::of_test().cases(ROUNDS).for_each(survive_kills);
}

fn survive_kills(seed: u64) {
    let dir = folder();
    let config = "
sources: { app: { type: file, include: ['DIR/a.log'] } }
sinks:
  gzip:
    type: file
    inputs: [app]
    path: DIR/gzip/out.log.gz
    compression: gzip
    rotate: { size: 50KiB, every: 1s }
    sync: 150ms
    encoding: { codec: text }
  plain:
    type: file
    inputs: [app]
    path: 'DIR/plain/{{ source }}/out.log'
    rotate: { size: 500KiB }
    sync: 100ms
    encoding: { codec: text }
";
    let done = Arc::new(AtomicBool::new(false));
    let (path, flag) = (dir.path().join("a.log"), done.clone());
    let writer = std::thread::spawn(move || write_load(path, &flag));
    let mut random = fastrand::Rng::with_seed(seed);
    for _ in 0..KILLS {
        let mut agent = Agent::start(dir.path(), config, &[]);
        std::thread::sleep(Duration::from_millis(200 + random.u64(..1000)));
        agent.kill();
    }
    writer.join().unwrap();
    let mut agent = Agent::start(dir.path(), config, &["--until-eof"]);
    assert_eq!(agent.wait(LIMIT).code(), Some(0), "{}", agent.log());
    for folder in ["gzip", "plain/app"] {
        let (files, mut next) = (files(&dir.path().join(folder)), 0);
        assert!(files.len() > 5, "{files:?}");
        // The rotated files by name, then the current file, contain the lines in order.
        let (current, rotated): (Vec<_>, Vec<_>) = files
            .iter()
            .partition(|path| path.file_name().unwrap().to_string_lossy().starts_with("out.log"));
        for path in rotated.into_iter().chain(current) {
            for line in decompressed(path).lines() {
                assert_eq!(
                    line,
                    format!("line {next:06} and some words behind it"),
                    "{}",
                    path.display()
                );
                next += 1;
            }
        }
        assert_eq!(next, LINES, "{folder}");
    }
}

#[test]
fn hostile_and_many_names_stay_in_their_folder() {
    let dir = folder();
    let hostile =
        ["../../../etc/passwd", "/abs", "a/../b", ".", "..", "", "nul\0nul", "%2F", "\u{1}"];
    let long = "x".repeat(10_000);
    let numbers: Vec<String> = (0..100_000).map(|number| format!("{number}")).collect();
    let all = hostile.iter().copied().chain([&*long]).chain(numbers.iter().map(String::as_str));
    let input: String = all.map(|text| format!("{text}\n")).collect();
    fs::write(dir.path().join("a.log"), &input).unwrap();
    let config = "
sources: { app: { type: file, include: ['DIR/a.log'] } }
sinks: { out: { type: file, inputs: [app], path: 'DIR/out/{{ message }}.txt', open_files_max: 50, encoding: { codec: text } } }
";
    let mut agent = Agent::start(dir.path(), config, &["--until-eof"]);
    assert_eq!(agent.wait(LIMIT).code(), Some(0), "{}", agent.log());
    let files = files(&dir.path().join("out"));
    assert_eq!(files.len(), hostile.len() + 1 + numbers.len());
    let mut found: Vec<String> =
        files.iter().map(|path| fs::read_to_string(path).unwrap()).collect();
    let mut expected: Vec<String> = input.split_inclusive('\n').map(str::to_owned).collect();
    found.sort();
    expected.sort();
    assert!(found == expected);
    let mut names: Vec<String> = fs::read_dir(dir.path())
        .unwrap()
        .map(|e| e.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    assert_eq!(names, ["a.log", "agent.log", "data", "millstream.yaml", "out"]);
}

/// A restart truncates all files of a killed agent, whether they were open or not.
#[test]
fn many_files_are_truncated_after_a_kill() {
    let dir = folder();
    let config = "
sources: { app: { type: file, include: ['DIR/a.log'] } }
sinks:
  out: { type: file, inputs: [app], path: 'DIR/out/{{ message }}', open_files_max: 3, sync: 1h, encoding: { codec: text } }
";
    let input: String = (0..20_000).map(|number| format!("{}\n", number % 10)).collect();
    fs::write(dir.path().join("a.log"), &input).unwrap();
    let count = || -> usize {
        if !dir.path().join("out").exists() {
            return 0;
        }
        files(&dir.path().join("out")).iter().map(|path| lines(path).len()).sum()
    };
    let mut agent = Agent::start(dir.path(), config, &[]);
    wait_until("output that is not settled", LIMIT, || count() == 20_000);
    agent.kill();
    let mut agent = Agent::start(dir.path(), config, &["--until-eof"]);
    assert_eq!(agent.wait(LIMIT).code(), Some(0), "{}", agent.log());
    let found: BTreeMap<String, usize> = files(&dir.path().join("out"))
        .iter()
        .map(|path| (path.file_name().unwrap().to_string_lossy().into_owned(), lines(path).len()))
        .collect();
    assert_eq!(found, (0..10).map(|n| (n.to_string(), 2000)).collect());
}
