//! Encodes JSON lines, and parses them with an independent parser.

use super::*;
use arrow_buffer::BooleanBuffer;
use millstream_model::{
    BlockPool, Cell, CellKind, Column, Counters, Grant, Ledger, Origin, OriginId, SourceInfo,
    TIME_UNKNOWN,
};
use millstream_testkit::{Rows, batch};
use millstream_testkit_random::{TestSize, property};
use proptest::prelude::*;
use serde_json::{Value, json};
use std::sync::Arc;

/// Encodes a batch with these settings.
fn encode(batch: &Batch, encoding: Value) -> (String, Counters) {
    let (pool, grant, counters) = (BlockPool::new(), Grant::new(1 << 30), Counters::default());
    let encoding: Encoding = serde_json::from_value(encoding).unwrap();
    let mut permit = grant.try_take(1 << 20).unwrap();
    let mut payload = Payload::new(batch.events() as u64);
    let mut cx = EncodeCx { pool: &pool, permit: &mut permit, counters: &counters, refused: None };
    JsonEncoder::new(&encoding).encode(batch, &mut payload, &mut cx).unwrap();
    let text = payload.parts.concat();
    assert!(std::str::from_utf8(&text).is_ok(), "no UTF-8: {}", String::from_utf8_lossy(&text));
    (String::from_utf8(text).unwrap_or_default(), counters)
}

fn parse(text: &str) -> Vec<Value> {
    assert!(text.is_empty() || text.ends_with('\n'));
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {line:?}")))
        .collect()
}

/// Builds a batch with a single origin.
fn small(text: &[u8], line_max: usize) -> Batch {
    batch(
        &[Rows { name: "/var/log/a \"b\".log", text }],
        line_max,
        &Grant::new(1 << 30),
        &Ledger::new(),
    )
}

/// Checks the exact bytes of an event.
#[test]
fn an_event_is_one_line_with_its_metadata_in_an_object() {
    let mut batch = small(b"one\n\"two\"\n", 100);
    let attributes = [("env".to_owned(), "prod\t1".to_owned())].into();
    batch.source = Arc::new(SourceInfo { attributes, ..(*batch.source).clone() });
    let (text, _) = encode(&batch, json!({}));
    let event = |message: &str, offset: u64| {
        format!(
            "{{\"timestamp\":\"2026-11-21T20:29:46.123Z\",\"message\":\"{message}\",\"meta\":{{\"host\":\"here\",\
             \"source\":\"app\",\"file\":\"/var/log/a \\\"b\\\".log\",\"offset\":{offset},\
             \"id\":\"a000000000000001-{offset}\"}},\"env\":\"prod\\t1\"}}\n"
        )
    };
    assert_eq!(text, event("one", 0) + &event("\\\"two\\\"", 4));
}

/// The attributes of the origin are added to those of the source, which take precedence.
#[test]
fn attributes_of_origin_and_source_are_merged() {
    let mut batch = small(b"one\n", 100);
    let map = |pairs: &[(&str, &str)]| {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    };
    batch.source =
        Arc::new(SourceInfo { attributes: map(&[("env", "prod")]), ..(*batch.source).clone() });
    let own = map(&[("container", "web"), ("env", "test"), ("message", "no"), ("meta", "no")]);
    let mut segments = batch.segments.to_vec();
    segments[0].origin = Arc::new(Origin::new(OriginId(1), "log").with_attributes(own));
    batch.segments = segments.into();
    let event = &parse(&encode(&batch, json!({ "metadata": ["file"] })).0)[0];
    let expected = json!({
        "timestamp": "2026-11-21T20:29:46.123Z", "message": "one", "meta": { "file": "log" },
        "env": "prod", "container": "web",
    });
    assert_eq!(event, &expected);
}

/// All kinds of metadata, in an object and at the top level, as well as no metadata.
#[test]
fn metadata_is_placed_as_configured() {
    let batch = small(b"12345\nab\n", 3);
    let all = [
        "host",
        "source",
        "file",
        "offset",
        "id",
        "collected",
        "previous_offset",
        "file_id",
        "truncated",
    ];
    let meta = |offset: u64, previous: Value, truncated: bool| {
        json!({
            "host": "here", "source": "app", "file": "/var/log/a \"b\".log", "offset": offset,
            "id": format!("a000000000000001-{offset}"), "collected": "2026-11-21T20:29:46.123Z",
            "previous_offset": previous, "file_id": "a000000000000001", "truncated": truncated,
        })
    };
    let nested = parse(&encode(&batch, json!({ "metadata": all })).0);
    assert_eq!(
        [&nested[0]["meta"], &nested[1]["meta"]],
        [&meta(0, Value::Null, true), &meta(6, json!(0), false)]
    );
    assert_eq!([&nested[0]["message"], &nested[1]["message"]], ["123", "ab"]);
    let flat = parse(&encode(&batch, json!({ "metadata": all, "metadata_key": "" })).0);
    let mut expected = meta(6, json!(0), false);
    (expected["message"], expected["timestamp"]) = (json!("ab"), json!("2026-11-21T20:29:46.123Z"));
    assert_eq!(flat[1], expected);
    for key in ["meta", ""] {
        let bare = parse(&encode(&batch, json!({ "metadata": [], "metadata_key": key })).0);
        assert_eq!(bare[0], json!({ "timestamp": "2026-11-21T20:29:46.123Z", "message": "123" }));
    }
}

/// A time that is a number has as many digits as it needs, with and without fields.
#[test]
fn the_time_is_written_in_the_format_of_the_options() {
    let mut batch = small(b"a\nb\nc\n", 100);
    let times = [951_827_696_123_456_789, TIME_UNKNOWN, 9_000_000_001];
    let read = json!(batch.read_ns / 1_000_000);
    for (format, expected) in [
        (
            "rfc3339_nano",
            [json!("2000-02-29T12:34:56.123456789Z"), json!("1970-01-01T00:00:09.000000001Z")],
        ),
        ("unix", [json!(951_827_696), json!(9)]),
        ("unix_ms", [json!(951_827_696_123u64), json!(9000)]),
    ] {
        let encoding = json!({ "timestamp": format, "metadata": [] });
        for has_fields in [false, true] {
            if has_fields {
                batch.fields.set(column("x", &[Cell::ABSENT; 3], b""));
            }
            batch.time = Some(times.to_vec().into());
            let events = parse(&encode(&batch, encoding.clone()).0);
            let timestamp = |row: usize| events[row]["timestamp"].clone();
            assert_eq!([timestamp(0), timestamp(2)], expected);
            assert!(
                format != "unix_ms" || timestamp(1) == read,
                "a row without a time has the time of its read"
            );
            batch.time = None;
            let events = parse(&encode(&batch, encoding.clone()).0);
            assert!(format != "unix_ms" || events.iter().all(|event| event["timestamp"] == read));
        }
    }
}

/// Rows with an event time contain that time in milliseconds; other rows contain the read time.
#[test]
fn a_row_has_its_own_time() {
    let mut batch = small(b"1\n2\n3\n4\n5\n", 100);
    let times = [951_827_696_123_999_999, TIME_UNKNOWN, 951_827_696_123_999_999, -1, 0];
    batch.time = Some(times.to_vec().into());
    batch.select(BooleanBuffer::from(vec![true, true, true, false, true]));
    for metadata in [json!([]), json!(["offset"]), json!(["previous_offset", "collected"])] {
        let events = parse(&encode(&batch, json!({ "metadata": metadata })).0);
        let seen: Vec<_> =
            events.iter().map(|event| event["timestamp"].as_str().unwrap()).collect();
        let own = "2000-02-29T12:34:56.123Z";
        assert_eq!(seen, [own, "2026-11-21T20:29:46.123Z", own, "1970-01-01T00:00:00.000Z"]);
        if let Some(collected) = events[0]["meta"].get("collected") {
            assert_eq!(collected, "2026-11-21T20:29:46.123Z");
        }
    }
}

/// Invalid UTF-8 is replaced. An event counts once, even if several sequences are replaced.
#[test]
fn invalid_utf8_is_replaced_and_counted() {
    let (text, counters) =
        encode(&small(b"good\nb\xffa\xfed\n\xe2\x82\n", 100), json!({ "metadata": [] }));
    let messages: Vec<Value> = parse(&text).iter().map(|event| event["message"].clone()).collect();
    assert_eq!(messages, ["good", "b\u{fffd}a\u{fffd}d", "\u{fffd}"]);
    assert_eq!(counters.snapshot().noted_events.get("invalid_utf8"), Some(&2));
}

/// Lines of ASCII, characters that must be escaped, other scripts, and random bytes.
fn line() -> impl Strategy<Value = Vec<u8>> {
    let any_byte =
        prop::collection::vec(any::<u8>().prop_filter("no newline", |b| *b != b'\n'), 0..80);
    let characters = prop::collection::vec(prop::char::range('\0', '\u{10ffff}'), 0..40);
    let characters = characters
        .prop_map(|c| c.into_iter().filter(|c| *c != '\n').collect::<String>().into_bytes());
    prop_oneof![3 => "[ -~]{0,120}".prop_map(String::into_bytes), 2 => characters, 1 => any_byte]
}

/// Number of cases per property.
const CASES: TestSize = TestSize { gate: 256, long: 10_000 };

proptest! {
    #![proptest_config(property(CASES))]

    /// For all lines, segments and selections, the output consists of exactly the selected events
    /// in order, each with its text (invalid UTF-8 replaced), offset and id.
    #[test]
    fn encoded_events_read_back(
        parts in prop::collection::vec(prop::collection::vec(line(), 0..12), 1..5),
        keep in prop::option::of(prop::collection::vec(any::<bool>(), 60)),
        line_max in prop_oneof![Just(usize::MAX), 4..60usize],
        truncated in any::<bool>(),
        key in prop_oneof![Just("meta"), Just("")],
        copies in 1..4u32,
    ) {
        let texts: Vec<Vec<u8>> = parts.iter().map(|lines| lines.iter().flat_map(|l| [l, &b"\n"[..]].concat()).collect()).collect();
        let rows: Vec<Rows<'_>> = texts.iter().map(|text| Rows { name: "f", text }).collect();
        let grant = Grant::new(1 << 30);
        let mut batch = batch(&rows, line_max, &grant, &Ledger::new());
        if let Some(keep) = keep {
            batch.select(BooleanBuffer::from(&keep[..batch.rows()]));
        }
        if copies > 1 {
            batch = batch.repeat(&vec![copies; batch.rows()]);
        }
        let metadata = if truncated { json!(["offset", "id", "truncated"]) } else { json!(["offset", "id"]) };
        let (text, _) = encode(&batch, json!({ "metadata": metadata, "metadata_key": key }));
        let mut events = parse(&text).into_iter();
        for segment in batch.segments.iter() {
            for (index, row) in (segment.first_row..segment.first_row + segment.rows).filter(|row| batch.is_selected(*row)).enumerate() {
                let event = events.next().expect("an event for every selected row");
                prop_assert_eq!(event["message"].as_str().unwrap(), String::from_utf8_lossy(batch.text(row)));
                let meta = if key.is_empty() { &event } else { &event[key] };
                let offset = batch.offset(segment, row);
                prop_assert_eq!(&meta["offset"], offset);
                let ordinal = match index as u32 % copies {
                    0 => String::new(),
                    ordinal => format!("-{ordinal}"),
                };
                prop_assert_eq!(&meta["id"], &format!("{}-{offset}{ordinal}", segment.origin.id));
                prop_assert_eq!(meta["truncated"].as_bool(), truncated.then(|| batch.is_truncated(row)));
            }
        }
        prop_assert!(events.next().is_none(), "an unselected event");
    }
}

/// Builds a batch of the lines in `text`, with columns that refer to the block or own their bytes.
fn with_fields(text: &[u8], columns: Vec<Column>) -> Batch {
    let mut batch = small(text, 100);
    columns.into_iter().for_each(|column| batch.fields.set(column));
    batch
}

fn column(name: &str, cells: &[Cell], own: &'static [u8]) -> Column {
    Column::new(name.into(), cells.to_vec(), own)
}

/// Checks the exact bytes for every kind of value, and for missing values.
#[test]
fn fields_follow_the_message_as_json() {
    use millstream_model::CellKind::*;
    let text = b"GET 200 0.5 a\\nb {\"k\":1} [] \"q\"\nx\n";
    let cells = |cell: Cell| [cell, Cell::ABSENT];
    let batch = with_fields(
        text,
        vec![
            column("method", &cells(Cell::new(Text, 0, 3)), b""),
            column("status", &cells(Cell::new(Int, 4, 3)), b""),
            column("took", &cells(Cell::new(Float, 8, 3)), b""),
            column("escaped", &cells(Cell::new(Escaped, 12, 4)), b""),
            column("object", &cells(Cell::new(Object, 17, 7)), b""),
            column("array", &cells(Cell::new(Array, 25, 2)), b""),
            column("quoted \"name\"", &cells(Cell::new(Text, 28, 3)), b""),
            column("own", &cells(Cell::own(Text, 1, 3)), b"-\xFFy\n-"),
            column("null", &cells(Cell::constant(Null)), b""),
            column("flag", &[Cell::bool(true), Cell::bool(false)], b""),
            column("", &[Cell::own(Members, 0, 11), Cell::ABSENT], b"\"a\":1,\"b\":2"),
        ],
    );
    let (text, counters) = encode(&batch, json!({ "metadata": ["offset"] }));
    let first = "{\"timestamp\":\"2026-11-21T20:29:46.123Z\",\
        \"message\":\"GET 200 0.5 a\\\\nb {\\\"k\\\":1} [] \\\"q\\\"\",\"method\":\"GET\",\"status\":200,\
        \"took\":0.5,\"escaped\":\"a\\nb\",\"object\":{\"k\":1},\"array\":[],\"quoted \\\"name\\\"\":\"\\\"q\\\"\",\
        \"own\":\"\u{FFFD}y\\n\",\"null\":null,\"flag\":true,\"a\":1,\"b\":2,\"meta\":{\"offset\":0}}\n";
    let second = "{\"timestamp\":\"2026-11-21T20:29:46.123Z\",\"message\":\"x\",\"flag\":false,\
        \"meta\":{\"offset\":32}}\n";
    assert_eq!(text, format!("{first}{second}"));
    assert_eq!(
        counters.snapshot().noted_events.into_iter().collect::<Vec<_>>(),
        [("invalid_utf8", 1)]
    );
}

/// A pretty-printed JSON field keeps its line breaks until it is encoded, but an event must be a
/// single line.
#[test]
fn multi_line_json_becomes_one_line() {
    let object: &[u8] = b"{\r\n  \"k\": [\n1, 2]}";
    let array: &[u8] = b"[\n]";
    let members: &[u8] = b"\"a\":{\n\"b\": \"x\\ny\"\r}";
    let own = |kind, bytes: &[u8]| [Cell::own(kind, 0, bytes.len())];
    let batch = with_fields(
        b"x\n",
        vec![
            column("object", &own(CellKind::Object, object), object),
            column("array", &own(CellKind::Array, array), array),
            column("", &own(CellKind::Members, members), members),
        ],
    );
    let (text, _) = encode(&batch, json!({ "metadata": [] }));
    assert_eq!(text.matches(['\n', '\r']).count(), 1, "{text:?}");
    let event = &parse(&text)[0];
    assert_eq!((&event["object"], &event["array"]), (&json!({ "k": [1, 2] }), &json!([])));
    assert_eq!(event["a"], json!({ "b": "x\ny" }));
}

/// Parsed data is never overwritten: the built-in member is omitted and counted.
#[test]
fn a_field_replaces_the_built_in_member_of_its_name() {
    let text = b"1\n2\n3\n";
    let own = |len| Cell::own(CellKind::Text, 0, len);
    for name in ["timestamp", "message", "meta", "env", "container"] {
        let mut batch =
            with_fields(text, vec![column(name, &[Cell::ABSENT, own(3), Cell::ABSENT], b"log")]);
        let attributes = [("env".to_owned(), "prod".to_owned())].into();
        batch.source = Arc::new(SourceInfo { attributes, ..(*batch.source).clone() });
        let mut segments = batch.segments.to_vec();
        let attributes = [("container".to_owned(), "web".to_owned())].into();
        segments[0].origin = Arc::new(Origin::new(OriginId(1), "f").with_attributes(attributes));
        batch.segments = segments.into();
        let (text, counters) = encode(&batch, json!({ "metadata": ["offset"] }));
        let events = parse(&text);
        let replaced: Vec<bool> = events.iter().map(|event| event[name] == "log").collect();
        assert_eq!(replaced, [false, true, false], "{text}");
        events.iter().for_each(|event| assert_eq!(event.as_object().unwrap().len(), 5, "{text}"));
        assert_eq!(
            counters.snapshot().noted_events.into_iter().collect::<Vec<_>>(),
            [("name_clash", 1)]
        );
    }
}

/// Object members that are not columns replace built-in members as fields do, and no name occurs
/// twice.
#[test]
fn members_replace_the_built_in_members_of_their_names() {
    let members = b"\"timestamp\":\"log\",\"env\":1,\"x\":2,\"y\":3";
    let cell = Cell::own(CellKind::Members, 0, members.len());
    let x = column("x", &[Cell::own(CellKind::Text, 0, 3)], b"new");
    let mut batch = with_fields(b"1\n", vec![column("", &[cell], members), x]);
    let attributes = [("env".to_owned(), "prod".to_owned())].into();
    batch.source = Arc::new(SourceInfo { attributes, ..(*batch.source).clone() });
    let (text, _) = encode(&batch, json!({ "metadata": [] }));
    let expected = json!({ "timestamp": "log", "message": "1", "env": 1, "x": "new", "y": 3 });
    assert_eq!(parse(&text)[0], expected);
    assert!(
        ["timestamp", "env", "\"x\""].iter().all(|name| text.matches(name).count() == 1),
        "{text}"
    );
}

/// A hidden message is omitted, and an event without members is still an object.
#[test]
fn hidden_messages_are_omitted() {
    let mut batch = with_fields(b"1\n2\n", vec![]);
    batch.shown = Some(BooleanBuffer::from(vec![false, true]));
    let (text, _) = encode(&batch, json!({ "metadata": [] }));
    let messages: Vec<Value> =
        parse(&text).into_iter().map(|event| event["message"].clone()).collect();
    assert_eq!(messages, [Value::Null, json!("2")]);
    let own = Cell::own(CellKind::Text, 0, 1);
    let batch = with_fields(
        b"1\n",
        vec![column("timestamp", &[Cell::ABSENT], b""), column("message", &[own], b"m")],
    );
    let (text, _) = encode(&batch, json!({ "metadata": ["offset"] }));
    assert_eq!(parse(&text)[0]["message"], "m");
    // A hidden message is not counted as replaced.
    let mut batch = with_fields(b"1\n2\n", vec![column("message", &[own, own], b"m")]);
    batch.shown = Some(BooleanBuffer::from(vec![false, true]));
    let (text, counters) = encode(&batch, json!({ "metadata": [] }));
    assert!(parse(&text).iter().all(|event| event["message"] == "m"), "{text}");
    assert_eq!(counters.snapshot().noted_events["name_clash"], 1);
}

/// A slice of a valid block can start or end within a character.
#[test]
fn a_value_cut_within_a_character_is_replaced() {
    let text = "aé€\n".as_bytes();
    for (start, len, expected) in
        [(1, 2, "é"), (2, 1, "\u{FFFD}"), (0, 2, "a\u{FFFD}"), (3, 3, "€")]
    {
        let batch =
            with_fields(text, vec![column("v", &[Cell::new(CellKind::Text, start, len)], b"")]);
        assert_eq!(parse(&encode(&batch, json!({})).0)[0]["v"], expected);
    }
}

#[test]
fn an_event_keeps_the_id_that_came_with_its_record() {
    let mut batch = small(b"one\ntw\"o\nabc\n", 100);
    let ids = vec![Cell::ABSENT, Cell::new(CellKind::Text, 4, 4), Cell::new(CellKind::Text, 9, 3)];
    batch.ids = Some(Column::new("id".into(), ids, bytes::Bytes::new()));
    let ids = |batch: &Batch, encoding: Value| {
        let events = parse(&encode(batch, encoding).0);
        events.iter().map(|event| event["meta"]["id"].as_str().unwrap().to_owned()).collect()
    };
    let all: Vec<String> = ids(&batch, json!({}));
    assert_eq!(all, ["a000000000000001-0", "tw\"o", "abc"]);
    let made: Vec<String> = ids(&batch.repeat(&[0, 1, 2]), json!({ "metadata": ["id", "host"] }));
    assert_eq!(made, ["tw\"o", "abc", "abc.1"]);
}
