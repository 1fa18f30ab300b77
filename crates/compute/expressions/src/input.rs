//! The input of an expression: the rows of a batch.

use crate::json::Walk;
use crate::value::{Error, Value};
use millstream_columns::{Column, ColumnView, Kind, Value as Cell};
use std::sync::Arc;

/// The rows of a batch.
#[derive(Clone, Copy)]
pub struct Input<'a> {
    /// The bytes to which cells refer.
    pub block: &'a [u8],
    /// Number of rows in the batch.
    pub rows: usize,
    /// The selected rows as ascending ranges without overlaps: first row, and row after the last
    /// one.
    pub runs: &'a [(usize, usize)],
    /// Resolves a name to a field. Called once per name and batch.
    pub field: &'a dyn Fn(&str) -> Option<Field<'a>>,
    /// Members of the events that have no column, as cells of [`Kind::Members`].
    pub rest: Option<&'a Column>,
}

/// The values of a field in a batch.
#[derive(Clone, Copy)]
pub enum Field<'a> {
    /// One cell per row.
    Column(ColumnView<'a>),
    /// Strings that each apply to many rows, with the first row to which they apply, in ascending
    /// order. Rows before the first string have no value.
    Constants(&'a [(usize, &'a str)]),
    /// One time per row, in nanoseconds since 1970.
    Times(&'a [i64]),
}

impl<'a> From<&'a Column> for Field<'a> {
    fn from(column: &'a Column) -> Field<'a> {
        Field::Column(column.view())
    }
}

/// For each kind of error, the number of rows that did not match a condition or got no computed
/// value because of the error. A row counts once, and only if the error affects the result: `error
/// || true` is true.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// A field, member or element is missing.
    pub missing_field: u64,
    /// A value has the wrong type for the operation, or a string has the wrong format.
    pub type_error: u64,
    /// A number is out of range, a divisor is zero, or the result exceeds the maximum size of a
    /// value.
    pub arithmetic_error: u64,
    /// The expression exceeded the maximum number of steps per event.
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

/// The names in the path of a value. `a.b` is the column `a.b`, or the member `b` of the objects in
/// `a`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Path {
    parts: Arc<[String]>,
    /// The whole path, the path without its last part, and so on.
    names: Vec<String>,
}

impl Path {
    pub fn new(parts: Vec<String>) -> Path {
        let names = (1..=parts.len()).rev().map(|len| parts[..len].join(".")).collect();
        Path { parts: parts.into(), names }
    }

    /// Returns the whole path, with dots between its parts.
    pub fn name(&self) -> &str {
        self.names.first().map_or("", String::as_str)
    }

    /// Resolves where the path's values are in a batch.
    fn bind<'a>(&self, input: &Input<'a>) -> Vec<Location<'a>> {
        let len = self.parts.len();
        let location = |field, first| Location { field, parts: self.parts.clone(), first };
        let by_name = self.names.iter().enumerate();
        let fields =
            by_name.filter_map(|(cut, name)| Some(location((input.field)(name)?, len - cut)));
        let rest = input.rest.map(|rest| location(Field::from(rest), 0));
        fields.chain(rest).collect()
    }
}

/// A field, and the path to the member within its values.
struct Location<'a> {
    field: Field<'a>,
    parts: Arc<[String]>,
    /// Index of the first path part that is a member.
    first: usize,
}

impl<'a> Location<'a> {
    /// Returns the location of a whole field's values.
    fn whole(field: Field<'a>) -> Location<'a> {
        Location { field, parts: Arc::default(), first: 0 }
    }

    fn members(&self) -> &[String] {
        &self.parts[self.first..]
    }
}

/// A value that is not decoded yet.
#[derive(Clone, Copy)]
pub enum Raw<'a> {
    Cell(Cell<'a>),
    Time(i64),
}

/// The paths of an expression, resolved for one batch.
pub struct Bound<'a> {
    pub input: Input<'a>,
    locations: Vec<Vec<Location<'a>>>,
}

impl<'a> Bound<'a> {
    pub fn new(paths: &[Path], input: &Input<'a>) -> Bound<'a> {
        Bound { input: *input, locations: paths.iter().map(|path| path.bind(input)).collect() }
    }

    /// Returns a path's field if that field contains all of the path's values.
    pub fn single_field(&self, path: usize) -> Option<Field<'a>> {
        match &self.locations[path][..] {
            [location] if location.members().is_empty() => Some(location.field),
            _ => None,
        }
    }

    /// Returns the value of a path in a row.
    pub fn raw(&self, path: usize, row: usize) -> Option<Raw<'a>> {
        self.locations[path].iter().find_map(|location| self.resolve(location, row))
    }

    /// Returns the value of a field whose name was computed.
    pub fn named(&self, name: &str, row: usize) -> Option<Raw<'a>> {
        let known =
            (self.input.field)(name).and_then(|field| self.resolve(&Location::whole(field), row));
        known.or_else(|| {
            let rest = self.input.rest?.value(self.input.block, row);
            member(rest, name).map(Raw::Cell)
        })
    }

    fn resolve(&self, location: &Location<'a>, row: usize) -> Option<Raw<'a>> {
        let mut value = match location.field {
            Field::Column(column) => column.value(self.input.block, row),
            Field::Constants(list) => {
                let after = list.partition_point(|(first, _)| *first <= row);
                Cell::Text(list.get(after.checked_sub(1)?)?.1.as_bytes())
            }
            Field::Times(times) => {
                return location.members().is_empty().then(|| Raw::Time(times[row]));
            }
        };
        for name in location.members() {
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
    /// Decodes the value.
    pub fn value(self) -> Result<Value<'a>, Error> {
        match self {
            Raw::Time(ns) => Ok(Value::Time(ns)),
            Raw::Cell(cell) => Value::of_cell(cell),
        }
    }
}

/// Returns the kind of a cell with this value, and its bytes.
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
