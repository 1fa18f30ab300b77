//! Repeats a published experiment on the JDKs of the host: JFR events around writes to a socket.
//! The experiment measures the cost of the JDK's event, the cost of our events by the way they find
//! their data, and the cost of the recorder at the start of a JVM.

mod cases;
mod jmh;
mod start_up;

use crate::java;
use crate::operators::Jdk;
use crate::report::Report;
use crate::scratch::Scratch;
use jmh::{Costs, Jmh};
use std::fs;
use std::io;
use std::path::PathBuf;
use std::process::Command;

/// The case whose cost the others are compared with.
const OFF: &str = "RECORDER_OFF";
/// The case of the JDK's event, which records every write.
const ON: &str = "JDK_ON";
/// Sizes of the writes in bytes.
const SIZES: [usize; 5] = [1, 64, 1 << 10, 16 << 10, 64 << 10];

/// Number of JVMs per case. The cases alternate, because the speed of a host changes within
/// minutes.
const ROUNDS: usize = 5;

/// The benchmarks with their dependencies.
const JAR: &str = "java/benchmarks/target/benchmarks.jar";
const CLASS_PATH: &str = "java/benchmarks/target/benchmarks.jar:java/benchmarks/target/libs/*";
/// Folder of the recordings.
const TEMPORARY: &str = "jfr";

/// Results on one JDK.
struct Measured {
    /// Name of the JDK in the tables.
    java: String,
    costs: Costs,
    starts: start_up::Starts,
}

/// Measures every case on each JDK and reports the results.
pub fn run(
    is_quick: bool,
    cores: [usize; 2],
    scratch: &Scratch,
    report: &mut Report,
) -> io::Result<()> {
    java::build()?;
    let jdks = jdks()?;
    let mut measured = Vec::new();
    for jdk in &jdks {
        measured.push(measure(is_quick, cores, jdk, scratch)?);
    }
    let setting = setting(is_quick, &jdks);
    cases::report(&measured, &setting, report)?;
    cases::report_sizes(&measured, &setting, report)?;
    start_up::report(&measured, is_quick, report)
}

fn measure(
    is_quick: bool,
    cores: [usize; 2],
    jdk: &Jdk,
    scratch: &Scratch,
) -> io::Result<Measured> {
    let java = format!("Java {}", jdk.version);
    let temporary = scratch.empty_folder(TEMPORARY)?;
    let starts = start_up::measure(is_quick, cores, (&java, jdk), &temporary)?;
    let jmh = Jmh { jdk, is_quick, cores, temporary, progress: format!("jfr_events: {java}") };
    let names = jmh.supported()?;
    let mut costs = Costs::new();
    for _ in 0..if is_quick { 1 } else { ROUNDS } {
        jmh::add(&mut costs, jmh.measure(&names, &SIZES[..1])?);
        jmh::add(&mut costs, jmh.measure(&[OFF.to_owned(), ON.to_owned()], &SIZES[1..])?);
    }
    Ok(Measured { java, costs, starts })
}

/// Returns the JDK in the `PATH` and the host's newest JDK, or only the first if both have the same
/// version.
fn jdks() -> io::Result<Vec<Jdk>> {
    let first = jdk_of_path()?;
    let newest = Jdk::all()?.pop().filter(|newest| newest.version != first.version);
    Ok([Some(first), newest].into_iter().flatten().collect())
}

fn jdk_of_path() -> io::Result<Jdk> {
    let shown = Command::new("java").args(["-XshowSettings:properties", "-version"]).output()?;
    let text = String::from_utf8_lossy(&shown.stderr).into_owned();
    let property = |name: &str| {
        let values = text.lines().filter_map(|line| line.trim().split_once(" = "));
        let value = values.filter(|(key, _)| *key == name).map(|(_, value)| value).next();
        value.ok_or_else(|| io::Error::other(format!("java does not print its {name}")))
    };
    let version = property("java.specification.version")?.parse().map_err(io::Error::other)?;
    Ok(Jdk { home: fs::canonicalize(PathBuf::from(property("java.home")?))?, version })
}

fn java(jdk: &Jdk) -> PathBuf {
    jdk.home.join("bin/java")
}

/// Describes how the measurement was done.
fn setting(is_quick: bool, jdks: &[Jdk]) -> String {
    let times = match is_quick {
        true => {
            "A quick run, which shows that it works and no times: 1 JVM, 3 iterations of 200 ms after 12 of 100 ms"
        }
        false => {
            "5 JVMs by turns with the other cases, each with 10 iterations of 200 ms after 5 of 100 ms"
        }
    };
    let count = match jdks {
        [jdk] => format!(" This host has one JDK, Java {}.", jdk.version),
        _ => String::new(),
    };
    format!(
        "JMH, average time: {times}; ± is half of the interval of 99.9% confidence. \
         Bytes are the median of the JVMs, with their range where they differ.{count}"
    )
}
