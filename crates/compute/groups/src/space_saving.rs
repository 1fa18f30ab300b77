//! The most frequent strings, in bounded memory.

use crate::hashing::hash;
use hashbrown::HashTable;
use millstream_encodings::binary::{byte_string, number, number_to, push_bytes, push_number};
use std::cmp::Reverse;

/// Counters for the most frequent strings, with the Space-Saving algorithm (Metwally, Agrawal, El
/// Abbadi, "Efficient computation of frequent and top-k elements in data streams", 2005).
///
/// A count is never below the true weight of its string, and exceeds it by at most the counter's
/// error. The weight of a string without a counter is at most [`SpaceSaving::error_max`]. If there
/// are fewer strings than counters, all counts are exact.
#[derive(Clone, Debug)]
pub struct SpaceSaving {
    size: u16,
    counters: Vec<Counter>,
    /// Indexes of counters: a binary heap with the smallest count first.
    heap: Vec<u32>,
    /// Indexes of counters, by the hash of the string.
    index: HashTable<u32>,
    text_bytes: usize,
}

#[derive(Clone, Debug)]
struct Counter {
    text: Box<[u8]>,
    count: u64,
    error: u64,
    /// Position of the counter in the heap.
    place: u32,
}

impl Counter {
    fn as_frequent(&self) -> Frequent<'_> {
        Frequent { text: &self.text, count: self.count, error: self.error }
    }
}

/// A string and its count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frequent<'t> {
    /// The string.
    pub text: &'t [u8],
    /// Upper bound for the string's weight.
    pub count: u64,
    /// Maximum amount by which the count exceeds the weight.
    pub error: u64,
}

impl SpaceSaving {
    /// Creates an empty set of up to `size` counters, at least one.
    pub fn new(size: u16) -> SpaceSaving {
        SpaceSaving {
            size: size.max(1),
            counters: Vec::new(),
            heap: Vec::new(),
            index: HashTable::new(),
            text_bytes: 0,
        }
    }

    /// Adds a string with a weight, such as the number of events. Counts saturate.
    pub fn add(&mut self, text: &[u8], weight: u64) {
        if weight == 0 {
            return;
        }
        match self.find(text) {
            Some(at) => {
                self.counters[at].count = self.counters[at].count.saturating_add(weight);
                self.sink(self.counters[at].place as usize);
            }
            None if self.counters.len() < usize::from(self.size) => self.insert(text, weight, 0),
            None => self.replace(text, weight),
        }
    }

    fn find(&self, text: &[u8]) -> Option<usize> {
        let is_it = |at: &u32| *self.counters[*at as usize].text == *text;
        self.index.find(hash(text), is_it).map(|at| *at as usize)
    }

    fn insert(&mut self, text: &[u8], count: u64, error: u64) {
        let at = self.counters.len() as u32;
        crate::chunks::grow(&mut self.counters, 1, usize::from(self.size));
        crate::chunks::grow(&mut self.heap, 1, usize::from(self.size));
        self.counters.push(Counter { text: text.into(), count, error, place: at });
        self.heap.push(at);
        self.index_text(at);
        self.text_bytes += text.len();
        self.rise(at as usize);
    }

    fn index_text(&mut self, at: u32) {
        let counters = &self.counters;
        let rehash = |at: &u32| hash(&counters[*at as usize].text);
        self.index.insert_unique(hash(&counters[at as usize].text), at, rehash);
    }

    /// Reassigns the counter with the smallest count to another string.
    fn replace(&mut self, text: &[u8], weight: u64) {
        let at = self.heap[0];
        let old = hash(&self.counters[at as usize].text);
        if let Ok(entry) = self.index.find_entry(old, |other| *other == at) {
            entry.remove();
        }
        let counter = &mut self.counters[at as usize];
        self.text_bytes = self.text_bytes + text.len() - counter.text.len();
        counter.text = text.into();
        counter.error = counter.count;
        counter.count = counter.count.saturating_add(weight);
        self.index_text(at);
        self.sink(0);
    }

    fn count(&self, place: usize) -> u64 {
        self.counters[self.heap[place] as usize].count
    }

    fn swap(&mut self, one: usize, other: usize) {
        self.heap.swap(one, other);
        for place in [one, other] {
            self.counters[self.heap[place] as usize].place = place as u32;
        }
    }

    /// Moves a counter whose count has grown away from the top of the heap.
    fn sink(&mut self, mut place: usize) {
        loop {
            let children = (2 * place + 1..2 * place + 3).filter(|at| *at < self.heap.len());
            let Some(child) = children.min_by_key(|at| self.count(*at)) else { return };
            if self.count(child) >= self.count(place) {
                return;
            }
            self.swap(place, child);
            place = child;
        }
    }

    fn rise(&mut self, mut place: usize) {
        while place > 0 && self.count(place) < self.count((place - 1) / 2) {
            self.swap(place, (place - 1) / 2);
            place = (place - 1) / 2;
        }
    }

    /// Returns the maximum weight of a string that has no counter.
    pub fn error_max(&self) -> u64 {
        if self.counters.len() < usize::from(self.size) { 0 } else { self.count(0) }
    }

    /// Returns the strings that have counters: the largest counts first, and strings with equal
    /// counts in order.
    pub fn texts(&self) -> Vec<Frequent<'_>> {
        let counters = self.counters.iter();
        let mut texts: Vec<Frequent<'_>> = counters.map(Counter::as_frequent).collect();
        texts.sort_unstable_by_key(|frequent| (Reverse(frequent.count), frequent.text));
        texts
    }

    /// Adds the counts from another set of counters (Agarwal and others, "Mergeable summaries",
    /// 2012). A string that is missing in one set counts with that set's
    /// [`SpaceSaving::error_max`], because its weight could have been that high. The result does
    /// not depend on the order of the two sets.
    pub fn merge(&mut self, other: &SpaceSaving) {
        let errors = [self.error_max(), other.error_max()];
        let mut merged: Vec<Frequent<'_>> = self.texts();
        for frequent in &mut merged {
            let at = other.find(frequent.text).map(|at| &other.counters[at]);
            add(frequent, at.map_or([errors[1]; 2], |counter| [counter.count, counter.error]));
        }
        for mut frequent in other.texts() {
            if self.find(frequent.text).is_none() {
                add(&mut frequent, [errors[0]; 2]);
                merged.push(frequent);
            }
        }
        merged.sort_unstable_by_key(|frequent| (Reverse(frequent.count), frequent.text));
        let mut result = SpaceSaving::new(self.size);
        for Frequent { text, count, error } in merged.into_iter().take(self.size.into()) {
            result.insert(text, count, error);
        }
        *self = result;
    }

    /// Appends the counters to `out`: the size, the number of counters, and the string, count and
    /// error of each counter.
    pub fn write(&self, out: &mut Vec<u8>) {
        push_number(out, u64::from(self.size));
        push_number(out, self.counters.len() as u64);
        for Counter { text, count, error, .. } in &self.counters {
            push_bytes(out, text);
            push_number(out, *count);
            push_number(out, *error);
        }
    }

    /// Returns the maximum number of counters.
    pub(crate) fn size(&self) -> u16 {
        self.size
    }

    /// Takes counters that [`SpaceSaving::write`] wrote from the front of `bytes`. Returns `None`
    /// if they are damaged, or if an error contradicts the counts.
    pub fn read(bytes: &mut &[u8]) -> Option<SpaceSaving> {
        let size = number_to(bytes, u16::MAX.into())? as u16;
        let mut read = SpaceSaving::new(size);
        for _ in 0..number_to(bytes, size.into())? {
            let (text, count, error) = (byte_string(bytes)?, number(bytes)?, number(bytes)?);
            if error > count || count == 0 || read.find(text).is_some() {
                return None;
            }
            read.insert(text, count, error);
        }
        let error_max = read.error_max();
        let has_errors = read.counters.iter().all(|counter| counter.error <= error_max);
        (read.size == size && has_errors).then_some(read)
    }

    /// Returns the number of bytes that the counters have allocated.
    pub fn memory_bytes(&self) -> usize {
        self.counters.capacity() * size_of::<Counter>()
            + self.heap.capacity() * size_of::<u32>()
            + self.index.allocation_size()
            + self.text_bytes
    }
}

fn add(frequent: &mut Frequent<'_>, [count, error]: [u64; 2]) {
    frequent.count = frequent.count.saturating_add(count);
    frequent.error = frequent.error.saturating_add(error);
}
