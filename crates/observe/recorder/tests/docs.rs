//! Checks that `docs/formats/recorder.md` lists every type as it is declared.

use millstream_recorder::schema::{EVENTS, EventSpec, Field, FieldKind, Settings};

#[test]
fn the_page_has_a_row_for_every_type() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../docs/formats/recorder.md");
    let page = std::fs::read_to_string(path).unwrap();
    let heading =
        "| event | when | duration | fields | recorded by default |\n|---|---|---|---|---|\n";
    let (_, behind) = page.split_once(heading).expect("a table of events");
    let rows: Vec<&str> = behind.lines().take_while(|line| line.starts_with("| ")).collect();
    let expected: Vec<String> = EVENTS.iter().map(row).collect();
    assert_eq!(rows, expected, "the table should be:\n{}", expected.join("\n"));
}

fn row(spec: &EventSpec) -> String {
    let fields: Vec<String> = spec.fields.iter().map(field).collect();
    let when = spec.description.trim_end_matches('.');
    let duration = if spec.has_duration { "yes" } else { "no" };
    let defaults = defaults(&spec.defaults);
    format!("| `{}` | {when} | {duration} | {} | {defaults} |", spec.name, fields.join(", "))
}

fn field(field: &Field) -> String {
    let kind = match field.kind {
        FieldKind::Unsigned | FieldKind::Count => "number",
        FieldKind::Signed => "signed number",
        FieldKind::Float => "number with a fraction",
        FieldKind::Flag => "flag",
        FieldKind::Text => "text",
        FieldKind::Duration => "period",
        FieldKind::Timestamp => "time",
        FieldKind::Bytes => "bytes",
    };
    format!("`{}` ({kind})", field.name)
}

fn defaults(settings: &Settings) -> String {
    let threshold_ms = settings.threshold.as_millis();
    match (settings.enabled, settings.threshold.is_zero(), settings.rate) {
        (false, ..) => "no".to_owned(),
        (true, true, None) => "always".to_owned(),
        (true, false, None) => format!("from {threshold_ms} ms"),
        (true, true, Some(rate)) => format!("up to {rate}"),
        (true, false, Some(rate)) => format!("from {threshold_ms} ms, up to {rate}"),
    }
}
