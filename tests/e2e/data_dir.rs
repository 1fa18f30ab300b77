//! Tests the file modes in `data_dir`.

use crate::support::{Agent, folder, wait_until};
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(60);

/// A window that stays open, and a disk buffer whose endpoint is down.
const CONFIG: &str = "
shutdown_timeout: 1s
sources:
  app: { type: file, include: ['DIR/in/*.log'] }
transforms:
  counts:
    { type: aggregate, inputs: [app], group_by: [message], emit: { n: count() }, window: 1h }
sinks:
  counted: { type: file, inputs: [counts], path: DIR/out.json }
  waits:
    type: http
    inputs: [app]
    uri: http://127.0.0.1:9
    buffer: { type: disk, max: 64MiB, mode: always }
";

/// The control socket, which the group of the agent may use.
const SOCKET: &str = "control.sock";

fn mode(path: &Path) -> u32 {
    fs::symlink_metadata(path).unwrap().permissions().mode() & 0o777
}

/// Returns all entries below a folder, without links.
fn walk(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let entry = entry.unwrap();
        let kind = entry.file_type().unwrap();
        if !kind.is_symlink() {
            found.push(entry.path());
        }
        if kind.is_dir() {
            found.extend(walk(&entry.path()));
        }
    }
    found
}

fn assert_private(data_dir: &Path) {
    for path in walk(data_dir) {
        let expected = match path.is_dir() {
            true => 0o700,
            false if path.file_name().is_some_and(|name| name == SOCKET) => 0o660,
            false => 0o600,
        };
        assert_eq!(mode(&path), expected, "{}", path.display());
    }
}

fn has_file(data_dir: &Path, folder: &str, suffix: &str) -> bool {
    let folder = data_dir.join(folder);
    folder.is_dir() && walk(&folder).iter().any(|path| path.to_string_lossy().ends_with(suffix))
}

/// Starts the agent without a umask.
fn start(folder: &Path) -> Agent {
    Agent::spawn(folder, CONFIG, &[], |command: &mut Command| {
        let clear = || {
            rustix::process::umask(rustix::fs::Mode::empty());
            Ok(())
        };
        // SAFETY: between fork and exec the closure makes only a system call.
        unsafe { command.pre_exec(clear) };
    })
}

/// Lets the agent write a segment of a disk buffer and a snapshot, and stops it.
fn run(folder: &Path) {
    let data_dir = folder.join("data");
    fs::create_dir(folder.join("in")).unwrap();
    fs::write(folder.join("in/app.log"), "a line with a name in it\n".repeat(1000)).unwrap();
    let mut agent = start(folder);
    wait_until("a segment", PATIENCE, || has_file(&data_dir, "spool", ".spool"));
    wait_until("the socket", PATIENCE, || data_dir.join(SOCKET).exists());
    assert_private(&data_dir);
    agent.stop();
    assert!(has_file(&data_dir, "snapshots", ".segment"), "{:?}", walk(&data_dir));
    assert_private(&data_dir);
}

#[test]
fn other_users_read_nothing_in_data_dir() {
    let dir = folder();
    let data_dir = dir.path().join("data");
    run(dir.path());
    // The group must reach the control socket.
    assert_eq!(mode(&data_dir), 0o710);
    // Set the modes with which earlier releases created the files.
    for path in walk(&data_dir) {
        let old = if path.is_dir() { 0o755 } else { 0o644 };
        fs::set_permissions(&path, Permissions::from_mode(old)).unwrap();
    }
    let token = data_dir.join("token");
    fs::set_permissions(token, Permissions::from_mode(0o600)).unwrap();
    let own = data_dir.join("notes");
    fs::write(&own, "a file of the administrator").unwrap();
    fs::set_permissions(&own, Permissions::from_mode(0o644)).unwrap();
    let mut agent = start(dir.path());
    wait_until("the answer", PATIENCE, || agent.get("/ready").is_some());
    assert_eq!(mode(&own), 0o644);
    fs::remove_file(own).unwrap();
    assert_private(&data_dir);
    agent.kill();
}

/// User id of an agent that is not root.
const NOBODY: u32 = 65_534;

/// Starts the agent as another user; `None` if that user may not run the program.
fn start_as_nobody(folder: &Path) -> Option<Agent> {
    let start = || {
        Agent::spawn(folder, CONFIG, &[], |command: &mut Command| {
            command.uid(NOBODY).gid(NOBODY);
        })
    };
    std::panic::catch_unwind(start).ok()
}

/// Gives a file to another user.
fn give(path: &Path, user: u32) {
    std::os::unix::fs::lchown(path, Some(user), Some(user)).unwrap();
}

/// An administrator who once runs the agent as root leaves files that the agent cannot use later.
/// The agent must not start without its state.
#[test]
fn a_file_of_another_user_is_named_with_its_owner() {
    if !rustix::process::geteuid().is_root() {
        return eprintln!("skipped: only root can start an agent as somebody else");
    }
    let dir = folder();
    let data_dir = dir.path().join("data");
    run(dir.path());
    let _ = fs::remove_file(data_dir.join(SOCKET));
    let all = walk(&data_dir);
    let is_needed = |path: &&PathBuf| !path.starts_with(data_dir.join("recorder"));
    [dir.path().to_path_buf(), data_dir.clone()].iter().for_each(|path| give(path, NOBODY));
    fs::set_permissions(dir.path(), Permissions::from_mode(0o755)).unwrap();
    let log = dir.path().join("agent.log");
    for path in all.iter().filter(is_needed) {
        all.iter().for_each(|path| give(path, NOBODY));
        give(path, 0);
        fs::write(&log, "").unwrap();
        let Some(mut agent) = start_as_nobody(dir.path()) else {
            return eprintln!("skipped: another user may not run the program where it is");
        };
        assert_eq!(agent.wait(PATIENCE).code(), Some(1), "{}", agent.log());
        let expected = format!("may not use {}, which belongs to user 0; run", path.display());
        agent.assert_logs(&expected);
        agent.assert_logs(&format!("`chown -R {NOBODY}: {}`", data_dir.display()));
    }
    all.iter().for_each(|path| give(path, NOBODY));
    let mut agent = start_as_nobody(dir.path()).unwrap();
    wait_until("the answer", PATIENCE, || agent.get("/ready").is_some());
    agent.kill();
}
