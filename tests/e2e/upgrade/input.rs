//! The log that the tests under load write and rotate, and the results that follow from its lines.

use super::{READ, log_lines};
use crate::e2e::rules::iso8601;
use fastrand::Rng;
use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Time of the first line: 2026-01-01, in seconds since 1970.
const BEGIN_UNIX_S: i64 = 1_767_225_600;

/// Seconds of log time between two lines.
const STEP_S: usize = 5;

/// Number of lines in a window of the rules, which is an hour.
const WINDOW_LINES: usize = 3600 / STEP_S;

/// Returns a line of the log, as the script of the fixtures writes it.
fn line(number: usize) -> String {
    let time = iso8601(BEGIN_UNIX_S + (STEP_S * number) as i64);
    let service = number % 3;
    let user = number * 7 % 50;
    let size = number * 31 % 1000;
    let code = [200, 200, 404, 500, 503][number % 11 % 5];
    format!("{time} service=s{service} user=u{user} size={size} code={code}\n")
}

/// A line that was written to the log.
pub struct Written {
    /// The text without line ending.
    pub text: String,
    /// Index of the file that contains the line, in the order of their creation.
    pub generation: usize,
    /// Offset of the line in this file.
    pub offset: u64,
}

/// The writer of `in/a.log`, which rotates the log by renaming.
pub struct Log {
    path: PathBuf,
    file: File,
    random: Rng,
    /// Size of the current file in bytes.
    bytes: u64,
    generation: usize,
    written: Vec<Written>,
}

impl Log {
    /// Creates the log in a folder, or continues the log that an earlier program has read.
    pub fn new(folder: &Path, seed: u64) -> Log {
        let path = folder.join("in/a.log");
        fs::create_dir_all(folder.join("in")).unwrap();
        let old = fs::read_to_string(&path).unwrap_or_default();
        assert!(old.is_empty() || old == log_lines(0, READ), "{}", path.display());
        let random = Rng::with_seed(seed);
        let file = open(&path);
        let written = Vec::new();
        let mut log = Log { path, file, random, bytes: 0, generation: 0, written };
        (0..old.lines().count()).for_each(|_| drop(log.add()));
        log
    }

    /// Adds the next line to the list of lines; returns its bytes.
    fn add(&mut self) -> String {
        let line = line(self.written.len());
        let text = line.trim_end().to_owned();
        let (generation, offset) = (self.generation, self.bytes);
        self.written.push(Written { text, generation, offset });
        self.bytes += line.len() as u64;
        line
    }

    /// Appends lines to the current file.
    pub fn write(&mut self, lines: usize) {
        let text: String = (0..lines).map(|_| self.add()).collect();
        self.file.write_all(text.as_bytes()).unwrap();
    }

    fn rotated(&self, number: usize) -> PathBuf {
        PathBuf::from(format!("{}.{number}", self.path.display()))
    }

    /// Renames all files, writes a few more lines to the renamed log, and creates a new log.
    pub fn rotate(&mut self) {
        for number in (1..=self.generation).rev() {
            fs::rename(self.rotated(number), self.rotated(number + 1)).unwrap();
        }
        fs::rename(&self.path, self.rotated(1)).unwrap();
        let late = self.random.usize(1..100);
        self.write(late);
        self.file = open(&self.path);
        self.generation += 1;
        self.bytes = 0;
    }

    /// Writes and rotates until `stop`; returns all lines.
    pub fn run(mut self, stop: &AtomicBool) -> Vec<Written> {
        while !stop.load(Ordering::Relaxed) {
            let rotation = Instant::now() + Duration::from_millis(self.random.u64(300..1500));
            while Instant::now() < rotation && !stop.load(Ordering::Relaxed) {
                let lines = self.random.usize(1..60);
                self.write(lines);
                std::thread::sleep(Duration::from_millis(10));
            }
            self.rotate();
        }
        self.write(10);
        self.written
    }
}

fn open(path: &Path) -> File {
    OpenOptions::new().create(true).append(true).open(path).unwrap()
}

/// Number of lines in a small log.
const SMALL_LINES: usize = 50;

/// Small logs in `temp`, which are rotated, and deleted while the agent holds them by a link.
pub struct SmallLogs {
    folder: PathBuf,
    count: usize,
    /// Number of logs that were deleted while they had a link.
    pub deleted: usize,
}

impl SmallLogs {
    /// Takes the folder with the folder `temp`.
    pub fn new(folder: &Path) -> SmallLogs {
        SmallLogs { folder: folder.join("temp"), count: 0, deleted: 0 }
    }

    fn line(log: usize, number: usize) -> String {
        format!("small log {log} line {number}")
    }

    fn path(&self, log: usize, ending: &str) -> PathBuf {
        self.folder.join(format!("{log}.log{ending}"))
    }

    /// Writes another log, rotates the log before the last, and deletes the rotated logs with a link.
    pub fn step(&mut self) {
        let lines = (0..SMALL_LINES).map(|number| SmallLogs::line(self.count, number) + "\n");
        fs::write(self.path(self.count, ""), lines.collect::<String>()).unwrap();
        self.count += 1;
        if let Some(log) = self.count.checked_sub(3) {
            fs::rename(self.path(log, ""), self.path(log, ".1")).unwrap();
        }
        for log in 0..self.count {
            let rotated = self.path(log, ".1");
            if fs::metadata(&rotated).is_ok_and(|metadata| metadata.nlink() > 1) {
                fs::remove_file(rotated).unwrap();
                self.deleted += 1;
            }
        }
    }

    /// Returns the lines of all logs.
    pub fn lines(&self) -> Vec<String> {
        let of_log = |log| (0..SMALL_LINES).map(move |number| SmallLogs::line(log, number));
        (0..self.count).flat_map(of_log).collect()
    }
}

/// Results that add up over late lines: the number of lines, and the sum of their sizes.
pub const COUNTERS: [&str; 2] = ["orders.n", "orders.total"];

/// Sums by the name of the result, the service, and the end of the window.
pub type Totals = BTreeMap<(String, String, String), u64>;

/// Returns the totals that follow from the first `lines` lines.
pub fn totals(lines: usize) -> Totals {
    let mut totals = Totals::new();
    for number in 0..lines {
        let end_s = (number / WINDOW_LINES + 1) * 3600;
        let time = iso8601(BEGIN_UNIX_S + end_s as i64).replace('Z', ".000Z");
        let service = format!("s{}", number % 3);
        let mut add = |name: &str, value: usize| {
            let key = (name.to_owned(), service.clone(), time.clone());
            *totals.entry(key).or_default() += value as u64;
        };
        add(COUNTERS[0], 1);
        add(COUNTERS[1], number * 31 % 1000);
    }
    totals
}

#[test]
fn lines_are_those_of_the_script() {
    assert_eq!((0..3000).map(line).collect::<String>(), log_lines(0, 3000));
}
