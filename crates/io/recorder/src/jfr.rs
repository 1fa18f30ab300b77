//! Files in the format of the JDK's Flight Recorder, version 2.1.
//!
//! A file is a sequence of chunks, each complete with the declaration of the types and with the texts
//! and threads of its events. [`JfrWriter`] builds one chunk after the other in memory and writes it
//! as a whole, so that the output may be a pipe or a connection: nothing is written twice, and no
//! event is read twice.

mod chunk;
mod elements;
mod header;
mod metadata;
mod pools;
mod types;
mod varint;

use crate::event::{Event, Tables};
use crate::schema::{EventKind, Settings};
use chunk::Chunk;
use header::Header;
use std::io::{self, Write};
use std::num::NonZeroU64;

/// Bytes after which a chunk ends. It bounds the memory of a writer; each chunk repeats 7 kB of
/// declarations, and the texts that its events refer to.
const CHUNK_BYTES_MAX: usize = 8 << 20;

/// Relation of ticks and time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Clock {
    /// Ticks in a second.
    pub ticks_per_second: NonZeroU64,
    /// A point in time in ticks.
    pub start_ticks: u64,
    /// The same in nanoseconds since 1970.
    pub start_unix_ns: u64,
}

impl Clock {
    /// Returns the nanoseconds that a number of ticks takes, up to 292 years: readers take the numbers
    /// of a header as signed.
    pub fn ns(&self, ticks: u64) -> u64 {
        let ns = u128::from(ticks) * 1_000_000_000 / u128::from(self.ticks_per_second.get());
        i64::try_from(ns).unwrap_or(i64::MAX).cast_unsigned()
    }

    /// Returns a point in time in nanoseconds since 1970, at least the start of the clock.
    pub fn unix_ns(&self, ticks: u64) -> u64 {
        self.start_unix_ns.saturating_add(self.ns(ticks.saturating_sub(self.start_ticks)))
    }
}

/// What a file says about all of its events.
#[derive(Clone, Copy, Debug)]
pub struct Recording<'r> {
    /// Its start, and the clock of its events.
    pub clock: Clock,
    /// Its end. An event that ends later, such as one of a damaged file, does not change it.
    pub end_ticks: u64,
    /// The settings that were in effect, which become events `jdk.ActiveSetting`.
    pub settings: &'r [(EventKind, Settings)],
}

/// Writes events as a JFR file.
///
/// The tables may grow between two calls.
pub struct JfrWriter<W> {
    output: W,
    clock: Clock,
    end_ticks: u64,
    chunk: Chunk,
}

impl<W: Write> JfrWriter<W> {
    /// Returns a writer. Nothing is written before the first chunk is complete.
    pub fn new(output: W, recording: &Recording<'_>) -> JfrWriter<W> {
        let clock = recording.clock;
        let mut chunk = Chunk::new(clock.start_ticks);
        chunk.push_settings(recording.settings);
        let end_ticks = recording.end_ticks.max(clock.start_ticks);
        JfrWriter { output, clock, end_ticks, chunk }
    }

    /// Adds an event. Events may come in any order; tools sort those of one chunk by their end.
    ///
    /// # Errors
    ///
    /// Those of the output. The file is then incomplete up to its last whole chunk.
    pub fn write<T: Tables + ?Sized>(&mut self, event: &Event, tables: &T) -> io::Result<()> {
        if self.chunk.bytes_max() >= CHUNK_BYTES_MAX {
            self.end_chunk(self.chunk.end_ticks().min(self.end_ticks), tables)?;
        }
        self.chunk.push_event(event, tables);
        Ok(())
    }

    /// Moves the end of the recording, of which more is known now.
    pub fn extend(&mut self, end_ticks: u64) {
        self.end_ticks = self.end_ticks.max(end_ticks);
    }

    /// Completes the file and returns the output.
    ///
    /// # Errors
    ///
    /// Those of the output.
    pub fn finish<T: Tables + ?Sized>(mut self, tables: &T) -> io::Result<W> {
        self.end_chunk(self.end_ticks, tables)?;
        self.output.flush()?;
        Ok(self.output)
    }

    fn end_chunk<T: Tables + ?Sized>(&mut self, end_ticks: u64, tables: &T) -> io::Result<()> {
        let start_ticks = self.chunk.start_ticks();
        let pools_at = self.chunk.len();
        self.chunk.push_pools(tables);
        let header = Header {
            chunk_bytes: self.chunk.len() as u64,
            pools_at: pools_at as u64,
            start_unix_ns: self.clock.unix_ns(start_ticks),
            duration_ns: self.clock.ns(end_ticks - start_ticks),
            start_ticks,
            ticks_per_second: self.clock.ticks_per_second,
        };
        self.output.write_all(self.chunk.with_header(&header))?;
        self.chunk.restart(end_ticks);
        Ok(())
    }
}

/// Writes a file with all of these events.
///
/// # Errors
///
/// Those of the output.
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
