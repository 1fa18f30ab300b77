//! Support shared by the tests: the binary, temporary folders, running agents.

pub mod java;
pub mod journal;

use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// Maximum time until a message that was logged appears in the file.
const LOG_TIMEOUT: Duration = Duration::from_secs(60);

/// Returns the program under test.
pub fn millstream() -> PathBuf {
    PathBuf::from(env!("CARGO_BIN_EXE_millstream"))
}

/// Creates a folder for one test, on tmpfs if available, because syncs are fast there.
pub fn folder() -> tempfile::TempDir {
    let memory = Path::new("/dev/shm");
    let made = if memory.is_dir() { tempfile::tempdir_in(memory) } else { tempfile::tempdir() };
    made.expect("a temporary folder")
}

/// Writes the agent's configuration to `folder` atomically, with a data folder and a free API port.
/// `DIR` is replaced by the folder.
pub fn write_config(folder: &Path, config: &str) -> PathBuf {
    let (path, draft) = (folder.join("millstream.yaml"), folder.join("draft"));
    let head = format!("data_dir: {}/data\napi: {{ listen: '127.0.0.1:0' }}\n", folder.display());
    let config = head + &config.replace("DIR", &folder.display().to_string());
    fs::write(&draft, config).expect("the configuration is written");
    fs::rename(&draft, &path).expect("the configuration is in its place");
    path
}

/// Opens the log of the agents in a folder.
fn log_file(folder: &Path) -> File {
    let mut options = File::options();
    options.create(true).append(true).open(folder.join("agent.log")).expect("a log file")
}

/// A running agent, killed on drop.
pub struct Agent {
    child: Child,
    folder: PathBuf,
}

impl Agent {
    /// Starts the agent in `folder` with `config`, in which `DIR` is replaced by the folder.
    pub fn start(folder: &Path, config: &str, args: &[&str]) -> Agent {
        Agent::spawn(folder, config, args, |_| {})
    }

    /// Starts the agent after `adjust` has changed the command.
    pub fn spawn(
        folder: &Path,
        config: &str,
        args: &[&str],
        adjust: impl FnOnce(&mut Command),
    ) -> Agent {
        let path = write_config(folder, config);
        let mut command = Command::new(millstream());
        command.arg("run").arg("-c").arg(&path).args(args);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log_file(folder));
        adjust(&mut command);
        Agent { child: command.spawn().expect("the agent starts"), folder: folder.to_path_buf() }
    }

    /// Starts an agent by a command that contains the program and its arguments.
    pub fn launch(folder: &Path, mut command: Command) -> Agent {
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log_file(folder));
        Agent { child: command.spawn().expect("the agent starts"), folder: folder.to_path_buf() }
    }

    /// Replaces the configuration and sends SIGHUP.
    pub fn reload(&self, config: &str) {
        write_config(&self.folder, config);
        self.send(rustix::process::Signal::HUP);
    }

    /// Returns a metric without labels.
    pub fn single(&self, name: &str) -> Option<f64> {
        self.metric(&format!("{name} "))
    }

    /// Sends SIGKILL and waits for the exit.
    pub fn kill(&mut self) {
        self.child.kill().expect("the agent is killed");
        self.child.wait().expect("the agent is gone");
    }

    /// Returns the process id.
    pub fn pid(&self) -> rustix::process::Pid {
        rustix::process::Pid::from_child(&self.child)
    }

    /// Sends SIGTERM.
    pub fn terminate(&self) {
        self.send(rustix::process::Signal::TERM);
    }

    /// Sends a signal.
    pub fn send(&self, signal: rustix::process::Signal) {
        rustix::process::kill_process(self.pid(), signal).expect("the agent gets the signal");
    }

    /// Stops the agent and returns its exit status. Waits first until the agent answers, because an
    /// agent that has just been started does not handle signals yet.
    pub fn stop(&mut self) -> ExitStatus {
        let begun = Instant::now();
        let is_up = |agent: &mut Agent| agent.get("/health").is_some() || agent.poll_ended();
        while !is_up(self) && begun.elapsed() < Duration::from_secs(60) {
            std::thread::sleep(Duration::from_millis(5));
        }
        self.terminate();
        self.wait(Duration::from_secs(30))
    }

    /// Returns whether the agent has exited.
    pub fn poll_ended(&mut self) -> bool {
        self.child.try_wait().expect("the agent's status").is_some()
    }

    /// Waits for the agent to exit.
    pub fn wait(&mut self, limit: Duration) -> ExitStatus {
        let begun = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().expect("the agent's status") {
                return status;
            }
            assert!(begun.elapsed() < limit, "the agent does not end\n{}", self.log());
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Returns the agent's log.
    pub fn log(&self) -> String {
        fs::read_to_string(self.folder.join("agent.log")).unwrap_or_default()
    }

    /// Asserts that the log contains `text`. Waits, because a thread of the agent writes the log.
    pub fn assert_logs(&self, text: &str) {
        let begun = Instant::now();
        while !self.log().contains(text) {
            assert!(begun.elapsed() < LOG_TIMEOUT, "{text:?} is not in the log:\n{}", self.log());
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Returns the body of a GET request over the control socket.
    pub fn get(&self, path: &str) -> Option<String> {
        get(&self.folder, path)
    }

    /// Returns a metric of a component; `line` is the start of its line.
    pub fn metric(&self, line: &str) -> Option<f64> {
        metric(&self.folder, line)
    }
}

/// Returns the body of a GET request over the control socket of the agent in a folder.
fn get(folder: &Path, path: &str) -> Option<String> {
    let mut stream = UnixStream::connect(folder.join("data/control.sock")).ok()?;
    write!(stream, "GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    answer.split_once("\r\n\r\n").map(|(_, body)| body.to_owned())
}

/// Returns a metric of a component of the agent in a folder; `line` is the start of its line.
pub fn metric(folder: &Path, line: &str) -> Option<f64> {
    let metrics = get(folder, "/metrics")?;
    let found = metrics.lines().find(|l| l.starts_with(line))?;
    found.rsplit(' ').next()?.parse().ok()
}

impl Drop for Agent {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Waits until `condition` holds.
pub fn wait_until(what: &str, limit: Duration, mut condition: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !condition() {
        assert!(begun.elapsed() < limit, "waited {limit:?} for: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Returns the lines of a file; an empty list if the file does not exist.
pub fn lines(path: &Path) -> Vec<String> {
    let bytes = fs::read(path).unwrap_or_default();
    String::from_utf8_lossy(&bytes).lines().map(str::to_owned).collect()
}
