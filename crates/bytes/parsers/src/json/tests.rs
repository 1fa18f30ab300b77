//! Lines that the JSON parser accepts and rejects.

use super::cases::{BAD_LINES, BAD_VALUES, GOOD_LINES, GOOD_VALUES};
use super::*;
use crate::harness::{self, Line, ParsedField, json, mutate, parse, parse_line};
use millstream_columns::COLUMNS_MAX;
use millstream_testkit_random::{Seed, TestSize, property};
use millstream_timestamps::Format;
use proptest::prelude::*;
use serde::de::IgnoredAny;
use serde_json::Value;

fn plain() -> Json {
    Json::new(&JsonConfig::default()).unwrap()
}

fn flat() -> Json {
    Json::new(&JsonConfig { flatten: true, ..JsonConfig::default() }).unwrap()
}

fn show(parser: &mut Json, line: &str) -> String {
    harness::show(&parse_line(parser, line))
}

fn shown(config: JsonConfig, line: &str) -> String {
    show(&mut Json::new(&config).unwrap(), line)
}

fn names(list: &[&str]) -> Vec<String> {
    list.iter().map(|name| (*name).to_owned()).collect()
}

/// Returns whether serde_json accepts the text while ignoring its values, so that numbers of any
/// size and lone surrogates are valid, as in this parser.
fn is_json(text: &[u8]) -> bool {
    std::str::from_utf8(text).is_ok() && serde_json::from_slice::<IgnoredAny>(text).is_ok()
}

#[test]
fn members_become_fields_as_written() {
    let line = r#"{"t":"x y","e":"a\nb","i":-12,"f":1.50,"n":null,"y":true,"z":false,"o":{"a": 1},"l":[1, 2]}"#;
    let expected =
        r#"t='x y' e=Escaped'a\nb' i=-12 f=1.50 n=Null y=True z=False o={"a": 1} l=[1, 2]"#;
    assert_eq!(show(&mut plain(), line), expected);
    assert_eq!(show(&mut plain(), "{}"), "");
    assert_eq!(show(&mut plain(), r#" { "a" : 1 , "b" : "" } "#), "a=1 b=''");
    assert_eq!(show(&mut plain(), r#"{"\u0061\n":1}"#), "a\n=1");
    assert_eq!(show(&mut plain(), r#"{"\ud800":"\ud800"}"#), "\u{FFFD}=Escaped'\\ud800'");
    let big = "123456789012345678901234567890";
    assert_eq!(
        show(&mut plain(), &format!(r#"{{"a":{big},"b":1e999}}"#)),
        format!("a={big} b=1e999")
    );
}

#[test]
fn nested_objects_are_flattened() {
    let line = r#"{"a":{"b":{"c":1},"d":[{"e":2}]},"f":{},"g":3,"h":{"i":{"j":4}}}"#;
    assert_eq!(show(&mut flat(), line), r#"a.b.c=1 a.d=[{"e":2}] f={} g=3 h.i.j=4"#);
    let config = JsonConfig { flatten: true, separator: "_".into(), ..JsonConfig::default() };
    assert_eq!(shown(config, r#"{"a":{"b":1},"c":2}"#), "a_b=1 c=2");
    // The same names at different positions, in consecutive lines.
    let mut parser = flat();
    for (line, expected) in [
        (r#"{"a":{"x":1,"b":2}}"#, "a.x=1 a.b=2"),
        (r#"{"a":{"x":1},"b":2}"#, "a.x=1 b=2"),
        (r#"{"a":{"b":1},"a.b":2}"#, "a.b=2"),
        (r#"{"a":5,"b":{"a":6}}"#, "a=5 b.a=6"),
        (r#"{"a":{"":1}}"#, "a.=1"),
        (r#"{"a":{"b":1}"#, "!not_json@12"),
        (r#"{"a":{"b":1}]"#, "!not_json@12"),
        (r#"{"a":{"b":1,}}"#, "!not_json@12"),
        (r#"{"a":{,"b":1}}"#, "!not_json@6"),
    ] {
        assert_eq!(show(&mut parser, line), expected, "{line}");
    }
}

#[test]
fn only_selected_fields_are_kept_and_all_are_validated() {
    let config = |flatten, list: &[&str]| JsonConfig {
        flatten,
        fields: names(list),
        ..JsonConfig::default()
    };
    let line = r#"{"a":1,"b":{"c":2,"d":{"e":3,"f":4}},"bc":5,"d":6}"#;
    assert_eq!(shown(config(false, &["a", "b"]), line), r#"a=1 b={"c":2,"d":{"e":3,"f":4}}"#);
    assert_eq!(shown(config(true, &["b"]), line), "b.c=2 b.d.e=3 b.d.f=4");
    assert_eq!(shown(config(true, &["b.d.f", "d"]), line), "b.d.f=4 d=6");
    assert_eq!(shown(config(true, &["x"]), line), "");
    assert_eq!(shown(config(true, &["x"]), r#"{"a":{"b":tru}}"#), "!not_json@10");
}

#[test]
fn values_are_cast_to_their_types() {
    let time = Type::Timestamp(Arc::new(Format::new("%Y-%m-%d %H:%M:%S", None).unwrap()));
    let types =
        [("i", Type::Int), ("f", Type::Float), ("s", Type::Text), ("b", Type::Bool), ("t", time)];
    let types = types.map(|(name, field_type)| (name.to_owned(), field_type)).to_vec();
    let mut parser = Json::new(&JsonConfig { types, ..JsonConfig::default() }).unwrap();
    let mut shown = |line: &str| {
        let all = parse(&mut parser, &[line.as_bytes()]);
        (harness::show(&all.lines[0]), all.bad_types)
    };
    let time = "2000-02-29 12:34:56";
    let line = format!(r#"{{"i":"007","f":"1.5","s":12,"b":"yes","t":"{time}"}}"#);
    let expected = "i=7 f=1.5 s='12' b=True t=Time'2000-02-29T12:34:56.000Z'";
    assert_eq!(shown(&line), (expected.into(), 0));
    assert_eq!(
        shown(r#"{"i":12,"f":3,"s":true,"b":false}"#),
        ("i=12 f=3 s='true' b=False".into(), 0)
    );
    assert_eq!(shown(r#"{"i":"\u0031","s":"\n","b":1}"#), (r"i=1 s=Escaped'\n' b=True".into(), 0));
    assert_eq!(shown(r#"{"i":null,"s":[1],"b":null}"#), ("i=Null s='[1]' b=Null".into(), 0));
    assert_eq!(
        shown(r#"{"i":"x","f":[],"b":7,"t":"now","s":"x"}"#),
        ("i=Null f=Null b=Null t=Null s='x'".into(), 4)
    );
    assert_eq!(shown(r#"{"i":"x","f":[],"#), ("!not_json@16".into(), 0));
}

#[test]
fn the_last_of_duplicate_members_wins() {
    let all = parse(
        &mut plain(),
        &[br#"{"a":1,"b":2,"a":3}"#, br#"{"a":1,"\u0061":"x"}"#, br#"{"a":1,"a":2"#],
    );
    let shown: Vec<String> = all.lines.iter().map(harness::show).collect();
    assert_eq!(shown, ["a=3 b=2", "a='x'", "!not_json@12"]);
    assert_eq!(all.duplicates, 2);
}

#[test]
fn members_without_a_column_share_one_field() {
    let members: Vec<String> =
        (0..COLUMNS_MAX + 40).map(|n| format!(r#""k{n}":{{"v":"{n}\n"}}"#)).collect();
    let line = format!("{{{}}}", members.join(","));
    for (mut parser, columns) in [(plain(), COLUMNS_MAX), (flat(), COLUMNS_MAX)] {
        let fields = parse_line(&mut parser, line.as_bytes()).unwrap();
        let (rest, kept): (Vec<_>, Vec<_>) =
            fields.iter().partition(|field| field.1 == Kind::Members);
        assert_eq!((rest.len(), kept.len(), &*rest[0].0), (1, columns, ""));
        let written: Value = serde_json::from_slice(&json(&fields)).unwrap();
        assert_eq!(written.as_object().unwrap().len(), members.len());
    }
    assert_eq!(show(&mut plain(), r#"{"":1,"a":2,"" : [3]}"#), r#"a=2 =Members'"":1,"":[3]'"#);
    let long = "n".repeat(2000);
    let line = format!(r#"{{"o":{{"{long}":1}}}}"#);
    assert_eq!(show(&mut flat(), &line), format!(r#"=Members'"o.{long}":1'"#));
}

#[test]
fn lines_with_new_names_are_parsed_alike() {
    let config = JsonConfig { fields: names(&["wanted"]), flatten: true, ..JsonConfig::default() };
    let mut parser = Json::new(&config).unwrap();
    for line in 0..40 {
        let noise: Vec<String> = (0..300).map(|n| format!(r#""{line}-{n}":{{"x":{n}}}"#)).collect();
        let line = format!(r#"{{{},"wanted":{{"a":{line}}}}}"#, noise.join(","));
        let shown = show(&mut parser, &line);
        assert!(shown.starts_with("wanted"), "{shown}");
    }
    let noise: Vec<String> = (0..3000).map(|n| format!(r#""{n}":{n}"#)).collect();
    let line = format!(r#"{{{},"wanted":1}}"#, noise.join(","));
    assert_eq!(show(&mut parser, &line), "wanted=1");
    let mut parser = plain();
    let fields = parse_line(&mut parser, line.as_bytes()).unwrap();
    let written: Value = serde_json::from_slice(&json(&fields)).unwrap();
    assert_eq!(written, serde_json::from_str::<Value>(&line).unwrap());
}

#[test]
fn nesting_is_limited() {
    let nested = |open: &str, close: &str, levels: usize| {
        format!(r#"{{"a":{}{}}}"#, open.repeat(levels - 1), close.repeat(levels - 1))
    };
    for parser in [&mut plain(), &mut flat()] {
        for levels in [2, 63, 64] {
            let lines = [nested("[", "]", levels), nested(" [\n", " ] ", levels)];
            lines
                .iter()
                .for_each(|line| assert!(parse_line(parser, line.as_bytes()).is_ok(), "{line}"));
        }
        let line = nested("[", "]", 65);
        assert_eq!(show(parser, &line), format!("!too_deep@{}", 5 + 63));
        let (objects, ends) = (r#"{"a":"#.repeat(65), "}".repeat(65));
        assert_eq!(show(parser, &format!("{objects}1{ends}")), format!("!too_deep@{}", 64 * 5));
        assert_eq!(show(parser, &"[".repeat(1 << 20)), "!too_deep@64");
        assert_eq!(show(parser, &format!(r#"{{"a":{}"#, "[".repeat(1 << 20))), "!too_deep@68");
    }
    let config = |depth_max| JsonConfig { depth_max, ..JsonConfig::default() };
    assert_eq!(shown(config(1), r#"{"a":1}"#), "a=1");
    assert_eq!(shown(config(1), r#"{"a":[]}"#), "!too_deep@5");
    assert!(
        parse_line(&mut Json::new(&config(128)).unwrap(), nested("[", "]", 128).as_bytes()).is_ok()
    );
}

#[test]
fn valid_and_invalid_json_are_distinguished() {
    assert!(GOOD_VALUES.len() + BAD_VALUES.len() + BAD_LINES.len() + GOOD_LINES.len() >= 300);
    for value in GOOD_VALUES {
        let line = format!(r#"{{"k":{value},"l":[{value}]}}"#);
        assert!(is_json(line.as_bytes()), "{value}");
        let fields = parse_line(&mut plain(), line.as_bytes()).unwrap();
        let inside = if value.starts_with('"') { &value[1..value.len() - 1] } else { value };
        let inside = if ["null", "true", "false"].contains(value) { "" } else { inside };
        assert_eq!(fields[0].2, inside.as_bytes(), "{value}");
    }
    for value in BAD_VALUES {
        for line in [format!(r#"{{"k":{value}}}"#), format!(r#"{{"k":[{value}]}}"#)] {
            let is_one = is_json(line.as_bytes());
            for parser in [&mut plain(), &mut flat()] {
                assert_eq!(parse_line(parser, line.as_bytes()).is_ok(), is_one, "{line}");
            }
        }
        let line = format!(r#"{{"k":{value}}}"#);
        assert!(!is_json(line.as_bytes()), "{line}");
    }
    GOOD_LINES
        .iter()
        .for_each(|line| assert!(parse_line(&mut plain(), line.as_bytes()).is_ok(), "{line}"));
    for (line, reason) in BAD_LINES {
        let found = parse_line(&mut plain(), line).map_err(|(reason, _)| reason);
        assert_eq!(found, Err(*reason), "{}", String::from_utf8_lossy(line));
    }
}

/// Parses a line with both parsers, and compares the results with serde_json's.
fn compare(line: &[u8], parser: &mut Json, flatten: &mut Json) {
    let (parsed, flat) = (parse_line(parser, line), parse_line(flatten, line));
    let shown = || String::from_utf8_lossy(line).into_owned();
    assert_eq!(parsed.as_ref().err(), flat.as_ref().err(), "{}", shown());
    let is_object = line.trim_ascii_start().starts_with(b"{");
    match &parsed {
        Err(("too_deep", _)) => {}
        Err(_) => assert!(!is_json(line) || !is_object, "{}", shown()),
        Ok(fields) => {
            assert!(is_json(line), "{}", shown());
            same_values(line, fields);
        }
    }
    written_is_json(&parsed);
    written_is_json(&flat);
}

fn written_is_json(parsed: &Line) {
    if let Ok(fields) = parsed {
        let written = json(fields);
        assert!(is_json(&written), "{}", String::from_utf8_lossy(&written));
    }
}

/// serde_json rejects numbers that are out of range, and lone surrogates. Otherwise, both must
/// produce the same values.
fn same_values(line: &[u8], fields: &[ParsedField]) {
    if let Ok(Value::Object(expected)) = serde_json::from_slice(line) {
        let written: Value = serde_json::from_slice(&json(fields)).unwrap();
        assert_eq!(written, Value::Object(expected), "{}", String::from_utf8_lossy(line));
    }
}

#[test]
fn mutated_lines_are_accepted_as_by_serde_json() {
    const WORDS: &[&[u8]] = &[
        b"\"",
        b"{",
        b"}",
        b"[",
        b"]",
        b",",
        b":",
        b"\\",
        b"\\u00",
        b"\\ud800",
        b"null",
        b"tru",
        b"-",
        b"0",
        b"1e",
        b".5",
        b" ",
        b"\n",
        b"\0",
        b"\xFF",
        "é".as_bytes(),
        b"{\"a\":",
        b"\"a\":1,",
        b"[[[[",
        b"{}",
    ];
    let seeds = [
        r#"{"a":1,"b":"text with blanks","c":{"d":[1,2,{"e":null}],"f":"\u00e9\n"},"g":true,"h":-1.5e-3}"#,
        r#"{"time":"2026-11-21T20:29:46Z","level":"info","msg":"a \"quoted\" word","n":{"a":{},"b":[]},"":0}"#,
        r#" { "a" : [ 1 , 2 ] , "a" : { "x" : { "y" : 1 } } , "b" : false } "#,
    ];
    let (mut random, mut parser, mut flatten) = (Seed::of_test_or(11).random(), plain(), flat());
    for case in random.rounds(LINES) {
        let mut line = seeds[case as usize % seeds.len()].as_bytes().to_vec();
        mutate(&mut line, WORDS, &mut random);
        compare(&line, &mut parser, &mut flatten);
    }
}

/// Number of mutated lines.
const LINES: TestSize = TestSize { gate: 30_000, long: 1_000_000 };

/// Generates arbitrary JSON values.
fn any_value() -> impl Strategy<Value = Value> {
    let text = prop_oneof![".{0,24}", "[a-c]{0,2}", "[\"\\\\/\u{0}-\u{1f}é]{0,4}"];
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        text.clone().prop_map(Value::from),
    ];
    leaf.prop_recursive(5, 40, 6, move |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
            proptest::collection::vec((text.clone(), inner), 0..6)
                .prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

/// Number of cases per property.
const CASES: TestSize = TestSize { gate: 256, long: 10_000 };

proptest! {
    #![proptest_config(property(CASES))]

    #[test]
    fn any_object_round_trips(
        members in proptest::collection::vec((".{0,12}", any_value()), 0..8),
        is_pretty in any::<bool>(),
    ) {
        let value = Value::Object(members.into_iter().collect());
        let line = if is_pretty { serde_json::to_vec_pretty(&value) } else { serde_json::to_vec(&value) };
        compare(&line.unwrap(), &mut plain(), &mut flat());
    }

    #[test]
    fn any_bytes_are_parsed_or_rejected(line in proptest::collection::vec(any::<u8>(), 0..80)) {
        compare(&line, &mut plain(), &mut flat());
    }
}

#[test]
fn errors_of_options_give_advice() {
    let faults = [
        JsonConfig { depth_max: 0, ..JsonConfig::default() },
        JsonConfig { depth_max: 129, ..JsonConfig::default() },
        JsonConfig { flatten: true, separator: String::new(), ..JsonConfig::default() },
        JsonConfig { fields: names(&[""]), ..JsonConfig::default() },
    ];
    for config in faults {
        let message = Json::new(&config).err().unwrap();
        assert!(message.contains("; "), "{message}");
    }
}
