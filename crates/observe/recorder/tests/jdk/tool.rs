//! The `jfr` command of each JDK on the host. Other crates' tests include this file.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A JDK with a `jfr` command.
#[derive(Clone, Debug)]
pub struct Jdk {
    pub version: u32,
    jfr: PathBuf,
}

/// Returns all JDKs of version 17 and later, one per version.
pub fn jdks() -> Vec<Jdk> {
    let entries = fs::read_dir("/usr/lib/jvm").into_iter().flatten().flatten();
    let mut found: Vec<Jdk> = entries.filter_map(|entry| jdk(&entry.path())).collect();
    found.sort_by_key(|jdk| jdk.version);
    found.dedup_by_key(|jdk| jdk.version);
    assert!(!found.is_empty(), "no JDK 17 or later in /usr/lib/jvm");
    found
}

fn jdk(home: &Path) -> Option<Jdk> {
    let release = fs::read_to_string(home.join("release")).ok()?;
    let version = release.lines().find_map(|line| line.strip_prefix("JAVA_VERSION=\""))?;
    let version = version.split(['.', '"']).next()?.parse().ok()?;
    let jfr = home.join("bin/jfr");
    (version >= 17 && jfr.is_file()).then_some(Jdk { version, jfr })
}

impl Jdk {
    /// Returns the output of a subcommand.
    pub fn run(&self, arguments: &[&str], file: &Path) -> String {
        let mut command = Command::new(&self.jfr);
        command.args(["-J-XX:TieredStopAtLevel=1", "-J-XX:+UseSerialGC"]);
        command.args(arguments).arg(file).env_remove("JAVA_TOOL_OPTIONS");
        let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
        let errors = String::from_utf8_lossy(&output.stderr);
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(output.status.success() && errors.is_empty(), "{command:?}: {errors}{text}");
        text
    }
}
