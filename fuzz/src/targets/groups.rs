//! Tables of groups. The first two bytes of an input are the number of key columns and the maximum
//! number of groups; operations follow. If the first byte is [`LOG`], the second byte is the number
//! of key columns, and a log follows.

use millstream_groups::{Accumulator, Groups, Layout, NONE, Side, hash};
use std::collections::HashMap;
use std::sync::Arc;

pub const WORDS: &[&[u8]] = &[
    b"e",
    b"b",
    b"c",
    b"a",
    b"r",
    b"x",
    b"L",
    b"\0",
    b"\x01",
    b"\x02",
    b"\x03",
    b"\x07",
    b"\x0F",
    b"\x10",
    b"\x7F",
    b"\x80",
    b"\xFF",
    b"e\x01a\x01b",
    b"b\x05",
    b"\x80\x01",
    b"\xFF\xFF\x03",
    b"\0\0\0\0\0\0\xF0\x3F",
    b"\0\0\0\0\0\0\xF8\x7F",
    b"\x01\0\x01",
    b"\x01\x02\x04",
];

const ACCUMULATORS: [Accumulator; 7] = [
    Accumulator::Count,
    Accumulator::Sum,
    Accumulator::Last,
    Accumulator::Distinct,
    Accumulator::Quantiles,
    Accumulator::Top { size: 4 },
    Accumulator::Samples { size: 2 },
];

/// First byte of an input that contains a log.
const LOG: u8 = b'L';

/// Maximum number of key columns.
const KEYS_MAX: u8 = 4;

/// Texts are shorter than this. Some are longer than an index entry.
const TEXT_BYTES_MAX: u8 = 24;

type Key = Vec<Option<Vec<u8>>>;

/// A table, and the expected number of events of each group. Also the log that the table wrote, and
/// the expected numbers at that time.
struct Table {
    groups: Groups,
    counts: HashMap<Key, u64>,
    log: Vec<u8>,
    logged: HashMap<Key, u64>,
    groups_max: usize,
}

/// Checks that a table agrees with a map, that the table can be rebuilt from its log, and that any
/// other log is applied or rejected.
pub fn groups(input: &[u8]) {
    let [first, groups_max, rest @ ..] = input else { return };
    let keys = usize::from(first % (KEYS_MAX + 1));
    if *first == LOG {
        return any_log(usize::from(groups_max % (KEYS_MAX + 1)), rest);
    }
    let groups_max = match groups_max {
        0..128 => usize::from(*groups_max),
        _ => usize::MAX,
    };
    let mut table = Table::new(keys, groups_max);
    let mut rest = rest;
    while let Some(operation) = take(&mut rest) {
        table.run(operation, &mut rest);
        table.check();
    }
}

fn new_groups(keys: usize, groups_max: usize) -> Groups {
    Groups::new(Arc::new(Layout::new(&ACCUMULATORS)), keys, groups_max)
}

/// Applies a log of any bytes to a table, and the log of this table to another one.
fn any_log(keys: usize, log: &[u8]) {
    let (mut table, mut rest) = (new_groups(keys, usize::MAX), log);
    while !rest.is_empty() {
        if table.apply(&mut rest).is_none() {
            return;
        }
    }
    let (mut written, mut again) = (Vec::new(), Vec::new());
    table.write_all(&mut written);
    let mut other = new_groups(keys, usize::MAX);
    let mut rest = &written[..];
    other.apply(&mut rest).expect("a log that was written");
    other.write_all(&mut again);
    assert!(rest.is_empty() && written == again);
}

fn take(input: &mut &[u8]) -> Option<u8> {
    let (first, rest) = input.split_first()?;
    *input = rest;
    Some(*first)
}

/// Takes a key's text from the input: a byte with its length (0 for a missing text), and the text.
fn text(input: &mut &[u8]) -> Option<Vec<u8>> {
    let length = usize::from(take(input)? % TEXT_BYTES_MAX);
    let (text, rest) = input.split_at(length.min(input.len()));
    *input = rest;
    (length > 0).then(|| text.to_vec())
}

impl Table {
    fn new(keys: usize, groups_max: usize) -> Table {
        let (counts, logged) = (HashMap::new(), HashMap::new());
        Table { groups: new_groups(keys, groups_max), counts, log: Vec::new(), logged, groups_max }
    }

    fn run(&mut self, operation: u8, input: &mut &[u8]) {
        match operation {
            b'c' => {
                self.groups.write_changes(&mut self.log);
                self.logged = self.counts.clone();
            }
            b'a' => {
                self.log.clear();
                self.groups.write_all(&mut self.log);
                self.logged = self.counts.clone();
            }
            b'r' => self.restart(),
            b'x' => *self = Table::new(self.groups.keys(), self.groups_max),
            b'b' => {
                let rows = usize::from(take(input).unwrap_or(0) % 80);
                let keys: Vec<Key> = (0..rows).map(|_| self.key(input)).collect();
                self.batch(&keys);
            }
            _ => {
                let key = self.key(input);
                self.batch(&[key]);
            }
        }
    }

    fn key(&self, input: &mut &[u8]) -> Key {
        (0..self.groups.keys()).map(|_| text(input)).collect()
    }

    fn restart(&mut self) {
        self.groups = new_groups(self.groups.keys(), self.groups_max);
        let mut rest = &self.log[..];
        while !rest.is_empty() {
            self.groups.apply(&mut rest).expect("a log that was written");
        }
        self.counts = self.logged.clone();
    }

    /// Adds events in one of two ways, which must agree.
    fn batch(&mut self, keys: &[Key]) {
        let columns: Vec<Vec<Option<&[u8]>>> = (0..self.groups.keys())
            .map(|column| keys.iter().map(|key| key[column].as_deref()).collect())
            .collect();
        let words = [1, 1.0_f64.to_bits(), 2.0_f64.to_bits(), 3, 4, 5, 0, 0, 0, 0];
        let words = words.repeat(keys.len());
        let mut numbers = vec![0; keys.len()];
        if keys.len().is_multiple_of(2) {
            let columns: Vec<&[Option<&[u8]>]> = columns.iter().map(|texts| &texts[..]).collect();
            self.groups.merge_rows(&columns, &words, &mut numbers);
        } else {
            let mut ids = vec![0; keys.len() * columns.len()];
            for (column, texts) in columns.iter().enumerate() {
                self.groups.intern_many(column, texts, &mut ids);
            }
            self.groups.add_many(&ids, &mut numbers);
            self.groups.merge_many(&numbers, &words);
        }
        keys.iter().zip(numbers).for_each(|(key, group)| self.finish(key, group));
    }

    fn finish(&mut self, key: &Key, group: u32) {
        if group == NONE {
            assert!(self.groups.is_full() && !self.counts.contains_key(key));
            return;
        }
        *self.counts.entry(key.clone()).or_default() += 1;
        let text = key.first().cloned().flatten().unwrap_or_default();
        for accumulator in 3..ACCUMULATORS.len() {
            let change = |side: &mut Side| match side {
                Side::Distinct(hll) => hll.add(hash(&text)),
                Side::Quantiles(sketch) => sketch.add(text.len() as f64, 1.0),
                Side::Top(top) => top.add(&text, 1),
                Side::Samples(samples) => samples.add(1, 1, text.len() as u64, &text),
            };
            self.groups.change_side(group, accumulator, change).expect("a side");
        }
    }

    fn check(&self) {
        assert_eq!(self.groups.len(), self.counts.len());
        for group in 0..self.groups.len() as u32 {
            let key: Key = (0..self.groups.keys())
                .map(|column| self.groups.key(group, column).map(<[u8]>::to_vec))
                .collect();
            let count = self.counts.get(&key).expect("a known group");
            assert_eq!(self.groups.words(group)[..2], [*count, (*count as f64).to_bits()]);
            let ids = (0..self.groups.keys()).map(|column| self.groups.id(group, column));
            let ids: Vec<u32> = ids.map(|id| id.expect("an id")).collect();
            assert_eq!(self.groups.find_group(&ids), Some(group));
        }
    }
}
