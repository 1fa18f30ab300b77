//! Templates: paths, topics, keys and header values that are made from an event.
//!
//! `/var/log/all/{{ host }}/app-%F.log` is literal text, fields in double braces, and pieces of the
//! event's time in UTC. What a template is used for decides how values are written into it:
//!
//! - as a path, a value never leads out of its folder: `/`, NUL, control bytes, `%` and what is no
//!   UTF-8 are written as `%2F`…, an empty value as `%`, and one that is `.` or `..` as `%2E`…;
//! - as a topic, every byte but `[a-zA-Z0-9._-]` is written as `_` and two hexadecimal digits;
//! - as text, values go in unchanged.
//!
//! In paths and topics, different values stay different: a value that is too long for its place is
//! cut, and the hash of all of it takes the place of what was cut off.
//!
//! Nothing is lost for want of a field: one that an event does not have is written as [`MISSING`].

mod parse;
mod value;

use millstream_model::{Batch, Segment};
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, de};
use value::{Field, Piece};

/// What stands for a field that an event does not have.
pub const MISSING: &str = "none";

/// Bytes of a file name at most (Linux takes 255): the rest is for what a rotation adds to it.
const NAME_BYTES_MAX: usize = 200;

/// Bytes of a topic at most, as Kafka has it.
const TOPIC_BYTES_MAX: usize = 249;

/// What a template makes: decides how values are written, and what is allowed around them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Use {
    /// A file's path. Fields need a folder before them, which no value can leave.
    Path,
    /// A topic. Fields need a letter or digit before them.
    Topic,
    /// Any text, values unchanged: keys, header values.
    Text,
}

/// A text with fields and pieces of time, parsed once.
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
    /// A field, and how many bytes its value may take.
    Field(Field, usize),
}

impl Template {
    /// Parses a template; the message says what is wrong and what to write instead.
    pub fn parse(text: &str, usage: Use) -> Result<Template, String> {
        let template = Template { usage, text: text.to_owned(), parts: parse::parts(text)? };
        parse::confine(template)
    }

    /// The template as it was written.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The text before the first field or piece of time: what everything it makes begins with.
    pub fn literal_prefix(&self) -> &str {
        match self.parts.first() {
            Some(Part::Literal(text)) => text,
            _ => "",
        }
    }

    /// Whether it always makes the same text.
    pub fn is_constant(&self) -> bool {
        self.parts.iter().all(|part| matches!(part, Part::Literal(_)))
    }

    /// Whether values go into it, which may be chosen by others.
    pub fn has_field(&self) -> bool {
        self.parts.iter().any(|part| matches!(part, Part::Field(..)))
    }

    /// Whether rows of one segment of this batch may give different texts. If not, any row speaks
    /// for all.
    pub fn per_row(&self, batch: &Batch) -> bool {
        self.parts.iter().any(|part| match part {
            Part::Literal(_) => false,
            Part::Time(_) => batch.time.is_some(),
            Part::Field(field, _) => field.per_row(batch),
        })
    }

    /// Whether two rows of one segment give the same text for sure, without making it.
    pub fn is_same(&self, batch: &Batch, one: usize, other: usize) -> bool {
        self.parts.iter().all(|part| match part {
            Part::Literal(_) => true,
            Part::Time(piece) => {
                batch.time.is_none() || piece.is_same(batch.event_ns(one), batch.event_ns(other))
            }
            Part::Field(field, _) => !field.per_row(batch),
        })
    }

    /// Appends the text for one row of `segment`. False if the event has not all of the fields.
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

    /// The text at a given time with `*` for every field: what all texts of that time look like.
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
    /// An option that is a template of any text.
    TextTemplate,
    Use::Text,
    "template"
);

#[cfg(test)]
mod tests;
