//! Whole tests, from YAML text to printed output.

use super::*;
use std::fs;

const CONFIG: &str = "
sources:
  access: { type: stdin, attributes: { env: prod } }
transforms:
  timed: { type: parse, inputs: [access], time: { format: epoch_s }, on_error: reject }
  calm: { type: throttle, inputs: [timed], events: 2, window: 10s, key: '{{ message }}{{ file }}' }
sinks:
  out: { type: console, inputs: [calm] }
  bad: { type: blackhole, inputs: [timed.rejected] }
tests:
";

/// Loads a configuration with these tests; folder names are removed from messages.
fn loaded(tests: &str) -> (tempfile::TempDir, Result<Config, Vec<Fault>>) {
    let folder = tempfile::tempdir().unwrap();
    let (config, file) = (folder.path().join("m.yaml"), folder.path().join("t.yaml"));
    fs::write(&config, CONFIG).unwrap();
    fs::write(&file, format!("tests:\n{tests}")).unwrap();
    let loaded = config::load_with_tests(&[config], &[file], &Registry, &|_| None);
    (folder, loaded)
}

/// Returns the exit status and the output of these tests.
fn played(tests: &str) -> (u8, String) {
    let (folder, config) = loaded(tests);
    let config = config.unwrap();
    let network = Network::new(&config);
    let plans = plan::all(&config, &network).unwrap_or_else(|faults| panic!("{faults:?}"));
    let mut out = Vec::new();
    let status = report(&network, &plans, &mut out).unwrap();
    (status, String::from_utf8(out).unwrap().replace(&format!("{}/", folder.path().display()), ""))
}

/// Returns the errors of these tests.
fn faults(tests: &str) -> Vec<String> {
    let (folder, config) = loaded(tests);
    let faults = match config {
        Ok(config) => plan::all(&config, &Network::new(&config)).err().expect("faults"),
        Err(faults) => faults,
    };
    let shorten =
        |fault: &Fault| fault.to_string().replace(&format!("{}/", folder.path().display()), "");
    faults.iter().map(shorten).collect()
}

/// Lines for a source pass through all readers of the source, with its attributes.
#[test]
fn a_source_sends_its_events_to_every_reader() {
    let (status, text) = played(
        "- name: routed by time
  input: { to: access, lines: ['5 a', 'b', '6 c'] }
  expect:
  - { from: access, count: 3 }
  - { from: timed, events: [{ timestamp: '1970-01-01T00:00:05Z', message: 5 a, env: prod }, { env: prod }] }
  - { from: timed.rejected, exact: true, events: [{ message: b, env: prod, reason: bad_time }] }
  - { from: out, count: 2 }
  - { from: bad, count: 1, events: [{ message: b }] }\n",
    );
    assert_eq!((status, text.as_str()), (DONE, "ok routed by time\n1 passed, 0 failed\n"));
}

/// Events of any type pass unchanged; events without a message show none.
#[test]
fn events_with_fields_round_trip() {
    let event = "{ a: null, b: true, c: -1, d: 0.5, e: 'x\"y', f: [1, z], g: { h: { i: false } } }";
    let (status, text) = played(&format!(
        "- name: as they are
  input: {{ to: calm, events: [{event}, {{ message: m, timestamp: 2026-11-21T20:29:46+01:00, a: 1 }}] }}
  expect:
  - from: out
    exact: true
    events: [{event}, {{ message: m, timestamp: 2026-11-21T19:29:46Z, a: 1.0 }}]\n"
    ));
    assert_eq!((status, text.as_str()), (DONE, "ok as they are\n1 passed, 0 failed\n"));
}

/// Time advances only as the inputs say, every test starts fresh, and a file is a key.
#[test]
fn tests_run_at_the_given_time() {
    let (status, text) = played(
        "- name: excess
  now: 2000-02-29T00:00:00Z
  input:
  - { to: calm, lines: [a, a, a] }
  - { to: calm, lines: [a, b], after: 5s }
  - { to: calm, lines: [a], file: /var/log/a.log }
  expect:
  - from: calm
    events:
    - { message: a, timestamp: 2000-02-29T00:00:00Z }
    - { message: a }
    - { message: a, timestamp: 2000-02-29T00:00:05Z }
    - { message: b }
    - { message: a, timestamp: 2000-02-29T00:00:05Z }
- name: from the beginning
  input: { to: calm, lines: [a, a] }
  expect: [{ from: out, count: 2, events: [{ timestamp: 2026-01-01T00:00:00Z }, {}] }]\n",
    );
    assert_eq!(
        (status, text.as_str()),
        (DONE, "ok excess\nok from the beginning\n2 passed, 0 failed\n")
    );
}

/// A failure names the event and the difference, and shows the counters.
#[test]
fn failures_are_explained() {
    let (status, text) = played(
        "- name: \"two\\nlines\"
  input: { to: access, lines: ['5 a', '5 a', '5 a', 'b', '6 c'] }
  expect:
  - { from: calm, events: [{ message: 5 a, env: test }, { message: 5 a }, { message: 6 d }, { message: e }] }
  - { from: bad, count: 0 }
- name: good
  input: { to: access, lines: ['5 a'] }
  expect: [{ from: out, count: 1 }]\n",
    );
    let expected = r#"FAILED two\nlines (t.yaml:2)
  calm (t.yaml:5): event 1 of 4 differs
    - env: "test"
    + env: "prod"
    found {"timestamp":"1970-01-01T00:00:05.000Z","message":"5 a","env":"prod"}
  calm (t.yaml:5): event 3 of 4 differs
    - message: "6 d"
    + message: "6 c"
    found {"timestamp":"1970-01-01T00:00:06.000Z","message":"6 c","env":"prod"}
  calm (t.yaml:5): event 4 of 4 is missing
    - {"message":"e"}
  bad (t.yaml:6): 0 events expected, 1 found
    + {"timestamp":"2026-01-01T00:00:00.000Z","message":"b","reason":"bad_time","env":"prod"}
  counted by timed: noted bad_time 1
  counted by calm: dropped throttled 1
"#;
    assert!(text.starts_with(expected), "{text}");
    assert!(text.ends_with("\nok good\n1 passed, 1 failed\n"), "{text}");
    assert_eq!(status, FAILED);
}

/// Unknown names are reported before any test runs, each with its position.
#[test]
fn unknown_names() {
    assert_eq!(
        faults(
            "- name: a
  input: [{ to: acess, lines: [] }, { to: out, lines: [] }]
  expect: [{ from: tmed, count: 1 }, { from: timed.rejectd, count: 1 }, { from: calm.x, count: 1 }]
- name: b
  input: { to: calm, events: [{ message: 1 }, { timestamp: noon }] }
  expect: [{ from: timed, count: 0 }, { from: out, where: 'a > 1' }]\n"
        ),
        [
            "t.yaml:3:17: `to`: `acess` does not exist; did you mean `access`?",
            "t.yaml:3:43: `to`: `out` is a sink, which has no output; use a transform, or a source \
             upstream of the sink",
            "t.yaml:4:20: `from`: `tmed` does not exist; did you mean `timed`?",
            "t.yaml:4:46: `from`: `timed.rejectd` does not exist; did you mean `timed.rejected`?",
            "t.yaml:4:81: `from`: `calm.x` does not exist; did you mean `calm`?",
            "t.yaml:6:42: `message`: expected text; use quotes",
            "t.yaml:6:60: `timestamp`: expected a time; use, for example, 2026-11-21T20:29:46Z",
            "t.yaml:7:20: `from`: no input of this test reaches `timed`; send the input to an upstream component",
        ]
    );
}

/// The time of a test must be a valid time.
#[test]
fn an_invalid_time() {
    assert_eq!(
        faults(
            "- { name: a, now: noon, input: { to: calm, lines: [] }, expect: [{ from: out, count: 0 }] }\n"
        ),
        ["t.yaml:2:19: `now`: \"noon\" is not a time; use, for example, 2026-11-21T20:29:46Z"]
    );
}

/// More lines than a batch holds become several, with consecutive ids.
#[test]
fn many_lines() {
    let lines = "x,".repeat(20_000);
    let (status, text) = played(&format!(
        "- name: many
  input: {{ to: timed, lines: [{lines}] }}
  expect: [{{ from: timed.rejected, count: 20000 }}, {{ from: timed, count: 0 }}]\n"
    ));
    assert_eq!((status, text.as_str()), (DONE, "ok many\n1 passed, 0 failed\n"));
}
