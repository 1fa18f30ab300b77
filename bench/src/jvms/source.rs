//! Measures the `jfr` source in MB of recordings per CPU second, compared with `jfr print` on the
//! same file.

use super::CLASSES;
use crate::Options;
use crate::measure::{Samples, progress};
use crate::operators::Jdk;
use crate::plot::Bars;
use crate::process::{Outcome, Program, Subject};
use crate::report::{Report, Table};
use crate::scratch::Scratch;
use crate::variables::Variables;
use std::fs;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Duration of the recorded load in seconds.
const RECORDED_SECONDS: &str = "15";

/// Size of the agent's input file.
const INPUT_BYTES: usize = 400_000_000;

/// Size of the input file for the JDK's tool, which is slower.
const TOOL_BYTES: usize = 25_000_000;

/// Minimum MB per CPU second.
const TARGET: f64 = 100.0;

/// JFR settings that record the events of the load with any duration.
const SETTINGS: &str = "settings=profile,jdk.SocketRead#threshold=0ms,jdk.SocketWrite#threshold=0ms,\
                        jdk.FileRead#threshold=0ms,jdk.FileWrite#threshold=0ms";

/// Types of events that the source reads, as an argument of the tool.
const EVENTS: &str = "SocketRead,SocketWrite,FileRead,FileWrite,FileForce,GarbageCollection,GCPhasePause,\
                      ExecuteVMOperation,JavaMonitorEnter,CPULoad";

/// Source settings for each measured way to read.
const WAYS: [(&str, &str); 2] = [
    ("metrics", "log_threshold: off"),
    (
        "metrics, a log event with a stack for each call from 5 ms on",
        "log_threshold: 5ms, stack: true",
    ),
];

/// Measures the recordings of each JDK.
pub fn run(
    options: &Options,
    jdks: &[Jdk],
    scratch: &Scratch,
    report: &mut Report,
) -> io::Result<()> {
    let columns = [
        "recorded by",
        "read by",
        "MB per CPU second",
        "range",
        "of the tool",
        "target",
        "verdict",
    ];
    let mut table = Table::new("jfr_source", "Source `jfr`: recordings read by one core", &columns);
    let (mut labels, mut heights) = (Vec::new(), Vec::new());
    for jdk in jdks {
        progress(&format!("a recording of Java {}", jdk.version));
        let recorded = record(jdk, scratch)?;
        let tool = measure(options, (&recorded, TOOL_BYTES), scratch, |variables| {
            print(jdk, variables, options.core)
        })?;
        let java = format!("Java {}", jdk.version);
        row(&mut table, [&java, "`jfr print`"], &tool, None);
        labels.push(format!("{java}: jfr print"));
        heights.push(tool.median());
        for (way, settings) in WAYS {
            let agent = measure(options, (&recorded, INPUT_BYTES), scratch, |variables| {
                read(&options.agent, settings, variables, options.core)
            })?;
            row(&mut table, [&java, way], &agent, Some(tool.median()));
            labels.push(format!("{java}: {}", way.split(',').next().unwrap_or(way)));
            heights.push(agent.median());
        }
    }
    table.note(format!(
        "A load of writes, reads, allocations and collections, recorded for {RECORDED_SECONDS} s with the settings \
         `profile` and without thresholds; its chunks are repeated with other start times, since a chunk is read once. \
         The agent runs with --until-eof into a blackhole; its start is part of the time. The tool prints the same \
         types of events of a smaller file to /dev/null."
    ));
    report.add(table)?;
    let bars = [Bars { label: "MB per CPU second", values: heights }];
    report.bars("jfr_source", "Recordings read, MB per CPU second", &labels, &bars)
}

fn row(table: &mut Table, [java, by]: [&str; 2], samples: &Samples, tool: Option<f64>) {
    let of_agent = |text: String| if tool.is_some() { text } else { String::new() };
    let holds = if samples.median() >= TARGET { "holds" } else { "missed" };
    table.row(vec![
        java.to_owned(),
        by.to_owned(),
        format!("{:.1}", samples.median()),
        format!("{:.1} to {:.1}", samples.min(), samples.max()),
        of_agent(format!("{:.0}×", samples.median() / tool.unwrap_or(f64::NAN))),
        of_agent(format!("{TARGET}")),
        of_agent(holds.to_owned()),
    ]);
}

/// Measures repetitions of a program over a file of `bytes`; returns MB per CPU second.
fn measure(
    options: &Options,
    (recorded, bytes): (&[u8], usize),
    scratch: &Scratch,
    run: impl Fn(&Variables) -> io::Result<Outcome>,
) -> io::Result<Samples> {
    let input = scratch.path("input.jfr");
    let written = write_input(recorded, bytes, &input)?;
    let mut samples = Samples::default();
    for repetition in 1..=options.repetitions {
        progress(&format!("{} MB, repetition {repetition}", written / 1_000_000));
        let variables = Variables::fresh(scratch, &input)?;
        samples.push(written as f64 / 1e6 / run(&variables)?.cpu_seconds);
    }
    fs::remove_file(&input)?;
    Ok(samples)
}

/// Records the load on a JDK and returns the recording.
fn record(jdk: &Jdk, scratch: &Scratch) -> io::Result<Vec<u8>> {
    let folder = scratch.empty_folder("recorded")?;
    let file = folder.join("load.jfr");
    let start = format!("-XX:StartFlightRecording:filename={},{SETTINGS}", file.display());
    let mut command = Command::new(jdk.home.join("bin/java"));
    command.arg(start).arg(format!("-Djava.io.tmpdir={}", folder.display()));
    command.args(["-cp", CLASSES, "dev.millstream.benchmarks.RecordedLoad", RECORDED_SECONDS]);
    let output = command.output()?;
    match output.status.success() {
        true => fs::read(file),
        false => Err(io::Error::other(String::from_utf8_lossy(&output.stderr).into_owned())),
    }
}

/// Writes the chunks of a recording repeatedly, each with a different start. Returns the number of
/// bytes.
fn write_input(recorded: &[u8], bytes: usize, path: &Path) -> io::Result<usize> {
    let mut file = BufWriter::new(fs::File::create(path)?);
    let (mut written, mut count) = (0, 0);
    while written < bytes {
        let mut rest = recorded;
        while !rest.is_empty() {
            let number =
                |at: usize| u64::from_be_bytes(rest[at..at + 8].try_into().unwrap_or_default());
            let (chunk, after) = rest.split_at(number(8) as usize);
            // Each chunk starts an hour after the one before.
            let start = number(32) + count * 3_600_000_000_000;
            file.write_all(&chunk[..32])?;
            file.write_all(&start.to_be_bytes())?;
            file.write_all(&chunk[40..])?;
            (rest, written, count) = (after, written + chunk.len(), count + 1);
        }
    }
    file.flush()?;
    Ok(written)
}

/// Reads the file with the agent.
fn read(agent: &Path, settings: &str, variables: &Variables, core: usize) -> io::Result<Outcome> {
    let config = format!(
        "data_dir: ${{BENCH_DATA}}\napi: {{ listen: '127.0.0.1:0' }}\n\
         sources: {{ jvms: {{ type: jfr, include: ['${{BENCH_INPUT}}'], {settings} }} }}\n\
         sinks: {{ out: {{ type: blackhole, inputs: [jvms] }} }}\n"
    );
    let run = format!("{} run -c ${{BENCH_CONFIG}} --until-eof", agent.display());
    let subject = Subject { name: "millstream", run, until: "", env: "", config: &config };
    Program::start(&subject, variables, &[core])?.wait(0)
}

/// Prints the file with the JDK's tool.
fn print(jdk: &Jdk, variables: &Variables, core: usize) -> io::Result<Outcome> {
    let tool: PathBuf = jdk.home.join("bin/jfr");
    let script =
        format!("exec {} print --events {EVENTS} ${{BENCH_INPUT}} >/dev/null\n", tool.display());
    let run = "sh ${BENCH_CONFIG}".to_owned();
    let subject = Subject { name: "jfr print", run, until: "", env: "", config: &script };
    Program::start(&subject, variables, &[core])?.wait(0)
}
