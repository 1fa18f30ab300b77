//! Measures the agent over one big file and compares each scenario with its limit.

use crate::Options;
use crate::header::Header;
use crate::limits::Limit;
use crate::measure::{Samples, progress};
use crate::plot::Bars;
use crate::process::{Outcome, Program, Subject};
use crate::report::{Report, Table};
use crate::scratch::{Input, Scratch};
use crate::variables::Variables;
use regex::bytes::Regex;
use std::fs::File;
use std::io::{self, BufRead, BufReader};

const COLUMNS: &[&str] = &[
    "scenario",
    "CPU s",
    "min",
    "max",
    "in the kernel",
    "GB per CPU s",
    "limit",
    "limit GB/s",
    "ratio",
    "target",
    "peak RSS MB",
    "RSS target",
    "lost",
    "repeated",
    "verdict",
];

/// Size of the inputs other than the web log, in megabytes. They are smaller because there are many
/// of them.
const MADE_MB: usize = 256;

/// Results of all repetitions of one scenario.
#[derive(Default)]
struct Measured {
    /// Size of the input in 10^9 bytes.
    gb: f64,
    /// CPU seconds for the input.
    full: Samples,
    /// The kernel's share of `full`: reads, writes, page faults.
    kernel: Samples,
    /// CPU seconds for an empty file.
    empty: Samples,
    /// CPU seconds of the limit for the input.
    limit: Samples,
    rss_mb: Samples,
    lost: u64,
    repeated: u64,
}

/// Measures the scenarios in `names`, or all scenarios.
pub fn run(
    options: &Options,
    names: &[String],
    weblog: &Input,
    scratch: &Scratch,
    report: &mut Report,
) -> io::Result<()> {
    let mut table = Table::new("agent", "The agent over one file, one core", COLUMNS);
    let mut results = Vec::new();
    let mut scenarios = Header::read_folder(&options.folder.join("scenarios"), names)?;
    scenarios
        .retain(|scenario| scenario.text("broker").is_empty() && scenario.text("cores").is_empty());
    for scenario in scenarios {
        let made = made_input(options, &scenario, scratch)?;
        let input = made.as_ref().unwrap_or(weblog);
        let measured = measure(options, &scenario, input, scratch)?;
        table.row(cells(&scenario, &measured)?);
        table.note(format!(
            "{}: {}; {} MB, {} events.",
            scenario.name,
            scenario.text("title"),
            input.bytes / 1_000_000,
            input.lines
        ));
        results.push((scenario, measured));
    }
    table.note(format!(
        "Medians of {}; CPU s minus the run over an empty file, except where the start itself is measured.",
        options.repetitions,
    ));
    report.add(table)?;
    results.retain(|(scenario, _)| !scenario.text("target_ratio").is_empty());
    plot(&results, report)
}

/// Returns the input of a scenario that does not use the web log.
fn made_input(
    options: &Options,
    scenario: &Header,
    scratch: &Scratch,
) -> io::Result<Option<Input>> {
    let kind = scenario.text("input");
    if kind.is_empty() {
        return Ok(None);
    }
    progress(&format!("agent: {}, input {kind}", scenario.name));
    let mb = options.input_mb.map_or_else(|| scenario.count("input_mb", MADE_MB), Ok)?;
    Input::made(scratch, kind, mb * 1_000_000).map(Some)
}

fn plot(results: &[(Header, Measured)], report: &mut Report) -> io::Result<()> {
    let values = |of: &dyn Fn(&Header, &Measured) -> io::Result<f64>| {
        results
            .iter()
            .map(|(scenario, measured)| of(scenario, measured))
            .collect::<io::Result<Vec<f64>>>()
    };
    let series = [
        Bars {
            label: "agent",
            values: values(&|_, measured| Ok(measured.gb / measured.busy_seconds()))?,
        },
        Bars {
            label: "its target",
            values: values(&|scenario, measured| {
                Ok(scenario.required("target_ratio")? * measured.gb / measured.limit.median())
            })?,
        },
        Bars {
            label: "the limit",
            values: values(&|_, measured| Ok(measured.gb / measured.limit.median()))?,
        },
    ];
    let labels: Vec<String> = results.iter().map(|(scenario, _)| scenario.name.clone()).collect();
    if labels.is_empty() {
        Ok(())
    } else {
        report.bars("agent", "GB of input per CPU second", &labels, &series)
    }
}

impl Measured {
    /// Returns the CPU seconds for the input, without the agent's startup and shutdown.
    fn busy_seconds(&self) -> f64 {
        self.full.median() - self.empty.median()
    }
}

/// The limit that a scenario is compared with.
enum Least {
    Loop(Limit),
    /// The agent with another scenario's configuration.
    Agent(Box<Header>),
}

impl Least {
    /// Returns `None` if the scenario has no limit; the run over the empty file is then measured
    /// instead.
    fn of(options: &Options, scenario: &Header) -> io::Result<Option<Least>> {
        match scenario.text("limit") {
            "" => Ok(None),
            name => match Limit::by_name(name) {
                Some(limit) => Ok(Some(Least::Loop(limit))),
                None => Header::read_folder(&options.folder.join("scenarios"), &[name.to_owned()])
                    .map(|mut found| Some(Least::Agent(Box::new(found.remove(0))))),
            },
        }
    }

    /// Measures the CPU seconds for `input`.
    fn run(
        &self,
        options: &Options,
        input: &Input,
        empty: &Input,
        scratch: &Scratch,
    ) -> io::Result<f64> {
        match self {
            Least::Loop(limit) => limit.run(input, scratch),
            Least::Agent(scenario) => {
                let idle = run_once(options, scenario, empty, scratch)?.cpu_seconds;
                Ok(run_once(options, scenario, input, scratch)?.cpu_seconds - idle)
            }
        }
    }
}

/// Measures the limit, and the agent over an empty file and over the input, alternately, so that a
/// change of the host's speed affects all three.
fn measure(
    options: &Options,
    scenario: &Header,
    input: &Input,
    scratch: &Scratch,
) -> io::Result<Measured> {
    let least = Least::of(options, scenario)?;
    let empty = Input::empty(scratch)?;
    let kept = kept(scenario, input)?;
    let mut measured = Measured { gb: input.bytes as f64 / 1e9, ..Measured::default() };
    for repetition in 1..=options.repetitions {
        progress(&format!("agent: {} {repetition}/{}", scenario.name, options.repetitions));
        if let Some(least) = &least {
            measured.limit.push(least.run(options, input, &empty, scratch)?);
        }
        let mut outcome = run_once(options, scenario, &empty, scratch)?;
        measured.empty.push(outcome.cpu_seconds);
        let mut expected = 0;
        if least.is_some() {
            if let Some(ratio) = scenario.number("output_ratio")? {
                scratch.warm_memory((input.bytes as f64 * ratio) as u64)?;
            }
            outcome = run_once(options, scenario, input, scratch)?;
            measured.full.push(outcome.cpu_seconds);
            measured.kernel.push(outcome.kernel_seconds);
            expected = kept;
        }
        measured.rss_mb.push(outcome.peak_rss_bytes as f64 / 1e6);
        measured.lost += expected.saturating_sub(outcome.lines);
        measured.repeated += outcome.lines.saturating_sub(expected);
    }
    Ok(measured)
}

/// Returns the expected number of events: all lines, or those that match the scenario's pattern
/// `keeps`.
fn kept(scenario: &Header, input: &Input) -> io::Result<u64> {
    if scenario.text("keeps").is_empty() {
        return Ok(input.lines);
    }
    let pattern = Regex::new(scenario.text("keeps")).map_err(io::Error::other)?;
    let (mut file, mut line, mut kept) = (BufReader::new(File::open(&input.path)?), Vec::new(), 0);
    while file.read_until(b'\n', &mut line)? > 0 {
        kept += u64::from(pattern.is_match(&line));
        line.clear();
    }
    Ok(kept)
}

fn run_once(
    options: &Options,
    scenario: &Header,
    input: &Input,
    scratch: &Scratch,
) -> io::Result<Outcome> {
    let variables = Variables::fresh(scratch, &input.path)?;
    let subject = Subject::agent(&options.agent, "--until-eof", scenario);
    let outcome = Program::start(&subject, &variables, &[options.core])?.wait(input.lines)?;
    scratch.empty_folder("out")?;
    Ok(outcome)
}

fn cells(scenario: &Header, measured: &Measured) -> io::Result<Vec<String>> {
    let (figures, met) = match scenario.text("limit") {
        "" => cpu_cells(scenario, measured)?,
        _ => throughput_cells(scenario, measured)?,
    };
    let rss_mb = measured.rss_mb.max();
    let rss_target = scenario.number("target_rss_mb")?;
    let met = met
        && rss_target.is_none_or(|target| rss_mb <= target)
        && measured.lost + measured.repeated == 0;
    let rest = [
        format!("{rss_mb:.1}"),
        rss_target.map_or(String::new(), |target| format!("<= {target}")),
        measured.lost.to_string(),
        measured.repeated.to_string(),
        if met { "holds" } else { "MISSED" }.to_owned(),
    ];
    Ok([vec![scenario.name.clone()], figures, rest.to_vec()].concat())
}

/// Returns the cells of a scenario that is compared with a limit, and whether its target is met.
fn throughput_cells(scenario: &Header, measured: &Measured) -> io::Result<(Vec<String>, bool)> {
    let target = scenario.number("target_ratio")?;
    let idle = measured.empty.median();
    let seconds = [measured.full.median(), measured.full.min(), measured.full.max()]
        .map(|seconds| seconds - idle);
    let ratio = measured.limit.median() / measured.busy_seconds();
    let gb = measured.gb;
    let mut cells = seconds.map(|seconds| format!("{seconds:.3}")).to_vec();
    cells.push(format!("{:.3}", measured.kernel.median()));
    cells.push(format!("{:.2}", gb / seconds[0]));
    cells.push(scenario.text("limit").to_owned());
    cells.push(format!("{:.2}", gb / measured.limit.median()));
    cells.push(format!("{ratio:.2}"));
    cells.push(target.map_or(String::new(), |target| format!(">= {target}")));
    Ok((cells, target.is_none_or(|target| ratio >= target)))
}

/// Returns the cells of a scenario whose CPU time is the result, and whether its target is met.
fn cpu_cells(scenario: &Header, measured: &Measured) -> io::Result<(Vec<String>, bool)> {
    let target_ms = scenario.required("target_cpu_ms")?;
    let samples = [measured.empty.median(), measured.empty.min(), measured.empty.max()];
    let mut cells = samples.map(|seconds| format!("{seconds:.4}")).to_vec();
    cells.extend(["", "", "", "", ""].map(str::to_owned));
    cells.push(format!("<= {target_ms} ms"));
    Ok((cells, samples[0] * 1e3 <= target_ms))
}
