//! The table of each view.

use super::api::{Component, DeletedFiles, DiskBuffer, File, Jvm, JvmProcess, Task, Unreadable};
use super::data::Data;
use super::table::{Column, Level, Row, Table, Value, numbers, words};
use crate::text::{self, counted};
use std::collections::BTreeMap;

/// A view.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, strum::IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
pub enum View {
    /// Sources, transforms and sinks.
    #[default]
    Components,
    /// Files and partitions.
    Files,
    /// Sources of metrics.
    Series,
    /// Tasks and operators.
    Rules,
    /// Memory, JVMs, held files and disk buffers.
    Memory,
}

impl View {
    /// All views, in the order of their keys.
    pub const ALL: [View; 5] =
        [View::Components, View::Files, View::Series, View::Rules, View::Memory];

    /// Returns the name.
    pub fn name(self) -> &'static str {
        self.into()
    }

    /// Returns the index in the order of keys.
    pub fn index(self) -> usize {
        View::ALL.iter().position(|view| *view == self).unwrap_or(0)
    }

    /// Returns the table of the view.
    pub fn table(self, data: &Data) -> Table {
        match self {
            View::Components => components(data),
            View::Files => files(data),
            View::Series => series(data),
            View::Rules => rules(data),
            View::Memory => memory(data),
        }
    }
}

fn text(text: &str) -> Value {
    Value::Text(text.to_owned())
}

fn count(number: Option<u64>) -> Value {
    number.map_or(Value::None, |number| Value::Count(number as f64))
}

fn mb_per_second(bytes: Option<f64>) -> Value {
    Value::of(bytes.map(|bytes| bytes / 1e6), Value::Megabytes)
}

const COMPONENTS: &[Column] = &[
    words("id", 0),
    words("type", 6),
    words("kind", 7),
    numbers("in/s", 3),
    numbers("out/s", 1),
    numbers("MB/s", 1),
    numbers("util", 2),
    numbers("lag", 1),
    numbers("lag_s", 2),
    numbers("err/s", 4),
    numbers("drop/s", 4),
    numbers("buffer", 5),
    words("status", 1),
    words("cause", 1),
];

/// Statuses of sources and sinks, the worst first.
const STATUSES: [&str; 6] = ["late", "failing", "degraded", "starting", "idle", "healthy"];

fn components(data: &Data) -> Table {
    let rows = data.components().iter().map(|component| of_component(data, component)).collect();
    Table { columns: COMPONENTS, rows, note: None }
}

fn of_component(data: &Data, component: &Component) -> Row {
    let rates = data.rates(component);
    let lag = component.sinks.iter().map(|sink| sink.lag).max();
    let lag_seconds = component.sinks.iter().filter_map(|sink| sink.lag_seconds).reduce(f64::max);
    let buffer = component.buffer_bytes.map(|bytes| bytes as f64);
    let (status, cause) = status(data, component);
    Row {
        key: format!("{} {}", component.kind, component.id),
        cells: vec![
            text(&component.id),
            text(&component.type_name),
            text(&component.kind),
            Value::of(rates.received, Value::Count),
            Value::of(rates.sent, Value::Count),
            mb_per_second(rates.bytes),
            Value::of(component.utilization_ratio, Value::Share),
            Value::of(lag.map(|lag| lag as f64), Value::Bytes),
            Value::of(lag_seconds, Value::Seconds),
            Value::of(rates.errors, Value::Count),
            Value::of(rates.dropped, Value::Count),
            Value::of(buffer, Value::Bytes),
            status,
            cause,
        ],
        level: level(data, component),
    }
}

/// Returns the status of a source according to the diagnosis, or of a failing sink, and the cause.
fn status(data: &Data, component: &Component) -> (Value, Value) {
    let ranked = |status: &str| {
        let rank = STATUSES.iter().position(|known| *known == status).unwrap_or(STATUSES.len());
        Value::Ranked(rank as u8, status.to_owned())
    };
    let cause = |cause: Option<&str>| cause.map_or(Value::None, text);
    let refusal = data.refusal(&component.id);
    match (component.kind.as_str(), data.finding(&component.id), &component.failure, refusal) {
        ("source", Some(found), ..) => (ranked(&found.status), cause(found.cause.as_deref())),
        ("sink", _, Some(failure), _) => (ranked("failing"), cause(Some(&failure.kind))),
        ("sink", .., Some(refusal)) => (ranked("failing"), cause(refusal.cause.as_deref())),
        ("sink", ..) if component.error.is_some() => (ranked("failing"), Value::None),
        _ => (Value::None, Value::None),
    }
}

fn level(data: &Data, component: &Component) -> Level {
    let status = match component.kind.as_str() {
        "source" => data.finding(&component.id).map(|finding| finding.status.as_str()),
        _ => None,
    };
    let has_error = component.error.is_some()
        || component.disk_buffer.as_ref().is_some_and(|buffer| buffer.error.is_some());
    let has_rate = |rate: Option<f64>| rate.is_some_and(|rate| rate > 0.0);
    match status {
        _ if has_error => Level::Bad,
        _ if component.kind == "sink" && data.refusal(&component.id).is_some() => Level::Bad,
        Some("late") => Level::Bad,
        Some("degraded") => Level::Warning,
        _ if has_rate(data.rates(component).errors) || !component.unreadable.is_empty() => {
            Level::Warning
        }
        _ => Level::Good,
    }
}

const FILES: &[Column] = &[
    words("path", 0),
    words("source", 5),
    numbers("MB/s", 1),
    numbers("share", 2),
    numbers("lag", 1),
    numbers("delay", 2),
    words("status", 3),
    words("held_by", 4),
];

/// Minimum share of its source's rate at which a file is treated as flooding, if the source has
/// several files.
const FLOOD_SHARE: f64 = 0.8;

/// Minimum share of its limit at which a disk buffer that does not grow deserves a warning.
const NEARLY_FULL: f64 = 0.7;

/// Minimum rate at which a file is treated as flooding, in bytes per second.
const FLOOD_BYTES_MIN: f64 = 1e6;

fn files(data: &Data) -> Table {
    let Some(files) = data.files.as_ref().map(|files| &files.value) else {
        return empty(FILES, "no response yet");
    };
    let mut totals: BTreeMap<&str, (f64, usize)> = BTreeMap::new();
    for file in &files.files {
        let total = totals.entry(&file.source).or_default();
        total.0 += file.rate_bytes_per_second.unwrap_or(0.0);
        total.1 += 1;
    }
    // The list may be incomplete, so use the rate of the whole source if it is higher.
    for source in data.components().iter().filter(|component| component.kind == "source") {
        if let (Some(total), Some(rate)) = (totals.get_mut(&*source.id), data.rates(source).bytes) {
            total.0 = total.0.max(rate);
        }
    }
    let unreadable = files.unreadable.iter().map(of_unreadable);
    let readable = files.files.iter().map(|file| of_file(file, totals[file.source.as_str()]));
    let rows = unreadable.chain(readable).collect();
    let shown = files.files.len();
    let is_part = shown < files.total;
    let note = is_part.then(|| format!("the {shown} of {} files with the most lag", files.total));
    Table { columns: FILES, rows, note }
}

fn of_unreadable(unreadable: &Unreadable) -> Row {
    Row {
        key: unreadable_key(&unreadable.source, &unreadable.path),
        cells: vec![
            Value::Path(unreadable.path.clone()),
            text(&unreadable.source),
            Value::None,
            Value::None,
            Value::None,
            Value::None,
            Value::Text(format!("unreadable: {}", unreadable.reason)),
            Value::None,
        ],
        level: Level::Bad,
    }
}

/// Returns the key of the row for a path that a source cannot read.
pub fn unreadable_key(source: &str, path: &str) -> String {
    format!("{source} unreadable {path}")
}

/// Returns the row of a file. `total` is the rate of its source and the source's file count.
fn of_file(file: &File, total: (f64, usize)) -> Row {
    let rate = file.rate_bytes_per_second;
    let share = rate.filter(|_| total.0 > 0.0).map(|rate| rate / total.0);
    let has_flood = total.1 > 1
        && rate.is_some_and(|rate| rate >= FLOOD_BYTES_MIN)
        && share.is_some_and(|share| share >= FLOOD_SHARE);
    let lag = match file.lag_records {
        Some(records) => Value::Count(records as f64),
        None => Value::Bytes(file.lag_bytes as f64),
    };
    Row {
        key: format!("{} {}", file.source, file.file_id),
        cells: vec![
            Value::Path(file.path.clone()),
            text(&file.source),
            mb_per_second(rate),
            Value::of(share, Value::Share),
            lag,
            Value::of(file.log_delay_seconds, Value::Seconds),
            text(&file.status),
            file.held_by.as_deref().map_or(Value::None, text),
        ],
        level: if has_flood { Level::Warning } else { Level::Good },
    }
}

const SERIES: &[Column] = &[
    words("source", 0),
    words("type", 3),
    numbers("series", 1),
    numbers("in/s", 1),
    numbers("out/s", 2),
    numbers("drop/s", 2),
];

fn series(data: &Data) -> Table {
    let with_series = data.components().iter().filter(|component| component.series.is_some());
    let row = |component: &Component| {
        let rates = data.rates(component);
        Row {
            key: format!("{} {}", component.kind, component.id),
            cells: vec![
                text(&component.id),
                text(&component.type_name),
                count(component.series),
                Value::of(rates.received, Value::Count),
                Value::of(rates.sent, Value::Count),
                Value::of(rates.dropped, Value::Count),
            ],
            level: level(data, component),
        }
    };
    let rows: Vec<Row> = with_series.map(row).collect();
    let note = rows.is_empty().then(|| "no metric source holds series".to_owned());
    Table { columns: SERIES, rows, note }
}

const RULES: &[Column] = &[
    words("task", 0),
    words("transform", 4),
    numbers("time", 1),
    numbers("examined", 3),
    numbers("matched", 2),
    numbers("failed", 5),
    numbers("groups", 4),
    numbers("memory", 2),
    numbers("delay_max", 5),
];

fn rules(data: &Data) -> Table {
    let Some(transforms) = data.rules.as_ref().map(|rules| &rules.value) else {
        return empty(RULES, "no response yet");
    };
    let tasks = transforms.iter().flat_map(|transform| {
        transform.tasks.iter().map(|task| of_task(&transform.transform, task))
    });
    let rows: Vec<Row> = tasks.collect();
    let note = rows.is_empty().then(|| "there are no rules and no operators".to_owned());
    Table { columns: RULES, rows, note }
}

fn of_task(transform: &str, task: &Task) -> Row {
    let has_failed = task.failed.is_some_and(|failed| failed > 0);
    Row {
        key: format!("{transform} {}", task.task),
        cells: vec![
            text(&task.task),
            text(transform),
            Value::of(task.time_share, Value::Share),
            count(Some(task.examined)),
            count(Some(task.matched)),
            count(task.failed),
            count(Some(task.groups)),
            Value::Bytes(task.memory_bytes as f64),
            Value::of(task.emit_delay_seconds_max, Value::Seconds),
        ],
        level: if has_failed { Level::Warning } else { Level::Good },
    }
}

const MEMORY: &[Column] = &[
    words("what", 0),
    numbers("used", 1),
    numbers("limit", 1),
    numbers("share", 2),
    words("note", 3),
];

fn memory(data: &Data) -> Table {
    let Some(snapshot) = data.snapshot.as_ref().map(|snapshot| &snapshot.value) else {
        return empty(MEMORY, "no response yet");
    };
    let memory = &snapshot.memory;
    let pressure =
        format!("pressure {}, high {}", memory.pressure, counted(memory.times_high, "time"));
    let of_all = format!("{} at most", text::bytes(memory.grant_bytes_max as f64));
    let mut rows = vec![
        amount("resident memory", memory.resident_bytes, memory.limit_bytes, pressure),
        amount("data in flight", memory.granted_bytes, memory.grant_limit_bytes, of_all),
    ];
    rows[0].level = if memory.pressure == "high" { Level::Bad } else { Level::Good };
    rows.extend(snapshot.jvm.as_ref().map(|jvm| heap("JVM heap", jvm)));
    rows.extend(snapshot.jvm_processes.iter().map(of_process));
    for component in &snapshot.components {
        rows.extend(component.held.as_ref().map(|held| of_held(&component.id, held)));
        rows.extend(component.disk_buffer.as_ref().map(|buffer| of_buffer(&component.id, buffer)));
    }
    Table { columns: MEMORY, rows, note: None }
}

/// Returns a row with the used part of a limit, in bytes.
fn amount(what: &str, used: u64, limit: u64, note: String) -> Row {
    let share = (limit > 0).then(|| used as f64 / limit as f64);
    Row {
        key: what.to_owned(),
        cells: vec![
            text(what),
            Value::Bytes(used as f64),
            Value::Bytes(limit as f64),
            Value::of(share, Value::Share),
            Value::Text(note),
        ],
        level: Level::Good,
    }
}

fn heap(what: &str, jvm: &Jvm) -> Row {
    let committed = text::bytes(jvm.heap_committed_bytes as f64);
    let note = format!("{committed} committed, {}", counted(jvm.collections, "collection"));
    amount(what, jvm.heap_used_bytes, jvm.heap_bytes_max, note)
}

fn of_process(process: &JvmProcess) -> Row {
    let what = format!("JVM heap of process {}", process.name);
    let mut row = heap(&what, &process.jvm.clone().unwrap_or_default());
    if let Some(error) = &process.error {
        row.level = Level::Bad;
        row.cells[4] = text(error);
    }
    row
}

fn of_held(source: &str, held: &DeletedFiles) -> Row {
    let note = counted(held.files, "deleted file");
    amount(&format!("held by source {source}"), held.bytes, held.bytes_max, note)
}

fn of_buffer(sink: &str, buffer: &DiskBuffer) -> Row {
    let full = match buffer.full_in_seconds {
        Some(seconds) => format!("full in {}", text::seconds(seconds)),
        None => "does not grow".to_owned(),
    };
    let note = format!("{}, {full}", counted(buffer.events, "event"));
    let what = format!("disk buffer of sink {sink}");
    let mut row = amount(&what, buffer.bytes, buffer.bytes_max, note);
    let is_near = buffer.bytes as f64 >= NEARLY_FULL * buffer.bytes_max as f64;
    let is_filling = buffer.full_in_seconds.is_some();
    row.level = if is_filling || is_near { Level::Warning } else { Level::Good };
    if let Some(error) = &buffer.error {
        row.level = Level::Bad;
        row.cells[4] = text(error);
    }
    row
}

fn empty(columns: &'static [Column], note: &str) -> Table {
    Table { columns, rows: Vec::new(), note: Some(note.to_owned()) }
}
