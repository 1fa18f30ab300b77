//! Limits a sink's queue by time, so that newly read data is delivered soon.
//!
//! A queue of 4 MiB in front of a sink that takes 3 MB/s delays every file of a source by 1.4 s,
//! even a quiet one. Unread data does not delay other files, because a quiet file is read before
//! the rest of a busy one. The queue is therefore limited by time: it can contain the bytes that
//! the sink delivers during one round trip plus [`QUEUE_TIME`]. The product of rate and round trip
//! keeps a slow endpoint busy. The added [`QUEUE_TIME`] lets the limit grow as long as a longer
//! queue raises the rate.

use millstream_model::EngineTime;
use parking_lot::Mutex;
use std::time::Duration;

/// How long payloads may queue beyond the shortest delivery time.
const QUEUE_TIME: Duration = Duration::from_millis(50);

/// Minimum window over which a sink's rate is measured.
const WINDOW_MIN: Duration = Duration::from_millis(500);

/// Bytes that may always queue: a few blocks, so that payloads fill whole requests.
const BYTES_MIN: u64 = 512 * 1024;

/// The limit on one sink's queue, derived from its rate and round trip.
pub(crate) struct Backlog(Mutex<State>);

struct State {
    /// Unlimited until the rate is known, because a slow endpoint needs the whole buffer.
    bytes_max: u64,
    window: Window,
}

/// A window over which the rate is measured.
struct Window {
    began: EngineTime,
    /// Bytes that had left the queue when the window began.
    left: u64,
    /// Whether the sink had work at every sample. Only then do the bytes that left show its full
    /// rate.
    is_busy: bool,
    /// Whether the queue reached the limit. Without the limit, more bytes might have left.
    is_reached: bool,
}

impl Backlog {
    /// Creates the limit for a sink whose rate is unknown.
    pub fn new() -> Backlog {
        // Nothing is sampled yet.
        let window = Window { is_busy: false, ..Window::new(EngineTime::ZERO, 0) };
        Backlog(Mutex::new(State { bytes_max: u64::MAX, window }))
    }

    /// Returns whether `queued` bytes are too many. `left` is the total number of bytes that have
    /// left the queue; `round_trip` is the shortest delivery time so far.
    pub fn is_long(&self, queued: u64, left: u64, round_trip: Duration, now: EngineTime) -> bool {
        let mut state = self.0.lock();
        state.measure(left, round_trip, now);
        let is_long = queued >= state.bytes_max;
        state.window.is_reached |= is_long;
        state.window.is_busy &= queued >= BYTES_MIN / 2;
        is_long
    }
}

impl State {
    /// Once the current window is long enough, closes it and derives a new limit from its rate. The
    /// limit stays unchanged if the window does not show the sink's full rate, or if no byte left,
    /// because the sink may then be unreachable.
    fn measure(&mut self, left: u64, round_trip: Duration, now: EngineTime) {
        let elapsed = now - self.window.began;
        if elapsed < WINDOW_MIN.max(2 * round_trip) {
            return;
        }
        let bytes = left.saturating_sub(self.window.left);
        let bound = bytes as f64 * (QUEUE_TIME + round_trip).as_secs_f64() / elapsed.as_secs_f64();
        let bound = (bound as u64).max(BYTES_MIN);
        let is_known =
            if bound > self.bytes_max { self.window.is_reached } else { self.window.is_busy };
        if bytes > 0 && is_known {
            self.bytes_max = bound;
        }
        self.window = Window::new(now, left);
    }
}

impl Window {
    fn new(began: EngineTime, left: u64) -> Window {
        Window { began, left, is_busy: true, is_reached: false }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::VecDeque;

    const MS: Duration = Duration::from_millis(1);
    const MB: u64 = 1_000_000;

    fn at(ms: u32) -> EngineTime {
        EngineTime::at(ms * MS)
    }

    /// Lets a source fill a sink's queue for `seconds`; `deliver` returns how many queued bytes
    /// leave in a given millisecond. Returns the longest queue in the last second and the bytes
    /// that left in it.
    fn play(
        seconds: u32,
        round_trip: Duration,
        mut deliver: impl FnMut(u32, u64) -> u64,
    ) -> (u64, u64) {
        let backlog = Backlog::new();
        let mut queued = 0;
        let mut left = 0;
        let mut longest = 0;
        let mut before = 0;
        for ms in 0..seconds * 1000 {
            while !backlog.is_long(queued, left, round_trip, at(ms)) && queued < 4 * MB {
                queued += 64_000;
            }
            if ms == (seconds - 1) * 1000 {
                (longest, before) = (0, left);
            }
            longest = longest.max(queued);
            let gone = deliver(ms, queued).min(queued);
            queued -= gone;
            left += gone;
        }
        (longest, left - before)
    }

    #[test]
    fn the_queue_of_a_slow_sink_stays_short() {
        let (longest, left) = play(10, 20 * MS, |_, _| 3000);
        assert!((512_000..640_000).contains(&longest), "{longest}");
        assert_eq!(left, 3 * MB);
    }

    #[test]
    fn a_fast_sink_has_the_whole_buffer() {
        let (longest, _) = play(3, MS, |_, _| 500_000);
        assert!(longest >= 4 * MB, "{longest}");
    }

    /// The endpoint takes everything at once and responds a second later.
    #[test]
    fn a_sink_with_high_latency_has_the_whole_buffer() {
        let mut in_flight = VecDeque::new();
        let mut in_flight_bytes = 0;
        let (_, left) = play(30, 1000 * MS, |ms, queued| {
            in_flight.push_back((ms + 1000, queued - in_flight_bytes));
            in_flight_bytes = queued;
            let is_answered = |(due, _): &mut (u32, u64)| *due <= ms;
            let answered = in_flight.pop_front_if(is_answered).map_or(0, |(_, bytes)| bytes);
            in_flight_bytes -= answered;
            answered
        });
        assert!(left >= 39 * MB / 10, "{left}");
    }

    #[test]
    fn an_outage_does_not_lower_the_bound() {
        let (_, left) =
            play(20, 20 * MS, |ms, _| if (5000..15_000).contains(&ms) { 0 } else { 5000 });
        assert_eq!(left, 5 * MB);
    }

    #[test]
    fn a_slow_source_does_not_lower_the_bound() {
        let backlog = Backlog::new();
        for second in 1..10 {
            assert!(!backlog.is_long(1000, 10 * u64::from(second), MS, at(1000 * second)));
        }
        assert!(!backlog.is_long(4 * MB, 200, MS, at(11_000)));
    }

    /// The sink was slow for a while, so the limit was low.
    #[test]
    fn a_bound_grows_with_the_rate() {
        let (longest, left) = play(20, 20 * MS, |ms, _| if ms < 5000 { 1000 } else { 40_000 });
        assert!(longest > 2 * MB, "{longest}");
        assert_eq!(left, 40 * MB);
    }
}
