//! Packs the key ids of a row into as few words as possible.

use crate::limits::KEYS_MAX;

/// Positions of a row's ids in the row's words. An id never spans two words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Packing {
    fields: Vec<Field>,
    words: usize,
}

/// Position of a column's ids.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Field {
    word: u8,
    shift: u8,
    width: u8,
}

impl Field {
    #[inline(always)]
    fn mask(self) -> u64 {
        u64::from(u32::MAX >> (u32::BITS - u32::from(self.width)))
    }
}

/// The words of a packed row. Unused words are 0.
pub type Packed = [u64; KEYS_MAX / 2];

impl Packing {
    /// Creates the packing for columns whose ids are at most `ids_max`. The first column in a word
    /// is the widest one. It also gets the word's remaining bits, so that larger ids fit before the
    /// rows must be repacked.
    pub fn new(ids_max: &[u32]) -> Packing {
        let mut widths: Vec<(u32, usize)> =
            ids_max.iter().map(|id| (u32::BITS - id.leading_zeros()).max(1)).zip(0..).collect();
        widths.sort_unstable_by_key(|(width, column)| (u32::BITS - width, *column));
        let mut words: Vec<Vec<(u32, usize)>> = Vec::new();
        for (width, column) in widths {
            let has_space = |word: &&mut Vec<(u32, usize)>| used(word) + width <= u64::BITS;
            match words.iter_mut().find(has_space) {
                Some(word) => word.push((width, column)),
                None => words.push(vec![(width, column)]),
            }
        }
        let mut fields = vec![Field::default(); ids_max.len()];
        for (word, columns) in words.iter_mut().enumerate() {
            let rest = u64::BITS - used(columns);
            columns[0].0 = (columns[0].0 + rest).min(u32::BITS);
            let mut shift = 0;
            for (width, column) in columns {
                let [word, shift_to, width_of] = [word as u8, shift as u8, *width as u8];
                fields[*column] = Field { word, shift: shift_to, width: width_of };
                shift += *width;
            }
        }
        Packing { fields, words: words.len() }
    }

    /// Returns the number of words per row.
    #[inline]
    pub fn words(&self) -> usize {
        self.words
    }

    /// Packs ids. Returns `None` if an id is too wide, so that no row with this packing can contain
    /// it.
    #[inline(always)]
    pub fn pack(&self, ids: &[u32]) -> Option<Packed> {
        let mut packed = Packed::default();
        let mut excess = 0;
        for (field, id) in self.fields.iter().zip(ids) {
            let id = u64::from(*id);
            excess |= id >> field.width;
            packed[usize::from(field.word) % packed.len()] |= id << field.shift;
        }
        (excess == 0).then_some(packed)
    }

    /// Returns whether the words of a row contain these ids.
    #[inline(always)]
    pub fn is_equal(&self, row: &[u64], ids: &[u32]) -> bool {
        let differing = self.fields.iter().zip(ids).fold(0, |differing, (field, id)| {
            let word = row.get(usize::from(field.word)).map_or(0, |word| word >> field.shift);
            differing | ((word & field.mask()) ^ u64::from(*id))
        });
        differing == 0
    }

    /// Returns a column's id from a row's words, or `None` if the column does not exist.
    #[inline]
    pub fn id(&self, row: &[u64], column: usize) -> Option<u32> {
        let field = self.fields.get(column)?;
        let word = row.get(usize::from(field.word))? >> field.shift;
        Some((word & field.mask()) as u32)
    }

    /// Returns the number of bytes that the packing has allocated.
    pub fn memory_bytes(&self) -> usize {
        self.fields.capacity() * size_of::<Field>()
    }
}

/// Returns the number of bits that a word's columns use.
fn used(columns: &[(u32, usize)]) -> u32 {
    columns.iter().map(|(width, _)| width).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use millstream_testkit_random::{TestSize, property};
    use proptest::prelude::*;

    #[test]
    fn ten_columns_of_ten_million_rows_take_two_words() {
        let ids_max = [10, 10, 100, 100, 1000, 1000, 10_000, 100_000, 1_000_000, 10_000_000];
        assert_eq!(Packing::new(&ids_max).words(), 2);
        assert_eq!(Packing::new(&[0; 16]).words(), 1);
        assert_eq!(Packing::new(&[u32::MAX; 16]).words(), 8);
        assert_eq!(Packing::new(&[]).words(), 0);
    }

    /// Number of cases per property.
    const CASES: TestSize = TestSize { gate: 256, long: 10_000 };

    proptest! {
        #![proptest_config(property(CASES))]

        #[test]
        fn packed_ids_are_read_as_they_were(
            columns in prop::collection::vec((0..33_u32, any::<u32>(), any::<bool>()), 0..17),
        ) {
            let mask = |bits: u32| ((1_u64 << bits) - 1) as u32;
            let ids_max: Vec<u32> = columns.iter().map(|(bits, ..)| mask(*bits)).collect();
            let id_of = |(bits, id, is_max): &(u32, u32, bool)| {
                if *is_max { mask(*bits) } else { id & mask(*bits) }
            };
            let ids: Vec<u32> = columns.iter().map(id_of).collect();
            let packing = Packing::new(&ids_max);
            let packed = packing.pack(&ids).unwrap();
            prop_assert!(packed[packing.words()..].iter().all(|word| *word == 0));
            let row = &packed[..packing.words()];
            let read: Vec<u32> =
                (0..ids.len()).map(|column| packing.id(row, column).unwrap()).collect();
            prop_assert_eq!(&read, &ids);
            prop_assert_eq!(packing.id(row, ids.len()), None);
            prop_assert!(packing.is_equal(row, &ids));
            for (column, (bits, ..)) in columns.iter().enumerate().filter(|(_, c)| c.0 < 32) {
                let mut wider = ids.clone();
                wider[column] = u32::MAX;
                let field = packing.fields[column];
                prop_assert!(u32::from(field.width) >= *bits);
                prop_assert_eq!(packing.pack(&wider).is_some(), field.width == 32);
                prop_assert_eq!(packing.is_equal(row, &wider), wider == ids);
            }
        }
    }
}
