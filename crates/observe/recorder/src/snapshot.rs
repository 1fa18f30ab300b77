//! The data that a run has recorded up to a point in time. It comes from the file of a run that has
//! ended or crashed, or from a copy of a running process's memory.
//!
//! A copy contains the header of the run, with a different magic number, followed by sections. A
//! section is a number of words, followed by the words. The first section contains the position
//! words of all chunks, the next two contain the halves of the name table, and each remaining
//! section contains a chunk.

use crate::chunks::{self, Copied, OsThread};
use crate::event::{Event, Tables, Thread};
use crate::ids::{SubjectId, TextId, ThreadId};
use crate::jfr::Clock;
use crate::layout::{self, AGENT_VERSION, CHUNK_WORDS, Field, HEADER_WORDS, Layout, OVER_RATE};
use crate::layout::{HALF_WORDS_MAX, MAGIC, OFF, RATE, THRESHOLD_NS, VERSION};
use crate::names::CopiedNames;
use crate::schema::{EVENTS, EventKind, FIELDS_MAX, FieldKind, PerSecond, Settings};
use crate::slot::{Slot, Stored};
use crate::ticks::{Moment, Source};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::num::NonZeroU64;
use std::time::Duration;

/// First word of a copy.
const COPY_MAGIC: u64 = u64::from_le_bytes(*b"MSCOPY\0\0");

/// Minimum length of a run in nanoseconds for computing the tick rate from the whole run.
const RATE_FROM_NS: u64 = 1_000_000_000;

/// Number that represents an unknown string.
const NO_TEXT: u64 = u32::MAX as u64;

/// For each sequence, the number of slots that a reader already has.
pub type SlotCounts = BTreeMap<u32, u32>;

/// A copy of a run's memory.
#[derive(Debug)]
pub(crate) struct Copy {
    /// The words of the header.
    pub header: Vec<u64>,
    /// The position words of all chunks, which were read after the chunks were copied.
    pub positions: Vec<u64>,
    /// The used words in each half of the name table.
    pub halves: [Vec<u64>; 2],
    /// The chunks that the reader does not have yet.
    pub chunks: Vec<Vec<u64>>,
}

impl Copy {
    /// Encodes the copy. Each section is freed as soon as it is written, so that memory contains
    /// the copy only once.
    pub fn into_bytes(mut self) -> Vec<u8> {
        self.header[Field::Magic as usize] = COPY_MAGIC;
        let mut bytes = Vec::new();
        let put = |words: &[u64], bytes: &mut Vec<u8>| {
            bytes.extend(words.iter().copied().flat_map(u64::to_le_bytes));
        };
        put(&self.header, &mut bytes);
        for section in [self.positions].into_iter().chain(self.halves).chain(self.chunks) {
            put(&[section.len() as u64], &mut bytes);
            put(&section, &mut bytes);
        }
        bytes
    }
}

/// The reason why bytes are not a readable recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoRecording {
    /// The bytes are not a recording.
    Foreign,
    /// The run crashed before it recorded anything.
    Empty,
    /// Another release wrote the bytes, in a different version of the format.
    OtherVersion,
    /// The bytes end within the header.
    Cut,
}

impl std::fmt::Display for NoRecording {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            NoRecording::Foreign => "not a recorder file",
            NoRecording::Empty => "the agent died before it recorded anything",
            NoRecording::OtherVersion => "written by a release with another format",
            NoRecording::Cut => "the file is shorter than its header",
        })
    }
}

impl std::error::Error for NoRecording {}

/// The data that a run has recorded.
#[derive(Clone, Debug)]
pub struct Snapshot {
    header: Vec<u64>,
    is_copy: bool,
    /// Number of bytes that are missing at the end of the file.
    cut_bytes: u64,
    names: CopiedNames,
    /// Sequences of all chunks, including chunks that were not copied.
    sequences: BTreeSet<u32>,
    chunks: Vec<Vec<u64>>,
}

impl Snapshot {
    /// Parses the file of a run, or a copy. The data after the header can be damaged.
    ///
    /// # Errors
    ///
    /// Returns an error if there is no header that this release can read.
    pub fn parse(bytes: &[u8]) -> Result<Snapshot, NoRecording> {
        let (words, _) = bytes.as_chunks();
        let words: Vec<u64> = words.iter().copied().map(u64::from_le_bytes).collect();
        let (header, rest) = words.split_at_checked(HEADER_WORDS).ok_or(NoRecording::Cut)?;
        let is_copy = match header[Field::Magic as usize] {
            MAGIC => false,
            COPY_MAGIC => true,
            0 => return Err(NoRecording::Empty),
            _ => return Err(NoRecording::Foreign),
        };
        if header[Field::Version as usize] != VERSION {
            return Err(NoRecording::OtherVersion);
        }
        let sections = if is_copy { sections(rest) } else { in_file(header, &words) };
        let mut sections = sections.into_iter();
        let mut next = || sections.next().unwrap_or_default();
        let mut positions = next();
        let names = CopiedNames::new([next(), next()]);
        let chunks: Vec<Vec<u64>> = sections.collect();
        positions.extend(chunks.iter().filter_map(|chunk| Copied::position(chunk)));
        let sequences = positions.into_iter().filter_map(chunks::sequence).collect();
        let whole = if is_copy { 0 } else { layout_of(header, usize::MAX).words() };
        let cut_bytes = whole.saturating_sub(words.len()) as u64 * 8;
        let header = header.to_vec();
        Ok(Snapshot { header, is_copy, cut_bytes, names, sequences, chunks })
    }

    fn field(&self, field: Field) -> u64 {
        self.header[field as usize]
    }

    /// Returns the process id.
    pub fn pid(&self) -> u32 {
        self.field(Field::Pid) as u32
    }

    /// Returns whether this is a copy of a run that might have continued, as opposed to the file of
    /// a run.
    pub fn is_copy(&self) -> bool {
        self.is_copy
    }

    /// Returns the number of bytes that are missing at the end of the file.
    pub fn cut_bytes(&self) -> u64 {
        self.cut_bytes
    }

    /// Returns whether the run ended normally.
    pub fn has_ended(&self) -> bool {
        self.field(Field::Ended) != 0
    }

    /// Returns the agent's version.
    pub fn agent_version(&self) -> String {
        let words = self.header[AGENT_VERSION].iter();
        let bytes: Vec<u8> = words.flat_map(|word| word.to_le_bytes()).collect();
        let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
        String::from_utf8_lossy(&bytes[..end]).into_owned()
    }

    /// Returns the clock from which ticks come.
    pub fn clock_source(&self) -> Source {
        match self.field(Field::ClockSource) {
            0 => Source::Counter,
            _ => Source::System,
        }
    }

    /// Returns the relation between ticks and time, starting at the beginning of the run. The
    /// relation is exact at the most recent second of the run, so that times match the log before a
    /// crash.
    pub fn clock(&self) -> Clock {
        let (start, latest) = (self.start(), self.latest());
        let lasted_ns = latest.monotonic_ns.saturating_sub(start.monotonic_ns);
        let first = NonZeroU64::new(self.field(Field::FirstRate)).unwrap_or(NonZeroU64::MIN);
        let rate = if lasted_ns >= RATE_FROM_NS { start.rate(&latest) } else { first };
        let clock = Clock { ticks_per_second: rate, start_ticks: start.ticks, start_unix_ns: 0 };
        let start_unix_ns = latest.unix_ns.saturating_sub(clock.unix_ns(latest.ticks));
        Clock { start_unix_ns, ..clock }
    }

    fn start(&self) -> Moment {
        Moment {
            ticks: self.field(Field::StartTicks),
            monotonic_ns: self.field(Field::StartMonotonicNs),
            unix_ns: self.field(Field::StartUnixNs),
        }
    }

    fn latest(&self) -> Moment {
        let latest = Moment {
            ticks: self.field(Field::LatestTicks),
            monotonic_ns: self.field(Field::LatestMonotonicNs),
            unix_ns: self.field(Field::LatestUnixNs),
        };
        // The version is odd if the run crashed while the time was being written.
        let is_whole = self.field(Field::LatestVersion).is_multiple_of(2);
        if is_whole && latest.ticks >= self.start().ticks { latest } else { self.start() }
    }

    /// Returns the most recent time, in ticks, at which the run was known to be alive.
    pub fn latest_ticks(&self) -> u64 {
        self.latest().ticks
    }

    /// Returns the most recent settings of the recording.
    pub fn settings(&self) -> Vec<(EventKind, Settings)> {
        EVENTS.iter().map(|spec| (spec.kind, self.settings_of(spec.kind))).collect()
    }

    fn settings_of(&self, kind: EventKind) -> Settings {
        let threshold_ns = self.header[THRESHOLD_NS][kind as usize];
        let rate = u32::try_from(self.header[RATE][kind as usize]).unwrap_or(u32::MAX);
        let enabled = threshold_ns != OFF;
        let threshold = Duration::from_nanos(if enabled { threshold_ns } else { 0 });
        let rate = (rate > 0).then_some(PerSecond(rate));
        Settings { enabled, threshold, rate, stack: false }
    }

    /// Returns the number of events that were not recorded because the type was over its rate
    /// limit.
    pub fn over_rate(&self, kind: EventKind) -> u64 {
        self.header[OVER_RATE][kind as usize]
    }

    /// Returns the number of events that were lost because there was no chunk for them.
    pub fn without_space(&self) -> u64 {
        self.field(Field::WithoutSpace)
    }

    /// Returns the number of strings and subjects that could not be stored.
    pub fn without_name(&self) -> u64 {
        self.field(Field::WithoutName)
    }

    fn chunks(&self) -> Vec<Copied<'_>> {
        let chunks = self.chunks.iter().filter_map(|chunk| Copied::of_words(chunk));
        let mut chunks: Vec<Copied<'_>> = chunks.filter(|chunk| chunk.complete > 0).collect();
        chunks.sort_by_key(|chunk| chunk.sequence);
        chunks
    }
}

/// Returns the sections of a copy up to the first incomplete one.
fn sections(mut rest: &[u64]) -> Vec<Vec<u64>> {
    let mut found = Vec::new();
    while let Some((count, behind)) = rest.split_first()
        && let Ok(count) = usize::try_from(*count)
        && let Some((section, behind)) = behind.split_at_checked(count)
    {
        found.push(section.to_vec());
        rest = behind;
    }
    found
}

/// Returns the contents of a file as the sections that a copy would contain. If the file is
/// truncated, the last sections are incomplete or missing.
fn in_file(header: &[u64], words: &[u64]) -> Vec<Vec<u64>> {
    let layout = layout_of(header, words.len() / CHUNK_WORDS);
    let part = |range: std::ops::Range<usize>| {
        let end = range.end.min(words.len());
        words[range.start.min(end)..end].to_vec()
    };
    let halves = [0, 1].map(|half| part(layout.half(half)));
    let chunks = layout.frequent().start..layout.other().end.min(words.len());
    let chunks = chunks.step_by(CHUNK_WORDS).map(|at| at..at + CHUNK_WORDS);
    let is_used = |at: &std::ops::Range<usize>| {
        words.get(at.clone()).is_none_or(|chunk| Copied::position(chunk) != Some(0))
    };
    let chunks: Vec<Vec<u64>> = chunks.filter(is_used).map(part).collect();
    // The first section is empty, because a chunk in a file contains its position.
    [Vec::new()].into_iter().chain(halves).chain(chunks).collect()
}

/// Returns the layout that a header describes, limited to `chunks_max` chunks of each use.
fn layout_of(header: &[u64], chunks_max: usize) -> Layout {
    let number = |field: Field, max: usize| {
        usize::try_from(header[field as usize]).unwrap_or(usize::MAX).min(max)
    };
    let chunks_max = chunks_max.min(CHUNKS_MAX);
    Layout {
        half_words: number(Field::HalfWords, HALF_WORDS_MAX),
        frequent_chunks: number(Field::FrequentChunks, chunks_max),
        other_chunks: number(Field::OtherChunks, chunks_max),
    }
}

/// Maximum number of chunks for each use in a header. A larger number means that the header is
/// damaged.
const CHUNKS_MAX: usize = 1 << 24;

/// Reads the events in snapshots of the same run. Each event is read once.
#[derive(Debug, Default)]
pub struct Reader {
    known: SlotCounts,
    /// The most recently assigned sequence as of the previous snapshot. `None` before the first
    /// snapshot.
    looked_for: Option<u32>,
    /// Sequences that were assigned but have not been read yet.
    missing: BTreeSet<u32>,
    lost_chunks: u64,
    texts: Vec<String>,
    text_ids: HashMap<String, TextId>,
    threads: Vec<(String, u32)>,
    thread_ids: HashMap<OsThread, ThreadId>,
    /// For each epoch and reference, the string id.
    references: HashMap<(u32, u32), u64>,
    /// For each epoch and reference, the subject and its values.
    subjects: HashMap<(u32, u32), (SubjectId, [u64; 3])>,
}

impl Reader {
    /// Returns how many slots of each sequence this reader already has. A copy can omit these
    /// slots.
    pub fn known(&self) -> &SlotCounts {
        &self.known
    }

    /// Returns the number of chunks that were overwritten before they were read. Each contains up
    /// to 1022 events.
    pub fn lost_chunks(&self) -> u64 {
        self.lost_chunks
    }

    /// Reads the new events, in the order in which their chunks were started. Damaged slots are
    /// skipped.
    pub fn read(&mut self, snapshot: &Snapshot, mut each: impl FnMut(&Event, &Reader)) {
        let chunks = snapshot.chunks();
        self.find_missing(snapshot);
        for chunk in &chunks {
            let known = self.known.get(&chunk.sequence).copied().unwrap_or(0);
            let skipped = known.saturating_sub(chunk.left_out) as usize;
            let thread = self.thread_id(&chunk.thread);
            let mut slots = chunk.slots().get(skipped..).unwrap_or_default();
            while !slots.is_empty() {
                let decoded = Stored::decode(slots, chunk.sequence as u8);
                let taken = decoded.map_or(1, |(_, count)| count);
                if let Some((stored, _)) = decoded {
                    let event = self.event(snapshot, &stored, thread);
                    each(&event, self);
                }
                slots = &slots[taken..];
            }
            self.known.insert(chunk.sequence, chunk.complete.max(known));
        }
        self.missing.retain(|sequence| !self.known.contains_key(sequence));
        self.known.retain(|sequence, _| snapshot.sequences.contains(sequence));
    }

    /// Marks all data in a snapshot as known without reading it.
    pub fn skip(&mut self, snapshot: &Snapshot) {
        for chunk in snapshot.chunks() {
            self.known.insert(chunk.sequence, chunk.complete);
        }
        self.looked_for = Some(snapshot.field(Field::Sequence) as u32);
    }

    /// Records the new sequences, and counts the sequences whose chunks were overwritten before
    /// they were read. A sequence that was assigned very recently might not appear until the next
    /// snapshot.
    fn find_missing(&mut self, snapshot: &Snapshot) {
        let last = snapshot.field(Field::Sequence) as u32;
        let before = self.missing.len();
        self.missing.retain(|sequence| snapshot.sequences.contains(sequence));
        self.lost_chunks += (before - self.missing.len()) as u64;
        if let Some(before) = self.looked_for
            && last.saturating_sub(before) <= SEQUENCES_MAX
        {
            self.missing.extend(before.saturating_add(1)..=last);
        }
        self.looked_for = Some(last);
    }

    fn event(&mut self, snapshot: &Snapshot, stored: &Stored, thread: ThreadId) -> Event {
        let end_ticks = stored.start_ticks.saturating_add(stored.duration_ticks);
        let (subject, shared) = self.subject(snapshot, stored, end_ticks);
        let mut values = [0; FIELDS_MAX];
        let (mut shared, mut own) = (shared.into_iter(), stored.own.into_iter());
        for (value, field) in values.iter_mut().zip(stored.kind.spec().fields) {
            *value = match (field.is_shared, field.kind) {
                (true, _) => shared.next().unwrap_or(NO_TEXT),
                (false, FieldKind::Text) => {
                    let reference = own.next().unwrap_or(0) as u32;
                    self.text(snapshot, reference, end_ticks)
                }
                (false, _) => own.next().unwrap_or(0),
            };
        }
        let Stored { kind, start_ticks, duration_ticks, .. } = *stored;
        Event { kind, thread, subject, start_ticks, duration_ticks, values }
    }

    /// Returns an event's subject and the values of the shared fields.
    fn subject(
        &mut self,
        snapshot: &Snapshot,
        stored: &Stored,
        end_ticks: u64,
    ) -> (SubjectId, [u64; 3]) {
        let unknown = (SubjectId(0), [NO_TEXT, NO_TEXT, 0]);
        let names = &snapshot.names;
        let Some(key) = valid(names, stored.subject, end_ticks) else { return unknown };
        if let Some(subject) = self.subjects.get(&key) {
            return *subject;
        }
        let Some(parts) = names.subject(stored.subject) else { return unknown };
        let fields = stored.kind.spec().fields.iter().filter(|field| field.is_shared);
        let mut values = [0; 3];
        for ((value, part), field) in values.iter_mut().zip(parts).zip(fields) {
            *value = match field.kind {
                FieldKind::Text => self.text(snapshot, part, u64::MAX),
                _ => u64::from(part),
            };
        }
        let subject = (SubjectId(self.subjects.len() as u32 + 1), values);
        self.subjects.insert(key, subject);
        subject
    }

    /// Returns the id of the string to which a reference points.
    fn text(&mut self, snapshot: &Snapshot, reference: u32, end_ticks: u64) -> u64 {
        let Some(key) = valid(&snapshot.names, reference, end_ticks) else { return NO_TEXT };
        if let Some(id) = self.references.get(&key) {
            return *id;
        }
        let Some(text) = snapshot.names.text(reference) else { return NO_TEXT };
        let next = TextId(self.texts.len() as u32);
        let id = *self.text_ids.entry(text.clone()).or_insert(next);
        if id == next {
            self.texts.push(text);
        }
        self.references.insert(key, u64::from(id.0));
        u64::from(id.0)
    }

    fn thread_id(&mut self, thread: &OsThread) -> ThreadId {
        let next = ThreadId(self.threads.len() as u32);
        let id = *self.thread_ids.entry(*thread).or_insert(next);
        if id == next {
            let end = thread.name.iter().position(|byte| *byte == 0);
            let name = &thread.name[..end.unwrap_or(thread.name.len())];
            self.threads.push((String::from_utf8_lossy(name).into_owned(), thread.os_id));
        }
        id
    }
}

/// Maximum number of sequences to search for between two snapshots. A larger number means that a
/// file is damaged, or that it belongs to another run.
const SEQUENCES_MAX: u32 = 1 << 16;

/// Returns the key of a reference, if the current use of its half began before the event ended.
fn valid(names: &CopiedNames, reference: u32, end_ticks: u64) -> Option<(u32, u32)> {
    let (epoch, since_ticks) = names.epoch(reference)?;
    (reference != 0 && end_ticks >= since_ticks).then_some((epoch, reference))
}

impl Tables for Reader {
    fn text(&self, id: TextId) -> Option<&str> {
        self.texts.get(id.0 as usize).map(|text| &text[..])
    }

    fn thread(&self, id: ThreadId) -> Option<Thread<'_>> {
        self.threads.get(id.0 as usize).map(|(name, os_id)| Thread { name, os_id: *os_id })
    }
}

/// The slot size and header size must match the format.
const _: () = assert!(size_of::<Slot>() == 32 && layout::HEADER_WORDS * 8 == 4096);
