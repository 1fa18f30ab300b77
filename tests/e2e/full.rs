//! Tests a `data_dir` that is full, unwritable, or has a damaged checkpoint store: no line is lost,
//! and repeats have the same ids.

use crate::support::{Agent, folder, lines, millstream, wait_until};
use rustix::process::{Pid, Resource, Rlimit, prlimit};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, OpenOptions};
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(60);

const CONFIG: &str = "
sources: { app: { type: file, include: ['DIR/in/*.log'] } }
sinks:
  out: { type: file, inputs: [app], path: DIR/out, sync: 100ms, encoding: { metadata: [file_id, offset] } }
";

/// Number of files before the disk is full, and number of files that are added later.
const FILES: usize = 200;

/// Length of a line that is longer than a head, the part of a file that identifies it.
const HEAD_BYTES: usize = 1100;

/// A small tmpfs mounted on a folder and unmounted on drop.
pub struct SmallDisk(PathBuf);

impl SmallDisk {
    /// Mounts the tmpfs. Returns `None` and prints the reason if mounting is not permitted.
    pub fn mount(point: PathBuf) -> Option<SmallDisk> {
        fs::create_dir(&point).unwrap();
        let mount = Command::new("mount")
            .args(["-t", "tmpfs", "-o", "size=3m", "none"])
            .arg(&point)
            .output();
        match mount {
            Ok(output) if output.status.success() => Some(SmallDisk(point)),
            Ok(output) => {
                let why = String::from_utf8_lossy(&output.stderr);
                eprintln!("skipped: no file system can be mounted here: {why}");
                None
            }
            Err(error) => {
                eprintln!("skipped: no file system can be mounted here: mount: {error}");
                None
            }
        }
    }

    fn filler(&self) -> PathBuf {
        self.0.join("filler")
    }

    /// Fills the disk.
    fn fill(&self) {
        let mut filler = OpenOptions::new().create(true).append(true).open(self.filler()).unwrap();
        while filler.write_all(&[7; 512]).is_ok() {}
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("--lazy").arg(&self.0).status();
    }
}

fn log_file(dir: &Path, file: usize) -> PathBuf {
    dir.join(format!("in/{file:03}-{}.log", "a name that is long ".repeat(8)))
}

/// Appends a line with the numbers of the file and of the line to each file. Line 0 is longer than
/// a head, so that its file can be read without another write of its identity.
fn append(dir: &Path, files: std::ops::Range<usize>, line: usize) {
    for file in files {
        let mut log =
            OpenOptions::new().create(true).append(true).open(log_file(dir, file)).unwrap();
        let padding = if line == 0 { HEAD_BYTES } else { 0 };
        writeln!(log, "file {file:03} line {line:03}{}", "x".repeat(padding)).unwrap();
    }
}

/// Returns the file ids of each delivered line.
fn delivered(dir: &Path) -> BTreeMap<String, BTreeSet<String>> {
    let mut delivered: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for line in lines(&dir.join("out")) {
        let Ok(event) = serde_json::from_str::<serde_json::Value>(&line) else { continue };
        let message = event["message"].as_str().unwrap().to_owned();
        delivered
            .entry(message)
            .or_default()
            .insert(event["meta"]["file_id"].as_str().unwrap().to_owned());
    }
    delivered
}

/// Returns the file ids of each file.
fn ids(delivered: &BTreeMap<String, BTreeSet<String>>) -> BTreeMap<&str, BTreeSet<&str>> {
    let mut ids: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for (line, of_line) in delivered {
        ids.entry(&line[..8]).or_default().extend(of_line.iter().map(String::as_str));
    }
    ids
}

fn lag(agent: &Agent) -> Option<f64> {
    agent.metric("millstream_source_lag_bytes{component_id=\"app\"")
}

/// Fills the disk while files grow and new files appear. Ends the agent with `end`, restarts it on
/// the full disk, and finally frees space.
fn fill_and_end(end: impl FnOnce(&mut Agent)) {
    let dir = folder();
    let Some(disk) = SmallDisk::mount(dir.path().join("data")) else { return };
    fs::create_dir(dir.path().join("in")).unwrap();
    append(dir.path(), 0..FILES, 0);
    let mut agent = Agent::start(dir.path(), CONFIG, &[]);
    wait_until("the first lines", LIMIT, || delivered(dir.path()).len() == FILES);
    for line in 1..8 {
        disk.fill();
        append(dir.path(), 0..2 * FILES, line);
        std::thread::sleep(Duration::from_millis(100));
    }
    let before = delivered(dir.path());
    end(&mut agent);
    disk.fill();
    append(dir.path(), 0..FILES, 8);
    let mut agent = Agent::start(dir.path(), CONFIG, &[]);
    let has_8 = || delivered(dir.path()).contains_key("file 000 line 008");
    wait_until("a line of a known file, on the full disk", LIMIT, has_8);
    fs::remove_file(disk.filler()).unwrap();
    let all = FILES * 9 + FILES * 7;
    wait_until("all lines", LIMIT, || delivered(dir.path()).len() == all);
    wait_until("all is settled", LIMIT, || lag(&agent) == Some(0.0));
    assert_eq!(agent.stop().code(), Some(0), "{}", agent.log());
    let after = delivered(dir.path());
    let (known, ids) = (ids(&before), ids(&after));
    assert!(known.len() >= FILES);
    for (file, known) in known {
        assert_eq!(ids[file], known, "{file} was known under the first, and is under the second");
    }
    assert!(ids.values().all(|ids| ids.len() == 1), "{ids:?}");
}

#[test]
fn a_kill_and_a_start_on_a_full_data_dir_change_no_id() {
    fill_and_end(Agent::kill);
}

#[test]
fn a_stop_and_a_start_on_a_full_data_dir_change_no_id() {
    fill_and_end(|agent| assert_eq!(agent.stop().code(), Some(0), "{}", agent.log()));
}

/// File size that the agent cannot exceed while the limit is set, in bytes.
const FILE_BYTES_MAX: u64 = 32 * 1024;

fn limit_files(pid: Pid, current: Option<u64>) {
    prlimit(Some(pid), Resource::Fsize, Rlimit { current, maximum: None }).unwrap();
}

fn ready(agent: &Agent) -> serde_json::Value {
    let body = agent.get("/ready").expect("the agent answers");
    serde_json::from_str(&body).unwrap()
}

/// The agent cannot write its database while a file size limit is set. SIGXFSZ is ignored, even
/// after `exec`.
#[test]
fn unsaved_checkpoints_are_reported_and_fail_a_stop() {
    let dir = folder();
    let config = "
sources: { app: { type: file, include: ['DIR/in/*.log'] } }
sinks: { out: { type: blackhole, inputs: [app] } }
";
    fs::create_dir(dir.path().join("in")).unwrap();
    // The text is so long that the agent need not save another head before it emits the next lines.
    let head = "some words\n".repeat(200);
    (0..FILES).for_each(|file| fs::write(log_file(dir.path(), file), &head).unwrap());
    let mut agent = Agent::spawn(dir.path(), config, &[], |command| {
        let log = OpenOptions::new().append(true).open(dir.path().join("agent.log")).unwrap();
        let mut shell = Command::new("sh");
        shell
            .args(["-c", "trap '' XFSZ; exec \"$@\"", "sh"])
            .arg(millstream())
            .args(command.get_args());
        shell.stderr(log);
        *command = shell;
    });
    let checkpoints = |agent: &Agent| ready(agent)["checkpoints"].clone();
    let errors = "millstream_checkpoint_errors_total{operation=\"commit\"}";
    let sent = "millstream_component_sent_events_total{component_id=\"out\"";
    wait_until("all is read", LIMIT, || agent.metric(sent) == Some(200.0 * FILES as f64));
    wait_until("all is committed", LIMIT, || {
        agent.single("millstream_checkpoint_age_seconds") == Some(0.0)
    });
    assert_eq!(
        (&checkpoints(&agent)["error"], agent.metric(errors)),
        (&serde_json::Value::Null, Some(0.0))
    );
    limit_files(agent.pid(), Some(FILE_BYTES_MAX));
    append(dir.path(), 0..FILES, 1);
    wait_until("it is told", LIMIT, || checkpoints(&agent)["error"].is_string());
    let error = checkpoints(&agent)["error"].to_string();
    assert!(error.contains("File too large"), "{error}");
    assert!(error.contains("checkpoints cannot be committed"), "{error}");
    wait_until("it is counted", LIMIT, || agent.metric(errors) > Some(1.0));
    assert!(agent.single("millstream_checkpoint_age_seconds") > Some(0.5));
    limit_files(agent.pid(), None);
    wait_until("it is over", LIMIT, || checkpoints(&agent)["error"].is_null());
    wait_until("all is settled", LIMIT, || lag(&agent) == Some(0.0));
    append(dir.path(), 0..FILES, 2);
    limit_files(agent.pid(), Some(FILE_BYTES_MAX));
    wait_until("something waits", LIMIT, || {
        agent.single("millstream_checkpoint_age_seconds") > Some(0.5)
    });
    assert_eq!(agent.stop().code(), Some(1), "{}", agent.log());
    let said = "cannot commit the last checkpoints to data_dir: File too large (os error 27)";
    agent.assert_logs(said);
}

/// Damages the database between two runs; the second run ends at the end of the files.
fn damaged_between_runs(damage: impl Fn(&Path), expected: &str) {
    let dir = folder();
    fs::create_dir(dir.path().join("in")).unwrap();
    append(dir.path(), 0..20, 0);
    let mut agent = Agent::start(dir.path(), CONFIG, &[]);
    wait_until("the first lines", LIMIT, || delivered(dir.path()).len() == 20);
    wait_until("all is settled", LIMIT, || lag(&agent) == Some(0.0));
    agent.kill();
    let before = delivered(dir.path());
    assert_eq!(before.len(), 20);
    damage(&dir.path().join("data/checkpoints.redb"));
    append(dir.path(), 0..20, 1);
    let mut agent = Agent::start(dir.path(), CONFIG, &["--until-eof"]);
    assert_eq!(agent.wait(LIMIT).code(), Some(0), "{}", agent.log());
    agent.assert_logs(expected);
    let after = delivered(dir.path());
    assert_eq!((after.len(), ids(&before)), (40, ids(&after)), "{}", agent.log());
}

#[test]
fn damage_to_the_database_changes_no_id() {
    damaged_between_runs(
        |path| {
            let file = OpenOptions::new().write(true).open(path).unwrap();
            (0..40).for_each(|page| file.write_all_at(&[0x5a; 64], page * 4096 + 100).unwrap());
        },
        "the ids of 20 files are restored from identities",
    );
}

#[test]
fn an_emptied_database_changes_no_id_and_is_reported() {
    damaged_between_runs(
        |path| fs::write(path, "").unwrap(),
        "checkpoints.redb is empty, missing or damaged",
    );
}
