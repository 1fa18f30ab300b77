//! A chunk of a recording: its cursors, and the data that was read from it.

use super::config::Settings;
use super::decoder::{DecodeCx, Decoder};
use super::fill::Fill;
use super::process::Process;
use super::tags::{Bounds, TagSets};
use millstream_jfr::read::{
    ChunkError, ChunkHeader, ChunkState, HEADER_BYTES, ReadAt, ReadError, read_header,
};
use millstream_model::{
    Choice, Cursors, EngineTime, Now, Origin, OriginId, SinkIndex, SinkSet, SourceCx,
};
use millstream_recorder::file::RecordedFile;
use rustix::io::Errno;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// Time between two reads of a growing chunk's header. A JVM writes the header once a second.
const LOOK_INTERVAL: Duration = Duration::from_millis(500);

/// Maximum number of bytes that are decoded in one poll.
const STEP_BYTES: u64 = 4 << 20;

/// Maximum number of searches for the events that describe the process. A JVM can write these
/// events late, and some recordings contain none.
const PROCESS_LOOKS: u8 = 5;

/// Maximum number of times that a range is reread before the source gives up on it.
const ATTEMPTS_MAX: u8 = 40;

/// The bytes of a file, starting at a position.
pub struct FileFrom<'f> {
    /// The file.
    pub file: &'f RecordedFile,
    /// Position of the first byte.
    pub base: u64,
}

impl ReadAt for FileFrom<'_> {
    fn read_at(&self, at: u64, to: &mut [u8]) -> io::Result<usize> {
        let mut read = 0;
        let Some(from) = self.base.checked_add(at) else { return Ok(0) };
        while read < to.len() {
            match self.file.read_at(&mut to[read..], from.saturating_add(read as u64)) {
                Ok(0) => break,
                Ok(bytes) => read += bytes,
                Err(Errno::INTR) => {}
                // The position is beyond the largest possible file.
                Err(Errno::INVAL | Errno::OVERFLOW) => break,
                Err(error) => return Err(error.into()),
            }
        }
        Ok(read)
    }
}

/// Returns a chunk's origin id. The id depends on the start time of the chunk, so that a chunk has
/// the same id in the repository of its JVM and in every copy.
pub fn id_of(header: &ChunkHeader) -> OriginId {
    let numbers = [header.start_unix_ns, header.start_ticks, header.ticks_per_second.get()];
    // Apply the finalizer of splitmix64, by Vigna, after each number.
    let mix = |hash: u64, number: u64| {
        let mut mixed = (hash ^ number).wrapping_add(0x9e37_79b9_7f4a_7c15);
        mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    };
    OriginId(numbers.into_iter().fold(0, mix))
}

/// The result of [`ChunkTail::read`].
pub enum Step {
    /// A fill is due and must be emitted for this choice of a cursor.
    Due(Choice),
    /// Data was read or skipped, but no fill is due.
    Progress,
    /// A sink has no capacity.
    Backpressure,
    /// Currently there is nothing to read.
    Nothing,
}

/// State that all chunks share.
pub struct Shared<'a> {
    /// Source settings.
    pub settings: &'a Settings,
    /// Limits on the tags of all processes.
    pub bounds: &'a mut Bounds,
    /// Buffer that data is read into.
    pub window: &'a mut Vec<u8>,
    /// Whether no more data is expected.
    pub is_ending: bool,
}

/// A chunk that is being read. It may still be growing.
pub struct ChunkTail {
    /// Origin of the chunk.
    pub origin: Arc<Origin>,
    /// Read positions of the sinks.
    pub cursors: Cursors,
    /// Offset at which a new sink starts.
    pub start: u64,
    /// Metrics and log events that are not emitted yet.
    pub fill: Option<Fill>,
    /// Tag sets of the chunk's events.
    pub tag_sets: TagSets,
    /// Tags of the process that wrote the recording.
    pub process_tags: Vec<(&'static str, String)>,
    /// File that contains the chunk.
    pub file: Arc<RecordedFile>,
    path: PathBuf,
    /// Offset of the chunk in its file.
    pub base: u64,
    header: ChunkHeader,
    decoder: Option<Decoder>,
    process: Process,
    process_key: String,
    /// Remaining number of searches for the events that describe the process.
    process_looks: u8,
    /// Readable length when the chunk was found. Events after this offset are new.
    live_from: u64,
    is_broken: bool,
    /// Whether the next chunk in the file was searched for.
    pub is_followed: bool,
    /// Whether the file now contains another recording.
    pub is_replaced: bool,
    looked: EngineTime,
    /// Time when the chunk last grew.
    pub grown: EngineTime,
}

impl ChunkTail {
    /// Creates the tail for a chunk at `base` in a file.
    pub fn new(
        path: &Path,
        file: Arc<RecordedFile>,
        base: u64,
        header: ChunkHeader,
        cursors: Cursors,
        start: u64,
        now: EngineTime,
    ) -> ChunkTail {
        let origin = Origin::new(id_of(&header), path.to_string_lossy());
        origin.state.set_path(path.to_string_lossy());
        let process = Process::of_path(path);
        ChunkTail {
            origin: Arc::new(origin),
            cursors,
            start,
            fill: None,
            tag_sets: TagSets::default(),
            process_tags: process.tags(),
            process_key: process.key(),
            process,
            process_looks: PROCESS_LOOKS,
            file,
            path: path.to_owned(),
            base,
            live_from: if header.state == ChunkState::Complete { 0 } else { header.chunk_bytes },
            header,
            decoder: None,
            is_broken: false,
            is_followed: false,
            is_replaced: false,
            looked: now,
            grown: now,
        }
    }

    /// Returns the id of the origin.
    pub fn id(&self) -> OriginId {
        self.origin.id
    }

    /// Returns the readable length of the chunk.
    pub fn end(&self) -> u64 {
        self.header.chunk_bytes
    }

    /// Returns the offset of the next chunk in the file, if this chunk is complete.
    pub fn next_at(&self) -> Option<u64> {
        let end = self.base.saturating_add(self.header.chunk_bytes);
        self.is_complete().then_some(end)
    }

    /// Returns whether the chunk no longer grows.
    pub fn is_complete(&self) -> bool {
        self.header.state == ChunkState::Complete || self.is_replaced
    }

    /// Returns whether an incomplete chunk's header must be reread, because the interval has
    /// elapsed or `at_once` is set.
    pub fn is_due(&self, now: EngineTime, at_once: bool) -> bool {
        !self.is_complete() && (at_once || now >= self.looked + LOOK_INTERVAL)
    }

    /// Returns whether at least one sink has read the whole chunk.
    pub fn is_passed(&self) -> bool {
        self.is_complete() && self.cursors.head() >= self.end()
    }

    /// Returns whether a sink has data to read. Positions can be beyond the end of a copy that is
    /// shorter than the file read previously.
    fn is_behind(&self) -> bool {
        self.cursors.list().iter().any(|cursor| cursor.position < self.end())
    }

    /// Returns whether every sink has read the whole chunk, and nothing remains to be emitted.
    pub fn is_read(&self) -> bool {
        !self.is_behind() && self.fill.is_none()
    }

    /// Returns the memory use of the types and constant pools in bytes.
    pub fn held_bytes(&self) -> usize {
        self.decoder.as_ref().map_or(0, |decoder| decoder.reader().held_bytes())
    }

    /// Frees the types and constant pools. They are reread when they are needed.
    pub fn free(&mut self) {
        self.decoder = None;
        self.tag_sets.forget_bytes();
    }

    /// Keeps the cursors of the sinks in `kept`, and adds the sinks in `come` at their positions.
    /// Drops the fill, whose range is then reread.
    pub fn set_sinks(&mut self, kept: SinkSet, come: Vec<(SinkIndex, u64)>) {
        self.fill = None;
        self.cursors.set_sinks(kept, come);
    }

    fn from(&self) -> FileFrom<'_> {
        FileFrom { file: &self.file, base: self.base }
    }

    /// Rereads the header, and reads the data that was added to the chunk.
    pub fn look(&mut self, cx: &SourceCx<'_>) {
        self.looked = cx.now.since_start;
        let header = match read_header(&self.from()) {
            Ok(Some(header)) if header.state != ChunkState::Updating => header,
            Ok(_) => return,
            Err(error) => return self.fail(self.end(), &error, cx),
        };
        if header == self.header {
            return;
        }
        if id_of(&header) != self.id() || header.chunk_bytes < self.header.chunk_bytes {
            self.is_replaced = true;
            let error = ReadError::Invalid("header: the file was overwritten").into();
            return self.fail(self.end(), &error, cx);
        }
        self.header = header;
        self.grown = cx.now.since_start;
        cx.ledger.note_end(self.id(), self.end());
        if let Some(mut decoder) = self.decoder.take() {
            match decoder.update(&self.from(), &header) {
                Ok(false) => self.decoder = Some(decoder),
                // The types have changed, so the chunk is reopened.
                Ok(true) => self.tag_sets.forget_bytes(),
                Err(error) => self.fail(self.end(), &error, cx),
            }
        }
    }

    /// Counts and logs the reason why the rest of the chunk cannot be read. The rest is skipped,
    /// unless the error is a system error.
    fn fail(&mut self, at: u64, error: &ChunkError, cx: &SourceCx<'_>) {
        let is_final = matches!(error, ChunkError::Format(_));
        if self.is_broken {
            return;
        }
        self.is_broken = is_final;
        cx.counters.error(if is_final { "corrupt" } else { "read" });
        let rest = if is_final { "; the rest of its chunk is skipped" } else { "; retrying" };
        log::error!(
            "source {}: cannot read {} from byte {} on: {error}{rest}",
            cx.info.id,
            self.path.display(),
            self.base.saturating_add(at)
        );
    }

    /// Reads more data for one of the cursors.
    pub fn read(&mut self, shared: &mut Shared<'_>, cx: &SourceCx<'_>) -> Step {
        let end = self.end();
        if !self.is_behind() {
            return Step::Nothing;
        }
        let Some(choice) = self.cursors.choose(cx.ready, cx.blocked, Some(end)) else {
            return Step::Backpressure;
        };
        if choice.cursor.position >= end {
            return Step::Nothing;
        }
        self.fill.take_if(|fill| fill.cursor != choice.cursor);
        if choice.cursor.attempt > ATTEMPTS_MAX || self.is_broken && self.fill.is_none() {
            self.skip(choice, cx);
            return Step::Progress;
        }
        let limit = self.limit(&choice);
        if !self.decode(&choice, limit, shared, cx) {
            return Step::Nothing;
        }
        self.step(choice, limit, shared, cx)
    }

    /// Returns the offset at which the next fill must end. A fill never mixes new and old events,
    /// and a range that was abandoned repeatedly is halved.
    fn limit(&self, choice: &Choice) -> u64 {
        let position = choice.cursor.position;
        let mut limit = choice.limit.map_or(self.end(), |limit| limit.min(self.end()));
        if position < self.live_from {
            limit = limit.min(self.live_from);
        }
        match choice.cursor.attempt {
            0..3 => limit,
            _ => position + (limit - position).div_ceil(2),
        }
    }

    /// Decides whether the fill is due.
    fn step(&mut self, choice: Choice, limit: u64, shared: &Shared<'_>, cx: &SourceCx<'_>) -> Step {
        let (is_broken, end) = (self.is_broken, self.end());
        let is_growing = !self.is_complete();
        let Some(fill) = &self.fill else { return Step::Progress };
        let is_done = fill.end >= limit || is_broken;
        let awaits_more = is_growing && fill.is_live && limit == end && !shared.is_ending;
        let must_wait = is_done && awaits_more && !is_broken;
        let is_due = match must_wait {
            true => is_over(fill, shared.settings.period, cx.now),
            false => is_done,
        };
        match (is_due || fill.is_full(), is_done) {
            (true, _) => Step::Due(choice),
            (false, true) => Step::Nothing,
            (false, false) => Step::Progress,
        }
    }

    /// Decodes the next part into the fill. Returns `false` if a system error prevents this for
    /// now; the part is retried later.
    fn decode(
        &mut self,
        choice: &Choice,
        limit: u64,
        shared: &mut Shared<'_>,
        cx: &SourceCx<'_>,
    ) -> bool {
        if !self.is_broken {
            self.open(shared, cx);
        }
        let Some(decoder) = self.decoder.as_ref().filter(|_| !self.is_broken) else {
            return self.is_broken;
        };
        let is_live = choice.cursor.position >= self.live_from && !self.is_complete();
        let new = || Fill::new(choice.cursor, cx.now, is_live);
        let mut fill = self.fill.take().unwrap_or_else(new);
        let range = fill.end..limit.min(fill.end.saturating_add(STEP_BYTES));
        let mut decode_cx = DecodeCx {
            settings: shared.settings,
            process_tags: &self.process_tags,
            process_key: &self.process_key,
            tag_sets: &mut self.tag_sets,
            bounds: shared.bounds,
            is_live: fill.is_live,
            invalid: 0,
        };
        let from = FileFrom { file: &self.file, base: self.base };
        let begun = fill.end;
        let decoded = match fill.is_full() || range.is_empty() {
            true => Ok(()),
            false => decoder.fill(&from, range, shared.window, &mut fill, &mut decode_cx),
        };
        let invalid = decode_cx.invalid;
        cx.counters.received(0, fill.end - begun);
        self.fill = Some(fill);
        if invalid > 0 {
            cx.counters.dropped("invalid", invalid);
        }
        let Err((at, error)) = decoded else { return true };
        self.fail(at, &error, cx);
        self.is_broken
    }

    /// Opens the decoder, and identifies the process.
    fn open(&mut self, shared: &mut Shared<'_>, cx: &SourceCx<'_>) {
        if self.decoder.is_none() {
            self.tag_sets.forget_bytes();
            match Decoder::open(&self.from(), &self.header, shared.settings) {
                Ok(decoder) => self.decoder = Some(decoder),
                Err(error) => {
                    return self.fail(HEADER_BYTES as u64, &error, cx);
                }
            }
        }
        if self.process_looks > 0
            && let Some(decoder) = &self.decoder
        {
            let from = FileFrom { file: &self.file, base: self.base };
            let is_known = self.process.read(decoder.reader(), &from, shared.window);
            self.process_looks = if is_known { 0 } else { self.process_looks - 1 };
            self.process.find_container(&self.path, self.file.file());
            (self.process_tags, self.process_key) = (self.process.tags(), self.process.key());
        }
    }

    /// Settles the range that a cursor cannot read: the rest of an invalid chunk, or a range that
    /// was reread too often.
    fn skip(&mut self, choice: Choice, cx: &SourceCx<'_>) {
        let cursor = choice.cursor;
        let to = choice.limit.map_or(self.end(), |limit| limit.min(self.end()));
        if cursor.attempt > ATTEMPTS_MAX {
            cx.counters.error("abandoned");
            log::error!(
                "source {}: a sink repeatedly abandoned bytes {} to {to} of a chunk of {}, which \
                 are lost",
                cx.info.id,
                cursor.position,
                self.path.display()
            );
        }
        let now = cx.now.since_start;
        let range = cursor.position..to;
        cx.ledger.issue(self.id(), range, cursor.sinks, cursor.attempt, now).finish();
        self.cursors.advance(choice.index, to);
    }
}

/// Returns whether the period in which the fill was started has ended.
fn is_over(fill: &Fill, period: Duration, now: Now) -> bool {
    let number = |ns: i64| ns.div_euclid(period.as_nanos() as i64);
    number(now.unix_ns) != number(fill.begun.unix_ns)
        || now.since_start >= fill.begun.since_start + period
}
