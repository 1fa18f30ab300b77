//! Measures logs over HTTP to an endpoint that responds late, compared with the round trips of full
//! requests.

use crate::Options;
use crate::endpoint::Endpoint;
use crate::header::Header;
use crate::measure::{Samples, progress};
use crate::metrics::program::Bench;
use crate::peers::Target;
use crate::process::{Outcome, Program, Subject};
use crate::report::{Report, Table};
use crate::scratch::Input;
use crate::variables::Variables;
use std::io;
use std::time::Duration;

const COLUMNS: &[&str] = &[
    "scenario",
    "answers after ms",
    "MB of JSON",
    "requests",
    "s",
    "min",
    "max",
    "full requests one by one, s",
    "ratio",
    "target",
    "events missing",
];

/// Size of the web log, in megabytes.
const INPUT_MB: usize = 16;

/// Measures the scenarios and returns their targets.
pub fn run(
    options: &Options,
    scenarios: &[&Header],
    bench: &Bench<'_>,
    report: &mut Report,
) -> io::Result<Vec<Vec<String>>> {
    let title = "Logs over HTTP to an endpoint that answers late";
    let mut table = Table::new("metrics_out_latency", title, COLUMNS);
    let mut targets = Vec::new();
    for scenario in scenarios {
        let of_scenario = measure(options, scenario, bench, &mut table)?;
        targets.extend(of_scenario.map(|target| target.cells(&scenario.name)));
        table.note(format!("{}: {}.", scenario.name, scenario.text("title")));
    }
    report.add(table)?;
    Ok(targets)
}

fn measure(
    options: &Options,
    scenario: &Header,
    bench: &Bench<'_>,
    table: &mut Table,
) -> io::Result<[Target; 2]> {
    let mb = options.input_mb.map_or_else(|| scenario.count("input_mb", INPUT_MB), Ok)?;
    let input = Input::weblog(bench.scratch, mb * 1_000_000, 1)?;
    let latency_ms = scenario.required("latency_ms")?;
    let request_bytes = scenario.required("request_mib")? * f64::from(1 << 20);
    let (mut seconds, mut limit_seconds) = (Samples::default(), Samples::default());
    let (mut requests, mut json_bytes, mut missing) = (0, 0, 0);
    for repetition in 1..=scenario.count("repetitions", options.repetitions)? {
        progress(&format!("metrics-out: {}, {repetition}", scenario.name));
        let (outcome, endpoint) = once(options, scenario, &input, bench, latency_ms)?;
        let bodies = endpoint.take();
        let bytes: usize = bodies.iter().map(|body| body.bytes.len()).sum();
        let lines = bodies.iter().map(|body| millstream_scan::count_newlines(&body.bytes) as u64);
        missing += input.lines.saturating_sub(lines.sum());
        seconds.push(outcome.wall_seconds);
        limit_seconds.push((bytes as f64 / request_bytes).ceil() * latency_ms / 1e3);
        (requests, json_bytes) = (bodies.len(), bytes);
    }
    Input::remove(bench.scratch)?;
    let (ratio, target) =
        (limit_seconds.median() / seconds.median(), scenario.required("target_ratio")?);
    let mut cells = vec![scenario.name.clone(), latency_ms.to_string()];
    cells.extend([format!("{:.1}", json_bytes as f64 / 1e6), requests.to_string()]);
    let times = [seconds.median(), seconds.min(), seconds.max(), limit_seconds.median(), ratio];
    cells.extend(times.map(|time| format!("{time:.2}")));
    cells.extend([format!(">= {target}"), missing.to_string()]);
    table.row(cells);
    let speed = Target::least("speed, times full requests one by one".to_owned(), ratio, target);
    Ok([speed, Target::most("events missing", missing as f64, 0.0)])
}

fn once(
    options: &Options,
    scenario: &Header,
    input: &Input,
    bench: &Bench<'_>,
    latency_ms: f64,
) -> io::Result<(Outcome, Endpoint)> {
    let endpoint =
        Endpoint::start_distant(bench.load_core, Duration::from_secs_f64(latency_ms / 1e3))?;
    let variables = Variables::fresh(bench.scratch, &input.path)?
        .with("ENDPOINT", &endpoint.address.to_string());
    let subject = Subject::agent(&options.agent, "--until-eof", scenario);
    let outcome = Program::start(&subject, &variables, &[bench.core])?.wait(input.lines)?;
    Ok((outcome, endpoint))
}
