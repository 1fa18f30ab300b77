//! The process-wide recorder.

use crate::layout::{Field, Layout, OFF, OVER_RATE};
use crate::memory::{self, Words};
use crate::names::Part;
use crate::run::{Run, Writer};
use crate::schema::{EVENTS, EventKind, FIELDS_MAX, PerSecond, Settings};
use crate::slot::Stored;
use crate::snapshot::SlotCounts;
use crate::ticks::{self, Moment};
use parking_lot::Mutex;
use std::array;
use std::fs::File;
use std::io;
use std::sync::OnceLock;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicU32, AtomicU64};
use std::time::Duration;

const NS_PER_SECOND: u128 = 1_000_000_000;

/// Values that every thread reads for each event.
struct Switches {
    /// Minimum duration for each event type in ticks, or [`OFF`].
    thresholds: [AtomicU64; EVENTS.len()],
    /// Maximum number of events per second for each type, or 0 for no limit.
    rates: [AtomicU32; EVENTS.len()],
    /// For each type with a rate limit: a second (32 bits), and the number of events recorded in
    /// that second (32 bits).
    seconds: [AtomicU64; EVENTS.len()],
    ticks_per_second: AtomicU64,
    /// The epoch of the name table.
    epoch: AtomicU32,
}

static SWITCHES: Switches = Switches {
    thresholds: [const { AtomicU64::new(OFF) }; EVENTS.len()],
    rates: [const { AtomicU32::new(0) }; EVENTS.len()],
    seconds: [const { AtomicU64::new(0) }; EVENTS.len()],
    ticks_per_second: AtomicU64::new(1),
    epoch: AtomicU32::new(0),
};

static RUN: OnceLock<Run> = OnceLock::new();

/// The recording file and its layout, until [`keep_time`] allocates the remaining blocks.
static UNALLOCATED: Mutex<Option<(File, Layout)>> = Mutex::new(None);

thread_local! {
    static WRITER: Writer = const { Writer::new() };
}

/// Settings for all event types, indexed by type number.
pub type AllSettings = [Settings; EVENTS.len()];

/// Returns the default settings of all event types.
pub fn defaults() -> AllSettings {
    array::from_fn(|number| EVENTS[number].defaults)
}

/// Where recorded events are stored.
#[derive(Debug)]
pub enum Destination<'f> {
    /// An empty file that is open for reading and writing. Events reach it even if the process is
    /// killed.
    File(&'f File),
    /// Memory that is lost when the process exits.
    Memory,
}

/// Starts recording in about `bytes` bytes. Initially, the file has blocks for only a part of them,
/// so that starting takes little time. [`keep_time`] allocates the remaining blocks.
///
/// # Errors
///
/// Returns an error if the file's blocks cannot be allocated, if there is no memory, or if the
/// process is already recording. In these cases, nothing is recorded to the destination, but its
/// file may have grown.
pub fn start_run(
    destination: &Destination<'_>,
    bytes: u64,
    settings: &AllSettings,
) -> io::Result<()> {
    let layout = Layout::of_bytes(bytes);
    let words = words(destination, &layout)?;
    let clock = ticks::choose();
    let start = Moment::now();
    let rate = start.first_rate().get();
    SWITCHES.ticks_per_second.store(rate, Relaxed);
    let run = Run::begin(words, layout, clock, &start, rate);
    let file = match destination {
        Destination::File(file) => Some((file.try_clone()?, layout)),
        Destination::Memory => None,
    };
    if file.is_none() {
        run.use_all();
    }
    RUN.set(run).map_err(|_| io::Error::other("the process is already recording"))?;
    *UNALLOCATED.lock() = file;
    set(settings);
    Ok(())
}

fn words(destination: &Destination<'_>, layout: &Layout) -> io::Result<Words> {
    let words = layout.words();
    match destination {
        Destination::File(file) => {
            file.set_len((words * size_of::<u64>()) as u64)?;
            layout.first().into_iter().try_for_each(|part| memory::allocate(file, part))?;
            memory::map(file, words)
        }
        Destination::Memory => memory::without_file(words),
    }
}

/// Allocates the missing blocks of the file on the first call. A failure is not retried.
fn allocate_rest(run: &Run) -> io::Result<()> {
    let Some((file, layout)) = UNALLOCATED.lock().take() else { return Ok(()) };
    for part in layout.rest().into_iter().filter(|part| !part.is_empty()) {
        memory::allocate(&file, part)?;
    }
    run.use_all();
    Ok(())
}

/// Sets which events are recorded, effective immediately.
pub fn set(settings: &AllSettings) {
    let Some(run) = RUN.get() else { return };
    for (spec, settings) in EVENTS.iter().zip(settings) {
        let number = spec.kind as usize;
        let rate = settings.rate.map_or(0, |rate| rate.0.max(1));
        let threshold = if settings.enabled { to_ticks(settings.threshold) } else { OFF };
        run.set_settings(spec.kind, settings);
        SWITCHES.rates[number].store(rate, Relaxed);
        SWITCHES.thresholds[number].store(threshold, Relaxed);
    }
}

/// Returns the current settings, or `None` if the process is not recording.
pub fn settings() -> Option<AllSettings> {
    let run = RUN.get()?;
    Some(array::from_fn(|number| {
        let kind = EVENTS[number].kind;
        let threshold_ns = run.of_kind(crate::layout::THRESHOLD_NS, kind).load(Relaxed);
        let rate = SWITCHES.rates[number].load(Relaxed);
        let enabled = threshold_ns != OFF;
        let threshold = if enabled { Duration::from_nanos(threshold_ns) } else { Duration::ZERO };
        let rate = (rate > 0).then_some(PerSecond(rate));
        Settings { enabled, threshold, rate, stack: false }
    }))
}

/// Relates ticks to system time for readers. Must be called once per second by a single thread.
///
/// # Errors
///
/// Returns an error if the first call cannot allocate the remaining blocks of the file. In that
/// case, recording continues in the existing blocks.
pub fn keep_time() -> io::Result<()> {
    let Some(run) = RUN.get() else { return Ok(()) };
    note_time(run);
    allocate_rest(run)
}

fn note_time(run: &Run) {
    let now = Moment::now();
    let ticks = run.word(Field::StartTicks).load(Relaxed);
    let monotonic_ns = run.word(Field::StartMonotonicNs).load(Relaxed);
    let start = Moment { ticks, monotonic_ns, unix_ns: 0 };
    SWITCHES.ticks_per_second.store(start.rate(&now).get(), Relaxed);
    run.set_latest(&now);
}

/// Stops recording, and marks the run as ended normally.
pub fn end_run() {
    if let Some(run) = RUN.get() {
        SWITCHES.thresholds.iter().for_each(|threshold| threshold.store(OFF, Relaxed));
        note_time(run);
        run.word(Field::Ended).store(1, Release);
    }
}

/// Numbers of events and names that were not recorded since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Omitted {
    /// Events for which there was no chunk, because too many threads are recording.
    pub without_space: u64,
    /// Strings and subjects that could not be stored, so that the events that refer to them lack a
    /// name.
    pub names: u64,
    /// For each type, the number of events that were omitted because the type was over its rate
    /// limit.
    pub over_rate: [u64; EVENTS.len()],
}

/// Returns how many events and names were not recorded.
pub fn omitted() -> Omitted {
    let Some(run) = RUN.get() else { return Omitted::default() };
    Omitted {
        without_space: run.word(Field::WithoutSpace).load(Relaxed),
        names: run.word(Field::WithoutName).load(Relaxed),
        over_rate: array::from_fn(|number| {
            run.of_kind(OVER_RATE, EVENTS[number].kind).load(Relaxed)
        }),
    }
}

/// Returns the recorded data that a reader does not have yet, as bytes for
/// [`crate::snapshot::Snapshot`]. Returns `None` if the process is not recording.
pub fn copy(known: &SlotCounts) -> Option<Vec<u8>> {
    Some(RUN.get()?.copy(known))
}

/// Returns the current time in ticks.
#[inline(always)]
pub fn now_ticks() -> u64 {
    ticks::now()
}

/// Converts a duration to ticks.
pub fn to_ticks(period: Duration) -> u64 {
    let rate = u128::from(SWITCHES.ticks_per_second.load(Relaxed));
    let ticks = period.as_nanos() * rate / NS_PER_SECOND;
    u64::try_from(ticks).unwrap_or(OFF).min(OFF - 1)
}

/// Converts ticks to nanoseconds.
pub fn to_ns(ticks: u64) -> u64 {
    let rate = u128::from(SWITCHES.ticks_per_second.load(Relaxed).max(1));
    u64::try_from(u128::from(ticks) * NS_PER_SECOND / rate).unwrap_or(u64::MAX)
}

/// The start of an event. Empty if the event's type is disabled.
#[derive(Clone, Copy, Debug)]
#[must_use = "an event is recorded at its end"]
pub struct Timer {
    kind: EventKind,
    start_ticks: u64,
}

/// Starts an event of a type that has a duration.
#[inline(always)]
pub fn start(kind: EventKind) -> Timer {
    let is_on = SWITCHES.thresholds[kind as usize].load(Relaxed) != OFF;
    Timer { kind, start_ticks: if is_on { ticks::now() } else { OFF } }
}

impl Timer {
    /// Returns whether the event will be recorded if it reaches the threshold.
    #[inline(always)]
    pub fn is_on(&self) -> bool {
        self.start_ticks != OFF
    }

    /// Returns the start of the event in ticks.
    pub(crate) fn start_ticks(&self) -> u64 {
        self.start_ticks
    }

    /// Returns a timer whose start is earlier by `by`.
    pub fn earlier(self, by: Duration) -> Timer {
        let start_ticks = match self.is_on() {
            true => self.start_ticks.saturating_sub(to_ticks(by)),
            false => OFF,
        };
        Timer { start_ticks, ..self }
    }

    /// Ends the event, and records it if its duration reaches the threshold.
    #[inline(always)]
    pub(crate) fn end<const N: usize>(
        self,
        kind: EventKind,
        subject: impl FnOnce() -> u32,
        own: impl FnOnce() -> [u64; N],
    ) {
        debug_assert_eq!(self.kind, kind);
        if self.start_ticks == OFF {
            return;
        }
        let duration_ticks = ticks::now().saturating_sub(self.start_ticks);
        if duration_ticks >= SWITCHES.thresholds[kind as usize].load(Relaxed) {
            write(kind, self.start_ticks, duration_ticks, subject(), own());
        }
    }
}

/// Records an event that has no duration.
#[inline(always)]
pub(crate) fn instant<const N: usize>(
    kind: EventKind,
    subject: impl FnOnce() -> u32,
    own: impl FnOnce() -> [u64; N],
) {
    if SWITCHES.thresholds[kind as usize].load(Relaxed) != OFF {
        write(kind, ticks::now(), 0, subject(), own());
    }
}

/// Records an event that ended `ended_ago` before now. If the name table changed halves after that,
/// the event loses its strings.
pub(crate) fn past<const N: usize>(
    kind: EventKind,
    ended_ago: Duration,
    took: Duration,
    subject: impl FnOnce() -> u32,
    own: impl FnOnce() -> [u64; N],
) {
    let duration_ticks = to_ticks(took);
    // `to_ticks` returns less than `OFF`, so that a disabled type is never recorded.
    if duration_ticks >= SWITCHES.thresholds[kind as usize].load(Relaxed) {
        let end_ticks = ticks::now().saturating_sub(to_ticks(ended_ago));
        write(kind, end_ticks.saturating_sub(duration_ticks), duration_ticks, subject(), own());
    }
}

#[inline(always)]
fn write<const N: usize>(
    kind: EventKind,
    start_ticks: u64,
    duration_ticks: u64,
    subject: u32,
    values: [u64; N],
) {
    if SWITCHES.rates[kind as usize].load(Relaxed) != 0 && !is_within_rate(kind, start_ticks) {
        return;
    }
    let mut own = [0; FIELDS_MAX];
    own[..N].copy_from_slice(&values);
    let event = Stored { kind, subject, start_ticks, duration_ticks, own };
    let written = WRITER.try_with(|writer| writer.write(&event, || RUN.get()));
    if written.is_err() {
        count_lost();
    }
}

/// Counts an event as lost because its thread is exiting and has no writer anymore.
#[cold]
fn count_lost() {
    if let Some(run) = RUN.get() {
        run.word(Field::WithoutSpace).fetch_add(1, Relaxed);
    }
}

/// Counts one event toward the type's limit for the current second. Returns whether the limit
/// allows the event; if not, the event counts as omitted.
fn is_within_rate(kind: EventKind, now_ticks: u64) -> bool {
    let second = now_ticks / SWITCHES.ticks_per_second.load(Relaxed).max(1);
    let rate = SWITCHES.rates[kind as usize].load(Relaxed);
    let word = &SWITCHES.seconds[kind as usize];
    let taken = word.fetch_update(Relaxed, Relaxed, |before| {
        let is_same = before >> 32 == second & u64::from(u32::MAX);
        let count = if is_same { before as u32 } else { 0 };
        (count < rate).then(|| second << 32 | u64::from(count + 1))
    });
    if taken.is_err()
        && let Some(run) = RUN.get()
    {
        run.of_kind(OVER_RATE, kind).fetch_add(1, Relaxed);
    }
    taken.is_ok()
}

/// Returns the reference to a string, or 0 if the string could not be stored.
pub(crate) fn text(text: &str) -> u64 {
    let now = ticks::now();
    let rate = SWITCHES.ticks_per_second.load(Relaxed);
    let made = RUN.get().and_then(|run| run.refer_to_text(text, now, rate));
    let Some((reference, epoch)) = made else { return 0 };
    note_epoch(epoch);
    u64::from(reference)
}

/// Returns the current epoch. References from other epochs are invalid.
#[inline(always)]
pub(crate) fn epoch() -> u32 {
    SWITCHES.epoch.load(Acquire)
}

/// Returns the reference to a subject and the reference's epoch, or zeros if the subject could not
/// be stored.
pub(crate) fn subject(parts: &[Part<'_>], is_new: bool) -> (u32, u32) {
    let now = ticks::now();
    let rate = SWITCHES.ticks_per_second.load(Relaxed);
    let made = RUN.get().and_then(|run| run.refer_to_subject(parts, is_new, now, rate));
    let Some((reference, epoch)) = made else { return (0, 0) };
    note_epoch(epoch);
    (reference, epoch)
}

fn note_epoch(epoch: u32) {
    SWITCHES.epoch.fetch_max(epoch, Release);
}
