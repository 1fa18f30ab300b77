//! Encodes metrics into blocks.

use super::intern::{Dictionary, Interned, Interner, Missing};
use super::write::{push_array, push_int, push_map, push_number, push_string, push_uint};
use super::{VERSION, key};
use crate::metric::{InvalidTags, Kind, Metric, Scratch, SketchText, Temporality, Value, tags};

/// Data that all metrics of a block share.
#[derive(Clone, Copy, Debug, Default)]
pub struct Shared<'a> {
    /// The origin of the metrics, such as `host` and `source`, as pairs of key and value.
    pub meta: &'a [(&'a str, &'a str)],
    /// Constant fields of every event, as pairs of key and value.
    pub attributes: &'a [(&'a str, &'a str)],
}

/// Namespaces of the interner. The values of key `i` are in namespace `VALUES + i`.
const NAMES: u32 = 0;
const KEYS: u32 = 1;
const KEYSETS: u32 = 2;
const SOURCES: u32 = 3;
const VALUES: u32 = 4;

/// In a tag set, represents a key's next value in order of first use.
const NEW: u64 = 0;

/// Maximum size of a block in bytes, excluding dictionaries, columns and shared data.
const FRAME_BYTES_MAX: usize = 256;

/// The numbers of one column.
#[derive(Debug, Default)]
struct Column {
    /// The numbers, encoded as msgpack.
    bytes: Vec<u8>,
    /// Encoded length of the first number in bytes.
    first_len: usize,
    /// Bits of the first number.
    first: u64,
    last: i64,
    is_varied: bool,
}

impl Column {
    fn clear(&mut self) {
        self.bytes.clear();
        *self = Column { bytes: std::mem::take(&mut self.bytes), ..Column::default() };
    }

    /// Records a number that was just encoded.
    #[inline(always)]
    fn record(&mut self, bits: u64) {
        if self.first_len == 0 {
            (self.first_len, self.first) = (self.bytes.len(), bits);
        }
        self.is_varied |= bits != self.first;
    }

    /// Appends an integer.
    #[inline(always)]
    fn push(&mut self, number: i64) {
        push_int(number, &mut self.bytes);
        self.record(number as u64);
    }

    /// Appends the difference from the previous number. The first number is appended unchanged.
    #[inline(always)]
    fn push_difference(&mut self, number: i64) {
        push_int(number.wrapping_sub(self.last), &mut self.bytes);
        self.last = number;
        self.record(number as u64);
    }

    /// Appends a number that can be fractional.
    #[inline(always)]
    fn push_number(&mut self, number: f64) {
        push_number(number, &mut self.bytes);
        self.record(number.to_bits());
    }

    /// Appends the column to a block with `rows` rows. If all numbers are equal, appends just one.
    fn finish(&self, name: &str, rows: usize, out: &mut Vec<u8>) {
        push_string(name.as_bytes(), out);
        if self.is_varied {
            push_array(rows, out);
            out.extend_from_slice(&self.bytes);
        } else {
            out.extend_from_slice(&self.bytes[..self.first_len]);
        }
    }
}

/// The dictionary of one tag key's values.
#[derive(Debug, Default)]
struct KeyValues {
    values: Dictionary,
    /// Offset, length and index of the most recently used value, because consecutive values are
    /// often equal.
    recent: (usize, usize, u32),
}

/// The tag dictionaries.
#[derive(Debug)]
struct TagTables {
    interner: Interner,
    keys: Dictionary,
    /// Offset and length of each key in `keys`.
    key_ranges: Vec<(usize, usize)>,
    /// Values by key index. The list keeps the allocations of earlier blocks, so it can be longer
    /// than `keys`.
    values: Vec<KeyValues>,
    /// Total bytes of all values.
    value_bytes: usize,
    keysets: Dictionary,
    tagsets: Dictionary,
    /// Source text of the parsed tag objects, for lookup.
    sources: Vec<u8>,
    /// Keys of the most recently parsed tag set.
    recent_keys: Vec<u32>,
    /// Index of the key set of `recent_keys`.
    recent_keyset: u32,
    /// Keys of the tag set that is being parsed.
    row_keys: Vec<u32>,
    /// Encoded values of this tag set.
    row_values: Vec<u8>,
    row_keyset: Vec<u8>,
}

/// Encodes metrics into blocks. The encoder reuses its buffers for each block.
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
    /// Creates an encoder that seeds its hashes with `seed`. Use a random seed. If a client knew
    /// the seed, it could send tags whose hashes all collide.
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

    /// Returns the number of metrics in the current block.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Returns an upper bound for the size of the current block in bytes, excluding shared data.
    #[inline]
    pub fn bytes(&self) -> usize {
        let columns = [&self.name, &self.tags, &self.kinds, &self.times, &self.intervals];
        let columns =
            columns.iter().map(|column| column.bytes.len()).sum::<usize>() + self.values.len();
        FRAME_BYTES_MAX + columns + self.names.bytes.len() + self.tables.bytes()
    }

    /// Adds a metric to the current block.
    ///
    /// # Errors
    /// Returns an error if the tags are invalid. In that case, the metric is not added.
    #[inline]
    pub fn push(&mut self, metric: &Metric<'_>) -> Result<(), InvalidTags> {
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

    /// Appends the block to `out` and starts the next one. Appends nothing if the block contains no
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
        push_string(key::VERSION.as_bytes(), out);
        push_uint(VERSION.into(), out);
        push_string(key::ROWS.as_bytes(), out);
        push_uint(self.rows as u64, out);
        for (name, list) in lists {
            push_string(name.as_bytes(), out);
            push_map(list.len(), out);
            for (key, value) in list {
                push_string(key.as_bytes(), out);
                push_string(value.as_bytes(), out);
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
        push_string(key::VALUE.as_bytes(), out);
        push_array(self.rows, out);
        out.extend_from_slice(&self.values);
    }

    /// Discards the current block.
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

/// Combines kind and temporality into one number.
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
    push_string(name.as_bytes(), out);
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

/// Appends a string to a dictionary as msgpack. Returns the string's offset and index.
#[inline(always)]
fn append(text: &[u8], to: &mut Dictionary) -> (usize, u32) {
    push_string(text, &mut to.bytes);
    to.len += 1;
    (to.bytes.len() - text.len(), to.len - 1)
}

impl TagTables {
    fn new(seed: u64) -> TagTables {
        TagTables {
            interner: Interner::new(seed),
            keys: Dictionary::default(),
            key_ranges: Vec::new(),
            values: Vec::new(),
            value_bytes: 0,
            keysets: Dictionary::default(),
            tagsets: Dictionary::default(),
            sources: Vec::new(),
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
        self.key_ranges.clear();
        self.value_bytes = 0;
        self.sources.clear();
        self.recent_keys.clear();
        self.recent_keyset = u32::MAX;
    }

    fn bytes(&self) -> usize {
        // Each key also needs a header for its array of values.
        let keys = self.keys.bytes.len() + 5 * self.key_ranges.len();
        keys + self.value_bytes + self.keysets.bytes.len() + self.tagsets.bytes.len()
    }

    /// Returns the index of a name, which is added if it is new.
    #[inline(always)]
    fn name(&mut self, name: &[u8], names: &mut Dictionary) -> u32 {
        match self.interner.find(NAMES, &names.bytes, name) {
            Interned::Existing(found) => found.index,
            Interned::New(missing) => {
                let (start, index) = append(name, names);
                self.interner.insert(missing, start, name.len(), index);
                index
            }
        }
    }

    /// Returns the index of an object's tag set. Objects with different source text are different
    /// tag sets.
    #[inline(always)]
    fn tagset(&mut self, object: &[u8], scratch: &mut Scratch) -> Result<u32, InvalidTags> {
        match self.interner.find(SOURCES, &self.sources, object) {
            Interned::Existing(found) => Ok(found.index),
            Interned::New(missing) => self.new_tagset(object, missing, scratch),
        }
    }

    #[inline(never)]
    fn new_tagset(
        &mut self,
        object: &[u8],
        missing: Missing,
        scratch: &mut Scratch,
    ) -> Result<u32, InvalidTags> {
        self.row_keys.clear();
        self.row_values.clear();
        let parsed = tags(object, scratch, |key, value| self.tag(key, value));
        let keyset = self.keyset();
        push_array(1 + self.row_keys.len(), &mut self.tagsets.bytes);
        push_uint(keyset.into(), &mut self.tagsets.bytes);
        self.tagsets.bytes.extend_from_slice(&self.row_values);
        self.tagsets.len += 1;
        // Tags parsed before an error remain as an unused tag set, because their new values are
        // already in the dictionaries.
        parsed?;
        let index = self.tagsets.len - 1;
        self.interner.insert(missing, self.sources.len(), object.len(), index);
        self.sources.extend_from_slice(object);
        Ok(index)
    }

    /// Adds a tag to the tag set that is being parsed.
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
            Interned::Existing(found) => {
                *recent = (found.start, value.len(), found.index);
                push_uint(u64::from(found.index) + 1, &mut self.row_values);
            }
            Interned::New(missing) => {
                let before = values.bytes.len();
                let (start, index) = append(value, values);
                self.value_bytes += values.bytes.len() - before;
                self.interner.insert(missing, start, value.len(), index);
                *recent = (start, value.len(), index);
                push_uint(NEW, &mut self.row_values);
            }
        }
    }

    /// Returns the index of a key. Usually, the key equals the key at the same position in the
    /// previous tag set.
    #[inline(always)]
    fn key(&mut self, key: &[u8]) -> u32 {
        if let Some(recent) = self.recent_keys.get(self.row_keys.len()) {
            let (start, len) = self.key_ranges[*recent as usize];
            if self.keys.bytes[start..start + len] == *key {
                return *recent;
            }
        }
        match self.interner.find(KEYS, &self.keys.bytes, key) {
            Interned::Existing(found) => found.index,
            Interned::New(missing) => {
                let (start, index) = append(key, &mut self.keys);
                self.interner.insert(missing, start, key.len(), index);
                self.key_ranges.push((start, key.len()));
                if self.values.len() < self.key_ranges.len() {
                    self.values
                        .push(KeyValues { recent: (0, 0, u32::MAX), ..KeyValues::default() });
                }
                index
            }
        }
    }

    /// Returns the index of the key set for the tag set that is being parsed.
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
            Interned::Existing(found) => found.index,
            Interned::New(missing) => {
                let (start, index) = (self.keysets.bytes.len(), self.keysets.len);
                self.keysets.bytes.extend_from_slice(&self.row_keyset);
                self.keysets.len += 1;
                self.interner.insert(missing, start, self.row_keyset.len(), index);
                index
            }
        }
    }

    /// Appends the tag dictionaries to a block.
    fn finish(&self, out: &mut Vec<u8>) {
        push_list(key::KEYS, &self.keys, out);
        push_string(key::VALUES.as_bytes(), out);
        push_array(self.key_ranges.len(), out);
        for key in &self.values[..self.key_ranges.len()] {
            push_array(key.values.len as usize, out);
            out.extend_from_slice(&key.values.bytes);
        }
        push_list(key::KEYSETS, &self.keysets, out);
        push_list(key::TAGSETS, &self.tagsets, out);
    }
}
