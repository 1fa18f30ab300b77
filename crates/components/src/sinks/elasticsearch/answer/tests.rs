use super::*;
use millstream_testkit_random::{TestSize, property};
use proptest::prelude::*;
use serde_json::json;

/// Reads a response in pieces of `step` bytes.
fn read(body: &[u8], events: u64, step: usize) -> Result<Vec<Failure>, String> {
    let mut answer = BulkAnswer::new(events);
    for piece in body.chunks(step.max(1)) {
        if !answer.read(piece) {
            break;
        }
    }
    Box::new(answer).judge(true).map_err(|unusable| unusable.text)
}

/// The result of reading a response that never ends.
struct Hostile {
    /// Number of bytes read until the agent stopped reading, or until all bytes were offered.
    read: usize,
    /// Largest total capacity of the buffers at any time.
    kept: usize,
    /// Error of a response that is too long; `None` if the response is unusable for another reason.
    error: Option<String>,
}

/// Reads `begin`, then `repeated`, up to this total number of bytes.
fn hostile(begin: &str, repeated: &str, bytes: usize, events: u64) -> Hostile {
    let mut answer = BulkAnswer::new(events);
    let piece = repeated.repeat((16 << 10) / repeated.len());
    let mut hostile = Hostile { read: begin.len(), kept: 0, error: None };
    let mut takes_more = answer.read(begin.as_bytes());
    while takes_more && hostile.read < bytes {
        takes_more = answer.read(piece.as_bytes());
        hostile.read += piece.len();
        let Splitter { outside, item, .. } = &answer.splitter;
        hostile.kept = hostile.kept.max(outside.capacity() + item.capacity());
    }
    let unusable = Box::new(answer).judge(takes_more).unwrap_err();
    hostile.error = Some(unusable.text).filter(|_| unusable.is_too_long);
    hostile
}

fn failed(op: &str, status: u16, kind: &str) -> Value {
    json!({ op: { "status": status, "error": { "type": kind, "reason": "why" } } })
}

fn judged(item: &Value) -> Option<Judgement> {
    let failure = judge(item.to_string().as_bytes(), 0).unwrap();
    failure.map(|failure| failure.judgement)
}

#[test]
fn each_item_is_judged_by_status_type_and_operation() {
    use Judgement::{Blocked, Later, Refused};
    for (op, status, kind, expected) in [
        ("create", 201, "", None),
        ("index", 200, "", None),
        ("create", 409, "version_conflict_engine_exception", None),
        ("index", 409, "version_conflict_engine_exception", Some(Later)),
        ("create", 429, "es_rejected_execution_exception", Some(Later)),
        ("create", 429, "circuit_breaking_exception", Some(Later)),
        ("create", 503, "unavailable_shards_exception", Some(Later)),
        ("create", 500, "exception", Some(Later)),
        ("create", 403, "cluster_block_exception", Some(Blocked)),
        ("create", 429, "cluster_block_exception", Some(Blocked)),
        ("create", 403, "security_exception", Some(Blocked)),
        ("create", 400, "mapper_parsing_exception", Some(Refused)),
        ("create", 400, "document_parsing_exception", Some(Refused)),
        ("create", 404, "index_not_found_exception", Some(Refused)),
        ("create", 302, "", Some(Refused)),
    ] {
        assert_eq!(judged(&failed(op, status, kind)), expected, "{op} {status} {kind}");
    }
    let full = json!({ "create": { "status": 400, "error": {
        "type": "validation_exception",
        "reason": "this action would add [2] shards, but this cluster currently has [9]/[9] maximum shards open;",
    } } });
    assert_eq!(judged(&full), Some(Blocked));
    assert!(judge(b"{\"delete\":{\"status\":200}}", 0).is_err());
    assert!(judge(b"{\"create\":{\"status\":\"x\"}}", 0).is_err());
}

#[test]
fn a_reason_names_status_type_and_causes_on_one_line() {
    let error = json!({ "type": "a", "reason": "b\nc", "caused_by": { "reason": "d" } });
    assert_eq!(reason(400, Some(&error)), "400 a: b c: d");
    assert_eq!(reason(400, Some(&json!("plain"))), "400 plain");
    assert_eq!((reason(400, None), reason(404, Some(&json!({})))), ("400".into(), "404".into()));
    let long = json!({ "type": "a", "reason": "é".repeat(10_000) });
    assert!(reason(400, Some(&long)).len() <= REASON_BYTES_MAX);
}

/// The response of OpenSearch 2.19 to a request with `filter_path`.
const REAL: &str = r#"{"errors":true,"items":[{"create":{"status":201}},{"create":{"status":409,"error":{"type":"version_conflict_engine_exception","reason":"[1]: version conflict","index":"a","shard":"0"}}},{"create":{"status":400,"error":{"type":"mapper_parsing_exception","reason":"failed to parse field [n] of type [long] in document with id '2'. Preview of field's value: 'x'","caused_by":{"type":"illegal_argument_exception","reason":"For input string: \"x\""}}}}]}"#;

#[test]
fn a_real_answer_is_read_in_pieces_of_any_size() {
    let reason = "400 mapper_parsing_exception: failed to parse field [n] of type [long] in document with id '2'. \
                  Preview of field's value: 'x': For input string: \"x\"";
    let expected =
        vec![Failure { position: 2, judgement: Judgement::Refused, reason: reason.to_owned() }];
    for step in 1..REAL.len() {
        assert_eq!(read(REAL.as_bytes(), 3, step), Ok(expected.clone()));
    }
}

#[test]
fn what_is_no_whole_answer_to_the_request_does_not_count() {
    let cuts = (0..REAL.len()).map(|end| REAL[..end].to_owned());
    let others = [
        "",
        "{}",
        "[]",
        "null",
        "<html>ok</html>",
        r#"{"errors":false}"#,
        r#"{"items":[]}"#,
        r#"{"errors":false,"items":[]}"#,
        r#"{"errors":false,"items":[{},{},{}]}"#,
        r#"{"errors":false,"items":[1,2,3]}"#,
        r#"{"errors":false,"items":["{}","{}","{}"]}"#,
        r#"{"error":{"type":"x"},"status":400}"#,
        r#"{"errors":false,"x":{"items":[{"create":{"status":201}}]},"items":[]}"#,
    ];
    let with_more = [REAL.to_owned() + "x", REAL.to_owned() + REAL, REAL.replace("]}", "],}")];
    for body in cuts.chain(others.map(str::to_owned)).chain(with_more) {
        assert!(read(body.as_bytes(), 3, 7).is_err(), "{body}");
    }
    for events in [0, 1, 2, 4, 1000] {
        assert!(read(REAL.as_bytes(), events, 7).is_err(), "{events} events");
    }
    assert_eq!(read(b" { \"errors\" : false , \"items\" : [ ] } ", 0, 7), Ok(Vec::new()));
}

#[test]
fn an_answer_without_an_end_takes_little_memory_and_names_the_bound() {
    const ITEM: &str = r#"{"errors":true,"items":[{"create":"#;
    let cases = [
        // One string: in the response, in an item, of escaped characters.
        ("{\"took\":\"".to_owned(), "x", "16384 KiB"),
        (format!("{ITEM}{{\"error\":\""), "x", "16384 KiB"),
        (format!("{ITEM}{{\"error\":\""), "é", "16384 KiB"),
        (format!("{ITEM}{{\"error\":\""), "\\u00e9", "16384 KiB"),
        // A member name, whitespace, numbers, nesting, members, items of another array.
        (format!("{ITEM}{{\""), "x", "16384 KiB"),
        (ITEM.to_owned(), " ", "16384 KiB"),
        ("{\"took\":".to_owned(), "1", "64 KiB"),
        ("{\"took\":".to_owned(), "[", "64 KiB"),
        (format!("{ITEM}{{\"error\":"), "[", "64 KiB"),
        (format!("{ITEM}{{"), "\"a\":1,", "64 KiB"),
        ("{\"x\":[".to_owned(), "{},", "64 KiB"),
    ];
    for (begin, repeated, bound) in cases {
        let case = format!("{begin}{repeated}");
        let hostile = hostile(&begin, repeated, 4 * READ_BYTES_MAX, 3);
        assert!(hostile.read <= READ_BYTES_MAX + (64 << 10), "{case}: {} read", hostile.read);
        assert!(hostile.kept <= 512 << 10, "{case}: {} bytes kept", hostile.kept);
        assert!(hostile.error.is_some_and(|error| error.contains(bound)), "{case}");
    }
    // A million items more than the request has events.
    let more =
        hostile("{\"errors\":false,\"items\":[", r#"{"create":{"status":201}},"#, 1 << 24, 3);
    assert!(more.read <= 64 << 10 && more.error.is_none(), "{} read", more.read);
}

#[test]
fn a_long_string_is_cut_and_its_item_counts() {
    for quoted in ["x", "é", "漢", "\u{1f600}", "\\n", "\\u00e9", "\\\\", "\\\"", "a\\\\\\\"b"] {
        for before in 0..8 {
            let reason = format!("{}{}", "x".repeat(before), quoted.repeat(9_000));
            let body = format!(
                r#"{{"errors":true,"items":[{{"create":{{"status":400,"error":{{"type":"t","reason":"{reason}"}}}}}},{{"create":{{"status":201}}}}]}}"#
            );
            for step in [1, 7, 4096, 1 << 20] {
                let failures = read(body.as_bytes(), 2, step).unwrap();
                assert_eq!((failures.len(), failures[0].position), (1, 0), "{quoted} {before}");
                assert!(failures[0].reason.starts_with("400 t: "), "{}", failures[0].reason);
            }
        }
    }
}

#[test]
fn what_is_cut_from_a_string_must_be_text() {
    let long = "x".repeat(cut_string::STRING_BYTES_MAX);
    let bad: [&[u8]; 8] =
        [b"\n", b"\x7f\xff", b"\xc3", b"\xc3x", b"\xed\xa0\x80", b"\\x", b"\\u00g0", b"\\u00"];
    for bad in bad {
        let item =
            [b"{\"create\":{\"status\":201,\"x\":\"", long.as_bytes(), bad, b"\"}}"].concat();
        let body = [b"{\"errors\":false,\"items\":[", &item[..], b"]}"].concat();
        for step in [1, 4096, 1 << 20] {
            assert!(read(&body, 1, step).is_err(), "{bad:?}");
        }
    }
}

#[test]
fn an_answer_that_is_no_json_as_a_whole_does_not_count() {
    const DONE: &str = r#"{"create":{"status":201}}"#;
    let bodies = [
        // Text next to an item must not join with the placeholder that replaces the item.
        format!(r#"{{"errors":false,"items":[1{DONE}]}}"#),
        format!(r#"{{"errors":false,"items":[-{DONE}]}}"#),
        format!(r#"{{"errors":false,"items":[1.{DONE}]}}"#),
        format!(r#"{{"errors":false,"items":[{DONE}1]}}"#),
        // Unmatched brackets.
        format!(r#"{{"errors":false,"items":[{DONE}[]}}"#),
        format!(r#"{{"errors":false,"items":[{DONE}]]}}"#),
        format!(r#"{{"errors":false,"items":[[{DONE}}}"#),
        // Arrays in place of objects, and another name that ends like `items`.
        r#"{"errors":false,"items":[[null,{"status":201}]]}"#.to_owned(),
        r#"{"errors":false,"items":[{"create":[201]}]}"#.to_owned(),
        format!(r#"{{"errors":false,"x\"items":[{DONE}],"items":[1]}}"#),
    ];
    for body in bodies {
        for step in [1, 7, 1000] {
            assert!(read(body.as_bytes(), 1, step).is_err(), "{body}");
        }
    }
    assert!(read(b"[false,[]]", 0, 7).is_err());
    assert!(read(b"{\"errors\":false,\"items\":[[]}", 0, 7).is_err());
    let not_utf8 = b"{\"errors\":false,\"x\":\"\xFF\",\"items\":[{\"create\":{\"status\":201}}]}";
    assert!(read(not_utf8, 1, 7).is_err());
}

/// An item, and the expected judgement.
fn item() -> impl Strategy<Value = (Value, Option<Judgement>)> {
    let text = "[ -~é\\n]{0,12}";
    (0usize..5, text).prop_map(|(kind, text)| match kind {
        0 => (
            failed("create", 429, &text),
            (text != "cluster_block_exception").then_some(Judgement::Later),
        ),
        1 => (failed("index", 400, &text), Some(Judgement::Refused)),
        2 => (
            json!({ "create": { "status": 403, "error": { "reason": text, "type": "t]}{[" } } }),
            Some(Judgement::Blocked),
        ),
        _ => (json!({ "create": { "_id": text, "status": 201, "items": [{}, "]}"] } }), None),
    })
}

/// Cases of each property.
const CASES: TestSize = TestSize { gate: 256, long: 10_000 };

proptest! {
    #![proptest_config(property(CASES))]

    /// A complete response yields every failure, regardless of how it is split. A partial response
    /// does not count.
    #[test]
    fn only_a_whole_answer_counts(
        items in prop::collection::vec(item(), 0..12),
        step in 1usize..40,
        cut in 0.0..1.0f64,
        pretty in any::<bool>(),
    ) {
        let all: Vec<&Value> = items.iter().map(|(item, _)| item).collect();
        let answer = json!({ "took": 3, "note": "\"items\":[", "errors": true, "items": all, "last": "]}" });
        let body = match pretty {
            true => serde_json::to_string_pretty(&answer).unwrap(),
            false => answer.to_string(),
        };
        let failures = read(body.as_bytes(), items.len() as u64, step).unwrap();
        let expected: Vec<_> = items.iter().enumerate()
            .filter_map(|(at, (_, judgement))| Some((at as u32, (*judgement)?)))
            .collect();
        let found: Vec<_> =
            failures.iter().map(|failure| (failure.position, failure.judgement)).collect();
        prop_assert_eq!(found, expected);
        let end = (cut * body.len() as f64) as usize;
        prop_assert!(read(&body.as_bytes()[..end], items.len() as u64, step).is_err());
    }
}
