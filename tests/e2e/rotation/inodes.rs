//! Tests inode numbers that a real file system reuses: the agent must not mistake a new file for
//! the previous file with the same number.

use super::{assert_every_line_once, config, finish, line};
use crate::support::{Agent, folder, wait_until};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

const ROUNDS: usize = 12;

/// Maximum number of attempts to get the same inode number again.
const TRIES_MAX: usize = 500;

/// A small ext4 image mounted on `FOLDER/in` and unmounted on drop.
struct Mount(PathBuf);

impl Mount {
    /// Mounts the image. Returns the reason if mounting is not permitted.
    fn make(folder: &Path) -> Result<Mount, String> {
        let (image, point) = (folder.join("image"), folder.join("in"));
        fs::create_dir(&point).unwrap();
        fs::File::create(&image).unwrap().set_len(16 << 20).unwrap();
        run(Command::new("mkfs.ext4").arg("-q").arg(&image))?;
        run(Command::new("mount").args(["-o", "loop"]).arg(&image).arg(&point))?;
        Ok(Mount(point))
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        let _ = run(Command::new("umount").arg("--lazy").arg(&self.0));
    }
}

fn run(command: &mut Command) -> Result<(), String> {
    let output = command.output().map_err(|error| format!("{command:?}: {error}"))?;
    match output.status.success() {
        true => Ok(()),
        false => Err(format!("{command:?}: {}", String::from_utf8_lossy(&output.stderr))),
    }
}

/// Recreates the file until it has the inode number `wanted`.
fn recreate(path: &Path, wanted: u64) {
    for _ in 0..TRIES_MAX {
        fs::remove_file(path).unwrap();
        fs::write(path, "").unwrap();
        if fs::metadata(path).unwrap().ino() == wanted {
            return;
        }
    }
    panic!("inode {wanted} does not come again in {TRIES_MAX} tries");
}

/// Waits until all lines are settled and in the checkpoints, which are saved once a second.
fn wait_until_saved(agent: &Agent) {
    let lag = || agent.metric("millstream_source_lag_bytes{");
    wait_until("no lag", Duration::from_secs(60), || lag() == Some(0.0));
    std::thread::sleep(Duration::from_millis(1200));
    wait_until("all is committed", Duration::from_secs(60), || {
        agent.single("millstream_checkpoint_age_seconds") == Some(0.0)
    });
}

#[test]
fn a_new_file_with_a_reused_inode_number_is_read_from_its_beginning() {
    // Loop devices need a file on a disk or tmpfs; the folder is on one of them.
    let dir = folder();
    let mount = match Mount::make(dir.path()) {
        Ok(mount) => mount,
        Err(why) => return eprintln!("skipped: no file system can be mounted here: {why}"),
    };
    let (log, out) = (mount.0.join("app.log"), dir.path().join("out.json"));
    let config = config("['DIR/in/app.log']");
    fs::write(&log, "").unwrap();
    let (inode, mut number) = (fs::metadata(&log).unwrap().ino(), 0);
    for round in 0..ROUNDS {
        // The new content is longer or shorter than the previous content; both may be above or
        // below the 1,024 bytes that are hashed.
        let lines = [3, 200, 10, 100, 1][round % 5];
        let text: String = (number..number + lines).map(|number| line(number) + "\n").collect();
        recreate(&log, inode);
        fs::write(&log, text).unwrap();
        number += lines;
        let mut agent = Agent::start(dir.path(), &config, &[]);
        wait_until("the lines", Duration::from_secs(60), || {
            crate::support::lines(&out).len() >= number
        });
        if round % 3 == 0 {
            wait_until_saved(&agent);
            agent.kill();
        } else {
            assert_eq!(agent.stop().code(), Some(0), "{}", agent.log());
        }
    }
    finish(dir.path(), &config);
    assert_every_line_once(dir.path(), number);
}

#[test]
fn a_running_agent_distinguishes_new_files_from_old_ones() {
    let dir = folder();
    let mount = match Mount::make(dir.path()) {
        Ok(mount) => mount,
        Err(why) => return eprintln!("skipped: no file system can be mounted here: {why}"),
    };
    let (log, out) = (mount.0.join("app.log"), dir.path().join("out.json"));
    let config = config("['DIR/in/app.log']");
    let (mut number, mut inodes) = (0, std::collections::HashSet::new());
    let mut agent = Agent::start(dir.path(), &config, &[]);
    for round in 0..100 {
        let text: String = (number..number + 5).map(|number| line(number) + "\n").collect();
        fs::write(&log, text).unwrap();
        number += 5;
        inodes.insert(fs::metadata(&log).unwrap().ino());
        wait_until("the lines", Duration::from_secs(60), || {
            crate::support::lines(&out).len() >= number
        });
        if round % 25 == 10 {
            assert_eq!(agent.stop().code(), Some(0), "{}", agent.log());
            fs::remove_file(&log).unwrap();
            agent = Agent::start(dir.path(), &config, &[]);
        } else {
            fs::remove_file(&log).unwrap();
        }
    }
    assert!(inodes.len() < 100, "no number came again");
    assert_eq!(agent.stop().code(), Some(0), "{}", agent.log());
    assert_every_line_once(dir.path(), number);
}
