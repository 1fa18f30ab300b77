//! A folder in memory for inputs, outputs and the agent's data, gone at the end.

use crate::weblog::WebLog;
use rustix::fs::{FallocateFlags, fallocate};
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

const PARENT: &str = "/dev/shm";
/// A little more than the two seconds after which Linux reports free pages to the host.
const REPORTING_DELAY: Duration = Duration::from_millis(2300);
const PREFIX: &str = "millstream-bench-";

/// The folder of the web log.
const INPUT: &str = "input";

/// A fresh folder on tmpfs; removed when it is dropped, or by the next run if this one is killed.
pub struct Scratch(PathBuf);

impl Scratch {
    /// Creates the folder and removes what killed runs have left.
    pub fn new() -> io::Result<Self> {
        remove_leftovers()?;
        let folder = Path::new(PARENT).join(format!("{PREFIX}{}", std::process::id()));
        fs::create_dir(&folder)?;
        Ok(Scratch(folder))
    }

    /// The path of `name` in the folder.
    pub fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// Sees to it that the next `bytes` of memory that are used are in hand. Call it right before a measurement
    /// that writes: a virtual machine gives free memory back to its host after [`REPORTING_DELAY`], and using it
    /// again costs page faults out there, more than the write itself.
    pub fn warm_memory(&self, bytes: u64) -> io::Result<()> {
        let path = self.path("memory");
        fallocate(File::create(&path)?, FallocateFlags::empty(), 0, bytes)?;
        // What was freed before is given back now, and not in the middle of the measurement.
        thread::sleep(REPORTING_DELAY);
        fs::remove_file(path)
    }

    /// Makes `name` an empty folder, whatever it was before.
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

/// Removes the folders of runs whose process is gone.
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
    /// Where it is.
    pub path: PathBuf,
    /// Its size.
    pub bytes: u64,
    /// Its number of lines.
    pub lines: u64,
}

impl Input {
    /// An empty file.
    pub fn empty(scratch: &Scratch) -> io::Result<Self> {
        let path = scratch.path("empty.log");
        fs::write(&path, "")?;
        Ok(Input { path, bytes: 0, lines: 0 })
    }

    /// A web log of about `bytes` in one file, or in several of the same size that `path` is a pattern for.
    pub fn weblog(scratch: &Scratch, bytes: usize, files: usize) -> io::Result<Self> {
        let folder = scratch.empty_folder(INPUT)?;
        let name = |file: usize| folder.join(format!("web-{file}.log"));
        let path = if files == 1 { name(1) } else { folder.join("web-*.log") };
        let mut input = Input { path, bytes: 0, lines: 0 };
        // Another seed for each file, as files that begin alike would count as one.
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

    /// Gives its memory back.
    pub fn remove(scratch: &Scratch) -> io::Result<()> {
        scratch.empty_folder(INPUT).map(|_| ())
    }
}
