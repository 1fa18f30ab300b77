//! CPU times, and the kernel's counters since boot.

use crate::files;
use crate::reading::{Labels, Readings, labels};
use std::collections::HashMap;
use std::path::Path;

/// CPU modes, in the kernel's order.
const MODES: [&str; 8] = ["user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal"];

/// Modes for which the kernel reports guest time. The times `user` and `nice` include it.
const GUESTS: [&str; 2] = ["user", "nice"];

/// Minimum number of times that the kernel reports per CPU. Older kernels omit the last times.
const TIMES_MIN: usize = 4;
const TIMES: usize = MODES.len() + GUESTS.len();

/// Decrease of a time in seconds from which the time counts as reset. A smaller decrease is a
/// correction, because the kernel estimates idle and iowait times.
const CLAMP_SECONDS_MAX: f64 = 60.0;

/// Keys in `stat`, with the metric name. The value is the first number after the key.
const COUNTERS: [(&str, &str); 3] = [
    ("ctxt", "host_context_switches_total"),
    ("intr", "host_interrupts_total"),
    ("processes", "host_forks_total"),
];

/// The last emitted times of each CPU.
#[derive(Default)]
pub struct LastTimes(HashMap<String, [f64; TIMES]>);

impl LastTimes {
    /// Replaces each time that has decreased slightly with its last value. Otherwise, the decrease
    /// would look like a counter reset, and the whole value would be counted again.
    fn clamp(&mut self, cpu: &str, times: &mut [f64]) {
        let last = self.0.entry(cpu.to_owned()).or_default();
        for (last, time) in last.iter_mut().zip(times) {
            if *time < *last && *last - *time < CLAMP_SECONDS_MAX {
                *time = *last;
            }
            *last = *time;
        }
    }
}

/// Reads the kernel's `stat` file.
pub fn read(proc: &Path, per_cpu: bool, last: &mut LastTimes, out: &mut Readings) {
    let path = proc.join("stat");
    let Some(text) = out.read(&path) else { return };
    let is_valid = cpus(&text, per_cpu, last, out) & counters(&text, out);
    if !is_valid {
        out.malformed(&path);
    }
}

/// Reads the CPU times and the number of CPUs. Returns whether there were lines and all of them
/// were valid.
fn cpus(text: &str, per_cpu: bool, last: &mut LastTimes, out: &mut Readings) -> bool {
    let before = out.numbers.len();
    let mut count = 0u32;
    let mut is_valid = true;
    for line in text.lines().filter(|line| line.starts_with("cpu")) {
        let name = line.split_ascii_whitespace().next().unwrap_or(line);
        let index = &name["cpu".len()..];
        count += u32::from(!index.is_empty());
        let labels = match (per_cpu, index.is_empty()) {
            (true, false) => labels([("cpu", index), ("mode", "")]),
            (false, true) => labels([("mode", "")]),
            _ => continue,
        };
        is_valid &= times(line, &labels, last, out).is_some();
    }
    is_valid &= count > 0 && out.numbers.len() > before;
    if count > 0 {
        out.gauge("host_cpus", &labels([]), f64::from(count));
    }
    is_valid
}

/// Reads the kernel's counters. Returns whether all were present.
fn counters(text: &str, out: &mut Readings) -> bool {
    let none = labels([]);
    let mut is_valid = true;
    for (key, name) in COUNTERS {
        match files::value(text, key) {
            Some(value) => out.counter(name, &none, value),
            None => is_valid = false,
        }
    }
    match files::value(text, "btime") {
        Some(value) => out.gauge("host_boot_time_seconds", &none, value),
        None => is_valid = false,
    }
    is_valid
}

/// Reads the times in one line. The mode is filled into the last label.
fn times(line: &str, labels: &Labels, last: &mut LastTimes, out: &mut Readings) -> Option<()> {
    let mut words = line.split_ascii_whitespace();
    let cpu = words.next()?;
    let ticks: Vec<u64> = words.take(TIMES).map(str::parse).collect::<Result<_, _>>().ok()?;
    if ticks.len() < TIMES_MIN {
        return None;
    }
    let second = rustix::param::clock_ticks_per_second() as f64;
    let mut times: Vec<f64> = ticks.iter().map(|ticks| *ticks as f64 / second).collect();
    last.clamp(cpu, &mut times);
    for (position, time) in times.into_iter().enumerate() {
        let (name, mode) = match MODES.get(position) {
            Some(mode) => ("host_cpu_seconds_total", mode),
            None => ("host_cpu_guest_seconds_total", &GUESTS[position - MODES.len()]),
        };
        let mut labels = labels.to_vec();
        if let Some(mode_label) = labels.last_mut() {
            mode_label.1 = (*mode).to_owned();
        }
        out.counter(name, &labels.into(), time);
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_decreases_are_clamped_and_resets_are_not() {
        let mut last = LastTimes::default();
        let mut clamp = |time: f64| {
            let mut times = [time];
            last.clamp("cpu0", &mut times);
            times[0]
        };
        assert_eq!(
            [clamp(100.0), clamp(99.5), clamp(99.9), clamp(100.1)],
            [100.0, 100.0, 100.0, 100.1]
        );
        assert_eq!([clamp(2.0), clamp(3.0)], [2.0, 3.0]);
    }
}
