//! The details of a row: the problem and the advice, then all data that the agent reports about it.

use super::api::{Component, Failure, Finding};
use super::data::Data;
use super::table::{Level, Row};
use super::views::{View, unreadable_key};
use crate::text;
use serde_json::Value;

/// A line of the details.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// Escaped text.
    pub text: String,
    /// State of the line.
    pub level: Level,
}

/// Maximum number of detail lines. A file may have a checkpoint for each of very many sinks.
const LINES_MAX: usize = 500;

/// Returns the details for a row in a view.
pub fn details(view: View, data: &Data, row: &Row) -> Vec<Line> {
    let mut lines = Vec::new();
    match view {
        View::Components | View::Series => component(data, row, &mut lines),
        View::Files => values(file(data, row).or_else(|| unreadable(data, row)), &mut lines),
        View::Rules => values(task(data, row), &mut lines),
        View::Memory => {
            let names = view.table(data).columns;
            let cells = names.iter().zip(&row.cells);
            cells.for_each(|(column, cell)| add(&mut lines, column.name, &cell.shown()));
        }
    }
    lines.truncate(LINES_MAX);
    lines
}

fn add(lines: &mut Vec<Line>, name: &str, value: &str) {
    lines.push(Line { text: text::plain(&format!("{name}: {value}")), level: Level::Good });
}

fn component(data: &Data, row: &Row, lines: &mut Vec<Line>) {
    let is_it = |other: &&Component| format!("{} {}", other.kind, other.id) == row.key;
    let Some(component) = data.components().iter().find(is_it) else { return };
    if let Some(error) = &component.error {
        bad(lines, &format!("error: {error}"));
    }
    failures(data, component, lines);
    for (path, reason) in &component.unreadable {
        bad(lines, &format!("cannot read {path}: {reason}"));
    }
    match component.kind.as_str() {
        "source" => diagnosis(data, &component.id, lines),
        "sink" => refusal(data, &component.id, lines),
        _ => {}
    }
    bottleneck(data, &component.id, lines);
    let all = list(data.snapshot.as_ref().map(|snapshot| &snapshot.json["components"]));
    let is_it = |other: &&Value| {
        other["id"] == component.id.as_str() && other["kind"] == component.kind.as_str()
    };
    values(all.iter().find(is_it), lines);
}

fn bad(lines: &mut Vec<Line>, text: &str) {
    lines.push(Line { text: text::plain(text), level: Level::Bad });
}

/// Adds the reasons why a sink fails, or why the sinks of a source fail.
fn failures(data: &Data, component: &Component, lines: &mut Vec<Line>) {
    let found = data.finding(&component.id).filter(|_| component.kind == "source");
    let causes = found.into_iter().flat_map(|found| std::iter::once(found).chain(&found.also));
    let named: Vec<&str> = causes.filter_map(|found| found.component.as_deref()).collect();
    let is_behind = |other: &Component| {
        let has_lag = component.sinks.iter().any(|sink| sink.sink == other.id);
        has_lag || named.contains(&other.id.as_str())
    };
    let is_meant = |other: &&Component| {
        let is_it = other.id == component.id && other.kind == component.kind;
        other.kind == "sink" && (is_it || is_behind(other))
    };
    for sink in data.components().iter().filter(is_meant) {
        let Some(failure) = &sink.failure else { continue };
        let Failure { kind, message, seconds, attempts } = failure;
        let (id, seconds) = (&sink.id, text::seconds(*seconds));
        let attempts = text::counted(*attempts, "attempt");
        bad(lines, &format!("sink {id} fails: {kind}: {message}; {attempts} in {seconds}"));
    }
}

fn diagnosis(data: &Data, source: &str, lines: &mut Vec<Line>) {
    match (&data.diagnosis, data.finding(source)) {
        (_, Some(found)) => finding(found, lines),
        (super::api::Part::Missing, _) => {
            add(lines, "diagnosis", "not available because the agent is an older release");
        }
        _ => {}
    }
}

/// Adds a line about an endpoint that rejects a sink's events.
fn refusal(data: &Data, sink: &str, lines: &mut Vec<Line>) {
    if let Some(found) = data.refusal(sink) {
        finding(&Finding { also: Vec::new(), ..found.clone() }, lines);
    }
}

fn finding(found: &Finding, lines: &mut Vec<Line>) {
    let level = match found.status.as_str() {
        "late" => Level::Bad,
        "degraded" => Level::Warning,
        _ => Level::Good,
    };
    let cause = found.cause.as_ref().map_or(String::new(), |cause| format!(", cause {cause}"));
    let place = found.component.as_ref().map_or(String::new(), |id| format!(" at {id}"));
    let since = found.since.as_ref().map_or(String::new(), |since| format!(", since {since}"));
    let text = format!("diagnosis: {}{cause}{place}{since}", found.status);
    lines.push(Line { text: text::plain(&text), level });
    found.advice.iter().for_each(|advice| add(lines, "advice", advice));
    found.also.iter().for_each(|also| finding(also, lines));
}

fn bottleneck(data: &Data, id: &str, lines: &mut Vec<Line>) {
    let Some(known) = data.bottleneck.known() else { return };
    if known.component.as_deref() == Some(id) {
        add(
            lines,
            "bottleneck",
            known.reason.as_deref().unwrap_or("this component limits the rate"),
        );
        known.advice.iter().for_each(|advice| add(lines, "advice", advice));
    }
}

fn file<'a>(data: &'a Data, row: &Row) -> Option<&'a Value> {
    let is_it = |file: &&Value| key(&file["source"], &file["file_id"]) == row.key;
    list(data.files.as_ref().map(|files| &files.json["files"])).iter().find(is_it)
}

fn unreadable<'a>(data: &'a Data, row: &Row) -> Option<&'a Value> {
    let is_it = |file: &&Value| {
        let text = |name: &str| file[name].as_str().unwrap_or_default();
        unreadable_key(text("source"), text("path")) == row.key
    };
    list(data.files.as_ref().map(|files| &files.json["unreadable"])).iter().find(is_it)
}

fn task<'a>(data: &'a Data, row: &Row) -> Option<&'a Value> {
    let transforms = list(data.rules.as_ref().map(|rules| &rules.json)).iter();
    let mut tasks = transforms.flat_map(|transform| {
        list(Some(&transform["tasks"])).iter().map(move |task| (&transform["transform"], task))
    });
    tasks.find(|(transform, task)| key(transform, &task["task"]) == row.key).map(|(_, task)| task)
}

fn key(first: &Value, second: &Value) -> String {
    format!("{} {}", first.as_str().unwrap_or_default(), second.as_str().unwrap_or_default())
}

fn list(value: Option<&Value>) -> &[Value] {
    value.and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// Adds a line for each value: `dropped_events.long_line: 5`.
fn values(value: Option<&Value>, lines: &mut Vec<Line>) {
    match value {
        Some(value) => flatten("", value, lines),
        None => add(lines, "gone", "the agent no longer lists it"),
    }
}

fn flatten(name: &str, value: &Value, lines: &mut Vec<Line>) {
    let below = |part: &str| match name {
        "" => part.to_owned(),
        _ => format!("{name}.{part}"),
    };
    if lines.len() > LINES_MAX {
        return;
    }
    match value {
        Value::Object(parts) if parts.is_empty() => {}
        Value::Object(parts) => {
            parts.iter().for_each(|(part, value)| flatten(&below(part), value, lines));
        }
        Value::Array(parts) => {
            let parts = parts.iter().enumerate();
            parts.for_each(|(at, value)| flatten(&below(&at.to_string()), value, lines));
        }
        Value::Null => add(lines, name, "-"),
        Value::String(text) => add(lines, name, text),
        Value::Number(number) => add(lines, name, &exact(number)),
        Value::Bool(is_so) => add(lines, name, &is_so.to_string()),
    }
}

/// Returns a number: whole, or with three decimals.
fn exact(number: &serde_json::Number) -> String {
    let is_whole = number.is_u64() || number.is_i64();
    match number.as_f64() {
        Some(value) if !is_whole => format!("{value:.3}"),
        _ => number.to_string(),
    }
}
