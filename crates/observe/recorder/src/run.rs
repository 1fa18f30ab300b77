//! The shared memory of a recording run, and the threads that write to it.

use crate::chunks::{self, Appender, NAME_BYTES, OsThread, Pool};
use crate::layout::{AGENT_VERSION, CHUNK_WORDS, CHUNKS_FIRST, FIRST_HALF, Field, HEADER_WORDS};
use crate::layout::{Layout, MAGIC, OFF, RATE, THRESHOLD_NS, VERSION};
use crate::memory::Words;
use crate::names::{self, Names, Part};
use crate::schema::{EVENTS, EventKind, Settings};
use crate::slot::Stored;
use crate::snapshot::{Copy, SlotCounts};
use crate::ticks::{Moment, Source};
use parking_lot::Mutex;
use std::cell::Cell;
use std::ops::Range;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicU64, fence};

/// Number of times that a thread tries to lock the name table before it continues without a name.
const LOCK_TRIES: usize = 1000;

/// Maximum number of attempts to copy the header without a change during the copy. The header
/// changes once per second.
const HEADER_TRIES: usize = 100;

/// The shared memory of a recording run.
#[derive(Debug)]
pub struct Run {
    words: Words,
    layout: Layout,
    names: Mutex<Names<'static>>,
}

impl Run {
    /// Begins a run in words that are all 0.
    pub fn begin(words: Words, layout: Layout, clock: Source, start: &Moment, rate: u64) -> Run {
        let halves = [0, 1].map(|half| &words[layout.half(half)]);
        let run = Run { words, layout, names: Mutex::new(Names::new(halves, start.ticks)) };
        run.set(Field::Version, VERSION);
        run.set(Field::HalfWords, layout.half_words as u64);
        run.set(Field::FrequentChunks, layout.frequent_chunks as u64);
        run.set(Field::OtherChunks, layout.other_chunks as u64);
        run.set(Field::Pid, u64::from(std::process::id()));
        run.set(Field::ClockSource, clock as u64);
        run.set(Field::StartTicks, start.ticks);
        run.set(Field::StartMonotonicNs, start.monotonic_ns);
        run.set(Field::StartUnixNs, start.unix_ns);
        run.set(Field::FirstRate, rate);
        run.set(Field::FrequentAvailable, layout.frequent_chunks.min(CHUNKS_FIRST) as u64);
        run.set(Field::OtherAvailable, layout.other_chunks.min(CHUNKS_FIRST) as u64);
        run.set_latest(start);
        let version = env!("CARGO_PKG_VERSION").as_bytes().chunks(8);
        for (word, bytes) in run.words[AGENT_VERSION].iter().zip(version) {
            let mut whole = [0; 8];
            whole[..bytes.len()].copy_from_slice(bytes);
            word.store(u64::from_le_bytes(whole), Relaxed);
        }
        run.word(Field::Magic).store(MAGIC, Release);
        run
    }

    /// Returns a word in the header.
    pub fn word(&self, field: Field) -> &'static AtomicU64 {
        &self.words[field as usize]
    }

    fn set(&self, field: Field, value: u64) {
        self.word(field).store(value, Relaxed);
    }

    /// Returns the word for an event type in a range of the header, such as [`RATE`].
    pub fn of_kind(&self, range: Range<usize>, kind: EventKind) -> &'static AtomicU64 {
        &self.words[range][kind as usize]
    }

    /// Lets threads use all chunks, and both halves of the name table.
    pub fn use_all(&self) {
        let (frequent, other) = (self.layout.frequent_chunks, self.layout.other_chunks);
        self.word(Field::FrequentAvailable).store(frequent as u64, Release);
        self.word(Field::OtherAvailable).store(other as u64, Release);
        self.names.lock().use_all();
    }

    /// Stores the current time so that readers can relate ticks to it. Must not be called by
    /// several threads at the same time.
    pub fn set_latest(&self, now: &Moment) {
        let version = self.word(Field::LatestVersion).load(Relaxed);
        self.set(Field::LatestVersion, version + 1);
        fence(Release);
        self.set(Field::LatestTicks, now.ticks);
        self.set(Field::LatestMonotonicNs, now.monotonic_ns);
        self.set(Field::LatestUnixNs, now.unix_ns);
        self.word(Field::LatestVersion).store(version + 2, Release);
    }

    /// Stores the settings of an event type for readers.
    pub fn set_settings(&self, kind: EventKind, settings: &Settings) {
        let threshold_ns = u64::try_from(settings.threshold.as_nanos()).unwrap_or(OFF - 1);
        let threshold_ns = if settings.enabled { threshold_ns } else { OFF };
        let rate = settings.rate.map_or(0, |rate| u64::from(rate.0));
        self.of_kind(THRESHOLD_NS, kind).store(threshold_ns, Relaxed);
        self.of_kind(RATE, kind).store(rate, Relaxed);
    }

    fn pool(&self, is_frequent: bool) -> Pool<'static, AtomicU64> {
        let (range, available, cursor) = match is_frequent {
            true => (self.layout.frequent(), Field::FrequentAvailable, Field::FrequentCursor),
            false => (self.layout.other(), Field::OtherAvailable, Field::OtherCursor),
        };
        Pool {
            words: &self.words[range],
            chunk_words: CHUNK_WORDS,
            available: self.word(available),
            cursor: self.word(cursor),
            sequence: self.word(Field::Sequence),
        }
    }

    /// Calls a function with the name table. Returns `None`, and counts a missing name, if the
    /// function fails or if other threads hold the lock for too long.
    fn with_names<T>(
        &self,
        call: impl Fn(&mut Names<'static>) -> Option<(T, u32)>,
    ) -> Option<(T, u32)> {
        for _ in 0..LOCK_TRIES {
            if let Some(mut names) = self.names.try_lock() {
                let made = call(&mut names);
                self.count_if(made.is_none(), Field::WithoutName);
                return made;
            }
            std::hint::spin_loop();
        }
        self.count_if(true, Field::WithoutName);
        None
    }

    fn count_if(&self, is_true: bool, field: Field) {
        if is_true {
            self.word(field).fetch_add(1, Relaxed);
        }
    }

    /// Returns the reference to a subject and its epoch, or `None` if the subject could not be
    /// stored.
    pub fn refer_to_subject(
        &self,
        parts: &[Part<'_>],
        is_new: bool,
        now: u64,
        rate: u64,
    ) -> Option<(u32, u32)> {
        self.with_names(|names| {
            let reference = names.refer_to_subject(parts, is_new, now, rate)?;
            Some((reference, names.epoch()))
        })
    }

    /// Returns the reference to a string and its epoch, or `None` if the string could not be
    /// stored.
    pub fn refer_to_text(&self, text: &str, now: u64, rate: u64) -> Option<(u32, u32)> {
        self.with_names(|names| {
            let reference = names.refer_to_text(text, now, rate)?;
            Some((reference, names.epoch()))
        })
    }

    /// Copies the header, the name table, and the chunk data that the reader does not have, while
    /// threads continue to write. Chunks are copied first, so that the names to which they refer
    /// are in the table.
    pub fn copy(&self, known: &SlotCounts) -> Vec<u8> {
        let chunks =
            [true, false].into_iter().flat_map(|is_frequent| self.pool(is_frequent).chunks());
        let known = |sequence| known.get(&sequence).copied().unwrap_or(0);
        let copies = chunks.clone().filter_map(|chunk| chunks::copy(chunk, known)).collect();
        Copy {
            header: self.header(),
            positions: chunks.map(chunks::position).collect(),
            halves: self.copy_names(),
            chunks: copies,
        }
        .into_bytes()
    }

    fn copy_names(&self) -> [Vec<u64>; 2] {
        // Reading a half that has no memory yet would allocate the memory.
        let is_allocated = self.names.lock().uses_all();
        [0, 1].map(|half| match half == FIRST_HALF || is_allocated {
            true => names::copy(&self.words[self.layout.half(half)]),
            false => Vec::new(),
        })
    }

    fn header(&self) -> Vec<u64> {
        let words = &self.words[..HEADER_WORDS];
        let mut copied = Vec::new();
        for _ in 0..HEADER_TRIES {
            let before = self.word(Field::LatestVersion).load(Acquire);
            copied = words.iter().map(|word| word.load(Relaxed)).collect();
            fence(Acquire);
            let is_same = self.word(Field::LatestVersion).load(Relaxed) == before;
            if is_same && before.is_multiple_of(2) {
                break;
            }
        }
        // The version tells the reader whether the time is incomplete.
        copied
    }
}

/// Writes the events of one thread to the chunks that the thread owns.
#[derive(Debug)]
pub struct Writer {
    frequent: Appender<'static, AtomicU64>,
    other: Appender<'static, AtomicU64>,
    thread: Cell<Option<OsThread>>,
}

impl Writer {
    /// Creates a writer without chunks.
    pub const fn new() -> Writer {
        Writer { frequent: Appender::new(), other: Appender::new(), thread: Cell::new(None) }
    }

    /// Appends an event. Never blocks or allocates. Returns whether the event was stored.
    #[inline(always)]
    pub fn write(&self, event: &Stored, run: impl Fn() -> Option<&'static Run>) -> bool {
        let is_frequent = EVENTS[event.kind as usize].is_frequent;
        let appender = if is_frequent { &self.frequent } else { &self.other };
        let (slots, count) = event.encode(appender.check());
        if appender.has_space(count) {
            appender.push(&slots[..count]);
            return true;
        }
        self.write_to_next(event, is_frequent, run())
    }

    #[cold]
    fn write_to_next(&self, event: &Stored, is_frequent: bool, run: Option<&'static Run>) -> bool {
        let Some(run) = run else { return false };
        let appender = if is_frequent { &self.frequent } else { &self.other };
        let thread = self.thread.get().unwrap_or_else(current_thread);
        self.thread.set(Some(thread));
        let has_space = appender.renew(&run.pool(is_frequent), &thread);
        if has_space {
            let (slots, count) = event.encode(appender.check());
            appender.push(&slots[..count]);
        }
        run.count_if(!has_space, Field::WithoutSpace);
        has_space
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.frequent.release();
        self.other.release();
    }
}

/// Returns the calling thread.
fn current_thread() -> OsThread {
    let os_id = rustix::thread::gettid().as_raw_nonzero().get().cast_unsigned();
    let mut name = [0; NAME_BYTES];
    if let Ok(text) = rustix::thread::name() {
        let bytes = &text.to_bytes()[..text.to_bytes().len().min(NAME_BYTES)];
        name[..bytes.len()].copy_from_slice(bytes);
    }
    OsThread { os_id, name }
}
