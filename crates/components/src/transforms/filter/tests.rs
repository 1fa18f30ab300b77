//! Events that `filter` passes.

use super::*;
use crate::component::{BuildCx, TransformComponent};
use millstream_model::{
    Cell, CellKind, Column, Counters, Grant, Ledger, Origin, OriginId, Selection, SourceInfo,
    Transform,
};
use millstream_testkit::{Rows, batch};
use serde_json::json;
use std::sync::Arc;

/// Returns lines of two files. Only the first file has the `pod` attribute; the source has `env`.
fn of(first: &str, second: &str) -> Batch {
    let rows = [
        Rows { name: "/a.log", text: first.as_bytes() },
        Rows { name: "/b.log", text: second.as_bytes() },
    ];
    let mut batch = batch(&rows, 1000, &Grant::new(1 << 30), &Ledger::new());
    let map = |key: &str, value: &str| [(key.to_owned(), value.to_owned())].into();
    batch.source =
        Arc::new(SourceInfo { attributes: map("env", "prod"), ..(*batch.source).clone() });
    let mut segments = batch.segments.to_vec();
    segments[0].origin =
        Arc::new(Origin::new(OriginId(1), "/a.log").with_attributes(map("pod", "web-1")));
    batch.segments = segments.into();
    batch
}

fn kept(condition: &str, batch: Batch) -> (Vec<usize>, Arc<Counters>) {
    let config: FilterConfig = serde_json::from_value(json!({ "where": condition })).unwrap();
    let Transform::Map(make) = config.build(&BuildCx::default()).unwrap() else { panic!("no map") };
    let mut out = Outputs::default();
    make().apply(batch, &mut out).unwrap();
    let [(0, batch)] = &out.batches[..] else { panic!("one batch at the main output") };
    ((0..batch.rows()).filter(|row| batch.is_selected(*row)).collect(), out.counters)
}

#[test]
fn conditions_read_the_message_fields_and_constants_of_a_file() {
    let mut batch = of("GET 200\nPUT 500\n", "GET 503\n");
    let status = [4, 12, 20].map(|at| Cell::new(CellKind::Int, at, 3));
    batch.fields.set(Column::new("status".into(), status.to_vec(), Vec::new()));
    for (condition, expected) in [
        ("message.startsWith('GET')", &[0, 2][..]),
        ("status >= 500", &[1, 2]),
        ("event.status >= 500 && message.contains('GET')", &[2]),
        ("env == 'prod' && status == 200", &[0]),
        ("meta.file == '/b.log'", &[2]),
        ("meta.host == 'here' && meta.source == 'app'", &[0, 1, 2]),
        ("timestamp > timestamp('2026-01-01T00:00:00Z')", &[0, 1, 2]),
        ("has(event.status) && !has(event.nothing)", &[0, 1, 2]),
    ] {
        let (rows, counters) = kept(condition, batch.clone());
        assert_eq!(rows, expected, "{condition}");
        let dropped = counters.snapshot().dropped_events.get("filtered").copied().unwrap_or(0);
        assert_eq!(dropped as usize, 3 - expected.len(), "{condition}");
    }
}

#[test]
fn rows_without_a_result_are_dropped_and_counted_by_reason() {
    let (rows, counters) = kept("user == 'x'", of("1\n2\n", "3\n"));
    assert_eq!((rows, counters.snapshot().noted_events["missing_field"]), (vec![], 3));
    let config: FilterConfig = serde_json::from_value(json!({ "where": "stauts >= 500" })).unwrap();
    let Transform::Map(make) = config.build(&BuildCx::default()).unwrap() else { panic!("no map") };
    let mut out = Outputs::default();
    make().apply(of("1\n2\n", "3\n"), &mut out).unwrap();
    let expected = "3 of 3 events: `stauts >= 500` has no result: missing_field";
    assert!(
        out.warning.as_deref().is_some_and(|warning| warning.starts_with(expected)),
        "{:?}",
        out.warning
    );
    let (rows, counters) = kept("message > 5", of("1\n2\n", "3\n"));
    assert_eq!((rows, counters.snapshot().noted_events["type_error"]), (vec![], 3));
    let (rows, counters) = kept("int(message) / 0 == 1", of("1\n2\n", "3\n"));
    assert_eq!((rows, counters.snapshot().noted_events["arithmetic_error"]), (vec![], 3));
}

/// Rows that were removed earlier stay removed, and the condition is not evaluated for them.
#[test]
fn a_filter_narrows_the_selection() {
    let mut batch = of("1\n2\n3\n", "4\n");
    batch.select(Selection::from(vec![true, false, true, true]));
    let (rows, counters) = kept("message != '3' && has(event.nothing) == false", batch);
    assert_eq!((rows, counters.snapshot().dropped_events["filtered"]), (vec![0, 3], 1));
}

/// An attribute of one file is not a field of the other files.
#[test]
fn attributes_of_one_file_do_not_leak_into_another() {
    let (rows, _) = kept("pod == 'web-1'", of("1\n", "2\n"));
    assert_eq!(rows, [0]);
}

#[test]
fn an_invalid_condition_is_rejected_with_its_position() {
    let refused = |text: &str| {
        let config: Result<FilterConfig, _> = serde_json::from_value(json!({ "where": text }));
        config.unwrap_err().to_string()
    };
    assert!(refused("status >=").contains("line 1"), "{}", refused("status >="));
    assert!(refused("1 + 2").contains("not true or false"));
    assert!(refused("path.startWith('/')").contains("startsWith"));
}
