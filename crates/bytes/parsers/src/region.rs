//! Regions: groups of lines that are parsed together.

use crate::Input;
use millstream_columns::{Cell, Kind};
use millstream_scan::{ByteSet, bitmap};

/// Maximum number of lines in a region. Enough for the CPU to overlap work on several lines, and
/// few enough for their state to fit into the L1 cache.
const LINES_MAX: usize = 64;

/// Maximum size of a region in bytes, unless the region is a single line.
const REGION_BYTES_MAX: usize = 32 << 10;

/// An offset that is greater than every offset in a line.
pub(crate) const NOWHERE: usize = u32::MAX as usize;

/// A line of a region. Offsets are relative to the start of the region.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Line {
    /// Row of the line.
    pub row: u32,
    /// Start of the line.
    pub begin: u32,
    /// Position up to which the line has been parsed.
    pub at: u32,
    /// End of the line.
    pub end: u32,
}

/// Lines from consecutive rows in one buffer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Region<'a> {
    /// The bytes from the start of the first line to the end of the buffer, so that a whole word
    /// can be loaded at the end of a line.
    pub bytes: &'a [u8],
    /// The cell that spans all lines and the bytes between them.
    pub cell: Cell,
}

impl<'a> Region<'a> {
    /// Returns all lines and the bytes between them.
    pub fn text(&self) -> &'a [u8] {
        &self.bytes[..self.cell.len()]
    }

    /// Returns a cell for the bytes from `start` to `end`.
    #[inline(always)]
    pub fn part(&self, kind: Kind, start: usize, end: usize) -> Cell {
        self.cell.part(kind, start, end - start)
    }
}

/// Splits an input into regions.
pub(crate) struct Regions<'a> {
    input: Input<'a>,
    run: usize,
    row: usize,
}

impl<'a> Regions<'a> {
    pub fn new(input: &Input<'a>) -> Regions<'a> {
        Regions { input: *input, run: 0, row: input.runs.first().map_or(0, |run| run.0) }
    }

    /// Returns the next region, and replaces the contents of `lines` with its lines. Returns `None`
    /// after the last region.
    pub fn next(&mut self, lines: &mut Vec<Line>) -> Option<Region<'a>> {
        lines.clear();
        let (own, low) = self.peek().map(|cell| (cell.is_own(), cell.start()))?;
        let mut high = low;
        while let Some(cell) = self.peek().filter(|_| lines.len() < LINES_MAX) {
            let end = cell.start() + cell.len();
            let follows = cell.is_own() == own && cell.start() >= high;
            let fits = follows && end - low <= REGION_BYTES_MAX;
            if !fits && !lines.is_empty() {
                break;
            }
            let begin = (cell.start() - low) as u32;
            lines.push(Line { row: self.row as u32, begin, at: begin, end: (end - low) as u32 });
            high = end;
            self.row += 1;
        }
        let buffer = if own { self.input.own } else { self.input.block };
        let new = if own { Cell::own } else { Cell::new };
        Some(Region { bytes: &buffer[low..], cell: new(Kind::Text, low, high - low) })
    }

    /// Returns the cell of the next selected row, or `None` after the last one.
    #[inline]
    fn peek(&mut self) -> Option<Cell> {
        let mut run = self.input.runs.get(self.run)?;
        while self.row >= run.1 {
            self.run += 1;
            run = self.input.runs.get(self.run)?;
            self.row = run.0;
        }
        Some(self.input.cells[self.row])
    }
}

/// A bitmap of the bytes in a region that are in a set.
#[derive(Clone, Debug)]
pub(crate) struct Bits {
    set: ByteSet,
    bytes: Vec<u8>,
}

impl Bits {
    pub fn new(set: &[u8]) -> Bits {
        Bits { set: ByteSet::new(set), bytes: Vec::new() }
    }

    /// Builds the bitmap of a region.
    pub fn build(&mut self, text: &[u8]) {
        self.bytes.clear();
        bitmap(text, &self.set, &mut self.bytes);
        // Padding for windows at the end of the text.
        self.bytes.extend_from_slice(&[0; 16]);
    }

    /// Returns whether the region contains no byte in the set.
    pub fn is_empty(&self) -> bool {
        let (words, _) = self.bytes.as_chunks();
        words.iter().fold(0, |all, word| all | u64::from_le_bytes(*word)) == 0
    }

    /// Finds the first byte at or after `at` that is in the set. Returns [`NOWHERE`] if there is no
    /// such byte.
    #[inline(always)]
    pub fn find(&self, at: usize) -> usize {
        match self.window(at) {
            0 => self.find_far(at),
            window => at + window.trailing_zeros() as usize,
        }
    }

    /// Finds the first byte at or after `at` that is not in the set.
    #[inline(always)]
    pub fn skip(&self, at: usize) -> usize {
        // The shift brings in zeros, which end a run. A run that fills the window might continue
        // after it.
        let ones = (!self.window(at)).trailing_zeros() as usize;
        if ones < WINDOW { at + ones } else { self.skip_far(at) }
    }

    /// Loads at least [`WINDOW`] bits, starting at `at`.
    #[inline(always)]
    fn window(&self, at: usize) -> u64 {
        let bytes = self.bytes.get(at / 8..).and_then(|bytes| bytes.first_chunk());
        bytes.map_or(0, |bytes| u64::from_le_bytes(*bytes)) >> (at % 8)
    }

    #[inline(never)]
    fn find_far(&self, at: usize) -> usize {
        let mut at = at & !7;
        while at / 8 < self.bytes.len() {
            at += 64;
            match self.window(at) {
                0 => {}
                window => return at + window.trailing_zeros() as usize,
            }
        }
        NOWHERE
    }

    #[cold]
    fn skip_far(&self, mut at: usize) -> usize {
        loop {
            let ones = (!self.window(at)).trailing_zeros() as usize;
            at += ones.min(WINDOW);
            if ones < WINDOW {
                return at;
            }
        }
    }
}

/// Number of valid bits in a window, regardless of its offset.
const WINDOW: usize = 57;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bitmaps_find_and_skip_any_distance() {
        let mut bits = Bits::new(b"x");
        for (len, from) in (0..200).flat_map(|len| (0..20).map(move |from| (len, from))) {
            let mut text = vec![b'.'; from + len];
            text.extend_from_slice(b"x.");
            bits.build(&text);
            assert_eq!((bits.find(from), bits.find(from + len + 1)), (from + len, NOWHERE));
            assert_eq!(bits.skip(from), if len == 0 { from + 1 } else { from });
            let mut text = vec![b'x'; from + len];
            text.push(b'.');
            bits.build(&text);
            assert_eq!(bits.skip(from), from + len);
            bits.build(&text[..from + len]);
            assert_eq!(bits.skip(from), from + len, "it ends where the text ends");
        }
        bits.build(b"");
        assert!(
            bits.is_empty()
                && bits.find(0) == NOWHERE
                && bits.find(1 << 20) == NOWHERE
                && bits.skip(3) == 3
        );
    }

    #[test]
    fn regions_contain_every_selected_row_once() {
        let block = vec![b'a'; 200_000];
        let cell = |row: usize| match row % 7 {
            3 => Cell::own(Kind::Text, row, 5),
            4 => Cell::new(Kind::Text, 0, 100_000),
            _ => Cell::new(Kind::Text, row * 100, 90),
        };
        let cells: Vec<Cell> = (0..500).map(cell).collect();
        let runs = [(0, 1), (3, 3), (10, 200), (210, 500)];
        let input = Input { block: &block, own: &block, cells: &cells, runs: &runs, read_ns: 0 };
        let (mut regions, mut lines, mut seen) = (Regions::new(&input), Vec::new(), Vec::new());
        while let Some(region) = regions.next(&mut lines) {
            assert!(lines.len() <= LINES_MAX);
            for line in &lines {
                let part = region.part(Kind::Text, line.begin as usize, line.end as usize);
                assert_eq!(part, cells[line.row as usize]);
                seen.push(line.row as usize);
            }
        }
        assert_eq!(seen, input.rows().map(|(row, ..)| row).collect::<Vec<_>>());
        assert_eq!(seen.len(), 1 + 190 + 290);
    }
}
