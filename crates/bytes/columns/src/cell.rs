//! One value of one row.

/// Bytes of a block, or of a column's own buffer, at most.
pub const BLOCK_BYTES_MAX: usize = 1 << 31;

/// Bytes of one value at most.
pub const VALUE_BYTES_MAX: usize = (1 << 28) - 1;

/// What a value is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Kind {
    /// There is none.
    #[default]
    Absent = 0,
    /// JSON `null`.
    Null = 1,
    /// `false`, without bytes of its own.
    False = 2,
    /// `true`, without bytes of its own.
    True = 3,
    /// A number as JSON writes it (RFC 8259), without fraction and exponent. It may be of any size.
    Int = 4,
    /// A number as JSON writes it, with fraction or exponent.
    Float = 5,
    /// A time as RFC 3339 writes it, in UTC.
    Time = 6,
    /// Any bytes, UTF-8 or not.
    Text = 7,
    /// The inside of a JSON string: valid, and perhaps with escapes.
    Escaped = 8,
    /// A JSON object, valid.
    Object = 9,
    /// A JSON array, valid.
    Array = 10,
    /// Members of a JSON object that have no column of their own, as `"key":value,"key":value`.
    Members = 11,
}

const KINDS: [Kind; 16] = [
    Kind::Absent,
    Kind::Null,
    Kind::False,
    Kind::True,
    Kind::Int,
    Kind::Float,
    Kind::Time,
    Kind::Text,
    Kind::Escaped,
    Kind::Object,
    Kind::Array,
    Kind::Members,
    Kind::Absent,
    Kind::Absent,
    Kind::Absent,
    Kind::Absent,
];

/// Where a value lies, and what it is: bits 0 to 30 are its start, bit 31 says that it lies in the
/// column's own buffer, bits 32 to 59 are its length, bits 60 to 63 its kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(transparent)]
pub struct Cell(u64);

const OWN: u64 = 1 << 31;

impl Cell {
    /// No value.
    pub const ABSENT: Cell = Cell(0);

    /// `len` bytes from `start` on in the block.
    #[inline(always)]
    pub fn new(kind: Kind, start: usize, len: usize) -> Cell {
        debug_assert!(start < BLOCK_BYTES_MAX && len <= VALUE_BYTES_MAX);
        Cell(start as u64 | (len as u64) << 32 | (kind as u64) << 60)
    }

    /// The same in the column's own buffer.
    #[inline(always)]
    pub fn own(kind: Kind, start: usize, len: usize) -> Cell {
        Cell(Cell::new(kind, start, len).0 | OWN)
    }

    /// A value whose kind says everything: [`Kind::Null`], [`Kind::False`], [`Kind::True`].
    #[inline(always)]
    pub fn constant(kind: Kind) -> Cell {
        Cell((kind as u64) << 60)
    }

    /// A boolean.
    #[inline(always)]
    pub fn bool(value: bool) -> Cell {
        Cell::constant(if value { Kind::True } else { Kind::False })
    }

    /// What it is.
    #[inline(always)]
    pub fn kind(self) -> Kind {
        KINDS[(self.0 >> 60) as usize]
    }

    /// `len` bytes of its bytes, from `offset` on.
    #[inline(always)]
    pub fn part(self, kind: Kind, offset: usize, len: usize) -> Cell {
        debug_assert!(offset + len <= self.len());
        let start = self.0 & 0xFFFF_FFFF;
        Cell((start + offset as u64) | (len as u64) << 32 | (kind as u64) << 60)
    }

    /// The same bytes as something else.
    #[inline(always)]
    pub fn with_kind(self, kind: Kind) -> Cell {
        Cell(self.0 & !(0xF << 60) | (kind as u64) << 60)
    }

    /// Whether there is a value.
    #[inline(always)]
    pub fn is_present(self) -> bool {
        self.0 >> 60 != 0
    }

    /// Whether it lies in the column's own buffer.
    #[inline(always)]
    pub fn is_own(self) -> bool {
        self.0 & OWN != 0
    }

    /// Where it starts.
    #[inline(always)]
    pub fn start(self) -> usize {
        (self.0 & (OWN - 1)) as usize
    }

    /// Its length in bytes.
    #[inline(always)]
    pub fn len(self) -> usize {
        (self.0 >> 32) as usize & VALUE_BYTES_MAX
    }

    /// Whether it has no bytes.
    #[inline(always)]
    pub fn is_empty(self) -> bool {
        self.len() == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_put_in_comes_out() {
        for start in [0, 1, BLOCK_BYTES_MAX - 1] {
            for len in [0, 1, VALUE_BYTES_MAX] {
                for kind in &KINDS[..12] {
                    let (cell, own) = (Cell::new(*kind, start, len), Cell::own(*kind, start, len));
                    assert_eq!(
                        (cell.kind(), cell.start(), cell.len(), cell.is_own()),
                        (*kind, start, len, false)
                    );
                    assert_eq!(
                        (own.kind(), own.start(), own.len(), own.is_own()),
                        (*kind, start, len, true)
                    );
                    assert_eq!(cell.with_kind(Kind::Text), Cell::new(Kind::Text, start, len));
                    assert_eq!(cell.is_present(), *kind != Kind::Absent);
                }
            }
        }
        assert_eq!(Cell::default(), Cell::ABSENT);
        assert_eq!((Cell::bool(true).kind(), Cell::bool(false).kind()), (Kind::True, Kind::False));
    }
}
