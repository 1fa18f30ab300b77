//! What an expression is computed over.

use crate::json::Walk;
use crate::value::{Error, Value};
use millstream_columns::{Column, Kind, Value as Cell};

/// The rows of a batch, as an expression sees them.
#[derive(Clone, Copy)]
pub struct Input<'a> {
    /// The bytes that cells point into.
    pub block: &'a [u8],
    /// Rows of the batch.
    pub rows: usize,
    /// Which of them are chosen: ranges of rows, each as (first row, row behind the last one), in
    /// rising order and apart from each other.
    pub runs: &'a [(usize, usize)],
    /// What a name stands for. It is asked once for each name and batch.
    pub field: &'a dyn Fn(&str) -> Option<Field<'a>>,
    /// Members of events that have no column of their own, as cells of [`Kind::Members`].
    pub rest: Option<&'a Column>,
}

/// What a name stands for in a batch.
#[derive(Clone, Copy)]
pub enum Field<'a> {
    /// A cell per row.
    Column(&'a Column),
    /// Texts that hold for many rows: each with the first row it holds for, in rising order. Rows
    /// before the first one have no value.
    Constants(&'a [(usize, &'a str)]),
    /// A time per row, in nanoseconds since 1970.
    Times(&'a [i64]),
}

/// Rows whose condition was false, or whose computed field has no value, for a reason. A row counts
/// once, and not if its outcome does not depend on the error: `error || true` is true.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// A field, a member or an element is not there.
    pub missing_field: u64,
    /// A value is of a type, or a text of a form, that the operation is not defined for.
    pub type_error: u64,
    /// A number left its range, a division was by zero, or the result is larger than values may be.
    pub arithmetic_error: u64,
    /// The expression took more steps than it may for one event.
    pub step_limit: u64,
}

impl Counts {
    pub(crate) fn add(&mut self, error: Error) {
        match error {
            Error::Missing => self.missing_field += 1,
            Error::Mistyped => self.type_error += 1,
            Error::Arithmetic => self.arithmetic_error += 1,
            Error::StepLimit => self.step_limit += 1,
        }
    }
}

/// The names that lead to a value: `a.b` is the column `a.b`, or the member `b` of the objects in
/// `a`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Path {
    parts: Vec<String>,
    /// The whole path, then without its last part, and so on.
    names: Vec<String>,
}

impl Path {
    pub fn new(parts: Vec<String>) -> Path {
        let names = (1..=parts.len()).rev().map(|len| parts[..len].join(".")).collect();
        Path { parts, names }
    }

    /// The whole path with dots.
    pub fn name(&self) -> &str {
        self.names.first().map_or("", String::as_str)
    }

    /// Where its values lie in a batch.
    fn bind<'a>(&self, input: &Input<'a>) -> Vec<Place<'a>> {
        let len = self.parts.len();
        let by_len = self
            .names
            .iter()
            .enumerate()
            .map(|(cut, name)| (name, self.parts[len - cut..].to_vec()));
        let fields = by_len
            .filter_map(|(name, members)| Some(Place { field: (input.field)(name)?, members }));
        let rest = input
            .rest
            .map(|rest| Place { field: Field::Column(rest), members: self.parts.clone() });
        fields.chain(rest).collect()
    }
}

/// A field, and the members to follow from it.
struct Place<'a> {
    field: Field<'a>,
    members: Vec<String>,
}

/// A value before anybody computes with it.
#[derive(Clone, Copy)]
pub enum Raw<'a> {
    Cell(Cell<'a>),
    Time(i64),
}

/// The paths of an expression in a batch.
pub struct Bound<'a> {
    pub input: Input<'a>,
    places: Vec<Vec<Place<'a>>>,
}

impl<'a> Bound<'a> {
    pub fn new(paths: &[Path], input: &Input<'a>) -> Bound<'a> {
        Bound { input: *input, places: paths.iter().map(|path| path.bind(input)).collect() }
    }

    /// The field that a path is, if its values lie nowhere else.
    pub fn only(&self, path: usize) -> Option<Field<'a>> {
        match &self.places[path][..] {
            [place] if place.members.is_empty() => Some(place.field),
            _ => None,
        }
    }

    /// The value of a path in a row.
    pub fn raw(&self, path: usize, row: usize) -> Option<Raw<'a>> {
        self.places[path].iter().find_map(|place| self.follow(place, row))
    }

    /// The value of a field whose name is found out only now.
    pub fn named(&self, name: &str, row: usize) -> Option<Raw<'a>> {
        let known = (self.input.field)(name)
            .and_then(|field| self.follow(&Place { field, members: Vec::new() }, row));
        known.or_else(|| {
            let rest = self.input.rest?.value(self.input.block, row);
            member(rest, name).map(Raw::Cell)
        })
    }

    fn follow(&self, place: &Place<'a>, row: usize) -> Option<Raw<'a>> {
        let mut value = match place.field {
            Field::Column(column) => column.value(self.input.block, row),
            Field::Constants(list) => {
                let behind = list.partition_point(|(first, _)| *first <= row);
                Cell::Text(list.get(behind.checked_sub(1)?)?.1.as_bytes())
            }
            Field::Times(times) => return place.members.is_empty().then(|| Raw::Time(times[row])),
        };
        for name in &place.members {
            value = member(value, name)?;
        }
        (value != Cell::Absent).then_some(Raw::Cell(value))
    }
}

fn member<'a>(value: Cell<'a>, name: &str) -> Option<Cell<'a>> {
    match value {
        Cell::Object(text) => Walk::container(text).find(name.as_bytes()),
        Cell::Members(text) => Walk::members(text).find(name.as_bytes()),
        _ => None,
    }
}

impl<'a> Raw<'a> {
    /// It as a value to compute with.
    pub fn value(self) -> Result<Value<'a>, Error> {
        match self {
            Raw::Time(ns) => Ok(Value::Time(ns)),
            Raw::Cell(cell) => Value::of_cell(cell),
        }
    }
}

/// The kind of the cell that holds such a value, if its bytes are the same.
pub fn kind_of(cell: Cell<'_>) -> (Kind, &[u8]) {
    match cell {
        Cell::Absent => (Kind::Absent, &[]),
        Cell::Null => (Kind::Null, &[]),
        Cell::Bool(false) => (Kind::False, &[]),
        Cell::Bool(true) => (Kind::True, &[]),
        Cell::Int(text) => (Kind::Int, text),
        Cell::Float(text) => (Kind::Float, text),
        Cell::Time(text) => (Kind::Time, text),
        Cell::Text(text) => (Kind::Text, text),
        Cell::Escaped(text) => (Kind::Escaped, text),
        Cell::Object(text) => (Kind::Object, text),
        Cell::Array(text) => (Kind::Array, text),
        Cell::Members(text) => (Kind::Members, text),
    }
}
