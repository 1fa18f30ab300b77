//! Measures the cost of the recorder at the start of a JVM.

use super::{JAR, Measured};
use crate::measure::{Samples, pinned, progress};
use crate::operators::Jdk;
use crate::plot::Bars;
use crate::report::{Report, Table};
use std::io::{self, BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

/// Number of starts per way.
const STARTS: usize = 20;
const QUICK_STARTS: usize = 5;

/// Text that the program prints in its main method.
const READY: &str = "ready";

/// Ways to start the recorder: a name, JVM options, program arguments.
const WAYS: [(&str, &[&str], &[&str]); 3] = [
    ("without JFR", &[], &[]),
    ("-XX:StartFlightRecording", &["-XX:StartFlightRecording:settings=default"], &[]),
    ("in-process, by a thread", &[], &["async"]),
];

/// Wall times of one way in milliseconds.
#[derive(Default)]
pub struct Times {
    /// Time from the start until the main method prints.
    ready: Samples,
    /// Time from the start until the process has ended.
    end: Samples,
}

/// Times of each way.
pub type Starts = [Times; WAYS.len()];

/// Measures the starts; the ways alternate.
pub fn measure(
    is_quick: bool,
    cores: [usize; 2],
    (java, jdk): (&str, &Jdk),
    temporary: &Path,
) -> io::Result<Starts> {
    let mut starts = Starts::default();
    for index in 1..=count(is_quick) {
        progress(&format!("jfr_events: {java} start {index}"));
        for (times, (_, options, arguments)) in starts.iter_mut().zip(WAYS) {
            let mut command = Command::new(super::java(jdk));
            command.arg(format!("-Djava.io.tmpdir={}", temporary.display())).args(options);
            command.args(["-cp", JAR, "dev.millstream.benchmarks.StartUp"]).args(arguments);
            let (ready, end) = start(&mut command, cores)?;
            times.ready.push(ready);
            times.end.push(end);
        }
    }
    Ok(starts)
}

fn count(is_quick: bool) -> usize {
    if is_quick { QUICK_STARTS } else { STARTS }
}

/// Runs the program; returns the milliseconds until it prints and until it has ended.
fn start(command: &mut Command, cores: [usize; 2]) -> io::Result<(f64, f64)> {
    command.stdout(Stdio::piped()).stderr(Stdio::null());
    let (begun, mut child) = pinned(&cores, || Ok((Instant::now(), command.spawn()?)))?;
    let elapsed = || begun.elapsed().as_secs_f64() * 1e3;
    let mut ready = None;
    for line in child.stdout.take().into_iter().flat_map(|out| BufReader::new(out).lines()) {
        if line? == READY {
            ready = Some(elapsed());
        }
    }
    let is_success = child.wait()?.success();
    let end = elapsed();
    let ready = ready.filter(|_| is_success);
    ready.map(|ready| (ready, end)).ok_or_else(|| io::Error::other(format!("failed: {command:?}")))
}

/// Reports the times, and the time that the recorder adds.
pub fn report(measured: &[Measured], is_quick: bool, report: &mut Report) -> io::Result<()> {
    let mut columns = vec!["recorder".to_owned()];
    for Measured { java, .. } in measured {
        let names = ["main method ms", "range", "end ms", "range"];
        columns.extend(names.map(|name| format!("{java}: {name}")));
    }
    let columns: Vec<&str> = columns.iter().map(String::as_str).collect();
    let title = "The start of a program that prints a word";
    let mut table = Table::new("jfr_start_up", title, &columns);
    for (index, (name, ..)) in WAYS.iter().enumerate() {
        let mut cells = vec![(*name).to_owned()];
        for Measured { starts, .. } in measured {
            for samples in [&starts[index].ready, &starts[index].end] {
                cells.push(format!("{:.0}", samples.median()));
                cells.push(format!("{:.0} to {:.0}", samples.min(), samples.max()));
            }
        }
        table.row(cells);
    }
    table.note(format!(
        "Wall time from the start of the process until its main method prints, and until it has ended: medians of {} \
         starts, and their range. Settings `default`, recordings in memory. The thread starts in the main method, and \
         the process ends after it.",
        count(is_quick)
    ));
    measured.iter().for_each(|measured| table.note(added(measured)));
    report.add(table)?;
    plot(measured, report)
}

/// Describes the time that each way adds.
fn added(Measured { java, starts, .. }: &Measured) -> String {
    let [without, ways @ ..] = starts;
    let said = ways.iter().zip(&WAYS[1..]).map(|(times, (name, ..))| {
        let more = |with: &Samples, without: &Samples| with.median() - without.median();
        let (ready, end) = (more(&times.ready, &without.ready), more(&times.end, &without.end));
        format!("{name} {ready:+.0} ms until the main method prints, {end:+.0} ms until the end")
    });
    format!("{java}: {}.", said.collect::<Vec<_>>().join("; "))
}

fn plot(measured: &[Measured], report: &mut Report) -> io::Result<()> {
    let phase = |name: &str, of: fn(&Times) -> &Samples| {
        let bars = measured.iter().map(move |measured| Bars {
            label: format!("{}: {name}", measured.java).leak(),
            values: measured.starts.iter().map(|times| of(times).median()).collect(),
        });
        bars.collect::<Vec<_>>()
    };
    let mut series = phase("main method", |times| &times.ready);
    series.extend(phase("end", |times| &times.end));
    let labels = WAYS.map(|(name, ..)| name.to_owned());
    report.bars("jfr_start_up", "Start of a program, ms", &labels, &series)
}
