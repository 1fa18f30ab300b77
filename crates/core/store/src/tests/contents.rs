//! The contents of a store as plain maps, both those that it reports and those that are expected.

use crate::{DiskBufferRecord, Store};
use fastrand::Rng;
use millstream_model::OriginId;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::Arc;

const SOURCES: [&str; 2] = ["app", "sys"];
const SINKS: [&str; 2] = ["far", "out"];
const ORIGINS: u64 = 4;
const LANES: u64 = 2;

/// Everything that can be read from a store.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Contents {
    pub sources: BTreeSet<&'static str>,
    pub origins: BTreeMap<(&'static str, OriginId), Vec<u8>>,
    pub checkpoints: BTreeMap<(&'static str, OriginId, &'static str), u64>,
    pub lanes: BTreeMap<(&'static str, u64), Vec<u8>>,
    pub disk_buffers: BTreeMap<&'static str, DiskBufferRecord>,
}

impl Contents {
    /// Returns the contents that `store` reports. Panics if they contain an unknown sink.
    pub fn of(store: &Arc<Store>) -> Contents {
        let mut contents = Contents::default();
        for source in SOURCES {
            let (records, is_known) = store.of_source(source).origins().unwrap();
            contents.sources.extend(is_known.then_some(source));
            for record in records {
                contents.origins.insert((source, record.id), record.descriptor);
                for (sink, offset) in record.checkpoints {
                    let sink = SINKS
                        .iter()
                        .find(|name| **name == sink)
                        .expect("a sink that was never written");
                    contents.checkpoints.insert((source, record.id, sink), offset);
                }
            }
        }
        for (sink, lane) in SINKS.iter().flat_map(|sink| (0..LANES).map(move |lane| (*sink, lane)))
        {
            let state = store.lane(&Arc::from(sink), lane as usize).unwrap();
            contents.lanes.extend(state.map(|state| ((sink, lane), state)));
        }
        for sink in SINKS {
            let record = store.disk_buffer(sink).unwrap();
            let is_saved = record != DiskBufferRecord::default();
            contents.disk_buffers.extend(is_saved.then_some((sink, record)));
        }
        contents
    }

    fn forget(&mut self, source: &str, origin: OriginId) {
        self.origins.retain(|(owner, id), _| (*owner, *id) != (source, origin));
        self.checkpoints.retain(|(owner, id, _), _| (*owner, *id) != (source, origin));
    }
}

/// One call to the store.
#[derive(Clone, Debug)]
pub enum Call {
    Keep(&'static str, OriginId, Vec<u8>),
    Note(&'static str, OriginId, Vec<u8>),
    NoteLane(&'static str, u64, Vec<u8>),
    KeepLane(&'static str, u64, Vec<u8>),
    Commit(BTreeMap<(&'static str, OriginId, &'static str), u64>),
    CommitDiskBuffer(&'static str, DiskBufferRecord),
    Forget(&'static str, OriginId),
}

impl Call {
    /// Returns a random call. All values in the call contain `number`.
    pub fn draw(number: u64, random: &mut Rng) -> Call {
        let source = SOURCES[random.u64(..2) as usize];
        let sink = SINKS[random.u64(..2) as usize];
        let (origin, lane) = (OriginId(random.u64(..ORIGINS)), random.u64(..LANES));
        let text = |what: &str| format!("{what} {number}").into_bytes();
        match random.u64(..14) {
            0..2 => Call::Keep(source, origin, text("kept")),
            2 => Call::Note(source, origin, text("noted")),
            3..5 => Call::NoteLane(sink, lane, text("synced")),
            5 => Call::KeepLane(sink, lane, text("about to write")),
            6 => Call::Forget(source, origin),
            7..9 => {
                let end = number + 3;
                let record = DiskBufferRecord { position: number, end, entries: 2, events: 9 };
                Call::CommitDiskBuffer(sink, record)
            }
            _ => {
                let count = 1 + random.u64(..6);
                let any = |_| {
                    let (source, sink) =
                        (SOURCES[random.u64(..2) as usize], SINKS[random.u64(..2) as usize]);
                    ((source, OriginId(random.u64(..ORIGINS)), sink), number)
                };
                Call::Commit((0..count).map(any).collect())
            }
        }
    }

    /// Makes the call to the store.
    pub fn make(&self, store: &Arc<Store>) -> io::Result<()> {
        match self.clone() {
            Call::Keep(source, origin, text) => store.of_source(source).keep(&[(origin, text)]),
            Call::Note(source, origin, text) => {
                store.of_source(source).note(origin, text);
                Ok(())
            }
            Call::NoteLane(sink, lane, state) => {
                store.note_lane(&Arc::from(sink), lane as usize, state);
                Ok(())
            }
            Call::KeepLane(sink, lane, state) => {
                store.keep_lane(&Arc::from(sink), lane as usize, state)
            }
            Call::Forget(source, origin) => store.of_source(source).forget(&[origin]),
            Call::Commit(offsets) => store.commit(|moved| {
                for ((source, origin, sink), offset) in &offsets {
                    moved.checkpoint(&Arc::from(*source), *origin, &Arc::from(*sink), *offset);
                }
            }),
            Call::CommitDiskBuffer(sink, record) => {
                store.commit(|moved| moved.disk_buffer(&Arc::from(sink), record))
            }
        }
    }
}

/// The expected contents of a store after some calls.
#[derive(Clone, Debug, Default)]
pub struct Expected {
    /// Contents that the store reports after a restart.
    pub durable: Contents,
    noted: Contents,
}

impl Expected {
    /// Records that `call` has returned.
    pub fn after(&mut self, call: &Call) {
        match call.clone() {
            Call::Keep(source, origin, text) => {
                self.durable.sources.insert(source);
                self.durable.origins.insert((source, origin), text);
                self.noted.origins.remove(&(source, origin));
            }
            Call::Note(source, origin, text) => {
                _ = self.noted.origins.insert((source, origin), text)
            }
            Call::NoteLane(sink, lane, state) => _ = self.noted.lanes.insert((sink, lane), state),
            Call::KeepLane(sink, lane, state) => {
                self.noted.lanes.insert((sink, lane), state);
                self.commit();
            }
            Call::Forget(source, origin) => {
                self.durable.forget(source, origin);
                self.noted.forget(source, origin);
            }
            Call::Commit(moved) => {
                self.noted.checkpoints.extend(moved);
                self.commit();
            }
            Call::CommitDiskBuffer(sink, record) => {
                self.noted.disk_buffers.insert(sink, record);
                self.commit();
            }
        }
    }

    /// Makes all noted data durable. A checkpoint without its origin is dropped.
    fn commit(&mut self) {
        let noted = std::mem::take(&mut self.noted);
        self.durable.origins.extend(noted.origins);
        let origins = &self.durable.origins;
        let of_known = noted
            .checkpoints
            .into_iter()
            .filter(|((owner, id, _), _)| origins.contains_key(&(*owner, *id)));
        self.durable.checkpoints.extend(of_known);
        self.durable.lanes.extend(noted.lanes);
        self.durable.disk_buffers.extend(noted.disk_buffers);
    }
}
