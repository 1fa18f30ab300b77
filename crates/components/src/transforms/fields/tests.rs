//! Tests of batches that `fields` transforms.

use super::*;
use crate::component::{BuildCx, Component, TransformComponent};
use millstream_model::{Counters, Grant, Ledger, MEMBERS, OptionError, Transform};
use millstream_testkit::{Rows, assert_valid, batch};
use serde_json::{Value as Json, json};

fn map(options: Json) -> Box<dyn Map> {
    let config: FieldsConfig = serde_json::from_value(options).unwrap();
    assert_eq!(config.check(), []);
    match config.build(&BuildCx::default()).unwrap() {
        Transform::Map(make) => make(),
        _ => panic!("no map"),
    }
}

/// Returns a batch of one row per line, with the same fields (name, kind, text) in each row.
fn of(text: &str, fields: &[(&str, CellKind, &str)]) -> Batch {
    let rows = [Rows { name: "/a.log", text: text.as_bytes() }];
    let mut batch = batch(&rows, 1000, &Grant::new(1 << 30), &Ledger::new());
    for (name, kind, text) in fields {
        let mut made = ColumnBuilder::new(batch.rows());
        let cell = constant::constant(&mut made, *kind, text.as_bytes());
        made.cells().fill(cell);
        batch.fields.set(made.finish((*name).into()));
    }
    batch
}

fn applied(options: Json, batch: Batch) -> (Vec<(usize, Batch)>, Arc<Counters>) {
    let mut out = Outputs::default();
    map(options).apply(batch, &mut out).unwrap();
    out.batches.iter().for_each(|(_, batch)| assert_valid(batch));
    (out.batches, out.counters)
}

fn stepped(steps: Json, batch: Batch) -> Batch {
    let (batches, _) = applied(json!({ "steps": steps }), batch);
    let [(0, batch)] = &batches[..] else { panic!("one batch") };
    batch.clone()
}

/// Formats the fields of a row as `name=value`, with the kind of fields that are not text.
fn shown(batch: &Batch, row: usize) -> Vec<String> {
    let field = |column: &Column| {
        let cell = column.cells()[row];
        let text = String::from_utf8_lossy(column.bytes(&batch.block, cell)).into_owned();
        match cell.kind() {
            CellKind::Absent => None,
            CellKind::Text => Some(format!("{}={text}", column.name)),
            kind => Some(format!("{}={kind:?} {text}", column.name)),
        }
    };
    batch.fields.iter().filter_map(field).collect()
}

#[track_caller]
fn check(steps: Json, fields: &[(&str, CellKind, &str)], expected: &[&str]) {
    let batch = stepped(steps.clone(), of("line\n", fields));
    assert_eq!(shown(&batch, 0), expected, "{steps}");
}

use CellKind::{Array, Escaped, Int, Null, Object, Text, Time, True};

#[test]
fn fields_are_renamed_dropped_kept_and_copied() {
    let fields = &[("a", Text, "1"), ("b", Int, "2"), ("c.d", True, "")];
    check(
        json!([{ "rename": { "a": "b", "b": "a", "no": "x" } }]),
        fields,
        &["b=1", "a=Int 2", "c.d=True "],
    );
    check(json!([{ "rename": { "c.d": "e" } }]), fields, &["a=1", "b=Int 2", "e=True "]);
    check(json!([{ "rename": { "a": "b" } }]), fields, &["b=1", "c.d=True "]);
    check(json!([{ "drop": ["a", "no"] }]), fields, &["b=Int 2", "c.d=True "]);
    check(json!([{ "keep": ["a", "no"] }]), fields, &["a=1"]);
    check(
        json!([{ "copy": { "a": "z", "no": "y" } }, { "drop": ["a"] }]),
        fields,
        &["b=Int 2", "c.d=True ", "z=1"],
    );
}

#[test]
fn moved_and_trimmed_values_are_not_copied() {
    let mut batch = of("GET /Index  \n", &[]);
    let mut made = ColumnBuilder::new(1);
    made.set(0, batch.message.cells()[0].part(Text, 4, 8));
    batch.fields.set(made.finish("path".into()));
    let steps = json!([
        { "rename": { "path": "p" } }, { "copy": { "p": "q" } }, { "trim": ["q"] },
        { "substring": { "field": "q", "from": 1, "to": "r" } }, { "upper": ["s"] },
        { "split": { "field": "q", "delimiter": "d", "to": ["x", "y"] } },
    ]);
    let batch = stepped(steps, batch);
    assert_eq!(shown(&batch, 0), ["p=/Index  ", "q=/Index", "r=Index", "x=/In", "y=ex"]);
    assert!(
        batch.fields.iter().all(|column| column.own().is_empty() && !column.cells()[0].is_own())
    );
}

#[test]
fn the_message_can_be_used_like_a_field() {
    let gone = stepped(json!([{ "drop": ["message"] }]), of("line\n", &[]));
    assert!(!gone.is_shown(0) && gone.text(0) == b"line");
    assert!(!stepped(json!([{ "keep": ["a"] }]), of("line\n", &[])).is_shown(0));
    assert!(stepped(json!([{ "keep": ["message"] }]), of("line\n", &[])).is_shown(0));
    let renamed = stepped(json!([{ "rename": { "message": "log" } }]), of("line\n", &[]));
    assert!(!renamed.is_shown(0) && shown(&renamed, 0) == ["log=line"]);
    let changed = stepped(json!([{ "upper": ["message"] }]), of("line\n", &[]));
    assert_eq!(changed.text(0), b"LINE");
    let fields = &[("n", Int, "7")];
    let set = stepped(
        json!([{ "drop": ["message"] }, { "rename": { "n": "message" } }]),
        of("line\n", fields),
    );
    assert!(set.is_shown(0) && set.text(0) == b"7" && set.fields.is_empty());
}

#[test]
fn a_message_is_written_where_it_is() {
    for steps in [json!([{ "set": { "message": "new" } }]), json!([{ "copy": { "a": "message" } }])]
    {
        let mut batch = of("x\ny\n", &[("a", CellKind::Text, "new")]);
        let mut field = ColumnBuilder::new(2);
        field.text(0, b"of x");
        batch.fields.set(field.finish(MESSAGE.into()));
        let batch = stepped(steps, batch);
        assert_eq!([batch.text(0), batch.text(1)], [&b"x"[..], b"new"]);
        let messages = [0, 1].map(|row| batch.message_text(row).unwrap().into_owned());
        assert_eq!(messages, [b"new", b"new"]);
    }
}

#[test]
fn a_constant_is_stored_once_and_templates_see_the_event_before_the_step() {
    let set = json!([{ "set": { "s": "prod", "n": 3, "f": 0.5, "ok": true, "a": "{{ b }}/{{ host }}", "b": "new" } }]);
    let batch = stepped(set, of("x\ny\n", &[("b", Int, "7")]));
    let expected = ["b=new", "a=7/here", "f=Float 0.5", "n=Int 3", "ok=True ", "s=prod"];
    assert_eq!(
        (shown(&batch, 0), shown(&batch, 1)),
        (expected.map(String::from).into(), expected.map(String::from).into())
    );
    let column = batch.fields.get("s").unwrap();
    assert_eq!((column.own().len(), column.cells()[0]), (4, column.cells()[1]));
}

#[test]
fn case_and_white_space() {
    let fields = &[
        ("a", Text, " ÄbC\t"),
        ("b", Escaped, r"A\n\u0041"),
        ("n", Int, "1"),
        ("e", Escaped, " X "),
    ];
    check(
        json!([{ "lower": ["a", "b", "n", "e"] }]),
        fields,
        &["a= äbc\t", "b=a\na", "n=Int 1", "e=Escaped  x "],
    );
    check(
        json!([{ "upper": ["a"] }]),
        fields,
        &["a= ÄBC\t", r"b=Escaped A\n\u0041", "n=Int 1", "e=Escaped  X "],
    );
    check(
        json!([{ "trim": ["a", "b", "e"] }]),
        fields,
        &["a=ÄbC", r"b=Escaped A\n\u0041", "n=Int 1", "e=Escaped X"],
    );
}

#[test]
fn a_substring_is_counted_in_characters() {
    let all = [
        (json!({ "from": 1, "length": 2 }), "äöü€", "öü"),
        (json!({ "from": -1 }), "äöü€", "€"),
        (json!({ "from": -3, "length": 2 }), "abcd", "bc"),
        (json!({ "from": -9 }), "abcd", "abcd"),
        (json!({ "from": 9 }), "äb", ""),
        (json!({ "from": 1, "length": 0 }), "äb", ""),
        (json!({ "length": 99 }), "äb", "äb"),
    ];
    for (mut options, text, expected) in all {
        options["field"] = "x".into();
        check(json!([{ "substring": options }]), &[("x", Text, text)], &[&format!("x={expected}")]);
    }
    let to = json!([{ "substring": { "field": "n", "length": 1, "to": "class" } }]);
    check(to, &[("n", Int, "404")], &["n=Int 404", "class=4"]);
}

#[test]
fn split_and_join() {
    let split = |to: Json| json!([{ "split": { "field": "x", "delimiter": "/", "to": to } }]);
    check(split(json!(["a", "b"])), &[("x", Text, "1/2/3")], &["x=1/2/3", "a=1", "b=2/3"]);
    check(split(json!(["x", "b", "c"])), &[("x", Text, "1/2")], &["x=1", "b=2"]);
    check(split(json!(["a"])), &[("x", Text, "1/2")], &["x=1/2", "a=1/2"]);
    check(
        split(json!(["a", "b"])),
        &[("x", Escaped, r"\u0041\/2")],
        &[r"x=Escaped \u0041\/2", "a=A", "b=2"],
    );
    check(split(json!(["a"])), &[("x", Null, "")], &["x=Null "]);
    let into = json!([{ "split": { "field": "x", "delimiter": ", ", "into": "l" } }]);
    check(
        into.clone(),
        &[("x", Text, "a, \"b\", ")],
        &["x=a, \"b\", ", r#"l=Array ["a","\"b\"",""]"#],
    );
    let fields = &[("a", Text, "x"), ("n", Int, "1"), ("z", Null, "")];
    let join =
        |fields: Json| json!([{ "join": { "fields": fields, "delimiter": "-", "to": "j" } }]);
    check(join(json!(["a", "no", "z", "n"])), fields, &["a=x", "n=Int 1", "z=Null ", "j=x-1"]);
    check(join(json!(["no"])), &[], &[]);
}

#[test]
fn casts_work_as_in_parse_and_failures_are_null() {
    let cast = |types: Json| json!([{ "cast": types }]);
    check(
        cast(json!({ "s": "int", "f": "float" })),
        &[("s", Text, "007"), ("f", Text, "0.5")],
        &["s=Int 7", "f=Float 0.5"],
    );
    check(
        cast(json!({ "s": "text", "b": "text" })),
        &[("s", Int, "7"), ("b", True, "")],
        &["s=7", "b=true"],
    );
    check(cast(json!({ "s": "int" })), &[("s", Escaped, r"\u0037")], &["s=Int 7"]);
    check(cast(json!({ "n": "int", "no": "int" })), &[("n", Null, "")], &["n=Null "]);
    let time = json!({ "t": { "type": "timestamp", "format": "%Y-%m-%d %H:%M" } });
    check(
        cast(time.clone()),
        &[("t", Text, "2000-02-29 12:30")],
        &["t=Time 2000-02-29T12:30:00.000Z"],
    );
    check(
        cast(time),
        &[("t", Time, "2000-02-29T12:00:00.000Z")],
        &["t=Time 2000-02-29T12:00:00.000Z"],
    );
    for (on_error, outputs) in [("pass", &[0][..]), ("drop", &[0]), ("reject", &[1, 0])] {
        let options = json!({ "steps": cast(json!({ "s": "int" })), "on_error": on_error });
        let (batches, counters) = applied(options, of("x\n", &[("s", Text, "no")]));
        assert_eq!(
            batches.iter().map(|(output, _)| *output).collect::<Vec<_>>(),
            outputs,
            "{on_error}"
        );
        let main = &batches.iter().find(|(output, _)| *output == 0).unwrap().1;
        assert_eq!(
            (shown(main, 0), main.events()),
            (vec!["s=Null ".to_owned()], usize::from(on_error == "pass"))
        );
        let snapshot = counters.snapshot();
        let counted =
            if on_error == "drop" { snapshot.dropped_events } else { snapshot.noted_events };
        assert_eq!(counted.into_iter().collect::<Vec<_>>(), [("bad_type", 1)]);
    }
}

#[test]
fn values_from_a_table() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("codes.csv");
    std::fs::write(&file, "404,missing\r\n\"5\"\"00\",\"a, b\"\n\n").unwrap();
    let options = json!({ "field": "s", "to": "c", "table": { "200": "100% ok", "404": 4 }, "file": file, "default": "other" });
    let steps = json!([{ "lookup": options }]);
    check(steps.clone(), &[("s", Int, "200")], &["s=Int 200", "c=100% ok"]);
    check(steps.clone(), &[("s", Text, "404")], &["s=404", "c=Int 4"]);
    check(steps.clone(), &[("s", Escaped, "5\\\"00")], &["s=Escaped 5\\\"00", "c=a, b"]);
    check(steps.clone(), &[("s", Text, "x")], &["s=x", "c=other"]);
    check(steps, &[], &[]);
    let none = |to: Option<&str>| json!([{ "lookup": { "field": "s", "to": to, "table": { "a": true } } }]);
    check(none(Some("c")), &[("s", Text, "x")], &["s=x"]);
    check(none(None), &[("s", Text, "x")], &["s=x"]);
    check(none(None), &[("s", Text, "a")], &["s=True "]);
}

#[test]
fn hashes_match_known_vectors() {
    let hash = |more: Json| {
        let mut options = json!({ "field": "x", "to": "h" });
        options.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let batch = stepped(
            json!([{ "hash": options }]),
            of("x\n", &[("x", Text, "what do ya want for nothing?")]),
        );
        shown(&batch, 0)[1].clone()
    };
    // RFC 4231, test case 2.
    let expected = "h=5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843";
    assert_eq!(hash(json!({ "key": "Jefe" })), expected);
    assert_eq!(hash(json!({ "algorithm": "xxh3" })).len(), 2 + 16);
    // FIPS 180-2, the example `abc`.
    let expected = "x=ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
    check(json!([{ "hash": { "field": "x" } }]), &[("x", Escaped, r"\u0061bc")], &[expected]);
    check(json!([{ "hash": { "field": "x" } }]), &[("x", Null, "")], &["x=Null "]);
}

#[test]
fn url_parts() {
    let url = |text: &str, more: Json| {
        let mut options = json!({ "field": "u", "prefix": "" });
        options.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        shown(&stepped(json!([{ "url": options }]), of("x\n", &[("u", Text, text)])), 0)[1..]
            .join(" ")
    };
    let whole = "scheme=https host=[::1] port=Int 8443 path=/a/b query=q=1&r fragment=top";
    assert_eq!(url("https://user:pw@[::1]:8443/a/b?q=1&r#top", json!({})), whole);
    assert_eq!(url("/login?next=%2Fa", json!({})), "path=/login query=next=%2Fa");
    assert_eq!(url("http://h", json!({})), "scheme=http host=h");
    assert_eq!(url("http://[::1]/", json!({})), "scheme=http host=[::1] path=/");
    assert_eq!(url("http://h:080/", json!({})), "scheme=http host=h port=080 path=/");
    assert_eq!(url("://x ?#", json!({})), "path=://x  query= fragment=");
    let fields = url("/s?q=a%20b+c%zz&e&=x&%61=1", json!({ "query": "fields", "prefix": "u_" }));
    assert_eq!(fields, "u_path=/s u_query.a=1 u_query.e= u_query.q=a b c%zz");
    let many: Vec<String> = (0..100).map(|index| format!("p{index}=1")).collect();
    let fields = &[("u", Text, &*format!("/?{}", many.join("&")))];
    let options = json!({ "steps": [{ "url": { "field": "u", "query": "fields" } }] });
    let (batches, counters) = applied(options, of("x\n", fields));
    assert_eq!(
        (batches[0].1.fields.len(), counters.snapshot().noted_events["parameters_left_out"]),
        (66, 36)
    );
}

#[test]
fn unselected_rows_stay_unchanged() {
    let mut batch = of("a\nb\n", &[("x", Text, "Ab")]);
    batch.select_range(1, 2);
    let batch =
        stepped(json!([{ "lower": ["x"] }, { "hash": { "field": "x", "to": "y" } }]), batch);
    assert_eq!(
        (&shown(&batch, 0)[..], shown(&batch, 1)[0].as_str()),
        (&["x=Ab".to_owned()][..], "x=ab")
    );
}

/// Runs every step on every kind of cell, with invalid UTF-8.
#[test]
fn hostile_values_do_no_harm() {
    let steps = json!([
        { "lower": ["x"] }, { "upper": ["x"] }, { "trim": ["x"] },
        { "substring": { "field": "x", "from": -3, "length": 2, "to": "a" } },
        { "split": { "field": "x", "delimiter": "/", "to": ["b", "c"] } },
        { "split": { "field": "x", "delimiter": "/", "into": "d" } },
        { "join": { "fields": ["x", "b", "message"], "to": "e" } },
        { "hash": { "field": "x", "to": "f" } },
        { "lookup": { "field": "x", "to": "g", "table": { "a": 1 } } },
        { "url": { "field": "x", "query": "fields" } },
        { "set": { "h": "{{ x }}", "message": "{{ x }}" } },
        { "cast": { "x": "int" } },
    ]);
    let kinds =
        [Text, Escaped, Object, Array, Int, Time, True, Null, CellKind::Members, CellKind::False];
    let texts: [&[u8]; 5] = [b"\xC3\xA4\xFF/\x80 ", b"\\u00", b"a\\", b"h://\xFF?%f=%\xFF&=#", b""];
    for (kind, text) in kinds.iter().flat_map(|kind| texts.map(|text| (*kind, text))) {
        let mut batch = of("x\n", &[]);
        let mut made = ColumnBuilder::new(1);
        let cell = constant::constant(&mut made, kind, text);
        made.set(0, if kind == CellKind::False { Cell::constant(kind) } else { cell });
        batch.fields.set(made.finish("x".into()));
        applied(json!({ "steps": steps }), batch);
    }
}

#[test]
fn errors_say_what_to_write_instead() {
    let all = [
        (
            json!({ "rename": { "a": "x", "b": "x" } }),
            "/steps/0/rename",
            "two fields are renamed to `x`",
        ),
        (
            json!({ "cast": { "message": "int" } }),
            "/steps/0/cast/message",
            "a message is always text",
        ),
        (
            json!({ "cast": { "a": { "type": "int", "format": "x" } } }),
            "/steps/0/cast/a/format",
            "only a timestamp",
        ),
        (
            json!({ "split": { "field": "a", "delimiter": "", "to": ["b"] } }),
            "/steps/0/split/delimiter",
            "is empty",
        ),
        (json!({ "split": { "field": "a", "delimiter": "x" } }), "/steps/0/split", "needs one of"),
        (json!({ "lookup": { "field": "a" } }), "/steps/0/lookup", "has no table"),
        (
            json!({ "lookup": { "field": "a", "file": "/no/such.csv" } }),
            "/steps/0/lookup/file",
            "cannot open /no/such.csv",
        ),
        (
            json!({ "hash": { "field": "a", "algorithm": "xxh3", "key": "s3cr3t" } }),
            "/steps/0/hash/key",
            "xxh3 cannot",
        ),
        (json!({ "hash": { "field": "a", "key": "" } }), "/steps/0/hash/key", "is empty"),
        (json!({ "severity": { "fields": [] } }), "/steps/0/severity/fields", "is empty"),
        (
            json!({ "severity": { "to": "x", "number": "x" } }),
            "/steps/0/severity/number",
            "is the same",
        ),
    ];
    for (step, pointer, message) in all {
        let config: FieldsConfig = serde_json::from_value(json!({ "steps": [step] })).unwrap();
        let [error] = &config.check()[..] else { panic!("one error") };
        let (found, text) = (&error.pointer, error.message());
        assert!(
            found == pointer && text.starts_with(message) && !text.contains("s3cr"),
            "{found}: {text}"
        );
    }
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("bad.csv");
    std::fs::write(&file, "a,b\nc\n").unwrap();
    let step = json!({ "steps": [{ "lookup": { "field": "a", "file": file } }] });
    let config: FieldsConfig = serde_json::from_value(step).unwrap();
    let message = format!("{}, line 2 is not `key,value`; write a key and a value", file.display());
    assert_eq!(config.check(), [OptionError::new("/steps/0/lookup/file", message)]);
}

#[test]
fn dots_in_names_of_fields_are_replaced() {
    use CellKind::{Int, Members, Object};
    let steps = json!([{ "replace_dots": "_" }]);
    let fields =
        [("a.b.c", Int, "1"), ("o.x", Object, r#"{"k.v":1}"#), ("p", Object, r#"{"q":{"r.s":2}}"#)];
    check(
        steps.clone(),
        &fields,
        &[r#"p=Object {"q":{"r_s":2}}"#, "a_b_c=Int 1", r#"o_x=Object {"k_v":1}"#],
    );
    // A name that already exists is kept, and no value is lost.
    let fields = [("a_b", Int, "1"), ("a.b", Int, "2"), (MEMBERS, Members, r#""a.b":3,"c.d":4"#)];
    let (batches, counters) = applied(json!({ "steps": steps }), of("line\n", &fields));
    let members = "=Members \"a.b\":3,\"c_d\":4";
    assert_eq!(shown(&batches[0].1, 0), ["a_b=Int 1", members, "a.b=Int 2"]);
    assert_eq!(counters.snapshot().noted_events["name_clash"], 2);
}

#[test]
fn what_replaces_a_dot_is_checked() {
    for with in ["", ".", "a.b", "\"", "\\", " "] {
        let options = json!({ "steps": [{ "replace_dots": with }] });
        let config: FieldsConfig = serde_json::from_value(options).unwrap();
        assert_eq!(config.check()[0].pointer, "/steps/0/replace_dots", "{with:?}");
    }
}

#[test]
fn levels_of_different_sources_get_one_scale() {
    let steps = json!([{ "severity": {} }]);
    let warn = ["level=warn", "severity_number=Int 13"];
    check(steps.clone(), &[("level", Text, "WARNING")], &warn);
    check(steps.clone(), &[("level", Int, "40")], &warn);
    check(
        steps.clone(),
        &[("severity", Text, "warning")],
        &["severity=warning", "level=warn", "severity_number=Int 13"],
    );
    let journal = ["PRIORITY=4", "level=warn", "severity_number=Int 13"];
    check(steps.clone(), &[("PRIORITY", Text, "4")], &journal);
    // A number is more exact than the name of its level.
    let notice = [("level", Text, "info"), ("severity_number", Int, "10")];
    check(steps.clone(), &notice, &["level=info", "severity_number=Int 10"]);
    let invalid = [("level", Text, "info"), ("severity_number", Int, "77")];
    check(steps.clone(), &invalid, &["level=info", "severity_number=Int 9"]);
    check(
        steps.clone(),
        &[("level", Null, ""), ("lvl", Text, "E")],
        &["level=error", "lvl=E", "severity_number=Int 17"],
    );
    check(steps, &[("other", Text, "x")], &["other=x"]);
    let python =
        json!([{ "severity": { "fields": ["n"], "numbers": "python", "to": "a", "number": "b" } }]);
    check(python, &[("n", Int, "30")], &["n=Int 30", "a=warn", "b=Int 13"]);
}

#[test]
fn an_unknown_level_is_kept_and_counted() {
    let options = json!({ "steps": [{ "severity": {} }] });
    let (batches, counters) = applied(options, of("a\nb\n", &[("level", Text, "purple")]));
    assert_eq!(shown(&batches[0].1, 0), ["level=purple"]);
    assert_eq!(counters.snapshot().noted_events["unknown_severity"], 2);
}
