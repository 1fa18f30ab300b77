//! Invalid configurations and their exact errors.

use super::{REST, faults_of, load_files};

/// Checks the errors of each text.
fn check(cases: &[(&str, &[&str])]) {
    for (text, expected) in cases {
        assert_eq!(faults_of(text), *expected, "{text}");
    }
}

/// Returns the errors for a `file` source with these keys, and a sink that reads it.
fn source(keys: &str) -> Vec<String> {
    faults_of(&format!(
        "sinks: {{out: {{type: blackhole, inputs: [app]}}}}\nsources:\n  app:\n    type: file\n{keys}"
    ))
}

/// Returns the errors for a `console` sink with these keys, and a source that it reads.
fn sink(keys: &str) -> Vec<String> {
    faults_of(&format!(
        "sources: {{in: {{type: stdin}}}}\nsinks:\n  out:\n    type: console\n    inputs: [in]\n{keys}"
    ))
}

/// The error for a misspelled key suggests the right key, and the error for any other key lists all
/// keys; a misspelled key is not also missing.
#[test]
fn unknown_keys() {
    assert_eq!(
        source("    includ: [a]\n"),
        ["m.yaml:5:5: unknown key `includ`; did you mean `include`?"]
    );
    assert_eq!(
        source("    include: [a]\n    colour: 1\n"),
        ["m.yaml:6:5: unknown key `colour`; the valid keys are `type`, `attributes`, `host`, \
          `priority`, `rate_limit`, `include`, `exclude`, `read_from`, `ignore_older`, `expire`, \
          `max_line` and `keep_lines`"]
    );
    assert_eq!(
        sink("    encoding: {codec: text, metadata_key: x}\n"),
        ["m.yaml:6:29: unknown key `metadata_key`; only `codec` is valid here"]
    );
    assert_eq!(
        faults_of(&format!("{REST}source: {{}}\nlimits: {{thread: 1}}\n")),
        [
            "m.yaml:3:1: unknown key `source`; did you mean `sources`?",
            "m.yaml:4:10: unknown key `thread`; did you mean `threads`?",
        ]
    );
}

/// A key of another agent is mapped to Millstream's key, which is not also reported as missing.
#[test]
fn keys_of_other_agents() {
    assert_eq!(source("    paths: [a]\n"), ["m.yaml:5:5: unknown key `paths`; use `include`"]);
    assert_eq!(
        source("    include: [a]\n    max_line_bytes: 64KiB\n"),
        ["m.yaml:6:5: unknown key `max_line_bytes`; use `max_line`"]
    );
}

/// Keys of a buffer that contradict each other, and keys of other agents.
#[test]
fn buffers() {
    for (keys, message) in [
        (
            "{type: disk}",
            "5: `buffer`: a disk buffer has no default size; add, for example, max: 10GiB",
        ),
        ("{type: disk, max: 15MiB}", "31: `max`: the disk buffer is too small; use 16MiB or more"),
        (
            "{max: 1MiB, mode: always}",
            "25: `mode`: applies only to a disk buffer; add type: disk, or remove the key",
        ),
        (
            "{type: memory, replay_rate: 1MiB}",
            "28: `replay_rate`: applies only to a disk buffer; add type: disk, or remove the key",
        ),
        ("{type: disk, max_size: 1GiB, max: 1GiB}", "26: unknown key `max_size`; use `max`"),
    ] {
        assert_eq!(sink(&format!("    buffer: {keys}\n")), [format!("m.yaml:6:{message}")]);
    }
    let both = sink("    buffer: {mode: always, replay_rate: 1MiB}\n");
    assert_eq!(both.len(), 2, "{both:?}");
    let unknown = sink("    buffer: {type: filesystem}\n");
    assert!(unknown[0].ends_with("use `memory` or `disk`"), "{unknown:?}");
}

/// A type of another agent is mapped to Millstream's type.
#[test]
fn types_of_other_agents() {
    let faults = |source: &str, sink: &str| {
        faults_of(&format!(
            "sources: {{in: {{type: {source}}}}}\nsinks: {{out: {{type: {sink}, inputs: [in]}}}}\n"
        ))
    };
    assert_eq!(
        faults("tail", "stdout"),
        [
            "m.yaml:1:22: unknown source type \"tail\"; use `file`, the closest match here",
            "m.yaml:2:21: unknown sink type \"stdout\"; use `console`, the closest match here",
        ]
    );
    // Types without a similar type in Millstream.
    let beats = &faults("beats", "console")[0];
    assert!(beats.contains("there is no source type \"beats\" yet"), "{beats}");
    assert!(beats.ends_with("; the types are `file` and `stdin`"), "{beats}");
    assert!(faults("log", "loki")[0].ends_with("; use `file`, the closest match here"));
    assert!(faults("log", "loki")[1].contains("there is no sink type \"loki\" yet"));
}

/// Errors about wrong types say what was expected, what was found, and how to write it.
#[test]
fn wrong_types() {
    for (keys, message) in [
        (
            "    include: /var/log/a.log\n",
            "5:14: `include`: expected a list of strings, found text; use [/var/log/a.log]",
        ),
        (
            "    include: '/var/{a,b}'\n",
            "5:14: `include`: expected a list of strings, found text; use [\"/var/{a,b}\"]",
        ),
        (
            "    include: ${PORT}x\n",
            "5:14: `include`: expected a list of strings, found text in `${PORT}x`; use \
             [\"${PORT}x\"]",
        ),
        ("    include: [5]\n", "5:15: `include`: expected text, found a number; use quotes: \"5\""),
        (
            "    include: {a: b}\n",
            "5:14: `include`: expected a list of strings, found a map; use, for example, [...]",
        ),
        (
            "    include:\n",
            "5:12: `include`: expected a list of strings, found nothing; use, for example, [...]",
        ),
        ("    include: []\n", "5:14: `include`: the list is empty; use one item or more"),
        (
            "    include: [a]\n    host: ''\n",
            "6:11: `host`: the text is empty; enter a value, or remove the key",
        ),
        (
            "    include: [a]\n    priority: hihg\n",
            "6:15: `priority`: unknown value \"hihg\"; did you mean `high`?",
        ),
        (
            "    include: [a]\n    priority: true\n",
            "6:15: `priority`: expected text, found true; use `high`, `normal` or `low`",
        ),
        (
            "    include: [a]\n    read_from: [end]\n",
            "6:16: `read_from`: expected text, found a list; use `end` or `beginning`",
        ),
        (
            "    include: [a]\n    rate_limit: 100\n",
            "6:17: `rate_limit`: \"100\" has no unit; use, for example",
        ),
        (
            "    include: [a]\n    attributes: {a: [b]}\n",
            "6:21: `a`: expected text or a number or true or false",
        ),
    ] {
        let faults = source(keys);
        assert!(
            faults.len() == 1 && faults[0].starts_with(&format!("m.yaml:{message}")),
            "{keys}{faults:?}"
        );
    }
    for (keys, message) in [
        (
            "    password: 123\n",
            "6:15: `password`: expected text, found a number; use quotes: \"123\"",
        ),
        (
            "    retries: '5'\n",
            "6:14: `retries`: expected a whole number, found text; remove the quotes: 5",
        ),
        (
            "    retries: 1.5\n",
            "6:14: `retries`: expected a whole number, found a number with a fraction; use, for \
             example, 10",
        ),
        ("    retries: 70000\n", "6:14: `retries`: 70000 is too large; use at most 65535"),
        ("    retries: -1\n", "6:14: `retries`: -1 is too small; use at least 0"),
        (
            "    ratio: '1.5'\n",
            "6:12: `ratio`: expected a number, found text; remove the quotes: 1.5",
        ),
        ("    color: yes\n", "6:12: `color`: expected true or false, found text; use true"),
        (
            "    labels: {a: b}\n",
            "6:17: `a`: expected a whole number, found text; use, for example, 10",
        ),
        (
            "    encoding: json\n",
            "6:15: `encoding`: expected a map, found text; use, for example, { codec: json }",
        ),
        (
            "    endpoint: 5\n",
            "6:15: `endpoint`: expected text or a list of strings, found a number; use quotes: \"5\"",
        ),
        (
            "    endpoint: [5]\n",
            "6:16: `endpoint`: expected text, found a number; use quotes: \"5\"",
        ),
    ] {
        assert_eq!(sink(keys), [format!("m.yaml:{message}")], "{keys}");
    }
}

/// An invalid enumeration, glob, size and duration name the value and a valid one.
#[test]
fn bad_values() {
    for (keys, message) in [
        (
            "read_from: begining",
            "6:16: `read_from`: unknown value \"begining\"; did you mean `beginning`?",
        ),
        (
            "read_from: middle",
            "6:16: `read_from`: unknown value \"middle\"; use `end` or `beginning`",
        ),
        ("max_line: 10", "6:15: `max_line`: \"10\" has no unit; use, for example, 64MiB or 512KiB"),
        (
            "max_line: 10mb",
            "6:15: `max_line`: \"10mb\" has the unknown unit \"mb\"; use B, KiB, MiB, GiB, TiB or KB, MB, GB, TB",
        ),
        (
            "ignore_older: 1.5",
            "6:19: `ignore_older`: \"1.5\" has no unit; use, for example, 10s or 500ms",
        ),
        (
            "ignore_older: soon",
            "6:19: `ignore_older`: \"soon\" is not a duration; use, for example, 10s or 500ms",
        ),
        (
            "expire: soon",
            "6:13: `expire`: \"soon\" is not a duration; use, for example, 10s or 500ms, or never",
        ),
        (
            "expire: 10",
            "6:13: `expire`: \"10\" has no unit; use, for example, 10s or 500ms, or never",
        ),
        ("keep_lines: {containz: [a]}", "6:18: unknown key `containz`; did you mean `contains`?"),
        ("keep_lines: {}", "6:17: `keep_lines`: no key is set; use `contains` or `regex`"),
        (
            "keep_lines: {contains: [a], regex: b}",
            "6:33: unknown key `regex`; only `contains` is valid here",
        ),
    ] {
        assert_eq!(
            source(&format!("    include: [a]\n    {keys}\n")),
            [format!("m.yaml:{message}")],
            "{keys}"
        );
    }
    assert_eq!(
        source("    include: ['/var/[a']\n"),
        ["m.yaml:5:15: `include`: bad glob \"/var/[a\": unclosed character class; close it with ]"]
    );
}

/// The tag selects the alternative, so that one error is one message.
#[test]
fn alternatives() {
    assert_eq!(
        sink("    encoding: {codec: jsn}\n"),
        ["m.yaml:6:23: `codec`: unknown value \"jsn\"; did you mean `json`?"]
    );
    assert_eq!(
        sink("    encoding: {}\n"),
        ["m.yaml:6:5: `encoding`: missing key `codec`; add `codec:` with `text` or `json`"]
    );
    let text = "sources: {a: {type: stdin}}\nsinks: {o: {type: blackhole, inputs: [p, q, r, s]}}\ntransforms:\n  \
                p: {type: parse, inputs: [a], format: regex, patern: x}\n  \
                q: {type: parse, inputs: [a], format: jso, more: 1, time: {field: t}}\n  \
                r: {type: parse, inputs: [a], format: delimited, delimiter: ',', fields: [a, {name: b, type: flot}, 5]}\n  \
                s: {type: parse, inputs: [a], time: 5}\n";
    assert_eq!(
        faults_of(text),
        [
            "m.yaml:4:48: unknown key `patern`; did you mean `pattern`?",
            "m.yaml:5:41: `format`: unknown value \"jso\"; did you mean `json`?",
            "m.yaml:5:55: `time`: missing key `format`; add, for example, format: ...",
            "m.yaml:6:96: `type`: unknown value \"flot\"; did you mean `float`?",
            "m.yaml:6:103: `fields`: expected text or a map, found a number; use quotes: \"5\"",
            "m.yaml:7:3: missing key `format`; add `format:` with `json`, `regex` or `delimited`",
            "m.yaml:7:39: `time`: expected a map, found a number; use, for example, { ... }",
        ]
    );
}

/// A component without a valid type, id or shape.
#[test]
fn components() {
    let text = "sources:\n  a: {type: fil}\n  b: {type: console}\n  c:\n  d: {type: 5}\n  e: {}\n  f.g: {type: stdin}\n  \
                h: [1]\nsinks:\n  out: {type: console}\n  end: {type: blackhole, inputs: app}\n";
    assert_eq!(
        faults_of(text),
        [
            "m.yaml:2:13: unknown source type \"fil\"; did you mean `file`?",
            "m.yaml:3:13: unknown source type \"console\"; it is a sink; move it to `sinks`",
            "m.yaml:4:4: `c`: expected a map with the options of a source, found nothing; use, for \
             example, type: file",
            "m.yaml:5:13: `type`: expected text, found a number; use `file` or `stdin`",
            "m.yaml:6:3: the source `e` has no `type`; add `type:` with `file` or `stdin`",
            "m.yaml:7:3: invalid id `f.g`; use letters, digits, _ and -, beginning with a letter or _",
            "m.yaml:8:6: `h`: expected a map with the options of a source, found a list; use, for \
             example, type: file",
            "m.yaml:10:3: missing key `inputs`; add, for example, inputs: [\"app\"]",
            "m.yaml:11:34: `inputs`: expected a list of strings, found text; use [app]",
        ]
    );
}

/// Every setting is checked: levels, targets, limits, addresses, durations.
#[test]
fn globals() {
    let text = "log: {level: wran, to: x}\nlimits: {threads: 0, memory: 1MiB}\napi: {listen: 7878}\n\
                shutdown_timeout: 20\ndata_dir: ''\n";
    assert_eq!(
        faults_of(&format!("{text}{REST}")),
        [
            "m.yaml:1:14: `level`: unknown value \"wran\"; did you mean `warn`?",
            "m.yaml:1:24: `to`: \"x\" is neither stderr nor a path; use stderr, or a path such as \
             /var/log/millstream.log",
            "m.yaml:2:19: `threads`: 0 is too small; use at least 1",
            "m.yaml:3:15: `listen`: \"7878\" is not an address and port; use, for example, \
             127.0.0.1:7878",
            "m.yaml:4:19: `shutdown_timeout`: \"20\" has no unit; use, for example, 10s or 500ms",
            "m.yaml:5:11: `data_dir`: the text is empty; enter a value, or remove the key",
        ]
    );
    assert_eq!(
        faults_of(&format!("limits: {{memory: 1MiB}}\n{REST}")),
        ["m.yaml:1:18: `memory`: \"1MiB\" is too small; use at least 32MiB"]
    );
    for (cpu, shown) in [("0", "0"), ("-1", "-1"), ("0.001", "0.001")] {
        let faults = faults_of(&format!("limits: {{cpu: {cpu}}}\n{REST}"));
        assert_eq!(
            faults,
            [format!("m.yaml:1:15: `cpu`: {shown} is too small; use at least 0.01")]
        );
    }
    assert_eq!(
        faults_of(&format!("limits: {{cpu: 50%}}\n{REST}")),
        ["m.yaml:1:15: `cpu`: expected a number, found text; use, for example, 0.5"]
    );
}

/// Inputs that refer to nothing, to a sink or to the component itself, and duplicate inputs.
#[test]
fn inputs() {
    check(&[
        (
            "sources: {app: {type: stdin}}\ntransforms: {p: {type: parse, format: json, inputs: [ap]}}\n\
             sinks: {out: {type: blackhole, inputs: [p, nowhere, p.rejectd, p.x, app.x]}}\n",
            &[
                "m.yaml:2:54: the input `ap` does not exist; did you mean `app`?",
                "m.yaml:3:44: the input `nowhere` does not exist; the possible inputs are `app`, `p` and `p.rejected`",
                "m.yaml:3:53: the input `p.rejectd` does not exist; did you mean `p.rejected`?",
                "m.yaml:3:64: the input `p.x` does not exist; only `p.rejected` is valid here",
                "m.yaml:3:69: the input `app.x` does not exist; use `app`; it has no side outputs",
            ],
        ),
        (
            "sources: {a: {type: stdin}}\nsinks:\n  x: {type: blackhole, inputs: [a, y, z, x, a]}\n  \
             y: {type: console, inputs: [a]}\n  z: {type: blackhole, inputs: [y.rejected]}\n",
            &[
                "m.yaml:3:36: the input `y` is a sink, which has no output; use the id of a \
                 source, of a transform, or `y.rejected`",
                "m.yaml:3:39: the input `z` is a sink, which has no output; use the id of a source \
                 or a transform",
                "m.yaml:3:42: the input `x` is a sink, which has no output; use the id of a source \
                 or a transform",
                "m.yaml:3:45: duplicate input `a`; remove one of them",
            ],
        ),
        (
            "sources: {a: {type: stdin}}\ntransforms: {t: {type: filter, inputs: [t]}}\n\
             sinks: {o: {type: blackhole, inputs: [a, t]}}\n",
            &["m.yaml:2:41: `t` is its own input; use the id of the component that it should \
                 read from"],
        ),
    ]);
}

/// Cycles are named in full, in the direction of the data; a chain that leads into a cycle is not
/// part of it.
#[test]
fn cycles() {
    check(&[
        (
            "sources: {a: {type: stdin}}\ntransforms:\n  x: {type: filter, inputs: [z]}\n  \
             y: {type: filter, inputs: [a, x]}\n  z: {type: filter, inputs: [y]}\n  v: {type: filter, inputs: [z]}\n  \
             p: {type: filter, inputs: [q]}\n  q: {type: filter, inputs: [p]}\n\
             sinks: {o: {type: blackhole, inputs: [v]}}\n",
            &[
                "m.yaml:3:30: the inputs form a cycle: x -> y -> z -> x; remove one of these inputs",
                "m.yaml:7:30: the inputs form a cycle: p -> q -> p; remove one of these inputs",
            ],
        ),
        (
            "sources: {a: {type: stdin}}\ntransforms: {t: {type: filter, inputs: [a, o.rejected]}}\n\
             sinks: {o: {type: console, inputs: [t]}}\n",
            &["m.yaml:2:44: the inputs form a cycle: t -> o -> t; remove one of these inputs"],
        ),
    ]);
}

/// Without sources or sinks there is nothing to run, in an empty file as in one with settings only.
#[test]
fn nothing_to_do() {
    let none = [
        "m.yaml:1:1: no sinks, so there is nothing to deliver to; add a sink under `sinks:`",
        "m.yaml:1:1: no sources, so there is nothing to read from; add a source under `sources:`",
    ];
    check(&[
        ("", &none),
        ("# nothing\n", &none),
        ("sources:\nsinks: {}\ndata_dir: /d\n", &none),
        ("sources: {a: {type: stdin}}\n", &none[..1]),
        (
            "sources: 5\nsinks: {o: {type: blackhole, inputs: [a]}}\n",
            &[
                "m.yaml:1:10: `sources`: expected a map from ids to components, found a number; write an id, a colon, \
             and the component's keys below",
                "m.yaml:2:39: the input `a` does not exist; add a source with this id",
            ],
        ),
        (
            "- a\n",
            &["m.yaml:1:1: expected top-level keys, found a list; use, for example, sources:"],
        ),
    ]);
}

/// Duplicates are reported with both positions, in one file and across two, and across sections.
#[test]
fn given_twice() {
    let twice = "sources:\n  in: {type: stdin}\n  in: {type: stdin}\nsinks: {out: {type: blackhole, inputs: [in]}}\n";
    assert_eq!(
        faults_of(twice),
        ["m.yaml:3:3: duplicate key `in`; keep one of them; the first is at m.yaml:2:3"]
    );
    let across = "sources: {in: {type: stdin}}\nsinks: {in: {type: blackhole, inputs: [in]}}\n";
    assert_eq!(
        faults_of(across)[0],
        "m.yaml:2:9: duplicate key `in`; keep one of them; the first is at m.yaml:1:11"
    );
    let files = [
        ("a.yaml", REST),
        ("b.yaml", "sources: {in: {type: stdin}}\nlog: {}\n"),
        ("c.yaml", "log: {}\n"),
    ];
    assert_eq!(
        load_files(&files).unwrap_err(),
        [
            "b.yaml:1:11: duplicate key `in`; keep one of them; the first is at a.yaml:1:11",
            "c.yaml:1:1: duplicate key `log`; keep one of them; the first is at b.yaml:2:1",
        ]
    );
}

/// An unset variable is one error; the missing value causes no additional errors.
#[test]
fn unset_variables() {
    let unset = "is not set; set it, or use ${";
    let faults = faults_of(
        "sources: {in: {type: '${TYPE}'}, f: {type: file, include: ['${DIR}/*']}}\n\
         sinks: {out: {type: console, inputs: ['${FROM}', in, f], encoding: {codec: '${CODEC}'}}}\n",
    );
    let starts: Vec<&str> =
        faults.iter().map(|fault| fault.split(unset).next().unwrap().trim()).collect();
    assert_eq!(
        starts,
        [
            "m.yaml:1:22: the variable `TYPE`",
            "m.yaml:1:60: the variable `DIR`",
            "m.yaml:2:39: the variable `FROM`",
            "m.yaml:2:76: the variable `CODEC`",
        ]
    );
}

/// A file that is not YAML is reported with the errors of the other files. Components that it may
/// contain are not reported as missing.
#[test]
fn broken_file_among_others() {
    let files = [
        ("a.yaml", "sources:\n\tin: {type: stdin}\n"),
        ("b.yaml", "sinks: {out: {type: console, inputs: [in], colr: true}}\n"),
    ];
    assert_eq!(
        load_files(&files).unwrap_err(),
        [
            "a.yaml:2:1: a tab in the indentation; indent with spaces",
            "b.yaml:1:44: unknown key `colr`; did you mean `color`?",
        ]
    );
}

/// Many errors in two files are reported at once, by file, line and column.
#[test]
fn all_at_once() {
    let files = [
        (
            "b.yaml",
            "sinks:\n  out: {type: console, inputs: [parsd], retries: many}\nshutdown_timeout: 5\n",
        ),
        (
            "a.yaml",
            "sources:\n  app: {type: file, include: ['[x'], max_line: 1}\ntransforms:\n  \
                    parsed: {type: parse, inputs: [app], format: '${FORMAT}'}\n",
        ),
    ];
    assert_eq!(
        load_files(&files).unwrap_err(),
        [
            "a.yaml:2:31: `include`: bad glob \"[x\": unclosed character class; close it with ]",
            "a.yaml:2:48: `max_line`: \"1\" has no unit; use, for example, 64MiB or 512KiB",
            "a.yaml:4:48: the variable `FORMAT` is not set; set it, or use ${FORMAT:-default}; a \
             literal dollar is $$",
            "b.yaml:2:33: the input `parsd` does not exist; did you mean `parsed`?",
            "b.yaml:2:50: `retries`: expected a whole number, found text; use, for example, 10",
            "b.yaml:3:19: `shutdown_timeout`: \"5\" has no unit; use, for example, 10s or 500ms",
        ]
    );
}

/// A message stays one line, whatever a text or a key contains.
#[test]
fn one_line_each() {
    let text = format!("{REST}\"a\\nb\": 1\ndata_dir: |\n  x\n  ${{open\n");
    assert_eq!(
        faults_of(&text),
        [
            "m.yaml:3:1: unknown key `a\\n\
             b`; the valid keys are `data_dir`, `log`, `limits`, `jvm`, `recorder`, `profiler`, \
             `shutdown_timeout`, `api`, `watch`, `sources`, `transforms`, `sinks` and `tests`",
            "m.yaml:5:3: `${open\\n\
             ` is not a variable; use ${NAME}, ${NAME:-default} or ${file:/path}; a literal dollar \
             is $$",
        ]
    );
}

/// A value repeated by an alias is reported once, where it is written.
#[test]
fn alias_faults_once() {
    let text = "sources: {a: {type: stdin}}\nsinks:\n  x: {type: console, inputs: [a], encoding: &e {codec: xml}}\n  \
                y: {type: console, inputs: [a], encoding: *e}\n";
    assert_eq!(
        faults_of(text),
        ["m.yaml:3:56: `codec`: unknown value \"xml\"; use `text` or `json`"]
    );
}

#[test]
fn profiler() {
    let faults = |settings: &str| faults_of(&format!("{REST}profiler: {{{settings}}}\n"));
    for (settings, expected) in [
        ("continous: true", "3:12: unknown key `continous`; did you mean `continuous`?"),
        ("keep: 10s", "3:18: `keep`: \"10s\" is too short; use at least 1m"),
        ("keep: 2h", "3:18: `keep`: \"2h\" is too long; use at most 1h"),
    ] {
        assert_eq!(faults(settings), [format!("m.yaml:{expected}")], "{settings}");
    }
}

/// Settings for the flight recorder, by event type.
#[test]
fn recorder() {
    let faults = |settings: &str| faults_of(&format!("{REST}recorder: {{{settings}}}\n"));
    for (settings, expected) in [
        ("sise: 1MiB", "3:12: unknown key `sise`; did you mean `size`?"),
        ("size: 1MB", "3:18: `size`: \"1MB\" is too small; use at least 1MiB"),
        ("size: 2GiB", "3:18: `size`: \"2GiB\" is too large; use at most 1GiB"),
        ("size: 16", "3:18: `size`: \"16\" has no unit; use, for example, 64MiB or 512KiB"),
        ("enabled: yes", "3:21: `enabled`: expected true or false, found text; use true"),
        ("events: {FileRaed: {}}", "3:21: unknown key `FileRaed`; did you mean `FileRead`?"),
        (
            "events: {FileRead: {treshold: 1ms}}",
            "3:32: unknown key `treshold`; did you mean `threshold`?",
        ),
        (
            "events: {FileRead: {threshold: 1}}",
            "3:43: `threshold`: \"1\" has no unit; use, for example, 10s or 500ms or none",
        ),
        (
            "events: {FileRead: {rate: 100}}",
            "3:38: `rate`: \"100\" is not a number of events per second; use, for example, 100/s \
             or none",
        ),
        (
            "events: {Retry: {threshold: 1ms}}",
            "3:29: unknown key `threshold`; the valid keys are `enabled` and `rate`",
        ),
    ] {
        assert_eq!(faults(settings), [format!("m.yaml:{expected}")], "{settings}");
    }
}
