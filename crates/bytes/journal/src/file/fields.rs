//! The fields of an entry, and the search for a field.

use super::{Current, JournalFile};
use crate::data::{FIELD, Slot};
use crate::links::is_linked;
use crate::numbers;
use crate::object;
use crate::{Error, Field, FieldId, ReadAt};

/// The fields of an entry.
pub struct Fields<'a> {
    slots: std::slice::Iter<'a, Slot>,
    ids: std::slice::Iter<'a, FieldId>,
    /// Pairs that are kept for other entries.
    shared: &'a [u8],
    /// Pairs of this entry only.
    own: &'a [u8],
    /// An error behind the last field.
    last: Option<Error>,
}

impl<'a> Iterator for Fields<'a> {
    type Item = Result<Field<'a>, Error>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        let (Some(slot), Some(id)) = (self.slots.next(), self.ids.next()) else {
            return self.last.take().map(Err);
        };
        let (pair, bytes) = match slot {
            Slot::Shared(pair) => (pair, self.shared),
            Slot::Own(pair) => (pair, self.own),
            Slot::Damaged { offset, expected } => {
                return Some(Err(Error::damaged(*offset, expected)));
            }
        };
        let bytes = &bytes[pair.start..pair.start + pair.len];
        let value = &bytes[pair.name + 1..];
        let truncated = pair.truncated.map(|total| total - (pair.name + 1) as u64);
        Some(Ok(Field { id: *id, name: &bytes[..pair.name], value, truncated }))
    }
}

impl<R: ReadAt> JournalFile<R> {
    /// Decodes the fields of the last returned entry, in the order of the file. Fields with the
    /// same name are all returned.
    ///
    /// # Errors
    ///
    /// Fails if the file cannot be read, or if the hash of the entry shows that the entry had other
    /// fields when it was written. A single damaged field is an error among the fields instead.
    pub fn fields(&mut self) -> Result<Fields<'_>, Error> {
        self.pairs.begin();
        self.decode_slots()?;
        let has_more = self.current.has_more;
        let is_whole = !has_more && self.current.slots.iter().all(Slot::is_whole);
        // A hash of zero fits all fields, because all of them may be repeated.
        if is_whole && self.current.xor_hash != 0 {
            self.check_hash()?;
        } else {
            self.check_links()?;
        }
        let too_many = "an entry with fewer fields, according to the limit";
        Ok(Fields {
            slots: self.current.slots.iter(),
            ids: self.current.ids.iter(),
            shared: &self.pairs.new.bytes,
            own: &self.pairs.own,
            last: has_more.then(|| Error::damaged(self.current.offset, too_many)),
        })
    }

    /// Decodes the fields of the current entry into its slots.
    fn decode_slots(&mut self) -> Result<(), Error> {
        self.current.slots.clear();
        for (index, id) in self.current.ids.iter().enumerate() {
            let slot = match self.pairs.slot(&mut self.blocks, *id) {
                Ok(slot) => self.current.checked(index, slot),
                Err(error) => Slot::damaged(error)?,
            };
            self.current.slots.push(slot);
        }
        Ok(())
    }

    /// Checks the fields of the current entry against its hash.
    fn check_hash(&self) -> Result<(), Error> {
        let hashes = self.current.slots.iter().filter_map(Slot::pair).map(|pair| pair.jenkins);
        let hash = hashes.fold(self.current.xor_hash, |hash, of_field| hash ^ of_field);
        if hash == 0 || self.is_repeated(hash) {
            return Ok(());
        }
        Err(Error::damaged(self.current.offset, "an entry with the hash of its fields"))
    }

    /// Checks that the fields are linked to the current entry. If a field is damaged or truncated,
    /// the hash of the entry does not show whether damage has replaced or repeated other fields.
    fn check_links(&mut self) -> Result<(), Error> {
        let Current { offset, ids, slots, .. } = &mut self.current;
        for (index, (slot, id)) in slots.iter_mut().zip(&*ids).enumerate() {
            if slot.pair().is_none() {
                continue;
            }
            // Fields are in the order of their offsets, so a repeated one follows itself.
            let is_repeated = ids[..index.saturating_sub(1)].contains(id);
            *slot = match is_linked(&mut self.blocks, &self.header, *id, *offset) {
                Ok(true) if !is_repeated => continue,
                Ok(_) => Slot::Damaged { offset: *offset, expected: "the offsets of the fields" },
                Err(error) => Slot::damaged(error)?,
            };
        }
        Ok(())
    }

    /// Returns true if repeated fields explain the difference between the hash of an entry and the
    /// hash of its fields. Newer versions of systemd store a repeated field once, but hash it as
    /// often as it was sent. The difference is then the sum of some of the hashes, modulo 2.
    fn is_repeated(&self, difference: u64) -> bool {
        // The hashes as a basis of a vector space, in which each has another highest bit.
        let mut basis = [0_u64; 64];
        for slot in &self.current.slots {
            let Some(pair) = slot.pair() else { continue };
            let hash = reduce(&basis, pair.jenkins);
            if hash != 0 {
                basis[hash.ilog2() as usize] = hash;
            }
        }
        reduce(&basis, difference) == 0
    }

    /// Returns the id of a field, given as `NAME=value`, or `None` if no entry has the field yet.
    /// An entry that is appended later may have it, so call this again after
    /// [`refresh`](Self::refresh).
    ///
    /// # Errors
    ///
    /// Fails if the file cannot be read or the hash table is damaged.
    pub fn find_field(&mut self, pair: &[u8]) -> Result<Option<FieldId>, Error> {
        let table = self.header.data_hash_table_offset;
        let buckets = self.header.data_hash_table_size / 16;
        if buckets == 0 || table < self.header.header_size || !table.is_multiple_of(8) {
            return Err(Error::damaged(104, "a hash table"));
        }
        let hash = self.pairs.hash(pair);
        let item = table.checked_add(hash % buckets * 16);
        let item = item.ok_or(Error::damaged(104, "a hash table"))?;
        let mut id = self.blocks.number(item)?;
        while id != 0 {
            let (bytes, _) = object::object(&mut self.blocks, id, FIELD, 64)?;
            let (found, next) = (numbers::number(bytes, 16), numbers::number(bytes, 24));
            if found == hash && self.pairs.is(&mut self.blocks, FieldId(id), pair)? {
                return Ok(Some(FieldId(id)));
            }
            // Offsets increase, so that damage makes no loop.
            if next != 0 && next <= id {
                return Err(Error::damaged(id + 24, "the next field with the same hash"));
            }
            id = next;
        }
        Ok(None)
    }
}

impl Current {
    /// Returns the slot, after a check against the hash in the entry.
    fn checked(&self, index: usize, slot: Slot) -> Slot {
        match (slot, self.hashes.get(index)) {
            (Slot::Shared(pair) | Slot::Own(pair), Some(hash)) if pair.hash != *hash => {
                Slot::Damaged { offset: self.offset, expected: "the hashes of the fields" }
            }
            _ => slot,
        }
    }
}

/// Subtracts the vectors of the basis that share the highest bits.
fn reduce(basis: &[u64; 64], mut hash: u64) -> u64 {
    while hash != 0 && basis[hash.ilog2() as usize] != 0 {
        hash ^= basis[hash.ilog2() as usize];
    }
    hash
}
