//! Templates: paths, topics, keys and header values rendered from an event.
//!
//! `/var/log/all/{{ host }}/app-%F.log` consists of literal text, fields in double braces, and
//! `strftime` specifiers for the event's time in UTC. The use of a template determines how values
//! are escaped:
//!
//! - in a path, a value cannot escape its folder: `/`, NUL, control characters, `%` and invalid
//!   UTF-8 become `%2F`…, an empty value becomes `%`, and `.` and `..` become `%2E`…;
//! - in a topic, every byte outside `[a-zA-Z0-9._-]` becomes `_` and two hexadecimal digits;
//! - in an index, uppercase letters become lowercase, and every other byte outside `[a-z0-9._-]`
//!   becomes `_` and two hexadecimal digits;
//! - in text, values are not escaped.
//!
//! Distinct values stay distinct in paths, topics and indexes, except that indexes ignore case. A
//! value that exceeds its length limit is truncated, and a hash of the whole value replaces its
//! end.
//!
//! An event with a missing field is kept: the field is rendered as [`MISSING`].

mod parse;
mod value;

use millstream_model::{Batch, Segment};
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, de};
pub use value::Field;
use value::Piece;

/// Text that is rendered for a field that the event lacks.
pub const MISSING: &str = "none";

/// Maximum length of a file name in bytes. Linux allows 255 bytes, and rotation appends to the
/// name.
const NAME_BYTES_MAX: usize = 200;

/// Maximum length of a Kafka topic name in bytes.
const TOPIC_BYTES_MAX: usize = 249;

/// Maximum length of an index name in bytes.
const INDEX_BYTES_MAX: usize = 255;

/// What a rendered template is used for. This determines how values are escaped, and which text
/// must precede a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Use {
    /// A file path. Fields must follow a folder, which no value can escape.
    Path,
    /// A topic. Fields must follow a letter or digit.
    Topic,
    /// An index name. Fields must follow a letter or digit.
    Index,
    /// Any text, with values unchanged: keys, header values.
    Text,
}

/// A parsed template: literal text, fields and time specifiers.
#[derive(Clone, Debug)]
pub struct Template {
    usage: Use,
    text: String,
    parts: Vec<Part>,
}

#[derive(Clone, Debug, PartialEq)]
enum Part {
    Literal(String),
    Time(Piece),
    /// A field, and the maximum length of its rendered value in bytes.
    Field(Field, usize),
}

impl Template {
    /// Parses a template. The error states what is wrong and what to use instead.
    pub fn parse(text: &str, usage: Use) -> Result<Template, String> {
        let template = Template { usage, text: text.to_owned(), parts: parse::parts(text)? };
        parse::confine(template)
    }

    /// Returns the template `{{ id }}`, which renders the event id.
    pub fn of_event_id() -> Template {
        let parts = vec![Part::Field(Field::Id, usize::MAX)];
        Template { usage: Use::Text, text: "{{ id }}".to_owned(), parts }
    }

    /// Returns whether the template consists of nothing but the event id.
    pub fn is_event_id(&self) -> bool {
        matches!(&self.parts[..], [Part::Field(Field::Id, _)])
    }

    /// Returns the template as configured.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Returns the text before the first field or time specifier. Every rendered text starts with
    /// it.
    pub fn literal_prefix(&self) -> &str {
        match self.parts.first() {
            Some(Part::Literal(text)) => text,
            _ => "",
        }
    }

    /// Returns whether the template always renders the same text.
    pub fn is_constant(&self) -> bool {
        self.parts.iter().all(|part| matches!(part, Part::Literal(_)))
    }

    /// Returns whether the template contains fields. The senders of log lines might control field
    /// values.
    pub fn has_field(&self) -> bool {
        self.parts.iter().any(|part| matches!(part, Part::Field(..)))
    }

    /// Returns whether rows in one segment of this batch can render different text. If not, any row
    /// can represent all rows.
    pub fn per_row(&self, batch: &Batch) -> bool {
        self.parts.iter().any(|part| match part {
            Part::Literal(_) => false,
            Part::Time(_) => batch.time.is_some(),
            Part::Field(field, _) => field.per_row(batch),
        })
    }

    /// Returns whether two rows in one segment are known to render the same text. The text is not
    /// rendered.
    pub fn is_same(&self, batch: &Batch, one: usize, other: usize) -> bool {
        self.parts.iter().all(|part| match part {
            Part::Literal(_) => true,
            Part::Time(piece) => {
                batch.time.is_none() || piece.is_same(batch.event_ns(one), batch.event_ns(other))
            }
            Part::Field(field, _) => !field.per_row(batch),
        })
    }

    /// Appends the text for one row of `segment`. Returns `false` if the event lacks a field.
    pub fn render(&self, batch: &Batch, segment: &Segment, row: usize, out: &mut Vec<u8>) -> bool {
        let mut complete = true;
        for part in &self.parts {
            match part {
                Part::Literal(text) => out.extend_from_slice(text.as_bytes()),
                Part::Time(piece) => piece.push(batch.event_ns(row), out),
                Part::Field(field, bytes_max) => match field.of(batch, segment, row) {
                    Some(value) => value::push(self.usage, &value, *bytes_max, out),
                    None => {
                        complete = false;
                        out.extend_from_slice(MISSING.as_bytes());
                    }
                },
            }
        }
        complete
    }

    /// Returns whether the template refers to the event's message.
    pub fn reads_message(&self) -> bool {
        self.parts.iter().any(|part| matches!(part, Part::Field(Field::Message, _)))
    }

    /// Returns the text for a given time, with `*` for every field. This is a pattern that matches
    /// all text rendered for that time.
    pub fn outline(&self, ns: i64) -> String {
        let mut out = Vec::new();
        for part in &self.parts {
            match part {
                Part::Literal(text) => out.extend_from_slice(text.as_bytes()),
                Part::Time(piece) => piece.push(ns, &mut out),
                Part::Field(..) => out.push(b'*'),
            }
        }
        String::from_utf8_lossy(&out).into_owned()
    }
}

macro_rules! option {
    ($(#[$docs:meta])* $name:ident, $usage:expr, $format:literal) => {
        $(#[$docs])*
        #[derive(Clone, Debug, JsonSchema)]
        #[schemars(inline, extend("format" = $format))]
        pub struct $name(#[schemars(with = "String")] pub Template);

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = String::deserialize(deserializer)?;
                Template::parse(&text, $usage).map($name).map_err(de::Error::custom)
            }
        }
    };
}

option!(
    /// An option that is a template of a path.
    PathTemplate,
    Use::Path,
    "path template"
);
option!(
    /// An option that is a template of a topic.
    TopicTemplate,
    Use::Topic,
    "topic template"
);
option!(
    /// An option that is a template of the name of an index.
    IndexTemplate,
    Use::Index,
    "index template"
);
option!(
    /// A template for any text.
    TextTemplate,
    Use::Text,
    "template"
);

#[cfg(test)]
mod tests;
