//! Tests `millstream record` and the files of runs with the real binary.

mod bytes;
mod crash;
mod live;

use crate::support::{Agent, millstream, wait_until};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(60);

/// A configuration that reads files and writes to a file.
const CONFIG: &str = "
sources: { app: { type: file, include: ['DIR/in/*.log'] } }
sinks: { out: { type: file, inputs: [app], path: DIR/out, sync: 100ms, encoding: { codec: text } } }
";

/// Returns a `record` command for the agent in a folder.
fn command(dir: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(millstream());
    command.arg("record").args(args).current_dir(dir);
    command
}

/// Runs `record` for the agent in a folder.
fn record(dir: &Path, args: &[&str]) -> Output {
    command(dir, args).args(["-c", "millstream.yaml"]).output().unwrap()
}

fn from_crash(dir: &Path, args: &[&str]) -> Output {
    command(dir, &["--from-crash", "data"]).args(args).output().unwrap()
}

fn stdout(output: &Output) -> String {
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{:?}: {errors}", output.status);
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Parses JSON lines into events.
fn events(lines: &str) -> Vec<Value> {
    lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Returns the events that the agent in a folder has recorded.
fn dump(dir: &Path) -> Vec<Value> {
    events(&stdout(&record(dir, &["--dump", "-o", "-", "--format", "jsonl"])))
}

fn write_lines(dir: &Path, name: &str, lines: usize) {
    std::fs::create_dir_all(dir.join("in")).unwrap();
    let text: String = (0..lines).map(|line| format!("line {line:06} and some words\n")).collect();
    std::fs::write(dir.join("in").join(name), text).unwrap();
}

fn lag(agent: &Agent) -> Option<f64> {
    agent.metric("millstream_source_lag_bytes{component_id=\"app\"")
}

/// Waits until the agent in a folder has delivered and settled all lines.
fn settled(dir: &Path, agent: &Agent) {
    let has_output = || std::fs::metadata(dir.join("out")).is_ok_and(|out| out.len() > 0);
    wait_until("all is delivered", LIMIT, || has_output() && lag(agent) == Some(0.0));
}

/// Returns the paths of the files of runs, sorted.
fn files(dir: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(dir.join("data/recorder")).into_iter().flatten();
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files
}
