//! Fields: pairs of a name and a value, which entries share.

use crate::blocks::Blocks;
use crate::decompress::{Decompressor, input_max};
use crate::hash::{jenkins, siphash24};
use crate::numbers;
use crate::object::{self, COMPRESSED_LZ4, COMPRESSED_XZ, COMPRESSED_ZSTD, DATA, Layout};
use crate::{Error, FieldId, Header, Id, ReadAt, ReaderLimits};
use hashbrown::HashMap;

/// What the object of a field is called in errors.
pub(crate) const FIELD: (u8, &str) = (DATA, "a field");

/// Flags that say how a field is compressed.
const COMPRESSED: u8 = COMPRESSED_XZ | COMPRESSED_LZ4 | COMPRESSED_ZSTD;

/// Longer pairs are not kept for other entries.
const KEPT_BYTES_MAX: usize = 16 << 10;

/// Bytes of a field that are decoded even if the entry has reached its limit, for the name.
const NAME_BYTES: usize = 256;

/// A decoded pair, `NAME=value`, in the bytes of a generation or of the entry.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pair {
    pub(crate) start: usize,
    pub(crate) len: usize,
    /// Bytes of the name.
    pub(crate) name: usize,
    /// Complete length if the pair is truncated.
    pub(crate) truncated: Option<u64>,
    /// Hash that the object contains.
    pub(crate) hash: u64,
    /// Contribution to the hash of the entry.
    pub(crate) jenkins: u64,
}

/// A field of the current entry.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Slot {
    /// A pair that is kept for other entries.
    Shared(Pair),
    /// A pair of this entry only.
    Own(Pair),
    /// A damaged field.
    Damaged { offset: u64, expected: &'static str },
}

impl Slot {
    /// Returns the slot of a damaged field, or an error if the file cannot be read.
    pub(crate) fn damaged(error: Error) -> Result<Slot, Error> {
        match error {
            Error::Damaged { offset, expected } => Ok(Slot::Damaged { offset, expected }),
            error => Err(error),
        }
    }

    /// Returns the pair, if it is readable.
    pub(crate) fn pair(&self) -> Option<&Pair> {
        match self {
            Slot::Shared(pair) | Slot::Own(pair) => Some(pair),
            Slot::Damaged { .. } => None,
        }
    }

    /// Returns true if the field is neither damaged nor truncated.
    pub(crate) fn is_whole(&self) -> bool {
        self.pair().is_some_and(|pair| pair.truncated.is_none())
    }
}

/// Pairs that are kept since a point in time.
#[derive(Default)]
pub(crate) struct Generation {
    pairs: HashMap<FieldId, Pair, foldhash::fast::RandomState>,
    pub(crate) bytes: Vec<u8>,
}

/// Decoded pairs. The pairs of two generations are kept. When the new one is full, the old one is
/// dropped, so that the pairs in use stay.
pub(crate) struct Pairs {
    limits: ReaderLimits,
    is_keyed: bool,
    key: Id,
    layout: Layout,
    pub(crate) new: Generation,
    old: Generation,
    /// Bytes of pairs of the current entry that are not kept.
    pub(crate) own: Vec<u8>,
    /// Bytes of all pairs of the current entry.
    used: usize,
    decompressor: Decompressor,
}

impl Pairs {
    pub(crate) fn new(header: &Header, limits: ReaderLimits) -> Pairs {
        Pairs {
            limits,
            is_keyed: header.is_keyed(),
            key: header.file_id,
            layout: Layout::new(header.is_compact()),
            new: Generation::default(),
            old: Generation::default(),
            own: Vec::new(),
            used: 0,
            decompressor: Decompressor::default(),
        }
    }

    /// Begins an entry: forgets the bytes of the last one.
    pub(crate) fn begin(&mut self) {
        self.own.clear();
        self.own.shrink_to(self.limits.cache_bytes);
        self.used = 0;
        let kept = self.new.bytes.len() + self.new.pairs.len() * size_of::<(FieldId, Pair)>();
        if kept > self.limits.cache_bytes / 2 {
            std::mem::swap(&mut self.new, &mut self.old);
            self.new.pairs.clear();
            self.new.bytes.clear();
        }
    }

    /// Decodes a field of the current entry.
    ///
    /// # Errors
    ///
    /// Fails if the field is damaged or cannot be read.
    #[inline]
    pub(crate) fn slot<R: ReadAt>(
        &mut self,
        blocks: &mut Blocks<R>,
        id: FieldId,
    ) -> Result<Slot, Error> {
        if let Some(pair) = self.new.pairs.get(&id) {
            self.used += pair.len;
            return Ok(Slot::Shared(*pair));
        }
        let slot = match self.old.pairs.get(&id) {
            Some(pair) => {
                let bytes = &self.old.bytes[pair.start..pair.start + pair.len];
                Slot::Shared(self.new.keep(id, *pair, bytes))
            }
            None => self.decode(blocks, id)?,
        };
        if let Slot::Shared(pair) | Slot::Own(pair) = slot {
            self.used += pair.len;
        }
        Ok(slot)
    }

    /// Reads, decompresses and checks a field.
    fn decode<R: ReadAt>(&mut self, blocks: &mut Blocks<R>, id: FieldId) -> Result<Slot, Error> {
        let start = self.own.len();
        let rest = self.limits.entry_bytes_max.saturating_sub(self.used);
        let limit = self.limits.field_bytes_max.min(rest).max(NAME_BYTES);
        let read = self.read(blocks, id, limit)?;
        let bytes = &self.own[start..];
        let pair = self.check(id, bytes, read).map(|pair| Pair { start, ..pair });
        let Ok(pair) = pair else {
            self.own.truncate(start);
            return pair.map(Slot::Own);
        };
        if read.is_unique || pair.truncated.is_some() || pair.len > KEPT_BYTES_MAX {
            return Ok(Slot::Own(pair));
        }
        let pair = self.new.keep(id, pair, bytes);
        self.own.truncate(start);
        Ok(Slot::Shared(pair))
    }

    /// Checks a pair, and returns where its parts are.
    fn check(&self, id: FieldId, bytes: &[u8], read: Read) -> Result<Pair, Error> {
        let truncated = (read.total > bytes.len() as u64).then_some(read.total);
        let mut pair = Pair {
            start: 0,
            len: bytes.len(),
            name: 0,
            truncated,
            hash: read.hash,
            jenkins: read.hash,
        };
        if truncated.is_none() {
            if self.hash(bytes) != read.hash {
                return Err(Error::damaged(id.0, "a field with the hash of its content"));
            }
            if self.is_keyed {
                pair.jenkins = jenkins(bytes);
            }
        }
        let name = memchr::memchr(b'=', bytes).filter(|name| *name > 0);
        pair.name = name.ok_or(Error::damaged(id.0, "a field of the form `NAME=value`"))?;
        Ok(pair)
    }

    /// Returns the hash of a pair in this file.
    pub(crate) fn hash(&self, pair: &[u8]) -> u64 {
        if self.is_keyed { siphash24(self.key.0, pair) } else { jenkins(pair) }
    }

    /// Appends up to `limit` bytes of a pair to `own`.
    fn read<R: ReadAt>(
        &mut self,
        blocks: &mut Blocks<R>,
        id: FieldId,
        limit: usize,
    ) -> Result<Read, Error> {
        let (bytes, size) = object::object(blocks, id.0, FIELD, self.layout.data)?;
        let compression = bytes[1] & COMPRESSED;
        let mut read = Read {
            hash: numbers::number(bytes, 16),
            is_unique: numbers::number(bytes, 56) <= 1,
            total: size - self.layout.data as u64,
        };
        let payload = id.0 + self.layout.data as u64;
        if compression == 0 {
            let len = read.total.min(limit as u64) as usize;
            self.own.extend_from_slice(blocks.bytes(payload, len)?);
            return Ok(read);
        }
        let len = read.total.min(input_max(limit) as u64) as usize;
        let start = self.own.len();
        let input = blocks.bytes(payload, len)?;
        let total = self.decompressor.decompress(compression, input, limit, &mut self.own);
        match total {
            Ok(total) => read.total = total,
            Err(expected) => {
                self.own.truncate(start);
                return Err(Error::damaged(id.0, expected));
            }
        }
        Ok(read)
    }

    /// Returns true if a field is the pair.
    pub(crate) fn is<R: ReadAt>(
        &mut self,
        blocks: &mut Blocks<R>,
        id: FieldId,
        pair: &[u8],
    ) -> Result<bool, Error> {
        let start = self.own.len();
        let read = self.read(blocks, id, pair.len().max(NAME_BYTES))?;
        let is = read.total == pair.len() as u64 && self.own[start..] == *pair;
        self.own.truncate(start);
        Ok(is)
    }
}

impl Generation {
    /// Copies a pair into this generation.
    fn keep(&mut self, id: FieldId, pair: Pair, bytes: &[u8]) -> Pair {
        let pair = Pair { start: self.bytes.len(), ..pair };
        self.bytes.extend_from_slice(bytes);
        self.pairs.insert(id, pair);
        pair
    }
}

/// What the object of a field says, without its payload.
#[derive(Clone, Copy)]
struct Read {
    hash: u64,
    /// Complete length of the decompressed payload.
    total: u64,
    /// Whether only one entry refers to the field.
    is_unique: bool,
}
