//! Type declarations, which are the first part of a chunk.

pub mod types;

use crate::elements::Element;
use std::borrow::Cow;
pub use types::TypeId;

const SUPER_EVENT: &str = "jdk.jfr.Event";
const SUPER_ANNOTATION: &str = "java.lang.annotation.Annotation";
const SUPER_SETTING: &str = "jdk.jfr.SettingControl";

/// Returns the complete metadata tree for these types.
pub fn root(types: impl IntoIterator<Item = Element>) -> Element {
    let all = Element::new("metadata").containing(types);
    let region = Element::new("region").with("locale", "en_US").with("gmtOffset", "0");
    Element::new("root").containing([all, region])
}

/// Returns the declaration of a type.
pub fn class(name: impl Into<Cow<'static, str>>, id: TypeId) -> Element {
    Element::new("class").with("name", name).with_type("id", id)
}

/// Returns the declaration of an event type.
pub fn event(name: impl Into<Cow<'static, str>>, id: TypeId) -> Element {
    class(name, id).with("superType", SUPER_EVENT)
}

/// Returns the declaration of the thread type.
pub fn thread_type() -> Element {
    class("java.lang.Thread", types::THREAD).containing([
        label("Thread"),
        field("osName", types::STRING, "OS Thread Name"),
        field("osThreadId", types::LONG, "OS Thread Id"),
        field("javaName", types::STRING, "Java Thread Name"),
        field("javaThreadId", types::LONG, "Java Thread Id"),
    ])
}

/// Returns the declarations of annotation types, including the annotations for units.
pub fn annotations() -> Vec<Element> {
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

/// Returns the declaration of an annotation type for a unit.
fn content_type(name: &'static str, id: TypeId, text: &'static str) -> Element {
    let marker = Element::new("annotation").with_type("class", types::CONTENT_TYPE);
    annotation_type(name, id).containing([label(text), marker])
}

fn text_value() -> Element {
    Element::new("field").with("name", "value").with_type("class", types::STRING)
}

/// Returns the declaration of a setting type.
pub fn setting_type(
    name: &'static str,
    id: TypeId,
    text: &'static str,
    description: &'static str,
) -> Element {
    let annotations = [
        annotation(types::LABEL, text),
        annotation(types::DESCRIPTION, description),
        annotation(types::NAME, name),
    ];
    class(name, id).with("superType", SUPER_SETTING).containing(annotations)
}

/// Returns the declaration of the JDK's event type for setting values.
pub fn active_setting() -> Element {
    event("jdk.ActiveSetting", types::ACTIVE_SETTING).containing([
        label("Recording Setting"),
        category(&["Flight Recorder"]),
        start_time(),
        field("id", types::LONG, "Event Id"),
        field("name", types::STRING, "Setting Name"),
        field("value", types::STRING, "Setting Value"),
    ])
}

/// Returns the field that every event begins with.
pub fn start_time() -> Element {
    field("startTime", types::LONG, "Start Time")
        .containing([annotation(types::TIMESTAMP, "TICKS")])
}

/// Returns a field that has a label.
pub fn field(name: &'static str, id: TypeId, text: &'static str) -> Element {
    Element::new("field").with("name", name).with_type("class", id).containing([label(text)])
}

/// Returns a display label.
pub fn label(text: &'static str) -> Element {
    annotation(types::LABEL, text)
}

/// Returns the category of an event in tools, as a path from the outermost to the innermost
/// category.
pub fn category(names: &[&'static str]) -> Element {
    let empty = Element::new("annotation").with_type("class", types::CATEGORY);
    let add = |element: Element, (index, name): (usize, &&'static str)| {
        element.with(format!("value-{index}"), *name)
    };
    names.iter().enumerate().fold(empty, add)
}

/// Returns an annotation of this type.
pub fn annotation(id: TypeId, value: &'static str) -> Element {
    Element::new("annotation").with_type("class", id).with("value", value)
}
