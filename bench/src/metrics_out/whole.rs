//! Measures the whole path of points from a socket to Prometheus, by push and by scrape.

use super::remote_write::Series;
use crate::Options;
use crate::delivered;
use crate::endpoint::Endpoint;
use crate::header::Header;
use crate::measure::{Samples, progress};
use crate::metrics::program::{Bench, Measured, load};
use crate::peers::Target;
use crate::plot::Bars;
use crate::process::{AGENT, Subject};
use crate::report::{Report, Table};
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

const COLUMNS: &[&str] = &[
    "scenario",
    "points/s",
    "CPU s",
    "points per CPU s",
    "min",
    "max",
    "lost %",
    "drops in the kernel",
    "RSS MB",
    "peak",
    "requests or pages",
];
const REPETITIONS: usize = 2;
/// Interval between scrapes of a peer's page, which equals the interval between the agent's
/// requests.
const SCRAPE_EVERY: Duration = Duration::from_secs(5);
const LOOK: Duration = Duration::from_millis(50);
/// Text in the labels of the load's series, as Prometheus writes them.
const NAME: &str = "bench_requests";

/// Results of all runs of one program.
struct Runs {
    name: String,
    measured: Vec<Measured>,
    /// Requests that the program has sent, or pages scraped from it.
    requests: usize,
    fault: Option<String>,
}

/// Measures the agent and its peers and returns the targets.
pub fn run(
    options: &Options,
    scenario: &Header,
    bench: &Bench<'_>,
    report: &mut Report,
) -> io::Result<Vec<Vec<String>>> {
    let agent = Subject::agent(&options.agent, "", scenario);
    let subjects: Vec<(Subject<'_>, &str)> = std::iter::once((agent, ""))
        .chain(scenario.peers.iter().map(|part| (Subject::peer(part), part.text("counted"))))
        .collect();
    let mut all: Vec<Runs> = subjects.iter().map(|(subject, _)| Runs::of(subject)).collect();
    for repetition in 1..=scenario.count("repetitions", REPETITIONS)? {
        for (runs, (subject, counted)) in
            all.iter_mut().zip(&subjects).filter(|(runs, _)| runs.fault.is_none())
        {
            progress(&format!("metrics-out: {}, {}, {repetition}", scenario.name, subject.name));
            let run = if counted.is_empty() {
                sent(subject, scenario, bench)
            } else {
                scraped(subject, counted, scenario, bench)
            };
            runs.push(run);
        }
    }
    report.add(table(scenario, &all))?;
    plot(scenario, &all, report)?;
    targets(scenario, &all)
}

/// Runs a program that sends by remote write. Returns the results and the number of requests.
fn sent(subject: &Subject, scenario: &Header, bench: &Bench<'_>) -> io::Result<(Measured, usize)> {
    let endpoint = Endpoint::start(bench.load_core)?;
    let variables = bench.variables()?.with("ENDPOINT", &endpoint.address.to_string());
    let load = load(scenario, &variables.fill("udp://127.0.0.1:${BENCH_UDP}")?)?;
    let mut measured = bench.run(subject, "", &variables, &load)?;
    let (bodies, mut series) = (endpoint.take(), Series::default());
    bodies.iter().try_for_each(|body| series.add(&body.plain()?))?;
    measured.counted = series.sum(NAME).1 as u64;
    Ok((measured, bodies.len()))
}

/// Runs a program and scrapes its page in the meantime, as Prometheus does. Returns the results and
/// the number of successful scrapes.
fn scraped(
    subject: &Subject,
    counted: &str,
    scenario: &Header,
    bench: &Bench<'_>,
) -> io::Result<(Measured, usize)> {
    let variables = bench.variables()?;
    let load = load(scenario, &variables.fill("udp://127.0.0.1:${BENCH_UDP}")?)?;
    let (page, is_over) = (variables.fill(counted)?, AtomicBool::new(false));
    thread::scope(|scope| {
        let scraper = scope.spawn(|| scrape(&page, bench.load_core, &is_over));
        let measured = bench.run(subject, counted, &variables, &load);
        is_over.store(true, Ordering::Relaxed);
        let pages = scraper.join().unwrap_or(0);
        measured.map(|measured| (measured, pages))
    })
}

/// Scrapes a page until `is_over`; returns the number of successful scrapes.
fn scrape(page: &str, core: usize, is_over: &AtomicBool) -> usize {
    let (mut waited, mut pages) = (Duration::ZERO, 0);
    let _ = crate::measure::pin(core);
    while !is_over.load(Ordering::Relaxed) {
        thread::sleep(LOOK);
        waited += LOOK;
        if waited >= SCRAPE_EVERY {
            waited = Duration::ZERO;
            pages += usize::from(delivered::sum(page, "".as_ref()).is_ok());
        }
    }
    pages
}

impl Runs {
    fn of(subject: &Subject) -> Runs {
        let fault = (!subject.is_installed()).then(|| "not installed".to_owned());
        Runs { name: subject.name.to_owned(), measured: Vec::new(), requests: 0, fault }
    }

    fn push(&mut self, run: io::Result<(Measured, usize)>) {
        match run {
            Ok((measured, requests)) => {
                self.measured.push(measured);
                self.requests += requests;
            }
            Err(error) => self.fault = Some(error.to_string().replace('\n', "; ")),
        }
    }

    fn samples(&self, of: impl Fn(&Measured) -> f64) -> Samples {
        let mut samples = Samples::default();
        self.measured.iter().for_each(|measured| samples.push(of(measured)));
        samples
    }

    fn speed(&self) -> f64 {
        self.samples(Measured::points_per_cpu_s).median()
    }

    fn peak_mb(&self) -> f64 {
        self.samples(|run| run.peak_rss_bytes as f64 / 1e6).max()
    }

    fn cells(&self, scenario: &str) -> Vec<String> {
        let mut cells = vec![format!("{scenario}: {}", self.name)];
        if self.measured.is_empty() {
            cells.resize(COLUMNS.len(), String::new());
            return cells;
        }
        let speed = self.samples(Measured::points_per_cpu_s);
        let sent_per_s = self.samples(|run| run.sent.points as f64 / run.sent.seconds).median();
        cells.push(format!("{sent_per_s:.0}"));
        cells.push(format!("{:.2}", self.samples(|run| run.cpu_seconds).median()));
        cells.extend(
            [speed.median(), speed.min(), speed.max()].map(|points| format!("{points:.0}")),
        );
        cells.push(format!("{:.3}", self.samples(|run| run.lost_share() * 100.0).max()));
        cells.push(self.measured.iter().map(|run| run.drops).sum::<u64>().to_string());
        cells.push(format!("{:.1}", self.samples(|run| run.rss_bytes[1] as f64 / 1e6).max()));
        cells.push(format!("{:.1}", self.peak_mb()));
        cells.push(self.requests.to_string());
        cells
    }
}

fn table(scenario: &Header, all: &[Runs]) -> Table {
    let mut table = Table::new("metrics_out_whole", "From points to Prometheus, one core", COLUMNS);
    all.iter().for_each(|runs| table.row(runs.cells(&scenario.name)));
    table.note(format!("{}: {}.", scenario.name, scenario.text("title")));
    for part in &scenario.peers {
        table.note(format!(
            "- {}: {}; its page is fetched every {SCRAPE_EVERY:?}",
            part.name,
            part.text("title")
        ));
    }
    for runs in all {
        runs.fault.iter().for_each(|fault| table.note(format!("- {}: {fault}", runs.name)));
    }
    table.note(
        "Lost points are missing in the sum of the last values at the endpoint or on the page."
            .to_owned(),
    );
    table
}

fn plot(scenario: &Header, all: &[Runs], report: &mut Report) -> io::Result<()> {
    let labels: Vec<String> = all.iter().map(|runs| runs.name.clone()).collect();
    let values = all.iter().map(|runs| runs.speed() / 1000.0).collect();
    let title = format!("Thousand points per CPU second: {}", scenario.text("title"));
    report.bars("metrics_out_whole", &title, &labels, &[Bars { label: "", values }])
}

fn targets(scenario: &Header, all: &[Runs]) -> io::Result<Vec<Vec<String>>> {
    let find = |name: &str| all.iter().find(|runs| runs.name == name && !runs.measured.is_empty());
    let Some(agent) = find(AGENT) else { return Ok(Vec::new()) };
    let mut targets = Vec::new();
    for (peer, target) in scenario.pairs("target_peers")? {
        let ratio = find(&peer).map_or(f64::NAN, |peer| agent.speed() / peer.speed());
        targets.push(Target::least(format!("points per CPU s, times {peer}"), ratio, target));
    }
    for (peer, target) in scenario.pairs("target_memory_peers")? {
        let ratio = find(&peer).map_or(f64::NAN, |peer| agent.peak_mb() / peer.peak_mb());
        targets.push(Target::most(&format!("peak RSS, times {peer}"), ratio, target));
    }
    if let Some(target) = scenario.number("target_lost")? {
        let lost = agent.measured.iter().map(|run| run.lost() as f64).sum();
        targets.push(Target::most("points lost", lost, target));
    }
    Ok(targets.iter().map(|target| target.cells(&scenario.name)).collect())
}
