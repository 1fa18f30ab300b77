//! Measures operators on the JVM, on every JDK of the host: the cost of a call, the agent with
//! operators in each language, and delays while other operators are slow.

mod agent;
mod batch;
pub mod inside;

use crate::Options;
use crate::fleet;
use crate::header::Header;
use crate::java;
use crate::measure::progress;
use crate::plot::{Axes, Series};
use crate::report::{Report, Table};
use crate::scratch::Scratch;
use inside::{BATCHES, Figures, OPERATORS, Part};
use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::PathBuf;
use std::process::Command;

/// Folder in which JDKs are installed.
const HOMES: &str = "/usr/lib/jvm";
/// Oldest Java version with which operators run.
const VERSION_MIN: u32 = 17;

/// A JDK of the host.
pub struct Jdk {
    pub home: PathBuf,
    pub version: u32,
}

impl Jdk {
    /// Returns the host's suitable JDKs, one per version, oldest first.
    pub fn all() -> io::Result<Vec<Jdk>> {
        let mut found = BTreeMap::new();
        for entry in fs::read_dir(HOMES)? {
            let home = fs::canonicalize(entry?.path())?;
            let release = fs::read_to_string(home.join("release")).unwrap_or_default();
            let version = release.lines().find_map(|line| line.strip_prefix("JAVA_VERSION=\""));
            let feature = version.and_then(|text| text.split(['.', '"']).next()?.parse().ok());
            if let Some(version) = feature.filter(|version| *version >= VERSION_MIN) {
                found.insert(version, home);
            }
        }
        Ok(found.into_iter().map(|(version, home)| Jdk { home, version }).collect())
    }
}

/// Measures everything, or only the scenarios in `names`.
pub fn run(
    options: &Options,
    names: &[String],
    scratch: &Scratch,
    report: &mut Report,
) -> io::Result<()> {
    java::build()?;
    let jdks = Jdk::all()?;
    if names.is_empty() {
        calls(&jdks, report)?;
        resources(&jdks, report)?;
    }
    agent::run(options, names, &jdks, scratch, report)?;
    if names.is_empty() { delays(options, scratch, report) } else { Ok(()) }
}

/// Runs a part in a separate process and returns its figures. The process is separate, because a
/// process can have only one JVM.
fn figures(jdk: &Jdk, part: Part, more: &[&str]) -> io::Result<Figures> {
    progress(&format!("operators: {part:?} on Java {}", jdk.version));
    let own = std::env::current_exe()?;
    let output = Command::new(own)
        .arg("operator-part")
        .arg(&jdk.home)
        .arg(part.name())
        .args(more)
        .output()?;
    if !output.status.success() {
        return Err(io::Error::other(String::from_utf8_lossy(&output.stderr).into_owned()));
    }
    Ok(Figures::read(&String::from_utf8_lossy(&output.stdout)))
}

fn calls(jdks: &[Jdk], report: &mut Report) -> io::Result<()> {
    let mut columns = vec!["call".to_owned()];
    columns.extend(jdks.iter().map(|jdk| format!("ns, Java {}", jdk.version)));
    let columns: Vec<&str> = columns.iter().map(String::as_str).collect();
    let mut table = Table::new("calls", "Calls into Java, from one thread", &columns);
    let found: Vec<Figures> =
        jdks.iter().map(|jdk| figures(jdk, Part::Calls, &[])).collect::<io::Result<_>>()?;
    let processes: Vec<Figures> = jdks
        .iter()
        .map(|jdk| figures(jdk, Part::Calls, &["--process"]))
        .collect::<io::Result<_>>()?;
    let mut row = |title: String, name: &str| {
        let cells = found.iter().map(|figures| format!("{:.1}", figures.get(name)));
        table.row([title].into_iter().chain(cells).collect());
    };
    row("a method that does nothing".to_owned(), inside::NOOP);
    row("a byte to another thread and back by a Unix socket".to_owned(), inside::SOCKET);
    for (operator, _) in OPERATORS {
        for rows in BATCHES {
            row(
                format!("{operator}: per row of a batch of {rows}"),
                &inside::batch(operator, rows),
            );
        }
    }
    let mut row = |title: String, name: &str| {
        let cells = processes.iter().map(|figures| format!("{:.1}", figures.get(name)));
        table.row([title].into_iter().chain(cells).collect());
    };
    row("in a separate process: a method that does nothing".to_owned(), inside::NOOP);
    for (operator, _) in OPERATORS {
        let title = format!("in a separate process: {operator}: per row of a batch of 1000");
        row(title, &inside::batch(operator, 1_000));
    }
    table.note("Of a separate process: wall time of one thread that calls.".to_owned());
    table.note(
        "CPU time of the process, collections included, after two seconds of the same. Rows have 184 bytes; each \
         operator reads the message and sets two fields, `nothing` sees the batch alone. Both ends of the socket \
         share a core."
            .to_owned(),
    );
    report.add(table)?;
    let curve = |(operator, _): &(&str, _)| {
        jdks.iter()
            .zip(&found)
            .map(|(jdk, figures)| Series {
                label: format!("{operator}, Java {}", jdk.version),
                points: BATCHES
                    .iter()
                    .map(|rows| {
                        (f64::from(*rows).log10(), figures.get(&inside::batch(operator, *rows)))
                    })
                    .collect(),
            })
            .collect::<Vec<_>>()
    };
    let axes = Axes {
        title: "A call by the size of its batch",
        x: "rows",
        y: "ns per row",
        x_label: &|x: &f64| format!("{:.0}", 10_f64.powf(*x)),
    };
    report.plot("operator_batches", &axes, &OPERATORS.iter().flat_map(curve).collect::<Vec<_>>())
}

fn resources(jdks: &[Jdk], report: &mut Report) -> io::Result<()> {
    let mut columns = vec!["what".to_owned()];
    columns.extend(jdks.iter().map(|jdk| format!("Java {}", jdk.version)));
    columns.push("target".to_owned());
    let columns: Vec<&str> = columns.iter().map(String::as_str).collect();
    let mut table = Table::new("resources", "What the JVM and a thousand rules take", &columns);
    for (part, lines) in [(Part::Memory, inside::MEMORY), (Part::Rules, inside::RULES)] {
        let found: Vec<Figures> =
            jdks.iter().map(|jdk| figures(jdk, part, &[])).collect::<io::Result<_>>()?;
        for (name, target) in lines {
            let cells = found.iter().map(|figures| format!("{:.1}", figures.get(name)));
            let first = [(*name).to_owned()].into_iter();
            table.row(first.chain(cells).chain([(*target).to_owned()]).collect());
        }
    }
    table.note(
        "Memory is the increase in a process with a heap of 128 MiB; times are wall times. Each rule searches the \
         message for a word, and sets a field where it finds the word."
            .to_owned(),
    );
    report.add(table)
}

/// Measures the delay of an operator's events while other operators wait.
fn delays(options: &Options, scratch: &Scratch, report: &mut Report) -> io::Result<()> {
    let columns = ["threads", "events", "delay p50 ms", "p99", "max"];
    let mut table = Table::new("operator_delays", "An operator beside slow ones", &columns);
    for header in Header::read_folder(&options.folder.join("operators_delay"), &[])? {
        let delays = fleet::delays(options, &header, scratch)?;
        let at = |quantile| crate::measure::sorted_quantile(&delays, quantile).unwrap_or(f64::NAN);
        let cells = [at(0.5), at(0.99), at(1.0)].map(|delay| format!("{delay:.1}"));
        let first = [header.name.clone(), delays.len().to_string()];
        table.row(first.into_iter().chain(cells).collect());
        table.note(format!("{}: {}.", header.name, header.text("title")));
    }
    report.add(table)
}
