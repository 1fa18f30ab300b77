//! Support for tests with Java: the JDKs of this host, the project's Java build, and the processes
//! of an agent's JVMs.

use super::{Agent, wait_until};
use rustix::process::Pid;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::time::Duration;

/// Oldest supported version of Java.
const JAVA_MIN: u32 = 17;

/// Timeout for a process, generous for a busy host.
const PATIENCE: Duration = Duration::from_secs(120);

/// Option for a short-lived JVM. Its optimizing compiler would otherwise take a third of its CPU
/// time.
pub const FAST_START: &str = "-XX:TieredStopAtLevel=1";

/// Returns the folder `java`, and builds it if needed.
pub fn built() -> PathBuf {
    let script = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("scripts/java");
    let output = Command::new(script).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    PathBuf::from(String::from_utf8_lossy(&output.stdout).trim())
}

/// Returns the jar with the operators and collectors into which tests inject faults.
pub fn test_operators() -> &'static Path {
    static JAR: OnceLock<PathBuf> = OnceLock::new();
    JAR.get_or_init(|| built().join("test-operators/target/millstream-test-operators.jar"))
}

/// Returns the homes of the JDKs on this host, one per supported version, oldest first. If the
/// usual folder contains none, returns the home of the `java` in the `PATH`.
pub fn homes() -> Vec<PathBuf> {
    let homes =
        fs::read_dir("/usr/lib/jvm").into_iter().flatten().map(|entry| entry.unwrap().path());
    let versions: BTreeMap<u32, PathBuf> =
        homes.filter_map(|home| Some((version(&home)?, home))).collect();
    match versions.is_empty() {
        true => vec![home_of_path()],
        false => versions.into_values().collect(),
    }
}

/// Returns the version of the JDK in a folder; `None` if it is too old or incomplete.
fn version(home: &Path) -> Option<u32> {
    let release = fs::read_to_string(home.join("release")).ok()?;
    let line = release.lines().find_map(|line| line.strip_prefix("JAVA_VERSION=\""))?;
    let version = line.split(['.', '"', '-', '+']).next()?.parse().ok()?;
    (version >= JAVA_MIN && home.join("bin/java").exists()).then_some(version)
}

fn home_of_path() -> PathBuf {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let java = std::env::split_paths(&path).map(|folder| folder.join("java"));
    let found = java.filter_map(|java| java.canonicalize().ok()).next().expect("a JDK");
    found.parent().and_then(Path::parent).expect("HOME/bin/java").to_owned()
}

/// Returns how many times the agent has restarted a process.
pub fn restarts(agent: &Agent, process: &str) -> f64 {
    let metric = format!("millstream_jvm_process_restarts_total{{process=\"{process}\"}}");
    agent.metric(&metric).unwrap_or_default()
}

/// Waits until a process of the agent runs, and returns its process id.
pub fn process_id(agent: &Agent, process: &str) -> Pid {
    let find = || {
        let snapshot: serde_json::Value =
            serde_json::from_str(&agent.get("/api/snapshot")?).ok()?;
        let all = snapshot["jvm_processes"].as_array()?;
        let found = all.iter().find(|of| of["name"] == process)?;
        Pid::from_raw(found["pid"].as_i64()? as i32)
    };
    let mut found = None;
    wait_until("the process runs", PATIENCE, || {
        found = find();
        found.is_some()
    });
    found.unwrap()
}

/// Compiles the program that logs with log4j into `dir`; returns its class path. Its arguments are
/// the number of lines and the time in milliseconds.
pub fn log4j_writer(dir: &Path) -> String {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    let output = Command::new(root.join("scripts/servers")).arg("logging").output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let jars = format!("{}/*", String::from_utf8_lossy(&output.stdout).trim());
    let mut javac = Command::new("javac");
    javac
        .arg("-cp")
        .arg(&jars)
        .arg("-d")
        .arg(dir)
        .arg(root.join("tests/servers/logging/Writer.java"));
    let output = javac.output().expect("javac runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    format!("{}:{jars}", dir.display())
}
