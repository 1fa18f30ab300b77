//! Tests of batches that `redact` transforms.

use super::*;
use crate::component::{BuildCx, Component, TransformComponent};
use millstream_model::{Counters, Grant, Ledger, Transform};
use millstream_testkit::{Rows, assert_valid, batch};
use millstream_testkit_random::{TestSize, property};
use proptest::prelude::*;
use serde_json::json;

fn map(options: serde_json::Value) -> Box<dyn Map> {
    let config: RedactConfig = serde_json::from_value(options).unwrap();
    assert_eq!(config.check(), []);
    match config.build(&BuildCx::default()).unwrap() {
        Transform::Map(make) => make(),
        _ => panic!("no map"),
    }
}

fn of(text: &[u8]) -> Batch {
    let rows = [Rows { name: "/a.log", text }];
    batch(&rows, 1 << 20, &Grant::new(1 << 30), &Ledger::new())
}

fn applied(map: &mut dyn Map, batch: Batch) -> (Batch, Arc<Counters>) {
    let mut out = Outputs::default();
    map.apply(batch, &mut out).unwrap();
    let [(0, batch)] = &out.batches[..] else { panic!("one batch") };
    assert_valid(batch);
    assert_eq!(out.warning, None, "hidden data is never logged");
    (batch.clone(), out.counters)
}

fn lines(batch: &Batch) -> Vec<String> {
    (0..batch.rows()).map(|row| String::from_utf8_lossy(batch.text(row)).into_owned()).collect()
}

fn redacted(options: serde_json::Value, text: &str) -> Vec<String> {
    lines(&applied(&mut *map(options), of(text.as_bytes())).0)
}

/// Adds a column that refers to parts of the block. Each cell is `(row, kind, text)`; the text must
/// occur in the row.
fn column(batch: &mut Batch, name: &str, cells: &[(usize, CellKind, &str)]) {
    let mut made = millstream_model::ColumnBuilder::new(batch.rows());
    for (row, kind, text) in cells {
        let found = memchr::memmem::find(batch.text(*row), text.as_bytes()).expect("in the row");
        made.set(*row, batch.message.cells()[*row].part(*kind, found, text.len()));
    }
    batch.fields.set(made.finish(name.into()));
}

fn own(batch: &mut Batch, name: &str, kind: CellKind, text: &str) {
    let mut made = millstream_model::ColumnBuilder::new(batch.rows());
    let cell = made.push(kind, text.as_bytes());
    made.set(0, cell);
    batch.fields.set(made.finish(name.into()));
}

fn value(batch: &Batch, name: &str, row: usize) -> (CellKind, String) {
    let column = batch.fields.get(name).unwrap();
    let cell = column.cells()[row];
    (cell.kind(), String::from_utf8_lossy(column.bytes(&batch.block, cell)).into_owned())
}

#[test]
fn lines_lose_only_what_matches() {
    let text = "a@example.com said hi\nnothing here\ncard 4111 1111 1111 1111 and password=hunter2!\n10.0.0.1\n";
    let expected =
        ["[email] said hi", "nothing here", "card [card] and password=[key]", "10.0.0.1"];
    assert_eq!(redacted(json!({}), text), expected);
    assert_eq!(
        redacted(json!({ "detect": ["ip"] }), "10.0.0.1 a@example.com\n"),
        ["[ip] a@example.com"]
    );
    let own = json!({ "detect": [], "patterns": { "order": r"ORD-(\d+)" }, "replace": "text", "text": "#" });
    assert_eq!(redacted(own, "ORD-12 ORD-3\n"), ["ORD-# ORD-#"]);
}

#[test]
fn matches_in_escapes_of_a_line_are_found() {
    let text = "sent to alice\\u0040example.com by C:\\new\n\
                x {\"m\":\"pass\\u0077ord=hunter2 a\"}\n\
                {\"m\":\"alice\\u0040example.com\"}\n\
                tag \\u003cb\\u003e of a@example.com\n\
                C:\\users\\u00er nothing\n";
    let expected = [
        "sent to [email] by C:\\new",
        "x {\"m\":\"pass\\u0077ord=[key] a\"}",
        "{\"m\":\"[email]\"}",
        "tag \\u003cb\\u003e of [email]",
        "C:\\users\\u00er nothing",
    ];
    assert_eq!(redacted(json!({}), text), expected);
}

#[test]
fn names_of_fields_are_redacted() {
    let line = b"{\"a@example.com\":1,\"b@example.com\":2,\"ok\":3}\n";
    let mut batch = of(line);
    for (name, text) in [("a@example.com", "1"), ("b@example.com", "2"), ("ok", "3")] {
        column(&mut batch, name, &[(0, CellKind::Int, text)]);
    }
    let (after, counters) = applied(&mut *map(json!({})), batch.clone());
    let names: Vec<&str> = after.fields.iter().map(|column| &*column.name).collect();
    assert_eq!(names, ["[email]", "[email]_2", "ok"]);
    assert_eq!(
        (value(&after, "[email]", 0).1, value(&after, "[email]_2", 0).1),
        ("1".into(), "2".into())
    );
    assert_eq!(counters.snapshot().noted_events["redacted_names"], 2);
    let (same, _) = applied(&mut *map(json!({ "fields": ["ok"] })), batch);
    assert!(same.fields.get("a@example.com").is_some(), "only the configured fields are searched");
}

#[test]
fn rows_without_a_match_stay_in_the_block() {
    let before = of(b"nothing\nmail a@example.com\n");
    let (after, counters) = applied(&mut *map(json!({})), before.clone());
    assert_eq!(after.message.cells()[0], before.message.cells()[0]);
    assert!(after.message.cells()[1].is_own());
    let counted: Vec<_> = counters.snapshot().noted_events.into_iter().collect();
    assert_eq!(counted, [("redacted", 1), ("redacted_email", 1)]);
    let (same, _) = applied(&mut *map(json!({})), of(b"nothing\n"));
    assert_eq!(same.message.cells(), of(b"nothing\n").message.cells());
}

#[test]
fn fields_that_share_the_bytes_are_redacted_too() {
    let mut batch = of(b"login password=hunter2 4111111111111111\n");
    column(&mut batch, "pw", &[(0, CellKind::Text, "hunter2")]);
    column(&mut batch, "tail", &[(0, CellKind::Text, "ter2 4111")]);
    column(&mut batch, "number", &[(0, CellKind::Int, "4111111111111111")]);
    let (batch, _) = applied(&mut *map(json!({})), batch);
    assert_eq!(lines(&batch), ["login password=[key] [card]"]);
    assert_eq!(value(&batch, "pw", 0), (CellKind::Text, "[key]".into()));
    assert_eq!(value(&batch, "tail", 0), (CellKind::Text, "[key] [card]".into()));
    assert_eq!(value(&batch, "number", 0), (CellKind::Text, "[card]".into()));
}

#[test]
fn card_numbers_as_floating_point_numbers_become_strings() {
    let line = r#"{"a":4111111111111111.0,"b":4.111111111111111e+15,"c":4.5e15}"#;
    let expected = r#"{"a":"[card]","b":"[card]","c":4.5e15}"#;
    assert_eq!(redacted(json!({}), &format!("{line}\n")), [expected]);
    let mut batch = of(b"login 4.111111111111111e15\n");
    column(&mut batch, "number", &[(0, CellKind::Float, "4.111111111111111e15")]);
    let (batch, _) = applied(&mut *map(json!({})), batch);
    assert_eq!(value(&batch, "number", 0), (CellKind::Text, "[card]".into()));
}

#[test]
fn a_match_in_a_field_is_hidden_in_the_line_too() {
    let mut batch = of(b"x {\"mail\":\"a\\u0040example.com\",\"pin_token\":12345,\"ok\":true}\n");
    column(&mut batch, "mail", &[(0, CellKind::Escaped, r"a\u0040example.com")]);
    column(&mut batch, "pin_token", &[(0, CellKind::Int, "12345")]);
    let (batch, _) = applied(&mut *map(json!({})), batch);
    assert_eq!(lines(&batch), [r#"x {"mail":"[email]","pin_token":[key],"ok":true}"#]);
    assert_eq!(value(&batch, "mail", 0), (CellKind::Escaped, "[email]".into()));
    assert_eq!(value(&batch, "pin_token", 0), (CellKind::Text, "[key]".into()));
}

#[test]
fn json_stays_json() {
    let text = r#"{"a":"x \"me@example.com\" \n4111111111111111","n":4111111111111111,"l":["b@example.com",1],"Password":{"x":["y",2,null]},"c@example.com":"\u00e9","ok":true}"#;
    let expected = r#"{"a":"x \"[email]\" \n[card]","n":"[card]","l":["[email]",1],"Password":{"x":["[key]","[key]",null]},"[email]":"\u00e9","ok":true}"#;
    assert_eq!(redacted(json!({}), &format!("{text}\n")), [expected]);
    for kind in [CellKind::Object, CellKind::Array] {
        let mut batch = of(b"x\n");
        own(&mut batch, "o", kind, text);
        let (batch, _) = applied(&mut *map(json!({})), batch);
        assert_eq!(value(&batch, "o", 0), (kind, expected.to_owned()));
    }
    let mut batch = of(b"x\n");
    own(&mut batch, "m", CellKind::Members, r#""secret":"s","b":1"#);
    own(&mut batch, "db_password", CellKind::Object, r#"{"a":[1,"b"]}"#);
    own(&mut batch, "apiKey", CellKind::True, "");
    let (batch, _) = applied(&mut *map(json!({})), batch);
    assert_eq!(value(&batch, "m", 0).1, r#""secret":"[key]","b":1"#);
    assert_eq!(value(&batch, "db_password", 0).1, r#"{"a":["[key]","[key]"]}"#);
    assert_eq!(value(&batch, "apiKey", 0).0, CellKind::True);
}

/// A container runtime writes the line of a program as a string; its JSON is parsed later.
#[test]
fn json_in_strings_stays_json() {
    let inner = r#"{"card":4111111111111111,"password":{"a":"x","b":[1]},"m":"me@example.com\n\"é\u0021\"","l":"[\"a@b.com\",1]","\u0070wd":"y","n":[5]}"#;
    let hidden = r#"{"card":"[card]","password":{"a":"[key]","b":["[key]"]},"m":"[email]\n\"é\u0021\"","l":"[\"[email]\",1]","\u0070wd":"[key]","n":[5]}"#;
    let wrapped = |inner: &str| json!({ "log": format!("{inner}\n"), "t": "x" }).to_string();
    assert_eq!(redacted(json!({}), &format!("{}\n", wrapped(inner))), [wrapped(hidden)]);
    let twice = |inner: &str| wrapped(&wrapped(inner));
    assert_eq!(redacted(json!({}), &format!("{}\n", twice(inner))), [twice(hidden)]);
    let mut batch = of(b"x\n");
    own(&mut batch, "log", CellKind::Escaped, &escaped(inner));
    own(&mut batch, "token", CellKind::Escaped, &escaped(r#"{"a":"b"}"#));
    let (batch, _) = applied(&mut *map(json!({})), batch);
    assert_eq!(value(&batch, "log", 0), (CellKind::Escaped, escaped(hidden)));
    assert_eq!(value(&batch, "token", 0).1, "[key]");
    let numbers = r#"{"l":" [4111111111111111,7]"}"#;
    assert_eq!(redacted(json!({}), &format!("{numbers}\n")), [r#"{"l":" [\"[card]\",7]"}"#]);
}

#[test]
fn json_in_strings_may_be_escaped_anyhow() {
    let all: String =
        r#"{"card":4111111111111111}"#.chars().map(|c| format!("\\u{:04x}", c as u32)).collect();
    let brace = r#"\u007b\"card\":4111111111111111}"#;
    for inner in [brace, &all] {
        let found = redacted(json!({}), &format!("{{\"log\":\"{inner}\"}}\n"));
        let value: serde_json::Value = serde_json::from_str(&found[0]).unwrap();
        assert_eq!(value["log"], r#"{"card":"[card]"}"#, "{found:?}");
    }
}

fn escaped(text: &str) -> String {
    let quoted = json!(text).to_string();
    quoted[1..quoted.len() - 1].to_owned()
}

/// Checks that two values differ only in redacted strings and numbers.
fn assert_same_shape(before: &serde_json::Value, after: &serde_json::Value) {
    use serde_json::Value;
    match (before, after) {
        (Value::Object(before), Value::Object(after)) => {
            assert_eq!(before.len(), after.len());
            before
                .values()
                .zip(after.values())
                .for_each(|(one, other)| assert_same_shape(one, other));
        }
        (Value::Array(before), Value::Array(after)) => {
            assert_eq!(before.len(), after.len());
            before.iter().zip(after).for_each(|(one, other)| assert_same_shape(one, other));
        }
        (Value::String(_), Value::String(after)) if after == "[key]" => {}
        (Value::String(before), Value::String(after)) => {
            let inner = serde_json::from_str::<Value>(before).ok();
            if let Some(before) = inner.filter(|inner| inner.is_object() || inner.is_array()) {
                assert_same_shape(&before, &serde_json::from_str(after).expect("JSON"));
            }
        }
        (Value::Number(_), Value::String(_)) => {}
        (before, after) => assert_eq!(before, after),
    }
}

#[test]
fn only_the_configured_fields_are_searched() {
    let mut batch = of(b"a@example.com b@example.com\n");
    column(&mut batch, "x", &[(0, CellKind::Text, "a@example.com")]);
    column(&mut batch, "y", &[(0, CellKind::Text, "b@example.com")]);
    let (batch, _) = applied(&mut *map(json!({ "fields": ["x"] })), batch);
    assert_eq!(value(&batch, "x", 0).1, "[email]");
    assert_eq!(value(&batch, "y", 0).1, "b@example.com");
    assert_eq!(lines(&batch), ["a@example.com b@example.com"]);
}

#[test]
fn a_hash_is_the_same_for_the_same_text_and_key() {
    let options = |key: &str| json!({ "replace": "hash", "key": key });
    let text = "a@example.com\nb@example.com a@example.com\n";
    let [one, two] = &redacted(options("01234567"), text)[..] else { panic!("two lines") };
    assert!(one.starts_with("[email:") && one.len() == "[email:]".len() + 32, "{one}");
    assert!(two.ends_with(one.as_str()) && !two.starts_with(one.as_str()), "{two}");
    assert_ne!(redacted(options("76543210"), text)[0], *one);
    // RFC 4231, test case 2.
    let mut digits = Vec::new();
    push_hex(&hmac(b"Jefe", b"what do ya want for nothing?")[..8], &mut digits);
    assert_eq!(digits, b"5bdcc146bf60754e");
}

#[test]
fn unselected_rows_are_not_searched() {
    let mut batch = of(b"a@example.com\nb@example.com\n");
    batch.select_range(1, 2);
    let (batch, counters) = applied(&mut *map(json!({})), batch);
    assert_eq!(lines(&batch), ["a@example.com", "[email]"]);
    assert_eq!(counters.snapshot().noted_events["redacted"], 1);
}

#[test]
fn errors_do_not_contain_the_key() {
    let all = [
        (json!({ "detect": [] }), "", "has no detector"),
        (
            json!({ "patterns": { "a b": "x" } }),
            "/patterns/a b",
            "is not a valid name, which appears in events",
        ),
        (json!({ "patterns": { "a": "(" } }), "/patterns/a", "invalid regular expression"),
        (
            json!({ "patterns": { "a": r"(?<!x)\d{6}" } }),
            "/patterns/a",
            "invalid regular expression: `(?<!x)` is look-behind, which is not supported; use \
             `(?:^|[^x])` before a group, `(…)`, for the text to hide",
        ),
        (json!({ "patterns": { "a": "x*" } }), "/patterns/a", "matches the empty string"),
        (json!({ "replace": "hash" }), "/key", "is missing, and the input of a hash without a key"),
        (json!({ "replace": "hash", "key": "s3cr" }), "/key", "is too short"),
        (json!({ "key": "s3cr3t-s3cr3t" }), "/key", "requires replace: hash"),
        (json!({ "text": "x" }), "/text", "requires replace: text"),
        (
            json!({ "replace": "text", "text": "a\"b" }),
            "/text",
            "must be valid inside a JSON string",
        ),
        (json!({ "fields": [] }), "/fields", "is empty"),
    ];
    for (options, pointer, message) in all {
        let config: RedactConfig = serde_json::from_value(options).unwrap();
        let [error] = &config.check()[..] else { panic!("one error") };
        let (found, text) = (&error.pointer, error.message());
        assert!(found == pointer && text.starts_with(message), "{found}: {text}");
        assert!(!text.contains("s3cr"), "{text}");
    }
    assert_eq!(format!("{:?}", Hide::Hash(b"s3cr3t".as_slice().into())), "hash");
}

/// Arbitrary bytes of any kind cause no panic, and other text stays unchanged.
#[test]
fn hostile_values_do_no_harm() {
    let texts: [&[u8]; 9] = [
        b"\xFF\xFE a@example.com \x80",
        b"{\"a\":\"\\",
        b"{\"password\":",
        b"\\u00",
        b"\"\\\"\"\"",
        b"[[[[[[[[}}}}}]]]",
        b"-----BEGIN PRIVATE KEY-----",
        b"a@example.com\\",
        b"\\ud83d\\ude00@example.com 4111111111111111\\u00",
    ];
    let kinds = [
        CellKind::Text,
        CellKind::Escaped,
        CellKind::Object,
        CellKind::Array,
        CellKind::Members,
        CellKind::Int,
    ];
    for text in texts {
        for kind in kinds {
            let mut batch = of(&[text, b"\n"].concat());
            column(&mut batch, "x", &[]);
            let mut made = millstream_model::ColumnBuilder::new(1);
            made.set(0, batch.message.cells()[0].with_kind(kind));
            batch.fields.set(made.finish("x".into()));
            applied(
                &mut *map(json!({ "detect": ["card", "email", "phone", "ip", "token", "key"] })),
                batch,
            );
        }
    }
    let huge =
        ["a".repeat(200_000), "@".repeat(200_000), "eyJ".repeat(50_000), "1 ".repeat(100_000)]
            .concat();
    let (batch, _) = applied(&mut *map(json!({})), of(format!("{huge}\n").as_bytes()));
    assert_eq!(batch.text(0).len(), huge.len());
}

fn json_value() -> impl Strategy<Value = serde_json::Value> {
    let leaf = prop_oneof![
        any::<bool>().prop_map(serde_json::Value::from),
        any::<i64>().prop_map(serde_json::Value::from),
        "\\PC{0,20}".prop_map(serde_json::Value::from),
        Just(json!("mail me@example.com \"now\"\n")),
        Just(json!(4111111111111111u64)),
    ];
    leaf.prop_recursive(4, 30, 5, |inner| {
        let key = prop_oneof!["[a-z\"\\\\é]{0,6}", Just("password".to_owned())];
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..5).prop_map(serde_json::Value::from),
            inner.clone().prop_map(|inner| json!(inner.to_string())),
            proptest::collection::btree_map(key, inner, 0..5).prop_map(|map| json!(map)),
        ]
    })
}

/// Cases of each property.
const CASES: TestSize = TestSize { gate: 256, long: 10_000 };

proptest! {
    #![proptest_config(property(CASES))]

    /// Injected secrets disappear, and the text around them stays unchanged.
    #[test]
    fn planted_secrets_disappear(
        before in "[a-zA-Z ,;äö]{0,30}",
        after in "[a-zA-Z ,;äö]{0,30}",
        secret in prop_oneof!["[a-z]{1,9}@[a-z]{1,9}\\.com", Just("4111-1111-1111-1111".to_owned()), "ghp_[a-zA-Z0-9]{36}"],
    ) {
        let found = redacted(json!({ "replace": "text" }), &format!("{before} | {secret} | {after}\n"));
        prop_assert_eq!(&found[0], &format!("{before} | *** | {after}"));
    }

    #[test]
    fn valid_json_stays_valid(value in json_value(), ascii in any::<bool>()) {
        let mut text = json!({ "x": value }).to_string();
        if ascii {
            text = text.chars().map(|c| if c.is_ascii() { c.to_string() } else { c.encode_utf16(&mut [0; 2]).iter().map(|unit| format!("\\u{unit:04x}")).collect() }).collect();
        }
        let mut batch = of(format!("{text}\n").as_bytes());
        let mut made = millstream_model::ColumnBuilder::new(1);
        made.set(0, batch.message.cells()[0].with_kind(CellKind::Object));
        batch.fields.set(made.finish("o".into()));
        let (batch, _) = applied(&mut *map(json!({})), batch);
        let (_, object) = self::value(&batch, "o", 0);
        let after = serde_json::from_str::<serde_json::Value>(&object);
        prop_assert!(after.is_ok(), "{} -> {}", text, object);
        assert_same_shape(&json!({ "x": value }), &after.unwrap());
        prop_assert_eq!(&lines(&batch)[0], &object);
        prop_assert!(!object.contains("me@example.com") && !object.contains("4111111111111111"));
    }
}
