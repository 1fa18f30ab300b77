//! Tests of batches that `parse` transforms.

use super::*;
use crate::component::Component;
use crate::component::{BuildCx, TransformComponent};
use millstream_model::{Counters, Grant, Ledger, Transform};
use millstream_testkit::{Rows, batch};
use serde_json::{Value, json};
use std::sync::Arc;

/// Time when the batches were read: 2026-11-21 20:29:46.123.
const READ_NS: i64 = 1_795_292_986_123_000_000;

fn map(options: Value) -> Box<dyn Map> {
    let config: ParseConfig = serde_json::from_value(options).unwrap();
    assert_eq!(config.check(), []);
    match config.build(&BuildCx::default()).unwrap() {
        Transform::Map(make) => make(),
        _ => panic!("no map"),
    }
}

fn of(text: &str) -> Batch {
    let rows = [Rows { name: "/a.log", text: text.as_bytes() }];
    batch(&rows, 1000, &Grant::new(1 << 30), &Ledger::new())
}

/// Returns the transformed batch, the counters and the log message.
fn applied(map: &mut dyn Map, batch: Batch) -> (Batch, Arc<Counters>, Option<String>) {
    let mut out = Outputs::default();
    map.apply(batch, &mut out).unwrap();
    let [(0, batch)] = &out.batches[..] else { panic!("one batch at the main output") };
    (batch.clone(), out.counters.clone(), out.warning)
}

fn seconds(options: Value, text: &str) -> Vec<i64> {
    let (batch, ..) = applied(&mut *map(options), of(text));
    (0..batch.rows()).map(|row| batch.event_ns(row) / 1_000_000_000).collect()
}

#[test]
fn the_time_starts_at_the_configured_position() {
    let time = |more: Value| {
        let mut time = json!({ "format": "%Y-%m-%d %H:%M:%S" });
        time.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        json!({ "time": time })
    };
    let begin = 951_827_696;
    assert_eq!(seconds(time(json!({})), "2000-02-29 12:34:56 x\n"), [begin]);
    assert_eq!(seconds(time(json!({ "after": "[" })), "a [2000-02-29 12:34:56] x\n"), [begin]);
    assert_eq!(
        seconds(time(json!({ "after": "|", "nth": 3 })), "|a|b|2000-02-29 12:34:56\n"),
        [begin]
    );
    assert_eq!(
        seconds(time(json!({ "after": "at=", "nth": 2 })), "at=1 at=2000-02-29 12:34:56 at=3\n"),
        [begin]
    );
    assert_eq!(
        seconds(
            time(json!({ "timezone": "+02:00" })),
            "2000-02-29 12:34:56\n2000-02-29 12:34:57\n"
        ),
        [begin - 7200, begin - 7199]
    );
    // Only configured text is skipped.
    assert_eq!(seconds(time(json!({})), " 2000-02-29 12:34:56 x\n"), [READ_NS / 1_000_000_000]);
}

#[test]
fn a_zone_and_several_formats_give_the_time() {
    let time = json!({ "format": ["%d.%m.%Y %T", "iso8601"], "timezone": "Europe/Berlin" });
    let lines =
        "01.07.2026 12:00:00\n2026-01-01 12:00:00\n2026-10-25 02:30:00\n2026-07-01T12:00:00Z\n";
    let expected = [1_782_900_000, 1_767_265_200, 1_792_888_200, 1_782_907_200];
    assert_eq!(seconds(json!({ "time": time }), lines), expected);
}

#[test]
fn a_line_without_a_time_keeps_its_read_time_and_is_counted() {
    let mut map = map(json!({ "time": { "format": "epoch_ms", "after": "[" } }));
    let (batch, counters, warning) = applied(&mut *map, of("[1\nrubbish\n[x\n[2\n"));
    let times: Vec<_> = (0..4).map(|row| batch.event_ns(row)).collect();
    assert_eq!((times, batch.events()), (vec![1_000_000, READ_NS, READ_NS, 2_000_000], 4));
    let snapshot = counters.snapshot();
    assert_eq!(snapshot.noted_events.into_iter().collect::<Vec<_>>(), [("bad_time", 2)]);
    assert!(snapshot.dropped_events.is_empty());
    let expected = "2 of 4 events: bad_time: the line does not contain the text before the timestamp (/a.log offset 3): \"rubbish\"";
    assert_eq!(warning.as_deref(), Some(expected));
}

#[test]
fn a_batch_without_any_time_has_no_time_column() {
    let mut map = map(json!({ "time": { "format": "iso8601" } }));
    let (batch, _, warning) = applied(&mut *map, of("rubbish\n"));
    assert!(batch.time.is_none());
    let expected = "1 of 1 events: bad_time: does not match the format at byte 0 (/a.log offset \
                    0): \"rubbish\"";
    assert_eq!(warning.as_deref(), Some(expected));
    let (_, _, warning) = applied(&mut *map, of("rubbish password=hunter22\n"));
    assert!(warning.unwrap().ends_with(r#""rubbish password=[key]""#));
    let (empty, _, warning) = applied(&mut *map, of(""));
    assert!(empty.time.is_none() && warning.is_none());
}

#[test]
fn lines_without_a_time_are_dropped_if_configured() {
    let mut map = map(json!({ "time": { "format": "epoch_s" }, "on_error": "drop" }));
    let mut batch = of("1\nx\n2\ny\n3\n");
    batch.select(Selection::from(vec![true, true, true, false, true]));
    let (batch, counters, _) = applied(&mut *map, batch);
    let kept: Vec<_> = (0..5).filter(|row| batch.is_selected(*row)).collect();
    assert_eq!(kept, [0, 2, 4]);
    assert_eq!(
        counters.snapshot().dropped_events.into_iter().collect::<Vec<_>>(),
        [("bad_time", 1)]
    );
}

#[test]
fn a_single_format_in_a_list_has_its_own_time() {
    let lines = "<30>1 2024-02-29T11:34:58Z h app - - - x\n1\n";
    let options = json!({ "formats": [{ "format": "syslog" }], "time": { "format": "epoch_s" }, "on_error": "drop" });
    let (batch, counters, _) = applied(&mut *map(options), of(lines));
    assert_eq!(batch.event_ns(0), 1_709_206_498_000_000_000);
    let dropped = counters.snapshot().dropped_events;
    assert_eq!(dropped.into_iter().collect::<Vec<_>>(), [("not_syslog", 1)], "and no bad_time");
}

#[test]
fn a_second_transform_parses_what_the_first_could_not() {
    let (first, ..) = applied(&mut *map(json!({ "time": { "format": "epoch_s" } })), of("1\n@2\n"));
    let (both, ..) =
        applied(&mut *map(json!({ "time": { "format": "epoch_s", "after": "@" } })), first);
    assert_eq!([both.event_ns(0), both.event_ns(1)], [1_000_000_000, 2_000_000_000]);
}

#[test]
fn errors_say_what_to_write_instead() {
    let errors = |options: Value| {
        let config: ParseConfig = serde_json::from_value(options).unwrap();
        config.check()
    };
    let all = [
        (json!({}), "", "has no effect; use, for example, format: json"),
        (
            json!({ "format": "nginx", "types": { "status": "text" } }),
            "/types",
            "is fixed by this format",
        ),
        (
            json!({ "format": "json", "pattern": "x" }),
            "/pattern",
            "is valid only for formats regex, grok; remove it",
        ),
        (
            json!({ "formats": [{ "format": "json" }], "pattern": "x" }),
            "/pattern",
            "is valid only for formats",
        ),
        (
            json!({ "formats": [{ "format": "json" }, { "format": "csv" }] }),
            "/formats/1",
            "has no fields",
        ),
        (
            json!({ "format": "cef", "delimiter": "|" }),
            "/delimiter",
            "is valid only for formats delimited, key_value, leef; remove it",
        ),
        (
            json!({ "format": "leef", "delimiter": "" }),
            "/delimiter",
            "delimiter must not be empty or \"=\"; use",
        ),
        (json!({ "time": { "format": "iso8601" }, "keep": "never" }), "/keep", "needs a format"),
        (json!({ "time": { "format": "yyyy" } }), "/time/format", "not a time format; use"),
        (json!({ "time": { "format": [] } }), "/time/format", "has no format; use"),
        (
            json!({ "time": { "format": ["iso8601", "yyyy"] } }),
            "/time/format",
            "\"yyyy\": not a time format; use",
        ),
        (
            json!({ "time": { "format": "iso8601", "timezone": "Berlin" } }),
            "/time/timezone",
            "\"Berlin\" is not a known time zone; did you mean Europe/Berlin?",
        ),
        (
            json!({ "time": { "format": "iso8601", "after": "" } }),
            "/time/after",
            "must not be empty",
        ),
        (
            json!({ "time": { "format": "iso8601", "after": "\n" } }),
            "/time/after",
            "must not contain a line ending",
        ),
        (
            json!({ "time": { "format": "iso8601", "after": "[", "nth": 0 } }),
            "/time/nth",
            "counts from 1",
        ),
        (
            json!({ "time": { "format": "iso8601", "nth": 2 } }),
            "/time/nth",
            "counts occurrences of `after`",
        ),
    ];
    for (options, pointer, message) in all {
        let [error] = &errors(options)[..] else { panic!("one error") };
        let (found, text) = (&error.pointer, error.message());
        assert!(found == pointer && text.starts_with(message), "{found}: {text}");
    }
}

/// Returns the events of the main output and the rejected events as text, and the counters.
fn parsed(options: Value, text: &str) -> (Vec<String>, Vec<String>, Vec<(&'static str, u64)>) {
    let mut out = Outputs::default();
    map(options).apply(of(text), &mut out).unwrap();
    let (mut passed, mut rejected) = (Vec::new(), Vec::new());
    for (port, batch) in &out.batches {
        let events = if *port == 0 { &mut passed } else { &mut rejected };
        events.extend(
            (0..batch.rows()).filter(|row| batch.is_selected(*row)).map(|row| shown(batch, row)),
        );
    }
    (passed, rejected, out.counters.snapshot().noted_events.into_iter().collect())
}

/// Formats the line if it is shown, and the fields that have a value: `a 1|x=1`.
fn shown(batch: &Batch, row: usize) -> String {
    let mut text = String::new();
    if batch.is_shown(row) {
        text += &String::from_utf8_lossy(batch.text(row));
    }
    for column in batch.fields.iter().filter(|column| column.cells()[row].is_present()) {
        let value = column.bytes(&batch.block, column.cells()[row]);
        text += &format!("|{}={}", column.name, String::from_utf8_lossy(value));
    }
    text
}

#[test]
fn an_unparsable_line_stays_whole_and_is_rejected_with_the_reason() {
    let options = json!({ "format": "logfmt", "types": { "n": "int" }, "on_error": "reject" });
    let (passed, rejected, noted) = parsed(options, "a=x n=1\nrubbish\na=y n=two\nq=\"\n");
    assert_eq!(passed, ["|a=x|n=1"]);
    let expected =
        ["rubbish|reason=no_pairs", "a=y n=two|a=y|n=|reason=bad_type", "q=\"|reason=bad_quotes"];
    assert_eq!(rejected, expected);
    assert_eq!(noted, [("bad_quotes", 1), ("bad_type", 1), ("no_pairs", 1)]);
}

/// The fields before the invalid part stay, and `on_error` handles the event.
#[test]
fn an_invalid_syslog_header_is_rejected_with_its_valid_fields() {
    let options = json!({ "format": "syslog", "on_error": "reject" });
    let lines = "<13>1 - h a - - - m\n<13>1 2024-02-30T00:00:00Z h\n<13>1 - h a - - [e k=1]\n";
    let (passed, rejected, noted) = parsed(options, lines);
    assert_eq!(passed.len(), 1);
    assert!(rejected[0].starts_with("<13>1 2024-02-30T00:00:00Z h|facility=user"), "{rejected:?}");
    assert!(rejected[0].ends_with("|reason=bad_time"), "{rejected:?}");
    assert!(rejected[1].contains("|hostname=h|app_name=a|"), "{rejected:?}");
    assert!(rejected[1].ends_with("|reason=bad_structured_data"), "{rejected:?}");
    assert_eq!(noted, [("bad_structured_data", 1), ("bad_time", 1)]);
}

/// Escapes are decoded by default in CEF, but not in LEEF, and text without a key keeps the line.
#[test]
fn events_of_security_devices_are_parsed() {
    let formats = json!([
        { "format": "cef", "types": { "spt": "int" }, "null_values": [""] },
        { "format": "leef", "delimiter": "#011" },
    ]);
    let options = json!({ "formats": formats, "on_error": "reject" });
    let lines = "h CEF:0|v|p|1|id|n|5|spt=7 a= b=c d\\\\\nLEEF:1.0|v|p|1|id|a=b\\\\#011c=\n\
         CEF:0|v|p|1|id|n|5|x a=1\nCEF:0|v\n";
    let (passed, rejected, noted) = parsed(options, lines);
    let [first, second] = &passed[..] else { panic!("{passed:?}") };
    assert!(first.starts_with("|prefix=h|cef_version=0|device_vendor=v|"), "{first}");
    assert!(first.ends_with("|severity=5|spt=7|b=c d\\"), "{first}");
    assert!(second.contains("|leef_version=1.0|vendor=v|product=p|"), "{second}");
    assert!(second.contains("|a=b\\\\") && second.contains("|c="), "{second}");
    assert!(rejected[0].starts_with("CEF:0|v|p|1|id|n|5|x a=1|"), "{rejected:?}");
    assert!(rejected[0].ends_with("|reason=bad_extension"), "{rejected:?}");
    assert_eq!(rejected[1], "CEF:0|v|reason=cef: too_few_fields; leef: not_leef");
    assert_eq!(noted, [("bad_extension", 1), ("not_leef", 1)]);
}

#[test]
fn the_parsed_text_is_kept_as_configured() {
    let kept = |keep: &str| parsed(json!({ "format": "logfmt", "keep": keep }), "a=1\nx\n").0;
    assert_eq!(kept("on_error"), ["|a=1", "x"]);
    assert_eq!(kept("always"), ["a=1|a=1", "x"]);
    assert_eq!(kept("never"), ["|a=1", ""]);
}

#[test]
fn formats_are_tried_in_order_and_a_field_can_be_parsed() {
    let formats =
        json!({ "formats": [{ "format": "json" }, { "format": "logfmt" }], "on_error": "reject" });
    let (passed, rejected, noted) = parsed(formats, "{\"a\":1}\na=2\nneither\n");
    assert_eq!(
        (passed, rejected),
        (
            vec!["|a=1".into(), "|a=2".into()],
            vec!["neither|reason=json: not_json; logfmt: no_pairs".into()]
        )
    );
    assert_eq!(noted, [("no_pairs", 1)]);
    let many: Vec<Value> =
        (0..12).map(|n| json!({ "format": "regex", "pattern": format!("^(?<a>{n}x)") })).collect();
    let (_, rejected, _) = parsed(json!({ "formats": many, "on_error": "reject" }), "neither\n");
    assert_eq!(rejected[0].matches("regex: no_match").count(), 8);
    assert!(rejected[0].ends_with("; and 4 more"), "{rejected:?}");
    let (first, ..) =
        applied(&mut *map(json!({ "format": "json" })), of("{\"log\":\"b=\\\"1\\\"\"}\n{}\n"));
    let (batch, counters, _) =
        applied(&mut *map(json!({ "format": "logfmt", "field": "log" })), first);
    assert_eq!([shown(&batch, 0), shown(&batch, 1)], ["|b=1", ""]);
    assert_eq!(counters.snapshot().noted_events["missing_field"], 1);
}

/// Other errors in a line do not keep its time from being parsed, and an invalid time is a normal
/// error.
#[test]
fn a_bad_type_does_not_lose_the_time_and_a_bad_time_keeps_the_line() {
    let options = json!({ "format": "logfmt", "types": { "n": "int" }, "time": { "field": "t", "format": "epoch_s" } });
    let (batch, ..) = applied(&mut *map(options), of("t=1 n=x\nt=x n=2\nn=3\nt=4 n=4\nrubbish\n"));
    let seconds: Vec<i64> = (0..5).map(|row| batch.event_ns(row) / 1_000_000_000).collect();
    let read = READ_NS / 1_000_000_000;
    assert_eq!(seconds, [1, read, read, 4, read]);
    let events: Vec<String> = (0..5).map(|row| shown(&batch, row)).collect();
    assert_eq!(events, ["t=1 n=x|n=", "t=x n=2|t=x|n=2", "n=3|n=3", "|n=4", "rubbish"]);
}

/// Each format has its timestamp in a different field, which is removed after it is parsed.
#[test]
fn every_format_provides_its_own_time() {
    let docker = r#"{"log":"b\n","stream":"stdout","time":"2024-02-29T00:00:01Z"}"#;
    let options = json!({ "formats": [{ "format": "cri" }, { "format": "docker" }] });
    let (batch, ..) =
        applied(&mut *map(options), of(&format!("2024-02-29T00:00:00Z stdout F a\n{docker}\n")));
    assert_eq!(
        [0, 1].map(|row| batch.event_ns(row) / 1_000_000_000),
        [1_709_164_800, 1_709_164_801]
    );
    let lines = ["|log.iostream=stdout|flags=F|message=a", "|log.iostream=stdout|message=b"];
    assert_eq!([shown(&batch, 0), shown(&batch, 1)], lines);
    assert_eq!(batch.segments[0].origin.state.newest(), 1_709_164_801_000_000_000);
}

/// If there are more names than columns, the remaining members stay together and no value is lost.
#[test]
fn duplicate_names_are_counted_and_members_without_a_column_stay() {
    let lines: String = (0..300).map(|n| format!("k{n}=v\n")).collect();
    let text = format!("a=1 a=2\n{lines}level=info msg=\"a \\\"b\\\"\" a=3 done\n");
    let (batch, counters, _) = applied(&mut *map(json!({ "format": "logfmt" })), of(&text));
    assert_eq!(
        counters.snapshot().noted_events.into_iter().collect::<Vec<_>>(),
        [("duplicate_key", 1)]
    );
    assert_eq!(batch.fields.len(), 257, "256 and the members");
    let last = batch.rows() - 1;
    let member =
        |name| batch.fields.member(name, &batch.block, last).and_then(|value| value.text());
    assert_eq!(member("level").as_deref(), Some(&b"info"[..]));
    assert_eq!(member("msg").as_deref(), Some(&b"a \"b\""[..]));
    assert_eq!(
        batch.fields.member("done", &batch.block, last),
        Some(millstream_model::Value::Bool(true))
    );
    assert_eq!(
        batch.fields.member("k299", &batch.block, 300).and_then(|v| v.text()).as_deref(),
        Some(&b"v"[..])
    );
}

/// The newest time and the number of events out of order reach the origin, once per range.
#[test]
fn times_reach_the_state_of_their_origin() {
    let batch = of("100\n200\nno time\n150\n");
    let mut map = map(json!({ "time": { "format": "epoch_s" } }));
    let state = &batch.segments[0].origin.state;
    for _ in 0..2 {
        applied(&mut *map, batch.clone());
        assert_eq!((state.newest(), state.disorder()), (200_000_000_000, 1));
    }
}
