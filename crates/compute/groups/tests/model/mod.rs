//! A model of the table that keeps groups in a map.

use millstream_groups::{Accumulator, Groups, Layout, NONE, Side, hash};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet, HashMap};

pub const ACCUMULATORS: [Accumulator; 9] = [
    Accumulator::Count,
    Accumulator::Distinct,
    Accumulator::Sum,
    Accumulator::Min,
    Accumulator::Max,
    Accumulator::Last,
    Accumulator::Top { size: 50 },
    Accumulator::Quantiles,
    Accumulator::Samples { size: 3 },
];

/// An event: one number per key column (0 for a missing field), and a value.
#[derive(Clone, Debug)]
pub struct Event {
    texts: [Option<Vec<u8>>; 4],
    value: i32,
    time: i64,
    offset: u64,
}

pub fn event() -> impl Strategy<Value = Event> {
    let text = |range: std::ops::Range<u32>| range.prop_map(text);
    let texts = [text(0..3), text(0..30), text(0..60), text(0..2)];
    (texts, -50..50, 0..9_i64, any::<u64>()).prop_map(|(texts, value, time, offset)| Event {
        texts,
        value,
        time,
        offset,
    })
}

/// Returns a text for a number, or `None` for 0. The texts have many different lengths.
fn text(number: u32) -> Option<Vec<u8>> {
    let length = [1, 0, 3, 4, 7, 8, 11, 15, 16, 17, 40, 300][number as usize % 12];
    let mut text = vec![b'x'; length];
    let digits = number.to_string().into_bytes();
    text.iter_mut().zip(&digits).for_each(|(to, digit)| *to = *digit);
    (number > 0).then_some(text)
}

impl Event {
    pub fn numbered(at: u32) -> Event {
        let texts = [text(at % 3), text(at % 12), None, None];
        let offset = u64::from(at);
        Event { texts, value: at as i32 - 5, time: i64::from(at % 4), offset }
    }

    /// Returns the texts for the key columns. Later columns repeat earlier ones.
    pub fn texts(&self, keys: usize) -> Vec<Option<&[u8]>> {
        (0..keys).map(|column| self.texts[column % 4].as_deref()).collect()
    }

    pub fn words(&self) -> Vec<u64> {
        let value = f64::from(self.value).to_bits();
        vec![1, 9, value, value, value, value, self.time as u64, 1, self.offset, 9, 9, 9]
    }

    pub fn add_to(&self, side: &mut Side) {
        let text = self.value.to_string();
        match side {
            Side::Distinct(hll) => hll.add(hash(text.as_bytes())),
            Side::Quantiles(sketch) => sketch.add(self.value.into(), 1.0),
            Side::Top(top) => top.add(text.as_bytes(), 2),
            Side::Samples(samples) => samples.add(self.time, 1, self.offset, text.as_bytes()),
        }
    }
}

/// The expected state of a group.
#[derive(Clone, Debug, Default)]
struct Row {
    count: u64,
    values: BTreeMap<i32, u64>,
    events: BTreeSet<(i64, u64, i32)>,
}

type Key = Vec<Option<Vec<u8>>>;

#[derive(Clone, Debug)]
pub struct Model {
    pub keys: usize,
    pub groups_max: usize,
    rows: HashMap<Key, Row>,
    /// The keys of each group.
    order: BTreeMap<u32, Key>,
    /// Whether any event was rejected.
    is_full: bool,
}

impl Model {
    pub fn new(keys: usize, groups_max: usize) -> Model {
        Model { keys, groups_max, rows: HashMap::new(), order: BTreeMap::new(), is_full: false }
    }

    /// Adds an event to the group that the table returned for the event.
    pub fn add(&mut self, event: &Event, group: u32) {
        let texts = event.texts(self.keys).into_iter();
        let key: Key = texts.map(|text| text.map(<[u8]>::to_vec)).collect();
        if group == NONE {
            assert!(!self.rows.contains_key(&key), "{key:?} is not found");
            self.is_full = true;
            return;
        }
        let known = self.order.entry(group).or_insert_with(|| key.clone());
        assert_eq!(*known, key);
        let row = self.rows.entry(key).or_default();
        row.count += 1;
        *row.values.entry(event.value).or_default() += 1;
        row.events.insert((event.time, event.offset, event.value));
    }

    pub fn check(&self, groups: &Groups) {
        assert_eq!([groups.len(), self.rows.len()], [self.order.len(); 2]);
        assert!(groups.len() <= self.groups_max);
        assert!(!self.is_full || groups.is_full());
        for (at, (group, key)) in self.order.iter().enumerate() {
            assert_eq!(at, *group as usize);
            let found: Key = (0..self.keys)
                .map(|column| groups.key(*group, column).map(<[u8]>::to_vec))
                .collect();
            assert_eq!(found, *key);
            self.rows[key].check(groups, *group);
        }
    }
}

impl Row {
    fn check(&self, groups: &Groups, group: u32) {
        let layout = Layout::new(&ACCUMULATORS);
        let words = groups.words(group);
        let float = |at: usize| f64::from_bits(words[layout.offsets()[at]]);
        let (min, max) = (self.values.keys().min().unwrap(), self.values.keys().max().unwrap());
        let sum: i64 = self.values.iter().map(|(v, count)| i64::from(*v) * *count as i64).sum();
        assert_eq!(words[0], self.count);
        assert_eq!([float(2), float(3), float(4)], [sum as f64, (*min).into(), (*max).into()]);
        let last = self.events.last().unwrap();
        assert_eq!(words[layout.offsets()[5] + 1..][..3], [last.0 as u64, 1, last.1]);
        for at in [1, 6, 7, 8] {
            self.check_side(groups.side(group, at).unwrap());
        }
    }

    fn check_side(&self, side: &Side) {
        match side {
            Side::Distinct(hll) => {
                assert_eq!(hll.estimate().round() as usize, self.values.len());
            }
            Side::Quantiles(sketch) => {
                assert_eq!(sketch.weight(), self.count as f64);
                assert_eq!(sketch.max(), f64::from(*self.values.keys().max().unwrap()));
            }
            Side::Top(top) if self.values.len() <= 50 => {
                let entry = |value: &i32| (value.to_string().into_bytes(), self.values[value] * 2);
                let expected: BTreeMap<Vec<u8>, u64> = self.values.keys().map(entry).collect();
                let texts = top.texts();
                assert!(texts.iter().all(|frequent| frequent.error == 0));
                let texts = texts.iter().map(|frequent| (frequent.text.to_vec(), frequent.count));
                assert_eq!(texts.collect::<BTreeMap<_, _>>(), expected);
            }
            Side::Top(top) => assert_eq!(top.texts().len(), 50),
            Side::Samples(samples) => {
                let found = samples.samples().iter().map(|sample| (sample.time, sample.offset));
                let expected = self.events.iter().take(3).map(|(time, offset, _)| (*time, *offset));
                assert!(found.eq(expected));
            }
        }
    }
}
