//! Evaluates conditions over whole columns, with one loop per comparison and without creating a
//! value per row. `eval.rs` evaluates all other expressions row by row.

use crate::ast::Operator;
use crate::eval::{evaluate_condition, holds};
use crate::input::{Bound, Field, Raw};
use crate::literal::Literal;
use crate::node::Node;
use crate::search::{Search, contains};
use crate::time;
use crate::value::{Value, compare, compare_mixed, is_equal};
use crate::verdict::{FALSE, MISSING, MISTYPED, TRUE, Verdict, verdict_of};
use memchr::memmem::Finder;
use millstream_columns::{Kind, Number, Value as Cell, parse_int};
use regex::bytes::Regex;

/// Maximum length of a string list for which a linear search is faster than a binary search.
const LINEAR_MAX: usize = 8;

/// A condition that is prepared for evaluation over columns.
#[derive(Debug)]
pub enum Kernel {
    Constant(bool),
    Compare(usize, Operator, Value<'static>),
    Text(usize, TextTest),
    In(usize, Set),
    Has(usize),
    /// A boolean field.
    Field(usize),
    Not(Box<Kernel>),
    /// The operands of `&&` if the decisive verdict is [`FALSE`], or of `||` if it is [`TRUE`].
    Joined(Vec<Kernel>, Verdict),
    Row(Node),
}

/// A string predicate.
#[derive(Debug)]
pub enum TextTest {
    StartsWith(Box<[u8]>),
    EndsWith(Box<[u8]>),
    Contains(Box<Search>),
    Matches(Regex),
}

/// The elements of a literal list.
#[derive(Debug)]
pub struct Set {
    /// The strings in the list. Both the strings and the integers are sorted.
    texts: Vec<Box<[u8]>>,
    ints: Vec<i64>,
}

/// The rows to evaluate.
#[derive(Clone, Copy)]
pub enum Selected<'s> {
    Runs(&'s [(usize, usize)]),
    Rows(&'s [u32]),
}

impl Selected<'_> {
    #[inline(always)]
    pub fn each(self, mut visit: impl FnMut(usize)) {
        match self {
            Selected::Runs(runs) => {
                runs.iter().for_each(|(start, end)| (*start..*end).for_each(&mut visit))
            }
            Selected::Rows(rows) => rows.iter().for_each(|row| visit(*row as usize)),
        }
    }

    fn count(self) -> usize {
        match self {
            Selected::Runs(runs) => runs.iter().map(|(start, end)| end - start).sum(),
            Selected::Rows(rows) => rows.len(),
        }
    }
}

impl Kernel {
    pub fn new(node: Node) -> Kernel {
        match node {
            Node::Constant(Value::Bool(value)) => Kernel::Constant(value),
            Node::Field(path) => Kernel::Field(path),
            Node::HasField(path) => Kernel::Has(path),
            Node::Not(operand) => Kernel::Not(Kernel::new(*operand).into()),
            Node::All(list) => Kernel::Joined(parts(list, Node::All), FALSE),
            Node::Any(list) => Kernel::Joined(parts(list, Node::Any), TRUE),
            Node::Matches(operand, regex) => match *operand {
                Node::Field(path) => Kernel::Text(path, TextTest::Matches(regex)),
                operand => Kernel::Row(Node::Matches(operand.into(), regex)),
            },
            Node::Binary(operator, parts) => Kernel::of_binary(operator, *parts),
            Node::Call(function, list) => match text_test(function.name, &list) {
                Some((path, test)) => Kernel::Text(path, test),
                None => Kernel::Row(Node::Call(function, list)),
            },
            node => Kernel::Row(node),
        }
    }

    fn of_binary(operator: Operator, parts: (Node, Node)) -> Kernel {
        match (operator, operator.swapped(), parts) {
            (Operator::In, _, (Node::Field(path), Node::Constant(list))) => match Set::new(&list) {
                Some(set) => Kernel::In(path, set),
                None => Kernel::Row(Node::Binary(
                    operator,
                    Box::new((Node::Field(path), Node::Constant(list))),
                )),
            },
            (_, Some(_), (Node::Field(path), Node::Constant(value))) => {
                Kernel::Compare(path, operator, value)
            }
            (_, Some(swapped), (Node::Constant(value), Node::Field(path))) => {
                Kernel::Compare(path, swapped, value)
            }
            (_, _, parts) => Kernel::Row(Node::Binary(operator, parts.into())),
        }
    }

    /// Returns the number of parts that contain macros. Each part has a separate step limit per
    /// row, so at most one part may contain macros.
    pub fn macros(&self) -> usize {
        match self {
            Kernel::Not(operand) => operand.macros(),
            Kernel::Joined(parts, _) => parts.iter().map(Kernel::macros).sum(),
            Kernel::Row(node) => usize::from(node.has_macro()),
            _ => 0,
        }
    }

    /// Writes the verdict of each selected row to the row's position in `out`.
    pub fn run(
        &self,
        bound: &Bound<'_>,
        selected: Selected<'_>,
        out: &mut [Verdict],
        scratch: &mut Scratch,
    ) {
        match self {
            Kernel::Constant(value) => selected.each(|row| out[row] = Verdict::from(*value)),
            Kernel::Compare(path, operator, literal) => {
                Cells { bound, path: *path, selected }.compare(*operator, literal, out);
            }
            Kernel::Text(path, test) => Cells { bound, path: *path, selected }.text(test, out),
            Kernel::In(path, set) => {
                let is_in = |cell: Cell<'_>| set.verdict(cell);
                Cells { bound, path: *path, selected }.each(out, is_in, |_| FALSE);
            }
            Kernel::Has(path) => {
                Cells { bound, path: *path, selected }.each(out, |_| TRUE, |_| TRUE);
                selected.each(|row| out[row] &= TRUE);
            }
            Kernel::Field(path) => {
                let is_true = |cell: Cell<'_>| {
                    verdict_of(Value::of_cell(cell).and_then(|value| value.bool()))
                };
                Cells { bound, path: *path, selected }.each(out, is_true, |_| MISTYPED);
            }
            Kernel::Not(operand) => {
                operand.run(bound, selected, out, scratch);
                selected.each(|row| out[row] ^= Verdict::from(out[row] <= TRUE));
            }
            Kernel::Joined(parts, decisive) => {
                joined(parts, *decisive, bound, selected, out, scratch);
            }
            Kernel::Row(node) => {
                selected.each(|row| out[row] = verdict_of(evaluate_condition(node, bound, row)))
            }
        }
    }
}

/// Converts the operands of `&&` or `||`. Adjacent operands that contain macros become one part, so
/// that they share the step limit of a row.
fn parts(list: Vec<Node>, join: fn(Vec<Node>) -> Node) -> Vec<Kernel> {
    let (mut parts, mut macros) = (Vec::new(), Vec::new());
    let take = |macros: &mut Vec<Node>| match macros.len() {
        0 | 1 => macros.pop().map(Kernel::new),
        _ => Some(Kernel::Row(join(std::mem::take(macros)))),
    };
    for node in list {
        if node.has_macro() {
            macros.push(node);
            continue;
        }
        parts.extend(take(&mut macros));
        parts.push(Kernel::new(node));
    }
    parts.extend(take(&mut macros));
    parts
}

/// Evaluates each part only for the rows that previous parts have not decided.
fn joined(
    parts: &[Kernel],
    decisive: Verdict,
    bound: &Bound<'_>,
    selected: Selected<'_>,
    out: &mut [Verdict],
    scratch: &mut Scratch,
) {
    let Some((first, others)) = parts.split_first() else { return };
    first.run(bound, selected, out, scratch);
    let (mut undecided, mut verdicts) = (scratch.rows(), scratch.verdicts(out.len()));
    for part in others {
        undecided.clear();
        selected.each(|row| {
            if out[row] != decisive {
                undecided.push(row as u32);
            }
        });
        let remaining =
            if undecided.len() == selected.count() { selected } else { Selected::Rows(&undecided) };
        part.run(bound, remaining, &mut verdicts, scratch);
        remaining.each(|row| {
            // Keep the first error, unless this part decides the row.
            if verdicts[row] == decisive || out[row] <= TRUE {
                out[row] = verdicts[row];
            }
        });
    }
    scratch.give_back(undecided, verdicts);
}

/// Buffers that evaluations share, so that evaluating a condition for a few rows does not allocate
/// or clear one byte per row of the batch.
#[derive(Debug, Default)]
pub struct Scratch {
    rows: Vec<Vec<u32>>,
    verdicts: Vec<Vec<Verdict>>,
}

impl Scratch {
    fn rows(&mut self) -> Vec<u32> {
        self.rows.pop().unwrap_or_default()
    }

    /// Returns verdicts for at least `rows` rows. Their values are left over from an earlier
    /// evaluation.
    pub(crate) fn verdicts(&mut self, rows: usize) -> Vec<Verdict> {
        let mut verdicts = self.verdicts.pop().unwrap_or_default();
        if verdicts.len() < rows {
            verdicts.resize(rows, FALSE);
        }
        verdicts
    }

    fn give_back(&mut self, rows: Vec<u32>, verdicts: Vec<Verdict>) {
        self.rows.push(rows);
        self.give_back_verdicts(verdicts);
    }

    pub(crate) fn give_back_verdicts(&mut self, verdicts: Vec<Verdict>) {
        self.verdicts.push(verdicts);
    }
}

fn text_test(name: &str, list: &[Node]) -> Option<(usize, TextTest)> {
    let [Node::Field(path), Node::Constant(Value::Text(text))] = list else { return None };
    let text: Box<[u8]> = text[..].into();
    let test = match name {
        "startsWith" => TextTest::StartsWith(text),
        "endsWith" => TextTest::EndsWith(text),
        "contains" => TextTest::Contains(Search(Finder::new(&text).into_owned()).into()),
        _ => return None,
    };
    Some((*path, test))
}

/// Compares a missing value, or a value whose type differs from the literal's. `None` as the
/// operator means a string predicate.
#[cold]
fn other(cell: Cell<'_>, operator: Option<Operator>) -> Verdict {
    match (Value::of_cell(cell), operator) {
        (Err(error), _) => verdict_of(Err(error)),
        (Ok(_), Some(Operator::Equal)) => FALSE,
        (Ok(_), Some(Operator::Unequal)) => TRUE,
        (Ok(_), _) => MISTYPED,
    }
}

/// The selected cells of a path.
struct Cells<'b, 'a> {
    bound: &'b Bound<'a>,
    path: usize,
    selected: Selected<'b>,
}

impl Cells<'_, '_> {
    /// Computes the verdict of each cell or time.
    #[inline(always)]
    fn each(
        &self,
        out: &mut [Verdict],
        of_cell: impl Fn(Cell<'_>) -> Verdict,
        of_time: impl Fn(i64) -> Verdict,
    ) {
        let (bound, path) = (self.bound, self.path);
        match bound.single_field(path) {
            Some(Field::Column(column)) => {
                let block = bound.input.block;
                return self.selected.each(|row| {
                    out[row] = match column.value(block, row) {
                        Cell::Absent => MISSING,
                        cell => of_cell(cell),
                    }
                });
            }
            Some(Field::Constants(list)) => return self.each_constant(list, out, of_cell),
            _ => {}
        }
        self.selected.each(|row| {
            out[row] = match bound.raw(path, row) {
                None => MISSING,
                Some(Raw::Cell(cell)) => of_cell(cell),
                Some(Raw::Time(ns)) => of_time(ns),
            }
        });
    }

    /// Computes the verdict of each constant once, and sets it for all of its rows.
    fn each_constant(
        &self,
        list: &[(usize, &str)],
        out: &mut [Verdict],
        of_cell: impl Fn(Cell<'_>) -> Verdict,
    ) {
        let (mut until, mut verdict) = (0, MISSING);
        self.selected.each(|row| {
            if row >= until {
                let after = list.partition_point(|(first, _)| *first <= row);
                let value = after.checked_sub(1).map(|at| Cell::Text(list[at].1.as_bytes()));
                verdict = value.map_or(MISSING, &of_cell);
                until = list.get(after).map_or(usize::MAX, |(first, _)| *first);
            }
            out[row] = verdict;
        });
    }

    fn compare(&self, operator: Operator, literal: &Value<'static>, out: &mut [Verdict]) {
        match literal {
            Value::Int(literal) => self.compare_int(operator, *literal, out),
            Value::Text(literal) => self.compare_text(operator, literal, out),
            Value::Time(literal) => {
                let of_time = |ns: i64| Verdict::from(holds(operator, Some(ns.cmp(literal))));
                let of_cell = |cell: Cell<'_>| match cell {
                    Cell::Time(text) => time::timestamp(text).map_or(MISTYPED, of_time),
                    cell => other(cell, Some(operator)),
                };
                self.each(out, of_cell, of_time);
            }
            literal => {
                let of_value = |value: Value<'_>| match operator {
                    Operator::Equal => is_equal(&value, literal),
                    Operator::Unequal => is_equal(&value, literal).map(|equal| !equal),
                    _ => compare(&value, literal).map(|ordering| holds(operator, ordering)),
                };
                let of_cell = |cell: Cell<'_>| verdict_of(Value::of_cell(cell).and_then(of_value));
                self.each(out, of_cell, |ns| verdict_of(of_value(Value::Time(ns))));
            }
        }
    }

    fn compare_int(&self, operator: Operator, literal: i64, out: &mut [Verdict]) {
        let range = range(operator, literal);
        let block = self.bound.input.block;
        let of_cell = |cell: Cell<'_>| match cell {
            Cell::Int(text) => match parse_int(text) {
                Some(value) => range.verdict(value),
                None => compare_float(cell, operator, literal),
            },
            cell => compare_float(cell, operator, literal),
        };
        let Some(Field::Column(column)) = self.bound.single_field(self.path) else {
            return self.each(out, of_cell, |_| other(Cell::Bool(true), Some(operator)));
        };
        self.selected.each(|row| {
            out[row] = match short_int(block, column.cells()[row]) {
                Some(value) => range.verdict(value),
                None => match column.value(block, row) {
                    Cell::Absent => MISSING,
                    cell => of_cell(cell),
                },
            };
        });
    }

    fn compare_text(&self, operator: Operator, literal: &[u8], out: &mut [Verdict]) {
        let of_cell = |cell: Cell<'_>| compare_text(cell, operator, literal);
        let (Some(Field::Column(column)), Operator::Equal | Operator::Unequal) =
            (self.bound.single_field(self.path), operator)
        else {
            return self.each(out, of_cell, |_| other(Cell::Bool(true), Some(operator)));
        };
        let (block, head) = (self.bound.input.block, Head::new(literal));
        self.selected.each(|row| {
            let cell = column.cells()[row];
            let head_matches = head
                .starts_with_at(block, cell)
                .map(|begins| begins & (cell.len() == literal.len()));
            out[row] = match head_matches {
                Some(is_equal) if !is_equal || literal.len() <= HEAD_BYTES => {
                    Verdict::from(is_equal == (operator == Operator::Equal))
                }
                _ => match column.value(block, row) {
                    Cell::Absent => MISSING,
                    cell => of_cell(cell),
                },
            };
        });
    }

    fn starts_with(&self, prefix: &[u8], out: &mut [Verdict]) {
        let of_cell = |cell: Cell<'_>| with_text(cell, |text| text.starts_with(prefix));
        let Some(Field::Column(column)) = self.bound.single_field(self.path) else {
            return self.each(out, of_cell, |_| MISTYPED);
        };
        let (block, head) = (self.bound.input.block, Head::new(prefix));
        self.selected.each(|row| {
            let cell = column.cells()[row];
            let head_matches = head
                .starts_with_at(block, cell)
                .map(|begins| begins & (cell.len() >= prefix.len()));
            out[row] = match head_matches {
                Some(does) if !does || prefix.len() <= HEAD_BYTES => Verdict::from(does),
                _ => match column.value(block, row) {
                    Cell::Absent => MISSING,
                    cell => of_cell(cell),
                },
            };
        });
    }

    fn text(&self, test: &TextTest, out: &mut [Verdict]) {
        let of_time = |_| MISTYPED;
        match test {
            TextTest::StartsWith(prefix) => self.starts_with(prefix, out),
            TextTest::EndsWith(suffix) => {
                self.each(out, |cell| with_text(cell, |text| text.ends_with(suffix)), of_time);
            }
            TextTest::Matches(regex) => {
                self.each(out, |cell| with_text(cell, |text| regex.is_match(text)), of_time);
            }
            TextTest::Contains(search) => {
                let of_cell =
                    |cell: Cell<'_>| with_text(cell, |text| search.0.find(text).is_some());
                match (self.bound.single_field(self.path), self.selected) {
                    (Some(Field::Column(column)), Selected::Runs(runs))
                        if contains(search, self.bound.input.block, column, runs, out, of_cell) => {
                    }
                    _ => self.each(out, of_cell, of_time),
                }
            }
        }
    }
}

#[inline(always)]
fn with_text(cell: Cell<'_>, test: impl FnOnce(&[u8]) -> bool) -> Verdict {
    match cell {
        Cell::Text(text) => Verdict::from(test(text)),
        Cell::Escaped(text) => Verdict::from(test(&millstream_columns::unescape(text))),
        cell => other(cell, None),
    }
}

/// Number of string bytes that are compared at once.
const HEAD_BYTES: usize = 8;

/// The prefix of a string: the first bytes as an integer, and a mask of the significant bytes.
struct Head {
    word: u64,
    mask: u64,
}

impl Head {
    fn new(text: &[u8]) -> Head {
        let len = text.len().min(HEAD_BYTES);
        let mut word = [0; HEAD_BYTES];
        word[..len].copy_from_slice(&text[..len]);
        let mask = u64::MAX.checked_shr(64 - 8 * len as u32).unwrap_or(0);
        Head { word: u64::from_le_bytes(word), mask }
    }

    /// Returns whether the bytes at the start of a string match the head of the prefix. These bytes
    /// can be beyond the string's end, so the caller must also check the string's length. Returns
    /// `None` if the cell is not an unescaped string in the block, or if it starts less than
    /// [`HEAD_BYTES`] before the block's end.
    #[inline(always)]
    fn starts_with_at(&self, block: &[u8], cell: millstream_columns::Cell) -> Option<bool> {
        if cell.kind() != Kind::Text || cell.is_own() {
            return None;
        }
        let bytes = block.get(cell.start()..cell.start() + HEAD_BYTES)?.try_into().ok()?;
        Some(u64::from_le_bytes(bytes) & self.mask == self.word)
    }
}

/// Parses an integer of one to seven digits, all digits at once. Returns `None` if the cell is not
/// such an integer in the block, or begins less than 8 bytes before the end of the block.
#[inline(always)]
fn short_int(block: &[u8], cell: millstream_columns::Cell) -> Option<i64> {
    const ZEROS: u64 = 0x3030_3030_3030_3030;
    let len = cell.len();
    if cell.kind() != Kind::Int || cell.is_own() || !(1..8).contains(&len) {
        return None;
    }
    let bytes = block.get(cell.start()..cell.start() + 8)?.try_into().ok()?;
    // Shifts the digits to the end and pads them with leading zeros.
    let text = u64::from_le_bytes(bytes) << (64 - 8 * len) | ZEROS >> (8 * len);
    let digits = text ^ ZEROS;
    let is_digits =
        (digits | digits.wrapping_add(0x0606_0606_0606_0606)) & 0xF0F0_F0F0_F0F0_F0F0 == 0;
    // Combines neighboring digits into numbers with two, four, and then eight digits.
    let pairs = digits.wrapping_mul(10 << 8 | 1) >> 8 & 0x00FF_00FF_00FF_00FF;
    let fours = pairs.wrapping_mul(100 << 16 | 1) >> 16 & 0x0000_FFFF_0000_FFFF;
    let value = fours.wrapping_mul(10_000 << 32 | 1) >> 32;
    is_digits.then_some(value as i64)
}

/// The integers for which a comparison holds: either inside or outside a range.
#[derive(Clone, Copy)]
struct Range {
    first: i64,
    last: i64,
    is_inverted: bool,
}

fn range(operator: Operator, literal: i64) -> Range {
    let (first, last, is_inverted) = match operator {
        Operator::Equal => (literal, literal, false),
        Operator::Unequal => (literal, literal, true),
        Operator::LessEqual => (i64::MIN, literal, false),
        Operator::Greater => (i64::MIN, literal, true),
        Operator::Less => (literal, i64::MAX, true),
        _ => (literal, i64::MAX, false),
    };
    Range { first, last, is_inverted }
}

impl Range {
    /// Returns the verdict for a value. Branchless, because values are unpredictable.
    #[inline(always)]
    fn verdict(self, value: i64) -> Verdict {
        Verdict::from(((value >= self.first) & (value <= self.last)) ^ self.is_inverted)
    }
}

fn compare_float(cell: Cell<'_>, operator: Operator, literal: i64) -> Verdict {
    match cell.number() {
        Some(Number::Int(value)) => Verdict::from(holds(operator, Some(value.cmp(&literal)))),
        Some(Number::Float(value)) => {
            let ordering = compare_mixed(literal, value).map(std::cmp::Ordering::reverse);
            Verdict::from(holds(operator, ordering))
        }
        None => other(cell, Some(operator)),
    }
}

#[inline(always)]
fn compare_text(cell: Cell<'_>, operator: Operator, literal: &[u8]) -> Verdict {
    let test = |text: &[u8]| match operator {
        Operator::Equal => text == literal,
        Operator::Unequal => text != literal,
        _ => holds(operator, Some(text.cmp(literal))),
    };
    match cell {
        Cell::Text(text) => Verdict::from(test(text)),
        Cell::Escaped(text) => Verdict::from(test(&millstream_columns::unescape(text))),
        cell => other(cell, Some(operator)),
    }
}

impl Set {
    /// Creates a set from a list. Returns `None` if the list contains anything except strings and
    /// integers.
    fn new(list: &Value<'static>) -> Option<Set> {
        let Value::List(list) = list else { return None };
        let mut set = Set { texts: Vec::new(), ints: Vec::new() };
        for value in &**list {
            match value {
                Value::Text(text) => set.texts.push(text[..].into()),
                Value::Int(value) => set.ints.push(*value),
                _ => return None,
            }
        }
        set.ints.sort_unstable();
        set.texts.sort_unstable();
        Some(set)
    }

    /// Returns the elements.
    pub fn literals(&self) -> impl Iterator<Item = Literal<'_>> {
        let texts = self.texts.iter().map(|text| Literal::Text(text));
        texts.chain(self.ints.iter().map(|value| Literal::Int(*value)))
    }

    fn has_text(&self, text: &[u8]) -> bool {
        match self.texts.len() {
            0..=LINEAR_MAX => self.texts.iter().any(|known| **known == *text),
            _ => self.texts.binary_search_by(|known| (**known).cmp(text)).is_ok(),
        }
    }

    fn verdict(&self, cell: Cell<'_>) -> Verdict {
        match cell {
            Cell::Text(text) => Verdict::from(self.has_text(text)),
            Cell::Escaped(text) => {
                Verdict::from(self.has_text(&millstream_columns::unescape(text)))
            }
            Cell::Int(_) | Cell::Float(_) => match cell.number() {
                Some(Number::Int(value)) => Verdict::from(self.ints.binary_search(&value).is_ok()),
                Some(Number::Float(value)) => Verdict::from(
                    self.ints
                        .iter()
                        .any(|int| compare_mixed(*int, value) == Some(std::cmp::Ordering::Equal)),
                ),
                None => MISTYPED,
            },
            cell => other(cell, Some(Operator::Equal)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_ints_are_parsed_at_once() {
        for value in (0..3000).chain([9_999, 12_345, 999_999, 1_000_000, 9_999_999]) {
            let text = format!("{value},next column");
            let cell = millstream_columns::Cell::new(Kind::Int, 0, text.find(',').unwrap());
            assert_eq!(short_int(text.as_bytes(), cell), Some(value));
        }
        for text in ["-1", "1.5", "", "1e3", "12345678", "1:", "/9", "\u{fc}"] {
            let block = format!("{text}        ");
            let cell = millstream_columns::Cell::new(Kind::Int, 0, text.len());
            assert_eq!(short_int(block.as_bytes(), cell), None, "{text}");
        }
        let last = millstream_columns::Cell::new(Kind::Int, 0, 3);
        assert_eq!(short_int(b"200", last), None, "the end of the block is not passed");
    }
}
