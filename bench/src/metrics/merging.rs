//! Measures small datagrams with and without merging: the cost of loads of single points, and the
//! delay of a single datagram.

use super::REPETITIONS;
use super::program::{Bench, Measured};
use crate::Options;
use crate::header::Header;
use crate::measure::{Samples, progress};
use crate::plot::Bars;
use crate::process::Subject;
use crate::report::{Report, Table};
use std::io;

/// Datagrams per second, each with one point.
const RATES: [u32; 4] = [48_000, 75_000, 120_000, 150_000];
/// Datagrams per second, so few that probes arrive alone.
const LONE: f64 = 1.0;
const MERGE: [&str; 2] = ["true", "false"];
const COLUMNS: &[&str] = &[
    "datagrams/s",
    "merged",
    "CPU % of a core",
    "us per datagram",
    "context switches/s",
    "datagrams per switch",
    "lost",
    "less CPU %",
];
const DELAY_COLUMNS: &[&str] = &["a datagram every ms", "p50 us", "p99 us", "max us", "datagrams"];

/// Measures both modes at every rate, and then the delay of single datagrams.
pub fn run(
    options: &Options,
    scenario: &Header,
    bench: &Bench<'_>,
    report: &mut Report,
) -> io::Result<()> {
    let mut table = Table::new("merging", "Small datagrams, merged and not", COLUMNS);
    let mut cpu = [(); 2].map(|()| Vec::new());
    for rate in RATES {
        let runs = both(options, scenario, bench, f64::from(rate))?;
        let percent = runs
            .each_ref()
            .map(|runs| median(runs, |run| run.cpu_seconds / run.sent.seconds * 100.0));
        for (at, runs) in runs.iter().enumerate() {
            let less = (at == 0).then(|| format!("{:.1}", (1.0 - percent[0] / percent[1]) * 100.0));
            table.row(cells(rate, MERGE[at], runs, percent[at], less.unwrap_or_default()));
            cpu[at].push(percent[at]);
        }
    }
    table.note(format!(
        "{}. CPU and context switches are of the whole process; instructions are not counted, as few virtual machines can count them.",
        scenario.text("title")
    ));
    report.add(table)?;
    let [merged, single] = cpu;
    let targets =
        [Bars { label: "merged", values: merged }, Bars { label: "one by one", values: single }];
    let labels = RATES.map(|rate| format!("{} k/s", rate / 1000));
    report.bars("metrics_merging", "CPU % by datagrams a second", &labels, &targets)?;
    delays(options, scenario, bench, report)
}

/// Runs with and without merging alternately.
fn both(
    options: &Options,
    scenario: &Header,
    bench: &Bench<'_>,
    rate: f64,
) -> io::Result<[Vec<Measured>; 2]> {
    let mut runs = [Vec::new(), Vec::new()];
    for _ in 0..scenario.count("repetitions", REPETITIONS)? {
        for (runs, merge) in runs.iter_mut().zip(MERGE) {
            progress(&format!("metrics: {rate} datagrams/s, merge: {merge}"));
            runs.push(once(options, scenario, bench, merge, rate)?);
        }
    }
    Ok(runs)
}

fn once(
    options: &Options,
    scenario: &Header,
    bench: &Bench<'_>,
    merge: &str,
    rate: f64,
) -> io::Result<Measured> {
    let variables = bench.variables()?.with("MERGE", merge);
    let mut load =
        super::program::load(scenario, &variables.fill("udp://127.0.0.1:${BENCH_UDP}")?)?;
    load.per_s = rate;
    load.probe = (rate <= LONE).then(|| variables.path("SOCKET"));
    let subject = Subject::agent(&options.agent, "", scenario);
    bench.run(&subject, scenario.text("counted"), &variables, &load)
}

/// Measures the delays of a probe that sends one datagram per millisecond, almost without any other
/// load.
fn delays(
    options: &Options,
    scenario: &Header,
    bench: &Bench<'_>,
    report: &mut Report,
) -> io::Result<()> {
    let title = "A lone datagram: from its sending until it was received";
    let mut table = Table::new("merging_delay", title, DELAY_COLUMNS);
    let runs = both(options, scenario, bench, LONE)?;
    for (runs, name) in runs.iter().zip(["merged", "one by one"]) {
        let delays =
            [0, 1, 2].map(|at| format!("{:.1}", median(runs, |run| run.sent.probes_s[at] * 1e6)));
        let probes: u64 = runs.iter().map(|run| run.sent.probes).sum();
        table
            .row([name.to_owned()].into_iter().chain(delays).chain([probes.to_string()]).collect());
    }
    table.note(
        "Medians over the repetitions. On a Unix socket, where the kernel tells the sender that its datagram was taken."
            .to_owned(),
    );
    report.add(table)
}

fn median(runs: &[Measured], of: impl Fn(&Measured) -> f64) -> f64 {
    let mut samples = Samples::default();
    runs.iter().for_each(|run| samples.push(of(run)));
    samples.median()
}

fn cells(rate: u32, merge: &str, runs: &[Measured], percent: f64, less: String) -> Vec<String> {
    let us = median(runs, |run| run.cpu_seconds * 1e6 / run.sent.datagrams as f64);
    let switches = median(runs, |run| run.switches as f64 / run.sent.seconds);
    let per_switch = median(runs, |run| run.sent.datagrams as f64 / run.switches.max(1) as f64);
    vec![
        rate.to_string(),
        if merge == "true" { "yes" } else { "no" }.to_owned(),
        format!("{percent:.1}"),
        format!("{us:.2}"),
        format!("{switches:.0}"),
        format!("{per_switch:.2}"),
        runs.iter().map(Measured::lost).sum::<u64>().to_string(),
        less,
    ]
}
