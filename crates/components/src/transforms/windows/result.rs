//! Results: the metric events of a window that has ended.

use super::definition::Definition;
use super::emit::{Emit, Function};
use crate::util::formats::{push_decimal, push_number};
use crate::util::segments::array;
use millstream_groups::{Groups, Side};
use millstream_model::{CellKind, FeedEvent, FeedField};
use millstream_rules::{Accumulator, Input};
use serde_json::{Map, Value};
use std::ops::Range;
use std::sync::{Arc, LazyLock};

/// Name of the tag that marks the overflow group, which counts all events beyond the group limit.
const OVERFLOW: &str = "overflow";

/// Field names, in the order in which they appear in a result.
static NAMES: LazyLock<[Arc<str>; 8]> = LazyLock::new(|| {
    ["name", "tags", "value", "type", "interval", "temporality", "completeness", "samples"]
        .map(Arc::from)
});

/// A metric event in compact form.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    time_ns: i64,
    /// Whether the results of several windows can be added.
    is_delta: bool,
    /// Name, tags as an object, value, interval, completeness, and samples as a list or empty,
    /// separated by spaces.
    text: Vec<u8>,
    /// Lengths of these parts.
    lengths: [u32; PARTS],
}

const PARTS: usize = 6;

/// Values that the results of a window share.
pub struct WindowResults<'w> {
    /// Name of the task.
    pub task: &'w str,
    pub definition: &'w Definition,
    pub inputs: &'w [Input],
    pub end_ns: i64,
    /// Share of the origins whose events in the window were all read, from 0 to 1.
    pub completeness: f64,
}

/// A group and its table.
#[derive(Clone, Copy)]
pub struct Group<'w> {
    pub groups: &'w Groups,
    pub group: u32,
    /// Whether this is the overflow group, which counts the events beyond the group limit.
    pub is_overflow: bool,
}

impl WindowResults<'_> {
    /// Passes the results of a group to `push`: one for each function with a value, and one for
    /// each value of `top`.
    pub fn of_group(&self, group: Group<'_>, mut push: impl FnMut(Outcome)) {
        let mut tags = self.tags(group);
        // Rendered once per group, because samples are long.
        let mut samples = self.samples(group);
        for (name, emit) in &self.definition.emit {
            if let Function::Top(field, texts) = emit.function() {
                for (text, count) in self.top(group, emit, usize::from(*texts)) {
                    tags.insert(field.clone(), text.into());
                    push(self.outcome(name, emit, &tags, count, ""));
                }
                tags = self.tags(group);
            } else if let Some(value) = self.value(group, emit) {
                push(self.outcome(name, emit, &tags, value, &std::mem::take(&mut samples)));
            }
        }
    }

    /// Returns the tags of a group. A field that the events lack produces no tag.
    fn tags(&self, group: Group<'_>) -> Map<String, Value> {
        let mut tags = Map::new();
        if group.is_overflow {
            tags.insert(OVERFLOW.to_owned(), "true".into());
            return tags;
        }
        for (at, name) in self.definition.group_by.iter().enumerate() {
            if let Some(value) = group.groups.key(group.group, at) {
                tags.insert(name.clone(), String::from_utf8_lossy(value).into());
            }
        }
        tags
    }

    /// Returns the state of an accumulator in a group: its word and its side data.
    fn kept<'g>(
        &self,
        group: Group<'g>,
        accumulator: Accumulator,
        field: Option<&str>,
    ) -> Option<(u64, Option<&'g Side>)> {
        let is_it =
            |input: &Input| input.accumulator == accumulator && input.field.as_deref() == field;
        let at = self.inputs.iter().position(is_it)?;
        let offset = *group.groups.layout().offsets().get(at)?;
        let word = *group.groups.words(group.group).get(offset)?;
        Some((word, group.groups.side(group.group, at)))
    }

    /// Returns the value of a function; `None` if it has none, such as the minimum of no numbers.
    fn value(&self, group: Group<'_>, emit: &Emit) -> Option<f64> {
        let kept = |accumulator| self.kept(group, accumulator, emit.field());
        let count = || kept(Accumulator::Count).map(|(word, _)| word as f64);
        let float = |accumulator| kept(accumulator).map(|(word, _)| f64::from_bits(word));
        let seconds = self.definition.window_s as f64;
        let value = match emit.function() {
            Function::Count(_) => count(),
            Function::Rate(None) => count().map(|count| count / seconds),
            Function::Rate(Some(_)) => float(Accumulator::Sum).map(|sum| sum / seconds),
            Function::Sum(_) => float(Accumulator::Sum),
            Function::Min(_) => float(Accumulator::Min),
            Function::Max(_) => float(Accumulator::Max),
            Function::Avg(_) => float(Accumulator::Sum).zip(count()).map(|(sum, n)| sum / n),
            Function::Last(_) => float(Accumulator::Last),
            Function::Distinct(_) => match kept(Accumulator::Distinct)?.1 {
                Some(Side::Distinct(distinct)) => Some(distinct.estimate().round()),
                _ => Some(0.0),
            },
            Function::Quantile(_, quantile) => match kept(Accumulator::Quantiles)?.1 {
                Some(Side::Quantiles(sketch)) => Some(sketch.quantiles([*quantile])[0]),
                _ => None,
            },
            Function::Top(..) => None,
        };
        value.filter(|value| value.is_finite())
    }

    /// Returns the most frequent values of a field with their counts.
    fn top(&self, group: Group<'_>, emit: &Emit, texts: usize) -> Vec<(String, f64)> {
        let [Input { accumulator, .. }] = emit.inputs()[..] else { return Vec::new() };
        let kept = self.kept(group, accumulator, emit.field());
        let Some((_, Some(Side::Top(top)))) = kept else { return Vec::new() };
        let text = |frequent: &millstream_groups::Frequent<'_>| {
            (String::from_utf8_lossy(frequent.text).into_owned(), frequent.count as f64)
        };
        top.texts().iter().take(texts).map(text).collect()
    }

    /// Returns the sample messages of a group as a JSON list, or an empty string if there are none.
    fn samples(&self, group: Group<'_>) -> String {
        let size = self.definition.samples;
        let field = self.inputs.last().and_then(|input| input.field.as_deref());
        let kept = self.kept(group, Accumulator::Samples { size }, field).filter(|_| size > 0);
        let Some((_, Some(Side::Samples(samples)))) = kept else { return String::new() };
        let text = |sample: &millstream_groups::Sample| {
            Value::from(String::from_utf8_lossy(&sample.text).into_owned())
        };
        Value::Array(samples.samples().iter().map(text).collect()).to_string()
    }

    fn outcome(
        &self,
        name: &str,
        emit: &Emit,
        tags: &Map<String, Value>,
        value: f64,
        samples: &str,
    ) -> Outcome {
        let tags = serde_json::to_string(tags).unwrap_or_default();
        let mut text = Vec::new();
        let mut lengths = [0; PARTS];
        let mut begin = 0;
        let mut end_part = |part: usize, text: &mut Vec<u8>| {
            lengths[part] = (text.len() - begin) as u32;
            if part + 1 < PARTS {
                text.push(b' ');
            }
            begin = text.len();
        };
        text.extend_from_slice(format!("{}.{name}", self.task).as_bytes());
        end_part(0, &mut text);
        text.extend_from_slice(tags.as_bytes());
        end_part(1, &mut text);
        push_number(value, &mut text);
        end_part(2, &mut text);
        push_decimal(&mut text, self.definition.window_s);
        end_part(3, &mut text);
        push_number(self.completeness, &mut text);
        end_part(4, &mut text);
        text.extend_from_slice(samples.as_bytes());
        end_part(5, &mut text);
        Outcome { time_ns: self.end_ns, is_delta: emit.is_delta(), text, lengths }
    }
}

impl Outcome {
    /// Returns the ranges of the parts in the text.
    fn places(&self) -> [Range<usize>; PARTS] {
        let mut end = 0;
        self.lengths.map(|length| {
            let begin = end;
            end = begin + length as usize + 1;
            begin..end - 1
        })
    }

    /// Returns the event.
    pub fn event(&self) -> FeedEvent {
        let [name, tags, value, interval, completeness, samples] = self.places();
        let mut text = self.text.clone();
        let message = 0..value.end;
        let kind = push(if self.is_delta { b"counter" } else { b"gauge" }, &mut text);
        let temporality = self.is_delta.then(|| push(b"delta", &mut text));
        let number = |place: &Range<usize>| {
            let is_float = self.text[place.clone()].iter().any(|byte| b".e".contains(byte));
            if is_float { CellKind::Float } else { CellKind::Int }
        };
        let field = |(name, kind, value): (usize, CellKind, Range<usize>)| FeedField {
            name: NAMES[name].clone(),
            kind,
            value,
        };
        let fields = [
            (0, CellKind::Text, name),
            (1, CellKind::Object, tags),
            (2, number(&value), value),
            (3, CellKind::Text, kind),
            (4, CellKind::Int, interval),
        ];
        let temporality = temporality.map(|place| (5, CellKind::Text, place));
        let completeness = (6, number(&completeness), completeness);
        let samples = (!samples.is_empty()).then_some((7, CellKind::Array, samples));
        let fields = fields.into_iter().chain(temporality).chain([completeness]).chain(samples);
        FeedEvent {
            id: None,
            time_ns: self.time_ns,
            text,
            message,
            is_shown: false,
            fields: fields.map(field).collect(),
            hold: None,
        }
    }

    /// Appends the result: time, kind, lengths and text, little-endian.
    pub fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.time_ns.to_le_bytes());
        out.push(u8::from(self.is_delta));
        self.lengths.iter().for_each(|length| out.extend_from_slice(&length.to_le_bytes()));
        out.extend_from_slice(&self.text);
    }

    /// Reads a result from the front of `bytes`; returns `None` if the bytes end too early, or if
    /// the text does not contain the parts with these lengths.
    pub fn read(bytes: &mut &[u8]) -> Option<Outcome> {
        let time_ns = i64::from_le_bytes(array(bytes)?);
        let [is_delta @ (0 | 1)] = array::<1>(bytes)? else { return None };
        let mut lengths = [0; PARTS];
        for length in &mut lengths {
            *length = u32::from_le_bytes(array(bytes)?);
        }
        let spaces = lengths.len() - 1;
        let length = lengths.iter().map(|length| *length as usize).sum::<usize>() + spaces;
        let (text, rest) = bytes.split_at_checked(length)?;
        *bytes = rest;
        let outcome = Outcome { time_ns, is_delta: is_delta == 1, text: text.to_vec(), lengths };
        outcome.has_its_parts().then_some(outcome)
    }

    /// Returns whether each part of the text is valid and followed by a space.
    fn has_its_parts(&self) -> bool {
        let Ok(text) = std::str::from_utf8(&self.text) else { return false };
        let places = self.places();
        let (_, inner) = places.split_last().unwrap_or((&(0..0), &[]));
        let spaces = inner.iter().all(|place| self.text.get(place.end) == Some(&b' '));
        let part = |part: usize| text.get(places[part].clone()).unwrap_or_default();
        let is_finite = |text: &str| serde_json::from_str::<f64>(text).is_ok();
        let is_list = |text: &str| serde_json::from_str::<Vec<String>>(text).is_ok();
        spaces
            && serde_json::from_str::<Map<String, Value>>(part(1)).is_ok()
            && is_finite(part(2))
            && serde_json::from_str::<u64>(part(3)).is_ok()
            && is_finite(part(4))
            && (part(5).is_empty() || is_list(part(5)))
    }
}

fn push(word: &[u8], text: &mut Vec<u8>) -> Range<usize> {
    let begin = text.len();
    text.extend_from_slice(word);
    begin..text.len()
}
