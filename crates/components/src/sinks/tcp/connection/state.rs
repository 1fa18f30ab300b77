//! State shared by the lane and the task of a connection.

use super::ConnectionError;
use crate::sinks::tcp::frame::Frame;
use crate::sinks::tcp::protocol::Response;
use millstream_model::secrets::mask_answer;
use parking_lot::Mutex;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use tokio::sync::Notify;

/// Maximum number of characters that the log shows of a rejection reason.
const REASON_CHARS_MAX: usize = 200;

/// State shared by the lane and the task.
#[derive(Default)]
pub struct Shared {
    state: Mutex<State>,
    /// Wakes the lane when the status may have changed.
    pub changed: Notify,
    /// Wakes the writer when a frame is queued.
    work: Notify,
    /// Wakes the watcher after a write.
    pub work_to_watch: Notify,
}

#[derive(Default)]
struct State {
    /// Frames that are still to be written.
    queue: VecDeque<Arc<Frame>>,
    /// Numbers of written frames, and the byte offset in the connection at which each ends.
    written: VecDeque<(u64, u64)>,
    /// Number of the last frame whose write has started, over this connection or an earlier one.
    begun: u64,
    /// Number of the last frame queued on this connection.
    last_sent: u64,
    /// All frames up to this number are settled.
    settled: u64,
    /// Number of responses so far.
    responses: u64,
    /// Rejected frames above `settled`, with the reasons. The lane removes them by taking the
    /// status.
    refused: BTreeMap<u64, String>,
    is_connected: bool,
    is_finishing: bool,
    failure: Option<ConnectionError>,
}

/// The status of a connection.
#[derive(Default)]
pub struct Status {
    /// All frames up to this number are settled.
    pub settled: u64,
    /// Rejected frames, with the reasons.
    pub refused: BTreeMap<u64, String>,
    /// Whether the connection was ever established.
    pub is_connected: bool,
    /// Reason why the connection ended, if it did.
    pub failure: Option<ConnectionError>,
}

impl State {
    /// Marks all frames up to this number as settled, and drops their byte offsets.
    fn settle(&mut self, number: u64) {
        self.settled = self.settled.max(number);
        while self.written.pop_front_if(|(number, _)| *number <= self.settled).is_some() {}
    }
}

impl Shared {
    /// Creates the state with `frames` to send. Frames up to number `last` may have been sent
    /// before.
    pub fn new(frames: Vec<Arc<Frame>>, last: u64) -> Shared {
        let last_sent = frames.last().map_or(0, |frame| frame.number);
        let settled = frames.first().map_or(last, |frame| frame.number - 1);
        let state =
            State { queue: frames.into(), begun: last, last_sent, settled, ..State::default() };
        Shared { state: Mutex::new(state), ..Shared::default() }
    }

    /// Queues a frame.
    pub fn send(&self, frame: Arc<Frame>) {
        let mut state = self.state.lock();
        state.last_sent = frame.number;
        state.queue.push_back(frame);
        drop(state);
        self.work.notify_one();
    }

    /// Waits for the next frame to send; returns [`None`] if the connection must be shut down.
    pub async fn next(&self) -> Option<Arc<Frame>> {
        loop {
            {
                let mut state = self.state.lock();
                let settled = state.settled;
                // The endpoint may have settled frames over an earlier connection.
                while let Some(frame) = state.queue.pop_front() {
                    if frame.number > settled {
                        return Some(frame);
                    }
                }
                if state.is_finishing {
                    return None;
                }
            }
            self.work.notified().await;
        }
    }

    /// Records that the write of a frame starts.
    pub fn write_started(&self, number: u64) {
        let mut state = self.state.lock();
        state.begun = state.begun.max(number);
        drop(state);
        self.work_to_watch.notify_one();
    }

    /// Records that a frame was written and ends at this byte of the connection.
    pub fn write_finished(&self, number: u64, end: u64) {
        self.state.lock().written.push_back((number, end));
        self.work_to_watch.notify_one();
    }

    /// Records the number of bytes delivered, and settles the frames that are delivered completely.
    pub fn delivered(&self, bytes: u64) {
        let mut state = self.state.lock();
        let before = state.settled;
        while let Some((number, _)) = state.written.pop_front_if(|(_, end)| *end <= bytes) {
            state.settled = number;
        }
        if state.settled > before {
            self.changed.notify_one();
        }
    }

    /// Processes a response. Fails if it violates the protocol.
    pub fn response(&self, response: Response) -> Result<(), String> {
        let mut state = self.state.lock();
        let (Response::Acknowledged(number) | Response::Refused(number, _)) = response;
        if number > state.begun {
            return Err(format!(
                "response to frame {number}, but the last frame sent is {}",
                state.begun
            ));
        }
        state.responses += 1;
        match response {
            Response::Acknowledged(number) => state.settle(number),
            // An endpoint may repeat rejections: keep at most one per frame in flight.
            Response::Refused(number, reason) if number > state.settled => {
                let reason = || {
                    let reason = mask_answer(&reason);
                    reason.chars().filter(|c| !c.is_control()).take(REASON_CHARS_MAX).collect()
                };
                state.refused.entry(number).or_insert_with(reason);
            }
            Response::Refused(..) => {}
        }
        drop(state);
        self.changed.notify_one();
        Ok(())
    }

    /// Marks all frames up to this number as settled, including rejected frames.
    pub fn settle(&self, number: u64) {
        self.state.lock().settle(number);
    }

    /// Returns the number of responses.
    pub fn responses(&self) -> u64 {
        self.state.lock().responses
    }

    /// Returns whether any frame is in flight or queued.
    pub fn is_busy(&self) -> bool {
        let state = self.state.lock();
        state.last_sent > state.settled
    }

    /// Records that the connection is established.
    pub fn connect(&self) {
        self.state.lock().is_connected = true;
        self.changed.notify_one();
    }

    /// Records that the connection ended.
    pub fn fail(&self, error: ConnectionError) {
        self.state.lock().failure = Some(error);
        self.changed.notify_one();
    }

    /// Shuts the connection down after all frames are written.
    pub fn finish(&self) {
        self.state.lock().is_finishing = true;
        self.work.notify_one();
    }

    /// Returns the status, and removes the rejected frames from the state.
    pub fn take_status(&self) -> Status {
        let mut state = self.state.lock();
        Status {
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
    use crate::sinks::tcp::frame::OpenBatch;

    fn frame(number: u64) -> Arc<Frame> {
        Arc::new(OpenBatch::default().close(number))
    }

    /// An endpoint that repeats its rejections.
    #[test]
    fn refusals_are_kept_once_and_only_for_frames_in_flight() {
        let shared = Shared::new(vec![frame(11), frame(12), frame(13)], 13);
        shared.response(Response::Acknowledged(11)).unwrap();
        for number in (0..=13).chain(0..=13) {
            shared.response(Response::Refused(number, format!("no {number}\n"))).unwrap();
        }
        assert_eq!(
            shared.take_status().refused,
            [(12, "no 12".to_owned()), (13, "no 13".to_owned())].into()
        );
        assert!(shared.response(Response::Refused(14, String::new())).is_err());
        assert!(Shared::new(Vec::new(), 13).response(Response::Refused(13, String::new())).is_ok());
    }

    /// With acknowledgements, byte offsets are not needed.
    #[test]
    fn byte_offsets_of_settled_frames_are_dropped() {
        let shared = Shared::new(Vec::new(), 0);
        for number in 1..=9 {
            shared.write_started(number);
            shared.write_finished(number, number * 100);
        }
        shared.response(Response::Acknowledged(8)).unwrap();
        assert_eq!(shared.state.lock().written, [(9, 900)]);
        shared.settle(9);
        assert!(shared.state.lock().written.is_empty());
        assert_eq!(shared.take_status().settled, 9);
    }
}
