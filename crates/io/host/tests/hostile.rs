//! Files that are not what they should be, and file systems that do not answer: the rest is given
//! all the same.

mod support;

use fastrand::Rng;
use millstream_host::{Cgroups, Group, Host, Readings, Reason};
use parking_lot::{Condvar, Mutex};
use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use support::{collect, copy, count, filter, full, host, line, lines, options, tree};

fn all(base: &Path) -> Readings {
    let mut options = options(base, &Group::ALL);
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

/// Which metrics are made of a file of the tree.
fn made_of(path: &Path) -> &'static [&'static str] {
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
        _ => panic!("which metrics come from {path}?"),
    }
}

/// Every file in turn is this instead: no panic, all numbers are finite, and those of other files
/// are what they were.
fn every_file_as(change: impl Fn(&[u8]) -> Vec<u8>) {
    let dir = copy();
    let mut paths = Vec::new();
    files(dir.path(), &mut paths);
    let sound = all(dir.path());
    assert_eq!(sound.faults, []);
    for path in paths {
        let text = fs::read(&path).unwrap();
        fs::write(&path, change(&text)).unwrap();
        let readings = all(dir.path());
        assert!(readings.numbers.iter().all(|reading| reading.value.is_finite()));
        let others = |readings: &Readings| {
            let is_other =
                |name: &str| !made_of(&path).iter().any(|prefix| name.starts_with(prefix));
            readings
                .numbers
                .iter()
                .filter(|reading| is_other(reading.name))
                .map(line)
                .collect::<Vec<_>>()
        };
        assert_eq!(others(&readings), others(&sound), "{}", path.display());
        fs::write(&path, text).unwrap();
    }
}

#[test]
fn garbage_in_one_file_changes_nothing_else() {
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
        every_file_as(|_| bytes.to_vec());
    }
}

#[test]
fn files_that_are_cut_or_damaged_anywhere_change_nothing_else() {
    for fifth in 1..5 {
        every_file_as(|text| text[..text.len() * fifth / 5].to_vec());
    }
    let mut random = Rng::with_seed(7);
    for _ in 0..10 {
        let (at, byte) = (random.usize(..), random.u8(..));
        every_file_as(|text| {
            let mut text = text.to_vec();
            let at = at % text.len();
            text[at] = byte;
            text
        });
    }
}

#[test]
fn what_is_damaged_is_counted_and_its_sound_lines_are_given() {
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
    let mut options = options(dir.path(), &Group::ALL);
    options.per_cpu = true;
    let readings = collect(&mut host(options));
    assert_eq!((count(&readings, Reason::Malformed), readings.faults.len()), (6, 6));
    let lines = lines(&readings);
    for sound in [
        "host_cpu_seconds_total{cpu=0,mode=user}+ 10",
        "host_memory_writeback_bytes{} 0",
        "host_network_receive_packets_total{interface=eth0}+ 45703",
        "host_filesystem_total_bytes{device=/dev/sda1,fstype=ext4,mountpoint=/} 4000",
        "host_processes{state=blocked} 1",
    ] {
        assert!(lines.iter().any(|line| line == sound), "{sound}");
    }
    assert!(!lines.iter().any(|line| line.contains("dirty") || line.contains("cpu=2")));
}

#[test]
fn names_that_processes_give_themselves_are_bounded() {
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
    let told = |readings: &Readings| {
        readings.numbers.iter().filter(|one| one.name == "host_process_threads").count()
    };
    assert_eq!((told(&readings), count(&readings, Reason::Malformed)), (1000, 1));
    name_all(&|_| "same".into());
    // Names that are gone make room.
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
fn what_is_missing_or_no_file_is_a_fault_each() {
    let dir = tempfile::tempdir().unwrap();
    let readings = collect(&mut host(options(dir.path(), &Group::ALL)));
    assert_eq!(readings.numbers, []);
    // stat, meminfo, vmstat, diskstats, mountinfo, net/dev, loadavg, the folder, control groups,
    // pressure.
    assert_eq!((count(&readings, Reason::Missing), readings.faults.len()), (10, 10));
    for file in ["stat", "meminfo", "loadavg", "pressure/cpu", "7/stat"] {
        fs::create_dir_all(dir.path().join("proc").join(file)).unwrap();
    }
    let readings = collect(&mut host(options(dir.path(), &Group::ALL)));
    // The folder and pressure are there now, but not memory and io.
    assert_eq!((count(&readings, Reason::Unreadable), count(&readings, Reason::Missing)), (5, 7));
}

#[test]
fn counters_that_begin_again_are_given_as_they_are() {
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
    // Idle began again; the wait went back by a hundredth of a second and is held.
    assert_eq!(lines[3], "host_cpu_seconds_total{mode=idle}+ 6");
    assert_eq!(lines[4], "host_cpu_seconds_total{mode=iowait}+ 5");
    assert!(
        lines.iter().any(|line| line == "host_network_receive_bytes_total{interface=eth0}+ 12")
    );
}

/// File systems that hang while the gate is shut.
struct Gate {
    shut: Mutex<BTreeSet<PathBuf>>,
    opened: Condvar,
    asked: Mutex<Vec<PathBuf>>,
}

impl Gate {
    fn host(self: &Arc<Self>, base: &Path) -> Host {
        let gate = self.clone();
        let full = full();
        let ask = move |path: &Path| {
            gate.asked.lock().push(path.to_owned());
            gate.opened.wait_while(&mut gate.shut.lock(), |shut| shut.contains(path));
            full(path)
        };
        let mut options = options(base, &[Group::Filesystems, Group::Load]);
        // Those that answer do so within this on a busy host too.
        options.filesystems.timeout = Duration::from_millis(200);
        Host::new(options, Arc::new(ask), Arc::new(|| {}))
    }
}

#[test]
fn a_file_system_that_hangs_is_left_out_and_asked_again_when_it_answers() {
    let gate = Arc::new(Gate {
        shut: Mutex::new(BTreeSet::from([PathBuf::from("/host/")])),
        opened: Condvar::new(),
        asked: Mutex::default(),
    });
    let mut host = gate.host(&tree());
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
    let asked = gate.asked.lock().iter().filter(|path| path.ends_with("host")).count();
    assert_eq!(asked, 1, "one thread waits, however many collections there are");
    gate.shut.lock().clear();
    gate.opened.notify_all();
    // Its thread ends soon; until then it counts as hanging.
    let answers = (0..500).find(|_| {
        std::thread::sleep(Duration::from_millis(2));
        collect(&mut host).faults.is_empty()
    });
    assert!(answers.is_some());
}

#[test]
fn many_file_systems_that_hang_take_a_bounded_number_of_threads() {
    let dir = copy();
    let mount = |n: usize| format!("{n} 1 9:{n} / /m{n:02} rw - ext4 /dev/x{n} rw\n");
    fs::write(dir.path().join("proc/1/mountinfo"), (10..40).map(mount).collect::<String>())
        .unwrap();
    let shut = (10..40).map(|n| PathBuf::from(format!("/host/m{n:02}"))).collect();
    let gate =
        Arc::new(Gate { shut: Mutex::new(shut), opened: Condvar::new(), asked: Mutex::default() });
    let mut host = gate.host(dir.path());
    for _ in 0..4 {
        let readings = collect(&mut host);
        assert_eq!((count(&readings, Reason::Timeout), readings.faults.len()), (30, 30));
    }
    assert_eq!(gate.asked.lock().len(), 8);
    gate.shut.lock().clear();
    gate.opened.notify_all();
}

#[test]
fn a_thread_that_panics_leaves_its_file_systems_out() {
    let options = options(&tree(), &[Group::Filesystems, Group::Load]);
    let ask = |_: &Path| -> io::Result<_> { panic!("a file system that nobody thought of") };
    let readings = collect(&mut Host::new(options, Arc::new(ask), Arc::new(|| {})));
    assert_eq!(count(&readings, Reason::Unreadable), 2);
    assert_eq!(readings.numbers.len(), 3);
}
