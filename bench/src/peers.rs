//! Measures the agent and its peers with the same input, and scenarios that need a broker.

use crate::broker::Brokers;
use crate::header::Header;
use crate::measure::{Samples, pin, progress};
use crate::plot::Bars;
use crate::process::{AGENT, Outcome, Program, Subject};
use crate::report::{Report, Table};
use crate::scratch::{Input, Scratch};
use crate::variables::Variables;
use crate::{INPUT_MB, Options};
use std::io;
use std::process::Command;
use std::rc::Rc;

const COLUMNS: &[&str] = &[
    "scenario: program",
    "cores",
    "CPU s",
    "min",
    "max",
    "in the kernel",
    "MB per CPU s",
    "lines per CPU s",
    "wall s",
    "MB per wall s",
    "peak RSS MB",
    "lost",
    "repeated",
];
/// Columns of a table of [`Target::cells`].
pub const TARGET_COLUMNS: &[&str] = &["scenario: what", "measured", "target", "verdict"];

/// Results of one program in one scenario, by repetition.
struct Run<'a> {
    subject: Subject<'a>,
    /// Reason if the program was not measured.
    fault: Option<String>,
    /// CPU seconds for the input.
    full: Samples,
    /// CPU seconds for an empty file.
    empty: Samples,
    kernel: Samples,
    wall: Samples,
    rss_mb: Samples,
    lost: u64,
    repeated: u64,
}

/// Results of one program in one scenario, over all repetitions.
struct Figures {
    scenario: String,
    program: String,
    mb_per_cpu_s: f64,
    mb_per_wall_s: f64,
    rss_mb: f64,
    lost_or_repeated: u64,
}

/// State that the scenarios share.
struct Bench<'a> {
    options: &'a Options,
    scratch: &'a Scratch,
    /// The last input with its megabytes and its number of files.
    input: Option<((usize, usize), Rc<Input>)>,
    brokers: Brokers,
}

/// Measures the scenarios in `names`, or all scenarios with peers, with a broker, or with two
/// cores.
pub fn run(
    options: &Options,
    names: &[String],
    scratch: &Scratch,
    report: &mut Report,
) -> io::Result<()> {
    // The watching threads and the brokers must not run on the cores of the programs.
    pin(options.load_core)?;
    let mut bench =
        Bench { options, scratch, input: None, brokers: Brokers::new(options.load_core) };
    let mut scenarios = Header::read_folder(&options.folder.join("scenarios"), names)?;
    let has_more =
        |scenario: &Header| ["broker", "cores"].iter().any(|key| !scenario.text(key).is_empty());
    scenarios.retain(|scenario| !scenario.peers.is_empty() || has_more(scenario));
    let mut table = Table::new("peers", "The agent beside its peers", COLUMNS);
    let mut figures = Vec::new();
    for scenario in &scenarios {
        let input = &*bench.input(scenario)?;
        let mut runs = runs(options, scenario);
        bench.measure(scenario, input, &mut runs)?;
        for run in &runs {
            table.row(run.cells(scenario, input)?);
            figures.extend(run.figures(scenario, input));
        }
        notes(scenario, input, &runs, &mut table);
    }
    table.note(format!(
        "Medians of {}; CPU s, user and system, less the run over an empty file. Every program has the cores that \
         its scenario names; brokers run on core {}.",
        options.repetitions, options.load_core,
    ));
    report.add(table)?;
    for scenario in &scenarios {
        plot(scenario, &figures, report)?;
    }
    report.add(targets(&scenarios, &figures)?)
}

/// Returns the agent and the scenario's peers, and marks missing peers.
fn runs<'a>(options: &Options, scenario: &'a Header) -> Vec<Run<'a>> {
    let agent = Subject::agent(&options.agent, "--until-eof", scenario);
    let run = |subject: Subject<'a>| Run {
        fault: (!subject.is_installed())
            .then(|| "not installed, skipped; `make bench-peers` fetches it".to_owned()),
        subject,
        full: Samples::default(),
        empty: Samples::default(),
        kernel: Samples::default(),
        wall: Samples::default(),
        rss_mb: Samples::default(),
        lost: 0,
        repeated: 0,
    };
    std::iter::once(agent).chain(scenario.peers.iter().map(Subject::peer)).map(run).collect()
}

impl Bench<'_> {
    /// Returns the scenario's input. Reuses the last input if its size and its number of files are
    /// the same.
    fn input(&mut self, scenario: &Header) -> io::Result<Rc<Input>> {
        let default = self.options.input_mb.unwrap_or(INPUT_MB);
        let mb = self.options.input_mb.map_or_else(|| scenario.count("input_mb", default), Ok)?;
        let wanted = (mb, scenario.count("files", 1)?);
        let input = match self.input.take() {
            Some((of, input)) if of == wanted => input,
            _ => Rc::new(Input::weblog(self.scratch, mb * 1_000_000, wanted.1)?),
        };
        self.input = Some((wanted, input.clone()));
        Ok(input)
    }

    /// Runs all repetitions, alternating between the programs so that a change of the host's speed
    /// affects all of them. A program that fails is skipped in later repetitions.
    fn measure(&mut self, scenario: &Header, input: &Input, runs: &mut [Run]) -> io::Result<()> {
        let repetitions = self.options.repetitions;
        for repetition in 1..=repetitions {
            for run in runs.iter_mut().filter(|run| run.fault.is_none()) {
                progress(&format!(
                    "{}: {} {repetition}/{repetitions}",
                    scenario.name, run.subject.name
                ));
                if let Err(error) = self.repeat(scenario, input, run) {
                    run.fault = Some(error.to_string());
                }
            }
        }
        Ok(())
    }

    /// Runs a program once over an empty input and once over the input. A broker that has not been
    /// started yet is warmed up first.
    fn repeat(&mut self, scenario: &Header, input: &Input, run: &mut Run) -> io::Result<()> {
        let broker = scenario.text("broker");
        if !broker.is_empty() && self.brokers.is_cold(broker) {
            self.once(scenario, input, &run.subject)?;
        }
        let empty = Input::empty(self.scratch)?;
        run.empty.push(self.once(scenario, &empty, &run.subject)?.cpu_seconds);
        let outcome = self.once(scenario, input, &run.subject)?;
        run.full.push(outcome.cpu_seconds);
        run.kernel.push(outcome.kernel_seconds);
        run.wall.push(outcome.wall_seconds);
        run.rss_mb.push(outcome.peak_rss_bytes as f64 / 1e6);
        run.lost += input.lines.saturating_sub(outcome.lines);
        run.repeated += outcome.lines.saturating_sub(input.lines);
        Ok(())
    }

    fn once(&mut self, scenario: &Header, input: &Input, subject: &Subject) -> io::Result<Outcome> {
        let mut variables = Variables::fresh(self.scratch, &input.path)?;
        let topic = match scenario.text("broker") {
            "" => None,
            broker => Some(self.brokers.topic(broker, scenario.count("partitions", 1)?)?),
        };
        if let Some(topic) = &topic {
            variables = variables.with_broker(&topic.address, &topic.name);
        }
        let output_bytes = input.bytes as f64 * scenario.number("output_ratio")?.unwrap_or(0.0);
        if output_bytes > 0.0 {
            self.scratch.warm_memory(output_bytes as u64)?;
        }
        let cores = &self.options.cores()[..scenario.count("cores", 1)?.clamp(1, 2)];
        let outcome = Program::start(subject, &variables, cores)
            .and_then(|program| program.wait(input.lines));
        let arrived = topic.map(|topic| self.brokers.take(&topic));
        self.scratch.empty_folder("out")?;
        outcome.map(|outcome| Outcome { lines: arrived.unwrap_or(outcome.lines), ..outcome })
    }
}

impl Run<'_> {
    /// Returns the CPU seconds for the input, without the program's startup and shutdown.
    fn busy_seconds(&self) -> f64 {
        self.full.median() - self.empty.median()
    }

    fn figures(&self, scenario: &Header, input: &Input) -> Option<Figures> {
        let mb = input.bytes as f64 / 1e6;
        self.fault.is_none().then(|| Figures {
            scenario: scenario.name.clone(),
            program: self.subject.name.to_owned(),
            mb_per_cpu_s: mb / self.busy_seconds(),
            mb_per_wall_s: mb / self.wall.median(),
            rss_mb: self.rss_mb.max(),
            lost_or_repeated: self.lost + self.repeated,
        })
    }

    fn cells(&self, scenario: &Header, input: &Input) -> io::Result<Vec<String>> {
        let mut cells = vec![
            format!("{}: {}", scenario.name, self.subject.name),
            scenario.count("cores", 1)?.to_string(),
        ];
        let Some(figures) = self.figures(scenario, input) else {
            cells.resize(COLUMNS.len(), String::new());
            return Ok(cells);
        };
        let idle = self.empty.median();
        let seconds = [self.full.median(), self.full.min(), self.full.max()];
        cells.extend(seconds.map(|seconds| format!("{:.3}", seconds - idle)));
        cells.extend([
            format!("{:.3}", self.kernel.median()),
            format!("{:.0}", figures.mb_per_cpu_s),
            format!("{:.0}", input.lines as f64 / self.busy_seconds()),
            format!("{:.2}", self.wall.median()),
            format!("{:.0}", figures.mb_per_wall_s),
            format!("{:.1}", figures.rss_mb),
            self.lost.to_string(),
            self.repeated.to_string(),
        ]);
        Ok(cells)
    }
}

/// Reports the scenario, the versions, and programs that could not be measured.
fn notes(scenario: &Header, input: &Input, runs: &[Run], table: &mut Table) {
    let mb = input.bytes / 1_000_000;
    table.note(format!(
        "{}: {}; {mb} MB, {} lines.",
        scenario.name,
        scenario.text("title"),
        input.lines
    ));
    for part in &scenario.peers {
        let version = version(part.text("version"));
        table.note(format!("- {}: {}{version}", part.name, part.text("title")));
    }
    for run in runs {
        if let Some(fault) = &run.fault {
            table.note(format!("- {}: {}", run.subject.name, fault.replace('\n', "; ")));
        }
    }
}

/// Returns the version that a command prints, in parentheses, or an empty string.
pub fn version(command: &str) -> String {
    let mut words = command.split_whitespace();
    let Some(program) = words.next() else { return String::new() };
    let output =
        Command::new(program).args(words).output().map(|output| output.stdout).unwrap_or_default();
    let text = String::from_utf8_lossy(&output).into_owned();
    let is_version =
        |word: &&str| word.contains('.') && word.starts_with(|c: char| c.is_ascii_digit());
    let found = text.split_whitespace().find(is_version);
    found.map_or(String::new(), |version| format!(" ({version})"))
}

/// Draws a plot of a scenario with peers.
fn plot(scenario: &Header, figures: &[Figures], report: &mut Report) -> io::Result<()> {
    let here: Vec<&Figures> = figures.iter().filter(|of| of.scenario == scenario.name).collect();
    if here.len() < 2 {
        return Ok(());
    }
    let labels: Vec<String> = here.iter().map(|of| of.program.clone()).collect();
    let values = here.iter().map(|of| of.mb_per_cpu_s).collect();
    let series = [Bars { label: "", values }];
    let title = format!("MB per CPU second: {}", scenario.text("title"));
    report.bars(&format!("peers_{}", scenario.name), &title, &labels, &series)
}

/// A target of a scenario.
pub struct Target {
    what: String,
    measured: f64,
    target: f64,
    /// Whether the target is a minimum rather than a maximum.
    is_least: bool,
}

impl Target {
    /// Creates a target of at least `target`.
    pub fn least(what: String, measured: f64, target: f64) -> Self {
        Target { what, measured, target, is_least: true }
    }

    /// Creates a target of at most `target`.
    pub fn most(what: &str, measured: f64, target: f64) -> Self {
        Target { what: what.to_owned(), measured, target, is_least: false }
    }

    /// Returns the target's name, the measured value (NaN if unmeasured), the target value and the
    /// verdict.
    pub fn cells(&self, scenario: &str) -> Vec<String> {
        let (sign, met) = if self.is_least {
            (">=", self.measured >= self.target)
        } else {
            ("<=", self.measured <= self.target)
        };
        let verdict = match (self.measured.is_nan(), met) {
            (true, _) => "not measured",
            (false, true) => "holds",
            (false, false) => "MISSED",
        };
        vec![
            format!("{scenario}: {}", self.what),
            format!("{:.2}", self.measured),
            format!("{sign} {}", self.target),
            verdict.to_owned(),
        ]
    }
}

/// Returns a table with a row for each target of each scenario.
fn targets(scenarios: &[Header], figures: &[Figures]) -> io::Result<Table> {
    let mut table = Table::new("targets", "The targets", TARGET_COLUMNS);
    for scenario in scenarios {
        for target in bars_of(scenario, figures)? {
            table.row(target.cells(&scenario.name));
        }
    }
    table.note("Ratios are between the medians in the table above.".to_owned());
    Ok(table)
}

fn bars_of(scenario: &Header, figures: &[Figures]) -> io::Result<Vec<Target>> {
    let find = |scenario: &str, program: &str| {
        figures.iter().find(|of| of.scenario == scenario && of.program == program)
    };
    let agent = find(&scenario.name, AGENT);
    let by_wall = scenario.text("measure") == "wall";
    let unit = if by_wall { "MB per wall s" } else { "MB per CPU s" };
    let speed = |of: Option<&Figures>| {
        of.map_or(f64::NAN, |of| if by_wall { of.mb_per_wall_s } else { of.mb_per_cpu_s })
    };
    let mut targets = Vec::new();
    for (peer, target) in scenario.pairs("target_peers")? {
        let ratio = speed(agent) / speed(find(&scenario.name, &peer));
        targets.push(Target::least(format!("{unit}, times {peer}"), ratio, target));
    }
    for (other, target) in scenario.pairs("target_scenarios")? {
        let ratio = speed(agent) / speed(find(&other, AGENT));
        targets.push(Target::least(format!("{unit}, times {other}"), ratio, target));
    }
    let measured = |of: fn(&Figures) -> f64| agent.map_or(f64::NAN, of);
    if let Some(target) = scenario.number("target_mb_per_s")? {
        targets.push(Target::least(
            "MB per wall s".to_owned(),
            measured(|of| of.mb_per_wall_s),
            target,
        ));
    }
    if let Some(target) = scenario.number("target_rss_mb")? {
        targets.push(Target::most("peak RSS MB", measured(|of| of.rss_mb), target));
    }
    targets.push(Target::most(
        "lines lost or repeated",
        measured(|of| of.lost_or_repeated as f64),
        0.0,
    ));
    Ok(targets)
}
