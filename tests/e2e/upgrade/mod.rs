//! Tests data directories of earlier programs, which are in `tests/fixtures/upgrade`, and of an
//! earlier program that runs in turn with this build.

mod folders;
mod input;
mod load;
mod rollback;
mod world;

use crate::support::folder;
use flate2::read::GzDecoder;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;

/// Number of lines that the earlier program has read.
const READ: usize = 1000;

/// Returns the path of a file in the folder of the fixtures.
fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/upgrade").join(name)
}

/// Returns the names of all archives, in order.
fn archives() -> Vec<String> {
    let entries = fs::read_dir(fixture("")).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<String> = names.filter(|name| name.ends_with(".tar.gz")).collect();
    names.sort();
    names
}

/// Unpacks an archive into a new folder.
fn unpack(name: &str) -> TempDir {
    let dir = folder();
    let archive = GzDecoder::new(File::open(fixture(name)).unwrap());
    tar::Archive::new(archive).unpack(dir.path()).unwrap();
    dir
}

/// Returns the lines `from` to `to` of the log, as the script of the fixtures writes them.
fn log_lines(from: usize, to: usize) -> String {
    let mut command = Command::new(fixture("lines"));
    let output = command.args([from.to_string(), to.to_string()]).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}
