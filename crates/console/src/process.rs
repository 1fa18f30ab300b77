//! Resource usage of the agent's process.

use rustix::param::{clock_ticks_per_second, page_size};
use rustix::process::{Resource, getrlimit};
use rustix::time::{ClockId, clock_gettime};
use std::fs;
use std::sync::OnceLock;

/// Resource usage of the process. A field is `None` if the system does not report it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ProcessStats {
    /// CPU time of all threads in seconds, user and system.
    pub cpu_seconds: Option<f64>,
    /// Resident memory in bytes.
    pub resident_memory_bytes: Option<u64>,
    /// Number of open file descriptors.
    pub open_fds: Option<u64>,
    /// Limit on open file descriptors; `None` if unlimited.
    pub max_fds: Option<u64>,
    /// Start time of the process, in seconds since 1970.
    pub start_time_seconds: Option<f64>,
    /// Number of threads.
    pub threads: Option<u64>,
}

impl ProcessStats {
    /// Reads the resource usage of the calling process.
    pub fn read() -> ProcessStats {
        let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
        ProcessStats {
            cpu_seconds: Some(cpu_seconds()),
            resident_memory_bytes: resident_bytes(),
            open_fds: open_fds(),
            max_fds: getrlimit(Resource::Nofile).current,
            start_time_seconds: start_time(&stat),
            threads: stat_field(&stat, 20),
        }
    }
}

/// Returns the CPU time of all threads in seconds, user and system.
pub fn cpu_seconds() -> f64 {
    let cpu = clock_gettime(ClockId::ProcessCPUTime);
    cpu.tv_sec as f64 + cpu.tv_nsec as f64 / 1e9
}

fn resident_bytes() -> Option<u64> {
    let pages = fs::read_to_string("/proc/self/statm").ok()?;
    let resident: u64 = pages.split(' ').nth(1)?.parse().ok()?;
    Some(resident * page_size() as u64)
}

fn open_fds() -> Option<u64> {
    let entries = fs::read_dir("/proc/self/fd").ok()?.count() as u64;
    // One of the entries is the descriptor of the folder being read.
    Some(entries.saturating_sub(1))
}

/// Returns a field of `/proc/self/stat`, numbered from 1 as in proc(5). Works only for the fields
/// after the program's name.
fn stat_field(stat: &str, number: usize) -> Option<u64> {
    // The name, field 2, is in parentheses and may contain anything.
    let (_, fields) = stat.rsplit_once(") ")?;
    fields.split(' ').nth(number - 3)?.trim_end().parse().ok()
}

/// Returns the start time of the process. It is computed once, so that it does not change when the
/// clock is set.
fn start_time(stat: &str) -> Option<f64> {
    static START: OnceLock<Option<f64>> = OnceLock::new();
    *START.get_or_init(|| {
        let ticks = stat_field(stat, 22)?;
        let system = fs::read_to_string("/proc/stat").ok()?;
        let boot: f64 =
            system.lines().find_map(|line| line.strip_prefix("btime "))?.parse().ok()?;
        Some(boot + ticks as f64 / clock_ticks_per_second() as f64)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{SystemTime, UNIX_EPOCH};

    #[test]
    fn fields_are_found_behind_any_program_name() {
        let fields: Vec<String> = (3..=52).map(|number| number.to_string()).collect();
        let stat = format!("17 (a) b (c) {}\n", fields.join(" "));
        assert_eq!(stat_field(&stat, 20), Some(20));
        assert_eq!(stat_field(&stat, 22), Some(22));
        assert_eq!(stat_field(&stat, 52), Some(52));
        assert_eq!(stat_field(&stat, 53), None);
        assert_eq!(stat_field("", 20), None);
    }

    #[test]
    fn process_metrics_are_plausible() {
        let before = ProcessStats::read();
        let files: Vec<_> = (0..50).map(|_| fs::File::open("/dev/null").unwrap()).collect();
        let memory = std::hint::black_box(vec![1_u8; 64 << 20]);
        let after = ProcessStats::read();
        let grown = |figure: fn(&ProcessStats) -> Option<u64>| {
            figure(&after).unwrap() as i64 - figure(&before).unwrap() as i64
        };
        assert!(
            grown(|stats| stats.open_fds) >= 40,
            "{before:?} {after:?} with {} files",
            files.len()
        );
        assert!(
            grown(|stats| stats.resident_memory_bytes) >= 48 << 20,
            "{before:?} {after:?} {}",
            memory[1 << 20]
        );
        assert!(after.cpu_seconds > before.cpu_seconds && before.cpu_seconds > Some(0.0));
        assert!(after.threads >= Some(1));
        assert!(after.max_fds.is_none_or(|most| most >= after.open_fds.unwrap()));
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs_f64();
        let age = now - after.start_time_seconds.unwrap();
        assert!((-2.0..600.0).contains(&age), "started {age} s ago");
    }
}
