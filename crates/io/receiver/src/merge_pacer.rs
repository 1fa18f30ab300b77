//! Decides how long to delay a read, so that one wake-up of the thread receives many datagrams.

use std::time::{Duration, Instant};

/// Rate above which merging starts, in datagrams per second. At this rate, a pause collects several
/// datagrams. On a virtual machine, a wake-up costs as much as a few dozen datagrams.
const MERGE_PER_SECOND: f64 = 2_500.0;

/// Maximum delay of a datagram caused by merging.
const PAUSE_MAX: Duration = Duration::from_millis(1);

/// Minimum pause. A shorter pause is not worth the system call.
const PAUSE_MIN: Duration = Duration::from_micros(50);

/// Minimum time over which the rate is measured: long enough for a few dozen datagrams at the rate
/// where merging starts, short enough to stop soon after the datagrams do.
const WINDOW: Duration = Duration::from_millis(20);

/// Maximum time over which a rate is measured. A rate that was measured over a longer time is
/// outdated.
const WINDOW_MAX: Duration = Duration::from_millis(100);

/// Bytes that the kernel charges to the socket's buffer for a short datagram, in addition to its
/// payload.
const CHARGE_BYTES: f64 = 768.0;

/// Maximum fraction of the buffer that may fill during a pause at the current rate.
const BUFFER_FRACTION: f64 = 1.0 / 8.0;

/// Rate of a burst that may start during a pause, in datagrams per second: about the rate that one
/// core can send and another can deliver. `BURST_FRACTION` is the maximum fraction of the buffer
/// that short datagrams may fill at this rate during a pause.
const BURST_PER_SECOND: f64 = 1_000_000.0;
const BURST_FRACTION: f64 = 1.0 / 2.0;

/// Measures the recent datagram rate and derives the pause from it.
#[derive(Debug)]
pub struct MergePacer {
    since: Instant,
    datagrams: u64,
    bytes: u64,
    per_second: f64,
    bytes_per_second: f64,
}

impl MergePacer {
    pub fn new(now: Instant) -> MergePacer {
        MergePacer { since: now, datagrams: 0, bytes: 0, per_second: 0.0, bytes_per_second: 0.0 }
    }

    /// Records the datagrams received up to `now`.
    pub fn record(&mut self, now: Instant, datagrams: usize, bytes: usize) {
        self.datagrams += datagrams as u64;
        self.bytes += bytes as u64;
        let passed = now.saturating_duration_since(self.since);
        if passed >= WINDOW {
            self.per_second = self.datagrams as f64 / passed.as_secs_f64();
            self.bytes_per_second = self.bytes as f64 / passed.as_secs_f64();
            if passed > WINDOW_MAX {
                self.per_second = 0.0;
            }
            (self.since, self.datagrams, self.bytes) = (now, 0, 0);
        }
    }

    /// Returns how long to wait before reading sockets that are now empty. `buffer_bytes` is the
    /// size of the smallest receive buffer. Returns `None` if a pause is not worthwhile.
    pub fn pause(&self, buffer_bytes: usize) -> Option<Duration> {
        if self.per_second < MERGE_PER_SECOND {
            return None;
        }
        let fill_per_second = self.per_second * CHARGE_BYTES + self.bytes_per_second;
        let buffer_bytes = buffer_bytes as f64;
        let fills = Duration::from_secs_f64(buffer_bytes * BUFFER_FRACTION / fill_per_second);
        let burst = Duration::from_secs_f64(
            buffer_bytes * BURST_FRACTION / (BURST_PER_SECOND * CHARGE_BYTES),
        );
        let pause = fills.min(burst).min(PAUSE_MAX);
        (pause >= PAUSE_MIN).then_some(pause)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LARGE: usize = 8 << 20;

    fn after(ms: u64, datagrams: usize) -> MergePacer {
        let start = Instant::now();
        let mut pacer = MergePacer::new(start);
        pacer.record(start + Duration::from_millis(ms), datagrams, datagrams * 100);
        pacer
    }

    #[test]
    fn low_rates_cause_no_pause() {
        assert_eq!(after(20, 20).pause(LARGE), None);
        assert_eq!(after(1000, 100_000).pause(LARGE), None, "the rate is outdated");
    }

    #[test]
    fn high_rates_pause_for_at_most_a_millisecond() {
        assert_eq!(after(20, 3_000).pause(LARGE), Some(PAUSE_MAX));
    }

    #[test]
    fn a_pause_fills_at_most_an_eighth_of_a_small_buffer() {
        // 400,000 datagrams of 100 bytes per second.
        let pause = after(20, 8_000).pause(425_984).unwrap();
        let filled = pause.as_secs_f64() * 400_000.0 * 868.0;
        assert!((filled - 425_984.0 / 8.0).abs() < 1.0, "{filled}");
        assert_eq!(after(20, 4_000).pause(4_096), None);
    }

    #[test]
    fn a_burst_during_a_pause_fits_into_the_buffer() {
        // At a rate of 25,000 per second, a pause of a millisecond would be allowed if there were
        // no bursts.
        let pause = after(20, 500).pause(425_984).unwrap();
        assert!(pause.as_secs_f64() * 1e6 * 768.0 <= 425_984.0 / 2.0, "{pause:?}");
    }
}
