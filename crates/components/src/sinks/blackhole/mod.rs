//! The `blackhole` sink counts and discards events, to benchmark the components upstream.

mod config;

pub use config::BlackholeConfig;

use crate::codec::CountingEncoder;
use millstream_model::{BoxFuture, DeliverError, Delivery, Encoder, Lane, LaneCx, Payload, Sink};
use parking_lot::{Condvar, Mutex};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A `blackhole` sink. It creates encoders that only count, and lanes that discard the payloads.
struct Blackhole {
    reporter: Option<Arc<Reporter>>,
}

impl Sink for Blackhole {
    fn encoder(&self) -> Box<dyn Encoder> {
        Box::new(CountingEncoder)
    }

    fn payload_format(&self) -> String {
        "blackhole/1".to_owned()
    }

    fn payload_bytes_max(&self, _: u64, _: u64) -> u64 {
        0
    }

    fn lane(&self, cx: LaneCx) -> Box<dyn Lane> {
        if let Some(reporter) = self.reporter.clone() {
            let counters = cx.counters.clone();
            std::thread::spawn(move || reporter.run(&|| counters.snapshot()));
        }
        Box::new(Nowhere)
    }

    fn close(&self) {
        if let Some(reporter) = &self.reporter {
            reporter.finish();
        }
    }
}

struct Nowhere;

impl Lane for Nowhere {
    fn deliver<'a>(&'a mut self, _: &'a Payload) -> BoxFuture<'a, Result<Delivery, DeliverError>> {
        Box::pin(async { Ok(Delivery::Durable) })
    }
}

/// Prints the rate once per interval, and the total at shutdown.
#[derive(Default)]
struct Reporter {
    interval: Duration,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    finishing: bool,
    running: bool,
}

impl Reporter {
    fn run(&self, counters: &dyn Fn() -> millstream_model::CountersSnapshot) {
        self.state.lock().running = true;
        let (begun, mut last, mut before) = (Instant::now(), Instant::now(), counters());
        loop {
            let mut state = self.state.lock();
            self.changed.wait_while_for(&mut state, |s| !s.finishing, self.interval);
            let finishing = state.finishing;
            drop(state);
            let now = counters();
            if finishing {
                print(now.sent_events, now.sent_bytes, begun.elapsed(), &now);
                break;
            }
            let events = now.sent_events - before.sent_events;
            let bytes = now.sent_bytes - before.sent_bytes;
            print(events, bytes, last.elapsed(), &now);
            last = Instant::now();
            before = now;
        }
        self.state.lock().running = false;
        self.changed.notify_all();
    }

    /// Prints the total. Waits for at most one second until it is printed.
    fn finish(&self) {
        let mut state = self.state.lock();
        state.finishing = true;
        self.changed.notify_all();
        self.changed.wait_while_for(&mut state, |s| s.running, Duration::from_secs(1));
    }
}

/// Prints the rate of these events and bytes, which were counted within `time`, and the total so
/// far.
fn print(events: u64, bytes: u64, time: Duration, total: &millstream_model::CountersSnapshot) {
    use std::io::Write;
    let seconds = time.as_secs_f64().max(1e-9);
    let rate = events as f64 / seconds;
    let mb = bytes as f64 / seconds / 1e6;
    // A closed standard output must not stop the measurement.
    let _ = writeln!(
        std::io::stdout(),
        "blackhole: {rate:.0} events/s, {mb:.1} MB/s, total {} events, {} bytes",
        total.sent_events,
        total.sent_bytes
    );
}
