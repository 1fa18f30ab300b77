//! Origins: where events come from, and the state of reading them.

use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU8, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// Marks an unknown time.
pub const TIME_UNKNOWN: i64 = i64::MIN;

/// How far an event's time may precede the newest time in its origin without counting as out of
/// order, in nanoseconds. A program's threads log slightly late.
const DISORDER_NS: i64 = 1_000_000_000;

/// Maximum number of ranges whose times are remembered separately. Workers finish neighboring
/// ranges in any order, but workers are never this many batches apart.
const RANGES_MAX: usize = 64;

/// Time constant of the moving average of the read rate, in seconds.
const RATE_SECONDS: f64 = 5.0;

/// Id of an origin: random, and stable across renames and restarts (a file's `file_id`).
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    serde::Serialize,
    serde::Deserialize,
)]
#[serde(transparent)]
pub struct OriginId(pub u64);

impl fmt::Display for OriginId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

/// Where events come from: a file, a partition, a peer.
#[derive(Debug, Default)]
pub struct Origin {
    /// Id of the origin.
    pub id: OriginId,
    /// Display name, such as the path of a file; may be empty.
    pub name: Arc<str>,
    /// Constant fields added to the origin's events, in addition to the source's fields.
    pub attributes: BTreeMap<String, String>,
    /// Whether the origin's offsets count records instead of bytes.
    pub is_in_records: bool,
    /// Current state of reading.
    pub state: OriginState,
}

impl Origin {
    /// Creates an unread origin without attributes.
    pub fn new(id: OriginId, name: impl Into<Arc<str>>) -> Origin {
        Origin { id, name: name.into(), ..Origin::default() }
    }

    /// Sets the attributes.
    pub fn with_attributes(self, attributes: BTreeMap<String, String>) -> Origin {
        Origin { attributes, ..self }
    }

    /// Makes the origin's offsets count records.
    pub fn of_records(self) -> Origin {
        Origin { is_in_records: true, ..self }
    }
}

/// Whether more data can arrive from an origin.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, strum::IntoStaticStr, strum::VariantArray)]
#[repr(u8)]
#[strum(serialize_all = "snake_case")]
pub enum OriginStatus {
    /// The source reads the origin, or polls it for more data.
    #[default]
    Active = 0,
    /// Known, but cannot be read yet.
    Waiting = 1,
    /// Read to its end. No more data can arrive.
    Finished = 2,
    /// Its path no longer exists. Read to its end.
    Gone = 3,
    /// Deleted, and read to its end.
    Deleted = 4,
}

impl OriginStatus {
    const ALL: &[OriginStatus] = <OriginStatus as strum::VariantArray>::VARIANTS;

    /// Returns the name in APIs, such as `active`.
    pub fn name(self) -> &'static str {
        self.into()
    }
}

/// How a file that is deleted, or may be deleted soon, is held until it is delivered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum HeldBy {
    /// Not held.
    #[default]
    Nothing = 0,
    /// By an open descriptor only; lost when the process exits.
    Descriptor = 1,
    /// By a hard link or a copy on disk, which the agent reads after a restart.
    Disk = 2,
}

impl HeldBy {
    const ALL: [HeldBy; 3] = [HeldBy::Nothing, HeldBy::Descriptor, HeldBy::Disk];

    /// Returns the name in APIs, such as `disk`; `None` if the file is not held.
    pub fn name(self) -> Option<&'static str> {
        match self {
            HeldBy::Nothing => None,
            HeldBy::Descriptor => Some("descriptor"),
            HeldBy::Disk => Some("disk"),
        }
    }
}

/// The state of an origin. The source and transforms write the state, and the API reads it. Fields
/// are updated independently, so two fields may reflect different moments.
#[derive(Debug)]
pub struct OriginState {
    /// Offset up to which the furthest cursor has read, in bytes.
    pub position: AtomicU64,
    /// Known size in bytes.
    pub size: AtomicU64,
    /// Bytes read, including rereads.
    pub bytes: AtomicU64,
    /// Events whose first line cannot start an event, according to the multi-line rules.
    pub misfits: AtomicU64,
    /// Number of renames.
    pub rotations: AtomicU64,
    /// Number of truncations.
    pub truncations: AtomicU64,
    /// Lines over `max_line`.
    pub long_lines: AtomicU64,
    status: AtomicU8,
    held_by: AtomicU8,
    path: Mutex<String>,
    newest: AtomicI64,
    disorder: AtomicU64,
    times: Mutex<Times>,
    rate: AtomicU64,
    sampled: AtomicU64,
}

impl Default for OriginState {
    fn default() -> OriginState {
        OriginState {
            position: AtomicU64::new(0),
            size: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
            misfits: AtomicU64::new(0),
            rotations: AtomicU64::new(0),
            truncations: AtomicU64::new(0),
            long_lines: AtomicU64::new(0),
            status: AtomicU8::new(0),
            held_by: AtomicU8::new(0),
            path: Mutex::default(),
            newest: AtomicI64::new(TIME_UNKNOWN),
            disorder: AtomicU64::new(0),
            times: Mutex::default(),
            rate: AtomicU64::new(0),
            sampled: AtomicU64::new(0),
        }
    }
}

impl OriginState {
    /// Returns the current path; empty if it still equals the origin's name.
    pub fn path(&self) -> String {
        self.path.lock().clone()
    }

    /// Sets the current path.
    pub fn set_path(&self, path: impl Into<String>) {
        *self.path.lock() = path.into();
    }

    /// Returns whether more data can arrive.
    pub fn status(&self) -> OriginStatus {
        OriginStatus::ALL[usize::from(self.status.load(Relaxed))]
    }

    /// Sets whether more data can arrive.
    pub fn set_status(&self, status: OriginStatus) {
        self.status.store(status as u8, Relaxed);
    }

    /// Returns how the origin's file is held.
    pub fn held_by(&self) -> HeldBy {
        HeldBy::ALL[usize::from(self.held_by.load(Relaxed))]
    }

    /// Sets how the origin's file is held.
    pub fn set_held_by(&self, held_by: HeldBy) {
        self.held_by.store(held_by as u8, Relaxed);
    }

    /// Records that `bytes` were read, and that the furthest cursor is now at `position`.
    pub fn read(&self, bytes: u64, position: u64) {
        self.bytes.fetch_add(bytes, Relaxed);
        self.position.fetch_max(position, Relaxed);
        self.size.fetch_max(position, Relaxed);
    }

    /// Returns the newest event time, in nanoseconds since 1970; [`TIME_UNKNOWN`] if all event
    /// times are unknown.
    pub fn newest(&self) -> i64 {
        self.newest.load(Relaxed)
    }

    /// Returns the number of events that are more than a second older than the newest of the events
    /// before them.
    pub fn disorder(&self) -> u64 {
        self.disorder.load(Relaxed)
    }

    /// Records the times of the rows in `range`, a range of offsets, in nanoseconds since 1970 and
    /// in row order; [`TIME_UNKNOWN`] is skipped. Ranges may arrive in any order. A range may
    /// arrive twice, for example from a second transform; the second call updates the newest time,
    /// but not the disorder count.
    pub fn record_times(&self, range: Range<u64>, times: &[i64]) {
        let mut seen = self.times.lock();
        let Some(mut newest) = seen.newest_before(&range) else {
            self.newest.fetch_max(times.iter().copied().max().unwrap_or(TIME_UNKNOWN), Relaxed);
            return;
        };
        let mut late = 0;
        for &time in times.iter().filter(|time| **time != TIME_UNKNOWN) {
            late += u64::from(time < newest.saturating_sub(DISORDER_NS));
            newest = newest.max(time);
        }
        seen.insert(range, newest);
        self.newest.fetch_max(newest, Relaxed);
        self.disorder.fetch_add(late, Relaxed);
    }

    /// Returns the read rate in bytes per second, as a moving average.
    pub fn rate(&self) -> f64 {
        f64::from_bits(self.rate.load(Relaxed))
    }

    /// Closes a sampling interval for the rate. Only one thread may call this method.
    pub fn sample(&self, interval: Duration) {
        let bytes = self.bytes.load(Relaxed);
        let read = bytes.saturating_sub(self.sampled.swap(bytes, Relaxed)) as f64;
        // Thousands of idle files must cost almost nothing.
        if read == 0.0 && self.rate() == 0.0 {
            return;
        }
        let seconds = interval.as_secs_f64().max(1e-6);
        let weight = 1.0 - (-seconds / RATE_SECONDS).exp();
        let rate = self.rate() + weight * (read / seconds - self.rate());
        // Below a byte per second the rate is 0: the API never shows a rate of 1e-30.
        let is_idle = rate < 1.0;
        self.rate.store(if is_idle { 0.0 } else { rate }.to_bits(), Relaxed);
        if is_idle {
            self.times.lock().compact();
        }
    }

    /// Takes the totals, and resets them to zero.
    pub fn take_totals(&self) -> OriginTotals {
        OriginTotals {
            disorder: self.disorder.swap(0, Relaxed),
            misfits: self.misfits.swap(0, Relaxed),
            rotations: self.rotations.swap(0, Relaxed),
            truncations: self.truncations.swap(0, Relaxed),
            long_lines: self.long_lines.swap(0, Relaxed),
        }
    }

    /// Returns the totals without resetting them.
    pub fn totals(&self) -> OriginTotals {
        OriginTotals {
            disorder: self.disorder(),
            misfits: self.misfits.load(Relaxed),
            rotations: self.rotations.load(Relaxed),
            truncations: self.truncations.load(Relaxed),
            long_lines: self.long_lines.load(Relaxed),
        }
    }
}

/// Totals for one or more origins.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct OriginTotals {
    /// Events that are more than a second older than the newest of the events before them.
    #[serde(rename = "disorder_events")]
    pub disorder: u64,
    /// Events whose first line cannot start an event.
    #[serde(rename = "slice_errors")]
    pub misfits: u64,
    /// Number of renames.
    pub rotations: u64,
    /// Number of truncations.
    pub truncations: u64,
    /// Lines over `max_line`.
    pub long_lines: u64,
}

impl std::ops::AddAssign for OriginTotals {
    fn add_assign(&mut self, other: OriginTotals) {
        self.disorder += other.disorder;
        self.misfits += other.misfits;
        self.rotations += other.rotations;
        self.truncations += other.truncations;
        self.long_lines += other.long_lines;
    }
}

/// The newest time up to the end of each recent range.
///
/// Workers run batches of one origin concurrently, so a later range may arrive first. The times in
/// a later range do not affect the order within an earlier range, so a single newest time would not
/// suffice.
#[derive(Debug, Default)]
struct Times {
    /// Recent ranges in offset order, each with the newest time up to its end.
    ranges: Vec<(Range<u64>, i64)>,
    /// Offset before which ranges are no longer distinguished.
    forgotten: u64,
}

impl Times {
    /// Returns the newest time before a range; `None` if the range has been seen, or might have
    /// been.
    fn newest_before(&self, range: &Range<u64>) -> Option<i64> {
        let at = self.ranges.partition_point(|(other, _)| other.start <= range.start);
        let Some((before, newest)) = at.checked_sub(1).map(|at| &self.ranges[at]) else {
            return (range.start >= self.forgotten).then_some(TIME_UNKNOWN);
        };
        (range.start >= before.end).then_some(*newest)
    }

    /// Keeps only the last range, because no batch of an idle origin can be in flight.
    fn compact(&mut self) {
        self.ranges.drain(..self.ranges.len().saturating_sub(1));
        self.ranges.shrink_to_fit();
        self.forgotten = self.ranges.first().map_or(self.forgotten, |(range, _)| range.start);
    }

    fn insert(&mut self, range: Range<u64>, newest: i64) {
        let at = self.ranges.partition_point(|(other, _)| other.start < range.start);
        self.ranges.insert(at, (range, newest));
        self.ranges[at..].iter_mut().for_each(|(_, time)| *time = newest.max(*time));
        if self.ranges.len() > RANGES_MAX {
            self.forgotten = self.ranges.remove(0).0.end;
        }
    }
}

/// Paths, patterns and servers that a source cannot read, with the reasons. The source writes them,
/// and the API reads them.
#[derive(Debug, Default)]
pub struct Unreadable {
    reasons: Mutex<BTreeMap<String, String>>,
    error_type: Mutex<Option<&'static str>>,
}

impl Unreadable {
    /// Records the reason why a path or pattern is unreadable, replacing an earlier reason.
    pub fn note(&self, what: impl Into<String>, reason: impl Into<String>) {
        self.reasons.lock().insert(what.into(), reason.into());
    }

    /// Records the reason why a server cannot be read, and the type under which the counters count
    /// the error.
    pub fn note_error(
        &self,
        what: impl Into<String>,
        error_type: &'static str,
        reason: impl Into<String>,
    ) {
        *self.error_type.lock() = Some(error_type);
        self.note(what, reason);
    }

    /// Removes a path, a pattern or a server that is readable again.
    pub fn clear(&self, what: &str) {
        self.reasons.lock().remove(what);
        *self.error_type.lock() = None;
    }

    /// Replaces all entries.
    pub fn set(&self, all: BTreeMap<String, String>) {
        *self.reasons.lock() = all;
    }

    /// Returns all entries.
    pub fn list(&self) -> BTreeMap<String, String> {
        self.reasons.lock().clone()
    }

    /// Returns the type of the error that prevents reading from a server, if there is one.
    pub fn error_type(&self) -> Option<&'static str> {
        *self.error_type.lock()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: i64 = 1_000_000_000;

    #[test]
    fn events_more_than_a_second_late_are_out_of_order() {
        let state = OriginState::default();
        state.record_times(0..10, &[10 * S, TIME_UNKNOWN, 9 * S, 9 * S - 1, 11 * S]);
        assert_eq!((state.newest(), state.disorder()), (11 * S, 1));
        state.record_times(10..20, &[9 * S, 12 * S]);
        assert_eq!((state.newest(), state.disorder()), (12 * S, 2));
    }

    #[test]
    fn reordered_ranges_are_not_out_of_order_and_repeats_are_counted_once() {
        let state = OriginState::default();
        state.record_times(20..30, &[30 * S]);
        state.record_times(0..10, &[10 * S]);
        state.record_times(10..20, &[20 * S, 5 * S]);
        assert_eq!((state.newest(), state.disorder()), (30 * S, 1));
        // The same range arrives again, in full and in part.
        state.record_times(10..20, &[20 * S, 5 * S]);
        state.record_times(15..20, &[5 * S, 31 * S]);
        assert_eq!((state.newest(), state.disorder()), (31 * S, 1));
        state.record_times(30..40, &[28 * S]);
        assert_eq!(state.disorder(), 2);
    }

    #[test]
    fn a_range_older_than_the_history_is_ignored() {
        let state = OriginState::default();
        let ranges = 3 * RANGES_MAX as u64;
        (0..ranges).for_each(|n| state.record_times(n..n + 1, &[n as i64 * S]));
        (0..ranges).for_each(|n| state.record_times(n..n + 1, &[0]));
        assert_eq!((state.newest(), state.disorder()), ((ranges as i64 - 1) * S, 0));
        assert!(state.times.lock().ranges.len() <= RANGES_MAX);
    }

    #[test]
    fn the_rate_follows_the_input_and_decays_to_zero() {
        let state = OriginState::default();
        for second in 1..=30 {
            state.read(1000, second * 1000);
            state.sample(Duration::from_secs(1));
        }
        assert!((950.0..=1000.0).contains(&state.rate()), "{}", state.rate());
        assert_eq!((state.size.load(Relaxed), state.totals()), (30_000, OriginTotals::default()));
        (0..60).for_each(|_| state.sample(Duration::from_secs(1)));
        assert_eq!(state.rate(), 0.0);
    }

    #[test]
    fn statuses_and_paths_round_trip() {
        let state = OriginState::default();
        assert_eq!((state.status(), state.path()), (OriginStatus::Active, String::new()));
        for &status in OriginStatus::ALL {
            state.set_status(status);
            assert_eq!(state.status(), status);
        }
        state.set_path("/var/log/app.log.1");
        assert_eq!(state.path(), "/var/log/app.log.1");
    }

    #[test]
    fn unreadable_paths_are_reported_until_readable() {
        let unreadable = Unreadable::default();
        unreadable.note("/a/*.log", "matches no file");
        unreadable.note("/b", "permission denied");
        unreadable.clear("/a/*.log");
        assert_eq!(
            unreadable.list(),
            BTreeMap::from([("/b".to_owned(), "permission denied".to_owned())])
        );
        unreadable.set(BTreeMap::new());
        assert!(unreadable.list().is_empty());
    }
}
