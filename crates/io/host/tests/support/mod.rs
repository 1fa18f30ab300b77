//! A fake host made of files, and its readings as text.

// Each test binary uses only some of these functions.
#![allow(dead_code)]

use millstream_host::{
    Cgroups, Disks, Filesystems, Filter, Group, Host, Options, Query, Reading, Readings, Reason,
    Space,
};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Returns the folder with the test tree.
pub fn tree() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/tree")
}

/// Copies the tree, so that a test can change it. The copy is kept in memory if possible, where
/// writes are fast.
pub fn copy() -> tempfile::TempDir {
    let dir = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
    copy_into(&tree(), dir.path());
    dir
}

fn copy_into(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap().map(|entry| entry.unwrap()) {
        let to = to.join(entry.file_name());
        match entry.file_type().unwrap().is_dir() {
            true => copy_into(&entry.path(), &to),
            false => drop(fs::copy(entry.path(), to).unwrap()),
        }
    }
}

pub fn filter(include: &[&str], exclude: &[&str]) -> Filter {
    let owned = |list: &[&str]| list.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
    Filter::new(&owned(include), &owned(exclude)).unwrap()
}

/// Returns options that collect these groups from the folders `proc` and `sys` in `base`, with some
/// filters.
pub fn options(base: &Path, groups: &[Group]) -> Options {
    Options {
        groups: groups.to_vec(),
        per_cpu: false,
        disks: Disks { names: filter(&[], &["loop*"]), partitions: false },
        filesystems: Filesystems {
            types: filter(&[], &["proc", "nfs*"]),
            mountpoints: filter(&[], &["/run/**"]),
            timeout: Duration::from_secs(60),
        },
        interfaces: filter(&[], &["veth*"]),
        processes: None,
        cgroups: Cgroups { root: None, depth: 0 },
        proc: base.join("proc"),
        sys: base.join("sys"),
        root: PathBuf::from("/host"),
    }
}

/// Returns a query that reports fixed usage for every path below `/host`, and fails for any other
/// path.
pub fn fake_space() -> Query {
    Arc::new(|path| match path.starts_with("/host") {
        true => Ok(Space { size: 4000, free: 1500, available: 1000, files: 80, files_free: 30 }),
        false => Err(io::ErrorKind::NotFound.into()),
    })
}

/// Returns a host with these options and the file systems of [`fake_space`].
pub fn host(options: Options) -> Host {
    Host::new(options, fake_space(), Arc::new(|| {}))
}

/// Runs a collection and waits for its file systems in real time.
pub fn collect(host: &mut Host) -> Readings {
    let begun = Instant::now();
    host.begin(begun.elapsed());
    loop {
        match host.finish(begun.elapsed()) {
            Ok(readings) => return readings,
            Err(left) => std::thread::sleep(left.min(Duration::from_micros(200))),
        }
    }
}

/// Formats a reading as a line: name, labels, `+` for a counter, and value.
pub fn line(reading: &Reading) -> String {
    let labels: Vec<String> =
        reading.labels.iter().map(|(key, value)| format!("{key}={value}")).collect();
    let kind = if reading.is_counter { "+" } else { "" };
    format!("{}{{{}}}{kind} {}", reading.name, labels.join(","), reading.value)
}

/// Formats all readings as lines.
pub fn lines(readings: &Readings) -> Vec<String> {
    readings.numbers.iter().map(line).collect()
}

/// Returns the lines of a collection, which must have no faults.
pub fn group(options: Options) -> Vec<String> {
    let readings = collect(&mut host(options));
    assert_eq!(readings.faults, []);
    lines(&readings)
}

/// Counts the faults with this reason.
pub fn count(readings: &Readings, reason: Reason) -> usize {
    readings.faults.iter().filter(|fault| fault.reason == reason).count()
}
