//! Measures the agent with and without the recorder: over one big file, and at its start.

use crate::Options;
use crate::header::Header;
use crate::measure::{Samples, progress};
use crate::process::{Outcome, Program, Subject};
use crate::report::{Report, Table};
use crate::scratch::{Input, Scratch};
use crate::variables::Variables;
use std::io;

/// Maximum share that the recorder adds to the CPU time of `file_to_blackhole`.
const SHARE_MAX: f64 = 0.01;
/// Maximum milliseconds that the recorder adds to the start.
const START_MS_MAX: f64 = 1.0;

/// Number of runs over the big file per repetition.
const FILES: usize = 5;

/// Number of runs over an empty file per repetition. A start is short and needs many runs.
const STARTS: usize = 10;

/// Configurations of the agent without the recorder and with it.
struct Variants {
    scenario: Header,
    off: Header,
}

impl Variants {
    fn read(options: &Options, name: &str) -> io::Result<Variants> {
        let read = || Header::read_folder(&options.folder.join("scenarios"), &[name.to_owned()]);
        let (scenario, mut off) = (read()?.remove(0), read()?.remove(0));
        off.config.insert_str(0, "recorder: { enabled: false }\n");
        Ok(Variants { scenario, off })
    }
}

/// Measures the agent over the web log, and over an empty file.
pub fn run(options: &Options, scratch: &Scratch, report: &mut Report) -> io::Result<()> {
    let variants = Variants::read(options, "file_to_blackhole")?;
    let columns = ["measured", "recorder off", "on", "difference", "target"];
    let title = "The agent with the recorder, all events by default";
    let mut table = Table::new("recorder_agent", title, &columns);
    let (start, added_seconds) = start_row(options, &variants, scratch)?;
    table.row(start);
    table.row(file_row(options, &variants, added_seconds, scratch)?);
    table.note(format!(
        "Medians of {} repetitions with {STARTS} starts each; runs with and without the recorder alternate. The \
         difference is the median of the differences within a repetition; for the big file, the difference of \
         the start is subtracted.",
        options.repetitions
    ));
    report.add(table)
}

fn run_once(
    options: &Options,
    scenario: &Header,
    input: &Input,
    scratch: &Scratch,
) -> io::Result<Outcome> {
    let variables = Variables::fresh(scratch, &input.path)?;
    let subject = Subject::agent(&options.agent, "--until-eof", scenario);
    Program::start(&subject, &variables, &[options.core])?.wait(input.lines)
}

/// CPU seconds without and with the recorder, and the differences.
#[derive(Default)]
struct Compared {
    off: Samples,
    on: Samples,
    difference: Samples,
}

impl Compared {
    fn push(&mut self, [off, on]: [f64; 2]) {
        self.off.push(off);
        self.on.push(on);
        self.difference.push(on - off);
    }
}

/// Returns the minimum CPU seconds of several starts, without and with the recorder.
fn starts(options: &Options, variants: &Variants, scratch: &Scratch) -> io::Result<[f64; 2]> {
    let empty = Input::empty(scratch)?;
    let mut least = [f64::INFINITY; 2];
    for _ in 0..STARTS {
        for (least, scenario) in least.iter_mut().zip([&variants.off, &variants.scenario]) {
            *least = least.min(run_once(options, scenario, &empty, scratch)?.cpu_seconds);
        }
    }
    Ok(least)
}

/// Returns the table row, and the seconds that the recorder adds.
fn start_row(
    options: &Options,
    variants: &Variants,
    scratch: &Scratch,
) -> io::Result<(Vec<String>, f64)> {
    let mut compared = Compared::default();
    for repetition in 1..=options.repetitions {
        progress(&format!("recorder: start {repetition}/{}", options.repetitions));
        compared.push(starts(options, variants, scratch)?);
    }
    let ms = |seconds: &Samples| seconds.median() * 1e3;
    let added = ms(&compared.difference);
    let verdict = if added <= START_MS_MAX { "holds" } else { "MISSED" };
    let row = vec![
        "start and stop, CPU ms".to_owned(),
        format!("{:.2}", ms(&compared.off)),
        format!("{:.2}", ms(&compared.on)),
        format!("{added:.2} ms"),
        format!("<= {START_MS_MAX} ms: {verdict}"),
    ];
    Ok((row, compared.difference.median()))
}

fn file_row(
    options: &Options,
    variants: &Variants,
    start_seconds: f64,
    scratch: &Scratch,
) -> io::Result<Vec<String>> {
    let input = options.weblog(scratch)?;
    let mut compared = Compared::default();
    for repetition in 1..=options.repetitions * FILES {
        progress(&format!("recorder: file {repetition}/{}", options.repetitions * FILES));
        let off = run_once(options, &variants.off, &input, scratch)?.cpu_seconds;
        let on = run_once(options, &variants.scenario, &input, scratch)?.cpu_seconds;
        compared.push([off, on]);
    }
    let share = (compared.difference.median() - start_seconds) / compared.off.median();
    let verdict = if share < SHARE_MAX { "holds" } else { "MISSED" };
    Ok(vec![
        format!("file to blackhole, {} MB, CPU s", input.bytes / 1_000_000),
        format!("{:.3}", compared.off.median()),
        format!("{:.3}", compared.on.median()),
        format!("{:.2}%", share * 100.0),
        format!("< {:.0}%: {verdict}", SHARE_MAX * 100.0),
    ])
}
