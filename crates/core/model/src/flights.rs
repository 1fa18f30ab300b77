//! Time that a sink's requests spend at the endpoint.

use parking_lot::Mutex;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Measures the time during which at least one request awaits its response. The measured time
/// excludes the time when a sink fills a batch or waits before the next attempt.
#[derive(Debug, Default)]
pub struct Flights(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    is_used: bool,
    count: u32,
    since: Option<Instant>,
    ended: Duration,
}

impl Flights {
    /// Makes the time visible; it is 0 before the first request.
    pub fn register(&self) {
        self.0.lock().is_used = true;
    }

    /// Records that a request is sent. Dropping the result records the end of the request.
    pub fn begin(self: &Arc<Flights>) -> Flight {
        let mut state = self.0.lock();
        state.count += 1;
        state.since.get_or_insert_with(Instant::now);
        Flight(self.clone())
    }

    /// Returns the time so far; `None` if the sink does not count its requests.
    pub fn time(&self) -> Option<Duration> {
        let state = self.0.lock();
        let present = state.since.map_or(Duration::ZERO, |since| since.elapsed());
        state.is_used.then_some(state.ended + present)
    }
}

/// A request at an endpoint. Dropping it records the end of the request.
#[derive(Debug)]
pub struct Flight(Arc<Flights>);

impl Drop for Flight {
    fn drop(&mut self) {
        let mut state = self.0.0.lock();
        state.count -= 1;
        if state.count == 0 {
            let since = state.since.take();
            state.ended += since.map_or(Duration::ZERO, |since| since.elapsed());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread::sleep;

    #[test]
    fn only_the_time_with_a_request_counts_and_several_count_once() {
        let flights = Arc::new(Flights::default());
        assert_eq!(flights.time(), None);
        flights.register();
        assert_eq!(flights.time(), Some(Duration::ZERO));
        let (begun, first, second) = (Instant::now(), flights.begin(), flights.begin());
        sleep(Duration::from_millis(20));
        drop(first);
        assert!(flights.time() >= Some(Duration::from_millis(20)), "the second is not answered");
        drop(second);
        let time = flights.time();
        assert!(time <= Some(begun.elapsed()), "{time:?}");
        sleep(Duration::from_millis(10));
        assert_eq!(flights.time(), time);
    }
}
