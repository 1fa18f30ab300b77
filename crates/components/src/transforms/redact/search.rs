//! Searches the columns of a batch for data to hide.

use super::SECRET;
use super::json::{Token, is_json, tokens, unescape};
use millstream_detect::scan::ESCAPE;
use millstream_detect::{Candidate, Detectors, Hit, join};
use millstream_model::{Batch, Cell, CellKind, Column};

/// A match.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SearchHit {
    /// Row of the match.
    pub row: usize,
    /// Index of the column whose buffer contains the match; `None` if the block contains it.
    pub own: Option<usize>,
    /// Range of the match in the buffer or block, and the detector.
    pub hit: Hit,
}

/// A search through one batch.
pub struct Search<'b> {
    detectors: &'b Detectors,
    batch: &'b Batch,
    /// Candidate positions in the block.
    candidates: Vec<Candidate>,
    scratch: Vec<Candidate>,
    hits: Vec<Hit>,
    found: Vec<SearchHit>,
}

impl<'b> Search<'b> {
    /// Creates a search of this batch.
    pub fn new(detectors: &'b Detectors, batch: &'b Batch) -> Search<'b> {
        let (candidates, scratch, hits, found) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        Search { detectors, batch, candidates, scratch, hits, found }
    }

    /// Returns all matches in these columns.
    pub fn search(mut self, columns: &[Column]) -> Vec<SearchHit> {
        self.scan(columns);
        for (index, column) in columns.iter().enumerate() {
            let is_secret = self.detectors.is_secret_name(column.name.as_bytes());
            for (begin, end) in self.batch.runs(0, self.batch.rows()) {
                for row in begin..end {
                    let cell = column.cells()[row];
                    if !cell.is_empty() && (is_secret || self.is_suspect(cell)) {
                        self.cell(index, column, row, is_secret);
                    }
                }
            }
        }
        self.found
    }

    /// Scans the part of the block that the columns refer to.
    fn scan(&mut self, columns: &[Column]) {
        let cells = columns.iter().flat_map(|column| column.cells());
        let in_block = cells.filter(|cell| !cell.is_own() && !cell.is_empty());
        let ends = |(least, most): (usize, usize), cell: &Cell| {
            (least.min(cell.start()), most.max(cell.start() + cell.len()))
        };
        let (begin, end) = in_block.fold((usize::MAX, 0), ends);
        if begin < end {
            self.detectors.candidates(&self.batch.block[begin..end], &mut self.candidates);
            self.candidates.iter_mut().for_each(|candidate| candidate.at += begin as u32);
        }
    }

    /// Returns whether a value must be searched.
    #[inline(always)]
    fn is_suspect(&self, cell: Cell) -> bool {
        // Escapes may hide matches, and names of members may be secret.
        let is_plain = (cell.kind() as u8) < CellKind::Escaped as u8;
        if is_plain
            && !cell.is_own()
            && self.candidates.is_empty()
            && !self.detectors.has_patterns()
        {
            return false;
        }
        !is_plain || cell.is_own() || self.detectors.has_patterns() || self.mask(cell) != 0
    }

    /// Returns the detectors that may match in a cell of the block.
    fn mask(&self, cell: Cell) -> u8 {
        let (start, end) = (cell.start() as u32, (cell.start() + cell.len()) as u32);
        let first = self.candidates.partition_point(|candidate| candidate.at < start);
        let within = self.candidates[first..].iter().take_while(|candidate| candidate.at < end);
        within.fold(0, |mask, candidate| mask | candidate.mask)
    }

    /// Searches one value.
    fn cell(&mut self, index: usize, column: &Column, row: usize, is_secret: bool) {
        let cell = column.cells()[row];
        let bytes = column.bytes(&self.batch.block, cell);
        self.hits.clear();
        match cell.kind() {
            CellKind::Object | CellKind::Array | CellKind::Members => self.json(bytes, is_secret),
            _ if is_secret => self.hits.push(Hit { start: 0, end: bytes.len(), what: SECRET }),
            CellKind::Escaped => self.inside(bytes, 0),
            kind => {
                let mask = if cell.is_own() { self.mask_of(bytes) } else { self.mask(cell) };
                if mask != 0 || self.detectors.has_patterns() {
                    match kind == CellKind::Text && is_json(bytes) {
                        true => self.json(bytes, false),
                        false => self.plain(bytes, mask),
                    }
                }
            }
        }
        let own = cell.is_own().then_some(index);
        let place = |hit: &Hit| Hit {
            start: hit.start + cell.start(),
            end: hit.end + cell.start(),
            ..*hit
        };
        self.found.extend(self.hits.iter().map(|hit| SearchHit { row, own, hit: place(hit) }));
    }

    /// Searches `text`, and also its unescaped form if the text may contain escapes.
    fn plain(&mut self, text: &[u8], mask: u8) {
        self.detectors.find(text, mask, &mut self.hits);
        if mask != 0 && memchr::memmem::find(text, ESCAPE).is_some() {
            self.inside(text, 0);
            join(&mut self.hits, 0);
        }
    }

    /// Returns the detectors that may match in `text`.
    fn mask_of(&mut self, text: &[u8]) -> u8 {
        self.scratch.clear();
        self.detectors.candidates(text, &mut self.scratch);
        self.scratch.iter().fold(0, |mask, candidate| mask | candidate.mask)
    }

    /// Searches text without escapes. JSON is searched by its strings and numbers.
    fn text(&mut self, text: &[u8]) {
        let mask = self.mask_of(text);
        if mask == 0 && !self.detectors.has_patterns() {
            return;
        }
        match is_json(text) {
            true => self.json(text, false),
            false => self.detectors.find(text, mask, &mut self.hits),
        }
    }

    /// Searches the content of a JSON string that starts at `offset`.
    fn inside(&mut self, inside: &[u8], offset: usize) {
        let before = self.hits.len();
        if !inside.contains(&b'\\') {
            self.text(inside);
            self.hits[before..].iter_mut().for_each(|hit| shift(hit, offset));
            return;
        }
        let inner = unescape(inside);
        self.text(&inner.text);
        for hit in &mut self.hits[before..] {
            let place = inner.range(hit.start..hit.end);
            (hit.start, hit.end) = (place.start, place.end);
            shift(hit, offset);
        }
    }

    /// Searches the strings and numbers of JSON. If `is_secret` is set, all of them except names
    /// are secret.
    fn json(&mut self, text: &[u8], is_secret: bool) {
        let detectors = self.detectors;
        for Token { range, is_string, is_name, is_secret: of_secret } in
            tokens(text, |name| detectors.is_secret_name(name))
        {
            let before = self.hits.len();
            if range.is_empty() {
                continue;
            }
            match () {
                () if of_secret || is_secret && !is_name => {
                    self.hits.push(Hit { start: range.start, end: range.end, what: SECRET });
                }
                () if is_string => self.inside(&text[range.clone()], range.start),
                () => {
                    self.text(&text[range.clone()]);
                    self.hits[before..].iter_mut().for_each(|hit| shift(hit, range.start));
                }
            }
        }
    }
}

fn shift(hit: &mut Hit, by: usize) {
    hit.start += by;
    hit.end += by;
}
