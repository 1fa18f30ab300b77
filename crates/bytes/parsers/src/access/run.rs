//! Runs the steps of a format on the lines of a region. Each step runs on all lines before the next
//! step starts, so that the CPU overlaps the work on several lines.

use super::literal::Until;
use super::program::{Program, Take};
use super::{Deferred, MISMATCH, Rework};
use crate::Failure;
use crate::fields::Table;
use crate::region::{Bits, Line, Region};
use millstream_columns::{Cell, Kind};

/// Bitmaps of a region, apart from the bitmaps for the ends of variables.
#[derive(Clone, Debug)]
pub(super) struct Classes {
    pub digits: Bits,
    /// Characters that a method may contain.
    pub tokens: Bits,
    pub backslashes: Bits,
}

impl Classes {
    pub fn new() -> Classes {
        Classes {
            digits: Bits::new(b"0123456789"),
            tokens: Bits::new(b"ABCDEFGHIJKLMNOPQRSTUVWXYZ_-"),
            backslashes: Bits::new(b"\\"),
        }
    }

    pub fn build(&mut self, text: &[u8]) {
        let Classes { digits, tokens, backslashes } = self;
        [digits, tokens, backslashes].into_iter().for_each(|bits| bits.build(text));
    }
}

/// A region whose lines are being matched.
pub(super) struct Run<'a> {
    pub region: Region<'a>,
    pub classes: &'a Classes,
    pub ends: &'a [Bits],
    pub failures: &'a mut Vec<Failure>,
    pub later: &'a mut Vec<Deferred>,
}

impl Run<'_> {
    pub fn run(&mut self, program: &Program, lines: &mut Vec<Line>, table: &mut Table<'_>) {
        self.prefix(program, lines);
        for step in &program.steps {
            let all = match step.take {
                Take::Text(slot) => self.text(&step.until, lines, table[slot]),
                Take::Int(slot) => self.numbers::<false>(&step.until, lines, table[slot], slot),
                Take::Float(slot) => self.numbers::<true>(&step.until, lines, table[slot], slot),
                Take::Request(slot) => {
                    let all = self.text(&step.until, lines, table[slot]);
                    if let [request, method, path, protocol, ..] = &mut table[slot..] {
                        self.request(lines, request, [method, path, protocol]);
                    }
                    all
                }
            };
            if !all {
                self.remove_mismatches(lines);
            }
        }
    }

    fn prefix(&mut self, program: &Program, lines: &mut Vec<Line>) {
        if program.prefix.len() == 0 {
            return;
        }
        for line in lines.iter_mut() {
            match program.prefix.matches(self.region.bytes, line.at as usize, line.end as usize) {
                true => line.at += program.prefix.len() as u32,
                false => line.set_mismatch(),
            }
        }
        self.remove_mismatches(lines);
    }

    /// Matches a string in each line. Returns false if some lines do not match.
    #[inline(always)]
    fn text(&self, until: &Until, lines: &mut [Line], cells: &mut [Cell]) -> bool {
        let (text, quick, mut all) = (self.region.bytes, until.quick(), true);
        for line in lines {
            let start = line.at as usize;
            let Some(end) = until.find(quick, self.ends, text, start, line.end as usize) else {
                line.set_mismatch();
                all = false;
                continue;
            };
            cells[line.row as usize] = self.value(start, end);
            line.at = (end + quick.len) as u32;
        }
        all
    }

    /// Returns a string, or an absent cell if the value is `-` or empty.
    #[inline(always)]
    fn value(&self, start: usize, end: usize) -> Cell {
        let first = self.region.bytes.get(start).copied().unwrap_or_default();
        // Branch-free, because the presence of a value is hard to predict.
        let is_none = (end == start) | ((end == start + 1) & (first == b'-'));
        if is_none { Cell::ABSENT } else { self.region.part(Kind::Text, start, end) }
    }

    /// Matches a number in each line. Returns false if some lines do not match.
    #[inline(always)]
    fn numbers<const FLOAT: bool>(
        &mut self,
        until: &Until,
        lines: &mut [Line],
        cells: &mut [Cell],
        slot: usize,
    ) -> bool {
        let (text, quick, mut all) = (self.region.bytes, until.quick(), true);
        for line in lines {
            let (start, limit) = (line.at as usize, line.end as usize);
            let (kind, end) = self.number::<FLOAT>(start);
            if kind != Kind::Absent && quick.matches(text, end, limit) {
                cells[line.row as usize] = self.region.part(kind, start, end);
                line.at = (end + quick.len) as u32;
            } else {
                all &= self.slow_number::<FLOAT>(until, line, cells, slot);
            }
        }
        all
    }

    /// Parses a number in a common form at `start`. Returns its end and its kind, which is absent
    /// if the number has another form.
    #[inline(always)]
    fn number<const FLOAT: bool>(&self, start: usize) -> (Kind, usize) {
        let (text, digits) = (self.region.bytes, &self.classes.digits);
        let point = digits.skip(start);
        let whole = point - start;
        let is_number = whole == 1 || (whole > 1 && whole <= 18 && text[start] != b'0');
        let kind = if is_number { Kind::Int } else { Kind::Absent };
        if !FLOAT || text.get(point) != Some(&b'.') {
            return (kind, point);
        }
        let end = digits.skip(point + 1);
        (
            if is_number && end > point + 1 && end - start < 300 {
                Kind::Float
            } else {
                Kind::Absent
            },
            end,
        )
    }

    /// Handles a value that is not a number in a common form. Returns whether the line still
    /// matches.
    #[cold]
    fn slow_number<const FLOAT: bool>(
        &mut self,
        until: &Until,
        line: &mut Line,
        cells: &mut [Cell],
        slot: usize,
    ) -> bool {
        let start = line.at as usize;
        let Some(end) = until.find_slow(self.ends, self.region.bytes, start, line.end as usize)
        else {
            line.set_mismatch();
            return false;
        };
        let row = line.row as usize;
        cells[row] = self.value(start, end);
        if cells[row].is_present() {
            self.later.push(Deferred {
                row,
                slot,
                rewrite: if FLOAT { Rework::Float } else { Rework::Int },
            });
        }
        line.at = (end + until.literal.len()) as u32;
        true
    }

    /// Records the lines that do not match, and removes them from `lines`.
    #[cold]
    fn remove_mismatches(&mut self, lines: &mut Vec<Line>) {
        lines.retain(|line| {
            if line.is_mismatch() {
                let at = ((line.at & !MISMATCH_BIT) - line.begin) as usize;
                self.failures.push(Failure { row: line.row as usize, reason: MISMATCH, at });
            }
            !line.is_mismatch()
        });
    }

    /// Splits request lines into method, path and protocol.
    #[inline(always)]
    fn request(&self, lines: &[Line], request: &[Cell], parts: [&mut [Cell]; 3]) {
        let [methods, paths, protocols] = parts;
        let base = self.region.cell.start();
        for line in lines.iter().filter(|line| !line.is_mismatch()) {
            let row = line.row as usize;
            let (start, len) = (request[row].start().wrapping_sub(base), request[row].len());
            let Some([method, path, protocol]) =
                (len > 0).then(|| self.parts(start, start + len)).flatten()
            else {
                continue;
            };
            methods[row] = self.region.part(Kind::Text, start, method);
            paths[row] = self.region.part(Kind::Text, method + 1, path);
            if protocol > path {
                protocols[row] = self.region.part(Kind::Text, path + 1, protocol);
            }
        }
    }

    /// Finds the ends of the method, path and protocol in a request line. Returns `None` if the
    /// line is not well-formed.
    #[inline(always)]
    fn parts(&self, start: usize, end: usize) -> Option<[usize; 3]> {
        let method = self.classes.tokens.skip(start);
        let text = self.region.bytes;
        if method == start || method >= end || text[method] != b' ' {
            return None;
        }
        let path = match protocol_at(&text[method..end]) {
            Some(at) => method + at,
            // An HTTP/0.9 request has no protocol and contains no other spaces.
            None => Some(end).filter(|end| !text[method + 1..*end].contains(&b' '))?,
        };
        (path > method + 1).then_some([method, path, end])
    }

    /// Records the values that contain escapes.
    pub fn escapes(&mut self, lines: &[Line], table: &Table<'_>) {
        let (base, backslashes) = (self.region.cell.start(), &self.classes.backslashes);
        for line in
            lines.iter().filter(|line| backslashes.find(line.begin as usize) < line.end as usize)
        {
            let row = line.row as usize;
            for (slot, cells) in table.iter().enumerate() {
                let cell = cells[row];
                let is_text = cell.is_present() && cell.kind() == Kind::Text;
                let start = cell.start().wrapping_sub(base);
                if is_text && backslashes.find(start) < start + cell.len() {
                    self.later.push(Deferred { row, slot, rewrite: Rework::Unescape });
                }
            }
        }
    }
}

/// Finds the space before the protocol in ` /path HTTP/1.1`. Returns `None` if there is no
/// protocol.
#[inline(always)]
fn protocol_at(text: &[u8]) -> Option<usize> {
    if let Some((rest, protocol)) = text.split_last_chunk::<9>()
        && protocol.starts_with(b" HTTP/")
        && protocol[7] == b'.'
        && protocol[6].is_ascii_digit()
        && protocol[8].is_ascii_digit()
    {
        return Some(rest.len());
    }
    let (rest, protocol) = text.split_last_chunk::<7>()?;
    (protocol.starts_with(b" HTTP/") && protocol[6].is_ascii_digit()).then_some(rest.len())
}

/// The bit of [`Line::at`] that marks a line that does not match. Positions never set this bit.
const MISMATCH_BIT: u32 = 1 << 31;

impl Line {
    fn set_mismatch(&mut self) {
        self.at |= MISMATCH_BIT;
    }

    fn is_mismatch(&self) -> bool {
        self.at & MISMATCH_BIT != 0
    }
}
