//! The application that writes the log.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering::Relaxed};
use std::thread::{self, JoinHandle};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Time between two writes.
const TICK: Duration = Duration::from_millis(100);

/// The kind of lines that are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Lines {
    Normal,
    /// No lines.
    None,
    /// Lines with a timestamp 200 s in the past.
    Late,
    /// Lines with a timestamp 100 s in the future.
    Ahead,
    /// Lines with a timestamp two hours in the past.
    OtherZone,
    /// Lines of which every other one is 30 s older than the newest.
    Disordered,
    /// Lines without a timestamp.
    Timeless,
    /// Lines in Latin-1.
    Latin1,
    /// Lines of 5 KB.
    Long,
    /// Lines that continue an event.
    Continuing,
    /// Lines that are expensive for a regular expression.
    Costly,
    /// Lines with the word at which an operator hangs.
    Stuck,
    /// Lines of which one in a hundred is odd in some way.
    FewOdd,
}

impl Lines {
    const ALL: [Lines; 13] = [
        Lines::Normal,
        Lines::None,
        Lines::Late,
        Lines::Ahead,
        Lines::OtherZone,
        Lines::Disordered,
        Lines::Timeless,
        Lines::Latin1,
        Lines::Long,
        Lines::Continuing,
        Lines::Costly,
        Lines::Stuck,
        Lines::FewOdd,
    ];
}

/// State that the injecting thread changes.
#[derive(Default)]
struct Shared {
    lines: AtomicU8,
    per_tick: AtomicU64,
    is_ending: AtomicBool,
    path: parking_lot::Mutex<PathBuf>,
}

/// A thread that writes lines.
pub struct Writer {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

impl Writer {
    /// Starts to write `per_tick` lines ten times a second.
    pub fn start(path: &Path, per_tick: u64) -> Writer {
        let shared = Arc::new(Shared::default());
        shared.per_tick.store(per_tick, Relaxed);
        *shared.path.lock() = path.to_owned();
        let of_thread = shared.clone();
        Writer { shared, thread: Some(thread::spawn(move || of_thread.run())) }
    }

    /// Sets the kind of lines.
    pub fn lines(&self, lines: Lines) {
        self.shared.lines.store(lines as u8, Relaxed);
    }

    /// Continues with lines of this kind in another file.
    pub fn to(&self, path: &Path, lines: Lines) {
        path.clone_into(&mut *self.shared.path.lock());
        self.lines(lines);
    }

    /// Sets the number of lines that are written ten times a second.
    pub fn per_tick(&self, lines: u64) {
        self.shared.per_tick.store(lines, Relaxed);
    }

    /// Writes `lines` normal lines at once.
    pub fn burst(&self, lines: u64) {
        self.shared.append(&text(Lines::Normal, 0..lines));
    }

    /// Writes bytes.
    pub fn append(&self, bytes: &[u8]) {
        self.shared.append(bytes);
    }

    /// Returns the path of the file.
    pub fn path(&self) -> PathBuf {
        self.shared.path.lock().clone()
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.shared.is_ending.store(true, Relaxed);
        drop(self.thread.take().map(JoinHandle::join));
    }
}

impl Shared {
    fn run(&self) {
        let mut number = 0;
        while !self.is_ending.load(Relaxed) {
            let lines = Lines::ALL[usize::from(self.lines.load(Relaxed))];
            let count = self.per_tick.load(Relaxed);
            if lines != Lines::None && count > 0 {
                self.append(&text(lines, number..number + count));
                number += count;
            }
            thread::sleep(TICK);
        }
    }

    fn append(&self, bytes: &[u8]) {
        let path = self.path.lock();
        let file: File =
            OpenOptions::new().create(true).append(true).open(&*path).expect("the log file");
        (&file).write_all(bytes).expect("room for the log");
    }
}

/// Returns the lines with these numbers.
fn text(lines: Lines, numbers: std::ops::Range<u64>) -> Vec<u8> {
    let mut out = Vec::new();
    for number in numbers {
        push(&mut out, odd(lines, number), number);
        out.push(b'\n');
    }
    out
}

/// Returns the kind of a line. A few lines are odd.
fn odd(lines: Lines, number: u64) -> Lines {
    match (lines, number % 100) {
        (Lines::FewOdd, 7) => [Lines::Timeless, Lines::Latin1][(number / 100 % 2) as usize],
        (Lines::FewOdd, _) => Lines::Normal,
        (lines, _) => lines,
    }
}

fn push(out: &mut Vec<u8>, lines: Lines, number: u64) {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis() as u64;
    let time = match lines {
        Lines::Late => now - 200_000,
        Lines::Ahead => now + 100_000,
        Lines::OtherZone => now - 7_200_000,
        Lines::Disordered if number % 2 == 1 => now - 30_000,
        _ => now,
    };
    let text = match lines {
        Lines::Timeless => format!("no time in line {number}"),
        Lines::Continuing => format!("  continues line {number}"),
        Lines::Long => format!("{time} INFO line {number} {}", "x".repeat(5000)),
        Lines::Costly => format!("{time} INFO {number} \u{e9} {}", "ab ".repeat(266)),
        Lines::Stuck => format!("{time} INFO stuck at line {number}"),
        _ => format!("{time} INFO request {number} took 12 ms"),
    };
    out.extend_from_slice(text.as_bytes());
    if lines == Lines::Latin1 {
        out.extend_from_slice(b" caf\xe9");
    }
}
