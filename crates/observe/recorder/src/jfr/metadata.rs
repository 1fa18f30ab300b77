//! The declarations of all types, which are derived from the schema.

use super::types::of_event;
use crate::schema::{EVENTS, EventSpec, FieldKind, Settings};
use millstream_jfr::elements::Element;
use millstream_jfr::metadata::{
    self, annotation, category, class, field, label, setting_type, start_time, types,
};
use std::time::Duration;

/// Names of an event type's settings.
const ENABLED: &str = "enabled";
const THRESHOLD: &str = "threshold";
const THROTTLE: &str = "throttle";
const STACK_TRACE: &str = "stackTrace";

/// Returns the complete metadata tree.
pub fn tree() -> Element {
    let all = values().into_iter().chain(metadata::annotations()).chain(setting_types());
    let events = EVENTS.iter().map(event);
    metadata::root(all.chain([metadata::active_setting()]).chain(events))
}

/// Returns the settings for an event type with the JDK's names and values.
pub fn settings(spec: &EventSpec, settings: &Settings) -> Vec<(&'static str, String)> {
    let rate = settings.rate.map_or_else(|| "off".to_owned(), |rate| rate.to_string());
    let mut all = vec![(ENABLED, settings.enabled.to_string())];
    if spec.has_duration {
        all.push((THRESHOLD, timespan(settings.threshold)));
    }
    all.push((THROTTLE, rate));
    all.push((STACK_TRACE, settings.stack.to_string()));
    all
}

/// Formats a duration in the largest unit in which it is an integer.
fn timespan(period: Duration) -> String {
    let ns = period.as_nanos();
    let units = [("s", 1_000_000_000), ("ms", 1_000_000), ("us", 1000)];
    let whole = units.iter().find(|(_, unit)| ns >= *unit && ns.is_multiple_of(*unit));
    whole.map_or_else(|| format!("{ns} ns"), |(name, unit)| format!("{} {name}", ns / unit))
}

/// Returns the value types: primitive types and threads.
fn values() -> Vec<Element> {
    vec![
        class("boolean", types::BOOLEAN),
        class("double", types::DOUBLE),
        class("long", types::LONG),
        class("java.lang.String", types::STRING),
        metadata::thread_type(),
    ]
}

fn setting_types() -> Vec<Element> {
    vec![
        setting_type("jdk.settings.Enabled", types::ENABLED_SETTING, "Enabled", "Record event"),
        setting_type(
            "jdk.settings.Threshold",
            types::THRESHOLD_SETTING,
            "Threshold",
            "Record event with duration above or equal to threshold",
        ),
        setting_type(
            "jdk.settings.Throttle",
            types::THROTTLE_SETTING,
            "Throttle",
            "Maximum number of events in a period",
        ),
        setting_type(
            "jdk.settings.StackTrace",
            types::STACK_TRACE_SETTING,
            "Stack Trace",
            "Record stack traces",
        ),
    ]
}

/// Returns the declaration of an event type. Start and duration must be the first fields, because
/// the JDK's parser expects them there.
fn event(spec: &EventSpec) -> Element {
    let duration = field("duration", types::LONG, "Duration")
        .containing([annotation(types::TIMESPAN, "TICKS")]);
    let thread = field("eventThread", types::THREAD, "Event Thread").with("constantPool", "true");
    metadata::event(spec.jfr_name(), of_event(spec.kind))
        .containing(event_settings(spec))
        .containing([start_time()])
        .containing(spec.has_duration.then_some(duration))
        .containing([thread])
        .containing(spec.fields.iter().map(event_field))
        .containing([
            label(spec.label),
            category(spec.category),
            annotation(types::DESCRIPTION, spec.description),
        ])
}

fn event_settings(spec: &EventSpec) -> impl Iterator<Item = Element> {
    settings(spec, &spec.defaults).into_iter().map(|(name, value)| {
        let id = match name {
            ENABLED => types::ENABLED_SETTING,
            THRESHOLD => types::THRESHOLD_SETTING,
            THROTTLE => types::THROTTLE_SETTING,
            _ => types::STACK_TRACE_SETTING,
        };
        Element::new("setting")
            .with("name", name)
            .with_type("class", id)
            .with("defaultValue", value)
    })
}

fn event_field(declared: &crate::schema::Field) -> Element {
    let id = match declared.kind {
        FieldKind::Float => types::DOUBLE,
        FieldKind::Flag => types::BOOLEAN,
        FieldKind::Text => types::STRING,
        FieldKind::Unsigned
        | FieldKind::Count
        | FieldKind::Signed
        | FieldKind::Duration
        | FieldKind::Timestamp
        | FieldKind::Bytes => types::LONG,
    };
    field(declared.name, id, declared.label).containing(units(declared.kind))
}

fn units(kind: FieldKind) -> Vec<Element> {
    let unsigned = || Element::new("annotation").with_type("class", types::UNSIGNED);
    match kind {
        FieldKind::Unsigned | FieldKind::Count => vec![unsigned()],
        FieldKind::Bytes => vec![unsigned(), annotation(types::DATA_AMOUNT, "BYTES")],
        FieldKind::Duration => vec![annotation(types::TIMESPAN, "TICKS")],
        FieldKind::Timestamp => vec![annotation(types::TIMESTAMP, "TICKS")],
        FieldKind::Signed | FieldKind::Float | FieldKind::Flag | FieldKind::Text => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn periods_are_in_the_largest_unit_without_a_fraction() {
        let shown = |ns| timespan(Duration::from_nanos(ns));
        assert_eq!(shown(0), "0 ns");
        assert_eq!(shown(1_001), "1001 ns");
        assert_eq!(shown(20_000), "20 us");
        assert_eq!(shown(1_000_000), "1 ms");
        assert_eq!(shown(1_500_000_000), "1500 ms");
        assert_eq!(shown(3_000_000_000), "3 s");
    }

    #[test]
    fn settings_have_the_names_of_the_jdk() {
        let spec = crate::schema::EventKind::Retry.spec();
        let values = settings(spec, &spec.defaults);
        let values: Vec<(&str, &str)> = values.iter().map(|(name, v)| (*name, &v[..])).collect();
        assert_eq!(values, [("enabled", "true"), ("throttle", "100/s"), ("stackTrace", "false")]);
    }
}
