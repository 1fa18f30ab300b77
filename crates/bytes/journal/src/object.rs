//! The layout of objects, and checks of their headers.

use crate::blocks::Blocks;
use crate::numbers::number;
use crate::{Error, ReadAt};

/// Bytes that every object begins with: type, flags and size.
pub(crate) const OBJECT_BYTES: usize = 16;

/// Bytes of an entry before its items.
pub(crate) const ENTRY_BYTES: usize = 64;

/// Bytes of an array of entries before its items.
pub(crate) const ARRAY_BYTES: u64 = 24;

/// Flags of an object whose payload is compressed.
pub(crate) const COMPRESSED_XZ: u8 = 1;
pub(crate) const COMPRESSED_LZ4: u8 = 1 << 1;
pub(crate) const COMPRESSED_ZSTD: u8 = 1 << 2;

/// Types of objects.
pub(crate) const DATA: u8 = 1;
pub(crate) const ENTRY: u8 = 3;
pub(crate) const ENTRY_ARRAY: u8 = 6;

/// Widths that differ between regular and compact files, in bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Layout {
    /// An object of a field before its payload.
    pub(crate) data: usize,
    /// An item of an entry.
    pub(crate) entry_item: usize,
    /// An item of an array of entries.
    pub(crate) array_item: usize,
}

impl Layout {
    pub(crate) fn new(compact: bool) -> Layout {
        if compact {
            Layout { data: 72, entry_item: 4, array_item: 4 }
        } else {
            Layout { data: 64, entry_item: 16, array_item: 8 }
        }
    }
}

/// Reads the first bytes of an object, at least its header, and checks its type. Returns the bytes
/// and the size of the object.
///
/// # Errors
///
/// Fails if there is no object of this type with at least `len` bytes at this offset.
#[inline]
pub(crate) fn object<'a, R: ReadAt>(
    blocks: &'a mut Blocks<R>,
    offset: u64,
    (kind, expected): (u8, &'static str),
    len: usize,
) -> Result<(&'a [u8], u64), Error> {
    if offset == 0 || !offset.is_multiple_of(8) {
        return Err(Error::damaged(offset, expected));
    }
    let bytes = blocks.bytes(offset, len)?;
    let size = number(bytes, 8);
    if bytes[0] != kind || size < len as u64 || offset.checked_add(size).is_none() {
        return Err(Error::damaged(offset, expected));
    }
    Ok((bytes, size))
}
