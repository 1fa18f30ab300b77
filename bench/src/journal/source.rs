//! The `journald` source over a folder of journal files, as a process, compared with `journalctl`.

use super::{ENTRIES, journalctl, write};
use crate::Options;
use crate::measure::{Samples, pinned, progress};
use crate::process::{AGENT, Program, Subject};
use crate::report::{Report, Table};
use crate::scratch::Scratch;
use crate::variables::Variables;
use std::io;
use std::path::Path;

/// Number of files in the folder.
const FILES: u64 = 4;

/// Minimum entries per CPU second.
const PER_SECOND_MIN: f64 = 200_000.0;

/// Minimum ratio to the entries per CPU second of journalctl.
const RATIO_MIN: f64 = 10.0;

/// Bytes of an entry as JSON, at most.
const JSON_BYTES: u64 = 1500;

const BLACKHOLE: &str = "data_dir: ${BENCH_DATA}
api: { listen: \"127.0.0.1:0\" }
sources:
  host: { type: journald, path: \"${BENCH_INPUT}\" }
sinks:
  out: { type: blackhole, inputs: [host], report: 1s }
";

const JSON: &str = "data_dir: ${BENCH_DATA}
api: { listen: \"127.0.0.1:0\" }
sources:
  host: { type: journald, path: \"${BENCH_INPUT}\" }
sinks:
  out: { type: file, inputs: [host], path: \"${BENCH_OUTPUT}\" }
";

const COLUMNS: &[&str] =
    &["program", "per CPU second", "min", "max", "times journalctl", "lost", "target"];

/// The agent with a configuration, and its results.
struct Run {
    name: &'static str,
    config: &'static str,
    speed: Samples,
    lost: u64,
}

impl Run {
    fn new(name: &'static str, config: &'static str) -> Self {
        Run { name, config, speed: Samples::default(), lost: 0 }
    }

    /// Reads the folder once.
    fn repeat(&mut self, options: &Options, folder: &Path, scratch: &Scratch) -> io::Result<()> {
        let variables = Variables::fresh(scratch, folder)?;
        let run = format!("{} run -c ${{BENCH_CONFIG}} --until-eof", options.agent.display());
        let subject = Subject { name: AGENT, run, until: "", env: "", config: self.config };
        scratch.warm_memory(FILES * ENTRIES * JSON_BYTES)?;
        let outcome = Program::start(&subject, &variables, &[options.core])?.wait(0)?;
        self.speed.push((FILES * ENTRIES) as f64 / outcome.cpu_seconds);
        self.lost += (FILES * ENTRIES).abs_diff(outcome.lines);
        Ok(())
    }

    fn cells(&self, peer: f64) -> Vec<String> {
        let ratio = self.speed.median() / peer;
        let is_met = self.speed.median() >= PER_SECOND_MIN && ratio >= RATIO_MIN && self.lost == 0;
        let mut cells = row(self.name, &self.speed, ratio);
        cells.push(self.lost.to_string());
        cells.push(format!(">= 200000, 10 times: {}", if is_met { "holds" } else { "MISSED" }));
        cells
    }
}

/// Returns the cells that all programs have.
fn row(name: &str, speed: &Samples, ratio: f64) -> Vec<String> {
    let speeds = [speed.median(), speed.min(), speed.max()].map(|speed| format!("{speed:.0}"));
    let mut cells = vec![name.to_owned()];
    cells.extend(speeds);
    cells.push(format!("{ratio:.1}"));
    cells
}

/// Measures the agent and journalctl by turns.
pub fn run(options: &Options, scratch: &Scratch, report: &mut Report) -> io::Result<()> {
    let folder = scratch.empty_folder("journal")?;
    for file in 0..FILES {
        progress(&format!("journal: file {file}"));
        write(&folder.join(format!("system@{file}.journal")), "1", file * ENTRIES)?;
    }
    let mut runs =
        [Run::new("journald to blackhole", BLACKHOLE), Run::new("journald to file, JSON", JSON)];
    let mut peer = Samples::default();
    for repetition in 1..=options.repetitions {
        for run in &mut runs {
            progress(&format!("journal: {}, {repetition}", run.name));
            run.repeat(options, &folder, scratch)?;
        }
        progress(&format!("journal: journalctl, {repetition}"));
        let seconds = pinned(&[options.core], || journalctl("--directory", &folder))?;
        peer.push((FILES * ENTRIES) as f64 / seconds);
    }
    let title = "Entries of the journal per CPU second, as processes on one core";
    let mut table = Table::new("journal_source", title, COLUMNS);
    runs.iter().for_each(|run| table.row(run.cells(peer.median())));
    let mut cells = row("journalctl -o json", &peer, 1.0);
    cells.resize(COLUMNS.len(), String::new());
    table.row(cells);
    table.note(format!(
        "{FILES} compact files with {ENTRIES} entries of 20 fields each. CPU time of the whole \
         process, in user mode and in the kernel, with its start; the output of journalctl is \
         discarded."
    ));
    report.add(table)
}
