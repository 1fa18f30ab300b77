//! Times of the processors, and what the kernel has done since it was booted.

use crate::files;
use crate::reading::{Labels, Readings, labels};
use std::collections::HashMap;
use std::path::Path;

/// What a processor does, in the kernel's order.
const MODES: [&str; 8] = ["user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal"];

/// What guests have used, which is part of `user` and `nice` too.
const GUESTS: [&str; 2] = ["user", "nice"];

/// Times of a processor that a kernel may leave out at the end.
const TIMES_MIN: usize = 4;
const TIMES: usize = MODES.len() + GUESTS.len();

/// By how many seconds a time may go back and be held: idle time and waits are estimates that the
/// kernel mends. More is a counter that began again.
const BACK_SECONDS_MAX: f64 = 60.0;

/// Lines of one number: their key, and the metric's name.
const COUNTS: [(&str, &str); 3] = [
    ("ctxt", "host_context_switches_total"),
    ("intr", "host_interrupts_total"),
    ("processes", "host_forks_total"),
];

/// The times of each processor as they were emitted last.
#[derive(Default)]
pub struct Held(HashMap<String, [f64; TIMES]>);

impl Held {
    /// A counter that went back a little would look as if it had begun again, and all of it had
    /// been counted since: it stays until its time has come again.
    fn hold(&mut self, cpu: &str, times: &mut [f64]) {
        let held = self.0.entry(cpu.to_owned()).or_default();
        for (held, time) in held.iter_mut().zip(times) {
            if *time < *held && *held - *time < BACK_SECONDS_MAX {
                *time = *held;
            }
            *held = *time;
        }
    }
}

/// Reads `stat`.
pub fn read(proc: &Path, per_cpu: bool, held: &mut Held, out: &mut Readings) {
    let path = proc.join("stat");
    let Some(text) = out.read(&path) else { return };
    let is_whole = processors(&text, per_cpu, held, out) & counts(&text, out);
    if !is_whole {
        out.malformed(&path);
    }
}

/// Times of the processors, and how many there are. Whether all lines were understood, and there
/// were some.
fn processors(text: &str, per_cpu: bool, held: &mut Held, out: &mut Readings) -> bool {
    let before = out.numbers.len();
    let mut cpus = 0u32;
    let mut is_whole = true;
    for line in text.lines().filter(|line| line.starts_with("cpu")) {
        let name = line.split_ascii_whitespace().next().unwrap_or(line);
        let number = &name["cpu".len()..];
        cpus += u32::from(!number.is_empty());
        let of = match (per_cpu, number.is_empty()) {
            (true, false) => labels([("cpu", number), ("mode", "")]),
            (false, true) => labels([("mode", "")]),
            _ => continue,
        };
        is_whole &= times(line, &of, held, out).is_some();
    }
    is_whole &= cpus > 0 && out.numbers.len() > before;
    if cpus > 0 {
        out.gauge("host_cpus", &labels([]), f64::from(cpus));
    }
    is_whole
}

/// What else the file has. Whether it was all there.
fn counts(text: &str, out: &mut Readings) -> bool {
    let none = labels([]);
    let mut is_whole = true;
    for (key, name) in COUNTS {
        match files::value(text, key) {
            Some(value) => out.counter(name, &none, value),
            None => is_whole = false,
        }
    }
    match files::value(text, "btime") {
        Some(value) => out.gauge("host_boot_time_seconds", &none, value),
        None => is_whole = false,
    }
    is_whole
}

/// The times of one line, under labels whose last one is the mode.
fn times(line: &str, of: &Labels, held: &mut Held, out: &mut Readings) -> Option<()> {
    let mut words = line.split_ascii_whitespace();
    let cpu = words.next()?;
    let ticks: Vec<u64> = words.take(TIMES).map(str::parse).collect::<Result<_, _>>().ok()?;
    if ticks.len() < TIMES_MIN {
        return None;
    }
    let second = rustix::param::clock_ticks_per_second() as f64;
    let mut times: Vec<f64> = ticks.iter().map(|ticks| *ticks as f64 / second).collect();
    held.hold(cpu, &mut times);
    for (index, time) in times.into_iter().enumerate() {
        let (name, mode) = match MODES.get(index) {
            Some(mode) => ("host_cpu_seconds_total", mode),
            None => ("host_cpu_guest_seconds_total", &GUESTS[index - MODES.len()]),
        };
        let mut of = of.to_vec();
        if let Some(last) = of.last_mut() {
            last.1 = (*mode).to_owned();
        }
        out.counter(name, &of.into(), time);
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_that_goes_back_a_little_is_held_and_one_that_began_again_is_not() {
        let mut held = Held::default();
        let mut hold = |time: f64| {
            let mut times = [time];
            held.hold("cpu0", &mut times);
            times[0]
        };
        assert_eq!(
            [hold(100.0), hold(99.5), hold(99.9), hold(100.1)],
            [100.0, 100.0, 100.0, 100.1]
        );
        assert_eq!([hold(2.0), hold(3.0)], [2.0, 3.0]);
    }
}
