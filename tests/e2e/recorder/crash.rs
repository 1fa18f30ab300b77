//! Tests the files that a dead agent leaves.

use super::{
    CONFIG, LIMIT, dump, events, files, from_crash, record, settled, stderr, stdout, write_lines,
};
use crate::e2e::full::SmallDisk;
use crate::support::{Agent, folder, java, wait_until};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

#[test]
fn a_killed_agent_leaves_what_it_did() {
    let dir = folder();
    write_lines(dir.path(), "a.log", 300_000);
    let mut agent = Agent::start(dir.path(), CONFIG, &[]);
    wait_until("it writes", LIMIT, || {
        fs::metadata(dir.path().join("out")).is_ok_and(|out| out.len() > 2 << 20)
    });
    let first = files(dir.path());
    assert_eq!(first.len(), 1);
    assert_eq!(fs::metadata(&first[0]).unwrap().permissions().mode() & 0o777, 0o600);
    agent.kill();
    let story = stdout(&from_crash(dir.path(), &[]));
    let head = format!("process {}, died: it did not exit normally", agent.pid().as_raw_nonzero());
    assert!(story.lines().next().unwrap().ends_with(&head), "{story}");
    for part in ["The last 10 seconds", "in/a.log", "/out", "  out ", "\nThe last 20 events\n"] {
        assert!(story.contains(part), "{part}: {story}");
    }
    let lines = stdout(&from_crash(dir.path(), &["--format", "jsonl"]));
    let count = events(&lines).iter().filter(|event| event["event"] == "FileWrite").count();
    assert_eq!(stdout(&from_crash(dir.path(), &["-o", "x.jfr"])), "");
    let home = java::homes().pop().unwrap();
    let mut summary = Command::new(home.join("bin/jfr"));
    summary.arg("summary").arg(dir.path().join("x.jfr")).env_remove("JAVA_TOOL_OPTIONS");
    let summary = stdout(&summary.output().unwrap());
    let row = summary.lines().find(|line| line.contains("millstream.FileWrite")).unwrap();
    assert_eq!(row.split_whitespace().nth(1), Some(count.to_string().as_str()), "{summary}");
    let mut agent = Agent::start(dir.path(), CONFIG, &[]);
    settled(dir.path(), &agent);
    assert_eq!(files(dir.path()).first(), first.first());
    assert_eq!(
        stdout(&from_crash(dir.path(), &[])),
        story,
        "the run that died, not the one that runs"
    );
    agent.stop();
}

#[test]
fn files_of_two_runs_that_died_are_kept() {
    let dir = folder();
    write_lines(dir.path(), "a.log", 10);
    let mut all = Vec::new();
    for ends in ["kill", "kill", "stop", "kill"] {
        let mut agent = Agent::start(dir.path(), CONFIG, &[]);
        settled(dir.path(), &agent);
        wait_until("others are removed", LIMIT, || files(dir.path()).len() <= 3);
        all.push(files(dir.path()).pop().unwrap());
        let list = stdout(&from_crash(dir.path(), &["--list"]));
        assert!(list.lines().last().unwrap().contains("  running  "), "{list}");
        match ends {
            "kill" => agent.kill(),
            _ => assert_eq!(agent.stop().code(), Some(0)),
        }
    }
    let _agent = Agent::start(dir.path(), CONFIG, &[]);
    let is_new = |files: &[PathBuf]| files.len() == 3 && files.last() > all.last();
    wait_until("it runs", LIMIT, || is_new(&files(dir.path())));
    assert_eq!(files(dir.path())[..2], [all[1].clone(), all[3].clone()]);
}

#[test]
fn a_run_that_ended_in_order_is_shown_if_none_died() {
    let dir = folder();
    write_lines(dir.path(), "a.log", 10);
    let mut agent = Agent::start(dir.path(), CONFIG, &["--until-eof"]);
    assert_eq!(agent.wait(LIMIT).code(), Some(0));
    let shown = from_crash(dir.path(), &[]);
    assert!(stdout(&shown).contains(", exited normally\n"), "{}", stdout(&shown));
    let note = "data: no run died; this is the newest run that exited normally";
    assert!(stderr(&shown).starts_with(note), "{}", stderr(&shown));
    let file = files(dir.path()).remove(0);
    let of_file = super::command(dir.path(), &["--from-crash"]).arg(file).output().unwrap();
    assert_eq!(stdout(&of_file), stdout(&shown));
    let nowhere = super::command(dir.path(), &["--from-crash", "in"]).output().unwrap();
    assert_eq!(nowhere.status.code(), Some(1));
    assert!(
        stderr(&nowhere).contains("check that this is the data_dir of an agent"),
        "{}",
        stderr(&nowhere)
    );
}

#[test]
fn without_space_on_the_disk_the_agent_runs_and_says_what_is_lost() {
    let dir = folder();
    let Some(_disk) = SmallDisk::mount(dir.path().join("data")) else { return };
    write_lines(dir.path(), "a.log", 10);
    let config = format!("{CONFIG}recorder: {{ size: 64MiB, storage: disk }}\n");
    let mut agent = Agent::start(dir.path(), &config, &[]);
    let warning = "the recorder uses only a small part of its file: No space left on device";
    wait_until("it says so", LIMIT, || agent.log().contains(warning));
    settled(dir.path(), &agent);
    assert!(dump(dir.path()).iter().any(|event| event["event"] == "FileWrite"));
    agent.kill();
    assert!(stdout(&from_crash(dir.path(), &[])).contains("died: it did not exit normally"));
}

#[test]
fn without_a_place_for_its_file_a_recording_ends_with_its_agent() {
    let dir = folder();
    write_lines(dir.path(), "a.log", 10);
    fs::create_dir(dir.path().join("data")).unwrap();
    fs::write(dir.path().join("data/recorder"), "not a folder").unwrap();
    let mut agent = Agent::start(dir.path(), CONFIG, &[]);
    settled(dir.path(), &agent);
    let warning = "the recording of this run is lost if the agent crashes";
    agent.assert_logs(warning);
    assert!(stdout(&record(dir.path(), &["--settings"])).starts_with("recording: in memory only"));
    assert!(dump(dir.path()).iter().any(|event| event["event"] == "FileWrite"));
    assert_eq!(agent.stop().code(), Some(0));
}

#[test]
fn a_recording_in_memory_moves_to_the_disk_at_the_end_or_at_the_next_start() {
    let dir = folder();
    write_lines(dir.path(), "a.log", 10);
    let target = |file: &Path| fs::read_link(file).ok();
    let mut agent = Agent::start(dir.path(), CONFIG, &[]);
    settled(dir.path(), &agent);
    let died = files(dir.path()).remove(0);
    let in_memory = target(&died).unwrap();
    assert!(in_memory.starts_with("/dev/shm"), "{in_memory:?}");
    agent.kill();
    let story = stdout(&from_crash(dir.path(), &[]));
    let mut agent = Agent::start(dir.path(), CONFIG, &[]);
    wait_until("it is moved", LIMIT, || target(&died).is_none() && !in_memory.exists());
    assert_eq!(stdout(&from_crash(dir.path(), &[])), story);
    let ended = files(dir.path()).remove(1);
    let in_memory = target(&ended).unwrap();
    assert_eq!(agent.stop().code(), Some(0));
    assert!(target(&ended).is_none() && !in_memory.exists());
    let shown = super::command(dir.path(), &["--from-crash"]).arg(&ended).output().unwrap();
    assert!(stdout(&shown).contains(", exited normally\n"), "{}", stdout(&shown));
}

#[test]
fn a_recorder_that_is_off_leaves_no_file() {
    let dir = folder();
    write_lines(dir.path(), "a.log", 10);
    let config = format!("{CONFIG}recorder: {{ enabled: false }}\n");
    let agent = Agent::start(dir.path(), &config, &[]);
    settled(dir.path(), &agent);
    assert!(!dir.path().join("data/recorder").exists());
    let refused = record(dir.path(), &["--dump"]);
    assert_eq!(refused.status.code(), Some(1));
    assert!(stderr(&refused).contains("set recorder.enabled to true"), "{}", stderr(&refused));
}
