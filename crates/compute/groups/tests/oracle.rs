//! Compares the table with a map from keys to accumulators, for random operations.

use crate::model::{ACCUMULATORS, Event, Model, event};
use millstream_groups::{Groups, Layout, NONE, Side, limits::KEYS_MAX};
use millstream_testkit_random::{TestSize, property};
use proptest::prelude::*;
use std::sync::Arc;

/// An operation on a table.
#[derive(Clone, Debug)]
enum Step {
    /// Adds events one by one.
    Single(Vec<Event>),
    /// Adds events with the batch methods.
    Batch(Vec<Event>),
    /// Adds events with the combined batch method.
    Rows(Vec<Event>),
    /// Appends changes to the log.
    Changes,
    /// Starts a new log.
    All,
    /// Replaces the table with the table that the log describes.
    Restart,
    Clear,
}

fn step() -> impl Strategy<Value = Step> {
    let events = || prop::collection::vec(event(), 1..90);
    prop_oneof![
        3 => events().prop_map(Step::Single),
        3 => events().prop_map(Step::Batch),
        3 => events().prop_map(Step::Rows),
        3 => Just(Step::Changes),
        1 => Just(Step::All),
        2 => Just(Step::Restart),
        1 => Just(Step::Clear),
    ]
}

/// A table and its log.
struct Table {
    groups: Groups,
    log: Vec<u8>,
    /// The model at the time of the last snapshot.
    saved: Model,
}

fn new_groups(keys: usize, groups_max: usize) -> Groups {
    Groups::new(Arc::new(Layout::new(&ACCUMULATORS)), keys, groups_max)
}

impl Table {
    fn new(keys: usize, groups_max: usize) -> Table {
        let model = Model::new(keys, groups_max);
        Table { groups: new_groups(keys, groups_max), log: Vec::new(), saved: model }
    }

    fn run(&mut self, step: &Step, model: &mut Model) {
        match step {
            Step::Single(events) => events.iter().for_each(|event| self.single(event, model)),
            Step::Batch(events) => self.batch(events, model, false),
            Step::Rows(events) => self.batch(events, model, true),
            Step::Changes => {
                self.groups.write_changes(&mut self.log);
                self.saved = model.clone();
            }
            Step::All => {
                self.log.clear();
                self.groups.write_all(&mut self.log);
                self.saved = model.clone();
            }
            Step::Restart => {
                self.groups = new_groups(model.keys, model.groups_max);
                let mut rest = &self.log[..];
                while !rest.is_empty() {
                    self.groups.apply(&mut rest).expect("a log that was written");
                }
                *model = self.saved.clone();
            }
            Step::Clear => {
                self.groups.clear();
                self.log.clear();
                *model = Model::new(model.keys, model.groups_max);
                self.saved = model.clone();
            }
        }
    }

    fn single(&mut self, event: &Event, model: &mut Model) {
        let texts = event.texts(model.keys);
        let mut ids = Vec::new();
        for (column, text) in texts.iter().enumerate() {
            ids.push(text.map_or(Some(0), |text| {
                let found = self.groups.find(column, text);
                let id = self.groups.intern(column, text);
                assert!(found.is_none() || found == id);
                id
            }));
        }
        let ids: Option<Vec<u32>> = ids.into_iter().collect();
        let group = ids.and_then(|ids| {
            let group = self.groups.add(&ids);
            assert_eq!(self.groups.find_group(&ids), group);
            group
        });
        if let Some(group) = group {
            self.groups.merge(group, &event.words());
        }
        self.finish(event, group.unwrap_or(NONE), model);
    }

    fn batch(&mut self, events: &[Event], model: &mut Model, as_rows: bool) {
        let keys = model.keys;
        let columns: Vec<Vec<Option<&[u8]>>> = (0..keys)
            .map(|column| events.iter().map(|event| event.texts(keys)[column]).collect())
            .collect();
        let words: Vec<u64> = events.iter().flat_map(Event::words).collect();
        let mut numbers = vec![7; events.len()];
        if as_rows {
            let columns: Vec<&[Option<&[u8]>]> = columns.iter().map(|texts| &texts[..]).collect();
            self.groups.merge_rows(&columns, &words, &mut numbers);
        } else {
            let mut ids = vec![0; events.len() * keys];
            for (column, texts) in columns.iter().enumerate() {
                self.groups.intern_many(column, texts, &mut ids);
            }
            self.groups.add_many(&ids, &mut numbers);
            self.groups.merge_many(&numbers, &words);
        }
        for (event, group) in events.iter().zip(numbers) {
            self.finish(event, group, model);
        }
    }

    /// Adds the values of an event to the group's sides, in the table and in the model.
    fn finish(&mut self, event: &Event, group: u32, model: &mut Model) {
        for (at, accumulator) in ACCUMULATORS.iter().enumerate() {
            let Some(mut side) = Side::new(*accumulator) else { continue };
            event.add_to(&mut side);
            if group != NONE {
                self.groups.merge_side(group, at, &side);
            }
        }
        model.add(event, group);
    }
}

/// Number of cases per property.
const CASES: TestSize = TestSize { gate: 200, long: 4000 };

proptest! {
    #![proptest_config(property(CASES))]

    #[test]
    fn a_table_equals_a_map(
        keys in prop_oneof![0..4_usize, Just(KEYS_MAX)],
        groups_max in prop_oneof![2 => Just(1_000_000_usize), 1 => 0..40_usize],
        steps in prop::collection::vec(step(), 1..16),
    ) {
        let (mut table, mut model) = (Table::new(keys, groups_max), Model::new(keys, groups_max));
        for step in &steps {
            table.run(step, &mut model);
            model.check(&table.groups);
        }
    }
}

/// Returns a table with several groups of all kinds, and its log with two entries.
fn small() -> (Groups, Vec<u8>) {
    let (mut table, mut model) = (Table::new(2, 1000), Model::new(2, 1000));
    for at in 0..12 {
        table.single(&Event::numbered(at), &mut model);
        if at == 8 {
            table.run(&Step::Changes, &mut model);
        }
    }
    table.run(&Step::Changes, &mut model);
    (table.groups, table.log)
}

fn all(groups: &Groups) -> Vec<u8> {
    let mut out = Vec::new();
    groups.clone().write_all(&mut out);
    out
}

#[test]
fn damaged_logs_are_refused_or_read_as_others() {
    let (groups, log) = small();
    let apply = |log: &[u8]| {
        let (mut read, mut rest) = (new_groups(2, 1000), log);
        while !rest.is_empty() {
            read.apply(&mut rest)?;
        }
        Some(read)
    };
    assert_eq!(all(&apply(&log).unwrap()), all(&groups));
    for end in 0..log.len() {
        let shorter = apply(&log[..end]);
        assert!(shorter.is_none_or(|read| read.len() < groups.len()), "{end} bytes");
    }
    for at in 0..log.len() {
        for flip in [1, 0x80, 0xFF, log[at]] {
            let mut log = log.clone();
            log[at] ^= flip;
            if let Some(mut read) = apply(&log) {
                read.write_changes(&mut Vec::new());
                assert!(read.memory_bytes() < 1 << 24);
            }
        }
    }
}

#[test]
fn a_table_with_other_columns_or_accumulators_refuses_a_log() {
    let (_, log) = small();
    assert!(new_groups(3, 1000).apply(&mut &log[..]).is_none());
    let layout = Arc::new(Layout::new(&ACCUMULATORS[1..]));
    assert!(Groups::new(layout, 2, 1000).apply(&mut &log[..]).is_none());
}

#[test]
fn wrong_arguments_are_refused() {
    let (mut groups, _) = small();
    let len = groups.len();
    assert_eq!(groups.add(&[1]), None);
    assert_eq!(groups.add(&[1, 1 << 20]), None);
    assert_eq!(groups.add(&[NONE, 0]), None);
    assert_eq!((groups.intern(2, b"text"), groups.find(2, b"text")), (None, None));
    assert_eq!((groups.key(NONE, 0), groups.key(0, 2)), (None, None));
    assert!(groups.words(len as u32).is_empty() && groups.side(NONE, 0).is_none());
    groups.merge(len as u32, &[1; 20]);
    groups.merge_many(&[NONE, len as u32], &[1; 40]);
    assert_eq!(groups.len(), len);
}
