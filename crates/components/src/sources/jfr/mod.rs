//! The `jfr` source: metrics and log events from the flight recordings of JVMs.
//!
//! Each chunk of a recording is an origin. Its id depends on the start time of the chunk, so that a
//! chunk is read only once, whether from the repository of its JVM or from a copy. A chunk that a
//! JVM is still writing is read up to the length in its header. Offsets are positions in the chunk.
//! A range of the chunk becomes one batch: the log events of the range, and the metrics of all its
//! events.

mod catalog;
mod chunk;
mod config;
mod decoder;
mod emit;
mod files;
mod fill;
mod process;
mod sinks;
mod tags;
#[cfg(test)]
mod tests;

pub use config::JfrConfig;

use chunk::{ChunkTail, Shared, Step, id_of};
use config::Settings;
use emit::emit;
use files::{Candidate, FileKey, Recordings, is_deleted};
use millstream_model::{
    BuildError, Cursors, EngineTime, Leftover, OriginId, OriginRecord, OriginStatus, Polled,
    SinkIndex, Source, SourceCx, SourceOpen,
};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::time::Duration;
use tags::Bounds;

/// Time between walks of the file system.
const WALK_INTERVAL: Duration = Duration::from_secs(1);

/// Time after which a deleted file that does not grow is treated as complete.
const DELETED_AFTER: Duration = Duration::from_secs(5);

/// Time after which a file whose last chunk does not grow is closed.
const CLOSED_AFTER: Duration = Duration::from_secs(60);

/// Time between polls while a chunk is growing.
const POLL_INTERVAL: Duration = Duration::from_millis(250);

/// Maximum memory, in bytes, for types and constant pools across all chunks. A single chunk may
/// exceed it.
const HELD_BYTES_MAX: usize = 32 << 20;

/// Number of closed chunks whose positions remain in the store when the oldest ones are removed.
const KNOWN_MAX: usize = 10_000;

/// Number of chunks beyond [`KNOWN_MAX`] at which the oldest ones are removed.
const KNOWN_SPARE: usize = 256;

/// Reason label of data whose file was deleted before it was delivered.
const DELETED_UNDELIVERED: &str = "deleted_undelivered";

/// A running `jfr` source.
struct JfrSource {
    settings: Settings,
    open: SourceOpen,
    recordings: Recordings,
    /// Chunks that are being read, each with the identity of its file.
    chunks: Vec<(FileKey, ChunkTail)>,
    /// Index of the chunk to read next.
    turn: usize,
    /// Saved state of the chunks that are being read or were read.
    known: HashMap<OriginId, SavedChunk>,
    /// Copies of chunks that are currently read from another file.
    copies: Vec<Candidate>,
    /// Whether the source has never run before.
    is_first: bool,
    walked: Option<EngineTime>,
    bounds: Bounds,
    window: Vec<u8>,
    is_closing: bool,
}

/// The state that the source remembers for a chunk.
#[derive(Debug, Default)]
struct SavedChunk {
    /// Start time of the chunk, in nanoseconds since 1970.
    start_unix_ns: u64,
    /// Offset at which each sink resumes, by sink id.
    positions: Vec<(String, u64)>,
}

impl SavedChunk {
    /// Converts an origin from the store.
    fn of(record: OriginRecord) -> (OriginId, SavedChunk) {
        let start = record.descriptor.try_into().map_or(0, u64::from_be_bytes);
        (record.id, SavedChunk { start_unix_ns: start, positions: record.checkpoints })
    }

    fn position(&self, sink: &str) -> Option<u64> {
        self.positions.iter().find(|(id, _)| id == sink).map(|(_, at)| *at)
    }
}

impl JfrSource {
    fn open(settings: Settings, open: SourceOpen) -> Result<JfrSource, BuildError> {
        let (records, ran) = open.store.origins().map_err(BuildError::Store)?;
        let known = records.into_iter().map(SavedChunk::of).collect();
        Ok(JfrSource {
            settings,
            open,
            recordings: Recordings::default(),
            chunks: Vec::new(),
            turn: 0,
            known,
            copies: Vec::new(),
            is_first: !ran,
            walked: None,
            bounds: Bounds::default(),
            window: Vec::new(),
            is_closing: false,
        })
    }

    fn take_rereads(&mut self) {
        for again in self.open.ledger.take_rereads() {
            if let Some((_, chunk)) = self.chunks.iter_mut().find(|(_, c)| c.id() == again.origin) {
                chunk.cursors.reread(&again);
            }
        }
    }

    /// Walks the file system if the interval has elapsed.
    fn discover(&mut self, cx: &SourceCx<'_>) {
        let now = cx.now.since_start;
        if self.walked.is_some_and(|walked| now < walked + WALK_INTERVAL) {
            return;
        }
        let is_first = self.is_first && self.walked.is_none();
        self.walked = Some(now);
        let before = self.recordings.invalid();
        let (candidates, reasons) = self.recordings.discover(&self.settings, is_first);
        for path in self.recordings.invalid().difference(&before) {
            cx.counters.error("not_a_recording");
            let reason = reasons.get(&path.display().to_string()).map_or("", |reason| reason);
            log::warn!("source {}: cannot read {}: {reason}", cx.info.id, path.display());
        }
        self.open.unreadable.set(reasons);
        // A copy is read after the chunk is no longer read from the other file.
        let copies = std::mem::take(&mut self.copies).into_iter().map(Candidate::refreshed);
        let candidates = copies.chain(candidates).collect();
        self.adopt(candidates, cx);
    }

    /// Starts to read chunks. Saves their ids first.
    fn adopt(&mut self, mut candidates: Vec<Candidate>, cx: &SourceCx<'_>) {
        let mut open: HashSet<OriginId> = self.chunks.iter().map(|(_, c)| c.id()).collect();
        // Only one of several copies of a chunk is read.
        let is_copy = |candidate: &mut Candidate| !open.insert(id_of(&candidate.header));
        self.copies.extend(candidates.extract_if(.., is_copy));
        let saved = |candidate: &Candidate| {
            let id = id_of(&candidate.header);
            let start = candidate.header.start_unix_ns.to_be_bytes().to_vec();
            (!self.known.contains_key(&id)).then_some((id, start))
        };
        let saved: Vec<(OriginId, Vec<u8>)> = candidates.iter().filter_map(saved).collect();
        if let Err(error) = self.open.store.keep(&saved) {
            cx.counters.error("store");
            log::error!(
                "source {}: cannot save the ids of new recordings: {error}; retrying",
                cx.info.id
            );
            candidates.iter().for_each(|candidate| self.release(candidate));
            return;
        }
        candidates.into_iter().for_each(|candidate| self.insert(candidate, cx));
    }

    /// Lets the next walk find a chunk again.
    fn release(&mut self, candidate: &Candidate) {
        if let Some(recording) = self.recordings.get_mut(candidate.key) {
            recording.file = None;
        }
    }

    fn insert(&mut self, candidate: Candidate, cx: &SourceCx<'_>) {
        let Candidate { key, path, file, base, header, is_skipped } = candidate;
        let id = id_of(&header);
        let start = if is_skipped { header.chunk_bytes } else { 0 };
        let known = self.known.entry(id).or_default();
        known.start_unix_ns = header.start_unix_ns;
        let position = |sink: &str| known.position(sink);
        let resumed: Vec<(SinkIndex, u64)> = self
            .open
            .sinks
            .iter()
            .map(|(index, sink)| (*index, position(sink).unwrap_or(start)))
            .collect();
        let cursors = Cursors::resume(resumed.iter().copied());
        let now = cx.now.since_start;
        let chunk = ChunkTail::new(&path, file, base, header, cursors, start, now);
        cx.ledger.open(&chunk.origin, resumed);
        cx.ledger.note_end(id, chunk.end());
        self.chunks.push((key, chunk));
    }

    /// Reads from the first chunk that has data, starting at `turn`. Stays with this chunk until
    /// its data is used up, so that the constant pools of only a few chunks are in memory.
    fn read(&mut self, cx: &SourceCx<'_>) -> Polled {
        let mut waits = false;
        let mut progress = false;
        let count = self.chunks.len();
        for offset in 0..count {
            let index = (self.turn + offset) % count;
            let (_, chunk) = &mut self.chunks[index];
            if chunk.is_due(cx.now.since_start, self.is_closing) {
                chunk.look(cx);
            }
            match self.step(index, cx) {
                Some(Polled::Batch(batch, permit)) => {
                    self.turn = index;
                    return Polled::Batch(batch, permit);
                }
                Some(Polled::Backpressure) => waits = true,
                Some(_) => {
                    progress = true;
                    self.turn = index;
                    break;
                }
                None => {}
            }
        }
        match (progress, waits) {
            (true, _) => Polled::Wait(Duration::ZERO),
            (false, true) => Polled::Backpressure,
            (false, false) => {
                let is_growing = self.chunks.iter().any(|(_, chunk)| !chunk.is_complete());
                Polled::Wait(if is_growing { POLL_INTERVAL } else { WALK_INTERVAL })
            }
        }
    }

    /// Reads from a chunk; returns `None` if there is nothing to read.
    fn step(&mut self, index: usize, cx: &SourceCx<'_>) -> Option<Polled> {
        let mut shared = Shared {
            settings: &self.settings,
            bounds: &mut self.bounds,
            window: &mut self.window,
            is_ending: self.is_closing || cx.until_eof,
        };
        let chunk = &mut self.chunks[index].1;
        let step = chunk.read(&mut shared, cx);
        let polled = match step {
            Step::Nothing => None,
            Step::Backpressure => Some(Polled::Backpressure),
            Step::Progress => Some(Polled::Wait(Duration::ZERO)),
            Step::Due(choice) => {
                let emitted = emit(chunk, &choice, &self.settings, cx);
                Some(emitted.unwrap_or(Polled::Wait(Duration::ZERO)))
            }
        };
        self.bound_held(index);
        polled
    }

    /// If all chunks together hold too many bytes in memory, frees the types and constant pools of
    /// all chunks except this one.
    fn bound_held(&mut self, index: usize) {
        let total: usize = self.chunks.iter().map(|(_, chunk)| chunk.held_bytes()).sum();
        if total > HELD_BYTES_MAX {
            let others = self.chunks.iter_mut().enumerate().filter(|(other, _)| *other != index);
            others.for_each(|(_, (_, chunk))| chunk.free());
        }
    }

    /// Returns whether a deleted file has unread data.
    fn owes_deleted(&self) -> bool {
        let is_owed =
            |chunk: &ChunkTail| !chunk.is_read() && is_deleted(&chunk.file).unwrap_or(false);
        self.chunks.iter().any(|(_, chunk)| is_owed(chunk))
    }

    /// Counts and logs the undelivered bytes of a deleted file as lost.
    fn count_lost(&mut self, key: FileKey, bytes: u64) {
        self.open.counters.error(DELETED_UNDELIVERED);
        self.open.counters.dropped_bytes(DELETED_UNDELIVERED, bytes);
        let path = self.recordings.get_mut(key).map(|recording| recording.path.clone());
        log::error!(
            "source {}: lost {bytes} bytes of the deleted recording {}",
            self.open.info.id,
            path.unwrap_or_default().display()
        );
    }

    /// For each chunk that a sink has read to the end, opens the next chunk in the file. Closes
    /// chunks that every sink has read and settled. Returns whether there are new chunks.
    fn retire(&mut self, cx: &SourceCx<'_>) -> bool {
        let mut candidates = Vec::new();
        for index in 0..self.chunks.len() {
            if self.chunks[index].1.is_passed() && !self.chunks[index].1.is_followed {
                self.chunks[index].1.is_followed = true;
                candidates.extend(self.follow(index, cx));
            }
        }
        let mut index = 0;
        while index < self.chunks.len() {
            if self.is_finished(index, cx) {
                let (key, chunk) = self.chunks.remove(index);
                self.leave_chunk(key, &chunk, cx);
            } else {
                index += 1;
            }
        }
        let has_more = !candidates.is_empty();
        if has_more {
            self.adopt(candidates, cx);
        }
        self.forget(cx);
        has_more
    }

    fn is_finished(&self, index: usize, cx: &SourceCx<'_>) -> bool {
        let chunk = &self.chunks[index].1;
        if !chunk.is_read() {
            return false;
        }
        let quiet = cx.now.since_start - chunk.grown;
        let is_over = chunk.is_complete()
            || quiet > CLOSED_AFTER
            || quiet > DELETED_AFTER && is_deleted(&chunk.file).unwrap_or(false);
        let owed = cx.ledger.owed(chunk.id());
        is_over && owed.is_none_or(|owed| owed.in_flight == 0 && owed.oldest.is_none())
    }

    /// Closes the origin of a chunk, and remembers the positions of its sinks. Also closes the
    /// file, unless its next chunk was already searched for.
    fn leave_chunk(&mut self, key: FileKey, chunk: &ChunkTail, cx: &SourceCx<'_>) {
        let known = self.known.entry(chunk.id()).or_default();
        let position = |(index, sink): &(SinkIndex, String)| {
            let at = cx.ledger.checkpoint(chunk.id(), *index)?;
            // A position that was reached in a longer copy does not move back in a shorter one.
            Some((sink.clone(), at.max(known.position(sink).unwrap_or(0))))
        };
        known.positions = self.open.sinks.iter().filter_map(position).collect();
        chunk.origin.state.set_status(OriginStatus::Finished);
        cx.ledger.retire(chunk.id());
        if !chunk.is_followed
            && let Some(recording) = self.recordings.get_mut(key)
        {
            recording.close(chunk.base);
        }
    }

    /// Returns the next chunk in the file. If there is none, closes the file.
    fn follow(&mut self, index: usize, cx: &SourceCx<'_>) -> Option<Candidate> {
        let (key, chunk) = &self.chunks[index];
        let recording = self.recordings.get_mut(*key)?;
        if chunk.is_replaced {
            (recording.file, recording.next_at, recording.skip_until) = (None, 0, 0);
            return None;
        }
        let next_at = chunk.next_at()?;
        recording.next_at = next_at;
        match self.recordings.next_of(*key, &chunk.file) {
            Ok(Some(next)) => return Some(next),
            Ok(None) => {}
            Err(error) => {
                let path = self.recordings.get_mut(*key)?.path.clone();
                if self.recordings.note_invalid(&path, &error) {
                    cx.counters.error("not_a_recording");
                    log::error!(
                        "source {}: cannot read {} from byte {next_at} on: {error}",
                        cx.info.id,
                        path.display()
                    );
                }
            }
        }
        self.recordings.get_mut(*key)?.close(next_at);
        None
    }

    /// If too many chunks are remembered, forgets the closed chunks with the oldest start times.
    fn forget(&mut self, cx: &SourceCx<'_>) {
        if self.known.len() <= KNOWN_MAX + KNOWN_SPARE + self.chunks.len() {
            return;
        }
        let open: HashSet<OriginId> = self.chunks.iter().map(|(_, chunk)| chunk.id()).collect();
        let closed = self.known.iter().filter(|(id, _)| !open.contains(id));
        let mut closed: Vec<_> = closed.map(|(id, known)| (known.start_unix_ns, *id)).collect();
        closed.sort_unstable();
        closed.truncate(closed.len().saturating_sub(KNOWN_MAX));
        let forgotten: Vec<OriginId> = closed.into_iter().map(|(_, id)| id).collect();
        match self.open.store.forget(&forgotten) {
            Ok(()) => forgotten.iter().for_each(|id| drop(self.known.remove(id))),
            Err(error) => {
                cx.counters.error("store");
                log::error!(
                    "source {}: cannot remove the ids of deleted recordings: {error}",
                    cx.info.id
                );
            }
        }
    }
}

impl Source for JfrSource {
    fn poll(&mut self, cx: &mut SourceCx<'_>) -> Polled {
        self.take_rereads();
        if !self.is_closing {
            self.discover(cx);
        }
        let polled = self.read(cx);
        let has_more = self.retire(cx);
        let polled = match polled {
            Polled::Wait(_) if has_more => Polled::Wait(Duration::ZERO),
            polled => polled,
        };
        let is_idle = matches!(polled, Polled::Wait(wait) if !wait.is_zero());
        let is_read = || self.chunks.iter().all(|(_, chunk)| chunk.is_read());
        let is_over = match self.is_closing {
            true => !matches!(polled, Polled::Batch(..)) && !self.owes_deleted(),
            false => cx.until_eof && is_idle && is_read(),
        };
        if is_over { Polled::Ended } else { polled }
    }

    fn set_sinks(&mut self, sinks: &[(SinkIndex, String)]) {
        self.change_sinks(sinks);
    }

    fn close(&mut self, for_good: bool) -> bool {
        self.is_closing = true;
        // Undelivered data of a deleted file cannot be read after a restart, so it must be read
        // now.
        for_good && self.owes_deleted()
    }

    fn reopen(&mut self) {
        self.is_closing = false;
    }

    fn can_wait(&self) -> bool {
        true
    }

    fn leave(&mut self) -> Option<Leftover> {
        let mut left = Leftover::default();
        let mut by_file: BTreeMap<FileKey, (u64, bool)> = BTreeMap::new();
        for (key, chunk) in &self.chunks {
            let settled = self.open.ledger.owed(chunk.id()).map_or(0, |owed| owed.settled);
            let is_lost = is_deleted(&chunk.file).unwrap_or(false);
            let entry = by_file.entry(*key).or_insert((0, is_lost));
            entry.0 += chunk.end().saturating_sub(settled);
        }
        for (key, (bytes, is_lost)) in by_file.into_iter().filter(|(_, (bytes, _))| *bytes > 0) {
            if is_lost {
                self.count_lost(key, bytes);
                left.lost.add_file(bytes, 0);
            } else {
                left.waiting.add_file(bytes, 0);
            }
        }
        Some(left)
    }
}
