//! Input for a tracing pipeline: spans and annotations as JSON documents of about 360 bytes each.

use std::io::{self, Write};

const METHODS: [&str; 4] = ["GET", "GET", "POST", "PUT"];
const PATHS: [&str; 5] =
    ["/api/v1/orders", "/api/v1/items", "/api/v1/cart/items", "/login", "/search"];
const SERVICES: [&str; 5] = ["checkout", "inventory", "payments", "frontend", "recommendations"];
const EVENTS: [&str; 4] = ["cache.miss", "retry", "queue.enter", "pool.exhausted"];
/// Number of annotations per hundred records.
const ANNOTATIONS: u32 = 25;
/// Time of the first record, in milliseconds since 1970.
const START_MS: u64 = 1_763_700_000_000;

/// Writes records; the same seed gives the same records.
pub struct Spans {
    random: fastrand::Rng,
    ms: u64,
}

impl Spans {
    /// Creates the load for a seed.
    pub fn new(seed: u64) -> Spans {
        Spans { random: fastrand::Rng::with_seed(seed), ms: START_MS }
    }

    /// Writes the next record.
    pub fn write(&mut self, out: &mut Vec<u8>) -> io::Result<()> {
        self.ms += u64::from(self.random.u8(..) < 16);
        if self.random.u32(..100) < ANNOTATIONS { self.annotation(out) } else { self.span(out) }
    }

    fn pick<'a>(&mut self, of: &[&'a str]) -> &'a str {
        of[self.random.usize(..of.len())]
    }

    fn span(&mut self, out: &mut Vec<u8>) -> io::Result<()> {
        let (method, path, service) =
            (self.pick(&METHODS), self.pick(&PATHS), self.pick(&SERVICES));
        let [trace, span, parent] = [(); 3].map(|()| self.random.i64(..));
        let (item, micros) = (self.random.u32(..100_000), self.random.u32(100..2_000_000));
        let (host, status) =
            (self.random.u8(..), [200, 200, 200, 404, 500][self.random.usize(..5)]);
        write!(
            out,
            "{{\"type\":\"S\",\"traceId\":{trace},\"spanId\":{span},\"parentId\":{parent},\
             \"timestamp\":{},\"duration\":{micros},\"name\":\"{method} {path}\",\
             \"service\":\"{service}\",\"host\":\"10.4.7.{host}\",\"status\":{status},\
             \"tags\":{{\"http.method\":\"{method}\",\"http.url\":\"{path}?id={item}&page=2\",\
             \"user.agent\":\"Mozilla/5.0 (X11; Linux x86_64)\",\"thread\":\"worker-{}\"}}}}",
            self.ms,
            item % 32
        )
    }

    fn annotation(&mut self, out: &mut Vec<u8>) -> io::Result<()> {
        let (event, service) = (self.pick(&EVENTS), self.pick(&SERVICES));
        let [trace, span] = [(); 2].map(|()| self.random.i64(..));
        let (key, host) = (self.random.u32(..1_000_000), self.random.u8(..));
        write!(
            out,
            "{{\"type\":\"A\",\"traceId\":{trace},\"spanId\":{span},\"timestamp\":{},\
             \"event\":\"{event}\",\"service\":\"{service}\",\"host\":\"10.4.7.{host}\",\
             \"value\":\"user:{key} said \\\"not found\\\" after 3 attempts; the entry expired {key} ms \
             ago and is loaded from the table accounts again, which takes as long as the first time\"}}",
            self.ms
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_have_the_size_of_the_load_and_repeat_with_the_seed() {
        let load = |count: u64| {
            let (mut spans, mut out) = (Spans::new(7), Vec::new());
            (0..count).for_each(|_| spans.write(&mut out).unwrap());
            out
        };
        let bytes = load(10_000);
        assert!((340..380).contains(&(bytes.len() / 10_000)), "{}", bytes.len() / 10_000);
        assert_eq!(load(10_000), bytes);
    }
}
