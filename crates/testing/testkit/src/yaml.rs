//! Parses the YAML subset of the samples into JSON values. The program's parser also reports
//! positions and advice; this parser serves tests of lower crates.

use saphyr_parser::{Event, Parser, ScalarStyle};
use serde_json::{Map, Value};

/// Parses a YAML document.
///
/// # Panics
/// Panics if the document is invalid, or contains aliases or keys that are not strings.
pub fn yaml(text: &str) -> Value {
    let events = Parser::new_from_str(text).map(|event| event.expect("YAML").0);
    let is_content = |event: &Event<'_>| {
        !matches!(event, Event::StreamStart | Event::DocumentStart(_) | Event::Nothing)
    };
    let mut events = events.filter(is_content);
    let first = events.next().expect("a YAML document");
    value(first, &mut events)
}

fn value<'a>(first: Event<'a>, events: &mut impl Iterator<Item = Event<'a>>) -> Value {
    match first {
        Event::Scalar(text, ScalarStyle::Plain, _, None) => plain(&text),
        Event::Scalar(text, ..) => Value::from(text.into_owned()),
        Event::SequenceStart(..) => {
            let mut items = Vec::new();
            while let Some(event) = events.next().filter(|event| *event != Event::SequenceEnd) {
                items.push(value(event, events));
            }
            Value::Array(items)
        }
        Event::MappingStart(..) => {
            let mut map = Map::new();
            while let Some(event) = events.next().filter(|event| *event != Event::MappingEnd) {
                let Event::Scalar(key, ..) = event else {
                    panic!("the key is not a string: {event:?}")
                };
                let first = events.next().expect("a value after its key");
                assert!(
                    map.insert(key.into_owned(), value(first, events)).is_none(),
                    "duplicate key"
                );
            }
            Value::Object(map)
        }
        other => panic!("unsupported: {other:?}"),
    }
}

/// Parses a plain scalar: JSON's numbers, booleans and null; any other scalar is a string.
fn plain(text: &str) -> Value {
    match text {
        "" | "~" => Value::Null,
        _ => serde_json::from_str(text)
            .ok()
            .filter(|v: &Value| !v.is_string())
            .unwrap_or_else(|| text.into()),
    }
}
