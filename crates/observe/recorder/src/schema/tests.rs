use super::*;
use std::collections::BTreeSet;

#[test]
fn names_of_types_and_of_their_fields_are_unique() {
    let names: BTreeSet<&str> = EVENTS.iter().map(|spec| spec.name).collect();
    assert_eq!(names.len(), EVENTS.len());
    for spec in &EVENTS {
        let implied = ["startTime", "duration", "eventThread", "stackTrace"];
        let fields: BTreeSet<&str> = spec.fields.iter().map(|field| field.name).collect();
        assert_eq!(fields.len(), spec.fields.len(), "{}", spec.name);
        assert!(implied.iter().all(|name| !fields.contains(name)), "{}", spec.name);
    }
}

#[test]
fn names_are_identifiers_and_texts_are_complete() {
    let is_name = |name: &str| name.chars().all(|c| c.is_ascii_alphanumeric());
    for spec in &EVENTS {
        assert!(is_name(spec.name) && spec.name.starts_with(|c: char| c.is_ascii_uppercase()));
        assert!(!spec.label.is_empty() && spec.description.ends_with('.'), "{}", spec.name);
        assert!(!spec.category.is_empty(), "{}", spec.name);
        for field in spec.fields {
            assert!(is_name(field.name) && !field.label.is_empty(), "{}", field.name);
        }
    }
}

#[test]
fn a_type_is_found_by_its_name_and_by_its_number() {
    for spec in &EVENTS {
        assert_eq!(EventKind::named(spec.name), Some(spec.kind));
        assert_eq!(EventKind::of_number(spec.kind as u8), Some(spec.kind));
    }
    assert_eq!(EventKind::named("fileread"), None);
    assert_eq!(EventKind::of_number(EVENTS.len() as u8), None);
    assert_eq!(EventKind::SocketWrite.spec().jfr_name(), "millstream.SocketWrite");
}

/// The sum over these events must equal the number of bytes of a file or connection.
#[test]
fn every_read_and_write_is_recorded_by_default() {
    use EventKind::{FileRead, FileWrite, SocketRead, SocketWrite};
    for kind in [FileRead, FileWrite, SocketRead, SocketWrite] {
        let defaults = kind.spec().defaults;
        assert!(defaults.enabled && defaults.threshold.is_zero() && defaults.rate.is_none());
    }
}

#[test]
fn thresholds_are_for_types_with_a_duration() {
    let has_threshold = |spec: &&EventSpec| !spec.defaults.threshold.is_zero();
    assert!(EVENTS.iter().filter(has_threshold).all(|spec| spec.has_duration));
}

#[test]
fn bits_become_the_same_value() {
    let values = [
        (FieldKind::Unsigned, Value::Unsigned(u64::MAX)),
        (FieldKind::Count, Value::Count(u32::MAX)),
        (FieldKind::Signed, Value::Signed(-1)),
        (FieldKind::Float, Value::Float(-0.5)),
        (FieldKind::Flag, Value::Flag(true)),
        (FieldKind::Text, Value::Text(TextId(u32::MAX))),
        (FieldKind::Duration, Value::Duration(7)),
        (FieldKind::Timestamp, Value::Timestamp(8)),
        (FieldKind::Bytes, Value::Bytes(9)),
    ];
    for (kind, value) in values {
        assert_eq!(Value::from_bits(kind, value.to_bits()), value);
    }
    assert_eq!(PerSecond(100).to_string(), "100/s");
}

#[test]
fn a_rate_is_read_as_it_is_written() {
    for rate in [1, 100, u32::MAX] {
        assert_eq!(PerSecond(rate).to_string().parse(), Ok(PerSecond(rate)));
    }
    for text in ["", "100", "0/s", "-1/s", "+1/s", "1.5/s", "4294967296/s", "1/m", "none"] {
        let error = text.parse::<PerSecond>().unwrap_err().to_string();
        assert!(error.ends_with("use, for example, 100/s"), "{error}");
    }
}
