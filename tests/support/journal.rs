//! Journal files that systemd writes.

use std::io::Write;
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::OnceLock;

const REMOTE: &str = "/lib/systemd/systemd-journal-remote";

/// Installs the program that writes journals, once.
pub fn install() {
    static DONE: OnceLock<()> = OnceLock::new();
    DONE.get_or_init(|| {
        if !Path::new(REMOTE).exists() {
            let packages = ["for the tests of the journal", "systemd", "systemd-journal-remote"];
            assert!(Command::new("scripts/packages").args(packages).status().unwrap().success());
        }
    });
}

/// Writes entries to a journal file through `systemd-journal-remote`.
pub struct Writer {
    child: Child,
    input: Option<ChildStdin>,
}

impl Writer {
    /// Starts a writer that creates or continues a file.
    pub fn start(path: &Path) -> Writer {
        install();
        let mut command = Command::new(REMOTE);
        command.arg("-o").arg(path).arg("-").stdin(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().unwrap();
        Writer { input: child.stdin.take(), child }
    }

    /// Sends an entry in export format.
    pub fn send(&mut self, entry: &[u8]) {
        self.input.as_mut().unwrap().write_all(entry).unwrap();
    }

    /// Waits until the writer has written everything.
    pub fn finish(mut self) {
        drop(self.input.take());
        self.child.wait().unwrap();
    }
}
