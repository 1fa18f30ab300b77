//! Basics of measurements: pinned cores, CPU time instead of wall time, medians of repetitions.

use parking_lot::Mutex;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use rustix::time::{ClockId, clock_gettime};
use std::io::{self, IsTerminal, Write};
use std::time::{Duration, Instant};

const PROGRESS_LINE_EVERY: Duration = Duration::from_secs(5);

/// Pins the calling thread, and the processes that it starts afterwards, to one core.
pub fn pin(core: usize) -> io::Result<()> {
    let mut cores = CpuSet::new();
    cores.set(core);
    Ok(sched_setaffinity(None, &cores)?)
}

/// Runs `work` with the calling thread, and the processes that it starts, pinned to `cores`;
/// restores the affinity afterwards.
pub fn pinned<T>(cores: &[usize], work: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
    let own = sched_getaffinity(None)?;
    let mut set = CpuSet::new();
    cores.iter().for_each(|core| set.set(*core));
    sched_setaffinity(None, &set)?;
    let done = work();
    sched_setaffinity(None, &own)?;
    done
}

/// Measures the user and system CPU seconds of `work` on the calling thread.
pub fn cpu_seconds(work: impl FnOnce() -> io::Result<()>) -> io::Result<f64> {
    let before = thread_cpu_seconds();
    work()?;
    Ok(thread_cpu_seconds() - before)
}

/// Returns the CPU seconds of the calling thread so far.
pub fn thread_cpu_seconds() -> f64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

/// Values of the repetitions of one measurement.
#[derive(Clone, Debug, Default)]
pub struct Samples(Vec<f64>);

impl Samples {
    /// Adds the value of one repetition.
    pub fn push(&mut self, value: f64) {
        self.0.push(value);
        self.0.sort_by(f64::total_cmp);
    }

    /// Returns the median, or the lower median for an even number of values. Returns NaN if there
    /// are no values.
    pub fn median(&self) -> f64 {
        self.quantile(0.5)
    }

    /// Returns the minimum, or NaN if there are no values.
    pub fn min(&self) -> f64 {
        self.quantile(0.0)
    }

    /// Returns the maximum, or NaN if there are no values.
    pub fn max(&self) -> f64 {
        self.quantile(1.0)
    }

    /// Returns the value at `quantile` (0 to 1) of the sorted values, or NaN if there are no
    /// values.
    pub fn quantile(&self, quantile: f64) -> f64 {
        sorted_quantile(&self.0, quantile).unwrap_or(f64::NAN)
    }
}

/// Returns the value at `quantile` (0 to 1) of `sorted`; `None` if there are no values.
pub fn sorted_quantile<T: Copy>(sorted: &[T], quantile: f64) -> Option<T> {
    sorted.get((sorted.len().checked_sub(1)? as f64 * quantile) as usize).copied()
}

/// Reports the current step on standard error: on a terminal as a line that is overwritten;
/// otherwise as lines, but not more often than every few seconds.
pub fn progress(what: &str) {
    static LAST_LINE: Mutex<Option<Instant>> = Mutex::new(None);
    let mut err = io::stderr().lock();
    if err.is_terminal() {
        let _ = write!(err, "\r\x1b[K{what}").and_then(|()| err.flush());
        return;
    }
    let mut last = LAST_LINE.lock();
    if last.is_none_or(|last| last.elapsed() >= PROGRESS_LINE_EVERY) {
        let _ = writeln!(err, "{what}");
        *last = Some(Instant::now());
    }
}

/// Clears the progress line before a table is printed.
pub fn progress_end() {
    if io::stderr().is_terminal() {
        eprint!("\r\x1b[K");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_have_a_middle_and_ends() {
        let mut samples = Samples::default();
        assert!(samples.median().is_nan());
        for value in [5.0, 1.0, 4.0] {
            samples.push(value);
        }
        assert_eq!((samples.min(), samples.median(), samples.max()), (1.0, 4.0, 5.0));
    }
}
