//! Processes and folders that do not outlive the test process.

use super::KafkaOptions;
use parking_lot::Mutex;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::LazyLock;
use std::sync::mpsc::{Sender, channel};
use tempfile::TempDir;

/// Timeout of a command-line tool, in seconds.
const TOOL_TIMEOUT_SECONDS: &str = "90";

/// The folder where `scripts/servers` installs the broker.
pub(super) struct Install {
    folder: PathBuf,
}

impl Install {
    /// Returns the installed broker. The first call installs it if it is missing.
    pub(super) fn get() -> &'static Install {
        static INSTALL: LazyLock<Install> = LazyLock::new(|| {
            let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../scripts/servers");
            let output = Command::new(script).arg("kafka").output().expect("scripts/servers runs");
            let message = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success(), "scripts/servers cannot install Kafka:\n{message}");
            Install { folder: PathBuf::from(String::from_utf8_lossy(&output.stdout).trim()) }
        });
        &INSTALL
    }

    /// Returns a formatted data folder to copy.
    pub(super) fn template(&self) -> PathBuf {
        self.folder.join("template")
    }

    /// Returns the command for a JVM with Kafka's classes. The caller adds a main class and its
    /// arguments. The kernel kills the JVM when the thread that started it exits.
    pub(super) fn java(&self, options: &KafkaOptions) -> Command {
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "KILL", "--"]);
        if let Some(cpus) = &options.cpus {
            command.args(["taskset", "-c", cpus]);
        }
        command.arg(self.folder.join("java"));
        command.arg(format!("-Xmx{}", options.heap)).args(["-XX:+UseSerialGC", "-XX:-UsePerfData"]);
        if !options.full_jit {
            command.arg("-XX:TieredStopAtLevel=1");
        }
        let archive = self.folder.join("classes.jsa");
        if archive.is_file() {
            command.arg(format!("-XX:SharedArchiveFile={}", archive.display()));
        }
        command.args(["-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"]);
        command.arg(format!("@{}", self.folder.join("classpath").display()));
        command
    }
}

/// Starts a process that is killed when this process exits for any reason.
pub(crate) fn spawn(command: Command) -> io::Result<Child> {
    // The kernel sends the signal when the thread that started the process exits, and a test's
    // thread exits with the test. Therefore a thread that never exits starts all processes.
    type Request = (Command, Sender<io::Result<Child>>);
    static STARTER: LazyLock<Mutex<Sender<Request>>> = LazyLock::new(|| {
        let (sender, requests) = channel::<Request>();
        std::thread::spawn(move || {
            for (mut command, response) in requests {
                let _ = response.send(command.spawn());
            }
        });
        Mutex::new(sender)
    });
    let (response, child) = channel();
    STARTER.lock().send((command, response)).expect("the starter runs");
    child.recv().expect("the starter answers")
}

/// Creates a folder for one broker, in memory if the machine has a memory file system.
pub(crate) fn folder() -> TempDir {
    static BASE: LazyLock<Base> = LazyLock::new(Base::make);
    tempfile::tempdir_in(&BASE.path).expect("a temporary folder")
}

/// The parent of all broker folders of this process, including folders that are never dropped.
struct Base {
    path: PathBuf,
    /// Removes the folder once this process exits, which closes the sweeper's standard input.
    _sweeper: Child,
}

impl Base {
    fn make() -> Base {
        let memory = Path::new("/dev/shm");
        let parent = if memory.is_dir() { memory.to_owned() } else { std::env::temp_dir() };
        let base = tempfile::Builder::new().prefix("millstream-servers-").tempdir_in(parent);
        let path = base.expect("a temporary folder").keep();
        let mut sweeper = Command::new("sh");
        // A dying broker may still be writing, so the sweeper retries. It has a separate process
        // group, because Ctrl-C signals the process group of the tests.
        sweeper.args(["-c", "read -r _; rm -rf \"$0\" || { sleep 1; rm -rf \"$0\"; }"]).arg(&path);
        sweeper.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).process_group(0);
        Base { path, _sweeper: sweeper.spawn().expect("sh starts") }
    }
}

/// Runs a program until it exits. Returns its output. Panics with its standard error on failure.
pub(super) fn output(command: Command) -> String {
    let mut limited = Command::new("timeout");
    limited
        .args(["-k", "5", TOOL_TIMEOUT_SECONDS])
        .arg(command.get_program())
        .args(command.get_args());
    let output = limited.stdin(Stdio::null()).output().expect("timeout(1) runs");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?} exited with {}:\n{errors}", output.status);
    String::from_utf8(output.stdout).expect("text")
}
