//! The folder of a run.

use super::keep::Keep;
use super::logfile::now;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// Minimum time that a rotated file is left alone.
const SWEEP_AFTER: Duration = Duration::from_secs(5);

/// A folder that is removed on drop unless it must be kept.
pub struct Scratch {
    /// Path of the folder.
    pub path: PathBuf,
    /// Whether the folder is kept.
    pub keep: bool,
}

impl Scratch {
    /// Creates a folder in `parent` with subfolders for the log files.
    pub fn make(parent: &Path, keep: bool) -> Result<Scratch, String> {
        let failed = |error: io::Error| {
            format!("{}: {error}; choose another folder with --dir", parent.display())
        };
        let parent = parent.canonicalize().map_err(failed)?;
        // Other characters have a meaning in patterns, templates or YAML.
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._-+@".contains(c);
        if !parent.to_str().is_some_and(|text| text.chars().all(is_plain)) {
            return Err(format!(
                "{}: the path may contain only letters, digits and /._-+@; choose another folder with --dir",
                parent.display()
            ));
        }
        let name = format!("millstream-verify-{}-{}", std::process::id(), now().as_millis());
        let scratch = Scratch { path: parent.join(name), keep };
        for folder in ["in", "old"] {
            fs::create_dir_all(scratch.path.join(folder)).map_err(failed)?;
        }
        Ok(scratch)
    }

    /// Removes rotated files that have not been written to for `SWEEP_AFTER`, unless the folder
    /// must be kept, because lost lines are looked up in these files.
    pub fn sweep(&self) -> io::Result<()> {
        if self.keep {
            return Ok(());
        }
        for folder in self.log_folders() {
            for entry in fs::read_dir(folder)? {
                let entry = entry?;
                let age = SystemTime::now()
                    .duration_since(entry.metadata()?.modified()?)
                    .unwrap_or_default();
                let is_live = entry.file_name().to_string_lossy().ends_with(".log");
                if !is_live && age >= SWEEP_AFTER {
                    fs::remove_file(entry.path())?;
                }
            }
        }
        Ok(())
    }

    /// Returns the folders with log files.
    fn log_folders(&self) -> Vec<PathBuf> {
        let behind = Keep::ALL.map(|keep| keep.folder(&self.path).join("in"));
        let all = ["in", "old"].map(|folder| self.path.join(folder)).into_iter().chain(behind);
        all.filter(|folder| folder.is_dir()).collect()
    }

    /// Returns the type of the folder's file system.
    pub fn file_system(&self) -> String {
        let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
        let path = self.path.display().to_string();
        // `36 35 98:0 /root /point options - type source`. If several mounts have the same point,
        // the last one counts.
        let mount = |line: &str| {
            let point = line.split(' ').nth(4)?.to_owned();
            let kind = line.split_once(" - ")?.1.split(' ').next()?.to_owned();
            let inside = point == "/" || path == point || path.starts_with(&format!("{point}/"));
            inside.then_some((point.len(), kind))
        };
        let found = mounts.lines().filter_map(mount).max_by_key(|(length, _)| *length);
        found.map_or("an unknown file system".to_owned(), |(_, kind)| kind)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if !self.keep {
            // Report leftovers instead of ignoring them.
            if let Err(error) = fs::remove_dir_all(&self.path) {
                eprintln!("{} could not be removed: {error}", self.path.display());
            }
        }
    }
}
