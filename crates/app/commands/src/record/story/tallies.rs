//! Counts of events by component, file, peer and wait. Names are stored as numbers, which refer to
//! the recording's string table.

use crate::record::ticks::end_of;
use millstream_recorder::event::Event;
use millstream_recorder::ids::SubjectId;
use millstream_recorder::schema::EventKind;
use std::cmp::Reverse;
use std::collections::HashMap;
use std::hash::Hash;

/// Returns the entries with the largest weights first, and equal entries in order of their keys.
fn sorted<K: Copy + Ord + Hash, V: Clone>(
    map: &HashMap<K, V>,
    weight: impl Fn(&V) -> u64,
) -> Vec<(K, V)> {
    let mut entries: Vec<(K, V)> = map.iter().map(|(key, value)| (*key, value.clone())).collect();
    entries.sort_by_key(|(key, value)| (Reverse(weight(value)), *key));
    entries
}

/// Work of a component.
#[derive(Clone, Copy, Debug, Default)]
pub struct ComponentTally {
    /// Number of batches that the component processed.
    pub batches: u64,
    /// Number of rows in these batches.
    pub rows: u64,
    /// Number of bytes in these batches.
    pub bytes: u64,
    /// Time of the processing in ticks.
    pub busy_ticks: u64,
}

/// Work of each component.
pub struct Components(HashMap<u64, ComponentTally>);

impl Components {
    /// Counts events.
    pub fn of(events: &[Event]) -> Components {
        let mut map: HashMap<u64, ComponentTally> = HashMap::new();
        for event in events.iter().filter(|event| event.kind == EventKind::BatchStage) {
            let [component, rows, bytes, ..] = event.values;
            let tally = map.entry(component).or_default();
            tally.batches += 1;
            tally.rows = tally.rows.saturating_add(rows);
            tally.bytes = tally.bytes.saturating_add(bytes);
            tally.busy_ticks = tally.busy_ticks.saturating_add(event.duration_ticks);
        }
        Components(map)
    }

    /// Returns the components, the busiest first.
    pub fn sorted(&self) -> Vec<(u64, ComponentTally)> {
        sorted(&self.0, |tally| tally.busy_ticks)
    }
}

/// Reads and writes of one file or peer.
#[derive(Clone, Copy, Debug, Default)]
pub struct IoTally {
    /// Number of reads.
    pub reads: u64,
    /// Bytes that were read.
    pub bytes_read: u64,
    /// Number of writes.
    pub writes: u64,
    /// Bytes that were written.
    pub bytes_written: u64,
    /// End of the last read or write.
    pub last_ticks: u64,
}

impl IoTally {
    fn add(&mut self, event: &Event, is_read: bool, bytes: u64) {
        let (count, sum) = match is_read {
            true => (&mut self.reads, &mut self.bytes_read),
            false => (&mut self.writes, &mut self.bytes_written),
        };
        *count += 1;
        *sum = sum.saturating_add(bytes);
        self.last_ticks = self.last_ticks.max(end_of(event));
    }

    fn bytes(&self) -> u64 {
        self.bytes_read.saturating_add(self.bytes_written)
    }
}

/// Reads and writes of each file, by path.
pub struct Files(HashMap<u64, IoTally>);

impl Files {
    /// Counts events.
    pub fn of(events: &[Event]) -> Files {
        let mut map: HashMap<u64, IoTally> = HashMap::new();
        for event in events {
            let is_read = match event.kind {
                EventKind::FileRead => true,
                EventKind::FileWrite => false,
                _ => continue,
            };
            let [path, bytes, ..] = event.values;
            map.entry(path).or_default().add(event, is_read, bytes);
        }
        Files(map)
    }

    /// Returns the files, sorted by number of bytes in descending order.
    pub fn sorted(&self) -> Vec<(u64, IoTally)> {
        sorted(&self.0, IoTally::bytes)
    }
}

/// Reads from and writes to a peer.
#[derive(Clone, Copy, Debug, Default)]
pub struct PeerTally {
    /// All reads and writes.
    pub io: IoTally,
    /// The longest read or write.
    pub slowest_ticks: u64,
}

/// The writes to a connection after the last read from it.
#[derive(Clone, Copy, Debug)]
pub struct Request {
    /// Host, address and port.
    pub peer: [u64; 3],
    /// Number of writes.
    pub writes: u64,
    /// Number of bytes written.
    pub bytes: u64,
    /// Start of the first write.
    pub start_ticks: u64,
}

/// Returns the requests without a response, the oldest first. Events are sorted by their end.
pub fn requests(events: &[Event]) -> Vec<Request> {
    let mut open: HashMap<SubjectId, Request> = HashMap::new();
    for event in events.iter().filter(|event| event.subject != SubjectId(0)) {
        let [host, address, port, bytes, ..] = event.values;
        match event.kind {
            EventKind::SocketRead => _ = open.remove(&event.subject),
            EventKind::SocketWrite => {
                let start_ticks = event.start_ticks;
                let new = Request { peer: [host, address, port], writes: 0, bytes: 0, start_ticks };
                let request = open.entry(event.subject).or_insert(new);
                request.writes += 1;
                request.bytes = request.bytes.saturating_add(bytes);
            }
            _ => {}
        }
    }
    let mut open: Vec<Request> = open.into_values().collect();
    open.sort_by_key(|request| (request.start_ticks, request.peer));
    open
}

/// Reads and writes of each peer, by host, address and port.
pub struct Peers(HashMap<[u64; 3], PeerTally>);

impl Peers {
    /// Counts events.
    pub fn of(events: &[Event]) -> Peers {
        let mut map: HashMap<[u64; 3], PeerTally> = HashMap::new();
        for event in events {
            let is_read = match event.kind {
                EventKind::SocketRead => true,
                EventKind::SocketWrite => false,
                _ => continue,
            };
            let [host, address, port, bytes, ..] = event.values;
            let tally = map.entry([host, address, port]).or_default();
            tally.io.add(event, is_read, bytes);
            tally.slowest_ticks = tally.slowest_ticks.max(event.duration_ticks);
        }
        Peers(map)
    }

    /// Returns the peers, sorted by number of bytes in descending order.
    pub fn sorted(&self) -> Vec<([u64; 3], PeerTally)> {
        sorted(&self.0, |tally| tally.io.bytes())
    }
}

/// Waits of a component for another component.
#[derive(Clone, Copy, Debug, Default)]
pub struct WaitTally {
    /// Number of waits.
    pub times: u64,
    /// Total time of the waits in ticks.
    pub total_ticks: u64,
    /// The longest wait.
    pub longest_ticks: u64,
    /// End of the last wait.
    pub last_ticks: u64,
}

/// Waits by waiting component and by the component that it waits for.
pub struct Waits(HashMap<(u64, u64), WaitTally>);

impl Waits {
    /// Counts events.
    pub fn of(events: &[Event]) -> Waits {
        let mut map: HashMap<(u64, u64), WaitTally> = HashMap::new();
        for event in events.iter().filter(|event| event.kind == EventKind::WaitForCapacity) {
            let [component, waits_for, ..] = event.values;
            let tally = map.entry((component, waits_for)).or_default();
            tally.times += 1;
            tally.total_ticks = tally.total_ticks.saturating_add(event.duration_ticks);
            tally.longest_ticks = tally.longest_ticks.max(event.duration_ticks);
            tally.last_ticks = tally.last_ticks.max(end_of(event));
        }
        Waits(map)
    }

    /// Returns the waits, the longest in total first.
    pub fn sorted(&self) -> Vec<((u64, u64), WaitTally)> {
        sorted(&self.0, |tally| tally.total_ticks)
    }
}
