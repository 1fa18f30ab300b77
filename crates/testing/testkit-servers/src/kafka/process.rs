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

/// Longest run of a tool that reads or changes something.
const TOOL_SECONDS_MAX: &str = "90";

/// Where `scripts/servers` has put the broker.
pub(super) struct Install {
    folder: PathBuf,
}

impl Install {
    /// The installed broker; installs it in the first call if it is missing.
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

    /// A data folder that is formatted, to be copied.
    pub(super) fn template(&self) -> PathBuf {
        self.folder.join("template")
    }

    /// A JVM with Kafka's classes; a main class and its arguments are to follow. The kernel kills
    /// it when the thread that started it ends.
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

/// Starts a JVM that lives until it is told to end, or until this process ends in whatever way.
pub(crate) fn spawn(command: Command) -> io::Result<Child> {
    // The kernel's signal follows the end of a thread, and a test's thread ends with the test: so
    // one thread, which never ends, starts them all.
    type Order = (Command, Sender<io::Result<Child>>);
    static STARTER: LazyLock<Mutex<Sender<Order>>> = LazyLock::new(|| {
        let (sender, orders) = channel::<Order>();
        std::thread::spawn(move || {
            for (mut command, answer) in orders {
                let _ = answer.send(command.spawn());
            }
        });
        Mutex::new(sender)
    });
    let (answer, child) = channel();
    STARTER.lock().send((command, answer)).expect("the starter runs");
    child.recv().expect("the starter answers")
}

/// A folder for one broker, in memory where the machine has that.
pub(super) fn folder() -> TempDir {
    static BASE: LazyLock<Base> = LazyLock::new(Base::make);
    tempfile::tempdir_in(&BASE.path).expect("a temporary folder")
}

/// What holds the folders of all brokers of this process, also those that are never dropped.
struct Base {
    path: PathBuf,
    /// Waits for the end of this process, which closes its input, and removes the folder.
    _sweeper: Child,
}

impl Base {
    fn make() -> Base {
        let memory = Path::new("/dev/shm");
        let parent = if memory.is_dir() { memory.to_owned() } else { std::env::temp_dir() };
        let base = tempfile::Builder::new().prefix("millstream-servers-").tempdir_in(parent);
        let path = base.expect("a temporary folder").keep();
        let mut sweeper = Command::new("sh");
        // A broker that is dying may write once more: hence the second time. Ctrl-C goes to the
        // process group of the tests, and must not end the sweeper.
        sweeper.args(["-c", "read -r _; rm -rf \"$0\" || { sleep 1; rm -rf \"$0\"; }"]).arg(&path);
        sweeper.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).process_group(0);
        Base { path, _sweeper: sweeper.spawn().expect("sh starts") }
    }
}

/// Runs a program to its end; what it printed. Panics with its errors if it fails.
pub(super) fn output(command: Command) -> String {
    let mut limited = Command::new("timeout");
    limited.args(["-k", "5", TOOL_SECONDS_MAX]).arg(command.get_program()).args(command.get_args());
    let output = limited.stdin(Stdio::null()).output().expect("timeout(1) runs");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?} ended with {}:\n{errors}", output.status);
    String::from_utf8(output.stdout).expect("text")
}
