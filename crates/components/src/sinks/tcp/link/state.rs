//! What the lane and the task of a connection tell each other.

use super::LinkError;
use crate::sinks::tcp::frames::Answer;
use crate::sinks::tcp::unit::Unit;
use parking_lot::{Mutex, MutexGuard};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use tokio::sync::Notify;

/// Longest reason of a refusal that is shown, in characters.
const REASON_CHARS_MAX: usize = 200;

/// What the lane and the task share.
pub struct Shared {
    state: Mutex<State>,
    /// To the lane: there may be something new.
    pub changed: Notify,
    /// To the writer: there is a unit to send.
    work: Notify,
    /// To the watcher: something was written.
    pub work_to_watch: Notify,
}

#[derive(Default)]
struct State {
    /// To be sent.
    queue: VecDeque<Arc<Unit>>,
    /// Numbers of units that were written, and the byte of the connection each ends at.
    written: VecDeque<(u64, u64)>,
    /// Number of the last unit of which writing has begun, over this connection or one before.
    begun: u64,
    /// Number of the last unit that was given to this connection.
    given: u64,
    /// All units up to this number are settled.
    settled: u64,
    /// Answers so far.
    answers: u64,
    /// Units above `settled` that were refused, and why, as long as the lane does not know it.
    refused: BTreeMap<u64, String>,
    is_connected: bool,
    is_finishing: bool,
    failure: Option<LinkError>,
}

/// What a connection has to tell.
#[derive(Default)]
pub struct Told {
    /// All units up to this number are settled.
    pub settled: u64,
    /// Units that were refused, and why.
    pub refused: BTreeMap<u64, String>,
    /// Whether the connection was there once.
    pub is_connected: bool,
    /// Why it has ended, if it has.
    pub failure: Option<LinkError>,
}

impl State {
    /// All units up to this number are settled; where they end is not asked any more.
    fn settle(&mut self, number: u64) {
        self.settled = self.settled.max(number);
        while self.written.pop_front_if(|(number, _)| *number <= self.settled).is_some() {}
    }
}

impl Shared {
    /// With `units` to send; those up to number `last` may have been sent before.
    pub fn new(units: Vec<Arc<Unit>>, last: u64) -> Shared {
        let given = units.last().map_or(0, |unit| unit.number);
        let settled = units.first().map_or(last, |unit| unit.number - 1);
        let state = State { queue: units.into(), begun: last, given, settled, ..State::default() };
        Shared {
            state: Mutex::new(state),
            changed: Notify::new(),
            work: Notify::new(),
            work_to_watch: Notify::new(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    /// Adds a unit.
    pub fn send(&self, unit: Arc<Unit>) {
        let mut state = self.lock();
        state.given = unit.number;
        state.queue.push_back(unit);
        drop(state);
        self.work.notify_one();
    }

    /// The next unit to send; [`None`] if the connection is to end.
    pub async fn next(&self) -> Option<Arc<Unit>> {
        loop {
            {
                let mut state = self.lock();
                let settled = state.settled;
                // The endpoint may have settled units over a connection before this one.
                while let Some(unit) = state.queue.pop_front() {
                    if unit.number > settled {
                        return Some(unit);
                    }
                }
                if state.is_finishing {
                    return None;
                }
            }
            self.work.notified().await;
        }
    }

    /// Writing of a unit begins.
    pub fn begun(&self, number: u64) {
        let mut state = self.lock();
        state.begun = state.begun.max(number);
        drop(state);
        self.work_to_watch.notify_one();
    }

    /// A unit was written; it ends at this byte of the connection.
    pub fn wrote(&self, number: u64, end: u64) {
        self.lock().written.push_back((number, end));
        self.work_to_watch.notify_one();
    }

    /// So many bytes have arrived: whole units of them are settled.
    pub fn arrived(&self, bytes: u64) {
        let mut state = self.lock();
        let before = state.settled;
        while let Some((number, _)) = state.written.pop_front_if(|(_, end)| *end <= bytes) {
            state.settled = number;
        }
        if state.settled > before {
            self.changed.notify_one();
        }
    }

    /// An answer of the endpoint. An error says why it cannot be one.
    pub fn answer(&self, answer: Answer) -> Result<(), String> {
        let mut state = self.lock();
        let (Answer::Acknowledged(number) | Answer::Refused(number, _)) = answer;
        if number > state.begun {
            return Err(format!(
                "an answer to frame {number}, but the last one sent is {}",
                state.begun
            ));
        }
        state.answers += 1;
        match answer {
            Answer::Acknowledged(number) => state.settle(number),
            // It may say so as often as it likes: no more is kept than there are units on their
            // way.
            Answer::Refused(number, reason) if number > state.settled => {
                let reason =
                    || reason.chars().filter(|c| !c.is_control()).take(REASON_CHARS_MAX).collect();
                state.refused.entry(number).or_insert_with(reason);
            }
            Answer::Refused(..) => {}
        }
        drop(state);
        self.changed.notify_one();
        Ok(())
    }

    /// All units up to this number are settled, refused ones among them.
    pub fn settle(&self, number: u64) {
        self.lock().settle(number);
    }

    /// How many answers there were.
    pub fn answers(&self) -> u64 {
        self.lock().answers
    }

    /// Whether something is on its way, or to be sent.
    pub fn is_busy(&self) -> bool {
        let state = self.lock();
        state.given > state.settled
    }

    /// The connection is there.
    pub fn connect(&self) {
        self.lock().is_connected = true;
        self.changed.notify_one();
    }

    /// The connection has ended.
    pub fn fail(&self, error: LinkError) {
        self.lock().failure = Some(error);
        self.changed.notify_one();
    }

    /// Ends the connection when everything was written.
    pub fn finish(&self) {
        self.lock().is_finishing = true;
        self.work.notify_one();
    }

    /// What there is to tell.
    pub fn take(&self) -> Told {
        let mut state = self.lock();
        Told {
            settled: state.settled,
            refused: std::mem::take(&mut state.refused),
            is_connected: state.is_connected,
            failure: state.failure.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sinks::tcp::unit::Draft;

    fn unit(number: u64) -> Arc<Unit> {
        Arc::new(Draft::default().seal(number))
    }

    /// An endpoint that says again and again what it refuses.
    #[test]
    fn refusals_are_kept_once_and_only_of_what_is_on_its_way() {
        let shared = Shared::new(vec![unit(11), unit(12), unit(13)], 13);
        shared.answer(Answer::Acknowledged(11)).unwrap();
        for number in (0..=13).chain(0..=13) {
            shared.answer(Answer::Refused(number, format!("no {number}\n"))).unwrap();
        }
        assert_eq!(
            shared.take().refused,
            [(12, "no 12".to_owned()), (13, "no 13".to_owned())].into()
        );
        assert!(shared.answer(Answer::Refused(14, String::new())).is_err());
        assert!(Shared::new(Vec::new(), 13).answer(Answer::Refused(13, String::new())).is_ok());
    }

    /// With acknowledgements nobody asks how many bytes have arrived.
    #[test]
    fn where_units_end_is_forgotten_once_they_are_settled() {
        let shared = Shared::new(Vec::new(), 0);
        for number in 1..=9 {
            shared.begun(number);
            shared.wrote(number, number * 100);
        }
        shared.answer(Answer::Acknowledged(8)).unwrap();
        assert_eq!(shared.lock().written, [(9, 900)]);
        shared.settle(9);
        assert!(shared.lock().written.is_empty());
        assert_eq!(shared.take().settled, 9);
    }
}
