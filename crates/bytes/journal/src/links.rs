//! The links from fields back to entries.

use crate::blocks::Blocks;
use crate::cursor::{capacity, next_array};
use crate::data::FIELD;
use crate::numbers;
use crate::object::{self, ARRAY_BYTES, Layout};
use crate::{Error, FieldId, Header, ReadAt};

/// Returns true if a field is linked to the entry at an offset.
///
/// # Errors
///
/// Fails if the links are damaged or cannot be read.
pub(crate) fn is_linked<R: ReadAt>(
    blocks: &mut Blocks<R>,
    header: &Header,
    id: FieldId,
    entry: u64,
) -> Result<bool, Error> {
    let layout = Layout::new(header.is_compact());
    let (bytes, _) = object::object(blocks, id.0, FIELD, layout.data)?;
    // The first entry is in the field, and the others are in arrays.
    let (first, mut array) = (numbers::number(bytes, 40), numbers::number(bytes, 48));
    if first == entry || array == 0 {
        return Ok(first == entry);
    }
    loop {
        let capacity = capacity(blocks, header, array)?;
        let last = linked(blocks, layout, array, capacity - 1)?;
        // Unused items are zero, and only the last array has some.
        if last == 0 || last >= entry {
            return is_in_array(blocks, layout, array, capacity, entry);
        }
        if blocks.number(array + 16)? == 0 {
            return Ok(false);
        }
        array = next_array(blocks, array)?;
    }
}

/// Searches an array, whose items are sorted.
fn is_in_array<R: ReadAt>(
    blocks: &mut Blocks<R>,
    layout: Layout,
    array: u64,
    capacity: u64,
    entry: u64,
) -> Result<bool, Error> {
    let (mut low, mut high) = (0, capacity);
    while low < high {
        let middle = low + (high - low) / 2;
        let found = linked(blocks, layout, array, middle)?;
        if found == entry {
            return Ok(true);
        } else if found != 0 && found < entry {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    Ok(false)
}

/// Returns the offset of an entry in an array.
fn linked<R: ReadAt>(
    blocks: &mut Blocks<R>,
    layout: Layout,
    array: u64,
    index: u64,
) -> Result<u64, Error> {
    let width = layout.array_item;
    let bytes = blocks.bytes(array + ARRAY_BYTES + index * width as u64, width)?;
    Ok(numbers::item(bytes, 0, width == 4))
}
