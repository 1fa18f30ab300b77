//! The thread that rereads abandoned ranges, with a consumer that is not a member of the group.

use super::inbox::{Chunk, Part, record_bytes};
use super::partition::{Partition, Phase};
use super::shared::Shared;
use crate::util::kafka::token_file;
use millstream_kafka::{ClientError, Consumer, ErrorCode, Fetched, Place};
use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

/// Maximum time that the thread waits for records, which is also the maximum delay until it notices
/// shutdown.
const PAUSE: Duration = Duration::from_millis(50);

/// Maximum number of records in a chunk.
const CHUNK_RECORDS: usize = 256;

/// Maximum time for a request to the brokers before it is repeated.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(5);

/// Time that the client stays connected without a range to read.
const IDLE: Duration = Duration::from_secs(60);

/// A range to reread.
pub struct Request {
    /// Partition of the range.
    pub partition: Arc<Partition>,
    /// Offsets of the range.
    pub range: Range<u64>,
}

/// The source's handle of the thread. The first request starts the thread.
#[derive(Default)]
pub struct Rereader(Option<Sender<Request>>);

impl Rereader {
    /// Requests a range, whose records arrive through [`Shared::rereads`]. Returns `false` if no
    /// thread could be started.
    pub fn ask(&mut self, shared: &Arc<Shared>, request: Request) -> bool {
        let rejected = match &self.0 {
            Some(requests) => requests.send(request).err().map(|rejected| rejected.0),
            None => Some(request),
        };
        let Some(request) = rejected else { return true };
        let (requests, receiver) = channel();
        let of_thread = shared.clone();
        let run = move || run(&of_thread, &receiver);
        let started = std::thread::Builder::new().name("kafka-reread".into()).spawn(run);
        if let Err(error) = started {
            log::error!("source {}: cannot reread records: {error}", shared.open.info.id);
            return false;
        }
        let is_sent = requests.send(request).is_ok();
        self.0 = Some(requests);
        is_sent
    }
}

/// Reads ranges until no request has arrived for [`IDLE`].
fn run(shared: &Shared, requests: &Receiver<Request>) {
    let settings = super::settings::of_rereads(&shared.config);
    let token_file = token_file(shared.config.sasl.as_ref());
    let consumer = match Consumer::open(&settings, token_file) {
        Ok(consumer) => consumer,
        Err(error) => {
            return log::error!(
                "source {}: cannot reread records: {}",
                shared.open.info.id,
                error.0
            );
        }
    };
    let mut idle = Duration::ZERO;
    while !shared.is_stopping() && idle < IDLE {
        match requests.recv_timeout(PAUSE) {
            Ok(request) => {
                idle = Duration::ZERO;
                Reading::new(shared, &consumer, request).run();
            }
            Err(RecvTimeoutError::Timeout) => idle += PAUSE,
            Err(RecvTimeoutError::Disconnected) => break,
        }
        consumer.serve(Duration::ZERO);
    }
    consumer.close();
}

/// The range that is being read.
struct Reading<'a> {
    shared: &'a Shared,
    consumer: &'a Consumer,
    partition: Arc<Partition>,
    next: u64,
    end: u64,
}

impl<'a> Reading<'a> {
    fn new(shared: &'a Shared, consumer: &'a Consumer, request: Request) -> Reading<'a> {
        let Request { partition, range } = request;
        Reading { shared, consumer, partition, next: range.start, end: range.end }
    }

    fn run(mut self) {
        if let Err(error) = self.assign() {
            self.shared.report(&error);
        }
        while self.next < self.end && self.is_wanted() {
            for event in self.consumer.serve(Duration::ZERO) {
                if let millstream_kafka::Event::Error(error) = event {
                    log::debug!("rereading records: {}", error.message);
                }
            }
            if self.shared.rereads.wait_for_room(PAUSE) {
                let fetched = self.consumer.fetch(CHUNK_RECORDS, PAUSE);
                if fetched.is_empty() {
                    // The previous range may have belonged to the same partition.
                    self.consumer.forward(&self.partition.at);
                } else {
                    self.pass_on(fetched);
                }
            }
        }
        let none = self.consumer.unassign(&[]);
        none.unwrap_or_else(|error| log::debug!("rereading records: {}", error.message));
    }

    /// Returns whether this agent must still read the range.
    fn is_wanted(&self) -> bool {
        !self.shared.is_stopping() && self.partition.state.lock().phase != Phase::Closed
    }

    fn assign(&self) -> Result<(), ClientError> {
        self.consumer.assign(&[(self.partition.at.clone(), self.next)])
    }

    fn pass_on(&mut self, fetched: Fetched) {
        let (mut parts, mut bytes, mut first) = (VecDeque::new(), 0, 0);
        for index in 0..fetched.len() {
            let record = fetched.get(index);
            let is_ours = record.topic() == &*self.partition.at.topic
                && record.partition() == self.partition.at.partition;
            let Some(error) = record.error() else {
                if is_ours && record.offset() >= self.next {
                    bytes += record_bytes(&fetched, index);
                    self.next = record.offset() + 1;
                }
                continue;
            };
            self.records(&mut parts, first..index);
            first = index + 1;
            match error {
                ErrorCode::PartitionEOF if is_ours => self.reach(&mut parts, record.offset()),
                ErrorCode::AutoOffsetReset | ErrorCode::OffsetOutOfRange if is_ours => {
                    self.skip_lost(&mut parts);
                }
                code => log::debug!("rereading records: {code}"),
            }
        }
        self.records(&mut parts, first..fetched.len());
        if self.next >= self.end {
            parts.push_back(Part::End(self.partition.clone(), self.end));
        }
        self.shared.rereads.push(Chunk { fetched, parts, bytes });
        (self.shared.open.wake)();
    }

    fn records(&self, parts: &mut VecDeque<Part>, range: Range<usize>) {
        if !range.is_empty() {
            parts.push_back(Part::Records(self.partition.clone(), range));
        }
    }

    /// Handles the end of the partition, which the broker reported at offset `end`. No more records
    /// of the range exist.
    fn reach(&mut self, parts: &mut VecDeque<Part>, end: u64) {
        // If the range extends beyond the end, the broker has truncated records that were read
        // earlier.
        let lost = self.end.saturating_sub(end);
        if lost > 0 {
            parts.push_back(Part::Lost(self.partition.clone(), self.end));
        }
        self.next = self.end;
    }

    /// Continues at the partition's first record, because the next record of the range was deleted.
    fn skip_lost(&mut self, parts: &mut VecDeque<Part>) {
        let at = std::slice::from_ref(&self.partition.at);
        match self.consumer.find(at, Place::First, REQUEST_TIMEOUT) {
            Ok(found) => {
                self.next = found[0].unwrap_or(self.end).clamp(self.next, self.end);
                parts.push_back(Part::Lost(self.partition.clone(), self.next));
            }
            Err(error) => self.shared.report(&error),
        }
        if self.next < self.end
            && let Err(error) = self.assign()
        {
            self.shared.report(&error);
        }
    }
}
