//! From metrics to blocks.

use super::intern::{Dictionary, Found, Interner, Missing};
use super::write::{push_array, push_int, push_map, push_number, push_text, push_uint};
use super::{VERSION, key};
use crate::metric::{Kind, Metric, NoTags, Scratch, SketchText, Temporality, Value, tags};

/// What the metrics of a block share.
#[derive(Clone, Copy, Debug, Default)]
pub struct Shared<'a> {
    /// Where they come from, such as `host` and `source`.
    pub meta: &'a [(&'a str, &'a str)],
    /// Constant fields of every event.
    pub attributes: &'a [(&'a str, &'a str)],
}

/// Spaces of the interner; that of the values of a key is its index behind them.
const NAMES: u32 = 0;
const KEYS: u32 = 1;
const KEYSETS: u32 = 2;
const TEXTS: u32 = 3;
const VALUES: u32 = 4;

/// Stands in a tag set for the next value of its key: those come in the order in which they were
/// new.
const NEW: u64 = 0;

/// Bytes of a block that are neither dictionaries nor columns nor what is shared, at most.
const FRAME_BYTES_MAX: usize = 256;

/// Numbers of each row.
#[derive(Debug, Default)]
struct Column {
    /// As msgpack.
    bytes: Vec<u8>,
    /// Bytes of the first one.
    first_len: usize,
    /// Bits of the first one.
    first: u64,
    last: i64,
    is_varied: bool,
}

impl Column {
    fn clear(&mut self) {
        self.bytes.clear();
        *self = Column { bytes: std::mem::take(&mut self.bytes), ..Column::default() };
    }

    /// Notes a number that was written.
    #[inline(always)]
    fn note(&mut self, bits: u64) {
        if self.first_len == 0 {
            (self.first_len, self.first) = (self.bytes.len(), bits);
        }
        self.is_varied |= bits != self.first;
    }

    /// Adds a whole number.
    #[inline(always)]
    fn push(&mut self, number: i64) {
        push_int(number, &mut self.bytes);
        self.note(number as u64);
    }

    /// Adds the difference to the number before; of the first one to 0.
    #[inline(always)]
    fn push_difference(&mut self, number: i64) {
        push_int(number.wrapping_sub(self.last), &mut self.bytes);
        self.last = number;
        self.note(number as u64);
    }

    /// Adds a number that may have a fraction.
    #[inline(always)]
    fn push_number(&mut self, number: f64) {
        push_number(number, &mut self.bytes);
        self.note(number.to_bits());
    }

    /// Appends it to a block of so many rows: one number if all have the same.
    fn finish(&self, name: &str, rows: usize, out: &mut Vec<u8>) {
        push_text(name.as_bytes(), out);
        if self.is_varied {
            push_array(rows, out);
            out.extend_from_slice(&self.bytes);
        } else {
            out.extend_from_slice(&self.bytes[..self.first_len]);
        }
    }
}

/// The values of one key.
#[derive(Debug, Default)]
struct KeyValues {
    values: Dictionary,
    /// Where the one used last lies, and its index: values often repeat.
    recent: (usize, usize, u32),
}

/// Everything that tags are made of.
#[derive(Debug)]
struct TagTables {
    interner: Interner,
    keys: Dictionary,
    /// Where each key lies in the bytes of `keys`.
    key_places: Vec<(usize, usize)>,
    /// By key; there may be more than keys, of blocks before.
    values: Vec<KeyValues>,
    /// Bytes of all values.
    value_bytes: usize,
    keysets: Dictionary,
    tagsets: Dictionary,
    /// Objects that were parsed, for comparison.
    texts: Vec<u8>,
    /// Keys of the tag set that was parsed last, and its key set.
    recent_keys: Vec<u32>,
    recent_keyset: u32,
    /// Of the tag set that is being parsed: its keys, and its values as msgpack has them.
    row_keys: Vec<u32>,
    row_values: Vec<u8>,
    row_keyset: Vec<u8>,
}

/// Makes blocks of metrics. It keeps its room from block to block.
#[derive(Debug)]
pub struct BlockEncoder {
    names: Dictionary,
    tables: TagTables,
    scratch: Scratch,
    rows: usize,
    name: Column,
    tags: Column,
    kinds: Column,
    times: Column,
    intervals: Column,
    values: Vec<u8>,
}

impl BlockEncoder {
    /// An encoder whose hashes depend on `seed`: a random one, or somebody could send tags that all
    /// fall into one place.
    pub fn new(seed: u64) -> BlockEncoder {
        BlockEncoder {
            names: Dictionary::default(),
            tables: TagTables::new(seed),
            scratch: Scratch::default(),
            rows: 0,
            name: Column::default(),
            tags: Column::default(),
            kinds: Column::default(),
            times: Column::default(),
            intervals: Column::default(),
            values: Vec::new(),
        }
    }

    /// Metrics in the block so far.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Bytes of the block so far at most, without what is shared.
    #[inline]
    pub fn bytes(&self) -> usize {
        let columns = [&self.name, &self.tags, &self.kinds, &self.times, &self.intervals];
        let columns =
            columns.iter().map(|column| column.bytes.len()).sum::<usize>() + self.values.len();
        FRAME_BYTES_MAX + columns + self.names.bytes.len() + self.tables.bytes()
    }

    /// Adds a metric.
    ///
    /// # Errors
    /// Its tags are none; it is not added.
    #[inline]
    pub fn push(&mut self, metric: &Metric<'_>) -> Result<(), NoTags> {
        let tagset = self.tables.tagset(metric.tags, &mut self.scratch)?;
        let name = self.tables.name(metric.name, &mut self.names);
        self.name.push(name.into());
        self.tags.push_difference(tagset.into());
        self.kinds.push(kind_code(metric.kind, metric.temporality));
        self.times.push_difference(metric.time_ns);
        self.intervals.push_number(metric.interval);
        match &metric.value {
            Value::Number(number) => push_number(*number, &mut self.values),
            Value::Sketch(sketch) => push_sketch(sketch, &mut self.values),
        }
        self.rows += 1;
        Ok(())
    }

    /// Appends the block to `out` and begins the next. Nothing is appended of a block without
    /// metrics.
    pub fn finish(&mut self, shared: &Shared<'_>, out: &mut Vec<u8>) {
        if self.rows > 0 {
            out.reserve(self.bytes());
            self.head(shared, out);
            self.tables.finish(out);
            self.columns(out);
        }
        self.clear();
    }

    fn head(&self, shared: &Shared<'_>, out: &mut Vec<u8>) {
        let lists = [(key::META, shared.meta), (key::ATTRIBUTES, shared.attributes)];
        let lists = lists.into_iter().filter(|(_, list)| !list.is_empty());
        push_map(13 + lists.clone().count(), out);
        push_text(key::VERSION.as_bytes(), out);
        push_uint(VERSION.into(), out);
        push_text(key::ROWS.as_bytes(), out);
        push_uint(self.rows as u64, out);
        for (name, list) in lists {
            push_text(name.as_bytes(), out);
            push_map(list.len(), out);
            for (key, value) in list {
                push_text(key.as_bytes(), out);
                push_text(value.as_bytes(), out);
            }
        }
        push_list(key::NAMES, &self.names, out);
    }

    fn columns(&self, out: &mut Vec<u8>) {
        self.name.finish(key::NAME, self.rows, out);
        self.tags.finish(key::TAGS, self.rows, out);
        self.kinds.finish(key::TYPE, self.rows, out);
        self.times.finish(key::TIME, self.rows, out);
        self.intervals.finish(key::INTERVAL, self.rows, out);
        push_text(key::VALUE.as_bytes(), out);
        push_array(self.rows, out);
        out.extend_from_slice(&self.values);
    }

    /// Forgets what is in the block.
    pub fn clear(&mut self) {
        self.names.clear();
        self.tables.clear();
        self.rows = 0;
        let columns =
            [&mut self.name, &mut self.tags, &mut self.kinds, &mut self.times, &mut self.intervals];
        columns.into_iter().for_each(Column::clear);
        self.values.clear();
    }
}

/// Kind and temporality in one number.
#[inline(always)]
fn kind_code(kind: Kind, temporality: Temporality) -> i64 {
    let kind = match kind {
        Kind::Counter => 0,
        Kind::Gauge => 1,
        Kind::Distribution => 2,
    };
    kind + match temporality {
        Temporality::None => 0,
        Temporality::Delta => 3,
        Temporality::Cumulative => 6,
    }
}

fn push_list(name: &str, list: &Dictionary, out: &mut Vec<u8>) {
    push_text(name.as_bytes(), out);
    push_array(list.len as usize, out);
    out.extend_from_slice(&list.bytes);
}

fn push_sketch(sketch: &SketchText<'_>, out: &mut Vec<u8>) {
    push_array(6, out);
    [sketch.count, sketch.sum, sketch.min, sketch.max]
        .iter()
        .for_each(|number| push_number(*number, out));
    push_array(sketch.points().len(), out);
    sketch.points().for_each(|(value, _)| push_number(value, out));
    let mut weights = sketch.points().map(|(_, weight)| weight);
    let first = weights.next();
    match first.filter(|first| weights.all(|weight| weight == *first)) {
        Some(weight) => push_number(weight, out),
        None => {
            push_array(sketch.points().len(), out);
            sketch.points().for_each(|(_, weight)| push_number(weight, out));
        }
    }
}

/// Appends a text to a dictionary as msgpack has it; where it lies.
#[inline(always)]
fn append(text: &[u8], to: &mut Dictionary) -> (usize, u32) {
    push_text(text, &mut to.bytes);
    to.len += 1;
    (to.bytes.len() - text.len(), to.len - 1)
}

impl TagTables {
    fn new(seed: u64) -> TagTables {
        TagTables {
            interner: Interner::new(seed),
            keys: Dictionary::default(),
            key_places: Vec::new(),
            values: Vec::new(),
            value_bytes: 0,
            keysets: Dictionary::default(),
            tagsets: Dictionary::default(),
            texts: Vec::new(),
            recent_keys: Vec::new(),
            recent_keyset: u32::MAX,
            row_keys: Vec::new(),
            row_values: Vec::new(),
            row_keyset: Vec::new(),
        }
    }

    fn clear(&mut self) {
        self.interner.clear();
        let used = self.keys.len as usize;
        for key in &mut self.values[..used] {
            key.values.clear();
            key.recent = (0, 0, u32::MAX);
        }
        [&mut self.keys, &mut self.keysets, &mut self.tagsets]
            .into_iter()
            .for_each(Dictionary::clear);
        self.key_places.clear();
        self.value_bytes = 0;
        self.texts.clear();
        self.recent_keys.clear();
        self.recent_keyset = u32::MAX;
    }

    fn bytes(&self) -> usize {
        // Each key has the beginning of an array beside its text.
        let keys = self.keys.bytes.len() + 5 * self.key_places.len();
        keys + self.value_bytes + self.keysets.bytes.len() + self.tagsets.bytes.len()
    }

    /// Index of a name.
    #[inline(always)]
    fn name(&mut self, name: &[u8], names: &mut Dictionary) -> u32 {
        match self.interner.find(NAMES, &names.bytes, name) {
            Found::There(place) => place.index,
            Found::New(missing) => {
                let (start, index) = append(name, names);
                self.interner.put(missing, start, name.len(), index);
                index
            }
        }
    }

    /// Index of the tag set that an object is. Objects that differ are different sets.
    #[inline(always)]
    fn tagset(&mut self, object: &[u8], scratch: &mut Scratch) -> Result<u32, NoTags> {
        match self.interner.find(TEXTS, &self.texts, object) {
            Found::There(place) => Ok(place.index),
            Found::New(missing) => self.new_tagset(object, missing, scratch),
        }
    }

    #[inline(never)]
    fn new_tagset(
        &mut self,
        object: &[u8],
        missing: Missing,
        scratch: &mut Scratch,
    ) -> Result<u32, NoTags> {
        self.row_keys.clear();
        self.row_values.clear();
        let answer = tags(object, scratch, |key, value| self.tag(key, value));
        let keyset = self.keyset();
        push_array(1 + self.row_keys.len(), &mut self.tagsets.bytes);
        push_uint(keyset.into(), &mut self.tagsets.bytes);
        self.tagsets.bytes.extend_from_slice(&self.row_values);
        self.tagsets.len += 1;
        // What was parsed of no tags is a set that nobody has: the values that are new in it
        // count.
        answer?;
        let index = self.tagsets.len - 1;
        self.interner.put(missing, self.texts.len(), object.len(), index);
        self.texts.extend_from_slice(object);
        Ok(index)
    }

    /// Adds a tag to the set that is being parsed.
    #[inline(always)]
    fn tag(&mut self, key: &[u8], value: &[u8]) {
        let key = self.key(key);
        self.row_keys.push(key);
        let KeyValues { values, recent } = &mut self.values[key as usize];
        let (start, len, index) = *recent;
        if index != u32::MAX && values.bytes[start..start + len] == *value {
            return push_uint(u64::from(index) + 1, &mut self.row_values);
        }
        match self.interner.find(VALUES + key, &values.bytes, value) {
            Found::There(place) => {
                *recent = (place.start, value.len(), place.index);
                push_uint(u64::from(place.index) + 1, &mut self.row_values);
            }
            Found::New(missing) => {
                let before = values.bytes.len();
                let (start, index) = append(value, values);
                self.value_bytes += values.bytes.len() - before;
                self.interner.put(missing, start, value.len(), index);
                *recent = (start, value.len(), index);
                push_uint(NEW, &mut self.row_values);
            }
        }
    }

    /// Index of a key; mostly it is the one that the set before has in this place.
    #[inline(always)]
    fn key(&mut self, key: &[u8]) -> u32 {
        if let Some(recent) = self.recent_keys.get(self.row_keys.len()) {
            let (start, len) = self.key_places[*recent as usize];
            if self.keys.bytes[start..start + len] == *key {
                return *recent;
            }
        }
        match self.interner.find(KEYS, &self.keys.bytes, key) {
            Found::There(place) => place.index,
            Found::New(missing) => {
                let (start, index) = append(key, &mut self.keys);
                self.interner.put(missing, start, key.len(), index);
                self.key_places.push((start, key.len()));
                if self.values.len() < self.key_places.len() {
                    self.values
                        .push(KeyValues { recent: (0, 0, u32::MAX), ..KeyValues::default() });
                }
                index
            }
        }
    }

    /// Index of the key set of the tag set that is being parsed.
    #[inline(always)]
    fn keyset(&mut self) -> u32 {
        if self.recent_keyset == u32::MAX || self.recent_keys != self.row_keys {
            self.recent_keyset = self.new_keyset();
            self.recent_keys.clone_from(&self.row_keys);
        }
        self.recent_keyset
    }

    fn new_keyset(&mut self) -> u32 {
        self.row_keyset.clear();
        push_array(self.row_keys.len(), &mut self.row_keyset);
        self.row_keys.iter().for_each(|key| push_uint((*key).into(), &mut self.row_keyset));
        match self.interner.find(KEYSETS, &self.keysets.bytes, &self.row_keyset) {
            Found::There(place) => place.index,
            Found::New(missing) => {
                let (start, index) = (self.keysets.bytes.len(), self.keysets.len);
                self.keysets.bytes.extend_from_slice(&self.row_keyset);
                self.keysets.len += 1;
                self.interner.put(missing, start, self.row_keyset.len(), index);
                index
            }
        }
    }

    /// Appends the dictionaries of tags to a block.
    fn finish(&self, out: &mut Vec<u8>) {
        push_list(key::KEYS, &self.keys, out);
        push_text(key::VALUES.as_bytes(), out);
        push_array(self.key_places.len(), out);
        for key in &self.values[..self.key_places.len()] {
            push_array(key.values.len as usize, out);
            out.extend_from_slice(&key.values.bytes);
        }
        push_list(key::KEYSETS, &self.keysets, out);
        push_list(key::TAGSETS, &self.tagsets, out);
    }
}
