//! Makes the ids of new files durable before the files are read.

use super::history::History;
use super::retention::Retention;
use super::scope::Scope;
use super::tails::Tails;
use super::walks::Walks;
use crate::tail::Tail;
use millstream_model::{OriginId, SourceCx};
use std::collections::HashMap;

/// The parts of the source that are needed to insert a new file.
pub(super) struct Insertion<'a> {
    pub scope: &'a Scope,
    pub files: &'a mut Tails,
    pub history: &'a mut History,
    pub retention: &'a mut Retention,
    pub walks: &'a mut Walks,
}

impl Insertion<'_> {
    /// Saves the files' ids, then queues the files for reading; returns whether all ids were saved.
    pub(super) fn insert(&mut self, new: Vec<Tail>, cx: &SourceCx<'_>) -> bool {
        if new.is_empty() && !self.scope.first_start {
            return true;
        }
        let store = &self.scope.open.store;
        let Err(error) = store.keep(&identities(&new)) else {
            self.read_from_now_on(new, cx);
            return true;
        };
        self.walks.request();
        // The next walk repeats the search for renamed files.
        self.walks.search_again();
        self.retention.restore_again();
        let records = store.origins().map_or_else(|_| Vec::new(), |(records, _)| records);
        let saved: HashMap<OriginId, Vec<u8>> =
            records.into_iter().map(|record| (record.id, record.descriptor)).collect();
        // Files whose identity is already saved need no write, so they are read even if the disk is
        // full.
        let is_saved = |tail: &Tail| saved.get(&tail.id()) == Some(&tail.descriptor().to_bytes());
        let (unchanged, new): (Vec<Tail>, Vec<Tail>) = new.into_iter().partition(is_saved);
        self.read_from_now_on(unchanged, cx);
        let (recorded, unknown): (Vec<Tail>, Vec<Tail>) =
            new.into_iter().partition(|tail| saved.contains_key(&tail.id()));
        cx.counters.error("checkpoint");
        log::error!(
            "source {}: cannot save the ids of {} new files: {error}; retrying",
            cx.info.id,
            unknown.len()
        );
        self.put_back(unknown);
        if store.keep(&identities(&recorded)).is_ok() {
            self.read_from_now_on(recorded, cx);
        } else {
            self.put_back(recorded);
        }
        false
    }

    fn read_from_now_on(&mut self, new: Vec<Tail>, cx: &SourceCx<'_>) {
        self.files.add(new, &mut self.history.records.generations, cx);
    }

    /// Records files that could not be adopted, so that the next walk finds each file with its id
    /// and checkpoints.
    fn put_back(&mut self, new: Vec<Tail>) {
        for tail in new {
            self.history.records.insert(tail.into_record(&self.scope.open.sinks));
        }
    }
}

/// Returns the ids of files and their serialized descriptors.
fn identities(tails: &[Tail]) -> Vec<(OriginId, Vec<u8>)> {
    tails.iter().map(|tail| (tail.id(), tail.descriptor().to_bytes())).collect()
}
