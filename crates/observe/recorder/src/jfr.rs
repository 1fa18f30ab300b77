//! Files in the format of the JDK Flight Recorder, version 2.1.
//!
//! A file is a sequence of chunks. Each chunk is self-contained: it includes the type declarations,
//! and the strings and threads of its events. [`JfrWriter`] builds one chunk after another in
//! memory and writes each of them as a whole. The output can be a pipe or a connection, because the
//! writer does not seek.

mod chunk;
mod metadata;
mod pools;
mod types;

use crate::event::{Event, Tables};
use crate::schema::{EventKind, Settings};
use chunk::EventChunk;
use millstream_jfr::CHUNK_BYTES_MAX;
pub use millstream_jfr::Clock;
use std::io::{self, Write};

/// Properties that apply to all events in a file.
#[derive(Clone, Copy, Debug)]
pub struct Recording<'r> {
    /// Start of the recording, and the clock for its events.
    pub clock: Clock,
    /// End of the recording. Events that end later, for example in a damaged file, do not change
    /// the end.
    pub end_ticks: u64,
    /// The settings in effect, which are written as `jdk.ActiveSetting` events.
    pub settings: &'r [(EventKind, Settings)],
}

/// Writes events as a JFR file.
///
/// The tables can grow between two calls.
pub struct JfrWriter<W> {
    output: W,
    clock: Clock,
    end_ticks: u64,
    chunk: EventChunk,
}

impl<W: Write> JfrWriter<W> {
    /// Creates a writer. Nothing is written before the first chunk is complete.
    pub fn new(output: W, recording: &Recording<'_>) -> JfrWriter<W> {
        let clock = recording.clock;
        let mut chunk = EventChunk::new(clock.start_ticks);
        chunk.push_settings(recording.settings);
        let end_ticks = recording.end_ticks.max(clock.start_ticks);
        JfrWriter { output, clock, end_ticks, chunk }
    }

    /// Adds an event. Events may be in any order, because tools sort the events of a chunk by their
    /// end.
    ///
    /// # Errors
    ///
    /// Returns the output's error. In that case, the file is complete only up to its last whole
    /// chunk.
    pub fn write<T: Tables + ?Sized>(&mut self, event: &Event, tables: &T) -> io::Result<()> {
        if self.chunk.bytes_max() >= CHUNK_BYTES_MAX {
            self.end_chunk(self.chunk.end_ticks().min(self.end_ticks), tables)?;
        }
        self.chunk.push_event(event, tables);
        Ok(())
    }

    /// Extends the recording to a later end.
    pub fn extend(&mut self, end_ticks: u64) {
        self.end_ticks = self.end_ticks.max(end_ticks);
    }

    /// Completes the file and returns the output.
    ///
    /// # Errors
    ///
    /// Returns the output's error.
    pub fn finish<T: Tables + ?Sized>(mut self, tables: &T) -> io::Result<W> {
        self.end_chunk(self.end_ticks, tables)?;
        self.output.flush()?;
        Ok(self.output)
    }

    fn end_chunk<T: Tables + ?Sized>(&mut self, end_ticks: u64, tables: &T) -> io::Result<()> {
        self.output.write_all(self.chunk.end(&self.clock, end_ticks, tables))?;
        self.chunk.restart(end_ticks);
        Ok(())
    }
}

/// Writes a file that contains these events.
///
/// # Errors
///
/// Returns the output's error.
pub fn write<W: Write, T: Tables + ?Sized>(
    output: W,
    recording: &Recording<'_>,
    tables: &T,
    events: impl IntoIterator<Item = Event>,
) -> io::Result<W> {
    let mut writer = JfrWriter::new(output, recording);
    for event in events {
        writer.write(&event, tables)?;
    }
    writer.finish(tables)
}

#[cfg(test)]
mod tests;
