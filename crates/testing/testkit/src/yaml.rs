//! YAML as samples use it, to JSON values. The program has a reader of its own, with places and
//! advice; this one is for tests below it.

use saphyr_parser::{Event, Parser, ScalarStyle};
use serde_json::{Map, Value};

/// Reads one YAML document.
///
/// # Panics
/// On what is no YAML, and on aliases and keys that are no text.
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
                    panic!("a key that is no text: {event:?}")
                };
                let first = events.next().expect("a value behind its key");
                assert!(
                    map.insert(key.into_owned(), value(first, events)).is_none(),
                    "a key twice"
                );
            }
            Value::Object(map)
        }
        other => panic!("not understood: {other:?}"),
    }
}

/// Numbers, booleans and null are what JSON calls so; everything else is text.
fn plain(text: &str) -> Value {
    match text {
        "" | "~" => Value::Null,
        _ => serde_json::from_str(text)
            .ok()
            .filter(|v: &Value| !v.is_string())
            .unwrap_or_else(|| text.into()),
    }
}
