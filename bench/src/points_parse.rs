//! Measures the conversion of metric clients' messages to points. The parser of DogStatsD is
//! compared with a newline scan of the same bytes and with a parser that works byte by byte. Both
//! parsers also run with the store.

use crate::measure::{Samples, progress};
use crate::report::{Report, Table};
use crate::scan::ns_per_item;
use fastrand::Rng;
use millstream_points::dogstatsd::{self, Options, scalar};
use millstream_points::{Event, Extra, Fault, Grouped, Note, ServiceCheck, Visit, metricserver};
use millstream_series::{Limits, Point, Shard, TagStyle};
use std::hint::black_box;
use std::io;

/// Number of lines of one load: more distinct lines than the branch predictor can learn.
const LINES: usize = 20_000;
const SERIES: u64 = 10_000;
const REPETITIONS: usize = 9;
const LARGE_BYTES: usize = 8 << 10;

/// Measures and reports the parsers.
pub fn run(report: &mut Report) -> io::Result<()> {
    let mut table = Table::new(
        "points_parse",
        "Messages to points: ns per point",
        &["load", "bytes of a point", "line ends", "twin", "parser", "parser and store"],
    );
    let (lines, counts, mixed) = (lines(), counts(), mixed());
    for (name, messages) in [
        ("dogstatsd, ten counts", together(&counts, |message, _| message.lines < 10)),
        ("dogstatsd, ten lines", together(&lines, |message, _| message.lines < 10)),
        ("dogstatsd, one line", together(&lines, |_, _| false)),
        (
            "dogstatsd, 8 KB",
            together(&lines, |message, line| message.bytes.len() + line < LARGE_BYTES),
        ),
        (
            "dogstatsd, ten lines, types and fields mixed",
            together(&mixed, |message, _| message.lines < 10),
        ),
    ] {
        progress(&format!("points-parse: {name}"));
        let ns = dogstatsd(&messages);
        row(&mut table, name, &messages, ns);
    }
    for (name, per_message) in [("metricserver, ten points", 10), ("metricserver, one point", 1)] {
        progress(&format!("points-parse: {name}"));
        let messages = msgpack(per_message);
        row(&mut table, name, &messages, metric_server(&messages));
    }
    table.note(
        "Line ends: scan::newlines over the same bytes, the least that any parser of lines does. Twin: the same \
         answers byte by byte with the standard library."
            .to_owned(),
    );
    report.add(table)
}

/// A datagram.
#[derive(Default)]
struct Message {
    bytes: Vec<u8>,
    lines: usize,
}

fn row(table: &mut Table, name: &str, messages: &[Message], ns: [f64; 4]) {
    let (bytes, points) = messages.iter().fold((0, 0), |(bytes, points), message| {
        (bytes + message.bytes.len(), points + message.lines)
    });
    let ns = ns.map(|ns| if ns.is_nan() { String::new() } else { format!("{ns:.1}") });
    let what = [name.to_owned(), format!("{:.0}", bytes as f64 / points as f64)];
    table.row(what.into_iter().chain(ns).collect());
}

/// Returns lines of one application, each with a name, a value and four tags.
fn lines() -> Vec<String> {
    let mut random = Rng::with_seed(1);
    let mut below = |n: u64| random.u64(..n);
    let names = [
        "app.requests.latency",
        "app.requests.count",
        "db.pool.wait",
        "cache.lookups.time",
        "queue.depth",
    ];
    let line = |_| {
        let series = below(SERIES) as usize;
        let (name, web, route) = (names[series % 5], series / 5 % 200, series / 1000);
        // The values of a series are within one power of ten.
        let value = (1000 + below(9000)) as f64 / [1000.0, 100.0, 10.0, 1.0][series / 7 % 4];
        let kind = ["ms", "c", "d", "h", "g"][series % 5];
        format!(
            "{name}:{value}|{kind}|#env:prod,service:checkout,host:web-{web},route:/api/v{route}/orders"
        )
    };
    (0..LINES).map(line).collect()
}

/// Returns the lines of [`lines`] with a single type, for which the store does the least work.
fn counts() -> Vec<String> {
    let kinds = ["|ms|", "|d|", "|h|", "|g|"];
    lines()
        .into_iter()
        .map(|line| kinds.iter().fold(line, |line, kind| line.replace(kind, "|c|")))
        .collect()
}

/// Returns the lines of [`lines`] as sent by different clients: some with additional fields, with
/// several values, or without tags.
fn mixed() -> Vec<String> {
    let mut random = Rng::with_seed(2);
    let mut lines = lines();
    for line in &mut lines {
        match random.u64(..8) {
            0 => line.push_str("|@0.5"),
            1 => line.push_str("|c:ci-0123456789abcdef"),
            2 => *line = line.replacen("|#", "|@0.1|#", 1),
            3 => *line = line.replacen('|', ":12:13|", 1),
            4 => *line = line.split("|#").next().unwrap_or_default().to_owned(),
            _ => {}
        }
    }
    lines
}

/// Joins lines into datagrams; `more` decides whether a datagram also gets a line with this number
/// of bytes.
fn together(lines: &[String], more: impl Fn(&Message, usize) -> bool) -> Vec<Message> {
    let mut messages: Vec<Message> = Vec::new();
    for line in lines {
        match messages.last_mut().filter(|message| more(message, line.len())) {
            Some(message) => {
                message.bytes.push(b'\n');
                message.bytes.extend_from_slice(line.as_bytes());
                message.lines += 1;
            }
            None => messages.push(Message { bytes: line.clone().into_bytes(), lines: 1 }),
        }
    }
    messages
}

/// Returns the points of [`lines`] in the metric server's format.
fn msgpack(per_message: usize) -> Vec<Message> {
    let mut random = Rng::with_seed(3);
    let text = |out: &mut Vec<u8>, text: &str| {
        match text.len() {
            len @ ..32 => out.push(0xA0 + len as u8),
            len => out.extend([0xD9, len as u8]),
        }
        out.extend_from_slice(text.as_bytes());
    };
    let mut message = |_| {
        let mut bytes = if per_message == 1 { vec![] } else { vec![0x90 + per_message as u8] };
        for _ in 0..per_message {
            let series = random.u64(..SERIES);
            let tags =
                format!("env=prod|service=checkout|host=web-{}|route=/api/orders", series / 5);
            let kind =
                ["counter", "timer", "store", "rate_counter", "meter"][(series % 5) as usize];
            let value = ((1000 + random.u64(..9000)) as f64
                / [1000.0, 100.0, 10.0, 1.0][(series / 7 % 4) as usize])
                .to_string();
            bytes.extend_from_slice(&[0x96]);
            ["emit", kind, "app.requests.latency", &value, &tags, ""]
                .iter()
                .for_each(|part| text(&mut bytes, part));
        }
        Message { bytes, lines: per_message }
    };
    (0..LINES / per_message).map(&mut message).collect()
}

/// Reads every point and keeps none of them.
#[derive(Default)]
struct Look {
    points: usize,
    faults: usize,
}

impl<'a> Visit<'a> for Look {
    #[inline(always)]
    fn point(&mut self, point: Point<'a>, _: &Extra<'a>) {
        black_box(&point);
        self.points += 1;
    }

    fn packed(&mut self, point: &Point<'_>, _: &Extra<'a>) {
        black_box(point);
        self.points += 1;
    }

    fn event(&mut self, _: &Event<'a>) {}

    fn service_check(&mut self, _: &ServiceCheck<'a>) {}

    fn fault(&mut self, _: Fault, _: &'a [u8]) {
        self.faults += 1;
    }

    fn note(&mut self, _: Note, _: &'a [u8]) {}
}

/// Adds every point to a shard.
struct Store<'s, 'a>(Grouped<'s, 'a>);

impl<'a> Visit<'a> for Store<'_, 'a> {
    #[inline(always)]
    fn point(&mut self, point: Point<'a>, _: &Extra<'a>) {
        self.0.add(point);
    }

    fn packed(&mut self, point: &Point<'_>, _: &Extra<'a>) {
        self.0.add_now(point);
    }

    fn event(&mut self, _: &Event<'a>) {}

    fn service_check(&mut self, _: &ServiceCheck<'a>) {}

    fn fault(&mut self, _: Fault, _: &'a [u8]) {}

    fn note(&mut self, _: Note, _: &'a [u8]) {}
}

/// Returns the ns per point of the newline scan, the byte-by-byte parser, the parser, and the
/// parser with the store.
fn dogstatsd(messages: &[Message]) -> [f64; 4] {
    let (mut ends, options) = (Vec::new(), Options::default());
    let mut shard = Shard::new(TagStyle::DogStatsd, &Limits::default(), 7);
    medians(
        messages,
        [
            &mut || {
                messages.iter().for_each(|message| {
                    ends.clear();
                    millstream_scan::newlines(black_box(&message.bytes), &mut ends);
                    black_box(&mut ends);
                });
            },
            &mut || look(messages, |message, look| scalar::parse(message, options, 1, look)),
            &mut || look(messages, |message, look| dogstatsd::parse(message, options, 1, look)),
            &mut || {
                store(messages, &mut shard, |message, store| {
                    dogstatsd::parse(message, options, 1, store)
                })
            },
        ],
    )
}

fn metric_server(messages: &[Message]) -> [f64; 4] {
    let mut shard = Shard::new(TagStyle::Pairs, &Limits::default(), 7);
    let [.., parser, store] = medians(
        messages,
        [
            &mut || {},
            &mut || {},
            &mut || look(messages, |message, look| metricserver::parse(message, 1, look)),
            &mut || {
                store(messages, &mut shard, |message, store| metricserver::parse(message, 1, store))
            },
        ],
    );
    [f64::NAN, f64::NAN, parser, store]
}

fn look<'a>(messages: &'a [Message], mut parse: impl FnMut(&'a [u8], &mut Look)) {
    let mut look = Look::default();
    messages.iter().for_each(|message| parse(black_box(&message.bytes), &mut look));
    assert_eq!((look.points, look.faults), (points(messages), 0));
}

fn store<'a>(
    messages: &'a [Message],
    shard: &mut Shard,
    mut parse: impl FnMut(&'a [u8], &mut Store<'_, 'a>),
) {
    let mut store = Store(Grouped::new(shard));
    messages.iter().for_each(|message| parse(black_box(&message.bytes), &mut store));
}

fn points(messages: &[Message]) -> usize {
    messages.iter().map(|message| message.lines).sum()
}

/// Returns the medians of the passes, with interleaved samples.
fn medians(messages: &[Message], mut passes: [&mut dyn FnMut(); 4]) -> [f64; 4] {
    let mut samples = [(); 4].map(|()| Samples::default());
    for _ in 0..REPETITIONS {
        for (pass, samples) in passes.iter_mut().zip(&mut samples) {
            samples.push(ns_per_item(points(messages), &mut *pass));
        }
    }
    samples.map(|samples| samples.median())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loads_are_points_and_nothing_else() {
        let ten = together(&lines(), |message, _| message.lines < 10);
        assert_eq!((ten.len(), points(&ten)), (LINES / 10, LINES));
        for messages in [ten, together(&mixed(), |_, _| false)] {
            look(&messages, |message, look| dogstatsd::parse(message, Options::default(), 1, look));
        }
        for messages in [msgpack(10), msgpack(1)] {
            look(&messages, |message, look| metricserver::parse(message, 1, look));
        }
    }
}
