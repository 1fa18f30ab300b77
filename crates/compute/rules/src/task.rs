//! What a task computes.

use millstream_columns::Step;
use millstream_expressions::Expression;
use millstream_groups::{Accumulator, Layout};
use std::sync::Arc;

/// A task: which events it takes, how it groups them, and what it adds up.
#[derive(Debug)]
pub struct Task {
    /// Its name, unique among the tasks of a plan.
    pub name: Arc<str>,
    /// Its fields by name. Other names in the condition, the keys and the inputs refer to fields of
    /// the event.
    pub fields: Vec<(String, Field)>,
    /// Selects the events; without it the task takes all.
    pub condition: Option<Arc<Expression>>,
    /// Names of the fields whose values make a group.
    pub keys: Vec<String>,
    /// What is added up for each group.
    pub inputs: Vec<Input>,
    /// Length of the windows in nanoseconds, if they follow the times of the events; `None` if
    /// their window is assigned when the partial results are merged.
    pub window_ns: Option<i64>,
}

/// An accumulator and the field that it reads.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Input {
    /// What is kept of the values.
    pub accumulator: Accumulator,
    /// Name of the field; `None` to count events.
    pub field: Option<String>,
}

/// A value that is taken from an event.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Field {
    /// Where it is.
    pub extraction: Extraction,
    /// What it is.
    pub kind: FieldType,
}

/// The type of an extracted value. Text that is no such value counts as absent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum FieldType {
    /// Any bytes; for a field of the event, the type that it has.
    #[default]
    Text,
    /// An integer.
    Int,
    /// A number.
    Float,
}

/// Where a value is.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Extraction {
    /// A field of the event, by its name in an expression: a column, an attribute, the message.
    Event(String),
    /// The text after the occurrence `index` of `left`, counted from 0, up to the next `right`.
    /// Occurrences do not overlap. Without `right`, or if there is none, the value ends with the
    /// text; without `left` it begins with the text.
    Between {
        /// Field of the event.
        from: String,
        /// The text before the value.
        left: Vec<u8>,
        /// Which occurrence of `left`.
        index: u32,
        /// The text after the value.
        right: Vec<u8>,
    },
    /// One of the parts that a delimiter separates.
    Part {
        /// Field of the event.
        from: String,
        /// The delimiter; not empty.
        delimiter: Vec<u8>,
        /// Which part, counted from 0.
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
    /// The value at a path in a text that is JSON. Strings are unescaped, all other values have the
    /// text that they are written as; `null` counts as absent.
    Json {
        /// Field of the event.
        from: String,
        /// The path.
        path: Vec<Step>,
    },
}

impl Extraction {
    /// Returns the field of the event that it is or reads.
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
    /// Returns the layout of what is kept of a group.
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
