//! Feeds: events that a sink creates and that a separate source passes on.
//!
//! A merge transform is the sink for its input and feeds its results; an ordinary sink feeds the
//! events that its endpoint rejected. Events are numbered. Each event stays in the feed until every
//! sink of the feed's source has settled it.

use crate::batch::char_boundary;
use crate::hold::Hold;
use crate::limits::BLOCK_BYTES;
use crate::origin::Origin;
use crate::outcome::Outcome;
use crate::source::Wake;
use bytes::Bytes;
use millstream_columns::{Kind, MEMBERS};
use parking_lot::{Mutex, MutexGuard};
use std::collections::VecDeque;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock};

mod sources;

/// The number and size of waiting events at which the sink that fills a feed should pause.
#[derive(Clone, Copy)]
struct Limits {
    events: usize,
    /// Bytes of event text.
    bytes: u64,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits { events: 10_000, bytes: 1 << 20 }
    }
}

/// An event that a sink adds to a feed.
pub struct FeedEvent {
    /// The id of a rejected event; `None` for a new event, which is identified by its number.
    pub id: Option<FeedId>,
    /// Event time, in nanoseconds since 1970.
    pub time_ns: i64,
    /// The text of the message and the fields, without separators.
    pub text: Vec<u8>,
    /// Range of the message in `text`.
    pub message: Range<usize>,
    /// Whether the message is encoded as a field of the event.
    pub is_shown: bool,
    /// The fields.
    pub fields: Vec<FeedField>,
    /// The debt to settle once every sink has settled the event, if there is one.
    pub hold: Option<Hold>,
}

/// Maximum size, in bytes, of the record kept with a rejected event.
const RECORD_BYTES_MAX: usize = BLOCK_BYTES / 2;

/// Name of the field that contains the reason why an event was rejected.
static REASON: LazyLock<Arc<str>> = LazyLock::new(|| "reason".into());

impl FeedEvent {
    /// Creates an event for a record that was rejected for `reason`. If the record is a JSON
    /// object, its members become fields; otherwise the record becomes the message. A `reason`
    /// field is added.
    pub fn refused(source: &RowSource, record: &[u8], is_json: bool, reason: &str) -> FeedEvent {
        let members = record.strip_prefix(b"{").and_then(|text| text.strip_suffix(b"}"));
        let members = members.filter(|_| is_json && record.len() <= RECORD_BYTES_MAX);
        let record = &record[..char_boundary(record, RECORD_BYTES_MAX)];
        let mut text = record.to_vec();
        let message = 0..text.len();
        text.extend_from_slice(reason.as_bytes());
        let reason =
            FeedField { name: REASON.clone(), kind: Kind::Text, value: message.end..text.len() };
        let members = members.map(|members| FeedField {
            name: MEMBERS.into(),
            kind: Kind::Members,
            value: 1..1 + members.len(),
        });
        FeedEvent {
            id: Some(source.id.clone()),
            time_ns: source.time_ns,
            text,
            message,
            is_shown: members.is_none(),
            fields: members.into_iter().chain([reason]).collect(),
            hold: None,
        }
    }
}

impl FeedEvent {
    /// Settles the event's debt, if there is one, as returned, so that the event is reread.
    fn give_back(self) {
        self.hold.into_iter().for_each(|hold| hold.settle(Outcome::Returned));
    }
}

/// The original id of a rejected event.
#[derive(Clone)]
pub struct FeedId {
    /// The origin of the event's record.
    pub origin: Arc<Origin>,
    /// Offset of the event's record.
    pub offset: u64,
    /// Index of the event among the events from its record, counted from 0.
    pub ordinal: u32,
    /// The id that arrived with the record.
    pub received: Option<Bytes>,
}

/// The origin, the id and the time of an encoded event.
#[derive(Clone)]
pub struct RowSource {
    /// The id of the event.
    pub id: FeedId,
    /// Event time, in nanoseconds since 1970.
    pub time_ns: i64,
}

/// A field of an event.
pub struct FeedField {
    /// Name of the field.
    pub name: Arc<str>,
    /// Kind of the value.
    pub kind: Kind,
    /// Range of the value in the event's text.
    pub value: Range<usize>,
}

/// The events that one sink creates.
pub struct Feed {
    state: Mutex<State>,
    has_reader: AtomicBool,
    is_of_refused: bool,
}

#[derive(Default)]
struct State {
    /// Events that at least one sink has not settled yet.
    events: VecDeque<FeedEvent>,
    /// Number of the first event in `events`.
    first: u64,
    /// Bytes of text in `events`.
    bytes: u64,
    /// Lowest number for an event that was not in the feed before the restart.
    number_min: u64,
    limits: Limits,
    wake: Option<Wake>,
    is_started: bool,
    has_input_ended: bool,
    is_finished: bool,
}

impl Feed {
    /// Creates the feed for a sink's rejected events.
    pub fn of_refused() -> Arc<Feed> {
        let state = State { is_started: true, is_finished: true, ..State::default() };
        let (state, has_reader) = (Mutex::new(state), AtomicBool::new(false));
        Arc::new(Feed { state, has_reader, is_of_refused: true })
    }

    /// Creates the feed for a merge transform's results. The transform starts the feed with
    /// [`Feed::start`] and ends it with [`Feed::finish`].
    pub fn of_results() -> Arc<Feed> {
        let (state, has_reader) = (Mutex::default(), AtomicBool::new(false));
        Arc::new(Feed { state, has_reader, is_of_refused: false })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    /// Connects the source that reads the feed; `wake` wakes this source. Numbers below
    /// `number_min` were already used before the restart.
    pub fn attach(&self, number_min: u64, wake: Wake) {
        let mut state = self.lock();
        state.number_min = number_min;
        state.wake = Some(wake);
        self.has_reader.store(true, Ordering::Release);
    }

    /// Disconnects the source, which a reload has removed. Rejected events are reread from their
    /// origins. Results stay in the feed, and are also in the snapshot.
    pub fn detach(&self) {
        let mut state = self.lock();
        self.has_reader.store(false, Ordering::Release);
        state.wake = None;
        let waiting = if self.is_of_refused { state.take(u64::MAX) } else { Vec::new() };
        drop(state);
        waiting.into_iter().for_each(FeedEvent::give_back);
    }

    /// Returns whether a source reads the feed.
    fn has_reader(&self) -> bool {
        self.has_reader.load(Ordering::Acquire)
    }

    /// Returns whether the events are results of a merge transform.
    pub fn is_of_results(&self) -> bool {
        !self.is_of_refused
    }

    /// Returns whether a source reads the rejected events. If not, the sink counts and drops them.
    pub fn keeps_refused(&self) -> bool {
        self.is_of_refused && self.has_reader()
    }

    /// Returns the lowest number for an event that was not in the feed before the restart.
    pub fn number_min(&self) -> u64 {
        self.lock().number_min
    }

    /// Starts the feed. `number` is the number of the first event. Does nothing if the feed has
    /// already started.
    pub fn start(&self, number: u64) {
        let mut state = self.lock();
        if !state.is_started {
            (state.first, state.is_started) = (number, true);
        }
        state.wake();
    }

    /// Returns the number of the first unsettled event; `None` before the start.
    pub fn first(&self) -> Option<u64> {
        let state = self.lock();
        state.is_started.then_some(state.first)
    }

    /// Returns the number of the next event.
    pub fn next_number(&self) -> u64 {
        let state = self.lock();
        state.first + state.events.len() as u64
    }

    /// Appends an event. If there is no source to read it, settles its debt as returned, so that
    /// the event is reread.
    pub fn push(&self, event: FeedEvent) {
        let mut state = self.lock();
        if !self.has_reader() {
            drop(state);
            return event.give_back();
        }
        state.bytes += event.text.len() as u64;
        state.events.push_back(event);
        state.wake();
    }

    /// Returns whether the feed is so full that its sink should pause.
    pub fn is_full(&self) -> bool {
        let state = self.lock();
        state.events.len() >= state.limits.events || state.bytes >= state.limits.bytes
    }

    /// Sets the number of events and the bytes of text at which the sink should pause.
    pub fn limit(&self, events: usize, bytes: u64) {
        self.lock().limits = Limits { events, bytes };
    }

    /// Calls `visit` with the events starting at number `from`, in order, until it returns false.
    pub fn visit(&self, from: u64, mut visit: impl FnMut(u64, &FeedEvent) -> bool) {
        let state = self.lock();
        let skip = from.saturating_sub(state.first) as usize;
        let events = (state.first..).zip(&state.events).skip(skip);
        let _ = events.into_iter().all(|(number, event)| visit(number, event));
    }

    /// Removes the events before number `until`, which every sink has settled, and settles their
    /// debts.
    pub fn settle(&self, until: u64) {
        let settled = self.lock().take(until);
        let holds = settled.into_iter().filter_map(|event| event.hold);
        holds.for_each(|hold| hold.settle(Outcome::Rejected));
    }

    /// Marks the end of the sink's input. A merge transform then passes on the results that it was
    /// keeping back.
    pub fn end_input(&self) {
        self.lock().has_input_ended = true;
    }

    /// Returns whether the sink will get no further input.
    pub fn has_input_ended(&self) -> bool {
        self.lock().has_input_ended
    }

    /// Marks the feed as complete, after the input has ended.
    pub fn finish(&self) {
        let mut state = self.lock();
        state.is_finished = true;
        state.wake();
    }

    /// Returns whether the input has ended and every event is in the feed.
    pub fn is_finished(&self) -> bool {
        self.lock().is_finished
    }
}

impl State {
    /// Removes and returns the events before number `until`.
    fn take(&mut self, until: u64) -> Vec<FeedEvent> {
        let count = until.saturating_sub(self.first).min(self.events.len() as u64);
        let taken: Vec<FeedEvent> = self.events.drain(..count as usize).collect();
        self.first += count;
        self.bytes -= taken.iter().map(|event| event.text.len() as u64).sum::<u64>();
        taken
    }

    fn wake(&self) {
        self.wake.iter().for_each(|wake| wake());
    }
}
