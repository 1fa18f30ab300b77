//! How much may wait for a sink so that what is read next is delivered soon.
//!
//! Behind a sink of 3 MB/s a queue of 4 MiB is a delay of 1.4 s for every file of a source, however
//! quiet. What a source leaves unread costs nobody a delay: a quiet file is read before the rest of
//! a flood. So the queue is bounded by time: by the bytes that the sink delivers while one payload
//! is on its way, and in [`QUEUE_TIME`]. The product of rate and round trip keeps a sink busy that
//! is slow to answer; the addition lets the bound grow while that raises the rate.

use parking_lot::Mutex;
use std::time::Duration;

/// Time that payloads may wait beside the shortest that a delivery takes.
const QUEUE_TIME: Duration = Duration::from_millis(50);

/// Shortest time over which the rate of a sink is measured.
const WINDOW_MIN: Duration = Duration::from_millis(500);

/// Bytes that may always wait: a few blocks, so that payloads make whole requests.
const BYTES_MIN: u64 = 512 * 1024;

/// The bound on what waits for one sink, by its rate and its round trip.
pub(crate) struct Backlog(Mutex<State>);

struct State {
    /// No bound before the rate is known: a sink that is slow to answer needs all it can get.
    bytes_max: u64,
    window: Window,
}

/// A time over which the rate is measured.
struct Window {
    began: Duration,
    /// Bytes that had left the queue when it began.
    left: u64,
    /// Whether the sink had something to do at every look: its rate is no lower than what left.
    is_busy: bool,
    /// Whether the bound was reached: without it more might have left.
    is_reached: bool,
}

impl Backlog {
    /// A bound for a sink of which nothing is known yet.
    pub fn new() -> Backlog {
        // Nobody has looked at it yet.
        let window = Window { is_busy: false, ..Window::new(Duration::ZERO, 0) };
        Backlog(Mutex::new(State { bytes_max: u64::MAX, window }))
    }

    /// Whether `queued` bytes are too many. `left` bytes have left the queue so far; the shortest
    /// delivery took `round_trip`.
    pub fn is_long(&self, queued: u64, left: u64, round_trip: Duration, now: Duration) -> bool {
        let mut state = self.0.lock();
        state.measure(left, round_trip, now);
        let is_long = queued >= state.bytes_max;
        state.window.is_reached |= is_long;
        state.window.is_busy &= queued >= BYTES_MIN / 2;
        is_long
    }
}

impl State {
    /// Ends a window that is long enough. One in which nothing left says nothing: the sink is away.
    fn measure(&mut self, left: u64, round_trip: Duration, now: Duration) {
        let elapsed = now.saturating_sub(self.window.began);
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
    fn new(began: Duration, left: u64) -> Window {
        Window { began, left, is_busy: true, is_reached: false }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::VecDeque;

    const MS: Duration = Duration::from_millis(1);
    const MB: u64 = 1_000_000;

    /// Lets a source fill the queue of a sink for `seconds`. `deliver` says how many bytes of those
    /// queued leave in a millisecond. The longest queue of the last second, and the bytes that left
    /// in it.
    fn play(
        seconds: u32,
        round_trip: Duration,
        mut deliver: impl FnMut(u32, u64) -> u64,
    ) -> (u64, u64) {
        let backlog = Backlog::new();
        let (mut queued, mut left, mut longest, mut before) = (0, 0, 0, 0);
        for ms in 0..seconds * 1000 {
            while !backlog.is_long(queued, left, round_trip, ms * MS) && queued < 4 * MB {
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
    fn what_waits_for_a_slow_sink_is_delivered_soon() {
        let (longest, left) = play(10, 20 * MS, |_, _| 3000);
        assert!((512_000..640_000).contains(&longest), "{longest}");
        assert_eq!(left, 3 * MB);
    }

    #[test]
    fn a_fast_sink_has_the_whole_buffer() {
        let (longest, _) = play(3, MS, |_, _| 500_000);
        assert!(longest >= 4 * MB, "{longest}");
    }

    /// It takes all that is queued at once, and answers a second later.
    #[test]
    fn a_sink_that_is_slow_to_answer_has_the_whole_buffer() {
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
    fn a_sink_that_was_away_has_no_smaller_bound() {
        let (_, left) =
            play(20, 20 * MS, |ms, _| if (5000..15_000).contains(&ms) { 0 } else { 5000 });
        assert_eq!(left, 5 * MB);
    }

    #[test]
    fn a_source_that_brings_little_does_not_lower_the_bound() {
        let backlog = Backlog::new();
        for second in 1..10 {
            assert!(!backlog.is_long(1000, 10 * u64::from(second), MS, second * 1000 * MS));
        }
        assert!(!backlog.is_long(4 * MB, 200, MS, 11_000 * MS));
    }

    /// The sink was slow for a while, and the bound with it.
    #[test]
    fn a_bound_grows_with_the_rate() {
        let (longest, left) = play(20, 20 * MS, |ms, _| if ms < 5000 { 1000 } else { 40_000 });
        assert!(longest > 2 * MB, "{longest}");
        assert_eq!(left, 40 * MB);
    }
}
