//! Writes requests into memory that a worker reuses.

use crate::input::{Input, InputSegment};
use crate::layout;
use std::cell::Cell;

const REQUEST_WORDS: usize = layout::REQUEST_WORDS as usize;
const COLUMN_WORDS: usize = layout::COLUMN_WORDS as usize;
const SEGMENT_WORDS: usize = layout::SEGMENT_WORDS as usize;
const CONSTANT_WORDS: usize = layout::CONSTANT_WORDS as usize;

/// The words of a request. When the buffer grows, the words that describe it change during the
/// call.
#[derive(Default)]
pub struct Request {
    words: [Cell<i64>; REQUEST_WORDS],
}

/// The tables that a request refers to.
#[derive(Default)]
pub struct Tables {
    columns: Vec<[i64; COLUMN_WORDS]>,
    segments: Vec<[i64; SEGMENT_WORDS]>,
    constants: Vec<[i64; CONSTANT_WORDS]>,
}

/// Returns the address of a slice.
fn address<T>(slice: &[T]) -> i64 {
    slice.as_ptr() as i64
}

impl Request {
    /// Returns the address of the request.
    pub fn address(&self) -> i64 {
        self.words.as_ptr() as i64
    }

    fn set(&self, word: i64, value: i64) {
        self.words[word as usize].set(value);
    }

    /// Writes a request for an input. The tables must not change during the call.
    pub fn write(&self, input: &Input<'_>, tables: &mut Tables) {
        tables.fill(input);
        self.set(layout::REQUEST_BLOCK, address(input.block));
        self.set(layout::REQUEST_BLOCK_BYTES, input.block.len() as i64);
        self.set(layout::REQUEST_ROWS, input.rows as i64);
        self.set(layout::REQUEST_SELECTED, address(input.selected));
        self.set(layout::REQUEST_SELECTED_LEN, input.selected.len() as i64);
        self.set(layout::REQUEST_COLUMNS, address(&tables.columns));
        self.set(layout::REQUEST_COLUMNS_LEN, tables.columns.len() as i64);
        self.set(layout::REQUEST_TIMES, input.times.map_or(0, address));
        self.set(layout::REQUEST_READ_NS, input.read_ns);
        self.set(layout::REQUEST_SEGMENTS, address(&tables.segments));
        self.set(layout::REQUEST_SEGMENTS_LEN, tables.segments.len() as i64);
        self.set(layout::REQUEST_CALL, self.address());
    }

    /// Sets the address and the size of the buffer.
    pub fn set_buffer(&self, address: usize, len: usize) {
        self.set(layout::REQUEST_OUT, address as i64);
        self.set(layout::REQUEST_OUT_BYTES, len as i64);
    }
}

impl Tables {
    fn fill(&mut self, input: &Input<'_>) {
        self.columns.clear();
        self.columns.extend(input.columns.iter().map(|column| {
            [
                address(column.name.as_bytes()),
                column.name.len() as i64,
                address(column.cells),
                address(column.own),
                column.own.len() as i64,
            ]
        }));
        self.constants.clear();
        let constants = input.segments.iter().flat_map(|segment| segment.constants);
        self.constants.extend(constants.map(|(name, value)| {
            let (name, value) = (name.as_bytes(), value.as_bytes());
            [address(name), name.len() as i64, address(value), value.len() as i64]
        }));
        self.segments.clear();
        let mut next = 0;
        for segment in input.segments {
            let constants = &self.constants[next..next + segment.constants.len()];
            next += constants.len();
            self.segments.push(words_of(segment, address(constants)));
        }
    }
}

fn words_of(segment: &InputSegment<'_>, constants: i64) -> [i64; SEGMENT_WORDS] {
    [segment.first_row as i64, segment.rows as i64, constants, segment.constants.len() as i64]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::input::InputColumn;
    use millstream_columns as columns;

    /// Reads a word of a table in the same way as Java.
    fn read(address: i64, word: i64) -> i64 {
        let at = address as usize + word as usize * 8;
        // SAFETY: the tests read words of tables that they have just written.
        unsafe { std::ptr::read(std::ptr::with_exposed_provenance::<i64>(at)) }
    }

    #[test]
    fn a_request_has_the_addresses_of_its_input() {
        let cells = [columns::Cell::constant(columns::Kind::Null)];
        let columns = [
            InputColumn { name: "message", cells: &cells, own: b"own" },
            InputColumn { name: "b", cells: &cells, own: b"" },
        ];
        let segments = [
            InputSegment { first_row: 0, rows: 1, constants: &[("a", "1"), ("b", "2")] },
            InputSegment { first_row: 1, rows: 0, constants: &[("cc", "333")] },
        ];
        let input = Input {
            block: b"block",
            rows: 1,
            selected: &[0],
            columns: &columns,
            times: None,
            read_ns: 77,
            segments: &segments,
            output_bytes_max: 0,
            deadline: None,
        };
        let (request, mut tables) = (Request::default(), Tables::default());
        request.write(&input, &mut tables);
        request.set_buffer(4096, 10);
        let word = |word| read(request.address(), word);
        assert_eq!(word(layout::REQUEST_BLOCK), input.block.as_ptr() as i64);
        assert_eq!(word(layout::REQUEST_TIMES), 0);
        assert_eq!((word(layout::REQUEST_READ_NS), word(layout::REQUEST_OUT)), (77, 4096));
        let second = word(layout::REQUEST_COLUMNS) + layout::COLUMN_WORDS * 8;
        assert_eq!(read(second, layout::COLUMN_NAME), columns[1].name.as_ptr() as i64);
        assert_eq!(read(second, layout::COLUMN_CELLS), cells.as_ptr() as i64);
        let segment = word(layout::REQUEST_SEGMENTS) + layout::SEGMENT_WORDS * 8;
        assert_eq!(read(segment, layout::SEGMENT_FIRST_ROW), 1);
        let constant = read(segment, layout::SEGMENT_CONSTANTS);
        assert_eq!(read(constant, layout::CONSTANT_VALUE_BYTES), 3);
        assert_eq!(word(layout::REQUEST_SEGMENTS_LEN), 2);
    }
}
