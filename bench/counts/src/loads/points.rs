//! Loads that parse metric client messages into points in the metric store.

use crate::load::Load;
use crate::text::pick;
use fastrand::Rng;
use millstream_points::dogstatsd::{self, Options};
use millstream_points::{Event, Extra, Fault, Grouped, Note, ServiceCheck, Visit, metricserver};
use millstream_series::{Limits, Point, Shard, TagStyle};
use std::fmt::Write;
use std::hint::black_box;

const SERIES: u64 = 2_000;
const MESSAGES: usize = 500;
/// Points per message.
const POINTS: usize = 10;
/// Seed of the store's hashes.
const SEED: u64 = 7;

/// Adds datagrams of ten lines to the store.
pub fn dogstatsd() -> Load {
    let messages = messages(dogstatsd_message);
    let mut shard = Shard::new(TagStyle::DogStatsd, &Limits::default(), SEED);
    Load::new("point", move || {
        let mut store = Store::new(&mut shard);
        for message in &messages {
            dogstatsd::parse(black_box(message), Options::default(), 1, &mut store);
        }
        store.points()
    })
}

/// Adds metric server messages, in msgpack with ten points each, to the store.
pub fn metric_server() -> Load {
    let messages = messages(metric_server_message);
    let mut shard = Shard::new(TagStyle::Pairs, &Limits::default(), SEED);
    Load::new("point", move || {
        let mut store = Store::new(&mut shard);
        for message in &messages {
            metricserver::parse(black_box(message), 1, &mut store);
        }
        store.points()
    })
}

fn messages(write: fn(&mut Rng) -> Vec<u8>) -> Vec<Vec<u8>> {
    let mut random = Rng::with_seed(3);
    (0..MESSAGES).map(|_| write(&mut random)).collect()
}

/// Returns lines of all types; some have a sample rate, several values, or no tags.
fn dogstatsd_message(random: &mut Rng) -> Vec<u8> {
    let mut message = String::new();
    for point in 0..POINTS {
        let series = random.u64(..SERIES);
        let kind = ["ms", "c", "d", "h", "g"][(series % 5) as usize];
        let end = if point > 0 { "\n" } else { "" };
        let values = if random.u32(..8) == 0 { ":12:13" } else { "" };
        let rate = if random.u32(..8) == 0 { "|@0.5" } else { "" };
        let _ = write!(message, "{end}{}:{}{values}|{kind}{rate}", name(series), value(random));
        if random.u32(..8) > 0 {
            let (web, route) = (series / 5 % 200, series / 1000);
            let _ = write!(
                message,
                "|#env:prod,service:checkout,host:web-{web},route:/api/v{route}/orders"
            );
        }
    }
    message.into_bytes()
}

fn metric_server_message(random: &mut Rng) -> Vec<u8> {
    let mut message = Vec::new();
    push_array(&mut message, POINTS);
    for _ in 0..POINTS {
        let series = random.u64(..SERIES);
        let kind = ["counter", "timer", "store", "rate_counter", "meter"][(series % 5) as usize];
        let tags = format!("env=prod|service=checkout|host=web-{}|route=/api/orders", series / 5);
        let parts = ["emit", kind, name(series), &value(random), &tags, ""];
        push_array(&mut message, parts.len());
        parts.iter().for_each(|part| push_text(&mut message, part));
    }
    message
}

fn name(series: u64) -> &'static str {
    let names = ["app.requests.latency", "app.requests.count", "db.pool.wait", "queue.depth"];
    names[(series % 4) as usize]
}

/// Returns a number of four digits, mostly with a decimal point.
fn value(random: &mut Rng) -> String {
    let divisor = pick(random, &[1000.0, 100.0, 10.0, 1.0]);
    (random.u32(1000..10_000) as f64 / divisor).to_string()
}

/// Appends the head of a msgpack array of up to 15 elements.
fn push_array(out: &mut Vec<u8>, len: usize) {
    out.push(0x90 + len as u8);
}

/// Appends a msgpack string.
fn push_text(out: &mut Vec<u8>, text: &str) {
    match text.len() {
        len @ ..32 => out.push(0xA0 + len as u8),
        len => out.extend([0xD9, len as u8]),
    }
    out.extend_from_slice(text.as_bytes());
}

/// Adds every point to a shard.
struct Store<'s, 'a> {
    grouped: Grouped<'s, 'a>,
    points: u64,
}

impl<'s> Store<'s, '_> {
    fn new(shard: &'s mut Shard) -> Self {
        Store { grouped: Grouped::new(shard), points: 0 }
    }

    fn points(self) -> u64 {
        self.points
    }
}

impl<'a> Visit<'a> for Store<'_, 'a> {
    #[inline(always)]
    fn point(&mut self, point: Point<'a>, _: &Extra<'a>) {
        self.points += 1;
        self.grouped.add(point);
    }

    fn packed(&mut self, point: &Point<'_>, _: &Extra<'a>) {
        self.points += 1;
        self.grouped.add_now(point);
    }

    fn event(&mut self, _: &Event<'a>) {}

    fn service_check(&mut self, _: &ServiceCheck<'a>) {}

    fn fault(&mut self, fault: Fault, _: &'a [u8]) {
        panic!("{} in a valid message", fault.name());
    }

    fn note(&mut self, _: Note, _: &'a [u8]) {}
}
