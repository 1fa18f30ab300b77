//! The two wire formats: their types, and the constant parts of a point, encoded ahead.

use std::fmt::Write as _;

/// Wire format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Protocol {
    /// Lines of DogStatsD
    Dogstatsd,
    /// Points in msgpack
    Metricserver,
}

/// How values of a type are generated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Values {
    /// Integers from 1 to 9.
    Count,
    /// A gauge with one decimal.
    State,
    /// A gauge with one decimal and the client's time.
    StampedState,
    /// Milliseconds over four orders of magnitude.
    Spread,
    /// Names from a set of a thousand.
    Member,
}

/// A type of points.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Type {
    /// Name in the option.
    pub name: &'static str,
    /// Name in a message.
    wire: &'static str,
    /// How its values are generated.
    pub values: Values,
}

const fn of(name: &'static str, wire: &'static str, values: Values) -> Type {
    Type { name, wire, values }
}

const DOGSTATSD: &[Type] = &[
    of("counter", "c", Values::Count),
    of("gauge", "g", Values::State),
    of("timer", "ms", Values::Spread),
    of("histogram", "h", Values::Spread),
    of("distribution", "d", Values::Spread),
    of("set", "s", Values::Member),
];

const METRICSERVER: &[Type] = &[
    of("counter", "counter", Values::Count),
    of("rate_counter", "rate_counter", Values::Count),
    of("meter", "meter", Values::Count),
    of("delta_counter", "delta_counter", Values::Count),
    of("store", "store", Values::State),
    of("ts_store", "ts_store", Values::StampedState),
    of("timer", "timer", Values::Spread),
    of("histogram", "histogram", Values::Spread),
];

/// Smallest msgpack array with a 16-bit length, before the points of a packet.
const ARRAY_16: [u8; 3] = [0xdc, 0, 0];

/// A msgpack array of six, and the text `emit`.
const POINT: &[u8] = b"\x96\xa4emit";

impl Protocol {
    /// Returns all types of the protocol.
    pub fn types(self) -> &'static [Type] {
        match self {
            Protocol::Dogstatsd => DOGSTATSD,
            Protocol::Metricserver => METRICSERVER,
        }
    }

    /// Returns the types of counters and gauges.
    pub fn counter_and_gauge(self) -> [Type; 2] {
        let state = self.types().iter().find(|kind| kind.values == Values::State);
        [self.types()[0], *state.unwrap_or(&self.types()[0])]
    }

    /// Appends the part of a point before the value.
    pub fn head(self, kind: Type, name: &str, out: &mut Vec<u8>) {
        match self {
            Protocol::Dogstatsd => {
                out.extend_from_slice(name.as_bytes());
                out.push(b':');
            }
            Protocol::Metricserver => {
                out.extend_from_slice(POINT);
                push_text(kind.wire.as_bytes(), out);
                push_text(name.as_bytes(), out);
            }
        }
    }

    /// Appends the part of a point after the value, without the time of a timestamped point.
    pub fn tail(self, kind: Type, tags: &[(String, String)], out: &mut Vec<u8>) {
        let (between, separator) = match self {
            Protocol::Dogstatsd => (':', ","),
            Protocol::Metricserver => ('=', "|"),
        };
        let mut text = String::new();
        for (key, value) in tags {
            let before = if text.is_empty() { "" } else { separator };
            let _ = write!(text, "{before}{key}{between}{value}");
        }
        match self {
            Protocol::Dogstatsd => {
                let mark = if text.is_empty() { "" } else { "|#" };
                out.extend_from_slice(format!("|{}{mark}{text}\n", kind.wire).as_bytes());
            }
            Protocol::Metricserver => {
                push_text(text.as_bytes(), out);
                if kind.values != Values::StampedState {
                    push_text(b"", out);
                }
            }
        }
    }

    /// Appends a value.
    pub fn value(self, text: &[u8], out: &mut Vec<u8>) {
        match self {
            Protocol::Dogstatsd => out.extend_from_slice(text),
            Protocol::Metricserver => push_text(text, out),
        }
    }

    /// Appends the time that ends a timestamped point.
    pub fn time(self, text: &[u8], out: &mut Vec<u8>) {
        self.value(text, out);
    }

    /// Appends the start of a packet.
    pub fn open(self, out: &mut Vec<u8>) {
        if self == Protocol::Metricserver {
            out.extend_from_slice(&ARRAY_16);
        }
    }

    /// Ends the packet of `points` points that starts at `begin`.
    pub fn close(self, begin: usize, points: usize, out: &mut [u8]) {
        if self == Protocol::Metricserver {
            out[begin + 1..begin + 3].copy_from_slice(&(points as u16).to_be_bytes());
        }
    }
}

/// Appends a msgpack text.
fn push_text(text: &[u8], out: &mut Vec<u8>) {
    match text.len() {
        length @ 0..32 => out.push(0xa0 | length as u8),
        length @ 32..256 => out.extend_from_slice(&[0xd9, length as u8]),
        length => {
            out.push(0xda);
            out.extend_from_slice(&(length as u16).to_be_bytes());
        }
    }
    out.extend_from_slice(text);
}
