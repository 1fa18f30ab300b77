//! Tests files that logrotate(8) rotates with its usual options while they are written.

use super::{PATIENCE, assert_every_line_once, config, finish, line};
use crate::support::{Agent, folder, wait_until};
use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

const ROTATIONS: usize = 8;

/// Number of the rotation during which the agent is down.
const AWAY_AT: usize = 4;

/// An application that writes a hundred times a second. Before each write, it reopens its log if
/// the name leads to another file. It holds the lock while it writes.
struct Writer {
    lock: Arc<Mutex<()>>,
    done: Arc<AtomicBool>,
    thread: JoinHandle<usize>,
}

impl Writer {
    fn start(path: PathBuf) -> Writer {
        let (lock, done) = (Arc::new(Mutex::new(())), Arc::new(AtomicBool::new(false)));
        let (held, ended) = (lock.clone(), done.clone());
        let thread = std::thread::spawn(move || {
            let (mut file, mut number) = (open(&path), 0);
            while !ended.load(Ordering::SeqCst) {
                let guard = held.lock().unwrap();
                if fs::metadata(&path)
                    .is_ok_and(|meta| meta.ino() != file.metadata().unwrap().ino())
                {
                    file = open(&path);
                }
                let text: String =
                    (number..number + 100).map(|number| line(number) + "\n").collect();
                file.write_all(text.as_bytes()).unwrap();
                number += 100;
                drop(guard);
                std::thread::sleep(Duration::from_millis(10));
            }
            number
        });
        Writer { lock, done, thread }
    }

    /// Pauses the writes until the guard is dropped.
    fn pause(&self) -> MutexGuard<'_, ()> {
        self.lock.lock().unwrap()
    }

    /// Stops the writer; returns the total number of lines.
    fn end(self) -> usize {
        self.done.store(true, Ordering::SeqCst);
        self.thread.join().unwrap()
    }
}

fn open(path: &Path) -> File {
    OpenOptions::new().create(true).append(true).open(path).unwrap()
}

/// Rotates all files now.
fn rotate(dir: &Path) {
    let mut command = Command::new("/usr/sbin/logrotate");
    command.args(["--force", "--state"]).arg(dir.join("state")).arg(dir.join("rotate.conf"));
    let output = command.output().expect("logrotate runs; scripts/servers installs it");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// Waits until the agent has delivered the first line of the log. From the name alone, the agent
/// cannot find a file that was created and compressed before the agent got CPU time, or a file that
/// was renamed while the agent was down.
fn wait_until_seen(dir: &Path) {
    let begun = Instant::now();
    let is_seen = || {
        let log = fs::read_to_string(dir.join("in/app.log")).unwrap();
        let first = log.lines().next()?;
        let out = fs::read_to_string(dir.join("out.json")).unwrap_or_default();
        out.contains(first).then_some(())
    };
    while is_seen().is_none() {
        assert!(begun.elapsed() < PATIENCE, "the agent does not see a new file");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Waits until the agent has delivered the last line of a log. The log must not be written to at
/// the same time.
fn wait_until_read(dir: &Path) {
    let log = fs::read_to_string(dir.join("in/app.log")).unwrap();
    let Some(last) = log.lines().last() else { return };
    wait_until("the log is read", PATIENCE, || {
        fs::read_to_string(dir.join("out.json")).unwrap_or_default().contains(last)
    });
}

/// How gently the test treats the agent.
#[derive(PartialEq, Eq)]
enum Care {
    /// Rotates immediately, and kills the agent before one rotation.
    None,
    /// Waits before each rotation until all lines are read, and stops the agent instead of killing
    /// it.
    Read,
}

/// Rotates a log with `options` while it is written; the agent is down during one rotation.
fn run(include: &str, options: &str, care: Care) {
    let dir = folder();
    fs::create_dir(dir.path().join("in")).unwrap();
    let log = dir.path().join("in/app.log");
    let conf = format!("{} {{\n  rotate 100\n  {options}\n}}\n", log.display());
    fs::write(dir.path().join("rotate.conf"), conf).unwrap();
    let copies = options.contains("copytruncate");
    let config = config(include);
    let writer = Writer::start(log);
    let mut agent = Agent::start(dir.path(), &config, &[]);
    // A name that contains the time is unique again after a second.
    let between = Duration::from_millis(if options.contains("%s") { 1050 } else { 200 });
    for turn in 0..ROTATIONS {
        std::thread::sleep(between);
        // The agent finds a file that was renamed before the agent saw it, but not the first file,
        // a compressed file, or a file that was renamed while the agent was down.
        let is_needed = turn == 0 || turn == AWAY_AT || options.contains("compress");
        if include == LIVE && care == Care::None && is_needed {
            wait_until_seen(dir.path());
        }
        // Pause the writer, because every reader loses lines that are written between the copy and
        // the truncation.
        let pause = copies.then(|| writer.pause());
        if care == Care::Read {
            wait_until_read(dir.path());
            std::thread::sleep(Duration::from_millis(500));
        }
        match turn == AWAY_AT {
            true if care == Care::Read => {
                assert_eq!(agent.stop().code(), Some(0), "{}", agent.log())
            }
            true => agent.kill(),
            false => {}
        }
        rotate(dir.path());
        drop(pause);
        if turn == AWAY_AT {
            agent = Agent::start(dir.path(), &config, &[]);
        }
    }
    let count = writer.end();
    assert_eq!(agent.stop().code(), Some(0), "{}", agent.log());
    finish(dir.path(), &config);
    assert!(count > ROTATIONS * 100, "the writer writes");
    assert_every_line_once(dir.path(), count);
}

/// Pattern that also matches rotated files.
const ALL: &str = "['DIR/in/app.log*']";

/// Pattern that matches only the file being written.
const LIVE: &str = "['DIR/in/app.log']";

#[test]
fn create() {
    run(ALL, "create", Care::None);
    run(LIVE, "create", Care::None);
}

#[test]
fn create_with_dates() {
    run(ALL, "create\n  dateext\n  dateformat -%Y%m%d-%s", Care::None);
}

#[test]
fn create_and_compress_with_rotated_names_matched() {
    run(ALL, "create\n  compress", Care::None);
}

#[test]
fn create_and_compress_with_rotated_names_not_matched() {
    run(LIVE, "create\n  compress", Care::None);
}

#[test]
fn create_and_compress_the_time_after_with_rotated_names_matched() {
    run(ALL, "create\n  compress\n  delaycompress", Care::None);
}

#[test]
fn create_and_compress_the_time_after_with_rotated_names_not_matched() {
    run(LIVE, "create\n  compress\n  delaycompress", Care::None);
}

#[test]
fn copytruncate_with_copies_matched() {
    run(ALL, "copytruncate", Care::None);
}

#[test]
fn copytruncate_with_copies_not_matched_of_what_is_read() {
    run(LIVE, "copytruncate", Care::Read);
}

#[test]
fn copytruncate_and_compress_with_copies_matched() {
    run(ALL, "copytruncate\n  compress", Care::None);
}

#[test]
fn copytruncate_and_compress_the_time_after_with_copies_matched() {
    run(ALL, "copytruncate\n  compress\n  delaycompress", Care::None);
}

/// A file is rotated twice before the agent sees it; then a new file stays in place.
#[test]
fn files_created_and_renamed_while_the_agent_is_stopped() {
    let dir = folder();
    fs::create_dir(dir.path().join("in")).unwrap();
    let log = dir.path().join("in/app.log");
    let rotated = |turn: usize| dir.path().join(format!("in/app.log.{turn}"));
    let config = config(LIVE);
    let mut count = 0;
    let mut write = || {
        let text: String = (count..count + 50).map(|number| line(number) + "\n").collect();
        open(&log).write_all(text.as_bytes()).unwrap();
        count += 50;
    };
    write();
    let mut agent = Agent::start(dir.path(), &config, &[]);
    wait_until_seen(dir.path());
    for _ in 0..3 {
        agent.send(rustix::process::Signal::STOP);
        for _ in 0..2 {
            (1..10).rev().filter(|turn| rotated(*turn).exists()).for_each(|turn| {
                fs::rename(rotated(turn), rotated(turn + 1)).unwrap();
            });
            fs::rename(&log, rotated(1)).unwrap();
            write();
        }
        agent.send(rustix::process::Signal::CONT);
        wait_until_seen(dir.path());
    }
    assert_eq!(agent.stop().code(), Some(0), "{}", agent.log());
    finish(dir.path(), &config);
    assert_every_line_once(dir.path(), count);
}
