//! Tests of the responses that are applied to batches, and of the checks of the options. The
//! end-to-end tests run operators.

use super::answer::{Changed, apply};
use super::config::JvmConfig;
use crate::component::Component;
use crate::transforms::on_error::{Failed, OnError};
use crate::util::jvm::{processes_of, runs_inside};
use millstream_jvm::{Answer, ChangedColumn, ColumnPlace, FailureReason, RowFailure};
use millstream_model::{
    Batch, Cell, CellKind, Column, ColumnBuilder, Grant, Ledger, MEMBERS, Outputs,
};
use millstream_testkit::{Rows, assert_valid, batch};
use serde_json::json;
use std::fs;
use std::sync::Arc;
use std::time::Duration;

/// Returns a batch of lines with the fields `a` and `b`; each is the line after a prefix.
fn lines(text: &str) -> Batch {
    let rows = [Rows { name: "/a.log", text: text.as_bytes() }];
    let mut batch = batch(&rows, 1 << 20, &Grant::new(1 << 30), &Ledger::new());
    for name in ["a", "b"] {
        let mut column = ColumnBuilder::new(batch.rows());
        for row in 0..batch.rows() {
            column.text(row, format!("{name}-{row}").as_bytes());
        }
        batch.fields.set(column.finish(name.into()));
    }
    batch
}

fn names() -> Vec<Arc<str>> {
    ["message", "a", "b"].map(Arc::from).to_vec()
}

/// A response, with values in a buffer.
struct Builder {
    answer: Answer,
    buffer: Vec<u8>,
}

impl Builder {
    fn new() -> Builder {
        let answer = Answer {
            columns: Vec::new(),
            buffer: Default::default(),
            emitted: Vec::new(),
            dropped: Vec::new(),
            failed: Vec::new(),
            duration: Duration::ZERO,
        };
        Builder { answer, buffer: Vec::new() }
    }

    /// Adds a column with these values; `None` is an absent cell.
    fn column(mut self, place: ColumnPlace, values: &[Option<(CellKind, &str)>]) -> Builder {
        let mut cells = Vec::new();
        for value in values {
            cells.push(match value {
                None => Cell::ABSENT,
                Some((kind, text)) => {
                    let start = self.buffer.len();
                    self.buffer.extend_from_slice(text.as_bytes());
                    Cell::own(*kind, start, text.len())
                }
            });
        }
        self.answer.columns.push(ChangedColumn { place, cells, removed: Vec::new() });
        self
    }

    fn apply(mut self, batch: Batch) -> Changed {
        self.answer.buffer = self.buffer.into();
        let changed = apply(batch, &names(), self.answer);
        assert_valid(&changed.batch);
        changed
    }
}

fn text(value: &str) -> Option<(CellKind, &str)> {
    Some((CellKind::Text, value))
}

fn new(name: &str) -> ColumnPlace {
    ColumnPlace::New(name.into())
}

/// Returns the message and the values of some fields for each selected event.
fn events(batch: &Batch, fields: &[&str]) -> Vec<String> {
    let value = |name: &&str, row: usize| {
        let column = batch.fields.get(name);
        let plain = column.and_then(|column| batch.value(column, row).plain());
        plain.map_or("-".to_owned(), |text| String::from_utf8_lossy(&text).into_owned())
    };
    let shown = |row: usize| {
        let values = fields.iter().map(|name| value(name, row)).collect::<Vec<_>>().join(" ");
        format!("{} {values}", String::from_utf8_lossy(batch.text(row)))
    };
    (0..batch.rows()).filter(|row| batch.is_selected(*row)).map(shown).collect()
}

#[test]
fn a_message_is_changed_where_it_is() {
    let mut batch = lines("x\ny\nz\n");
    let mut field = ColumnBuilder::new(3);
    field.text(0, b"of x");
    field.text(1, b"of y");
    batch.fields.set(field.finish("message".into()));
    let changed = Builder::new()
        .column(ColumnPlace::Existing(0), &[text("new"), None, text("new z")])
        .apply(batch);
    assert_eq!(events(&changed.batch, &["message"]), ["x new", "y -", "new z -"]);
    assert!(!changed.batch.is_shown(1), "the line does not take the place of the field");
    assert!(changed.batch.is_shown(2));
}

#[test]
fn columns_are_changed_and_added() {
    let changed = Builder::new()
        .column(ColumnPlace::Existing(2), &[text("new"), None, text("b-2")])
        .column(new("c"), &[None, text("c-1"), None])
        .apply(lines("x\ny\nz\n"));
    let expected = ["x a-0 new -", "y a-1 - c-1", "z a-2 b-2 -"];
    assert_eq!(events(&changed.batch, &["a", "b", "c"]), expected);
}

#[test]
fn a_message_is_always_text_and_hidden_where_it_was_removed() {
    let number = Some((CellKind::Int, "17"));
    let changed = Builder::new()
        .column(ColumnPlace::Existing(0), &[text("new"), number, None])
        .apply(lines("x\ny\nz\n"));
    assert_eq!(events(&changed.batch, &[]), ["new ", "17 ", "z "]);
    let kinds: Vec<_> = changed.batch.message.cells().iter().map(|cell| cell.kind()).collect();
    assert_eq!(kinds, [CellKind::Text; 3]);
    let shown = |row| changed.batch.is_shown(row);
    assert_eq!([shown(0), shown(1), shown(2)], [true, true, false]);
}

#[test]
fn a_message_that_was_hidden_is_shown_where_it_was_set() {
    let mut batch = lines("x\ny\n");
    batch.shown = Some(millstream_model::Selection::new_unset(2));
    let old = batch.message.cells()[1];
    let mut builder = Builder::new().column(ColumnPlace::Existing(0), &[text("new"), None]);
    builder.answer.columns[0].cells[1] = old;
    let changed = builder.apply(batch);
    assert_eq!([changed.batch.is_shown(0), changed.batch.is_shown(1)], [true, false]);
}

#[test]
fn times_are_those_of_the_events() {
    let time = Some((CellKind::Time, "1970-01-01T00:00:01.5Z"));
    let changed = Builder::new().column(new("timestamp"), &[None, time]).apply(lines("x\ny\n"));
    let read_ns = changed.batch.read_ns;
    assert_eq!([changed.batch.event_ns(0), changed.batch.event_ns(1)], [read_ns, 1_500_000_000]);
    assert!(changed.batch.fields.get("timestamp").is_none());
}

#[test]
fn emitted_events_stand_behind_theirs_with_their_fields_only() {
    let mut builder = Builder::new()
        .column(
            ColumnPlace::Existing(1),
            &[text("a-0"), text("changed"), text("a-2"), None, text("mine"), None],
        )
        .column(
            ColumnPlace::Existing(0),
            &[text("x"), text("y"), text("z"), text("x"), text("own"), text("z")],
        )
        .column(new("n"), &[None, None, None, text("1"), text("2"), text("3")]);
    builder.answer.emitted = vec![0, 1, 2];
    builder.answer.dropped = vec![2];
    builder.answer.failed = vec![RowFailure {
        row: 1,
        reason: FailureReason::Exception,
        rule: 0,
        message: "planted".into(),
    }];
    let changed = builder.apply(lines("x\ny\nz\n"));
    let expected = ["x a-0 b-0 -", "x - - 1", "y changed b-1 -", "own mine - 2", "z - - 3"];
    assert_eq!(events(&changed.batch, &["a", "b", "n"]), expected);
    let failed: Vec<usize> = changed.failed.iter().map(|(row, _)| *row).collect();
    assert_eq!(failed, [2], "the row has moved");
    let ordinals: Vec<u32> = (0..5).map(|row| changed.batch.ordinal(row)).collect();
    assert_eq!(ordinals, [0, 1, 0, 1, 0]);
}

#[test]
fn rows_that_are_not_selected_stay_out() {
    let mut batch = lines("x\ny\nz\n");
    batch.select_range(1, 3);
    let mut builder = Builder::new().column(new("n"), &[None, None, None, text("1")]);
    builder.answer.emitted = vec![2];
    builder.answer.dropped = vec![1];
    assert_eq!(events(&builder.apply(batch).batch, &["n"]), ["z -", "z 1"]);
}

#[test]
fn a_new_field_replaces_one_among_the_members() {
    let mut batch = lines("x\ny\nz\n");
    let mut rest = ColumnBuilder::new(3);
    for row in 0..3 {
        let cell = rest.push(CellKind::Members, br#""c":"old","d":1"#);
        rest.set(row, cell);
    }
    batch.fields.set(rest.finish(MEMBERS.into()));
    let mut builder = Builder::new().column(new("c"), &[text("new"), None, None]);
    builder.answer.columns[0].removed = vec![1];
    let changed = builder.apply(batch);
    let expected = [r#"x new "d":1"#, r#"y - "d":1"#, r#"z old "d":1"#];
    assert_eq!(events(&changed.batch, &["c", MEMBERS]), expected);
}

#[test]
fn an_answer_without_changes_keeps_the_batch() {
    let batch = lines("x\ny\n");
    let column = batch.fields.get("a").cloned();
    let changed = Builder::new().apply(batch);
    let is_same =
        |column: &Column| changed.batch.fields.get("a").is_some_and(|a| a.is_same(column));
    assert!(column.is_some_and(|column| is_same(&column)));
}

#[test]
fn the_log_counts_the_events_of_the_call_and_names_the_source_of_a_line_without_a_file() {
    let rows = [Rows { name: "", text: b"x\nemitted\n" }];
    let batch = batch(&rows, 1 << 20, &Grant::new(1 << 30), &Ledger::new());
    let source = batch.source.id.clone();
    let (mut failed, mut out) = (Failed::default(), Outputs::default());
    failed.examined(1);
    failed.add_in_words(0, "exception", "planted".to_owned());
    failed.settle(batch, OnError::Pass, &mut out);
    let expected = format!("1 of 1 events: planted ({source} offset 0): \"x\"");
    assert_eq!(out.warning.as_deref(), Some(&*expected));
}

fn config(options: serde_json::Value) -> JvmConfig {
    serde_json::from_value(options).unwrap()
}

fn faults(options: serde_json::Value) -> Vec<String> {
    config(options)
        .check()
        .iter()
        .map(|error| format!("{} {}", error.pointer, error.message()))
        .collect()
}

#[test]
fn options_that_contradict_each_other_are_errors() {
    let good = json!({ "language": "groovy", "script": "row.x = 1" });
    assert_eq!(faults(good), [""; 0]);
    let class = json!({ "language": "class", "jar": "a.jar", "class": "A", "options": { "x": 1 } });
    assert_eq!(faults(class), [""; 0]);
    for (options, part) in [
        (json!({ "language": "groovy" }), "needs one script"),
        (json!({ "language": "groovy", "script": "x", "script_file": "a" }), "needs one script"),
        (json!({ "language": "aviator", "script": "x", "jar": "a" }), "needs one script"),
        (json!({ "language": "class", "jar": "a" }), "a class needs a jar"),
        (
            json!({ "language": "groovy", "script": "x", "options": { "a": 1 } }),
            "language `class` only",
        ),
        (
            json!({ "language": "aviator", "script": "x", "fields": { "a": "int" } }),
            "language `groovy` only",
        ),
        (json!({ "language": "groovy", "script": "x", "output": "a" }), "language `aviator` only"),
        (
            json!({ "language": "groovy", "script": "x", "timeouts": { "event": "2s", "batch": "1s" } }),
            "longer time",
        ),
        (
            json!({ "language": "groovy", "script": "x", "timeouts": { "event": "1us" } }),
            "1ms or more",
        ),
        (json!({ "language": "groovy", "script": "x", "expansion": 0 }), "1 to 256"),
        (json!({ "language": "groovy", "script": "x", "process": "a" }), "needs `mode: process`"),
        (
            json!({ "language": "groovy", "script": "x", "mode": "process", "process": "a b" }),
            "is not a valid name",
        ),
    ] {
        let found = faults(options.clone());
        assert!(found.len() == 1 && found[0].contains(part), "{options}: {found:?}");
    }
}

#[test]
fn an_operator_runs_in_the_process_of_its_name() {
    let uses = |more: serde_json::Value| {
        let mut options = json!({ "language": "groovy", "script": "x" });
        options.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let config = config(options);
        (runs_inside(&config), processes_of(&config))
    };
    assert_eq!(uses(json!({})), (true, Vec::new()));
    assert_eq!(uses(json!({ "mode": "process" })), (false, vec!["default".to_owned()]));
    let named = json!({ "mode": "process", "process": "team-1" });
    assert_eq!(uses(named), (false, vec!["team-1".to_owned()]));
}

#[test]
fn scripts_without_a_statement_are_errors() {
    let check =
        |language: &str, script: &str| faults(json!({ "language": language, "script": script }));
    for script in ["", " \n// a\n/* b\n */ //c", "/* a"] {
        assert_eq!(check("groovy", script), ["/script is empty; use at least one statement"]);
    }
    assert_eq!(check("aviator", "## a\n \n##").len(), 1);
    for script in ["// a\nrow.x = 1", "/* a */ row.x = 1", "/x/.length()", "'// a'", "1 // a"] {
        assert_eq!(check("groovy", script), [""; 0], "{script}");
    }
}

#[test]
fn the_scripts_of_a_folder_run_in_the_order_of_their_names() {
    let dir = tempfile::tempdir().unwrap();
    for name in ["20-b.groovy", "10-a.groovy", ".hidden.groovy", "notes.txt", "c.av"] {
        fs::write(dir.path().join(name), name).unwrap();
    }
    let build = |language: &str| config(json!({ "language": language, "script_dir": dir.path() }));
    let rules = build("groovy").place().unwrap().read().unwrap();
    let names: Vec<&str> = rules.iter().map(|rule| &*rule.name).collect();
    assert_eq!(names, ["10-a.groovy", "20-b.groovy"]);
    assert_eq!(rules[1].text, "20-b.groovy");
    assert_eq!(build("aviator").place().unwrap().files().unwrap(), [dir.path().join("c.av")]);
    fs::remove_file(dir.path().join("c.av")).unwrap();
    let empty = build("aviator").place().unwrap().read().unwrap_err().to_string();
    assert!(empty.contains("no file that ends with `.av`"), "{empty}");
    fs::write(dir.path().join("30-c.groovy"), "// later\n").unwrap();
    let blank = build("groovy").place().unwrap().read().unwrap_err().to_string();
    assert_eq!(blank, "30-c.groovy is empty; use at least one statement");
    let missing = config(json!({ "language": "groovy", "script_file": "/none/a.groovy" }));
    assert!(missing.place().unwrap().read().unwrap_err().to_string().contains("/none/a.groovy"));
}
