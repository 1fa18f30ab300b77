//! The points of a load: the same seed generates the same points in the same packets.

use super::protocol::{Protocol, Type, Values};
use crate::random::mix;
use millstream_components::util::formats::push_decimal;

/// Name of the counter that counts every point, sent once per packet.
const COUNTED: &str = "millstream.generated";
/// Name of the metric that carries the number of a packet's last point.
const LAST: &str = "millstream.generated.last";

/// Number of names; tags distinguish additional series.
const NAMES: usize = 20;

/// Keys and values of the tags after the first tag, which is different for every series.
const TAGS: [(&str, &[&str]); 6] = [
    ("env", &["prod"]),
    ("service", &["checkout", "search", "payment", "catalog"]),
    ("region", &["eu-west-1", "us-east-2"]),
    ("route", &["/api/v1/orders", "/api/v1/users", "/login", "/"]),
    ("status", &["200", "201", "404", "500"]),
    ("version", &["1.41.0", "1.42.0"]),
];

/// Parameters of a load.
#[derive(Clone, Debug)]
pub struct Shape {
    /// Wire format.
    pub protocol: Protocol,
    /// Number of series.
    pub series: usize,
    /// Tags of each series.
    pub tags: usize,
    /// Types, with their shares of the series.
    pub mix: Vec<(Type, u64)>,
    /// Maximum size of a packet in bytes; a single point is sent regardless of its size.
    pub packet_bytes_max: usize,
    /// Maximum number of points in a packet, excluding the points that number it.
    pub packet_points_max: usize,
    /// Whether each packet contains its point count.
    pub numbered: bool,
    /// Seed; the same seed generates the same values.
    pub seed: u64,
}

/// Content of a packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Content {
    /// Number of points, excluding the points that number the packet.
    pub points: u64,
    /// Number of points that number the packet.
    pub numbers: u64,
    /// Sum of the counters, excluding the points that number the packet.
    pub counters: u64,
}

/// The constant parts of a series' points.
struct Series {
    kind: Type,
    /// Offset of this series' text in `Load::text`.
    begin: usize,
    /// Offset of the value in `Load::text`.
    value: usize,
}

/// Generates packets.
pub struct Load {
    shape: Shape,
    text: Vec<u8>,
    series: Vec<Series>,
    /// Bytes reserved for the numbers of a packet.
    numbers_bytes: usize,
    made: u64,
    point: Vec<u8>,
    value: Vec<u8>,
}

impl Load {
    /// Prepares all series.
    pub fn new(shape: Shape) -> Load {
        let (mut text, mut series) = (Vec::new(), Vec::with_capacity(shape.series + 2));
        for index in 0..shape.series {
            let kind = pick(&shape.mix, index);
            add(
                &mut text,
                &mut series,
                shape.protocol,
                kind,
                &name(&shape, kind, index),
                &tags(&shape, index),
            );
        }
        for (kind, name) in shape.protocol.counter_and_gauge().into_iter().zip([COUNTED, LAST]) {
            add(&mut text, &mut series, shape.protocol, kind, name, &[]);
        }
        let mut load = Load {
            shape,
            text,
            series,
            numbers_bytes: 0,
            made: 0,
            point: Vec::new(),
            value: Vec::new(),
        };
        if load.shape.numbered {
            let mut longest = Vec::new();
            load.push_numbers(u64::MAX, u64::MAX, &mut longest);
            load.numbers_bytes = longest.len();
        }
        load
    }

    /// Returns the number of generated points.
    pub fn made(&self) -> u64 {
        self.made
    }

    /// Appends a packet of one to `most` points. `seconds` since 1970 is the time of points with a
    /// timestamp.
    pub fn packet(&mut self, most: u64, seconds: u64, out: &mut Vec<u8>) -> Content {
        let (begin, protocol) = (out.len(), self.shape.protocol);
        let most = most.min(self.shape.packet_points_max as u64).max(1);
        let mut content = Content::default();
        protocol.open(out);
        while content.points < most {
            let counted = self.make_point(seconds);
            let size = out.len() - begin + self.point.len() + self.numbers_bytes;
            if content.points > 0 && size > self.shape.packet_bytes_max {
                break;
            }
            out.extend_from_slice(&self.point);
            content.points += 1;
            content.counters += counted;
            self.made += 1;
        }
        if self.shape.numbered {
            self.push_numbers(content.points, self.made, out);
            content.numbers = 2;
        }
        protocol.close(begin, (content.points + content.numbers) as usize, out);
        content
    }

    /// Generates the next point. Returns the value that it adds to the sum of counters.
    fn make_point(&mut self, seconds: u64) -> u64 {
        let index = (self.made % self.shape.series as u64) as usize;
        let kind = self.series[index].kind;
        let random = mix(self.shape.seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ self.made);
        self.value.clear();
        push_value(kind.values, random, &mut self.value);
        let mut point = std::mem::take(&mut self.point);
        point.clear();
        self.push_point(index, &self.value, seconds, &mut point);
        self.point = point;
        if kind.name == "counter" { count(random) } else { 0 }
    }

    fn push_point(&self, index: usize, value: &[u8], seconds: u64, out: &mut Vec<u8>) {
        let (series, protocol) = (&self.series[index], self.shape.protocol);
        let end = self.series.get(index + 1).map_or(self.text.len(), |next| next.begin);
        out.extend_from_slice(&self.text[series.begin..series.value]);
        protocol.value(value, out);
        out.extend_from_slice(&self.text[series.value..end]);
        if series.kind.values == Values::StampedState {
            protocol.time(seconds.to_string().as_bytes(), out);
        }
    }

    /// Appends the points that number a packet.
    fn push_numbers(&self, points: u64, last: u64, out: &mut Vec<u8>) {
        let counted = self.shape.series;
        self.push_point(counted, points.to_string().as_bytes(), 0, out);
        self.push_point(counted + 1, last.to_string().as_bytes(), 0, out);
    }
}

fn add(
    text: &mut Vec<u8>,
    series: &mut Vec<Series>,
    protocol: Protocol,
    kind: Type,
    name: &str,
    tags: &[(String, String)],
) {
    let begin = text.len();
    protocol.head(kind, name, text);
    let value = text.len();
    protocol.tail(kind, tags, text);
    series.push(Series { kind, begin, value });
}

/// Returns the type of a series. Multiples of the golden ratio are evenly distributed, so any group
/// of consecutive series has about the same shares.
fn pick(mix: &[(Type, u64)], index: usize) -> Type {
    let whole: u64 = mix.iter().map(|(_, share)| share).sum();
    let mut at = ((index as f64 + 0.5) * 0.618_033_988_749_895).fract() * whole as f64;
    for (kind, share) in mix {
        at -= *share as f64;
        if at < 0.0 {
            return *kind;
        }
    }
    mix[0].0
}

fn name(shape: &Shape, kind: Type, index: usize) -> String {
    match shape.tags {
        0 => format!("shop.{}.{index}", kind.name),
        _ => format!("shop.{}.{}", kind.name, index % NAMES),
    }
}

fn tags(shape: &Shape, index: usize) -> Vec<(String, String)> {
    let tag = |number: usize| match (number, TAGS.get(number.wrapping_sub(1))) {
        (0, _) => ("instance".to_owned(), format!("web-{index}")),
        (_, Some((key, values))) => {
            let value = mix((index * TAGS.len() + number) as u64) as usize % values.len();
            ((*key).to_owned(), values[value].to_owned())
        }
        _ => (format!("tag{number}"), format!("value-{}", index % (number + 1))),
    };
    (0..shape.tags).map(tag).collect()
}

/// Returns the value of a counter.
fn count(random: u64) -> u64 {
    1 + (random >> 8) % 9
}

/// Appends a value derived from `random`.
fn push_value(values: Values, random: u64, out: &mut Vec<u8>) {
    match values {
        Values::Count => push_decimal(out, count(random)),
        Values::State | Values::StampedState => push_decimals(random % 10_000, 10, out),
        Values::Spread => {
            // Thousandths of a millisecond: twice as long is half as frequent.
            let longest = 100u64 << (random % 14);
            push_decimals(longest / 2 + (random >> 8) % longest, 1000, out);
        }
        Values::Member => {
            out.push(b'u');
            push_decimal(out, random % 1000);
        }
    }
}

/// Appends `number / parts`, where `parts` is a power of ten.
fn push_decimals(number: u64, parts: u64, out: &mut Vec<u8>) {
    push_decimal(out, number / parts);
    // The leading 1 keeps the zeros after the point, and is then replaced by the point.
    let dot = out.len();
    push_decimal(out, parts + number % parts);
    out[dot] = b'.';
}
