//! Records a parser's calls, as one string per call.

use millstream_points::{Event, Extra, Fault, Log, Note, ServiceCheck, Visit};
use millstream_series::{Point, Values};

#[derive(Default)]
pub struct Recorder(pub Vec<String>);

fn text(bytes: &[u8]) -> String {
    bytes.escape_ascii().to_string()
}

fn extra(extra: &Extra<'_>) -> String {
    let fields = [("c", extra.container), ("e", extra.external), ("card", extra.cardinality)];
    let present = fields.into_iter().filter(|(_, value)| !value.is_empty());
    present.map(|(key, value)| format!(" {key}={}", text(value))).collect()
}

/// Formats the options that are present.
fn options(options: &[(&str, Option<&str>)], timestamp: Option<i64>) -> String {
    let present =
        options.iter().filter_map(|(key, value)| value.map(|value| format!(" {key}={value}")));
    let time = timestamp.map(|seconds| format!(" at {seconds}")).unwrap_or_default();
    present.collect::<String>() + &time
}

fn point(point: &Point<'_>, origin: &Extra<'_>) -> String {
    let value = match point.values {
        Values::Number(value) => format!("{value:?}"),
        Values::Numbers(values) => format!("{values:?}"),
        Values::Change(by) => format!("change {by:?}"),
        Values::Member(member) => format!("member {}", text(member)),
    };
    let tags =
        if point.tags.is_empty() { String::new() } else { format!(" #{}", text(point.tags)) };
    let rate =
        if point.sample_rate == 1.0 { String::new() } else { format!(" @{}", point.sample_rate) };
    let time = point.timestamp.map(|seconds| format!(" at {seconds}")).unwrap_or_default();
    format!("{:?} {} {value}{tags}{rate}{time}{}", point.kind, text(point.name), extra(origin))
}

impl<'a> Visit<'a> for Recorder {
    fn point(&mut self, received: Point<'a>, extra: &Extra<'a>) {
        assert!(!matches!(received.values, Values::Numbers(_)));
        self.0.push(point(&received, extra));
    }

    fn packed(&mut self, received: &Point<'_>, extra: &Extra<'a>) {
        assert!(matches!(received.values, Values::Numbers([_, ..])));
        self.0.push(point(received, extra));
    }

    fn event(&mut self, event: &Event<'a>) {
        let Event { title, text, host, aggregation_key, priority, source, alert, tags, .. } =
            *event;
        let fields =
            [("h", host), ("k", aggregation_key), ("p", priority), ("s", source), ("t", alert)];
        let fields = options(&fields, event.timestamp);
        self.0.push(format!("event {title:?} {text:?}{fields} #{tags}{}", extra(&event.extra)));
    }

    fn service_check(&mut self, check: &ServiceCheck<'a>) {
        let fields = options(&[("h", check.host), ("m", check.message)], check.timestamp);
        let (name, status, tags) = (check.name, check.status, check.tags);
        self.0.push(format!("check {name:?} {status}{fields} #{tags}{}", extra(&check.extra)));
    }

    fn log(&mut self, log: &Log<'a>) {
        let Log { level, name, message, tags, unix_ms, ref fields, .. } = *log;
        self.0.push(format!("log {level} {name} {message:?} #{tags} at {unix_ms:?} {fields:?}"));
    }

    fn fault(&mut self, fault: Fault, bytes: &'a [u8]) {
        self.0.push(format!("fault {} {}", fault.name(), text(bytes)));
    }

    fn note(&mut self, note: Note, bytes: &'a [u8]) {
        self.0.push(format!("note {} {}", note.name(), text(bytes)));
    }
}
