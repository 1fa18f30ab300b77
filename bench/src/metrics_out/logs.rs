//! Measures logs over HTTP: a file as compressed JSON lines to an endpoint that only reads,
//! compared with the compressor alone.

use super::compressed::Least;
use crate::Options;
use crate::endpoint::Endpoint;
use crate::header::Header;
use crate::measure::{Samples, progress};
use crate::metrics::program::Bench;
use crate::peers::Target;
use crate::plot::Bars;
use crate::process::{Outcome, Program, Subject};
use crate::report::{Report, Table};
use crate::scratch::Input;
use crate::variables::Variables;
use std::io;

const COLUMNS: &[&str] = &[
    "scenario",
    "MB of lines",
    "MB before compression",
    "MB sent",
    "requests",
    "CPU s",
    "min",
    "max",
    "compressor alone, CPU s",
    "ratio",
    "target",
    "MB of JSON per CPU s",
    "events missing",
    "peak RSS MB",
];
/// Size of the web log, in megabytes.
const INPUT_MB: usize = 256;

#[derive(Default)]
struct Measured {
    full: Samples,
    empty: Samples,
    compressor: Samples,
    rss_mb: Samples,
    least: Least,
    missing: u64,
}

/// Measures the scenario and returns its targets.
pub fn run(
    options: &Options,
    scenario: &Header,
    bench: &Bench<'_>,
    report: &mut Report,
) -> io::Result<Vec<Vec<String>>> {
    let mb = options.input_mb.map_or_else(|| scenario.count("input_mb", INPUT_MB), Ok)?;
    let (input, empty) =
        (Input::weblog(bench.scratch, mb * 1_000_000, 1)?, Input::empty(bench.scratch)?);
    let mut measured = Measured::default();
    for repetition in 1..=scenario.count("repetitions", options.repetitions)? {
        progress(&format!("metrics-out: {}, {repetition}", scenario.name));
        measured.empty.push(once(options, scenario, &empty, bench)?.0.cpu_seconds);
        let (outcome, endpoint) = once(options, scenario, &input, bench)?;
        let bodies = endpoint.take();
        measured.least = Least::of(&bodies)?;
        measured.full.push(outcome.cpu_seconds);
        measured.rss_mb.push(outcome.peak_rss_bytes as f64 / 1e6);
        measured.compressor.push(measured.least.compress_seconds);
        let lines = |plain: Vec<u8>| millstream_scan::count_newlines(&plain) as u64;
        let arrived = bodies.iter().map(|body| body.plain().map(lines)).sum::<io::Result<u64>>()?;
        measured.missing += input.lines.saturating_sub(arrived);
    }
    Input::remove(bench.scratch)?;
    let target = scenario.required("target_ratio")?;
    report.add(measured.table(scenario, &input, target))?;
    plot(&measured, report)?;
    let ratio =
        Target::least("speed, times the compressor alone".to_owned(), measured.ratio(), target);
    let missing = Target::most("events missing", measured.missing as f64, 0.0);
    Ok([ratio, missing].map(|target| target.cells(&scenario.name)).to_vec())
}

fn once(
    options: &Options,
    scenario: &Header,
    input: &Input,
    bench: &Bench<'_>,
) -> io::Result<(Outcome, Endpoint)> {
    let endpoint = Endpoint::start(bench.load_core)?;
    let variables = Variables::fresh(bench.scratch, &input.path)?
        .with("ENDPOINT", &endpoint.address.to_string());
    let subject = Subject::agent(&options.agent, "--until-eof", scenario);
    let outcome = Program::start(&subject, &variables, &[bench.core])?.wait(input.lines)?;
    Ok((outcome, endpoint))
}

impl Measured {
    fn busy_seconds(&self) -> f64 {
        self.full.median() - self.empty.median()
    }

    fn ratio(&self) -> f64 {
        self.compressor.median() / self.busy_seconds()
    }

    fn table(&self, scenario: &Header, input: &Input, target: f64) -> Table {
        let mut table = Table::new("metrics_out_logs", "Logs over HTTP, one core", COLUMNS);
        let idle = self.empty.median();
        let mut cells = vec![scenario.name.clone()];
        let sizes =
            [input.bytes as f64, self.least.plain_bytes as f64, self.least.sent_bytes as f64];
        cells.extend(sizes.map(|bytes| format!("{:.1}", bytes / 1e6)));
        cells.push(self.least.requests.to_string());
        let seconds = [self.full.median(), self.full.min(), self.full.max()];
        cells.extend(seconds.map(|seconds| format!("{:.3}", seconds - idle)));
        cells.push(format!("{:.3}", self.compressor.median()));
        cells.extend([format!("{:.2}", self.ratio()), format!(">= {target}")]);
        cells.push(format!("{:.0}", self.least.plain_bytes as f64 / 1e6 / self.busy_seconds()));
        cells.extend([self.missing.to_string(), format!("{:.1}", self.rss_mb.max())]);
        table.row(cells);
        table.note(format!("{}: {}.", scenario.name, scenario.text("title")));
        table.note(
            "CPU s less the run over an empty file. The compressor alone has the same requests in memory, one by one."
                .to_owned(),
        );
        table
    }
}

fn plot(measured: &Measured, report: &mut Report) -> io::Result<()> {
    let mb = measured.least.plain_bytes as f64 / 1e6;
    let values = vec![mb / measured.busy_seconds(), mb / measured.compressor.median()];
    let labels = ["agent".to_owned(), "compressor alone".to_owned()];
    report.bars(
        "metrics_out_logs",
        "MB of JSON per CPU second, over HTTP",
        &labels,
        &[Bars { label: "", values }],
    )
}
