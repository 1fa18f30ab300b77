//! Tests the reported costs of tasks: in a running agent, and over the lines of a file.

use super::{Line, PATIENCE};
use crate::support::{Agent, folder, millstream, wait_until};
use serde_json::Value;
use std::fs;
use std::process::Command;

const TASKS: &str = "tasks:
  - name: all
    fields: { service: { between: { left: 'service=', right: ' ' } } }
    group_by: [service]
    emit: { n: count() }
    window: 1h
  - name: one
    fields: { service: { between: { left: 'service=', right: ' ' } } }
    where: service == 's1'
    emit: { n: count() }
    window: 1h
";

const CONFIG: &str = "
sources:
  in: { type: file, include: [DIR/app.log], read_from: beginning }
transforms:
  counts: { type: rules, inputs: [in], tasks: [DIR/tasks] }
sinks:
  out: { type: blackhole, inputs: [counts] }
";

/// Number of lines; one in five is of service `s1`.
const LINES: u64 = 1000;

fn text() -> String {
    (0..LINES).map(|number| Line::new(number).text(0)).collect()
}

#[test]
fn the_api_lists_tasks_by_what_they_cost() {
    let folder = folder();
    fs::create_dir(folder.path().join("tasks")).unwrap();
    fs::write(folder.path().join("tasks/all.yaml"), TASKS).unwrap();
    fs::write(folder.path().join("app.log"), text()).unwrap();
    let mut agent = Agent::start(folder.path(), CONFIG, &[]);
    let listed = || -> Option<Value> { serde_json::from_str(&agent.get("/api/rules")?).ok() };
    let task = |listed: &Value, name: &str| {
        let tasks = listed[0]["tasks"].as_array()?;
        tasks.iter().find(|task| task["task"] == name).cloned()
    };
    wait_until("all lines are counted", PATIENCE, || {
        let all = listed().and_then(|listed| task(&listed, "all"));
        all.is_some_and(|all| all["matched"] == LINES && all["groups"] == 5)
    });
    let listed = listed().unwrap();
    assert_eq!((&listed[0]["transform"], &listed[0]["total"]), (&"counts".into(), &2.into()));
    let (all, one) = (task(&listed, "all").unwrap(), task(&listed, "one").unwrap());
    assert_eq!((&one["examined"], &one["matched"]), (&(LINES / 5).into(), &(LINES / 5).into()));
    let share = |task: &Value| task["time_share"].as_f64().unwrap();
    assert!((share(&all) + share(&one) - 1.0).abs() < 1e-6, "{listed}");
    assert!(all["memory_bytes"].as_u64().unwrap() > 0, "{listed}");
    assert!(agent.stop().success(), "{}", agent.log());
}

#[test]
fn explain_measures_tasks_over_the_lines_of_a_file() {
    let folder = folder();
    let (tasks, log) = (folder.path().join("all.yaml"), folder.path().join("app.log"));
    fs::write(&tasks, TASKS).unwrap();
    fs::write(&log, text()).unwrap();
    let explain = |input: &str| {
        let mut command = Command::new(millstream());
        command.args(["rules", "explain"]).arg(&tasks).arg("--input").arg(input);
        command.output().unwrap()
    };
    let output = explain(&log.display().to_string());
    let printed = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{printed}");
    assert!(!printed.contains("not parsed"), "{printed}");
    let row = |name: &str| {
        let line = printed.lines().rev().find(|line| line.ends_with(&format!("  {name}")));
        let words = line.unwrap_or_else(|| panic!("{printed}")).split_whitespace();
        words.take(2).map(|word| word.parse().unwrap()).collect::<Vec<u64>>()
    };
    assert_eq!((row("all"), row("one")), (vec![LINES; 2], vec![LINES / 5; 2]));
    let missing = explain("/nonexistent/app.log");
    assert_eq!(missing.status.code(), Some(1));
    let error = String::from_utf8(missing.stderr).unwrap();
    assert!(error.starts_with("/nonexistent/app.log: No such file"), "{error}");
}
