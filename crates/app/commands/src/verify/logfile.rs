//! A log file that is written and rotated like the log file of an application.

use super::lines::Lines;
use super::rotation::Rotation;
use crate::random::{Random, mix};
use crate::time::date;
use flate2::{Compression, write::GzEncoder};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Maximum bytes per write.
const WRITE_BYTES: usize = 64 * 1024;

/// One in this many lines is written in pieces, with pauses between them.
const PIECES_ONE_IN: u64 = 400;

/// Longest pause between two pieces, in milliseconds.
const PIECE_PAUSE_MS_MAX: u64 = 20;

/// Longest time that an application keeps writing to a renamed file, in milliseconds.
const LINGER_MS_MAX: u64 = 200;

/// Interval between two marks within a file.
const MARK_EVERY: Duration = Duration::from_secs(1);

/// Place and time of a written line. A mark also covers the lines up to the next mark.
#[derive(Clone, Copy, Debug)]
pub struct Mark {
    /// Line number.
    pub number: u64,
    /// Offset of the line in bytes.
    pub offset: u64,
    /// Number of previous files for this log.
    pub file: u64,
    /// Time since 1970.
    pub at: Duration,
}

/// Summary of a writer's output.
#[derive(Debug, Default)]
pub struct Written {
    /// Number of lines.
    pub lines: u64,
    /// Bytes, including line endings.
    pub bytes: u64,
    /// Lines written in pieces.
    pub in_pieces: u64,
    /// Marks, in order.
    pub marks: Vec<Mark>,
}

/// A log file.
pub struct Log {
    index: usize,
    folder: PathBuf,
    lines: Arc<Lines>,
    random: Random,
    file: File,
    offset: u64,
    buffer: Vec<u8>,
    /// Time until which the application still writes to the renamed file.
    reopen_at: Option<Instant>,
    rotations: u64,
    /// Summary of the output so far.
    pub written: Written,
}

impl Log {
    /// Creates log `index` in `FOLDER/in`.
    pub fn create(folder: &Path, index: usize, lines: Arc<Lines>, seed: u64) -> io::Result<Log> {
        let file = open(&live(folder, index))?;
        let random = Random::new(seed ^ mix(index as u64 + 1));
        let mut log = Log {
            index,
            folder: folder.to_path_buf(),
            lines,
            random,
            file,
            offset: 0,
            buffer: Vec::new(),
            reopen_at: None,
            rotations: 0,
            written: Written::default(),
        };
        log.mark(0);
        Ok(log)
    }

    /// Appends lines up to number `until`.
    pub fn write(&mut self, until: u64) -> io::Result<()> {
        if self.reopen_at.is_some_and(|at| at <= Instant::now()) {
            self.reopen()?;
        }
        let last = self.written.marks.last().copied();
        if let Some(last) = last.filter(|last| now().saturating_sub(last.at) >= MARK_EVERY) {
            self.mark(last.file);
        }
        while self.written.lines < until {
            let begin = self.buffer.len();
            self.lines.append(self.index, self.written.lines, &mut self.buffer);
            self.buffer.push(b'\n');
            let length = (self.buffer.len() - begin) as u64;
            if self.random.below(PIECES_ONE_IN) == 0 {
                self.write_in_pieces(begin)?;
            } else if self.buffer.len() >= WRITE_BYTES {
                self.flush()?;
            }
            self.offset += length;
            self.written.lines += 1;
            self.written.bytes += length;
        }
        self.flush()
    }

    /// Writes the last line in the buffer, which begins at `begin`, in two or three pieces.
    fn write_in_pieces(&mut self, begin: usize) -> io::Result<()> {
        let line = self.buffer.split_off(begin);
        self.flush()?;
        let mut rest = &line[..];
        for _ in 0..=self.random.below(2) {
            let (piece, behind) = rest.split_at(self.random.below(rest.len() as u64) as usize);
            self.file.write_all(piece)?;
            std::thread::sleep(Duration::from_millis(self.random.below(PIECE_PAUSE_MS_MAX)));
            rest = behind;
        }
        self.written.in_pieces += 1;
        self.file.write_all(rest)
    }

    fn flush(&mut self) -> io::Result<()> {
        let result = self.file.write_all(&self.buffer);
        self.buffer.clear();
        result
    }

    /// Rotates the file. After a rename the application may keep writing to the old file for a
    /// while.
    pub fn rotate(&mut self, rotation: Rotation) -> io::Result<()> {
        self.settle_down()?;
        self.rotations += 1;
        let path = live(&self.folder, self.index);
        match rotation {
            Rotation::Rename => {
                make_room(&path)?;
                self.move_to(&path, &numbered(&path, 1))?;
            }
            Rotation::Date => self.move_to(&path, &self.dated(&path))?,
            Rotation::Move => {
                let name = format!("w{:02}.log.{}", self.index, self.rotations);
                self.move_to(&path, &self.folder.join("old").join(name))?;
            }
            Rotation::Copytruncate => {
                make_room(&path)?;
                fs::copy(&path, numbered(&path, 1))?;
                self.file.set_len(0)?;
                self.begin_file();
            }
            Rotation::Delete => {
                fs::remove_file(&path)?;
                self.reopen()?;
            }
            Rotation::Gzip => {
                make_room(&path)?;
                fs::rename(&path, numbered(&path, 1))?;
                self.reopen()?;
                compress(&numbered(&path, 1))?;
            }
            Rotation::Expire => {
                fs::rename(&path, self.newest_rotated())?;
                self.reopen()?;
            }
        }
        Ok(())
    }

    /// Returns the path of the file that the last [`Rotation::Expire`] renamed. The number in its
    /// name is never reused.
    pub fn newest_rotated(&self) -> PathBuf {
        numbered(&live(&self.folder, self.index), self.rotations)
    }

    /// Renames the file; its writer notices a little later.
    fn move_to(&mut self, path: &Path, to: &Path) -> io::Result<()> {
        fs::rename(path, to)?;
        self.linger();
        Ok(())
    }

    /// Switches to the file with the log's name, if the application still writes to a renamed file.
    pub fn settle_down(&mut self) -> io::Result<()> {
        if self.reopen_at.is_some() { self.reopen() } else { Ok(()) }
    }

    fn linger(&mut self) {
        let time = Duration::from_millis(self.random.below(LINGER_MS_MAX));
        self.reopen_at = Some(Instant::now() + time);
    }

    fn reopen(&mut self) -> io::Result<()> {
        self.file = open(&live(&self.folder, self.index))?;
        self.reopen_at = None;
        self.begin_file();
        Ok(())
    }

    fn begin_file(&mut self) {
        self.offset = 0;
        self.mark(self.written.marks.last().map_or(0, |mark| mark.file + 1));
    }

    fn mark(&mut self, file: u64) {
        let mark = Mark { number: self.written.lines, offset: self.offset, file, at: now() };
        self.written.marks.push(mark);
    }

    /// Returns a path such as `w00.log-20261122-1795000000-7`.
    fn dated(&self, path: &Path) -> PathBuf {
        let seconds = now().as_secs();
        let (year, month, day) = date(seconds / 86_400);
        let ending = format!("-{year}{month:02}{day:02}-{seconds}-{}", self.rotations);
        with_ending(path, &ending)
    }
}

fn open(path: &Path) -> io::Result<File> {
    OpenOptions::new().create(true).append(true).open(path)
}

/// Returns the path of log `index`.
fn live(folder: &Path, index: usize) -> PathBuf {
    folder.join(format!("in/w{index:02}.log"))
}

fn with_ending(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(ending);
    name.into()
}

fn numbered(path: &Path, number: u64) -> PathBuf {
    with_ending(path, &format!(".{number}"))
}

fn zipped(path: &Path) -> PathBuf {
    with_ending(path, ".gz")
}

/// Increments the number of each numbered file, so that number 1 is free.
fn make_room(path: &Path) -> io::Result<()> {
    let is_taken = |number: &u64| {
        numbered(path, *number).exists() || zipped(&numbered(path, *number)).exists()
    };
    let count = (1..).take_while(is_taken).count() as u64;
    for number in (1..=count).rev() {
        let (from, to) = (numbered(path, number), numbered(path, number + 1));
        for (from, to) in [(zipped(&from), zipped(&to)), (from, to)] {
            if from.exists() {
                fs::rename(from, to)?;
            }
        }
    }
    Ok(())
}

/// Compresses a file into its folder, then deletes the original, as gzip(1) does.
fn compress(path: &Path) -> io::Result<()> {
    let mut out = GzEncoder::new(File::create(zipped(path))?, Compression::fast());
    io::copy(&mut File::open(path)?, &mut out)?;
    out.finish()?;
    fs::remove_file(path)
}

/// Returns the time since 1970.
pub fn now() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}
