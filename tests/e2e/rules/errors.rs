//! Tests errors in task files.

use super::PATIENCE;
use crate::support::{Agent, folder, lines, millstream, write_config};
use std::fs;
use std::path::Path;
use std::process::Command;

const CONFIG: &str = "
sources:
  app: { type: file, include: ['DIR/app.log'] }
transforms:
  counts:
    type: rules
    inputs: [app]
    tasks:
      - { name: inline, emit: { n: count() } }
      - DIR/tasks/*.yaml
sinks:
  out: { type: file, inputs: [counts], path: DIR/out.json }
";

/// A valid task file, which is read before the invalid file.
const GOOD: &str = "tasks:\n  - name: good\n    emit: { n: count() }\n";

/// Task files with their errors, each without the folder: position, fault, and advice.
const CASES: &[(&str, &[&str])] = &[
    (
        "tasks:\n  - name: good\n    emit: { n: count() }\n",
        &["bad.yaml:2:11: `name`: another task is already named `good`, at \
             DIR/tasks/a.yaml:2:11; rename one of them"],
    ),
    (
        "tasks:\n  - name: inline\n    emit: { n: count() }\n",
        &["bad.yaml:2:11: `name`: another task is already named `inline`, at \
           DIR/millstream.yaml:11:17; rename one of them"],
    ),
    (
        "tasks:\n  - { name: b, emit: { n: count() } }\n  - { name: b, emit: { n: count() } }\n",
        &["bad.yaml:3:13: `name`: another task is already named `b`; rename one of them"],
    ),
    (
        "tasks:\n  - name: b\n    emt: { n: count() }\n",
        &["bad.yaml:3:5: unknown key `emt`; did you mean `emit`?"],
    ),
    ("task:\n  - name: b\n", &["bad.yaml:1:1: unknown key `task`; did you mean `tasks`?"]),
    (
        "tasks:\n  - name: b\n    where: size + 1\n    emit: { n: count() }\n",
        &["bad.yaml:3:12: `where`: line 1, column 1: the result is an int or a double, not true \
             or false; compare it with something, as in `x != 0`"],
    ),
    (
        "tasks:\n  - name: b\n    where: size = 1\n    emit: { n: count() }\n",
        &["bad.yaml:3:12: `where`: line 1, column 6: "],
    ),
    (
        "tasks:\n  - name: b\n    emit: { n: counts(), s: sum() }\n",
        &[
            "bad.yaml:3:16: `n`: `counts` is not an aggregate; use count(), ",
            "bad.yaml:3:29: `s`: `sum()` names no field; use count(), ",
        ],
    ),
    (
        "tasks:\n  - name: b\n    emit: { p: 'quantile(size, 2)' }\n",
        &["bad.yaml:3:16: `p`: `quantile(size, 2)` needs a number from 0 to 1; use count(), "],
    ),
    (
        "tasks:\n  - { name: b, emit: { n: count() }, window: 1500ms }\n  - { name: c, emit: { n: count() }, window: 25h }\n",
        &[
            "bad.yaml:2:46: `window`: must be whole seconds, from 1s to 24h; use, for example, 60s",
            "bad.yaml:3:46: `window`: must be whole seconds, from 1s to 24h; use, for example, 60s",
        ],
    ),
    (
        "tasks:\n  - { name: b, emit: { n: count() }, window: 0s }\n",
        &["bad.yaml:2:46: `window`: \"0s\" must be greater than zero; use, for example, 10s \
             or 500ms"],
    ),
    (
        "tasks:\n  - { name: b, emit: { n: count() }, lateness: 5s }\n",
        &["bad.yaml:2:48: `lateness`: has no meaning with `time: arrival`; use `time: log`, or \
           remove it"],
    ),
    (
        "tasks:\n  - { name: b, emit: { n: count() }, fields: { x: { regex: { pattern: '(' } } } }\n",
        &[
            r"bad.yaml:2:71: `pattern`: is not a regular expression: unclosed group at `(`; close it with `)`, or use `\(` for the character",
        ],
    ),
    ("tasks: [ { name: b\n", &["bad.yaml:2:1: not YAML: "]),
    ("- b\n", &["bad.yaml:1:1: expected a map, found a list; use, for example, { ... }"]),
];

fn validate(config: &Path) -> (Option<i32>, String) {
    let output = Command::new(millstream()).arg("validate").arg("-c").arg(config).output().unwrap();
    (output.status.code(), String::from_utf8(output.stderr).unwrap())
}

#[test]
fn errors_of_task_files_have_a_position_and_advice() {
    let folder = folder();
    let tasks = folder.path().join("tasks");
    fs::create_dir(&tasks).unwrap();
    fs::write(tasks.join("a.yaml"), GOOD).unwrap();
    let config = write_config(folder.path(), CONFIG);
    assert_eq!(validate(&config), (Some(0), String::new()));
    for (text, errors) in CASES {
        fs::write(tasks.join("bad.yaml"), text).unwrap();
        let (status, found) = validate(&config);
        assert_eq!(status, Some(2), "{text}{found}");
        assert_eq!(found.lines().count(), errors.len(), "{text}{found}");
        let dir = folder.path().display().to_string();
        for (found, error) in found.lines().zip(*errors) {
            let error = format!("{dir}/tasks/{}", error.replace("DIR", &dir));
            assert!(found.starts_with(&error), "{text}found:    {found}\nexpected: {error}");
        }
    }
}

#[test]
fn an_agent_starts_without_the_tasks_of_an_invalid_file() {
    let folder = folder();
    let tasks = folder.path().join("tasks");
    fs::create_dir(&tasks).unwrap();
    fs::write(tasks.join("a.yaml"), GOOD).unwrap();
    fs::write(tasks.join("bad.yaml"), "tasks:\n  - { name: bad, emit: { n: count(, } }\n").unwrap();
    fs::write(folder.path().join("app.log"), "one\ntwo\n").unwrap();
    let mut agent = Agent::start(folder.path(), CONFIG, &["--until-eof"]);
    assert!(agent.wait(PATIENCE).success(), "{}", agent.log());
    let log = agent.log();
    assert!(log.contains("/tasks/bad.yaml:2:"), "{log}");
    let results = lines(&folder.path().join("out.json")).join("\n");
    for (name, count) in [("inline", 1), ("good", 1), ("bad", 0)] {
        assert_eq!(results.matches(&format!("\"name\":\"{name}.n\"")).count(), count, "{results}");
    }
}
