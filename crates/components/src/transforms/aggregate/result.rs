//! Results: the metric events of a window that has ended.

use super::definition::Definition;
use super::encoder::values;
use super::totals::{Totals, array};
use crate::util::formats::{push_decimal, push_number};
use millstream_model::{CellKind, FeedEvent, FeedField};
use std::ops::Range;
use std::sync::{Arc, LazyLock};

/// Key of the group of all events beyond the limit of groups. No group has it: it is too short for
/// the length of a value.
pub const OVERFLOW: &[u8] = b"+";

/// Names of the fields, in the order in which a result has them.
static NAMES: LazyLock<[Arc<str>; 6]> =
    LazyLock::new(|| ["name", "tags", "value", "type", "interval", "temporality"].map(Arc::from));

/// A metric event in compact form.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    time_ns: i64,
    /// Whether results of several windows add up.
    is_delta: bool,
    /// The name, the tags as an object, the value and the interval, separated by spaces.
    text: Vec<u8>,
    /// Lengths of these four.
    lengths: [u32; 4],
}

impl Outcome {
    /// Returns the results of a group at the end of a window, one for each aggregate with a value.
    pub fn of_group(
        (id, definition): (&str, &Definition),
        end_ns: i64,
        (key, totals): (&[u8], &Totals),
    ) -> Vec<Outcome> {
        let (tags, fields) = (tags(definition, key), definition.fields());
        let outcome = |(name, emit): &(String, super::Emit)| {
            let value = emit.value(totals, &fields)?;
            let name = format!("{id}.{name}");
            Some(Outcome::new(
                (&name, emit.is_delta()),
                &tags,
                value,
                (end_ns, definition.window_s),
            ))
        };
        definition.emit.iter().filter_map(outcome).collect()
    }

    fn new(
        (name, is_delta): (&str, bool),
        tags: &str,
        value: f64,
        (time_ns, window_s): (i64, u64),
    ) -> Outcome {
        let mut text = format!("{name} {tags} ").into_bytes();
        let value_at = text.len();
        push_number(value, &mut text);
        let value_end = text.len();
        text.push(b' ');
        push_decimal(&mut text, window_s);
        let lengths = [name.len(), tags.len(), value_end - value_at, text.len() - value_end - 1];
        Outcome { time_ns, is_delta, text, lengths: lengths.map(|len| len as u32) }
    }

    /// Returns the places of name, tags, value and interval.
    fn places(&self) -> [Range<usize>; 4] {
        let mut end = 0;
        self.lengths.map(|length| {
            let begin = end;
            end = begin + length as usize + 1;
            begin..end - 1
        })
    }

    /// Returns the event.
    pub fn event(&self) -> FeedEvent {
        let [name, tags, value, interval] = self.places();
        let mut text = self.text.clone();
        let message = 0..value.end;
        let kind = push(if self.is_delta { b"counter" } else { b"gauge" }, &mut text);
        let temporality = self.is_delta.then(|| push(b"delta", &mut text));
        let is_float = self.text[value.clone()].iter().any(|byte| b".e".contains(byte));
        let number = if is_float { CellKind::Float } else { CellKind::Int };
        let field = |(name, kind, value): (usize, CellKind, Range<usize>)| FeedField {
            name: NAMES[name].clone(),
            kind,
            value,
        };
        let fields = [
            (0, CellKind::Text, name),
            (1, CellKind::Object, tags),
            (2, number, value),
            (3, CellKind::Text, kind),
            (4, CellKind::Int, interval),
        ];
        let temporality = temporality.map(|place| (5, CellKind::Text, place));
        FeedEvent {
            id: None,
            time_ns: self.time_ns,
            text,
            message,
            is_shown: false,
            fields: fields.into_iter().chain(temporality).map(field).collect(),
            hold: None,
        }
    }

    /// Appends it: time, kind, lengths and text, little endian.
    pub fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.time_ns.to_le_bytes());
        out.push(u8::from(self.is_delta));
        self.lengths.iter().for_each(|length| out.extend_from_slice(&length.to_le_bytes()));
        out.extend_from_slice(&self.text);
    }

    /// Reads one from the front of `bytes`; `None` if they end before it does.
    pub fn read(bytes: &mut &[u8]) -> Option<Outcome> {
        let time_ns = i64::from_le_bytes(array(bytes)?);
        let [is_delta] = array::<1>(bytes)?;
        let mut lengths = [0; 4];
        for length in &mut lengths {
            *length = u32::from_le_bytes(array(bytes)?);
        }
        let spaces = lengths.len() - 1;
        let length = lengths.iter().map(|length| *length as usize).sum::<usize>() + spaces;
        let (text, rest) = bytes.split_at_checked(length)?;
        *bytes = rest;
        Some(Outcome { time_ns, is_delta: is_delta == 1, text: text.to_vec(), lengths })
    }
}

fn push(word: &[u8], text: &mut Vec<u8>) -> Range<usize> {
    let begin = text.len();
    text.extend_from_slice(word);
    begin..text.len()
}

/// Returns the tags of a group as a JSON object. A field that the events lack is no tag.
fn tags(definition: &Definition, key: &[u8]) -> String {
    let mut tags = serde_json::Map::new();
    if key == OVERFLOW {
        tags.insert("overflow".to_owned(), "true".into());
    } else {
        for (name, value) in definition.group_by.iter().zip(values(key)) {
            let Some(value) = value else { continue };
            tags.insert(name.clone(), String::from_utf8_lossy(value).into());
        }
    }
    serde_json::Value::Object(tags).to_string()
}
