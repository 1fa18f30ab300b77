//! The definition of a task.

use millstream_columns::Step;
use millstream_expressions::Expression;
use millstream_groups::{Accumulator, Layout};
use std::sync::Arc;

/// A task: selects events, groups them, and aggregates values.
#[derive(Debug)]
pub struct Task {
    /// Name of the task, unique among the tasks of a plan.
    pub name: Arc<str>,
    /// Fields of the task by name. Other names in the condition, the keys and the inputs refer to
    /// fields of the event.
    pub fields: Vec<(String, Field)>,
    /// Selects the events; without a condition the task takes all events.
    pub condition: Option<Arc<Expression>>,
    /// Names of the fields whose values identify a group.
    pub keys: Vec<String>,
    /// Aggregated inputs of each group.
    pub inputs: Vec<Input>,
    /// Length of the windows in nanoseconds, if they follow event time; `None` if the window is
    /// assigned when the partial results are merged.
    pub window_ns: Option<i64>,
}

/// An accumulator and the field that it reads.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Input {
    /// Accumulator of the values.
    pub accumulator: Accumulator,
    /// Name of the field; `None` to count events.
    pub field: Option<String>,
}

/// A value that is extracted from an event.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Field {
    /// Location of the value.
    pub extraction: Extraction,
    /// Type of the value.
    pub kind: FieldType,
}

/// The type of an extracted value. A text that is not a value of this type counts as absent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum FieldType {
    /// Any bytes; a field of the event keeps its type.
    #[default]
    Text,
    /// An integer.
    Int,
    /// A number.
    Float,
}

/// Location of a value.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Extraction {
    /// A field of the event, by its name in an expression: a column, an attribute, the message.
    Event(String),
    /// The text after occurrence `index` of `left`, counted from 0, up to the next `right`.
    /// Occurrences do not overlap. If `right` is empty or missing, the value ends with the text; if
    /// `left` is empty, it begins with the text.
    Between {
        /// Field of the event.
        from: String,
        /// The text before the value.
        left: Vec<u8>,
        /// Index of the occurrence of `left`.
        index: u32,
        /// The text after the value.
        right: Vec<u8>,
    },
    /// One of the parts between delimiters.
    Part {
        /// Field of the event.
        from: String,
        /// The delimiter; not empty.
        delimiter: Vec<u8>,
        /// Index of the part, counted from 0.
        index: u32,
    },
    /// A group of the first match of a regular expression.
    Group {
        /// Field of the event.
        from: String,
        /// The expression; valid.
        pattern: String,
        /// Name or number of the group.
        group: String,
    },
    /// The value at a path in a JSON text. Strings are unescaped, other values keep their text;
    /// `null` counts as absent.
    Json {
        /// Field of the event.
        from: String,
        /// The path.
        path: Vec<Step>,
    },
}

impl Extraction {
    /// Returns the event field that the extraction is or reads.
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

    /// Returns the field that a name refers to.
    pub(crate) fn field(&self, name: &str) -> Field {
        let own = self.fields.iter().find(|(own, _)| own == name).map(|(_, field)| field.clone());
        own.unwrap_or_else(|| Field {
            extraction: Extraction::Event(name.to_owned()),
            kind: FieldType::Text,
        })
    }
}
