//! Measures the CPU time that collecting this host's metrics takes, by group:
//! `cargo run --release -p millstream-host --example cost`.

use millstream_host::{Cgroups, Disks, Filesystems, Filter, Group, Host, Options, space};

use rustix::time::{ClockId, clock_gettime};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Number of collections per group.
const TIMES: u32 = 200;

fn options(groups: Vec<Group>) -> Options {
    let filter = |exclude: &[&str]| {
        let exclude: Vec<String> = exclude.iter().map(|pattern| (*pattern).to_owned()).collect();
        Filter::new(&[], &exclude).expect("patterns")
    };
    Options {
        groups,
        per_cpu: false,
        disks: Disks { names: filter(&["loop*", "ram*"]), partitions: false },
        filesystems: Filesystems {
            types: filter(&["proc", "sysfs", "cgroup*", "nfs*"]),
            mountpoints: filter(&["/run/**", "/dev/**"]),
            timeout: Duration::from_secs(1),
        },
        interfaces: filter(&["veth*"]),
        processes: None,
        cgroups: Cgroups { root: None, depth: 0 },
        proc: "/proc".into(),
        sys: "/sys".into(),
        root: "/".into(),
    }
}

/// Returns the CPU time of the process so far, in milliseconds.
fn cpu_ms() -> f64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as f64 * 1e3 + time.tv_nsec as f64 / 1e6
}

/// Returns the number of readings in a collection of these groups, and the average CPU time of a
/// collection in milliseconds.
fn cost(groups: Vec<Group>) -> (usize, f64) {
    let mut host = Host::new(options(groups), Arc::new(space), Arc::new(|| {}));
    let mut numbers = 0;
    let before = cpu_ms();
    for _ in 0..TIMES {
        let begun = Instant::now();
        host.begin(begun.elapsed());
        let readings = loop {
            match host.finish(begun.elapsed()) {
                Ok(readings) => break readings,
                Err(_) => std::thread::sleep(Duration::from_micros(200)),
            }
        };
        numbers = readings.numbers.len();
    }
    (numbers, (cpu_ms() - before) / f64::from(TIMES))
}

fn main() {
    let groups = Group::ALL.iter().map(|&group| (format!("{group:?}"), vec![group]));
    for (name, groups) in groups.chain([("all".to_owned(), Group::ALL.to_vec())]) {
        let (numbers, ms) = cost(groups);
        println!("{name:12} {numbers:4} numbers {ms:7.3} ms");
    }
}
