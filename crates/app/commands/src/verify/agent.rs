//! The agent under test: this program as a child, with its own configuration.

use super::endpoint::{ENCODING, Endpoint};
use super::keep::Keep;
use super::sink::Sink;
use rustix::process::{Pid, Signal, kill_process};
use serde::Deserialize;
use std::fs::{self, File, Metadata};
use std::io::{self, Read, Write};
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Maximum size of a control socket response in bytes.
const ANSWER_BYTES_MAX: u64 = 32 << 20;

/// Timeout for a start, and for a response from the control socket.
const START_MAX: Duration = Duration::from_secs(20);

/// Shutdown timeout. The agent gives up after `shutdown_timeout` (20 s).
const STOP_MAX: Duration = Duration::from_secs(30);

/// Poll interval while waiting.
const LOOK: Duration = Duration::from_millis(10);

/// Bytes from the end of the agent's log to show in an error.
const LOG_TAIL_BYTES: usize = 2000;

/// State of the agent. [`Agent::look`] restarts it after each orderly exit.
enum State {
    Up(Child),
    Stopping(Child, Instant),
    Down(Instant),
}

/// The used parts of the `/api/files` response.
#[derive(Deserialize)]
struct Files {
    files: Vec<FileState>,
}

#[derive(Deserialize)]
struct FileState {
    path: PathBuf,
    size: u64,
    lag_bytes: u64,
}

/// The child, killed on drop.
pub struct Agent {
    folder: PathBuf,
    state: State,
    /// Time of the last start.
    started: Instant,
    /// Number of starts.
    pub starts: u64,
}

impl Agent {
    /// Writes the configuration, starts the agent in `folder`, and waits until it responds. With
    /// `slow`, the agent has an additional source for each [`Keep`], which delivers to this
    /// endpoint. The error includes the end of the agent's log.
    pub fn start(folder: &Path, sink: &Sink, slow: Option<&Endpoint>) -> Result<Agent, String> {
        fs::write(folder.join("millstream.yaml"), configuration(folder, sink, slow))
            .map_err(|error| format!("{}: {error}", folder.display()))?;
        let mut agent = Agent {
            folder: folder.to_path_buf(),
            state: State::Down(Instant::now()),
            started: Instant::now(),
            starts: 0,
        };
        agent.look()?;
        while agent.get("/health").is_none() {
            agent.look()?;
            if agent.started.elapsed() > START_MAX {
                return Err(agent.fault(&format!("the agent did not respond within {START_MAX:?}")));
            }
            std::thread::sleep(LOOK);
        }
        Ok(agent)
    }

    /// Restarts the agent when due, and enforces the shutdown timeout. An unexpected exit is an
    /// error.
    pub fn look(&mut self) -> Result<(), String> {
        let failed = |error: io::Error| format!("cannot query the agent's process: {error}");
        match &mut self.state {
            State::Up(child) => match child.try_wait().map_err(failed)? {
                None => Ok(()),
                Some(status) => {
                    Err(self.fault(&format!("the agent exited unexpectedly: {status}")))
                }
            },
            State::Stopping(child, since) => {
                if since.elapsed() > STOP_MAX {
                    return Err(self.fault(&format!(
                        "the agent did not stop within {STOP_MAX:?} after SIGTERM"
                    )));
                }
                if child.try_wait().map_err(failed)?.is_some() {
                    self.state = State::Down(Instant::now());
                }
                Ok(())
            }
            State::Down(until) if *until > Instant::now() => Ok(()),
            State::Down(_) => {
                self.state = State::Up(
                    self.spawn().map_err(|error| format!("cannot start the agent: {error}"))?,
                );
                (self.started, self.starts) = (Instant::now(), self.starts + 1);
                Ok(())
            }
        }
    }

    fn spawn(&self) -> io::Result<Child> {
        let log = File::options().create(true).append(true).open(self.folder.join("agent.log"))?;
        let mut command = Command::new(std::env::current_exe()?);
        command.args(["run", "--with-parent", "-c"]).arg(self.folder.join("millstream.yaml"));
        // The agent gets a separate process group, so that Ctrl-C reaches only the verifier.
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log).process_group(0);
        command.spawn()
    }

    /// Returns whether the agent is running and was not told to stop.
    pub fn is_up(&self) -> bool {
        matches!(self.state, State::Up(_))
    }

    /// Sends SIGKILL, and restarts the agent after `pause`.
    pub fn kill(&mut self, pause: Duration) {
        if let State::Up(child) = &mut self.state {
            let _ = child.kill();
            let _ = child.wait();
            self.state = State::Down(Instant::now() + pause);
        }
    }

    /// Sends SIGTERM. The agent is restarted after it has exited.
    pub fn terminate(&mut self) {
        let state = std::mem::replace(&mut self.state, State::Down(Instant::now()));
        self.state = match state {
            State::Up(child) => {
                let _ = kill_process(Pid::from_child(&child), Signal::TERM);
                State::Stopping(child, Instant::now())
            }
            other => other,
        };
    }

    /// Waits until the agent is running again, for at most the shutdown timeout plus the pause
    /// after a kill.
    pub fn await_up(&mut self) -> Result<(), String> {
        while !self.is_up() {
            std::thread::sleep(LOOK);
            self.look()?;
        }
        Ok(())
    }

    /// Stops the agent permanently.
    pub fn stop(&mut self) -> Result<(), String> {
        self.terminate();
        while matches!(self.state, State::Stopping(..)) {
            self.look()?;
            std::thread::sleep(LOOK);
        }
        Ok(())
    }

    /// Returns the lag of the sink in bytes as reported by the agent; `None` if it does not
    /// respond.
    pub fn lag(&self) -> Option<u64> {
        let metrics = self.get("/metrics")?;
        let lines = metrics.lines().filter(|line| line.starts_with("millstream_source_lag_bytes{"));
        let lags: Option<Vec<u64>> =
            lines.map(|line| line.rsplit(' ').next()?.parse().ok()).collect();
        lags.filter(|lags| !lags.is_empty()).map(|lags| lags.into_iter().sum())
    }

    /// Returns whether the running agent has an open descriptor of a file.
    pub fn has_open(&self, file: &Metadata) -> bool {
        let State::Up(child) = &self.state else { return false };
        let Ok(descriptors) = fs::read_dir(format!("/proc/{}/fd", child.id())) else {
            return false;
        };
        let mut opened = descriptors.flatten().filter_map(|entry| fs::metadata(entry.path()).ok());
        opened.any(|opened| (opened.dev(), opened.ino()) == (file.dev(), file.ino()))
    }

    /// Returns whether the agent reports a file of `size` bytes as settled to its end.
    pub fn has_delivered(&self, source: &str, path: &Path, size: u64) -> bool {
        let answer = self.get(&format!("/api/files?source={source}&limit=10000"));
        let files = answer.and_then(|body| serde_json::from_str::<Files>(&body).ok());
        let is_settled = |file: &FileState| (file.lag_bytes, file.size) == (0, size);
        files.is_some_and(|files| {
            files.files.iter().any(|file| file.path == path && is_settled(file))
        })
    }

    /// Returns the agent's log across all starts.
    pub fn log(&self) -> String {
        let log = fs::read(self.folder.join("agent.log")).unwrap_or_default();
        String::from_utf8_lossy(&log).into_owned()
    }

    /// Returns the body of a response over the control socket.
    fn get(&self, path: &str) -> Option<String> {
        let mut stream = UnixStream::connect(self.folder.join("data/control.sock")).ok()?;
        stream.set_read_timeout(Some(START_MAX)).ok()?;
        write!(stream, "GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
            .ok()?;
        let mut answer = String::new();
        stream.take(ANSWER_BYTES_MAX).read_to_string(&mut answer).ok()?;
        answer.split_once("\r\n\r\n").map(|(_, body)| body.to_owned())
    }

    /// Returns an error with the end of the agent's log.
    fn fault(&self, what: &str) -> String {
        let log = fs::read(self.folder.join("agent.log")).unwrap_or_default();
        let tail = String::from_utf8_lossy(&log[log.len().saturating_sub(LOG_TAIL_BYTES)..]);
        format!("{what}; its log ends with:\n{}", tail.trim_end())
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        if let State::Up(child) | State::Stopping(child, _) = &mut self.state {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

fn configuration(folder: &Path, sink: &Sink, slow: Option<&Endpoint>) -> String {
    let behind = if slow.is_some() { &Keep::ALL[..] } else { &[] };
    let sources: String = behind.iter().map(|keep| keep.configuration(folder)).collect();
    let slow_sink = slow.map_or_else(String::new, Endpoint::configuration);
    let folder = folder.display();
    format!(
        "data_dir: {folder}/data\n\
         api: {{ listen: '127.0.0.1:0' }}\n\
         sources:\n  app: {{ type: file, include: ['{folder}/in/*.log*', '{folder}/old/*'] }}\n{sources}\
         sinks:\n{slow_sink}  out:\n    inputs: [app]\n    encoding: {ENCODING}\n{}",
        sink.options()
    )
}

/// Makes the kernel kill this process when its parent exits for any reason.
pub fn end_with_parent() {
    // If this fails, an agent could outlive its verifier, which is harmless, so ignore the error.
    let _ = rustix::process::set_parent_process_death_signal(Some(Signal::KILL));
}
