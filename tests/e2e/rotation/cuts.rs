//! Tests files that are truncated and rewritten while the agent is down or stalled.

use crate::support::{Agent, folder, lines, wait_until};
use rustix::process::Signal;
use std::collections::HashMap;
use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(60);

const LINES: usize = 200;

/// A configuration whose sink truncates nothing at a restart.
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

/// Appends [`LINES`] lines that contain a word.
fn append(path: &Path, word: &str) {
    let text: String = (0..LINES).map(|number| format!("{word} line {number:04}\n")).collect();
    OpenOptions::new().append(true).open(path).unwrap().write_all(text.as_bytes()).unwrap();
}

/// Rewrites a file in the same inode. The agent discovered the file while it was empty, delivered
/// its lines, and was killed before the next checkpoint.
fn replaced_after_a_kill(wait: Duration) {
    let dir = folder();
    let (log, out) = (dir.path().join("app.log"), dir.path().join("out.json"));
    fs::write(&log, "").unwrap();
    let mut agent = start(dir.path(), &[]);
    wait_until("an answer", LIMIT, || agent.get("/health").is_some());
    std::thread::sleep(wait);
    append(&log, "old");
    wait_until("the old lines", LIMIT, || lines(&out).len() == LINES);
    agent.kill();
    cut(&log);
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
    assert_eq!(ids.len(), 2 * LINES, "every line has a separate id");
}

#[test]
fn no_id_is_reused_when_a_file_is_truncated_after_a_kill() {
    for wait in [50, 400, 800] {
        replaced_after_a_kill(Duration::from_millis(wait));
    }
}

/// Truncates a file in place.
fn cut(path: &Path) {
    File::options().write(true).open(path).unwrap().set_len(0).unwrap();
}

#[test]
fn a_file_truncated_and_grown_past_its_old_offset_is_read_from_the_beginning() {
    let dir = folder();
    let (log, out) = (dir.path().join("app.log"), dir.path().join("out.json"));
    fs::write(&log, "").unwrap();
    append(&log, "old");
    let mut agent = start(dir.path(), &[]);
    wait_until("the old lines", LIMIT, || lines(&out).len() == LINES);
    // A stopped process behaves like an agent on a busy host, or with a full sink.
    agent.send(Signal::STOP);
    cut(&log);
    append(&log, "new and longer");
    agent.send(Signal::CONT);
    append(&log, "last");
    let is_last = |line: &String| line.contains(&format!("\"last line {:04}\"", LINES - 1));
    wait_until("the last line", LIMIT, || lines(&out).iter().any(is_last));
    assert_eq!(agent.stop().code(), Some(0), "{}", agent.log());
    let message = |line: &String| {
        let event: serde_json::Value = serde_json::from_str(line).unwrap();
        event["message"].as_str().unwrap().to_owned()
    };
    let delivered: Vec<String> = lines(&out)[LINES..].iter().map(message).collect();
    let of = |word: &'static str| (0..LINES).map(move |number| format!("{word} line {number:04}"));
    let wanted: Vec<String> = of("new and longer").chain(of("last")).collect();
    let first = delivered.first();
    assert!(
        delivered == wanted,
        "{} of {} lines, the first {first:?}",
        delivered.len(),
        wanted.len()
    );
}

/// A writer that does not append continues at its old offset after a truncation, so the file begins
/// with a hole. The agent is killed while it skips the hole.
#[test]
fn lines_after_the_hole_of_a_truncation_arrive_whole_over_kills() {
    const OFFSET: u64 = 1 << 30;
    let dir = folder();
    let (log, out) = (dir.path().join("app.log"), dir.path().join("out.json"));
    fs::write(&log, "").unwrap();
    append(&log, "old");
    let mut agent = start(dir.path(), &[]);
    wait_until("the old lines", LIMIT, || lines(&out).len() == LINES);
    cut(&log);
    let writer = File::options().write(true).open(&log).unwrap();
    writer.write_all_at(b"first", OFFSET).unwrap();
    for kill in 0..6 {
        std::thread::sleep(Duration::from_millis(kill * 37 % 120));
        agent.kill();
        agent = start(dir.path(), &[]);
    }
    agent.kill();
    append(&log, " and new");
    let mut agent = start(dir.path(), &["--until-eof"]);
    assert_eq!(agent.wait(LIMIT).code(), Some(0), "{}", agent.log());
    let mut messages: HashMap<String, String> = HashMap::new();
    for line in lines(&out) {
        let event: serde_json::Value = serde_json::from_str(&line).unwrap();
        messages.insert(event["meta"]["id"].to_string(), event["message"].to_string());
    }
    assert_eq!(messages.len(), 2 * LINES);
    let mut new: Vec<String> =
        messages.into_values().filter(|text| !text.contains("old")).collect();
    new.sort_unstable();
    assert_eq!(new.len(), LINES);
    let first = "\"first and new line 0000\"";
    assert!(new.iter().any(|text| text == first), "{new:?}");
    assert!(new.iter().all(|text| !text.contains("\\u0000")), "{new:?}");
    agent.assert_logs("skipped 1073741824 NUL bytes");
}
