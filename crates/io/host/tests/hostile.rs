//! Malformed files and hung file systems omit only their metrics.

use crate::support::{collect, copy, count, fake_space, filter, host, line, lines, options, tree};
use millstream_host::{Cgroups, Group, Host, Readings, Reason};
use millstream_testkit_random::{Seed, TestSize};
use parking_lot::{Condvar, Mutex};
use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

fn all(base: &Path) -> Readings {
    let mut options = options(base, Group::ALL);
    options.processes = Some(filter(&["*"], &[]));
    options.cgroups = Cgroups { root: Some("/".into()), depth: 2 };
    collect(&mut host(options))
}

fn files(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap()) {
        match entry.file_type().unwrap().is_dir() {
            true => files(&entry.path(), found),
            false => found.push(entry.path()),
        }
    }
}

/// Returns the name prefixes of the metrics that are read from this file of the tree.
fn metric_prefixes(path: &Path) -> &'static [&'static str] {
    let path = path.to_str().unwrap();
    let is = |part: &str| path.contains(part);
    match path {
        _ if is("cgroup") || is("self/cgroup") => &["host_cgroup_"],
        _ if is("pressure") => &["host_pressure_"],
        _ if is("proc/stat") => {
            &["host_cpu", "host_context", "host_interrupts", "host_forks", "host_boot"]
        }
        _ if is("/stat") => &["host_process", "host_threads"],
        _ if is("meminfo") || is("vmstat") => &["host_memory_"],
        _ if is("diskstats") || is("class/block") => &["host_disk_"],
        _ if is("mountinfo") => &["host_filesystem_"],
        _ if is("net/dev") => &["host_network_"],
        _ if is("loadavg") => &["host_load"],
        _ => panic!("unknown file {path}"),
    }
}

/// Changes each file in turn. Asserts that all numbers are finite, and that the numbers from the
/// other files stay the same.
fn change_each_file(change: impl Fn(&[u8]) -> Vec<u8>) {
    let dir = copy();
    let mut paths = Vec::new();
    files(dir.path(), &mut paths);
    let valid = all(dir.path());
    assert_eq!(valid.faults, []);
    for path in paths {
        let text = fs::read(&path).unwrap();
        fs::write(&path, change(&text)).unwrap();
        let readings = all(dir.path());
        assert!(readings.numbers.iter().all(|reading| reading.value.is_finite()));
        let others = |readings: &Readings| {
            let is_other =
                |name: &str| !metric_prefixes(&path).iter().any(|prefix| name.starts_with(prefix));
            readings
                .numbers
                .iter()
                .filter(|reading| is_other(reading.name))
                .map(line)
                .collect::<Vec<_>>()
        };
        assert_eq!(others(&readings), others(&valid), "{}", path.display());
        fs::write(&path, text).unwrap();
    }
}

#[test]
fn garbage_in_one_file_affects_only_its_metrics() {
    let garbage: [&[u8]; 11] = [
        b"",
        b"\n",
        b"some",
        b"\xff\xfe\x00\x00\n\xf0\x9f",
        b"cpu \ncpu\ncpu0\ncpu\xc3\xa9 1 2 3 4\n",
        b")(\n1 )( R\n1 () \n",
        b"99999999999999999999999 -1 nan inf 1e400\n",
        b"nan nan nan 1/2 3\n",
        b"a b c d e f g h i j k l m n o p q r s t u v w x y z\n",
        b"::::\n0::/../../../etc\n:\n - \n- - - - -\n",
        b"some total=\nfull total=x\n\xc3\xa9\xc3\xa9\xc3\xa9 1 2 3\n8:0 rbytes=-1\n",
    ];
    for bytes in garbage {
        change_each_file(|_| bytes.to_vec());
    }
}

/// Number of bytes that are changed in each file, one at a time.
const CORRUPTIONS: TestSize = TestSize { gate: 10, long: 1000 };

#[test]
fn truncated_or_corrupt_files_affect_only_their_metrics() {
    for fifth in 1..5 {
        change_each_file(|text| text[..text.len() * fifth / 5].to_vec());
    }
    let mut random = Seed::of_test_or(7).random();
    for _ in random.rounds(CORRUPTIONS) {
        let (at, byte) = (random.usize(..), random.u8(..));
        change_each_file(|text| {
            let mut text = text.to_vec();
            let at = at % text.len();
            text[at] = byte;
            text
        });
    }
}

#[test]
fn malformed_lines_are_counted_and_valid_lines_emitted() {
    let dir = copy();
    let proc = dir.path().join("proc");
    let damage = |file: &str, from: &str, to: &str| {
        let text = fs::read_to_string(proc.join(file)).unwrap();
        assert!(text.contains(from));
        fs::write(proc.join(file), text.replace(from, to)).unwrap();
    };
    damage("stat", "cpu2 2000", "cpu2 many");
    damage("meminfo", "Dirty:               120 kB", "Dirty: lots");
    damage("diskstats", "1000 50 80000", "1000 fifty 80000");
    damage("1/net/dev", "    lo:", "    lo ");
    damage("1/mountinfo", "/srv rw", "srv rw");
    damage("7/stat", ")", "]");
    let mut options = options(dir.path(), Group::ALL);
    options.per_cpu = true;
    let readings = collect(&mut host(options));
    assert_eq!((count(&readings, Reason::Malformed), readings.faults.len()), (6, 6));
    let lines = lines(&readings);
    for valid in [
        "host_cpu_seconds_total{cpu=0,mode=user}+ 10",
        "host_memory_writeback_bytes{} 0",
        "host_network_receive_packets_total{interface=eth0}+ 45703",
        "host_filesystem_total_bytes{device=/dev/sda1,fstype=ext4,mountpoint=/} 4000",
        "host_processes{state=blocked} 1",
    ] {
        assert!(lines.iter().any(|line| line == valid), "{valid}");
    }
    assert!(!lines.iter().any(|line| line.contains("dirty") || line.contains("cpu=2")));
}

#[test]
fn the_number_of_process_names_is_bounded() {
    let dir = copy();
    let proc = dir.path().join("proc");
    let stat = fs::read_to_string(proc.join("9/stat")).unwrap();
    let name_all = |name: &dyn Fn(u32) -> String| {
        for id in 100..1200 {
            fs::create_dir_all(proc.join(id.to_string())).unwrap();
            fs::write(proc.join(format!("{id}/stat")), stat.replace("web", &name(id))).unwrap();
        }
    };
    let mut options = options(dir.path(), &[Group::Processes]);
    options.processes = Some(filter(&["*"], &[]));
    let mut host = host(options);
    name_all(&|id| format!("x{id}"));
    let readings = collect(&mut host);
    let names = |readings: &Readings| {
        readings.numbers.iter().filter(|one| one.name == "host_process_threads").count()
    };
    assert_eq!((names(&readings), count(&readings, Reason::Malformed)), (1000, 1));
    name_all(&|_| "same".into());
    // This collection removes the names that no process uses.
    collect(&mut host);
    let readings = collect(&mut host);
    assert_eq!(
        (
            readings.faults.len(),
            lines(&readings).contains(&"host_process_instances{process=same} 1100".into())
        ),
        (0, true)
    );
}

#[test]
fn each_missing_or_irregular_file_is_counted() {
    let dir = tempfile::tempdir().unwrap();
    let readings = collect(&mut host(options(dir.path(), Group::ALL)));
    assert_eq!(readings.numbers, []);
    // Missing are stat, meminfo, vmstat, diskstats, mountinfo, net/dev, loadavg, `/proc`, the
    // control groups, and pressure.
    assert_eq!((count(&readings, Reason::Missing), readings.faults.len()), (10, 10));
    for file in ["stat", "meminfo", "loadavg", "pressure/cpu", "7/stat"] {
        fs::create_dir_all(dir.path().join("proc").join(file)).unwrap();
    }
    let readings = collect(&mut host(options(dir.path(), Group::ALL)));
    // `/proc` and pressure now exist, but pressure/memory and pressure/io do not.
    assert_eq!((count(&readings, Reason::Unreadable), count(&readings, Reason::Missing)), (5, 7));
}

#[test]
fn reset_counters_are_emitted_unchanged() {
    let dir = copy();
    let mut host = host(options(dir.path(), &[Group::Cpu, Group::Network]));
    collect(&mut host);
    for file in ["stat", "1/net/dev"] {
        let path = dir.path().join("proc").join(file);
        let text = fs::read_to_string(&path).unwrap();
        let text = text.replace("90000 500 10", "600 499 10").replace("8000000", "12");
        fs::write(&path, text).unwrap();
    }
    let lines = lines(&collect(&mut host));
    // The idle time was reset. The iowait time decreased by 10 ms and is clamped.
    assert_eq!(lines[3], "host_cpu_seconds_total{mode=idle}+ 6");
    assert_eq!(lines[4], "host_cpu_seconds_total{mode=iowait}+ 5");
    assert!(
        lines.iter().any(|line| line == "host_network_receive_bytes_total{interface=eth0}+ 12")
    );
}

/// Makes queries hang while their paths are in `shut`.
struct Gate {
    shut: Mutex<BTreeSet<PathBuf>>,
    opened: Condvar,
    queried: Mutex<Vec<PathBuf>>,
}

impl Gate {
    fn host(self: &Arc<Self>, base: &Path, timeout: Duration) -> Host {
        let gate = self.clone();
        let space = fake_space();
        let query = move |path: &Path| {
            gate.queried.lock().push(path.to_owned());
            gate.opened.wait_while(&mut gate.shut.lock(), |shut| shut.contains(path));
            space(path)
        };
        let mut options = options(base, &[Group::Filesystems, Group::Load]);
        options.filesystems.timeout = timeout;
        Host::new(options, Arc::new(query), Arc::new(|| {}))
    }
}

#[test]
fn a_hung_file_system_is_omitted_until_it_responds() {
    let gate = Arc::new(Gate {
        shut: Mutex::new(BTreeSet::from([PathBuf::from("/host/")])),
        opened: Condvar::new(),
        queried: Mutex::default(),
    });
    // The timeout leaves enough time for the other paths to respond on a busy host.
    let mut host = gate.host(&tree(), Duration::from_secs(3));
    for collection in 0..3 {
        let readings = collect(&mut host);
        assert_eq!(
            (count(&readings, Reason::Timeout), readings.faults.len()),
            (1, 1),
            "{collection}"
        );
        let lines = lines(&readings);
        assert!(lines.iter().any(|line| line.contains("mountpoint=/mnt/the data")));
        assert!(lines.iter().any(|line| line.starts_with("host_load1")));
        assert!(!lines.iter().any(|line| line.contains("mountpoint=/}")));
    }
    let queried = gate.queried.lock().iter().filter(|path| path.ends_with("host")).count();
    assert_eq!(queried, 1, "only one thread is blocked, after any number of collections");
    gate.shut.lock().clear();
    gate.opened.notify_all();
    // The file system counts as hung until its thread exits.
    let responded = (0..10_000).find(|_| {
        std::thread::sleep(Duration::from_millis(2));
        collect(&mut host).faults.is_empty()
    });
    assert!(responded.is_some());
}

#[test]
fn hung_file_systems_block_a_bounded_number_of_threads() {
    let dir = copy();
    let mount = |n: usize| format!("{n} 1 9:{n} / /m{n:02} rw - ext4 /dev/x{n} rw\n");
    fs::write(dir.path().join("proc/1/mountinfo"), (10..40).map(mount).collect::<String>())
        .unwrap();
    let shut = (10..40).map(|n| PathBuf::from(format!("/host/m{n:02}"))).collect();
    let gate = Arc::new(Gate {
        shut: Mutex::new(shut),
        opened: Condvar::new(),
        queried: Mutex::default(),
    });
    let mut host = gate.host(dir.path(), Duration::from_millis(200));
    for _ in 0..4 {
        let readings = collect(&mut host);
        assert_eq!((count(&readings, Reason::Timeout), readings.faults.len()), (30, 30));
    }
    // On a busy host, a thread might start only after its query has timed out.
    let begun = Instant::now();
    while gate.queried.lock().len() < 8 && begun.elapsed() < Duration::from_secs(60) {
        std::thread::sleep(Duration::from_millis(2));
    }
    assert_eq!(gate.queried.lock().len(), 8);
    gate.shut.lock().clear();
    gate.opened.notify_all();
}

#[test]
fn a_panicking_query_thread_omits_its_file_systems() {
    let options = options(&tree(), &[Group::Filesystems, Group::Load]);
    let query = |_: &Path| -> io::Result<_> { panic!("the query fails") };
    let readings = collect(&mut Host::new(options, Arc::new(query), Arc::new(|| {})));
    assert_eq!(count(&readings, Reason::Unreadable), 2);
    assert_eq!(readings.numbers.len(), 3);
}
