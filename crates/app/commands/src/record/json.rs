//! Events as JSON lines.

use jiff::Timestamp;
use millstream_recorder::event::{Event, Tables};
use millstream_recorder::jfr::Clock;
use millstream_recorder::schema::{FieldKind, Value};
use serde_json::{Map, Value as Json, json};

/// Returns an event as an object: type, start, duration, thread, and the fields of its type.
/// Periods are in nanoseconds, and their names end with `Ns`. Unknown values are `null`.
pub fn object(event: &Event, clock: &Clock, tables: &impl Tables) -> Json {
    let spec = event.kind.spec();
    let mut object = Map::new();
    object.insert("event".into(), spec.name.into());
    object.insert("time".into(), time(clock, event.start_ticks));
    if spec.has_duration {
        object.insert("duration_ns".into(), clock.ns(event.duration_ticks).into());
    }
    let thread = tables.thread(event.thread);
    object.insert("thread".into(), json!(thread.map(|thread| thread.name)));
    object.insert("os_thread".into(), json!(thread.map(|thread| thread.os_id)));
    for (field, bits) in spec.fields.iter().zip(event.values) {
        let suffix = if field.kind == FieldKind::Duration { "Ns" } else { "" };
        let value = value(Value::from_bits(field.kind, bits), clock, tables);
        object.insert(format!("{}{suffix}", field.name), value);
    }
    Json::Object(object)
}

fn value(value: Value, clock: &Clock, tables: &impl Tables) -> Json {
    match value {
        Value::Unsigned(number) | Value::Bytes(number) => number.into(),
        Value::Count(number) => number.into(),
        Value::Signed(number) => number.into(),
        Value::Float(number) => json!(number),
        Value::Flag(flag) => flag.into(),
        Value::Text(id) => json!(tables.text(id)),
        Value::Duration(ticks) => clock.ns(ticks).into(),
        Value::Timestamp(ticks) => time(clock, ticks),
    }
}

fn time(clock: &Clock, ticks: u64) -> Json {
    let time = Timestamp::from_nanosecond(i128::from(clock.unix_ns(ticks)));
    time.map_or(Json::Null, |time| format!("{time:.9}").into())
}

#[cfg(test)]
mod tests;
