//! Readings from the host that runs the tests.

use crate::support::{collect, filter};
use millstream_host::{Group, Host, Options, Readings, space};
use rustix::time::{ClockId, clock_gettime};
use std::collections::BTreeMap;
use std::fs;
use std::hint::black_box;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

fn live() -> Host {
    let options = Options {
        root: PathBuf::from("/"),
        processes: Some(filter(&["*"], &[])),
        ..crate::support::options(Path::new("/"), Group::ALL)
    };
    Host::new(options, Arc::new(space), Arc::new(|| {}))
}

fn value(readings: &Readings, name: &str, label: &str) -> f64 {
    let has_label = |labels: &[(&str, String)]| {
        label.is_empty() || labels.iter().any(|(_, value)| value == label)
    };
    let found =
        readings.numbers.iter().find(|number| number.name == name && has_label(&number.labels));
    found.unwrap_or_else(|| panic!("no {name} of {label:?}; faults: {:?}", readings.faults)).value
}

/// Uses this much CPU time, which takes longer on a busy host.
fn burn_cpu(time: Duration) {
    let used = || Duration::try_from(clock_gettime(ClockId::ThreadCPUTime)).unwrap();
    let begun = used();
    let mut sum = 0u64;
    while used() - begun < time {
        sum = black_box(sum.wrapping_mul(31).wrapping_add(7));
    }
}

#[test]
fn readings_match_the_live_host() {
    let mut host = live();
    let first = collect(&mut host);
    let meminfo = fs::read_to_string("/proc/meminfo").unwrap();
    let total = meminfo.lines().next().unwrap().split_whitespace().nth(1).unwrap();
    let total = total.parse::<u64>().unwrap() * 1024;
    assert_eq!(value(&first, "host_memory_total_bytes", ""), total as f64);
    assert!(value(&first, "host_memory_used_bytes", "") < total as f64);
    let root = space(Path::new("/")).unwrap();
    assert_eq!(value(&first, "host_filesystem_total_bytes", "/"), root.size as f64);
    let cpus = fs::read_to_string("/proc/cpuinfo").unwrap();
    let cpus = cpus.lines().filter(|line| line.starts_with("processor")).count();
    assert_eq!(value(&first, "host_cpus", ""), cpus as f64);
    assert!(value(&first, "host_threads", "") >= 1.0);
    assert!(value(&first, "host_load1", "") >= 0.0);
    assert!(value(&first, "host_network_receive_bytes_total", "lo") >= 0.0);
    let own = fs::read_to_string("/proc/self/comm").unwrap();
    assert!(value(&first, "host_process_resident_bytes", own.trim()) > 100_000.0);

    burn_cpu(Duration::from_millis(300));
    let second = collect(&mut host);
    // The tests may run at a lower priority, and `clock_gettime` may count as system time.
    let mode = |readings: &Readings, mode| value(readings, "host_cpu_seconds_total", mode);
    let modes = ["user", "nice", "system", "steal"];
    let busy = |readings: &Readings| modes.map(|name| mode(readings, name)).iter().sum::<f64>();
    assert!(busy(&second) - busy(&first) > 0.2, "{} to {}", busy(&first), busy(&second));
    let used = |readings: &Readings| value(readings, "host_process_cpu_seconds_total", own.trim());
    assert!(used(&second) - used(&first) > 0.2, "{} to {}", used(&first), used(&second));
}

#[test]
fn counters_of_the_live_host_never_decrease() {
    let mut host = live();
    let mut last: BTreeMap<String, f64> = BTreeMap::new();
    for _ in 0..20 {
        for number in collect(&mut host).numbers.iter().filter(|number| number.is_counter) {
            let key = format!("{} {:?}", number.name, number.labels);
            let before = last.insert(key.clone(), number.value).unwrap_or_default();
            assert!(number.value >= before, "{key}: {before} to {}", number.value);
        }
        burn_cpu(Duration::from_millis(5));
    }
    assert!(last.len() > 20);
}
