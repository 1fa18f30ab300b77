//! Measures metrics over sockets: the agent compared with minimal loops and with peers, and under
//! loads that show the cost of merging, flushes and many series. The load runs on one core, the
//! receiver on another.

mod flush;
mod limit;
pub mod load;
mod merging;
mod pace;
mod probe;
pub mod program;
pub mod send;
mod socket;

use crate::Options;
use crate::header::Header;
use crate::measure::{Samples, progress};
use crate::peers::{TARGET_COLUMNS, Target, version};
use crate::plot::Bars;
use crate::process::{AGENT, Subject};
use crate::report::{Report, Table};
use crate::scratch::Scratch;
use crate::{points, points_parse, tags};
use limit::Limit;
use program::{Bench, Measured};
use std::io;

const COLUMNS: &[&str] = &[
    "scenario",
    "datagrams/s",
    "points/s",
    "CPU s",
    "points per CPU s",
    "min",
    "max",
    "lost",
    "lost %",
    "drops in the kernel",
    "buffer MiB",
    "RSS MB",
    "peak",
    "bytes per series",
];
/// Receive buffer that each program requests, in bytes.
const BUFFER_BYTES: usize = 8 << 20;
/// Default number of repetitions.
const REPETITIONS: usize = 3;

/// Measures the scenarios in `names`. If `names` is empty, measures tags and the store separately,
/// and then all scenarios.
pub fn run(
    options: &Options,
    names: &[String],
    scratch: &Scratch,
    report: &mut Report,
) -> io::Result<()> {
    let bench = Bench { scratch, core: options.core, load_core: options.load_core };
    let mut targets = Table::new("metrics_targets", "The targets of metrics", TARGET_COLUMNS);
    if names.is_empty() {
        let rows = [tags::run(report)?, points::run(report)?];
        points_parse::run(report)?;
        rows.into_iter().flatten().for_each(|row| targets.row(row));
    }
    let mut scenarios = Header::read_folder(&options.folder.join("metrics"), names)?;
    for scenario in scenarios.extract_if(.., |scenario| !scenario.text("part").is_empty()) {
        match scenario.text("part") {
            "merging" => merging::run(options, &scenario, &bench, report)?,
            "flush" => flush::run(options, &scenario, &bench, report)?
                .into_iter()
                .for_each(|row| targets.row(row)),
            part => {
                return Err(io::Error::other(format!(
                    "{}: there is no part {part}",
                    scenario.name
                )));
            }
        }
    }
    udp(options, &scenarios, &bench, report)?.into_iter().for_each(|row| targets.row(row));
    targets.note(format!(
        "Bytes per series are the growth of the resident set during the load; name and tags take {} of the target.",
        load::Content::context_bytes()
    ));
    report.add(targets)
}

/// Measures the scenarios that have no `part`, and returns their targets.
fn udp(
    options: &Options,
    scenarios: &[Header],
    bench: &Bench<'_>,
    report: &mut Report,
) -> io::Result<Vec<Vec<String>>> {
    if scenarios.is_empty() {
        return Ok(Vec::new());
    }
    let all: Vec<Vec<Runs>> = scenarios
        .iter()
        .map(|scenario| measure(options, scenario, bench))
        .collect::<io::Result<_>>()?;
    report.add(table(scenarios, &all, options)?)?;
    plot(scenarios, &all, report)?;
    let mut targets = Vec::new();
    for (scenario, runs) in scenarios.iter().zip(&all) {
        targets.extend(bars_of(scenario, runs)?.iter().map(|target| target.cells(&scenario.name)));
    }
    Ok(targets)
}

/// Results of all runs of one program or of the limit, in one scenario.
#[derive(Default)]
struct Runs {
    name: String,
    measured: Vec<Measured>,
    /// Error that ended the runs early.
    fault: Option<String>,
}

impl Runs {
    fn samples(&self, of: impl Fn(&Measured) -> f64) -> Samples {
        let mut samples = Samples::default();
        self.measured.iter().for_each(|measured| samples.push(of(measured)));
        samples
    }

    fn speed(&self) -> f64 {
        self.samples(Measured::points_per_cpu_s).median()
    }

    fn lost(&self) -> u64 {
        self.measured.iter().map(Measured::lost).sum()
    }

    fn bytes_per_series(&self, series: usize) -> f64 {
        self.samples(|run| run.rss_bytes[1].saturating_sub(run.rss_bytes[0]) as f64).median()
            / series as f64
    }

    fn granted_bytes(&self) -> usize {
        self.measured.iter().map(|run| run.granted_bytes).min().unwrap_or(0)
    }

    fn push(&mut self, run: io::Result<Measured>) {
        match run {
            Ok(measured) => self.measured.push(measured),
            Err(error) => self.fault = Some(error.to_string().replace('\n', "; ")),
        }
    }

    fn cells(&self, scenario: &Header) -> io::Result<Vec<String>> {
        let mut cells = vec![format!("{}: {}", scenario.name, self.name)];
        if self.measured.is_empty() {
            cells.resize(COLUMNS.len(), String::new());
            return Ok(cells);
        }
        let speed = self.samples(Measured::points_per_cpu_s);
        let mb = |of: fn(&Measured) -> u64| {
            format!("{:.1}", self.samples(|run| of(run) as f64 / 1e6).max())
        };
        let sent: u64 = self.measured.iter().map(|run| run.sent.counters).sum();
        let sent_per_s = self.samples(|run| run.sent.per_s()).median();
        let points_per_s = self.samples(|run| run.sent.points as f64 / run.sent.seconds).median();
        cells.extend([sent_per_s, points_per_s].map(|per_s| format!("{per_s:.0}")));
        cells.push(format!("{:.3}", self.samples(|run| run.cpu_seconds).median()));
        cells.extend(
            [speed.median(), speed.min(), speed.max()].map(|points| format!("{points:.0}")),
        );
        cells.push(self.lost().to_string());
        cells.push(format!("{:.3}", self.lost() as f64 * 100.0 / sent.max(1) as f64));
        cells.push(self.measured.iter().map(|run| run.drops).sum::<u64>().to_string());
        cells.push(format!("{:.1}", self.granted_bytes() as f64 / f64::from(1 << 20)));
        cells.extend([mb(|run| run.rss_bytes[1]), mb(|run| run.peak_rss_bytes)]);
        cells.push(format!("{:.0}", self.bytes_per_series(scenario.count("series", 1000)?)));
        Ok(cells)
    }
}

/// Runs the agent, the peers and the limit alternately, so that a change of the host's speed
/// affects all of them.
fn measure(options: &Options, scenario: &Header, bench: &Bench<'_>) -> io::Result<Vec<Runs>> {
    let subjects: Vec<(Subject<'_>, &str)> =
        std::iter::once((Subject::agent(&options.agent, "", scenario), scenario.text("counted")))
            .chain(scenario.peers.iter().map(|part| (Subject::peer(part), part.text("counted"))))
            .collect();
    let named = |name: &str| Runs { name: name.to_owned(), ..Runs::default() };
    let mut all: Vec<Runs> = subjects.iter().map(|(subject, _)| named(subject.name)).collect();
    let limit = scenario.text("limit");
    let mut limits = named(&format!("limit {limit}"));
    for (runs, (subject, _)) in all.iter_mut().zip(&subjects) {
        runs.fault = (!subject.is_installed()).then(|| "not installed".to_owned());
    }
    for repetition in 0..scenario.count("repetitions", REPETITIONS)? {
        if !limit.is_empty() {
            limits.measured.push(run_limit(Limit::named(limit)?, scenario, bench)?);
        }
        for (runs, (subject, counted)) in
            all.iter_mut().zip(&subjects).filter(|(of, _)| of.fault.is_none())
        {
            progress(&format!("metrics: {}, {}, {}", scenario.name, subject.name, repetition + 1));
            let variables = bench.variables()?;
            let load = program::load(scenario, &variables.fill("udp://127.0.0.1:${BENCH_UDP}")?)?;
            runs.push(bench.run(subject, counted, &variables, &load));
        }
    }
    all.extend((!limit.is_empty()).then_some(limits));
    Ok(all)
}

fn run_limit(limit: Limit, scenario: &Header, bench: &Bench<'_>) -> io::Result<Measured> {
    let running = limit.start(bench.core, BUFFER_BYTES)?;
    let load = program::load(scenario, &format!("udp://{}", running.address))?;
    let port = running.address.port();
    let granted_bytes = socket::granted_bytes(std::process::id(), port)?;
    let sent = load.run(bench.load_core)?;
    let drops = socket::row(port)?.map_or(0, |row| row.drops);
    let done = running.finish()?;
    let counted = sent.counters * done.datagrams / sent.datagrams.max(1);
    Ok(Measured {
        sent,
        cpu_seconds: done.cpu_seconds,
        drops,
        granted_bytes,
        counted,
        ..Measured::default()
    })
}

fn table(scenarios: &[Header], all: &[Vec<Runs>], options: &Options) -> io::Result<Table> {
    let mut table = Table::new("metrics", "Metrics over UDP, one core", COLUMNS);
    for (scenario, runs) in scenarios.iter().zip(all) {
        for runs in runs {
            table.row(runs.cells(scenario)?);
        }
        table.note(format!("{}: {}.", scenario.name, scenario.text("title")));
        for part in &scenario.peers {
            table.note(format!(
                "- {}: {}{}",
                part.name,
                part.text("title"),
                version(part.text("version"))
            ));
        }
        for runs in runs {
            if let Some(fault) = &runs.fault {
                table.note(format!("- {}: {fault}", runs.name));
            }
        }
    }
    table.note(format!(
        "Medians; lost points and drops are summed over the repetitions. The receiver is on core {}, the load on \
         core {}. The buffer is the one that the kernel grants, twice as large as requested.",
        options.core, options.load_core
    ));
    Ok(table)
}

fn plot(scenarios: &[Header], all: &[Vec<Runs>], report: &mut Report) -> io::Result<()> {
    for (scenario, runs) in scenarios.iter().zip(all).filter(|(_, runs)| runs.len() > 1) {
        let labels: Vec<String> = runs.iter().map(|runs| runs.name.clone()).collect();
        let values = runs.iter().map(|runs| runs.speed() / 1000.0).collect();
        let title = format!("Thousand points per CPU second: {}", scenario.text("title"));
        report.bars(
            &format!("metrics_{}", scenario.name),
            &title,
            &labels,
            &[Bars { label: "", values }],
        )?;
    }
    Ok(())
}

fn bars_of(scenario: &Header, all: &[Runs]) -> io::Result<Vec<Target>> {
    let none = Runs::default();
    let find = |name: &str| all.iter().find(|runs| runs.name == name).unwrap_or(&none);
    let (agent, series) = (find(AGENT), scenario.count("series", 1000)?);
    let mut targets = Vec::new();
    if let Some(target) = scenario.number("target_ratio")? {
        let limit = format!("limit {}", scenario.text("limit"));
        targets.push(Target::least(
            format!("points per CPU s, times {limit}"),
            agent.speed() / find(&limit).speed(),
            target,
        ));
    }
    for (peer, target) in scenario.pairs("target_peers")? {
        let ratio = agent.speed() / find(&peer).speed();
        targets.push(Target::least(format!("points per CPU s, times {peer}"), ratio, target));
    }
    for (peer, target) in scenario.pairs("target_memory_peers")? {
        let ratio = agent.bytes_per_series(series) / find(&peer).bytes_per_series(series);
        targets.push(Target::most(&format!("bytes per series, times {peer}"), ratio, target));
    }
    if let Some(target) = scenario.number("target_bytes_per_series")? {
        let target = target + load::Content::context_bytes() as f64;
        targets.push(Target::most("bytes per series", agent.bytes_per_series(series), target));
    }
    if let Some(target) = scenario.number("target_rss_mb")? {
        let peak = agent.samples(|run| run.peak_rss_bytes as f64 / 1e6).max();
        targets.push(Target::most("peak RSS MB", peak, target));
    }
    if let Some(target) = scenario.number("target_lost")? {
        let counts = agent.granted_bytes() >= BUFFER_BYTES;
        targets.push(Target::most(
            "points lost",
            if counts { agent.lost() as f64 } else { f64::NAN },
            target,
        ));
    }
    Ok(targets)
}
