//! Messages of metric clients: the parser compared with its twin, and whole messages compared with
//! their parts.

use crate::lines::lossy;
use millstream_points::dogstatsd::{Options, parse, scalar, unescaped};
use millstream_points::{
    Event, Extra, Fault, Grouped, Log, Note, ServiceCheck, Visit, metricserver,
};
use millstream_series::{Generation, Limits, Point, Shard, TagStyle, Values};

pub const LINE_WORDS: &[&[u8]] = &[
    b"\n",
    b"\r\n",
    b"|",
    b":",
    b"|c",
    b"|g",
    b"|ms",
    b"|h",
    b"|d",
    b"|s",
    b"|@0.5",
    b"|#env:prod,a",
    b"|T1656581400",
    b"|c:ci-1,in-2",
    b"|e:it-false",
    b"|card:low",
    b"_e{1,2}:a|bc",
    b"_e{",
    b"}:",
    b"_sc|a|0",
    b"|m:",
    b"|d:12",
    b"|h:x",
    b"|p:low",
    b"|t:error",
    b"1:2:3",
    b":2|c",
    b"|@0.5:3|g",
    b"-1",
    b"+1.5",
    b"nan",
    b"1e308",
    b"9007199254740993",
    b"\\n",
    b"\xFF",
    b"\xC3\xA9",
];

pub const PACK_WORDS: &[&[u8]] = &[
    b"\x96",
    b"\x91",
    b"\xA4emit",
    b"\xA5reset",
    b"\xA7counter",
    b"\xA8ts_store",
    b"\xA5meter",
    b"\xA1a",
    b"\xA11",
    b"\xA7k=v|l=w",
    b"\xAA1700000000",
    b"\xA0",
    b"\xC0",
    b"\xC2",
    b"\xC4\x01a",
    b"\xD9\x20",
    b"\xDA\x00\x03",
    b"\xDB\x00\x00\x00\x01",
    b"\xDC\x00\x02",
    b"\xDD\xFF\xFF\xFF\xFF",
    b"\xDF\xFF\xFF\xFF\xFF",
    b"\x81\xA1k\xA1v",
    b"\xCB\x3F\xF8\x00\x00\x00\x00\x00\x00",
    b"\xCF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF",
    b"\xC7\x01\x05a",
    b"hello\n",
];

const ARRIVED_NS: u64 = 1_700_000_000_900_000_000;

/// A complete point message.
const GOOD: &[u8] = b"\x94\xA4emit\xA5store\xA1a\xA11";

/// A report of the parser, as text.
#[derive(Debug, PartialEq)]
enum Tell {
    Point(String),
    Event(String, String),
    Check(String),
    Fault(&'static str, Vec<u8>),
    Note(&'static str, Vec<u8>),
}

/// Reports of the parser about a message. Each text is a part of the message.
struct Told<'a> {
    message: &'a [u8],
    all: Vec<Tell>,
}

impl<'a> Told<'a> {
    fn new(message: &'a [u8]) -> Told<'a> {
        Told { message, all: Vec::new() }
    }

    fn inside(&self, text: &[u8]) {
        let (all, part) = (self.message.as_ptr_range(), text.as_ptr_range());
        let is_inside = all.start <= part.start && part.end <= all.end;
        assert!(text.is_empty() || is_inside, "{} is not of the message", lossy(text));
    }

    fn take(&mut self, point: &Point<'_>, extra: &Extra<'_>) {
        [point.name, point.tags].into_iter().for_each(|text| self.inside(text));
        [extra.container, extra.external, extra.cardinality]
            .into_iter()
            .for_each(|text| self.inside(text));
        if let Values::Member(text) = point.values {
            self.inside(text);
        }
        assert!(!point.name.is_empty() && point.sample_rate > 0.0 && point.sample_rate <= 1.0);
        assert!(point.timestamp.is_none_or(|seconds| seconds > 0));
        self.all.push(Tell::Point(format!("{point:?} {extra:?}")));
    }
}

impl<'a> Visit<'a> for Told<'a> {
    fn point(&mut self, point: Point<'a>, extra: &Extra<'a>) {
        assert!(!matches!(point.values, Values::Numbers(_)));
        self.take(&point, extra);
    }

    fn packed(&mut self, point: &Point<'_>, extra: &Extra<'a>) {
        assert!(matches!(point.values, Values::Numbers([_, ..])));
        self.take(point, extra);
    }

    fn event(&mut self, event: &Event<'a>) {
        let options =
            [event.host, event.aggregation_key, event.priority, event.source, event.alert];
        let texts =
            [event.title, event.text, event.tags].map(Some).into_iter().chain(options).flatten();
        texts.for_each(|text| self.inside(text.as_bytes()));
        assert!(unescaped(event.text).len() <= event.text.len());
        self.all.push(Tell::Event(event.title.to_owned() + event.text, format!("{event:?}")));
    }

    fn service_check(&mut self, check: &ServiceCheck<'a>) {
        let texts = [Some(check.name), Some(check.tags), check.host, check.message];
        texts.into_iter().flatten().for_each(|text| self.inside(text.as_bytes()));
        assert!(check.status <= 3 && !check.name.is_empty());
        self.all.push(Tell::Check(format!("{check:?}")));
    }

    fn log(&mut self, log: &Log<'a>) {
        let fields = log.fields.iter().flat_map(|(key, value)| [*key, *value]);
        let texts = [log.level, log.name, log.message, log.tags].into_iter().chain(fields);
        texts.for_each(|text| self.inside(text.as_bytes()));
        assert!(!log.name.is_empty() && log.fields.len() <= 32);
        self.all.push(Tell::Event(String::new(), format!("{log:?}")));
    }

    fn fault(&mut self, fault: Fault, text: &'a [u8]) {
        self.inside(text);
        self.all.push(Tell::Fault(fault.name(), text.to_vec()));
    }

    fn note(&mut self, note: Note, text: &'a [u8]) {
        self.inside(text);
        self.all.push(Tell::Note(note.name(), text.to_vec()));
    }
}

/// Checks that the parser reports the same as its twin, that every line that is not empty has a
/// report, and that a line that is sent alone has the same report.
pub fn dogstatsd(input: &[u8]) {
    for options in [false, true].map(|gauge_deltas| Options { gauge_deltas }) {
        let (mut told, mut expected) = (Told::new(input), Told::new(input));
        parse(input, options, 7, &mut told);
        scalar::parse(input, options, 7, &mut expected);
        assert_eq!(told.all, expected.all, "{}", lossy(input));
        // An event can have several lines, even if it is invalid as a whole.
        let has_lines = |tell: &Tell| match tell {
            Tell::Event(text, _) => text.contains('\n'),
            Tell::Fault(_, text) => text.contains(&b'\n'),
            _ => false,
        };
        if !told.all.iter().any(has_lines) {
            lines_alone(options, input, told.all);
        }
    }
    add_all(TagStyle::DogStatsd, input, |store| parse(input, Options::default(), 7, store));
}

fn lines_alone(options: Options, input: &[u8], whole: Vec<Tell>) {
    let mut parts = Vec::new();
    for line in input.split(|byte| *byte == b'\n') {
        let mut told = Told::new(line);
        parse(line, options, 7, &mut told);
        let is_empty = matches!(line, b"" | b"\r");
        let answers = told.all.iter().filter(|tell| !matches!(tell, Tell::Note(..))).count();
        assert_eq!(answers == 0, is_empty, "{}", lossy(line));
        parts.extend(told.all);
    }
    let parts: Vec<Tell> = parts.into_iter().map(same_reason).collect();
    assert_eq!(whole.into_iter().map(same_reason).collect::<Vec<_>>(), parts, "{}", lossy(input));
}

/// Replaces the reason why an event is invalid, which can depend on a line that only appears to
/// belong to the event.
fn same_reason(tell: Tell) -> Tell {
    match tell {
        Tell::Fault(_, text) if text.starts_with(b"_e{") => Tell::Fault("bad_event", text),
        tell => tell,
    }
}

/// Checks that bytes before a point in a message do not change the point.
pub fn metric_server(input: &[u8]) {
    let mut told = Told::new(input);
    metricserver::parse(input, ARRIVED_NS, &mut told);
    assert!(told.all.len() <= 2 * input.len(), "the parser reports more bytes than there are");
    let ends = |tell: &Tell| matches!(tell, Tell::Fault("truncated" | "not_array", _));
    let is_read = !told.all.iter().any(ends);
    assert!(told.all.iter().rev().skip(1).all(|tell| !ends(tell)), "{:?}", told.all);
    // Plain text ends at the end of its line.
    let message = [input, b"\n", GOOD].concat();
    let mut more = Told::new(&message);
    metricserver::parse(&message, ARRIVED_NS, &mut more);
    if is_read {
        assert_eq!(more.all[..told.all.len()], told.all);
        let last = &more.all[told.all.len()..];
        assert!(matches!(last, [Tell::Point(point)] if point.contains("Store")), "{last:?}");
    }
    add_all(TagStyle::Pairs, input, |store| metricserver::parse(input, ARRIVED_NS, store));
}

/// Adds points to a shard, and counts them.
struct Store<'s, 'a> {
    grouped: Grouped<'s, 'a>,
    values: u64,
}

impl<'a> Visit<'a> for Store<'_, 'a> {
    fn point(&mut self, point: Point<'a>, _: &Extra<'a>) {
        self.values += 1;
        self.grouped.add(point);
    }

    fn packed(&mut self, point: &Point<'_>, _: &Extra<'a>) {
        if let Values::Numbers(values) = point.values {
            self.values += values.len() as u64;
        }
        self.grouped.add_now(point);
    }

    fn event(&mut self, _: &Event<'a>) {}

    fn service_check(&mut self, _: &ServiceCheck<'a>) {}

    fn fault(&mut self, _: Fault, _: &'a [u8]) {}

    fn note(&mut self, _: Note, _: &'a [u8]) {}
}

/// Checks that a store takes every reported value, except values that are not finite or not UTF-8,
/// and gauges beyond a limit.
fn add_all<'a>(style: TagStyle, input: &'a [u8], parse: impl FnOnce(&mut Store<'_, 'a>)) {
    use millstream_series::Reason;
    let mut shard = Shard::new(style, &Limits::default(), 1);
    let mut store = Store { grouped: Grouped::new(&mut shard), values: 0 };
    parse(&mut store);
    let values = store.values;
    drop(store);
    let generation = shard.swap_generation(Generation::default());
    let counts = generation.counts();
    let rejecting = [Reason::NotFinite, Reason::Utf8, Reason::OverflowGauge];
    let rejected: u64 = rejecting.map(|reason| counts.of(reason)).iter().sum();
    assert_eq!(counts.taken + rejected, values, "{counts:?}: {}", lossy(input));
}
