//! A real Redis for tests.
//!
//! `scripts/servers` installs Redis. The server uses a temporary folder and loopback, and is killed
//! with the test process.

use crate::kafka::process::{folder, spawn};
use crate::ports::free_port;
use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::LazyLock;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Timeout for the start, generous for busy hosts.
const START_TIMEOUT: Duration = Duration::from_secs(60);

/// A Redis server that logs every command as a slow one. Killed on drop.
pub struct Redis {
    program: String,
    port: u16,
    child: Child,
    folder: TempDir,
}

impl Redis {
    /// Returns the server that all tests of the process share.
    pub fn shared() -> &'static Redis {
        static SHARED: LazyLock<Redis> = LazyLock::new(Redis::start);
        &SHARED
    }

    /// Starts a server and waits until it is ready.
    pub fn start() -> Redis {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../scripts/servers");
        let output = Command::new(script).arg("redis").output().expect("scripts/servers runs");
        let message = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "scripts/servers cannot install Redis:\n{message}");
        let program = String::from_utf8_lossy(&output.stdout).trim().to_owned();
        // Another process may bind the port in between.
        let server = (0..5).find_map(|_| Redis::try_start(&program));
        server.expect("Redis starts")
    }

    fn try_start(program: &str) -> Option<Redis> {
        let folder = folder();
        let port = free_port();
        let child = launch(program, port, &folder);
        let mut server = Redis { program: program.to_owned(), port, child, folder };
        server.wait_ready().then_some(server)
    }

    /// Waits until the server responds; returns `false` if the server has exited.
    fn wait_ready(&mut self) -> bool {
        let started = Instant::now();
        while self.try_command("PING").as_deref() != Some("+PONG") {
            if self.child.try_wait().expect("its status").is_some() {
                return false;
            }
            assert!(
                started.elapsed() < START_TIMEOUT,
                "Redis does not become ready:\n{}",
                self.log()
            );
            std::thread::sleep(Duration::from_millis(20));
        }
        true
    }

    /// Returns the address as `host:port`.
    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// Kills the server; its port and its folder are kept.
    pub fn stop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Restarts the server on the same port.
    pub fn restart(&mut self) {
        self.stop();
        self.child = launch(&self.program, self.port, &self.folder);
        assert!(self.wait_ready(), "Redis does not start again:\n{}", self.log());
    }

    /// Runs a command; returns the first line of the response, such as `+OK`.
    pub fn command(&self, command: &str) -> String {
        self.try_command(command).expect("a response of Redis")
    }

    fn try_command(&self, command: &str) -> Option<String> {
        let mut stream = TcpStream::connect(self.address()).ok()?;
        write!(stream, "{command}\r\n").ok()?;
        let mut line = String::new();
        BufReader::new(stream).read_line(&mut line).ok()?;
        Some(line.trim_end().to_owned())
    }

    /// Returns the log.
    fn log(&self) -> String {
        std::fs::read_to_string(self.folder.path().join("log")).unwrap_or_default()
    }
}

fn launch(program: &str, port: u16, folder: &TempDir) -> Child {
    let log = File::create(folder.path().join("log")).expect("a log file");
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "KILL", "--", program]);
    command.args(["--port", &port.to_string(), "--bind", "127.0.0.1"]);
    command.args(["--save", "", "--appendonly", "no", "--slowlog-log-slower-than", "0"]);
    command.arg("--dir").arg(folder.path());
    command.stdin(Stdio::null()).stdout(log).stderr(Stdio::null());
    spawn(command).expect("setpriv starts")
}

impl Drop for Redis {
    fn drop(&mut self) {
        self.stop();
    }
}
