//! The definition of a task.

use millstream_columns::Step;
use millstream_expressions::Expression;
use millstream_groups::{Accumulator, Layout};
use std::sync::Arc;

/// A task, which selects events, groups them, and aggregates values.
#[derive(Debug)]
pub struct Task {
    /// Name of the task, unique among the tasks of a plan.
    pub name: Arc<str>,
    /// The task's fields by name. Any other name in the condition, the keys or the inputs refers to
    /// an event field.
    pub fields: Vec<(String, Field)>,
    /// Selects the events. Without a condition, the task selects all events.
    pub condition: Option<Arc<Expression>>,
    /// Names of the fields whose values identify a group.
    pub keys: Vec<String>,
    /// Inputs that are aggregated for each group.
    pub inputs: Vec<Input>,
    /// Length of the windows in nanoseconds if they follow event time. `None` if the window is
    /// assigned when partial results are merged.
    pub window_ns: Option<i64>,
}

/// An accumulator and the field that it reads.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Input {
    /// What to compute from the values.
    pub accumulator: Accumulator,
    /// Name of the field, or `None` to count events.
    pub field: Option<String>,
}

/// A value that is extracted from an event.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Field {
    /// Where the value is.
    pub extraction: Extraction,
    /// The value's type.
    pub kind: FieldType,
}

/// The type of an extracted value. Text that is not a value of this type counts as absent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum FieldType {
    /// Any bytes. An event field keeps its original type.
    #[default]
    Text,
    /// An integer.
    Int,
    /// A number.
    Float,
}

/// Where a value is in an event.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Extraction {
    /// An event field, by its name in expressions: a column, an attribute, or the message.
    Event(String),
    /// The text after an occurrence of `left` and before the next `right`. Occurrences do not
    /// overlap. If `left` is empty, the value starts at the beginning of the text. If `right` is
    /// empty or is not found, the value ends at the end of the text.
    Between {
        /// The event field.
        from: String,
        /// The text before the value.
        left: Vec<u8>,
        /// Which occurrence of `left` to use, counted from 0.
        index: u32,
        /// The text after the value.
        right: Vec<u8>,
    },
    /// One part of delimited text.
    Part {
        /// The event field.
        from: String,
        /// The delimiter, which must not be empty.
        delimiter: Vec<u8>,
        /// Which part to use, counted from 0.
        index: u32,
    },
    /// A group in the first match of a regular expression.
    Group {
        /// The event field.
        from: String,
        /// The expression, which must be valid.
        pattern: String,
        /// Group name or group number.
        group: String,
    },
    /// The value at a path in JSON text. Strings are unescaped, and other values keep their text.
    /// `null` counts as absent.
    Json {
        /// The event field.
        from: String,
        /// The path to the value.
        path: Vec<Step>,
    },
}

impl Extraction {
    /// Returns the event field that the extraction reads.
    pub fn from(&self) -> &str {
        match self {
            Extraction::Event(from)
            | Extraction::Between { from, .. }
            | Extraction::Part { from, .. }
            | Extraction::Group { from, .. }
            | Extraction::Json { from, .. } => from,
        }
    }
}

impl Task {
    /// Returns the layout of a group's accumulators.
    pub fn layout(&self) -> Layout {
        let accumulators: Vec<Accumulator> =
            self.inputs.iter().map(|input| input.accumulator).collect();
        Layout::new(&accumulators)
    }

    /// Returns the field to which a name refers.
    pub(crate) fn field(&self, name: &str) -> Field {
        let own = self.fields.iter().find(|(own, _)| own == name).map(|(_, field)| field.clone());
        own.unwrap_or_else(|| Field {
            extraction: Extraction::Event(name.to_owned()),
            kind: FieldType::Text,
        })
    }
}
