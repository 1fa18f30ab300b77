//! A host made of files, and its numbers as text.

// Each test binary uses a part of it.
#![allow(dead_code)]

use millstream_host::{
    Ask, Cgroups, Disks, Filesystems, Filter, Group, Host, Options, Reading, Readings, Reason,
    Space,
};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The tree of files of the tests.
pub fn tree() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/tree")
}

/// A copy of the tree, to change; in memory where that is possible, for a disk would have to be
/// waited for at each change.
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

/// Everything in a tree with `proc` and `sys`, but for what is filtered.
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

/// File systems that all are as full.
pub fn full() -> Ask {
    Arc::new(|path| match path.starts_with("/host") {
        true => Ok(Space {
            size: 4000,
            free: 1500,
            available: 1000,
            files: 80,
            files_free: 30,
            is_read_only: path.ends_with("the data"),
        }),
        false => Err(io::ErrorKind::NotFound.into()),
    })
}

/// A host with these options, whose file systems are as [`full`] says.
pub fn host(options: Options) -> Host {
    Host::new(options, full(), Arc::new(|| {}))
}

/// One collection, waiting for file systems in real time.
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

/// One number as a line: name, labels, `+` behind a counter, value.
pub fn line(reading: &Reading) -> String {
    let labels: Vec<String> =
        reading.labels.iter().map(|(key, value)| format!("{key}={value}")).collect();
    let kind = if reading.is_counter { "+" } else { "" };
    format!("{}{{{}}}{kind} {}", reading.name, labels.join(","), reading.value)
}

/// Numbers as lines.
pub fn lines(readings: &Readings) -> Vec<String> {
    readings.numbers.iter().map(line).collect()
}

/// The lines of one group of the tree, which has no faults.
pub fn group(options: Options) -> Vec<String> {
    let readings = collect(&mut host(options));
    assert_eq!(readings.faults, []);
    lines(&readings)
}

/// How many faults there are of a reason.
pub fn count(readings: &Readings, reason: Reason) -> usize {
    readings.faults.iter().filter(|fault| fault.reason == reason).count()
}
