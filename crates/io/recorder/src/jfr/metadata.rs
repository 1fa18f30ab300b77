//! The declaration of all types, from the schema.

use super::elements::Element;
use super::types::{self, TypeId};
use crate::schema::{EVENTS, EventSpec, FieldKind, NAME_PREFIX, Settings};
use std::borrow::Cow;
use std::time::Duration;

const SUPER_EVENT: &str = "jdk.jfr.Event";
const SUPER_ANNOTATION: &str = "java.lang.annotation.Annotation";
const SUPER_SETTING: &str = "jdk.jfr.SettingControl";

/// Names of the settings of an event.
const ENABLED: &str = "enabled";
const THRESHOLD: &str = "threshold";
const THROTTLE: &str = "throttle";
const STACK_TRACE: &str = "stackTrace";

/// Returns the whole tree.
pub fn tree() -> Element {
    let all = Element::new("metadata")
        .containing(values())
        .containing(annotations())
        .containing(setting_types())
        .containing([active_setting()])
        .containing(EVENTS.iter().map(event));
    let region = Element::new("region").with("locale", "en_US").with("gmtOffset", "0");
    Element::new("root").containing([all, region])
}

/// Returns the settings of a type as names and values of the JDK.
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

/// Returns a period in the largest unit that gives a whole number.
fn timespan(period: Duration) -> String {
    let ns = period.as_nanos();
    let units = [("s", 1_000_000_000), ("ms", 1_000_000), ("us", 1000)];
    let whole = units.iter().find(|(_, unit)| ns >= *unit && ns.is_multiple_of(*unit));
    whole.map_or_else(|| format!("{ns} ns"), |(name, unit)| format!("{} {name}", ns / unit))
}

fn class(name: impl Into<Cow<'static, str>>, id: TypeId) -> Element {
    Element::new("class").with("name", name).with_type("id", id)
}

/// Types of values: primitive ones, and threads.
fn values() -> Vec<Element> {
    let thread = class("java.lang.Thread", types::THREAD).containing([
        label("Thread"),
        field("osName", types::STRING, "OS Thread Name"),
        field("osThreadId", types::LONG, "OS Thread Id"),
        field("javaName", types::STRING, "Java Thread Name"),
        field("javaThreadId", types::LONG, "Java Thread Id"),
    ]);
    vec![
        class("boolean", types::BOOLEAN),
        class("double", types::DOUBLE),
        class("long", types::LONG),
        class("java.lang.String", types::STRING),
        thread,
    ]
}

fn annotations() -> Vec<Element> {
    let categories = Element::new("field")
        .with("name", "value")
        .with_type("class", types::STRING)
        .with("dimension", "1");
    vec![
        annotation_type("jdk.jfr.Label", types::LABEL).containing([text_value()]),
        annotation_type("jdk.jfr.Category", types::CATEGORY).containing([categories]),
        annotation_type("jdk.jfr.Description", types::DESCRIPTION).containing([text_value()]),
        annotation_type("jdk.jfr.Name", types::NAME).containing([text_value()]),
        annotation_type("jdk.jfr.ContentType", types::CONTENT_TYPE),
        content_type("jdk.jfr.Timestamp", types::TIMESTAMP, "Timestamp").containing([text_value()]),
        content_type("jdk.jfr.Timespan", types::TIMESPAN, "Timespan").containing([text_value()]),
        content_type("jdk.jfr.DataAmount", types::DATA_AMOUNT, "Data Amount")
            .containing([text_value()]),
        content_type("jdk.jfr.Unsigned", types::UNSIGNED, "Unsigned Value"),
    ]
}

fn annotation_type(name: &'static str, id: TypeId) -> Element {
    class(name, id).with("superType", SUPER_ANNOTATION)
}

/// An annotation that gives the unit of a field.
fn content_type(name: &'static str, id: TypeId, text: &'static str) -> Element {
    let marker = Element::new("annotation").with_type("class", types::CONTENT_TYPE);
    annotation_type(name, id).containing([label(text), marker])
}

fn text_value() -> Element {
    Element::new("field").with("name", "value").with_type("class", types::STRING)
}

fn setting_types() -> Vec<Element> {
    let setting = |name: &'static str, id, text: &'static str, description: &'static str| {
        let annotations = [
            annotation(types::LABEL, text),
            annotation(types::DESCRIPTION, description),
            annotation(types::NAME, name),
        ];
        class(name, id).with("superType", SUPER_SETTING).containing(annotations)
    };
    vec![
        setting("jdk.settings.Enabled", types::ENABLED_SETTING, "Enabled", "Record event"),
        setting(
            "jdk.settings.Threshold",
            types::THRESHOLD_SETTING,
            "Threshold",
            "Record event with duration above or equal to threshold",
        ),
        setting(
            "jdk.settings.Throttle",
            types::THROTTLE_SETTING,
            "Throttle",
            "Most events in a period",
        ),
        setting(
            "jdk.settings.StackTrace",
            types::STACK_TRACE_SETTING,
            "Stack Trace",
            "Record stack traces",
        ),
    ]
}

/// The JDK's event that says which value a setting has.
fn active_setting() -> Element {
    class("jdk.ActiveSetting", types::ACTIVE_SETTING).with("superType", SUPER_EVENT).containing([
        label("Recording Setting"),
        Element::new("annotation")
            .with_type("class", types::CATEGORY)
            .with("value-0", "Flight Recorder"),
        start_time(),
        field("id", types::LONG, "Event Id"),
        field("name", types::STRING, "Setting Name"),
        field("value", types::STRING, "Setting Value"),
    ])
}

/// Returns the declaration of a type of event. Start and duration are its first fields: the parser of
/// the JDK expects them there.
fn event(spec: &EventSpec) -> Element {
    let duration = field("duration", types::LONG, "Duration")
        .containing([annotation(types::TIMESPAN, "TICKS")]);
    let thread = field("eventThread", types::THREAD, "Event Thread").with("constantPool", "true");
    class(format!("{NAME_PREFIX}{}", spec.name), types::of_event(spec.kind))
        .with("superType", SUPER_EVENT)
        .containing(event_settings(spec))
        .containing([start_time()])
        .containing(spec.has_duration.then_some(duration))
        .containing([thread])
        .containing(spec.fields.iter().map(event_field))
        .containing([
            label(spec.label),
            category(spec),
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

fn start_time() -> Element {
    field("startTime", types::LONG, "Start Time")
        .containing([annotation(types::TIMESTAMP, "TICKS")])
}

fn field(name: &'static str, id: TypeId, text: &'static str) -> Element {
    Element::new("field").with("name", name).with_type("class", id).containing([label(text)])
}

fn label(text: &'static str) -> Element {
    annotation(types::LABEL, text)
}

fn category(spec: &EventSpec) -> Element {
    let empty = Element::new("annotation").with_type("class", types::CATEGORY);
    let add = |element: Element, (index, name): (usize, &&'static str)| {
        element.with(format!("value-{index}"), *name)
    };
    spec.category.iter().enumerate().fold(empty, add)
}

fn annotation(id: TypeId, value: &'static str) -> Element {
    Element::new("annotation").with_type("class", id).with("value", value)
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
