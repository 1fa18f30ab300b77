//! When to wait a moment, so that one wake-up of the thread brings many datagrams.

use std::time::{Duration, Instant};

/// Above this rate a pause brings several datagrams. A wake-up costs as much as some dozen of them
/// where the host is a virtual machine.
const FAST_PER_SECOND: f64 = 2_500.0;

/// No datagram waits longer than this because of merging.
const PAUSE_MAX: Duration = Duration::from_millis(1);

/// Less is not worth a call.
const PAUSE_MIN: Duration = Duration::from_micros(50);

/// The rate is measured over at least this time: long enough for some dozen datagrams at the rate
/// where merging begins, short enough that it stops with the datagrams.
const WINDOW: Duration = Duration::from_millis(20);

/// A rate from longer ago says nothing about now.
const WINDOW_MAX: Duration = Duration::from_millis(100);

/// What the kernel charges the socket's buffer for a short datagram besides its bytes.
const CHARGE_BYTES: f64 = 768.0;

/// At most this part of the buffer may fill during a pause at the present rate.
const BUFFER_PART: f64 = 1.0 / 8.0;

/// A burst may begin during a pause. This is about what one core sends and another one delivers; of
/// short datagrams at this rate, at most this part of the buffer may fill.
const BURST_PER_SECOND: f64 = 1_000_000.0;
const BURST_PART: f64 = 1.0 / 2.0;

/// The rate at which datagrams came of late.
#[derive(Debug)]
pub struct Pace {
    since: Instant,
    datagrams: u64,
    bytes: u64,
    per_second: f64,
    bytes_per_second: f64,
}

impl Pace {
    pub fn new(now: Instant) -> Pace {
        Pace { since: now, datagrams: 0, bytes: 0, per_second: 0.0, bytes_per_second: 0.0 }
    }

    /// Notes what has come up to `now`.
    pub fn note(&mut self, now: Instant, datagrams: usize, bytes: usize) {
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

    /// How long to wait before the next look at sockets that are empty now, the smallest of which
    /// has a buffer of this size.
    pub fn pause(&self, buffer_bytes: usize) -> Option<Duration> {
        if self.per_second < FAST_PER_SECOND {
            return None;
        }
        let fill_per_second = self.per_second * CHARGE_BYTES + self.bytes_per_second;
        let buffer_bytes = buffer_bytes as f64;
        let fills = Duration::from_secs_f64(buffer_bytes * BUFFER_PART / fill_per_second);
        let burst =
            Duration::from_secs_f64(buffer_bytes * BURST_PART / (BURST_PER_SECOND * CHARGE_BYTES));
        let pause = fills.min(burst).min(PAUSE_MAX);
        (pause >= PAUSE_MIN).then_some(pause)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LARGE: usize = 8 << 20;

    fn after(ms: u64, datagrams: usize) -> Pace {
        let start = Instant::now();
        let mut pace = Pace::new(start);
        pace.note(start + Duration::from_millis(ms), datagrams, datagrams * 100);
        pace
    }

    #[test]
    fn slow_datagrams_never_wait() {
        assert_eq!(after(20, 20).pause(LARGE), None);
        assert_eq!(after(1000, 100_000).pause(LARGE), None, "that was long ago");
    }

    #[test]
    fn fast_ones_wait_a_millisecond_at_most() {
        assert_eq!(after(20, 3_000).pause(LARGE), Some(PAUSE_MAX));
    }

    #[test]
    fn a_small_buffer_never_fills_by_more_than_an_eighth() {
        let pause = after(20, 8_000).pause(425_984).unwrap(); // 400,000 datagrams of 100 bytes a second
        let filled = pause.as_secs_f64() * 400_000.0 * 868.0;
        assert!((filled - 425_984.0 / 8.0).abs() < 1.0, "{filled}");
        assert_eq!(after(20, 4_000).pause(4_096), None);
    }

    #[test]
    fn a_burst_that_begins_in_a_pause_finds_room() {
        let pause = after(20, 500).pause(425_984).unwrap(); // 25,000 a second would allow a millisecond
        assert!(pause.as_secs_f64() * 1e6 * 768.0 <= 425_984.0 / 2.0, "{pause:?}");
    }
}
