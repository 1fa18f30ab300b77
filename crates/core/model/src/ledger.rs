//! A source's ledger: which ranges are in flight, and how much each sink has settled.
//!
//! For each (origin, sink), the ledger stores the issued ranges that are not settled, in offset
//! order, and the *checkpoint*: the offset before which everything is settled. A checkpoint never
//! moves past a gap.

mod revoke;
mod sinks;

use crate::origin::{Origin, OriginId, OriginTotals};
use crate::outcome::Outcome;
use crate::sinkset::{SinkIndex, SinkSet};
use crate::time::EngineTime;
use parking_lot::{Mutex, MutexGuard};
use std::collections::{HashMap, HashSet, VecDeque};
use std::ops::Range;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// Tracks the data that one source has issued, until its sinks have settled it.
pub struct Ledger {
    state: Mutex<State>,
    on_reread: OnceLock<Box<dyn Fn() + Send + Sync>>,
}

#[derive(Default)]
struct State {
    origins: HashMap<OriginId, Accounts>,
    rereads: Vec<Reread>,
    moved: HashSet<OriginId>,
    /// Moved checkpoints of origins that have been closed since the last commit.
    retired: Vec<(OriginId, Vec<(SinkIndex, u64)>)>,
    stopped: bool,
    /// Sinks whose ranges in flight are stale: see [`Ledger::seal`].
    sealed: SinkSet,
    /// Incremented whenever the sinks change.
    epoch: u32,
    /// Totals of closed origins.
    closed: OriginTotals,
}

impl State {
    fn remove(&mut self, origin: OriginId) {
        if let Some(accounts) = self.origins.remove(&origin) {
            self.closed += accounts.origin.state.take_totals();
        }
    }
}

/// The accounts of one origin, one for each sink.
struct Accounts {
    origin: Arc<Origin>,
    /// Furthest offset known to exist.
    end: u64,
    sinks: Vec<Account>,
}

impl Accounts {
    fn of(&self, sink: SinkIndex) -> Option<&Account> {
        self.sinks.iter().find(|a| a.sink == sink)
    }

    fn checkpoints(&self) -> Vec<(SinkIndex, u64)> {
        self.sinks.iter().map(|a| (a.sink, a.checkpoint)).collect()
    }

    fn is_idle(&self) -> bool {
        self.sinks.iter().all(|a| a.out.is_empty())
    }
}

/// The account of one sink in one origin: the checkpoint, and the ranges that are not settled.
struct Account {
    sink: SinkIndex,
    checkpoint: u64,
    /// The ledger's epoch when the account was opened. Ranges issued in an earlier epoch belonged
    /// to another sink.
    epoch: u32,
    out: VecDeque<Entry>,
}

struct Entry {
    range: Range<u64>,
    state: RangeState,
    issued: EngineTime,
}

impl Entry {
    fn bytes(&self) -> u64 {
        self.range.end - self.range.start
    }
}

#[derive(Clone, Copy, PartialEq)]
enum RangeState {
    Open,
    /// A merge transform has counted the range, but no snapshot contains it yet.
    Taken,
    Settled,
    Abandoned,
}

/// A range of an origin that was sent to sinks.
pub(crate) struct Issued {
    origin: OriginId,
    /// The ledger's epoch when the range was issued.
    epoch: u32,
    /// Range of offsets in the origin.
    pub range: Range<u64>,
    /// Number of times that the range has been abandoned: see [`Reread::attempt`].
    pub attempt: u8,
}

impl Issued {
    /// Returns the origin of the range.
    pub fn origin(&self) -> OriginId {
        self.origin
    }
}

/// A range that must be reread for one sink. Its events get the same ids again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reread {
    /// Origin of the range.
    pub origin: OriginId,
    /// Range of offsets in the origin.
    pub range: Range<u64>,
    /// The sink that is missing the range.
    pub sink: SinkIndex,
    /// Number of times that the range has been abandoned. At 2 or more, the range is sent alone, so
    /// that it cannot affect other ranges. A range that is then abandoned again is halved, until
    /// the line that causes the failure is found.
    pub attempt: u8,
}

/// An open origin and its progress.
#[derive(Clone, Debug)]
pub struct OriginProgress {
    /// The origin, including its status.
    pub origin: Arc<Origin>,
    /// Furthest offset known to exist.
    pub end: u64,
    /// Checkpoint of each sink.
    pub checkpoints: Vec<(SinkIndex, u64)>,
}

/// The data in an origin that its sinks have not settled yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Owed {
    /// Lowest checkpoint: the offset before which every sink has settled everything.
    pub settled: u64,
    /// When the oldest unsettled range was issued; `None` if nothing is in flight.
    pub oldest: Option<EngineTime>,
    /// Bytes that were issued, and that the slowest sink has not settled.
    pub in_flight: u64,
    /// Whether a checkpoint has moved since the last commit.
    pub moved: bool,
}

/// A sink's progress over all origins of a source.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Bytes (or records) between the checkpoints and the known ends, whether read or not.
    pub lag: u64,
    /// Bytes (or records) issued and not settled.
    pub unsettled: u64,
    /// Number of records among `unsettled`.
    pub unsettled_records: u64,
    /// When the oldest unsettled range was issued; `None` if everything is settled.
    pub oldest: Option<EngineTime>,
}

impl Ledger {
    /// Creates an empty ledger.
    pub fn new() -> Arc<Ledger> {
        Arc::new(Ledger { state: Mutex::default(), on_reread: OnceLock::new() })
    }

    /// Registers `f`, which is called whenever a range must be reread, so that the source checks
    /// [`Ledger::take_rereads`].
    pub fn on_reread(&self, f: impl Fn() + Send + Sync + 'static) {
        let _ = self.on_reread.set(Box::new(f));
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    /// Opens an origin, with the checkpoint from which each sink resumes.
    pub fn open(
        &self,
        origin: &Arc<Origin>,
        checkpoints: impl IntoIterator<Item = (SinkIndex, u64)>,
    ) {
        let mut state = self.lock();
        let epoch = state.epoch;
        let account =
            |(sink, checkpoint)| Account { sink, checkpoint, epoch, out: VecDeque::new() };
        let sinks: Vec<Account> = checkpoints.into_iter().map(account).collect();
        let end = sinks.iter().map(|a| a.checkpoint).max().unwrap_or(0);
        state.remove(origin.id);
        state.origins.insert(origin.id, Accounts { origin: origin.clone(), end, sinks });
    }

    /// Returns the open origins with their progress, in any order.
    pub fn origins(&self) -> Vec<OriginProgress> {
        let state = self.lock();
        let progress = |accounts: &Accounts| OriginProgress {
            origin: accounts.origin.clone(),
            end: accounts.end,
            checkpoints: accounts.checkpoints(),
        };
        state.origins.values().map(progress).collect()
    }

    /// Returns the totals of all origins since the start, including closed origins.
    pub fn totals(&self) -> OriginTotals {
        let state = self.lock();
        let mut totals = state.closed;
        state.origins.values().for_each(|accounts| totals += accounts.origin.state.totals());
        totals
    }

    /// Closes a sampling interval for the rates of all origins. Only one thread may call this
    /// method.
    pub fn sample(&self, interval: Duration) {
        for accounts in self.lock().origins.values_mut() {
            accounts.origin.state.sample(interval);
            accounts.sinks.iter_mut().for_each(Account::release_memory);
        }
    }

    /// Records that the origin extends to `end`, so that unread data is treated as lag.
    pub fn note_end(&self, origin: OriginId, end: u64) {
        if let Some(accounts) = self.lock().origins.get_mut(&origin) {
            accounts.end = accounts.end.max(end);
        }
    }

    /// Closes an origin if none of its ranges is in flight; returns whether the origin was closed.
    /// Its totals are added to the totals of closed origins, and its own totals restart at zero.
    pub fn close(&self, origin: OriginId) -> bool {
        let mut state = self.lock();
        let idle = state.origins.get(&origin).is_none_or(Accounts::is_idle);
        if idle {
            state.remove(origin);
        }
        idle
    }

    /// Frees the spare memory that closed origins used.
    pub fn shrink(&self) {
        let mut state = self.lock();
        let state = &mut *state;
        state.origins.shrink_to(2 * state.origins.len());
        state.moved.shrink_to(2 * state.moved.len());
    }

    /// Closes an origin that may be reopened; returns whether it was closed. A checkpoint that has
    /// moved is still committed.
    pub fn retire(&self, origin: OriginId) -> bool {
        let mut state = self.lock();
        let moved = state.moved.contains(&origin).then(|| state.origins.get(&origin)).flatten();
        let checkpoints = moved.filter(|accounts| accounts.is_idle()).map(Accounts::checkpoints);
        state.retired.extend(checkpoints.map(|checkpoints| (origin, checkpoints)));
        drop(state);
        self.close(origin)
    }

    /// Records for [`Ledger::issue`] that `range` of `origin` is sent to `sinks`.
    pub(crate) fn record(
        &self,
        origin: OriginId,
        range: Range<u64>,
        sinks: SinkSet,
        attempt: u8,
        now: EngineTime,
    ) -> Issued {
        let mut state = self.lock();
        if let Some(accounts) = state.origins.get_mut(&origin) {
            accounts.end = accounts.end.max(range.end);
            for account in accounts.sinks.iter_mut().filter(|a| sinks.contains(a.sink)) {
                account.issue(range.clone(), now);
            }
        }
        Issued { origin, epoch: state.epoch, range, attempt }
    }

    /// Records a range's outcome for a sink: settles the range, or schedules it to be reread.
    pub(crate) fn settle(&self, issued: &Issued, sink: SinkIndex, outcome: Outcome) {
        let Issued { origin, epoch, ref range, attempt } = *issued;
        let mut state = self.lock();
        let state = &mut *state;
        let Some(accounts) = state.origins.get_mut(&origin) else { return };
        let Some(account) = accounts.sinks.iter_mut().find(|a| a.sink == sink && a.epoch <= epoch)
        else {
            return;
        };
        if outcome <= Outcome::Rejected {
            account.mark(range, RangeState::Settled);
            if account.advance() {
                state.moved.insert(origin);
            }
        } else if !state.stopped {
            account.mark(range, RangeState::Abandoned);
            let attempt = attempt.saturating_add(u8::from(outcome == Outcome::Abandoned));
            state.rereads.push(Reread { origin, range: range.clone(), sink, attempt });
            if let Some(on_reread) = self.on_reread.get() {
                on_reread();
            }
        }
    }

    /// Takes the ranges to reread; each is returned once.
    pub fn take_rereads(&self) -> Vec<Reread> {
        std::mem::take(&mut self.lock().rereads)
    }

    /// Stops rereads. After this call, ranges that are returned or abandoned stay unsettled, and
    /// the agent rereads them after a restart.
    pub fn stop(&self) {
        self.lock().stopped = true;
    }

    /// Takes the checkpoints of all origins in which a checkpoint moved since the last call: for
    /// each origin, pairs of sink and checkpoint.
    pub fn take_moved(&self) -> Vec<(OriginId, Vec<(SinkIndex, u64)>)> {
        let mut state = self.lock();
        let moved = std::mem::take(&mut state.moved);
        let checkpoints = |id| state.origins.get(&id).map(|accounts| (id, accounts.checkpoints()));
        let moved: Vec<_> = moved.into_iter().filter_map(checkpoints).collect();
        // Closed origins come first, because one of them may have been reopened.
        state.retired.drain(..).chain(moved).collect()
    }

    /// Returns the offset in `origin` before which `sink` has settled everything; `None` if the
    /// origin is not open for this sink.
    pub fn checkpoint(&self, origin: OriginId, sink: SinkIndex) -> Option<u64> {
        self.lock().origins.get(&origin)?.of(sink).map(|a| a.checkpoint)
    }

    /// Returns the data that the sinks of an open origin have not settled; `None` if the origin is
    /// not open.
    pub fn owed(&self, origin: OriginId) -> Option<Owed> {
        let state = self.lock();
        let accounts = state.origins.get(&origin)?;
        let unsettled = |account: &Account| {
            let open = account.out.iter().filter(|entry| entry.state != RangeState::Settled);
            open.fold((0, None), |(bytes, oldest): (u64, Option<EngineTime>), entry| {
                let issued = oldest.map_or(entry.issued, |oldest| oldest.min(entry.issued));
                (bytes + entry.bytes(), Some(issued))
            })
        };
        let sinks: Vec<(u64, Option<EngineTime>)> = accounts.sinks.iter().map(unsettled).collect();
        Some(Owed {
            settled: accounts
                .sinks
                .iter()
                .map(|account| account.checkpoint)
                .min()
                .unwrap_or(accounts.end),
            oldest: sinks.iter().filter_map(|(_, oldest)| *oldest).min(),
            in_flight: sinks.iter().map(|(bytes, _)| *bytes).max().unwrap_or(0),
            moved: state.moved.contains(&origin),
        })
    }

    /// Returns the progress of `sink` across all open origins.
    pub fn progress(&self, sink: SinkIndex) -> Progress {
        let state = self.lock();
        let mut progress = Progress::default();
        for (accounts, account) in state.origins.values().filter_map(|a| Some((a, a.of(sink)?))) {
            progress.lag += accounts.end.saturating_sub(account.checkpoint);
            for entry in account.out.iter().filter(|e| e.state != RangeState::Settled) {
                progress.unsettled += entry.bytes();
                if accounts.origin.is_in_records {
                    progress.unsettled_records += entry.bytes();
                }
                progress.oldest =
                    Some(progress.oldest.map_or(entry.issued, |t| t.min(entry.issued)));
            }
        }
        progress
    }

    /// Returns whether nothing is in flight and no reread is due.
    pub fn is_idle(&self) -> bool {
        let state = self.lock();
        state.rereads.is_empty() && state.origins.values().all(Accounts::is_idle)
    }
}

impl Account {
    fn issue(&mut self, range: Range<u64>, issued: EngineTime) {
        let covered =
            |e: &Entry| e.state == RangeState::Abandoned && e.range.contains(&range.start);
        if let Some(index) = self.out.iter().position(covered) {
            self.out[index].range.start = range.end;
            if self.out[index].range.is_empty() {
                self.out.remove(index);
            }
        }
        let at = self.out.partition_point(|e| e.range.start < range.start);
        self.out.insert(at, Entry { range, state: RangeState::Open, issued });
    }

    fn mark(&mut self, range: &Range<u64>, state: RangeState) {
        let first = self.out.partition_point(|e| e.range.start < range.start);
        let is_open = |state| matches!(state, RangeState::Open | RangeState::Taken);
        let open = |e: &&mut Entry| e.range.start == range.start && is_open(e.state);
        if let Some(entry) = self.out.iter_mut().skip(first).find(open) {
            debug_assert_eq!(entry.range, *range, "another range than the one that was issued");
            entry.state = state;
        }
    }

    /// Frees the memory for ranges if there are none.
    fn release_memory(&mut self) {
        if self.out.is_empty() {
            self.out = VecDeque::new();
        }
    }

    /// Returns whether everything before a range is settled or counted by the merge transform.
    fn is_next(&self, range: &Range<u64>) -> bool {
        let count = self.out.partition_point(|e| e.range.start < range.start);
        let is_done = |e: &Entry| matches!(e.state, RangeState::Settled | RangeState::Taken);
        self.out.iter().take(count).all(is_done)
    }

    /// Moves the checkpoint past the settled ranges at the front; returns whether it moved.
    fn advance(&mut self) -> bool {
        let before = self.checkpoint;
        while self.out.front().is_some_and(|e| e.state == RangeState::Settled) {
            let end = self.out.pop_front().map_or(0, |e| e.range.end);
            self.checkpoint = self.checkpoint.max(end);
        }
        self.checkpoint != before
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Ack;

    const ORIGIN: OriginId = OriginId(7);

    fn sink(index: usize) -> SinkIndex {
        SinkIndex::new(index)
    }
    const T: EngineTime = EngineTime::ZERO;

    fn ledger() -> Arc<Ledger> {
        let ledger = Ledger::new();
        ledger.open(&Arc::new(Origin::new(ORIGIN, "")), [(sink(0), 0), (sink(1), 0)]);
        ledger
    }

    fn both() -> SinkSet {
        [0, 1].map(sink).into_iter().collect()
    }

    #[test]
    fn the_checkpoint_never_passes_a_gap() {
        let ledger = ledger();
        let acks: Vec<Ack> =
            [0..10, 10..20, 20..30].map(|r| ledger.issue(ORIGIN, r, both(), 0, T)).into();
        acks[1].finish();
        acks[2].finish();
        assert_eq!(ledger.checkpoint(ORIGIN, sink(0)), Some(0));
        acks[0].finish();
        assert_eq!(ledger.checkpoint(ORIGIN, sink(0)), Some(30));
        assert_eq!(ledger.take_moved(), vec![(ORIGIN, vec![(sink(0), 30), (sink(1), 30)])]);
        assert!(ledger.is_idle() && ledger.take_moved().is_empty());
    }

    #[test]
    fn sinks_settle_independently() {
        let ledger = ledger();
        let ack = ledger.issue(ORIGIN, 0..10, both(), 0, T);
        let slow = ack.hold(sink(1)).unwrap();
        ack.finish();
        assert_eq!(
            (ledger.checkpoint(ORIGIN, sink(0)), ledger.checkpoint(ORIGIN, sink(1))),
            (Some(10), Some(0))
        );
        let waiting = Progress { lag: 10, unsettled: 10, unsettled_records: 0, oldest: Some(T) };
        assert_eq!(ledger.progress(sink(1)), waiting);
        slow.settle(Outcome::Rejected);
        assert_eq!(ledger.checkpoint(ORIGIN, sink(1)), Some(10));
        ledger.note_end(ORIGIN, 25);
        let settled = Progress { lag: 15, ..Progress::default() };
        assert_eq!(ledger.progress(sink(1)), settled);
    }

    #[test]
    fn a_hold_dropped_unsettled_is_read_again_and_blocks_the_checkpoint_until_then() {
        let ledger = ledger();
        let first = ledger.issue(ORIGIN, 0..10, both(), 0, T);
        drop(first.hold(sink(0)));
        first.finish();
        ledger.issue(ORIGIN, 10..20, both(), 0, T).finish();
        assert_eq!(ledger.checkpoint(ORIGIN, sink(0)), Some(0));
        let again = Reread { origin: ORIGIN, range: 0..10, sink: sink(0), attempt: 1 };
        assert_eq!(ledger.take_rereads(), vec![again]);
        // The range is reread in two halves; the checkpoint waits for both.
        ledger.issue(ORIGIN, 0..5, SinkSet::one(sink(0)), 1, T).finish();
        assert_eq!(ledger.checkpoint(ORIGIN, sink(0)), Some(5));
        ledger.issue(ORIGIN, 5..10, SinkSet::one(sink(0)), 1, T).finish();
        assert_eq!(ledger.checkpoint(ORIGIN, sink(0)), Some(20));
    }

    #[test]
    fn dropping_an_unfinished_acknowledgement_abandons_every_sink() {
        let ledger = ledger();
        drop(ledger.issue(ORIGIN, 0..10, both(), 1, T));
        let sinks: Vec<_> = ledger.take_rereads().iter().map(|r| (r.sink, r.attempt)).collect();
        assert_eq!(sinks, [(sink(0), 2), (sink(1), 2)]);
        assert_eq!(ledger.checkpoint(ORIGIN, sink(1)), Some(0));
    }

    #[test]
    fn counts_outlive_their_origin() {
        let (ledger, origin) = (Ledger::new(), Arc::new(Origin::new(ORIGIN, "log")));
        ledger.open(&origin, [(sink(0), 5), (sink(3), 9)]);
        origin.state.rotations.fetch_add(2, std::sync::atomic::Ordering::Relaxed);
        let open = ledger.origins();
        assert_eq!((&*open[0].origin.name, open[0].end), ("log", 9));
        assert_eq!((open.len(), &open[0].checkpoints), (1, &vec![(sink(0), 5), (sink(3), 9)]));
        assert_eq!(ledger.totals().rotations, 2);
        assert!(ledger.close(ORIGIN) && ledger.origins().is_empty());
        ledger.open(&origin, [(sink(0), 5)]);
        origin.state.rotations.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        assert_eq!(ledger.totals().rotations, 3);
    }

    #[test]
    fn a_retired_origin_returns_its_moved_checkpoint() {
        let ledger = ledger();
        ledger.issue(ORIGIN, 0..10, both(), 0, T).finish();
        assert!(ledger.retire(ORIGIN));
        assert_eq!(ledger.take_moved(), vec![(ORIGIN, vec![(sink(0), 10), (sink(1), 10)])]);
        assert!(ledger.take_moved().is_empty());
    }

    #[test]
    fn an_origin_is_not_closed_while_ranges_are_in_flight() {
        let ledger = ledger();
        let ack = ledger.issue(ORIGIN, 0..10, both(), 0, T);
        assert!(!ledger.close(ORIGIN));
        ack.finish();
        assert!(ledger.close(ORIGIN));
    }
}
