//! The form of `tests`.

use serde_json::json;

use super::super::schema;
use super::catalog::TestCatalog;
use super::{REST, faults_of, good, load_files};

/// Returns a valid test, with these keys instead of the default keys.
fn test(keys: &str) -> String {
    format!("{REST}tests:\n  - name: n\n{keys}")
}

/// A test is parsed with its positions; the components that it refers to need not exist.
#[test]
fn forms() {
    let config = good(&test(
        "    now: 2026-11-21T20:29:46Z\n    input: {to: nowhere, events: [{a: {b: [1]}}], after: 3s, file: /a}\n    \
         expect:\n      - {from: a.b, events: [{a: null}], exact: true}\n      - {from: c, count: 0}\n",
    ));
    let [test] = config.tests.as_slice() else { panic!("{config:?}") };
    let inputs = test.input.list();
    let [(at, input)] = inputs.as_slice() else { panic!("one input") };
    assert_eq!((at.as_str(), input.to.as_str(), input.file.as_str()), ("/input", "nowhere", "/a"));
    assert_eq!(input.after.to_string(), "3s");
    assert_eq!(json!(input.events), json!([{ "a": { "b": [1] } }]));
    assert_eq!((test.now.as_str(), test.expect.len()), ("2026-11-21T20:29:46Z", 2));
    assert_eq!((test.expect[0].exact, test.expect[1].count), (true, Some(0)));
    let place = test.place("/expect/1/from");
    assert_eq!((place.line, place.column), (9, 16));
    assert_eq!(test.shown("/input/to"), "nowhere");
}

/// The tests of all files are collected, and they do not affect the components.
#[test]
fn files_add_up() {
    let one = "tests: [{name: n, input: [{to: a, lines: [x]}], expect: [{from: b, count: 1}]}]\n";
    let both =
        load_files(&[("m.yaml", REST), ("a.yaml", one), ("b.yaml", one), ("c.yaml", "tests:\n")])
            .unwrap();
    assert_eq!((both.tests.len(), both.hash), (2, good(REST).hash));
}

/// Every mistake has its position and advice.
#[test]
fn faults() {
    for (keys, expected) in [
        (
            "    expect: [{from: a, count: 1}]\n",
            "4:5: missing key `input`; add, for example, input: {\"to\":\"ID\",\"lines\":[\"a \
             line\"]}",
        ),
        (
            "    inputs: {}\n    expect: [{from: a, count: 1}]\n",
            "5:5: unknown key `inputs`; did you mean `input`?",
        ),
        (
            "    input: {to: a, lines: [1]}\n    expect: [{from: a, count: 1}]\n",
            "5:28: `lines`: expected text, found a number; use quotes: \"1\"",
        ),
        (
            "    input: {to: a, line: [x]}\n    expect: [{from: a, count: 1}]\n",
            "5:20: unknown key `line`; did you mean `lines`?",
        ),
        (
            "    input: {to: a}\n    expect: [{from: a, count: 1}]\n",
            "5:12: the input has neither `lines` nor `events`; set one of them",
        ),
        (
            "    input: [{to: a, lines: [], events: []}]\n    expect: [{from: a, count: 1}]\n",
            "5:13: the input has both `lines` and `events`; set one of them",
        ),
        (
            "    input: {to: a, lines: [], after: 3}\n    expect: [{from: a, count: 1}]\n",
            "5:38: `after`: \"3\" has no unit; use, for example, 10s or 500ms",
        ),
        (
            "    input: {to: a, lines: []}\n    expect: [{from: a}]\n",
            "6:14: the expectation is empty; add `events` or `count`",
        ),
        (
            "    input: {to: a, lines: []}\n    expect: []\n",
            "6:13: `expect`: the list is empty; use one item or more",
        ),
        (
            "    input: {to: a, lines: []}\n    expect: [{from: a, count: 1, exact: true}]\n",
            "6:14: `exact` requires `events`; add `events`, or remove `exact`",
        ),
        (
            "    input: {to: a, lines: []}\n    expect: [{from: a, count: -1}]\n",
            "6:31: `count`: -1 is too small; use at least 0",
        ),
    ] {
        let text = test(keys);
        assert_eq!(faults_of(&text), [format!("m.yaml:{expected}")], "{text}");
    }
    let list = format!("{REST}tests: {{name: n}}\n");
    assert_eq!(
        faults_of(&list),
        [
            "m.yaml:3:8: `tests`: expected a list of tests, found a map; write a dash before each test"
        ]
    );
    let misspelt = format!("{REST}test: []\n");
    assert_eq!(faults_of(&misspelt), ["m.yaml:3:1: unknown key `test`; did you mean `tests`?"]);
}

/// An unset variable is one error, and the value of a variable is never shown.
#[test]
fn variables() {
    let with = |variable: &str| {
        test(&format!(
            "    input: {{to: '{variable}', lines: [a]}}\n    expect: [{{from: a, count: 1}}]\n"
        ))
    };
    let unset = faults_of(&with("${NONE}"));
    assert!(unset.len() == 1 && unset[0].contains("the variable `NONE` is not set"), "{unset:?}");
    let config = good(&with("${PASSWORD}"));
    assert_eq!(config.tests[0].shown("/input/to"), "${PASSWORD}");
    assert!(!format!("{config:?}").contains("hunter2"), "{config:?}");
}

/// The schema for editors contains the keys of a test.
#[test]
fn editor_schema() {
    let schema = schema(&TestCatalog);
    let test = &schema["properties"]["tests"]["items"];
    assert_eq!(test["required"], json!(["name", "input", "expect"]));
    let input = &schema["$defs"]["test.TestInput"];
    assert_eq!(input["properties"]["lines"]["type"], "array");
    assert!(input["properties"]["after"]["pattern"].is_string(), "{input}");
}
