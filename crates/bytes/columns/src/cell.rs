//! The location and kind of one value in a column.

/// Maximum size in bytes of a block or a column's buffer.
pub const BLOCK_BYTES_MAX: usize = 1 << 31;

/// Maximum size of a value in bytes.
pub const VALUE_BYTES_MAX: usize = (1 << 28) - 1;

/// The kind of a value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Kind {
    /// No value. The default.
    #[default]
    Absent = 0,
    /// JSON `null`.
    Null = 1,
    /// JSON `false`. The cell refers to no bytes.
    False = 2,
    /// JSON `true`. The cell refers to no bytes.
    True = 3,
    /// A JSON number (RFC 8259) without a fraction or exponent, of any magnitude.
    Int = 4,
    /// A JSON number with a fraction or exponent.
    Float = 5,
    /// An RFC 3339 timestamp in UTC.
    Time = 6,
    /// Any bytes, whether or not they are UTF-8.
    Text = 7,
    /// The contents of a valid JSON string, possibly with escapes.
    Escaped = 8,
    /// A valid JSON object.
    Object = 9,
    /// A valid JSON array.
    Array = 10,
    /// Members of a JSON object that have no column, as `"key":value,"key":value`.
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

/// Location and kind of a value. Bits 0 to 30 are the start. Bit 31 is set if the value is in the
/// column's buffer instead of the block. Bits 32 to 59 are the length, and bits 60 to 63 are the
/// kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(transparent)]
pub struct Cell(u64);

const OWN: u64 = 1 << 31;

impl Cell {
    /// A cell without a value.
    pub const ABSENT: Cell = Cell(0);

    /// Creates a cell for `len` bytes of the block, starting at `start`.
    #[inline(always)]
    pub fn new(kind: Kind, start: usize, len: usize) -> Cell {
        debug_assert!(start < BLOCK_BYTES_MAX && len <= VALUE_BYTES_MAX);
        Cell(start as u64 | (len as u64) << 32 | (kind as u64) << 60)
    }

    /// Creates a cell for `len` bytes of the column's buffer, starting at `start`.
    #[inline(always)]
    pub fn own(kind: Kind, start: usize, len: usize) -> Cell {
        Cell(Cell::new(kind, start, len).0 | OWN)
    }

    /// Creates a cell for a kind that refers to no bytes: [`Kind::Null`], [`Kind::False`],
    /// [`Kind::True`].
    #[inline(always)]
    pub fn constant(kind: Kind) -> Cell {
        Cell((kind as u64) << 60)
    }

    /// Creates a cell for a boolean.
    #[inline(always)]
    pub fn bool(value: bool) -> Cell {
        Cell::constant(if value { Kind::True } else { Kind::False })
    }

    /// Returns the kind of the value.
    #[inline(always)]
    pub fn kind(self) -> Kind {
        KINDS[(self.0 >> 60) as usize]
    }

    /// Creates a cell for `len` bytes of this value, starting at `offset` within the value.
    #[inline(always)]
    pub fn part(self, kind: Kind, offset: usize, len: usize) -> Cell {
        debug_assert!(offset + len <= self.len());
        let start = self.0 & 0xFFFF_FFFF;
        Cell((start + offset as u64) | (len as u64) << 32 | (kind as u64) << 60)
    }

    /// Creates a cell for the same bytes with another kind.
    #[inline(always)]
    pub fn with_kind(self, kind: Kind) -> Cell {
        Cell(self.0 & !(0xF << 60) | (kind as u64) << 60)
    }

    /// Returns whether there is a value.
    #[inline(always)]
    pub fn is_present(self) -> bool {
        self.0 >> 60 != 0
    }

    /// Returns whether the value is in the column's buffer.
    #[inline(always)]
    pub fn is_own(self) -> bool {
        self.0 & OWN != 0
    }

    /// Returns the offset of the value in the block or in the column's buffer.
    #[inline(always)]
    pub fn start(self) -> usize {
        (self.0 & (OWN - 1)) as usize
    }

    /// Returns the length of the value in bytes.
    #[inline(always)]
    pub fn len(self) -> usize {
        (self.0 >> 32) as usize & VALUE_BYTES_MAX
    }

    /// Returns whether the length of the value is 0.
    #[inline(always)]
    pub fn is_empty(self) -> bool {
        self.len() == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_round_trip() {
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
