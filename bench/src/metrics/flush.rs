//! Measures how flushes of very many series affect the receiver: how long datagrams wait in the
//! socket with and without flushes, and the memory of a series.

use super::BUFFER_BYTES;
use super::load::Content;
use super::program::{Bench, Measured, load};
use crate::Options;
use crate::header::Header;
use crate::measure::progress;
use crate::peers::Target;
use crate::process::Subject;
use crate::report::{Report, Table};
use std::io;

const COLUMNS: &[&str] = &[
    "period",
    "points/s",
    "CPU s",
    "wait p50 us",
    "p99",
    "max",
    "probes",
    "drops in the kernel",
    "RSS MB before",
    "after",
    "peak",
    "bytes per series",
];
/// Flush periods: one with flushes within the run, and one without.
const PERIODS: [&str; 2] = ["10s", "3600s"];
/// Start of the probe in seconds, after all series were seen and the first flush is over.
const PROBE_AFTER_S: f64 = 14.0;
/// Duration of the load with sorted tags in seconds, after which every series was sent twice.
const SORTED_S: f64 = 6.0;
/// Maximum 99th percentile with flushes, relative to the percentile without flushes.
const DELAY_TARGET: f64 = 1.5;

/// Measures both periods and returns the targets.
pub fn run(
    options: &Options,
    scenario: &Header,
    bench: &Bench<'_>,
    report: &mut Report,
) -> io::Result<Vec<Vec<String>>> {
    let series = scenario.count("series", 0)?;
    let mut table = Table::new("flush", "The receiver while a million series are flushed", COLUMNS);
    let mut runs = Vec::new();
    for period in PERIODS {
        progress(&format!("metrics: {series} series, period {period}"));
        let run = once(options, scenario, bench, period, false)?;
        table.row(cells(period, &run, series));
        runs.push(run);
    }
    let run = once(options, scenario, bench, PERIODS[1], true)?;
    table.row(cells("tags in order", &run, series));
    runs.push(run);
    table.note(format!("{}.", scenario.text("title")));
    table.note(
        "A series whose tags do not come in the order of their keys is found by the hash of that order too."
            .to_owned(),
    );
    report.add(table)?;
    targets(scenario, &runs, series)
}

/// Runs the load once. With `sorted` tags only the memory of series matters, which takes less time.
fn once(
    options: &Options,
    scenario: &Header,
    bench: &Bench<'_>,
    period: &str,
    sorted: bool,
) -> io::Result<Measured> {
    let variables = bench.variables()?.with("PERIOD", period);
    let mut load = load(scenario, &variables.fill("udp://127.0.0.1:${BENCH_UDP}")?)?;
    load.probe = Some(variables.path("SOCKET"));
    load.probe_after = PROBE_AFTER_S;
    if sorted {
        (load.content.sorted, load.seconds, load.probe) = (true, SORTED_S, None);
    }
    let subject = Subject::agent(&options.agent, "", scenario);
    bench.run(&subject, "", &variables, &load)
}

fn bytes_per_series(run: &Measured, series: usize) -> f64 {
    run.rss_bytes[1].saturating_sub(run.rss_bytes[0]) as f64 / series as f64
}

fn cells(period: &str, run: &Measured, series: usize) -> Vec<String> {
    let mb = |bytes: u64| format!("{:.1}", bytes as f64 / 1e6);
    let mut cells = vec![
        period.to_owned(),
        format!("{:.0}", run.sent.points as f64 / run.sent.seconds),
        format!("{:.2}", run.cpu_seconds),
    ];
    cells.extend(run.sent.probes_s.map(|seconds| format!("{:.0}", seconds * 1e6)));
    cells.extend([run.sent.probes.to_string(), run.drops.to_string()]);
    cells.extend([mb(run.rss_bytes[0]), mb(run.rss_bytes[1]), mb(run.peak_rss_bytes)]);
    cells.push(format!("{:.0}", bytes_per_series(run, series)));
    cells
}

fn targets(scenario: &Header, runs: &[Measured], series: usize) -> io::Result<Vec<Vec<String>>> {
    let [flushed, quiet, sorted] = runs else { return Ok(Vec::new()) };
    let ratio = flushed.sent.probes_s[1] / quiet.sent.probes_s[1];
    let drops = if flushed.granted_bytes >= BUFFER_BYTES { flushed.drops as f64 } else { f64::NAN };
    let mut targets = vec![
        Target::most("p99 of the wait, times that without flushes", ratio, DELAY_TARGET),
        Target::most("datagrams dropped", drops, 0.0),
    ];
    if let Some(target) = scenario.number("target_bytes_per_series")? {
        let target = target + Content::context_bytes() as f64;
        let mut bytes =
            |what, run| targets.push(Target::most(what, bytes_per_series(run, series), target));
        bytes("bytes per series, with flushes", flushed);
        bytes("bytes per series, before the first flush", quiet);
        bytes("the same, tags in order", sorted);
    }
    Ok(targets.iter().map(|target| target.cells(&scenario.name)).collect())
}
