//! The receiver's part of the store, which adds points to their series.

use crate::chunks::Chunks;
use crate::counts::Reason;
use crate::generation::Generation;
use crate::hashing::Hashing;
use crate::index::{EMPTY, Index, NONE};
use crate::key::{SeriesKey, header};
use crate::limits::{Limits, TEXT_BYTES_MAX};
use crate::point::{Class, Kind, Point, Values};
use crate::style::TagStyle;
use crate::tags::Canonical;
use millstream_scan::{KeyWork, Keys, prefetch, with_keys};
use std::borrow::Cow;

/// Number of points that are looked up together. Of 8, 16, 32, 48 and 64, 32 was the fastest.
const GROUP_POINTS: usize = 32;

/// Maximum number of contexts whose keys are in or near the L2 cache, so that prefetching them
/// costs more than it saves.
const CACHED_CONTEXTS: usize = 10_000;

/// Idle series that a shard may evict. Returned by [`crate::Store::take_idle`] for
/// [`Shard::evict`].
#[derive(Clone, Debug, Default)]
pub struct Idle {
    /// The generation in which the shard may evict the series.
    pub(crate) generation: u64,
    pub(crate) ids: Vec<u32>,
}

impl Idle {
    /// Returns the number of series.
    pub fn len(&self) -> usize {
        self.ids.len()
    }

    /// Returns whether there are no series.
    pub fn is_empty(&self) -> bool {
        self.ids.is_empty()
    }
}

/// A name with tags in arrival order, and the series to which they belong.
#[derive(Debug)]
struct Context {
    /// The key, with tags in arrival order. `None` if the entry is free.
    key: Option<SeriesKey>,
    series: u32,
    /// The next context of the same series, or [`NONE`].
    next: u32,
}

/// Placeholder for points whose hash is not in the index.
static NOWHERE: Context = Context { key: None, series: NONE, next: NONE };

impl Context {
    /// Returns the series if the key matches the point, otherwise [`NONE`].
    #[inline(always)]
    fn series_of(&self, point: &Point<'_>, style: TagStyle, keys: impl Keys) -> u32 {
        let header = header(point.kind, style, point.name);
        match &self.key {
            Some(key) if key.is_by(keys, &header, point.name, point.tags) => self.series,
            _ => NONE,
        }
    }
}

/// State of [`Shard::add_all`].
struct AddAll<'s, 'p, 'a> {
    shard: &'s mut Shard,
    points: &'p [Point<'a>],
}

impl KeyWork for AddAll<'_, '_, '_> {
    type Output = ();

    #[inline(always)]
    fn run(self, keys: impl Keys) {
        for points in self.points.chunks(GROUP_POINTS) {
            let ids = self.shard.known(points, keys);
            for (point, id) in points.iter().zip(ids) {
                match plain_value(point) {
                    Some(value) if id != NONE => self.shard.generation.add_plain(id, value, point),
                    _ => self.shard.add_found(id, point),
                }
            }
        }
    }
}

/// Accumulates the points of one receiver. Used by a single thread, without locks.
///
/// A name with tags is looked up by its bytes as they arrive. If these bytes are unknown, they are
/// validated, sorted and looked up in canonical form, which finds a known series or creates a new
/// one. A series keeps its name and tags as they first arrived. If this is not the canonical form,
/// `sorted` also indexes the series by the hash of the canonical form.
#[derive(Debug)]
pub struct Shard {
    style: TagStyle,
    limits: Limits,
    hashing: Hashing,
    /// Contexts, indexed by the hash of their key.
    index: Index,
    /// First contexts of series whose tags first arrived in a form that is not canonical, indexed
    /// by the hash of the canonical form.
    sorted: Index,
    contexts: Chunks<Context>,
    free_contexts: Chunks<u32>,
    /// First context of each series, by series id. [`NONE`] if the id is free.
    first: Chunks<u32>,
    free_series: Chunks<u32>,
    aliases: usize,
    /// Whether new series may be created.
    may_grow: bool,
    /// Scratch space for the canonical text of a point, and for the canonical text of a series to
    /// which the point is compared.
    scratch: [Canonical; 2],
    generation: Generation,
}

impl Shard {
    /// Creates an empty shard. All shards of a store must use the same `style` and `seed`. The seed
    /// must be secret.
    pub fn new(style: TagStyle, limits: &Limits, seed: u64) -> Shard {
        let mut limits = limits.clone();
        limits.name_bytes = limits.name_bytes.min(TEXT_BYTES_MAX);
        limits.tags_bytes = limits.tags_bytes.min(TEXT_BYTES_MAX);
        Shard {
            style,
            limits,
            hashing: Hashing::new(seed),
            index: Index::default(),
            sorted: Index::default(),
            contexts: Chunks::default(),
            free_contexts: Chunks::default(),
            first: Chunks::default(),
            free_series: Chunks::default(),
            aliases: 0,
            may_grow: true,
            scratch: [(); 2].map(|()| Canonical::default()),
            generation: Generation::default(),
        }
    }

    /// Adds a point, or counts the reason why it is rejected.
    #[inline]
    pub fn add(&mut self, point: &Point<'_>) {
        let found =
            check(point).and_then(|()| match self.find(point.kind, point.name, point.tags) {
                Some(id) => Ok(id),
                None => self.resolve_new(point),
            });
        match found {
            Ok(id) => self.generation.add(id, point, &self.limits, &self.hashing),
            Err(reason) => self.generation.counts.add(reason, number_of(&point.values)),
        }
    }

    /// Adds a point like [`Shard::add`], to series `id`. If `id` is [`NONE`], the series is
    /// unknown.
    #[inline(never)]
    fn add_found(&mut self, id: u32, point: &Point<'_>) {
        match check(point) {
            Ok(()) if id != NONE => self.generation.add(id, point, &self.limits, &self.hashing),
            _ => self.add(point),
        }
    }

    /// Adds points in order, like [`Shard::add`] does for each of them.
    ///
    /// A table of many series does not fit into any cache, and looking up a point takes four
    /// dependent memory accesses. A group of points therefore goes through each step together. The
    /// accesses of one step are independent, so the processor overlaps them.
    pub fn add_all(&mut self, points: &[Point<'_>]) {
        with_keys(AddAll { shard: self, points });
    }

    /// Returns the series of each point in a group. The series is [`NONE`] if the first context
    /// with the point's hash does not match the point.
    #[inline(always)]
    fn known(&self, points: &[Point<'_>], keys: impl Keys) -> [u32; GROUP_POINTS] {
        let points = &points[..points.len().min(GROUP_POINTS)];
        let (mut hashes, mut buckets) = ([0; GROUP_POINTS], [&EMPTY; GROUP_POINTS]);
        for (at, point) in points.iter().enumerate() {
            let header = header(point.kind, self.style, point.name);
            hashes[at] = self.hashing.by(keys, &header, point.name, point.tags);
        }
        for at in 0..points.len() {
            buckets[at] = self.index.bucket(hashes[at]);
            prefetch(buckets[at]);
        }
        let mut contexts = [&NOWHERE; GROUP_POINTS];
        for at in 0..points.len() {
            // One or two percent of the entries do not fit into their home bucket.
            let first =
                buckets[at].first(hashes[at]).or_else(|| self.index.find(hashes[at], |_| true));
            if let Some(number) = first {
                contexts[at] = &self.contexts[number];
                prefetch(contexts[at]);
            }
        }
        if self.contexts.len() > CACHED_CONTEXTS {
            for context in &contexts[..points.len()] {
                self.generation.prefetch(context.series);
                context.key.iter().for_each(SeriesKey::prefetch);
            }
        }
        let mut ids = [NONE; GROUP_POINTS];
        for (at, point) in points.iter().enumerate() {
            ids[at] = contexts[at].series_of(point, self.style, keys);
            if point.kind.class() == Class::Sketch {
                self.generation.prefetch_sketch(ids[at]);
            }
        }
        ids
    }

    /// Returns everything accumulated since the last swap and continues with `spare`, which must be
    /// empty. Takes the same short time for any number of series.
    pub fn swap_generation(&mut self, spare: Generation) -> Generation {
        let number = self.generation.number + 1;
        std::mem::replace(&mut self.generation, Generation { number, ..spare })
    }

    /// Evicts up to `most` idle series, in a few hundred nanoseconds each. Returns whether more
    /// idle series remain.
    ///
    /// A series that has received a point in the meantime stays. If the shard has swapped since the
    /// series were reported, all of them stay, because the store has not seen the points before
    /// that swap. The store reports series again if they remain idle.
    pub fn evict(&mut self, idle: &mut Idle, most: usize) -> bool {
        if idle.generation != self.generation.number {
            idle.ids.clear();
        }
        for id in idle.ids.drain(idle.ids.len().saturating_sub(most)..) {
            let is_known = (id as usize) < self.first.len() && self.first[id] != NONE;
            if is_known && self.generation.is_empty(id) {
                self.remove(id);
            }
        }
        !idle.ids.is_empty()
    }

    /// Sets whether new series may be created. Otherwise, their points go to the overflow series.
    pub fn set_may_grow(&mut self, may_grow: bool) {
        self.may_grow = may_grow;
    }

    /// Returns the number of series created in this generation.
    pub fn created(&self) -> usize {
        self.generation.added.len()
    }

    /// Returns the number of series.
    pub fn series(&self) -> usize {
        self.first.len() - self.free_series.len()
    }

    /// Finds a series by the exact bytes of its name and tags.
    #[inline]
    fn find(&self, kind: Kind, name: &[u8], tags: &[u8]) -> Option<u32> {
        let header = header(kind, self.style, name);
        let hash = self.hashing.of(&header, name, tags);
        let is_it = |at| {
            let context = &self.contexts[at];
            context.key.as_ref().is_some_and(|key| key.is(&header, name, tags))
        };
        self.index.find(hash, is_it).map(|at| self.contexts[at].series)
    }

    /// Returns the series for a point whose name and tags are unknown as bytes: an existing series,
    /// a new series, or the overflow series.
    #[cold]
    fn resolve_new(&mut self, point: &Point<'_>) -> Result<u32, Reason> {
        let values = finite_of(&point.values);
        let too_long = [
            (point.name.len() > self.limits.name_bytes, Reason::NameBytes),
            (point.tags.len() > self.limits.tags_bytes, Reason::TagsBytes),
        ];
        if let Some((_, reason)) = too_long.into_iter().find(|(is_too_long, _)| *is_too_long) {
            return self.overflow(point.kind, reason, values);
        }
        if [point.name, point.tags].iter().any(|text| simdutf8::basic::from_utf8(text).is_err()) {
            return Err(Reason::Utf8);
        }
        let mut scratch = std::mem::take(&mut self.scratch[0]);
        let sorted = scratch.of(point.tags, self.style);
        let name = one_line(point.name);
        let found = if sorted.count > self.limits.tags {
            self.overflow(point.kind, Reason::Tags, values)
        } else if let Some(id) = self.find_in_any_order(point.kind, &name, sorted.text) {
            self.alias(id, point, sorted.text);
            Ok(id)
        } else if !self.may_grow || self.series() >= self.limits.series {
            self.overflow(point.kind, Reason::Series, values)
        } else {
            self.generation.counts.add(Reason::KeylessTags, sorted.keyless as u64);
            let id = self.insert(point.kind, &name, point.tags, sorted.text);
            if *name != *point.name {
                self.alias(id, point, sorted.text);
            }
            Ok(id)
        };
        self.scratch[0] = scratch;
        found
    }

    /// Finds a series by its name and the canonical form of its tags.
    fn find_in_any_order(&mut self, kind: Kind, name: &[u8], canonical: &[u8]) -> Option<u32> {
        if let Some(id) = self.find(kind, name, canonical) {
            return Some(id);
        }
        let (header, other) = (header(kind, self.style, name), &mut self.scratch[1]);
        let mut is_it = |key: &SeriesKey| key.means(&header, name, canonical, other);
        let is_it = |at| self.contexts[at].key.as_ref().is_some_and(&mut is_it);
        self.sorted
            .find(self.hashing.of(&header, name, canonical), is_it)
            .map(|at| self.contexts[at].series)
    }

    /// Returns the overflow series for a kind, which has no tags, and counts the reason why it is
    /// used.
    fn overflow(&mut self, kind: Kind, reason: Reason, values: u64) -> Result<u32, Reason> {
        let name = kind.overflow_name().ok_or(Reason::OverflowGauge)?;
        self.generation.counts.add(reason, values);
        let known = self.find_in_any_order(kind, name, b"");
        Ok(known.unwrap_or_else(|| self.insert(kind, name, b"", b"")))
    }

    /// Creates a series, indexed by its tags in arrival order and by their canonical form.
    fn insert(&mut self, kind: Kind, name: &[u8], tags: &[u8], canonical: &[u8]) -> u32 {
        let id = self.free_series.pop().unwrap_or_else(|| {
            self.first.push(NONE);
            self.first.len() as u32 - 1
        });
        let key = SeriesKey::new(kind, self.style, name, tags, canonical);
        self.generation.added.push((id, key.clone()));
        let is_canonical = key.is_canonical();
        let at = self.insert_context(id, key);
        if !is_canonical {
            self.sorted
                .insert(self.hashing.of(&header(kind, self.style, name), name, canonical), at);
        }
        id
    }

    /// Indexes the series by the point's name and tags as well, unless there are too many aliases.
    fn alias(&mut self, id: u32, point: &Point<'_>, canonical: &[u8]) {
        if self.aliases < self.limits.aliases {
            self.aliases += 1;
            self.insert_context(
                id,
                SeriesKey::new(point.kind, self.style, point.name, point.tags, canonical),
            );
        }
    }

    /// Adds a context to the front of the series' list. Returns the context's number.
    fn insert_context(&mut self, series: u32, key: SeriesKey) -> u32 {
        let hash = self.hash_of(&key);
        let context = Context { key: Some(key), series, next: self.first[series] };
        let at = match self.free_contexts.pop() {
            Some(at) => {
                self.contexts[at] = context;
                at
            }
            None => {
                self.contexts.push(context);
                self.contexts.len() as u32 - 1
            }
        };
        self.first[series] = at;
        self.index.insert(hash, at);
        at
    }

    fn hash_of(&self, key: &SeriesKey) -> u64 {
        self.hashing.of(&key.header(), key.name(), key.tags_text())
    }

    fn remove(&mut self, id: u32) {
        let (mut at, mut contexts) = (std::mem::replace(&mut self.first[id], NONE), 0);
        while at != NONE {
            let context = &mut self.contexts[at];
            let (key, next) = (context.key.take(), context.next);
            if let Some(key) = key {
                self.index.remove(self.hash_of(&key), at);
                // The last context in the list was added first.
                if next == NONE && !key.is_canonical() {
                    let canonical = key.canonical_text(&mut self.scratch[0]);
                    self.sorted.remove(self.hashing.of(&key.header(), key.name(), canonical), at);
                }
            }
            self.free_contexts.push(at);
            at = next;
            contexts += 1;
        }
        // All contexts except the first are aliases.
        self.aliases -= contexts - 1;
        self.free_series.push(id);
        self.generation.removed.push(id);
    }
}

/// Returns the value if the point is of the most common form: a valid number without a timestamp,
/// for any kind except a set.
#[inline(always)]
fn plain_value(point: &Point<'_>) -> Option<f64> {
    match point.values {
        Values::Number(value) if value.is_finite() && point.kind != Kind::Set => {
            let is_weighed = point.sample_rate > 0.0 && point.sample_rate <= 1.0;
            (is_weighed && point.timestamp.is_none()).then_some(value)
        }
        _ => None,
    }
}

/// Replaces control characters in a name, because a newline would break line-based formats. Names
/// that are equal after the replacement belong to the same series.
fn one_line(name: &[u8]) -> Cow<'_, [u8]> {
    match name.iter().any(u8::is_ascii_control) {
        true => {
            name.iter().map(|byte| if byte.is_ascii_control() { b'_' } else { *byte }).collect()
        }
        false => Cow::Borrowed(name),
    }
}

/// Checks whether a point is valid.
#[inline]
fn check(point: &Point<'_>) -> Result<(), Reason> {
    if point.name.is_empty() {
        return Err(Reason::NoName);
    }
    // NaN fails both comparisons.
    if !(point.sample_rate > 0.0 && point.sample_rate <= 1.0) {
        return Err(Reason::SampleRate);
    }
    match (point.values, point.kind.class()) {
        (Values::Number(value) | Values::Change(value), Class::Last)
        | (Values::Number(value), Class::Sum | Class::Sketch) => {
            if value.is_finite() {
                Ok(())
            } else {
                Err(Reason::NotFinite)
            }
        }
        (Values::Numbers([]), _) => Err(Reason::Value),
        (Values::Numbers(values), Class::Sum | Class::Last | Class::Sketch) => {
            if values.iter().any(|value| value.is_finite()) {
                Ok(())
            } else {
                Err(Reason::NotFinite)
            }
        }
        (Values::Member(_), Class::Set) => Ok(()),
        _ => Err(Reason::Value),
    }
}

/// Returns the number of values in a point. A point without values is counted as one value.
fn number_of(values: &Values<'_>) -> u64 {
    match values {
        Values::Numbers(values) => values.len().max(1) as u64,
        Values::Number(_) | Values::Change(_) | Values::Member(_) => 1,
    }
}

/// Returns the number of values that a valid point adds to its series.
fn finite_of(values: &Values<'_>) -> u64 {
    match values {
        Values::Numbers(values) => values.iter().filter(|value| value.is_finite()).count() as u64,
        Values::Number(_) | Values::Change(_) | Values::Member(_) => 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point<'a>(name: &'a [u8], tags: &'a [u8]) -> Point<'a> {
        let (kind, values) = (Kind::Count, Values::Number(1.0));
        Point { kind, name, tags, values, sample_rate: 1.0, timestamp: None, arrived: 1 }
    }

    /// A point that is compared with one context.
    struct Asked<'a>(&'a Context, Point<'a>);

    impl KeyWork for Asked<'_> {
        type Output = u32;

        #[inline(always)]
        fn run(self, keys: impl Keys) -> u32 {
            self.0.series_of(&self.1, TagStyle::DogStatsd, keys)
        }
    }

    #[test]
    fn a_shard_that_may_not_grow_adds_new_series_to_the_overflow_series() {
        let mut shard = Shard::new(TagStyle::DogStatsd, &Limits::default(), 1);
        shard.add(&point(b"old", b"c"));
        shard.set_may_grow(false);
        for name in [&b"old"[..], b"new", b"newer"] {
            shard.add(&point(name, b"c"));
        }
        assert_eq!(shard.series(), 2, "the old series and the overflow series");
        assert_eq!(shard.generation.counts.of(Reason::Series), 2);
        shard.set_may_grow(true);
        shard.add(&point(b"new", b"c"));
        assert_eq!(shard.series(), 3);
    }

    /// A test cannot create two keys that have the same hash, so this test calls the comparison
    /// directly.
    #[test]
    fn a_context_with_only_the_hash_of_a_point_does_not_match() {
        let mut shard = Shard::new(TagStyle::DogStatsd, &Limits::default(), 1);
        shard.add(&point(b"ab", b"c"));
        let series_of = |point| with_keys(Asked(&shard.contexts[0], point));
        assert_eq!(series_of(point(b"ab", b"c")), 0);
        for (name, tags) in [(&b"a"[..], &b"bc"[..]), (b"abc", b""), (b"ab", b""), (b"ab", b"d")] {
            assert_eq!(series_of(point(name, tags)), NONE);
        }
        assert_eq!(series_of(Point { kind: Kind::Gauge, ..point(b"ab", b"c") }), NONE);
        assert_eq!(with_keys(Asked(&NOWHERE, point(b"ab", b"c"))), NONE);
    }

    /// Separate series would be emitted twice under the same name.
    #[test]
    fn names_that_differ_in_control_characters_are_one_series() {
        let mut shard = Shard::new(TagStyle::DogStatsd, &Limits::default(), 1);
        for name in [&b"a\tb"[..], b"a_b", b"a\x01b", b"a\tb", b"a_b"] {
            shard.add(&point(name, b"k:v"));
            shard.add(&point(name, b"x,k:v"));
        }
        assert_eq!(shard.series(), 2);
        let find = |name| shard.find(Kind::Count, name, b"k:v");
        assert!(find(b"a_b").is_some());
        assert_eq!(find(b"a\tb"), find(b"a_b"), "both are known by their bytes");
        let ids: Vec<u32> = (0..2).collect();
        ids.into_iter().for_each(|id| shard.remove(id));
        assert_eq!(
            (shard.series(), shard.aliases, shard.find(Kind::Count, b"a\tb", b"k:v")),
            (0, 0, None)
        );
    }

    /// There are so many series that hundreds of them do not fit into their home bucket.
    #[test]
    fn every_series_is_known_to_a_group() {
        let texts: Vec<String> = (0..20_000).map(|at| format!("k:{at}")).collect();
        let points: Vec<Point<'_>> =
            texts.iter().map(|tags| point(b"n", tags.as_bytes())).collect();
        let mut shard = Shard::new(TagStyle::DogStatsd, &Limits::default(), 1);
        shard.add_all(&points);
        struct KnownCount<'s, 'a>(&'s Shard, &'s [Point<'a>]);
        impl KeyWork for KnownCount<'_, '_> {
            type Output = usize;

            #[inline(always)]
            fn run(self, keys: impl Keys) -> usize {
                let mut known = 0;
                for group in self.1.chunks(GROUP_POINTS) {
                    known += self.0.known(group, keys).iter().filter(|id| **id != NONE).count();
                }
                known
            }
        }
        assert!(with_keys(KnownCount(&shard, &points)) > 19_990, "all except equal hashes");
        let overflowed = points.iter().filter(|point| {
            let header = header(point.kind, shard.style, point.name);
            let hash = shard.hashing.of(&header, point.name, point.tags);
            shard.index.bucket(hash).first(hash).is_none()
        });
        assert!(overflowed.count() > 20);
    }
}
