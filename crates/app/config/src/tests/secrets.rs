//! Values from variables are never shown.

use super::super::hash;
use super::{REST, faults_of, good};

/// For every error in a substituted value, the message shows the variable and not the value.
#[test]
fn never_in_messages() {
    let text = "log: {level: '${LEVEL}'}\nlimits: {memory: '${SIZE}', threads: '${PASSWORD}'}\n\
                sources:\n  f:\n    type: file\n    include: ['${GLOB}']\n    max_line: ${SIZE}\n    read_from: ${PASSWORD}\n\
                sinks:\n  a:\n    type: console\n    inputs: ['${PASSWORD}', f]\n    password: ${SIZE}\n  \
                b: {type: '${PASSWORD}', inputs: [f]}\n  c: {type: console, inputs: [f], encoding: '${GLOB}'}\n";
    let faults = faults_of(text);
    assert_eq!(
        faults,
        [
            "m.yaml:1:14: `level`: unknown value `${LEVEL}`; use `error`, `warn`, `info`, `debug` \
             or `trace`",
            "m.yaml:2:18: `memory` (from `${SIZE}`): \"${SIZE}\" has no unit; use, for example, \
             64MiB or 512KiB",
            "m.yaml:2:38: `threads`: expected a whole number, found text in `${PASSWORD}`; use, \
             for example, 2",
            "m.yaml:6:15: `include` (from `${GLOB}`): bad glob \"${GLOB}\": unclosed character class; close it with ]",
            "m.yaml:7:15: `max_line`: `${SIZE}` is a bare number; use, for example, 64MiB",
            "m.yaml:8:16: `read_from`: unknown value `${PASSWORD}`; use `end` or `beginning`",
            "m.yaml:12:14: the input `${PASSWORD}` does not exist; name `f`",
            "m.yaml:13:15: `password`: expected text, found a number in `${SIZE}`; use quotes: \
             \"${SIZE}\"",
            "m.yaml:14:13: unknown sink type `${PASSWORD}`; the types are `blackhole` and `console`",
            "m.yaml:15:45: `encoding`: expected a map, found text in `${GLOB}`; use, for example, \
             { codec: text }",
        ]
    );
    let all = faults.join("\n");
    for secret in ["hunter2", "12345", "/secret", "verbose-secret"] {
        assert!(!all.contains(secret), "{secret} in\n{all}");
    }
}

/// The check of a component may quote the value that it rejects. Only a value from a variable is
/// hidden.
#[test]
fn never_through_a_components_check() {
    let sink = |password: &str| {
        faults_of(&format!(
            "sources: {{in: {{type: stdin}}}}\nsinks: {{out: {{type: console, inputs: [in], password: '{password}'}}}}\n"
        ))
    };
    assert_eq!(
        sink("hunter1"),
        ["m.yaml:2:54: `password`: \"hunter1\" is easily guessed; take a longer one"]
    );
    assert_eq!(
        sink("${PASSWORD}"),
        [
            "m.yaml:2:54: `password` (from `${PASSWORD}`): \"${PASSWORD}\" is easily guessed; take a longer one"
        ]
    );
}

/// An error that does not concern the variable is shown unchanged, and a default is not secret.
#[test]
fn errors_about_other_options_stay() {
    let sink = |password: &str| {
        faults_of(&format!(
            "sources: {{in: {{type: stdin}}}}\nsinks: {{out: {{type: console, inputs: [in], password: '{password}', \
             endpoint: '${{URL}}', retries: 13}}}}\n"
        ))
    };
    let of_environment =
        "the variable HTTPS_PROXY is not an address; use, for example, http://proxy.example:3128";
    assert_eq!(sink("long"), [format!("m.yaml:2:9: {of_environment}")]);
    assert_eq!(
        sink("${UNSET:-hunter3}"),
        [
            format!("m.yaml:2:9: {of_environment}"),
            "m.yaml:2:54: `password` (from `${UNSET:-hunter3}`): \"hunter3\" is easily guessed; take a longer one"
                .to_owned(),
        ]
    );
}

/// Debug output of a configuration contains neither options nor attributes.
#[test]
fn never_in_debug_output() {
    let config = good(
        "sources: {in: {type: stdin, attributes: {key: '${PASSWORD}'}}}\n\
         sinks: {out: {type: console, inputs: [in], endpoint: '${PASSWORD}'}}\n",
    );
    let out = &config.components[1];
    assert_eq!(out.options["endpoint"], "hunter2");
    assert!(!format!("{config:?}").contains("hunter2"));
}

/// The hash depends on the content and on the names of variables, but not on layout, key order,
/// files, or values of variables.
#[test]
fn hash_without_secrets() {
    let base = good(&format!("{REST}log: {{level: info, to: stderr}}\n")).hash;
    let reordered = good(
        "# a comment\nlog:\n  to: stderr\n  level: 'info'\nsinks:\n  out: {inputs: [in], type: console}\n\
         sources: {in: {type: stdin}}\n",
    );
    assert_eq!(reordered.hash, base);
    assert_ne!(good(&format!("{REST}log: {{level: warn, to: stderr}}\n")).hash, base);
    let secrets_of = |value: &str| {
        let mut faults = Vec::new();
        let mut root = super::super::parse::parse(&"m".into(), "data_dir: ${D}\n", &mut faults)
            .unwrap()
            .unwrap();
        super::super::replace::replace(&mut root, &|_| Some(value.into()), &mut faults);
        hash::hash(&super::super::merge::merge(vec![root], &mut faults))
    };
    assert_eq!(secrets_of("/a"), secrets_of("/b"));
}
