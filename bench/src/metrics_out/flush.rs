//! Measures a million series over the network: CPU time and bytes of each encoding, compared with a
//! flush to nowhere.

use super::compressed::{Least, bytes_by_algorithm};
use crate::Options;
use crate::delivered;
use crate::endpoint::{Body, Endpoint};
use crate::header::Header;
use crate::measure::{Samples, progress};
use crate::metrics::program::{Bench, await_rest, await_socket, load, memory_bytes};
use crate::metrics::send::Load;
use crate::peers::Target;
use crate::plot::Bars;
use crate::process::{Program, Subject};
use crate::report::{Report, Table};
use crate::variables::Variables;
use millstream_compression::Algorithm;
use std::io;
use std::thread::sleep;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

const COLUMNS: &[&str] = &[
    "scenario",
    "flush",
    "series",
    "CPU s",
    "without the flush itself",
    "target",
    "compressor alone",
    "copy alone",
    "requests",
    "MB before compression",
    "MB sent",
    "peak RSS MB",
];
/// Number of flushes per scenario. The first flush creates the state of each series; later flushes
/// use it.
const FLUSHES: usize = 2;
/// Period between flushes in seconds.
const PERIOD_S: f64 = 10.0;
/// Time to wait for the last batch, because a batch that is not full is held for a second.
const HOLD: Duration = Duration::from_millis(1500);
/// Seconds since the start of a period by which the load must have ended.
const LOAD_MAX_S: f64 = 9.0;
/// Location of the agent's count of delivered series.
const SENT: &str = "http://127.0.0.1:${BENCH_PORT}/metrics millstream_component_sent_events_total{component_id=\"out\"*} #";
/// Algorithms of the byte columns.
const ALGORITHMS: [Algorithm; 4] =
    [Algorithm::Zlib, Algorithm::Zstd, Algorithm::Snappy, Algorithm::Lz4];

/// One flush.
struct Flush {
    series: u64,
    cpu_seconds: f64,
    peak_rss_bytes: u64,
    bodies: Vec<Body>,
}

/// All flushes of a scenario.
struct Runs<'a> {
    scenario: &'a Header,
    flushes: Vec<Flush>,
    least: Vec<Least>,
}

/// Measures all scenarios and returns the targets. The scenario that sends nothing shows the base
/// cost of the others.
pub fn run(
    options: &Options,
    scenarios: &[&Header],
    bench: &Bench<'_>,
    report: &mut Report,
) -> io::Result<Vec<Vec<String>>> {
    let (mut all, mut sizes) = (Vec::new(), Vec::new());
    for scenario in scenarios {
        let mut flushes = once(options, scenario, bench)?;
        let least =
            flushes.iter().map(|flush| Least::of(&flush.bodies)).collect::<io::Result<_>>()?;
        // The bodies of all scenarios together would use most of the memory of a small host.
        let last = flushes.last().map_or(Ok(None), |flush| sizes_of(scenario, flush))?;
        sizes.extend(last);
        flushes.iter_mut().for_each(|flush| flush.bodies.clear());
        all.push(Runs { scenario, flushes, least });
    }
    let nothing: Vec<f64> = all
        .iter()
        .filter(|runs| runs.least.iter().all(|least| least.requests == 0))
        .flat_map(|runs| runs.flushes.iter().map(|flush| flush.cpu_seconds))
        .collect();
    report.add(table(&all, &nothing)?)?;
    report_sizes(sizes, report)?;
    plot(&all, &nothing, report)?;
    targets(&all, &nothing)
}

/// Returns the seconds since the start of the current period.
fn phase_s() -> f64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    now.as_secs_f64() % PERIOD_S
}

fn sleep_into_next_period(by: Duration) {
    sleep(Duration::from_secs_f64(PERIOD_S - phase_s()) + by);
}

fn once(options: &Options, scenario: &Header, bench: &Bench<'_>) -> io::Result<Vec<Flush>> {
    let endpoint = Endpoint::start(bench.load_core)?;
    let variables = bench.variables()?.with("ENDPOINT", &endpoint.address.to_string());
    let load = load(scenario, &variables.fill("udp://127.0.0.1:${BENCH_UDP}")?)?;
    let program =
        Program::start(&Subject::agent(&options.agent, "", scenario), &variables, &[bench.core])?;
    await_socket(&program, port(&variables)?)?;
    let mut flushes = Vec::new();
    for number in 1..=FLUSHES {
        progress(&format!("metrics-out: {}, flush {number}", scenario.name));
        flushes.push(flush(&program, &variables, &load, &endpoint, bench)?);
    }
    program.terminate()?;
    program.wait(0)?;
    Ok(flushes)
}

fn port(variables: &Variables) -> io::Result<u16> {
    variables.fill("${BENCH_UDP}")?.parse().map_err(io::Error::other)
}

/// Fills a period and measures its flush.
fn flush(
    program: &Program,
    variables: &Variables,
    load: &Load,
    endpoint: &Endpoint,
    bench: &Bench<'_>,
) -> io::Result<Flush> {
    sleep_into_next_period(Duration::from_millis(100));
    load.run(bench.load_core)?;
    await_rest(program, port(variables)?)?;
    if phase_s() > LOAD_MAX_S {
        return Err(io::Error::other("the load did not end within the period"));
    }
    let sent = delivered::sum(&variables.fill(SENT)?, program.output())?.0;
    endpoint.take();
    let before = program.cpu_seconds()?;
    sleep_into_next_period(HOLD);
    await_rest(program, port(variables)?)?;
    sleep(HOLD);
    let cpu_seconds = program.cpu_seconds()? - before;
    let series = delivered::sum(&variables.fill(SENT)?, program.output())?.0 - sent;
    let [_, peak_rss_bytes] = memory_bytes(program.id())?;
    Ok(Flush { series, cpu_seconds, peak_rss_bytes, bodies: endpoint.take() })
}

impl Runs<'_> {
    /// Returns the CPU seconds of each flush minus the CPU seconds of a flush to nowhere; NaN if
    /// the latter was not measured.
    fn beyond(&self, nothing: &[f64]) -> Vec<f64> {
        let nothing = nothing.iter().copied().chain(std::iter::repeat(f64::NAN));
        self.flushes
            .iter()
            .zip(nothing)
            .map(|(flush, nothing)| flush.cpu_seconds - nothing)
            .collect()
    }

    fn sends(&self) -> bool {
        self.least.iter().any(|least| least.requests > 0)
    }
}

fn table(all: &[Runs<'_>], nothing: &[f64]) -> io::Result<Table> {
    let mut table =
        Table::new("metrics_out_flush", "A million series to the network, one core", COLUMNS);
    for runs in all {
        let target = runs
            .scenario
            .number("target_cpu_s")?
            .map_or(String::new(), |target| format!("<= {target}"));
        let beyond = runs.beyond(nothing);
        for (number, (flush, least)) in runs.flushes.iter().zip(&runs.least).enumerate() {
            let mut cells = vec![
                runs.scenario.name.clone(),
                (number + 1).to_string(),
                flush.series.to_string(),
            ];
            cells.push(format!("{:.2}", flush.cpu_seconds));
            cells.push(format!("{:.2}", beyond[number]));
            cells.push(target.clone());
            cells.extend(
                [least.compress_seconds, least.copy_seconds].map(|seconds| format!("{seconds:.3}")),
            );
            cells.push(least.requests.to_string());
            cells.extend(
                [least.plain_bytes, least.sent_bytes]
                    .map(|bytes| format!("{:.1}", bytes as f64 / 1e6)),
            );
            cells.push(format!("{:.0}", flush.peak_rss_bytes as f64 / 1e6));
            table.row(cells);
        }
        table.note(format!("{}: {}.", runs.scenario.name, runs.scenario.text("title")));
    }
    table.note(
        "CPU s: of the whole process from before the period ends until everything is delivered. Without the flush itself: \
         minus the time of a flush into a sink that does nothing, which leaves encoding, compression and sending."
            .to_owned(),
    );
    Ok(table)
}

/// Returns the bytes per series: uncompressed, and compressed request by request. Returns `None` if
/// there are no requests.
fn sizes_of(scenario: &Header, flush: &Flush) -> io::Result<Option<(String, Vec<f64>)>> {
    if flush.bodies.is_empty() {
        return Ok(None);
    }
    let bytes = bytes_by_algorithm(&flush.bodies, &ALGORITHMS)?;
    let each = bytes.into_iter().map(|bytes| bytes as f64 / flush.series.max(1) as f64).collect();
    Ok(Some((scenario.text("encoding").to_owned(), each)))
}

fn report_sizes(sizes: Vec<(String, Vec<f64>)>, report: &mut Report) -> io::Result<()> {
    if sizes.is_empty() {
        return Ok(());
    }
    let names: Vec<&str> =
        ALGORITHMS.iter().filter_map(|algorithm| algorithm.content_encoding()).collect();
    let columns: Vec<&str> = ["encoding", "as it is"].into_iter().chain(names).collect();
    let mut table = Table::new("metrics_out_bytes", "Bytes of a series on the wire", &columns);
    for (encoding, bytes) in &sizes {
        let cells = bytes.iter().map(|bytes| format!("{bytes:.1}"));
        table.row(std::iter::once(encoding.clone()).chain(cells).collect());
    }
    table.note(format!(
        "Of the second flush, request by request, at the default levels. A series is a counter or gauge with a name \
         of 18 bytes and five tags, {} bytes as a client writes them.",
        crate::metrics::load::Content::context_bytes()
    ));
    report.add(table)
}

fn plot(all: &[Runs<'_>], nothing: &[f64], report: &mut Report) -> io::Result<()> {
    let sending: Vec<&Runs<'_>> = all.iter().filter(|runs| runs.sends()).collect();
    if sending.is_empty() {
        return Ok(());
    }
    let labels: Vec<String> = sending.iter().map(|runs| runs.scenario.name.clone()).collect();
    let milliseconds =
        |of: &dyn Fn(&Runs<'_>) -> f64| sending.iter().map(|runs| of(runs) * 1e3).collect();
    let last = |values: Vec<f64>| values.last().copied().unwrap_or(f64::NAN);
    let series = [
        Bars { label: "agent, first flush", values: milliseconds(&|runs| runs.beyond(nothing)[0]) },
        Bars {
            label: "agent, second flush",
            values: milliseconds(&|runs| last(runs.beyond(nothing))),
        },
        Bars {
            label: "compressor alone",
            values: milliseconds(&|runs| {
                last(runs.least.iter().map(|least| least.compress_seconds).collect())
            }),
        },
    ];
    report.bars(
        "metrics_out_flush",
        "CPU ms to encode, compress and send a million series",
        &labels,
        &series,
    )
}

fn targets(all: &[Runs<'_>], nothing: &[f64]) -> io::Result<Vec<Vec<String>>> {
    let mut targets = Vec::new();
    for runs in all.iter().filter(|runs| runs.sends()) {
        let expected = runs.scenario.required("series")?;
        let missing =
            runs.flushes.iter().map(|flush| (expected - flush.series as f64).max(0.0)).sum();
        targets.push(Target::most("series missing", missing, 0.0).cells(&runs.scenario.name));
        let Some(target) = runs.scenario.number("target_cpu_s")? else { continue };
        let mut beyond = Samples::default();
        runs.beyond(nothing).into_iter().for_each(|seconds| beyond.push(seconds));
        let what = "CPU s to encode, compress and send, the slower flush";
        targets.push(Target::most(what, beyond.max(), target).cells(&runs.scenario.name));
    }
    Ok(targets)
}
