//! A folder in memory for inputs, outputs and the agent's data, removed at the end.

use crate::texts;
use crate::weblog::WebLog;
use flate2::Compression;
use flate2::write::GzEncoder;
use memchr::memmem;
use rustix::fs::{FallocateFlags, fallocate};
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

const PARENT: &str = "/dev/shm";
/// Slightly more than the two seconds after which Linux reports free pages to the host.
const REPORTING_DELAY: Duration = Duration::from_millis(2300);
const PREFIX: &str = "millstream-bench-";

/// Name of the web log's folder.
const INPUT: &str = "input";
/// Name of the folder of inputs for single scenarios.
const MADE: &str = "made";
/// Bytes of text that such an input repeats. The text is small because the kernel counts the
/// benchmark's memory in the peak memory of the programs that it starts.
const MADE_TEXT_BYTES: usize = 1 << 20;

/// A fresh folder on tmpfs, removed on drop, or by the next run if this run is killed.
pub struct Scratch(PathBuf);

impl Scratch {
    /// Creates the folder and removes the folders of killed runs.
    pub fn new() -> io::Result<Self> {
        remove_leftovers()?;
        let folder = Path::new(PARENT).join(format!("{PREFIX}{}", std::process::id()));
        fs::create_dir(&folder)?;
        Ok(Scratch(folder))
    }

    /// Returns the path of `name` in the folder.
    pub fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// Ensures that the next `bytes` of memory are backed by the host. Call it right before a
    /// measurement that writes: a virtual machine returns free memory to its host after
    /// [`REPORTING_DELAY`], and reuse of that memory costs page faults on the host that take longer
    /// than the write.
    pub fn warm_memory(&self, bytes: u64) -> io::Result<()> {
        let path = self.path("memory");
        fallocate(File::create(&path)?, FallocateFlags::empty(), 0, bytes)?;
        // The virtual machine returns previously freed memory now, not during the measurement.
        thread::sleep(REPORTING_DELAY);
        fs::remove_file(path)
    }

    /// Makes `name` an empty folder, in which existing files are removed. Returns its path.
    pub fn empty_folder(&self, name: &str) -> io::Result<PathBuf> {
        let folder = self.path(name);
        if folder.exists() {
            fs::remove_dir_all(&folder)?;
        }
        fs::create_dir(&folder)?;
        Ok(folder)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Removes the folders of dead processes.
fn remove_leftovers() -> io::Result<()> {
    for entry in fs::read_dir(PARENT)? {
        let entry = entry?;
        let name = entry.file_name();
        let pid = name.to_str().and_then(|name| name.strip_prefix(PREFIX));
        if pid.is_some_and(|pid| !Path::new("/proc").join(pid).exists()) {
            fs::remove_dir_all(entry.path())?;
        }
    }
    Ok(())
}

/// A log file that a measurement reads.
pub struct Input {
    /// Path of the file, or a pattern for several files.
    pub path: PathBuf,
    /// Size in bytes.
    pub bytes: u64,
    /// Number of lines.
    pub lines: u64,
}

impl Input {
    /// Creates an empty file.
    pub fn empty(scratch: &Scratch) -> io::Result<Self> {
        let path = scratch.path("empty.log");
        fs::write(&path, "")?;
        Ok(Input { path, bytes: 0, lines: 0 })
    }

    /// Creates a web log of about `bytes` in one file, or in several files of the same size that
    /// the pattern `path` matches.
    pub fn weblog(scratch: &Scratch, bytes: usize, files: usize) -> io::Result<Self> {
        let folder = scratch.empty_folder(INPUT)?;
        let name = |file: usize| folder.join(format!("web-{file}.log"));
        let path = if files == 1 { name(1) } else { folder.join("web-*.log") };
        let mut input = Input { path, bytes: 0, lines: 0 };
        // Each file has a different seed, because files with equal heads would count as one.
        for file in 1..=files {
            input.fill(&name(file), bytes / files, WebLog::new(file as u64))?;
        }
        Ok(input)
    }

    fn fill(&mut self, path: &Path, bytes: usize, mut log: WebLog) -> io::Result<()> {
        const CHUNK_BYTES: usize = 16 << 20;
        let mut file = BufWriter::with_capacity(1 << 20, File::create(path)?);
        let mut written = 0;
        while written < bytes {
            let (bytes, lines) = log.write((bytes - written).min(CHUNK_BYTES), &mut file)?;
            written += bytes;
            self.bytes += bytes as u64;
            self.lines += lines as u64;
            crate::measure::progress(&format!("web log: {} MB written", self.bytes / 1_000_000));
        }
        file.flush()
    }

    /// Creates a file of about `bytes` of `kind` in a separate folder; `lines` is the number of its
    /// events.
    pub fn made(scratch: &Scratch, kind: &str, bytes: usize) -> io::Result<Self> {
        let (text, lines) = made_text(kind)
            .ok_or_else(|| io::Error::other(format!("`# input: `: there is no input {kind}")))?;
        let path = scratch.empty_folder(MADE)?.join(if kind == "gzip" {
            "web.log.gz"
        } else {
            "made.log"
        });
        let mut file = BufWriter::with_capacity(1 << 20, File::create(&path)?);
        let times = bytes.div_ceil(text.len());
        if kind == "gzip" {
            let mut packed = GzEncoder::new(&mut file, Compression::default());
            (0..times).try_for_each(|_| packed.write_all(&text))?;
            packed.finish()?;
        } else {
            (0..times).try_for_each(|_| file.write_all(&text))?;
        }
        file.flush()?;
        Ok(Input { bytes: path.metadata()?.len(), path, lines: times as u64 * lines })
    }

    /// Frees the memory of all inputs.
    pub fn remove(scratch: &Scratch) -> io::Result<()> {
        scratch.empty_folder(MADE)?;
        scratch.empty_folder(INPUT).map(|_| ())
    }
}

/// Returns the text that an input of this kind repeats, and the number of events in the text;
/// `None` if the kind is unknown.
fn made_text(kind: &str) -> Option<(Vec<u8>, u64)> {
    let text = match kind {
        // Every fifth event has a trace of ten lines.
        "traces" => texts::traces(MADE_TEXT_BYTES, 5, 7),
        "gbk" => texts::gbk(MADE_TEXT_BYTES),
        "utf16" => texts::utf16(MADE_TEXT_BYTES),
        "cri" => texts::cri(MADE_TEXT_BYTES),
        "gzip" => texts::weblog(MADE_TEXT_BYTES),
        _ => return None,
    };
    let count = |mark: &[u8]| memmem::find_iter(&text, mark).count();
    let events = match kind {
        "traces" => count(b" INFO [main] "),
        "cri" => count(b" stdout F "),
        _ => millstream_scan::count_newlines(&text),
    };
    Some((text, events as u64))
}
