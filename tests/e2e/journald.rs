//! Tests the `journald` source with journals that `systemd-journal-remote` writes, compared with
//! what `journalctl` prints.

mod export;
mod kills;

use crate::support::journal::{Writer, install};
use crate::support::{Agent, folder, lines};
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

/// Time limit of each step, generous for a busy host.
const LIMIT: Duration = Duration::from_secs(60);

/// Returns an entry in export format. Fields are `NAME=value`.
fn entry(number: u64, fields: &[(&str, &[u8])]) -> Vec<u8> {
    let boot = "0123456789abcdef0123456789abcdef";
    let mut text = format!(
        "__REALTIME_TIMESTAMP={}\n__MONOTONIC_TIMESTAMP={}\n_BOOT_ID={boot}\n",
        1_795_000_000_000_000 + number * 1000,
        number * 1000
    )
    .into_bytes();
    for (name, value) in fields {
        text.extend_from_slice(name.as_bytes());
        match value.iter().all(|byte| (b' '..=b'~').contains(byte)) {
            true => text.extend([b"=", *value, b"\n"].concat()),
            false => {
                let len = (value.len() as u64).to_le_bytes();
                text.extend([b"\n", &len[..], value, b"\n"].concat());
            }
        }
    }
    text.push(b'\n');
    text
}

/// Returns the entries that `journalctl` prints for the files in a folder, with `path` relative to
/// the folder, or for all files.
fn journalctl(folder: &Path, path: Option<&str>) -> Vec<Map<String, Value>> {
    install();
    let mut command = Command::new("journalctl");
    match path {
        Some(path) => command.arg("--file").arg(folder.join(path)),
        None => command.arg("-D").arg(folder),
    };
    let output = command.args(["-o", "json", "--all", "--quiet"]).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Returns the events that the agent reads, in a run until the end.
fn read(dir: &Path, options: &str) -> Vec<Value> {
    let config = format!(
        "
sources: {{ host: {{ type: journald, path: DIR/journal{options} }} }}
sinks: {{ out: {{ type: file, inputs: [host], path: DIR/out.json }} }}
"
    );
    let _ = std::fs::remove_file(dir.join("out.json"));
    let mut agent = Agent::start(dir, &config, &["--until-eof"]);
    let status = agent.wait(LIMIT);
    assert!(status.success(), "{}", agent.log());
    events(&dir.join("out.json"))
}

/// Returns the events in a file.
fn events(path: &Path) -> Vec<Value> {
    lines(path).iter().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Returns the numbers of the messages `entry N`.
fn numbers(events: &[Value]) -> Vec<u64> {
    let number = |event: &Value| {
        event["message"].as_str()?.strip_prefix("entry ")?.split(' ').next()?.parse().ok()
    };
    events.iter().map(|event| number(event).unwrap()).collect()
}

/// Returns the ids of events by message.
fn ids(events: &[Value]) -> BTreeMap<String, String> {
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    events.iter().map(|event| (text(&event["message"]), text(&event["meta"]["id"]))).collect()
}
