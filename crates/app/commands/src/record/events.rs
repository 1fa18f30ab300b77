//! Writes the events of a snapshot in any format.

use super::missing::Missing;
use super::output::{Format, Target};
use super::story::{self, Head};
use super::ticks::{clock_from, end_of};
use super::{Failure, json, summarize};
use crate::output::Output;
use crate::run_files::End;
use millstream_model::Interval;
use millstream_recorder::event::Event;
use millstream_recorder::jfr::{Clock, JfrWriter, Recording};
use millstream_recorder::snapshot::{Reader, Snapshot};
use std::io::{self, Write};

/// Writes events in the format of the target.
pub struct EventWriter {
    /// Clock of the whole run.
    clock: Clock,
    format: FormatWriter,
    /// Number of written events.
    pub events: u64,
}

enum FormatWriter {
    Jfr(JfrWriter<Output>),
    /// Events that wait, because earlier events may still arrive.
    Jsonl(Output, Vec<Event>),
    Text(Output, Vec<Event>),
}

impl EventWriter {
    /// Returns a writer for events of this snapshot's run, starting at `start_ticks`.
    pub fn new(
        format: Format,
        output: Output,
        snapshot: &Snapshot,
        start_ticks: u64,
    ) -> EventWriter {
        let (clock, settings) = (snapshot.clock(), snapshot.settings());
        let clock_of_file = clock_from(clock, start_ticks);
        let recording =
            Recording { clock: clock_of_file, end_ticks: start_ticks, settings: &settings };
        let format = match format {
            Format::Jfr => FormatWriter::Jfr(JfrWriter::new(output, &recording)),
            Format::Jsonl => FormatWriter::Jsonl(output, Vec::new()),
            Format::Text => FormatWriter::Text(output, Vec::new()),
        };
        EventWriter { clock, format, events: 0 }
    }

    /// Adds an event.
    pub fn push(&mut self, event: &Event, tables: &Reader) -> io::Result<()> {
        self.events += 1;
        match &mut self.format {
            FormatWriter::Jfr(writer) => writer.write(event, tables),
            FormatWriter::Jsonl(_, events) | FormatWriter::Text(_, events) => {
                events.push(*event);
                Ok(())
            }
        }
    }

    /// Writes the collected events that end before `ticks`. No event that is added later may end
    /// before this time.
    pub fn advance(&mut self, ticks: u64, tables: &Reader) -> io::Result<()> {
        let FormatWriter::Jsonl(output, events) = &mut self.format else { return Ok(()) };
        events.sort_by_key(end_of);
        let count = events.partition_point(|event| end_of(event) < ticks);
        write_lines(output, events.drain(..count), &self.clock, tables)
    }

    /// Completes the output, and returns its size in bytes.
    pub fn finish(mut self, head: &Head, end_ticks: u64, tables: &Reader) -> io::Result<u64> {
        self.advance(u64::MAX, tables)?;
        let mut output = match self.format {
            FormatWriter::Jfr(mut writer) => {
                writer.extend(end_ticks);
                writer.finish(tables)?
            }
            FormatWriter::Jsonl(mut output, rest) => {
                write_lines(&mut output, rest.into_iter(), &self.clock, tables)?;
                output
            }
            FormatWriter::Text(mut output, mut events) => {
                events.sort_by_key(end_of);
                let text = story::story(head, &self.clock, end_ticks, &events, tables);
                output.write_all(text.as_bytes())?;
                output
            }
        };
        output.flush()?;
        output.finish()
    }
}

fn write_lines(
    output: &mut Output,
    events: impl Iterator<Item = Event>,
    clock: &Clock,
    tables: &Reader,
) -> io::Result<()> {
    for event in events {
        serde_json::to_writer(&mut *output, &json::object(&event, clock, tables))?;
        output.write_all(b"\n")?;
    }
    Ok(())
}

/// Writes the events of a snapshot, given as bytes, and prints their number.
pub fn write(
    bytes: &[u8],
    end: End,
    last: Option<Interval>,
    target: &Target,
) -> Result<(), Failure> {
    if let Some(written) = write_silently(bytes, end, last, target)? {
        let Written { events, seconds, bytes, missing } = written;
        summarize(target.name(), events, seconds, bytes, &missing);
    }
    Ok(())
}

/// Summary of the written events.
pub struct Written {
    events: u64,
    seconds: f64,
    bytes: u64,
    missing: Missing,
}

/// Writes the events of a snapshot; `None` if the reader of the output is gone.
pub fn write_silently(
    bytes: &[u8],
    end: End,
    last: Option<Interval>,
    target: &Target,
) -> Result<Option<Written>, Failure> {
    let snapshot = Snapshot::parse(bytes).map_err(|error| Failure::failed(error.to_string()))?;
    let (mut reader, mut events) = (Reader::default(), Vec::new());
    reader.read(&snapshot, |event, _| events.push(*event));
    let clock = snapshot.clock();
    let end_ticks = events.iter().map(end_of).fold(snapshot.latest_ticks(), u64::max);
    if let Some(last) = last.filter(|_| target.format != Format::Text) {
        let ticks = last.0.as_nanos() * u128::from(clock.ticks_per_second.get()) / 1_000_000_000;
        let from = end_ticks.saturating_sub(u64::try_from(ticks).unwrap_or(u64::MAX));
        events.retain(|event| end_of(event) >= from);
    }
    let start_ticks = events.iter().map(|event| event.start_ticks).min().unwrap_or(end_ticks);
    let missing = Missing::of(&snapshot, &reader);
    let mut head = Head::of(&snapshot, end, missing.clone());
    head.last = last.map_or(head.last, |last| last.0);
    let name = target.name();
    let failed = |error: io::Error| Failure::failed(format!("{}: {error}", name.display()));
    let mut writer = EventWriter::new(target.format, target.open()?, &snapshot, start_ticks);
    let count = events.len() as u64;
    events.iter().try_for_each(|event| writer.push(event, &reader)).map_err(failed)?;
    drop(events);
    let bytes = match writer.finish(&head, end_ticks, &reader) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => return Ok(None),
        written => written.map_err(failed)?,
    };
    let seconds = clock.ns(end_ticks.saturating_sub(start_ticks)) as f64 / 1e9;
    Ok(Some(Written { events: count, seconds, bytes, missing }))
}
