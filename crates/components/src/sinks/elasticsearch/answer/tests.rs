use super::*;
use millstream_testkit_random::{TestSize, property};
use proptest::prelude::*;
use serde_json::json;

/// Reads an answer in pieces of `step` bytes.
fn read(body: &[u8], events: u64, step: usize) -> Result<Vec<Failure>, String> {
    let mut answer = BulkAnswer::new(events);
    for piece in body.chunks(step.max(1)) {
        if !answer.read(piece) {
            break;
        }
    }
    Box::new(answer).judge()
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

/// The answer of OpenSearch 2.19 to a request with `filter_path`.
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
    let endless =
        [b"{\"errors\":false,\"took\":".to_vec(), vec![b'1'; 3 * PART_BYTES_MAX]].concat();
    assert!(read(&endless, 3, 1000).unwrap_err().contains("too long"));
}

#[test]
fn an_answer_that_is_no_json_as_a_whole_does_not_count() {
    const DONE: &str = r#"{"create":{"status":201}}"#;
    let bodies = [
        // What is beside an item must not join with what replaces it.
        format!(r#"{{"errors":false,"items":[1{DONE}]}}"#),
        format!(r#"{{"errors":false,"items":[-{DONE}]}}"#),
        format!(r#"{{"errors":false,"items":[1.{DONE}]}}"#),
        format!(r#"{{"errors":false,"items":[{DONE}1]}}"#),
        // Brackets that match nothing.
        format!(r#"{{"errors":false,"items":[{DONE}[]}}"#),
        format!(r#"{{"errors":false,"items":[{DONE}]]}}"#),
        format!(r#"{{"errors":false,"items":[[{DONE}}}"#),
        // Arrays in place of objects, and another name that ends like that of the items.
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

/// An item, and what is expected of it.
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

    /// A whole answer gives every failure, in whatever pieces it arrives; no part of it counts.
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
        let found: Vec<_> = failures.iter().map(|of| (of.position, of.judgement)).collect();
        prop_assert_eq!(found, expected);
        let end = (cut * body.len() as f64) as usize;
        prop_assert!(read(&body.as_bytes()[..end], items.len() as u64, step).is_err());
    }
}
