//! An id stands for one line for ever, whatever becomes of the file while the agent is dead.

use crate::support::{Agent, folder, lines, wait_until};
use std::collections::HashMap;
use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::path::Path;
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(10);

/// A sink that takes nothing back at the next start.
const CONFIG: &str = "
sources: { app: { type: file, include: ['DIR/app.log'] } }
sinks: { out: { type: console, inputs: [app] } }
";

fn start(dir: &Path, args: &[&str]) -> Agent {
    let out = File::options().create(true).append(true).open(dir.join("out.json")).unwrap();
    Agent::spawn(dir, CONFIG, args, |command| {
        command.stdout(out);
    })
}

fn append(path: &Path, word: &str) {
    let text: String = (0..200).map(|number| format!("{word} line {number:04}\n")).collect();
    OpenOptions::new().append(true).open(path).unwrap().write_all(text.as_bytes()).unwrap();
}

/// The file is known while it is empty, delivered, and replaced in the same inode after a kill that
/// came before the next checkpoint.
fn replaced_after_a_kill(wait: Duration) {
    let dir = folder();
    let (log, out) = (dir.path().join("app.log"), dir.path().join("out.json"));
    fs::write(&log, "").unwrap();
    let mut agent = start(dir.path(), &[]);
    wait_until("an answer", LIMIT, || agent.get("/health").is_some());
    std::thread::sleep(wait);
    append(&log, "old");
    wait_until("the old lines", LIMIT, || lines(&out).len() == 200);
    agent.kill();
    File::options().write(true).open(&log).unwrap().set_len(0).unwrap();
    append(&log, "new");
    let mut agent = start(dir.path(), &["--until-eof"]);
    assert_eq!(agent.wait(LIMIT).code(), Some(0), "{}", agent.log());
    let mut ids: HashMap<String, String> = HashMap::new();
    for line in lines(&out) {
        let event: serde_json::Value = serde_json::from_str(&line).unwrap();
        let (id, message) = (event["meta"]["id"].to_string(), event["message"].to_string());
        let before = ids.insert(id.clone(), message.clone());
        assert!(
            before.as_ref().is_none_or(|before| *before == message),
            "id {id}: {before:?}, then {message}"
        );
    }
    assert_eq!(ids.len(), 400, "every line under an id of its own");
}

#[test]
fn no_id_stands_for_two_lines_when_a_file_is_cut_after_a_kill() {
    for wait in [50, 400, 800] {
        replaced_after_a_kill(Duration::from_millis(wait));
    }
}
