//! Header lines, which name the columns of the following lines.

use super::*;

fn fixture(more: Value) -> Fixture {
    let mut options = json!({ "header_delimiter": " " });
    options.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    Fixture::new(options, &["out"])
}

/// Returns each line with the header that names its columns.
fn read(fixture: &mut Fixture) -> Vec<String> {
    let batches = fixture.batches();
    batches.iter().for_each(deliver);
    let with_header = |batch: &Batch| {
        let header = batch.header.as_deref().unwrap_or_default().to_owned();
        texts_of(batch).into_iter().map(move |text| format!("{header}|{text}"))
    };
    batches.iter().flat_map(with_header).collect()
}

/// Returns a text with `count` headers, and a line after each.
fn alternating(count: usize) -> (String, Vec<String>) {
    let text = (0..count).map(|n| format!("#Fields: a b{n}\n{n} x\n")).collect();
    (text, (0..count).map(|n| format!("#Fields: a b{n}|{n} x")).collect())
}

#[test]
fn a_file_is_read_on_behind_each_header_at_once() {
    let mut fixture = fixture(json!({}));
    let (text, expected) = alternating(100);
    fixture.append("a.log", text);
    let begun = fixture.rig.now.since_start;
    assert_eq!(read(&mut fixture), expected);
    let waited = fixture.rig.now.since_start - begun;
    assert_eq!(waited, 3 * STEP, "only for more at the end");
}

#[test]
fn headers_before_a_checkpoint_are_known_after_a_restart() {
    let mut fixture = fixture(json!({}));
    let (text, expected) = alternating(100);
    fixture.append("a.log", &text);
    assert_eq!(read(&mut fixture), expected);
    fixture.restart(true);
    fixture.append("a.log", "y\n");
    assert_eq!(read(&mut fixture), ["#Fields: a b99|y"]);
    // Nothing was saved, so the file is reread.
    fixture.restart(false);
    fixture.append("a.log", "z\n");
    assert_eq!(read(&mut fixture).last().unwrap(), "#Fields: a b99|z");
}

#[test]
fn a_header_without_a_line_end_waits_for_it() {
    let mut fixture = fixture(json!({ "read_timeout": "5s" }));
    fixture.append("a.log", "#Fields: a\n1\n#Fields: b,");
    let mut lines = Vec::new();
    for _ in 0..40 {
        lines.extend(read(&mut fixture));
    }
    fixture.append("a.log", "c\n2");
    for _ in 0..40 {
        lines.extend(read(&mut fixture));
    }
    assert_eq!(lines, ["#Fields: a|1", "#Fields: b,c|2"]);
}
