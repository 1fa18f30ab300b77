//! A recording as text, for a person who wants to know what an agent did before it died.

mod table;
mod tallies;

use super::missing::Missing;
use super::ticks::end_of;
use crate::run_files::End;
use jiff::Timestamp;
use millstream_recorder::event::{Event, Tables};
use millstream_recorder::jfr::Clock;
use millstream_recorder::schema::{EventKind, FieldKind, Value};
use millstream_recorder::snapshot::Snapshot;
use std::fmt::Write;
use std::time::Duration;
use table::Table;
use tallies::{Components, Files, Peers, Waits};

/// Default length of the last part that is shown in detail.
const LAST: Duration = Duration::from_secs(10);

/// Maximum number of rows in a table, and maximum number of errors.
const ROWS_MAX: usize = 20;

/// Number of events that are shown individually.
const EVENTS_SHOWN: usize = 20;

/// Outcomes of checkpoints, JVM calls and reloads that are not errors.
const SUCCESS: &[&str] = &["committed", "answered", "done", "stopped", "applied", "unchanged"];

/// Information about a run besides its events.
#[derive(Clone, Debug)]
pub struct Head {
    /// Version of the agent.
    pub version: String,
    /// Process id.
    pub pid: u32,
    /// How the run ended.
    pub end: End,
    /// Start of the run in ticks.
    pub started_ticks: u64,
    /// Events that are missing.
    pub missing: Missing,
    /// Length of the last part that is shown in detail.
    pub last: Duration,
}

impl Head {
    /// Returns the head of a snapshot's run.
    pub fn of(snapshot: &Snapshot, end: End, missing: Missing) -> Head {
        Head {
            version: snapshot.agent_version(),
            pid: snapshot.pid(),
            end,
            started_ticks: snapshot.clock().start_ticks,
            missing,
            last: LAST,
        }
    }
}

/// Describes what happened. The events must be sorted by their end; `end_ticks` is the last sign of
/// life.
pub fn story<T: Tables>(
    head: &Head,
    clock: &Clock,
    end_ticks: u64,
    events: &[Event],
    tables: &T,
) -> String {
    let last = u128::from(clock.ticks_per_second.get()) * head.last.as_nanos() / 1_000_000_000;
    let last_ticks = u64::try_from(last).unwrap_or(u64::MAX);
    let from = end_ticks.saturating_sub(last_ticks);
    let last = &events[events.partition_point(|event| end_of(event) < from)..];
    let story = Story { clock, end_ticks, tables };
    let mut text = story.head(head, events);
    let _ = writeln!(text, "\nThe last {} seconds", head.last.as_secs_f64());
    if last.is_empty() {
        text.push_str("\n  no events\n");
    }
    text += &story.components(last);
    text += &story.files(last);
    text += &story.peers(&Peers::of(last));
    text += &story.unanswered(events);
    text += &story.waits(events);
    text += &story.errors(events);
    text += &story.last_events(events);
    text + &missing(&head.missing)
}

/// Data that all parts of a story need.
struct Story<'s, T> {
    clock: &'s Clock,
    end_ticks: u64,
    tables: &'s T,
}

impl<T: Tables> Story<'_, T> {
    fn head(&self, head: &Head, events: &[Event]) -> String {
        let (version, pid) = (plain(&head.version), head.pid);
        let how = match head.end {
            End::Running => "is running",
            End::Ended => "exited normally",
            End::Died => "died: it did not exit normally",
        };
        let lived = self.end_ticks.saturating_sub(head.started_ticks);
        let (start, end) = (self.time(head.started_ticks), self.time(self.end_ticks));
        let lived = period(self.clock.ns(lived));
        let mut text = format!("Millstream {version}, process {pid}, {how}\n\n");
        let _ = writeln!(text, "  started            {start} UTC");
        let _ = writeln!(text, "  last sign of life  {end} UTC, after {lived}");
        if let Some(first) = events.first() {
            let (count, from) = (events.len(), self.time(end_of(first)));
            let _ = writeln!(text, "  recorded           {count} events since {from} UTC");
        } else {
            text.push_str("  recorded           nothing\n");
        }
        text
    }

    fn components(&self, events: &[Event]) -> String {
        let mut table = Table::new(&["component", "batches", "rows", "bytes", "busy"]);
        for (component, tally) in Components::of(events).sorted() {
            table.row(vec![
                self.text(component),
                tally.batches.to_string(),
                tally.rows.to_string(),
                tally.bytes.to_string(),
                period(self.clock.ns(tally.busy_ticks)),
            ]);
        }
        table.render(ROWS_MAX)
    }

    fn files(&self, events: &[Event]) -> String {
        let mut table =
            Table::new(&["file", "reads", "bytes read", "writes", "bytes written", "last"]);
        for (path, tally) in Files::of(events).sorted() {
            table.row(vec![
                self.text(path),
                tally.reads.to_string(),
                tally.bytes_read.to_string(),
                tally.writes.to_string(),
                tally.bytes_written.to_string(),
                self.before_end(tally.last_ticks),
            ]);
        }
        table.render(ROWS_MAX)
    }

    fn peers(&self, peers: &Peers) -> String {
        let mut table = Table::new(&[
            "peer",
            "writes",
            "bytes written",
            "reads",
            "bytes read",
            "slowest",
            "last",
        ]);
        for (peer, tally) in peers.sorted() {
            table.row(vec![
                self.peer(&peer),
                tally.io.writes.to_string(),
                tally.io.bytes_written.to_string(),
                tally.io.reads.to_string(),
                tally.io.bytes_read.to_string(),
                period(self.clock.ns(tally.slowest_ticks)),
                self.before_end(tally.io.last_ticks),
            ]);
        }
        table.render(ROWS_MAX)
    }

    /// Lists connections with a write after the last read.
    fn unanswered(&self, events: &[Event]) -> String {
        let mut table = Table::new(&["peer", "writes since the last read", "bytes", "begun"]);
        for request in tallies::requests(events) {
            table.row(vec![
                self.peer(&request.peer),
                request.writes.to_string(),
                request.bytes.to_string(),
                self.before_end(request.start_ticks),
            ]);
        }
        section("Requests without a response", &table.render(ROWS_MAX))
    }

    fn waits(&self, events: &[Event]) -> String {
        let mut table =
            Table::new(&["component", "waits for", "times", "in total", "longest", "last ended"]);
        for ((component, waits_for), tally) in Waits::of(events).sorted() {
            table.row(vec![
                self.text(component),
                self.text(waits_for),
                tally.times.to_string(),
                period(self.clock.ns(tally.total_ticks)),
                period(self.clock.ns(tally.longest_ticks)),
                self.before_end(tally.last_ticks),
            ]);
        }
        section("Waits in the whole recording", &table.render(ROWS_MAX))
    }

    fn errors(&self, events: &[Event]) -> String {
        let is_error = |event: &&Event| self.is_error(event);
        let mut text = String::new();
        for event in events.iter().rev().filter(is_error).take(ROWS_MAX) {
            let _ = writeln!(text, "  {}", self.line(event));
        }
        let count = events.iter().filter(is_error).count();
        if count > ROWS_MAX {
            let _ = writeln!(text, "  and {} before", count - ROWS_MAX);
        }
        if !text.is_empty() {
            text.insert(0, '\n');
        }
        section("Errors, newest first", &text)
    }

    fn is_error(&self, event: &Event) -> bool {
        let mut fields = event.kind.spec().fields.iter().zip(event.values);
        let outcome = fields.find(|(field, _)| field.name == "outcome");
        let outcome = outcome.map(|(_, bits)| Value::from_bits(FieldKind::Text, bits));
        let text = match outcome {
            Some(Value::Text(id)) => self.tables.text(id),
            _ => None,
        };
        let has_failed = text.is_some_and(|outcome| !SUCCESS.contains(&outcome));
        has_failed || matches!(event.kind, EventKind::Retry | EventKind::Drop)
    }

    fn last_events(&self, events: &[Event]) -> String {
        let shown = &events[events.len().saturating_sub(EVENTS_SHOWN)..];
        let mut text = String::new();
        for event in shown {
            let _ = writeln!(text, "  {}", self.line(event));
        }
        if !text.is_empty() {
            text.insert(0, '\n');
        }
        section(&format!("The last {} events", shown.len()), &text)
    }

    /// Returns an event as a line: its end, its thread, its type and its fields.
    fn line(&self, event: &Event) -> String {
        let spec = event.kind.spec();
        let thread = self.tables.thread(event.thread).map_or("?", |thread| thread.name);
        let thread = plain(thread);
        let mut line = format!("{}  {thread:<15}  {:<15}", self.time(end_of(event)), spec.name);
        if spec.has_duration {
            let _ = write!(line, "  {:>8}", period(self.clock.ns(event.duration_ticks)));
        } else {
            let _ = write!(line, "  {:>8}", "");
        }
        for (field, bits) in spec.fields.iter().zip(event.values) {
            let _ = write!(line, "  {}={}", field.name, self.value(field.kind, bits));
        }
        line
    }

    fn value(&self, kind: FieldKind, bits: u64) -> String {
        match Value::from_bits(kind, bits) {
            Value::Unsigned(number) | Value::Bytes(number) => number.to_string(),
            Value::Count(number) => number.to_string(),
            Value::Signed(number) => number.to_string(),
            Value::Float(number) => number.to_string(),
            Value::Flag(flag) => flag.to_string(),
            Value::Text(id) => self.text(u64::from(id.0)),
            Value::Duration(ticks) => period(self.clock.ns(ticks)),
            Value::Timestamp(ticks) => self.time(ticks),
        }
    }

    fn text(&self, bits: u64) -> String {
        let Value::Text(id) = Value::from_bits(FieldKind::Text, bits) else { return "?".into() };
        self.tables.text(id).map_or_else(|| "?".to_owned(), plain)
    }

    /// Returns the peer name of a connection, with the address if that adds information.
    fn peer(&self, [host, address, port]: &[u64; 3]) -> String {
        let (host, address) = (self.text(*host), self.text(*address));
        let place = match (*port, address.contains(':')) {
            (0, _) => address.clone(),
            (port, true) => format!("[{address}]:{port}"),
            (port, false) => format!("{address}:{port}"),
        };
        if host.is_empty() || host == address { place } else { format!("{host} ({place})") }
    }

    fn time(&self, ticks: u64) -> String {
        time(self.clock, ticks)
    }

    /// Returns the time between an event and the end.
    fn before_end(&self, ticks: u64) -> String {
        match self.end_ticks.saturating_sub(ticks) {
            0 => "at the end".to_owned(),
            ticks => format!("{} before", period(self.clock.ns(ticks))),
        }
    }
}

/// Returns a section with its title; returns an empty text if there is no content.
fn section(title: &str, content: &str) -> String {
    if content.is_empty() { String::new() } else { format!("\n{title}\n{content}") }
}

fn missing(missing: &Missing) -> String {
    let lines = missing.lines();
    match lines.is_empty() {
        true => "\nNothing is missing except for events that newer events overwrote.\n".to_owned(),
        false => {
            let lines: String = lines.iter().map(|line| format!("  {line}\n")).collect();
            section("Missing data", &format!("\n{lines}"))
        }
    }
}

/// Returns a point in time in UTC, to the millisecond.
pub fn time(clock: &Clock, ticks: u64) -> String {
    let time = Timestamp::from_nanosecond(i128::from(clock.unix_ns(ticks)));
    time.map_or("?".to_owned(), |time| time.strftime("%Y-%m-%d %H:%M:%S%.3f").to_string())
}

/// Returns a period in one or two units.
pub fn period(ns: u64) -> String {
    let seconds = ns / 1_000_000_000;
    let in_unit = |unit: u64, name: &str| {
        let (whole, part) = (ns / unit, ns % unit * 100 / unit);
        match whole {
            0..10 => format!("{whole}.{part:02}{name}"),
            10..100 => format!("{whole}.{}{name}", part / 10),
            _ => format!("{whole}{name}"),
        }
    };
    match ns {
        0..1_000 => format!("{ns}ns"),
        1_000..1_000_000 => in_unit(1_000, "us"),
        1_000_000..1_000_000_000 => in_unit(1_000_000, "ms"),
        _ if seconds < 60 => in_unit(1_000_000_000, "s"),
        _ if seconds < 3_600 => format!("{}m{}s", seconds / 60, seconds % 60),
        _ if seconds < 86_400 => format!("{}h{}m", seconds / 3_600, seconds / 60 % 60),
        _ => format!("{}d{}h", seconds / 86_400, seconds / 3_600 % 24),
    }
}

/// Escapes control characters, so that a name cannot control a terminal.
pub fn plain(text: &str) -> String {
    let escaped = |c: char| {
        let as_is = (!c.is_control()).then_some(c);
        let escape = c.is_control().then(|| c.escape_default());
        as_is.into_iter().chain(escape.into_iter().flatten())
    };
    text.chars().flat_map(escaped).collect()
}

#[cfg(test)]
mod tests;
