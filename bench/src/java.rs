//! Measures the cost of a call of the Java client for the recording program, compared with the
//! DogStatsD client.

use crate::measure::{pinned, progress};
use crate::plot::Bars;
use crate::report::{Report, Table};
use crate::scratch::Scratch;
use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::Path;
use std::process::Command;

/// Numbers of threads that record concurrently.
const THREADS: [usize; 2] = [1, 2];

/// Kinds of calls, each with its benchmark and the benchmark of the other client.
const CALLS: [(&str, &str, &str); 4] = [
    ("counter", "counter", "dogstatsdCounter"),
    ("timer", "timer", "dogstatsdTimer"),
    ("store", "store", "dogstatsdStore"),
    ("counter without a handle", "emit", ""),
];

/// Allocated bytes per call below which a call counts as free of allocations. The harness and the
/// sending threads allocate too.
const BYTES_MAX: f64 = 0.5;

/// JMH's results of one benchmark.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Cost {
    ns: f64,
    error_ns: f64,
    bytes: f64,
    /// Points dropped because a buffer was full, in percent. The other client does not report them.
    dropped_percent: f64,
}

/// Builds the Java code if it has changed.
pub fn build() -> io::Result<()> {
    let built = Command::new("scripts/java").output()?;
    let error = || io::Error::other(String::from_utf8_lossy(&built.stderr).into_owned());
    built.status.success().then_some(()).ok_or_else(error)
}

/// Runs JMH on `cores` and reports the results.
pub fn run(cores: [usize; 2], scratch: &Scratch, report: &mut Report) -> io::Result<()> {
    build()?;
    let mut table = Table::new(
        "java",
        "The Java client: a call",
        &[
            "call",
            "threads",
            "client",
            "ns",
            "± ns",
            "bytes allocated",
            "dropped",
            "target",
            "verdict",
        ],
    );
    let mut targets = vec![];
    for threads in THREADS {
        progress(&format!("JMH with {threads} threads"));
        let costs = measure(threads, cores, &scratch.path("jmh.csv"))?;
        rows(&mut table, threads, &costs);
        targets.push((threads, costs));
    }
    table.note(
        "ns are per thread. Points are dropped if the buffer is full, as the benchmark records more than a socket \
         takes; their calls are quicker. The client of DogStatsD also drops timers, but does not report how many."
            .to_owned(),
    );
    report.add(table)?;
    let labels: Vec<String> =
        targets.iter().flat_map(|(threads, _)| CALLS.map(|call| label(call.0, *threads))).collect();
    let heights = |peer: bool| {
        let costs = targets
            .iter()
            .flat_map(|(_, costs)| CALLS.map(|call| ns(costs, if peer { call.2 } else { call.1 })));
        costs.collect()
    };
    let series = [
        Bars { label: "millstream", values: heights(false) },
        Bars { label: "DogStatsD", values: heights(true) },
    ];
    report.bars("java_client", "ns of a call, by threads", &labels, &series)
}

fn label(call: &str, threads: usize) -> String {
    format!("{} {threads}", call.split(' ').next_back().unwrap_or(call))
}

/// Returns the time of a benchmark, or NaN if it was not measured. NaN is not plotted.
fn ns(costs: &BTreeMap<String, Cost>, benchmark: &str) -> f64 {
    costs.get(benchmark).map_or(f64::NAN, |cost| cost.ns)
}

fn rows(table: &mut Table, threads: usize, costs: &BTreeMap<String, Cost>) {
    for (call, own, peer) in CALLS {
        for (client, benchmark) in [("millstream", own), ("DogStatsD", peer)] {
            let Some(cost) = costs.get(benchmark) else { continue };
            let is_own = client == "millstream";
            let holds = if cost.bytes < BYTES_MAX { "holds" } else { "missed" };
            let of_own = |text: &str| if is_own { text.to_owned() } else { String::new() };
            table.row(vec![
                call.to_owned(),
                threads.to_string(),
                client.to_owned(),
                format!("{:.1}", cost.ns),
                format!("{:.1}", cost.error_ns),
                format!("{:.3}", cost.bytes),
                of_own(&format!("{:.0}%", cost.dropped_percent)),
                of_own(&format!("< {BYTES_MAX} bytes")),
                of_own(holds),
            ]);
        }
    }
}

fn measure(threads: usize, cores: [usize; 2], csv: &Path) -> io::Result<BTreeMap<String, Cost>> {
    let target = Path::new("java/benchmarks/target");
    let path = format!("{0}/benchmarks.jar:{0}/libs/*", target.display());
    let mut command = Command::new("java");
    command.args([
        "-cp",
        &path,
        "org.openjdk.jmh.Main",
        "Calls",
        "-prof",
        "gc",
        "-rf",
        "csv",
        "-t",
        &threads.to_string(),
    ]);
    let output = pinned(&cores, || command.arg("-rff").arg(csv).output())?;
    if !output.status.success() {
        return Err(io::Error::other(format!("JMH: {}", String::from_utf8_lossy(&output.stderr))));
    }
    let mut costs = read(&fs::read_to_string(csv)?);
    drops(&String::from_utf8_lossy(&output.stdout), &mut costs);
    Ok(costs)
}

/// Reads the costs by benchmark from JMH's table.
fn read(csv: &str) -> BTreeMap<String, Cost> {
    let mut costs = BTreeMap::<String, Cost>::new();
    for line in csv.lines().skip(1) {
        let cells: Vec<&str> = line.split(',').map(|cell| cell.trim_matches('"')).collect();
        let [name, _, _, _, score, error, ..] = cells[..] else { continue };
        let (name, measure) = name.split_once(':').unwrap_or((name, ""));
        let cost = costs.entry(name.rsplit('.').next().unwrap_or(name).to_owned()).or_default();
        let number = |text: &str| text.parse().unwrap_or(f64::NAN);
        match measure.trim_start_matches('·') {
            "" => (cost.ns, cost.error_ns) = (number(score), number(error)),
            "gc.alloc.rate.norm" => cost.bytes = number(score),
            _ => {}
        }
    }
    costs
}

/// Reads the client's counters from the line at the end of each benchmark: `# Stats[sent=1, …]`.
fn drops(output: &str, costs: &mut BTreeMap<String, Cost>) {
    let mut benchmark = "";
    for line in output.lines() {
        if let Some(name) = line.strip_prefix("# Benchmark: ") {
            benchmark = name.rsplit('.').next().unwrap_or(name);
        }
        let Some((_, stats)) = line.split_once("# Stats[") else { continue };
        let stat = |name: &str| {
            let part = stats
                .split([',', ']'])
                .find_map(|part| part.trim().strip_prefix(name)?.strip_prefix('='));
            part.and_then(|value| value.parse::<f64>().ok()).unwrap_or(0.0)
        };
        let (sent, dropped) = (stat("sent"), stat("droppedFull"));
        if let Some(cost) = costs.get_mut(benchmark).filter(|_| sent + dropped > 0.0) {
            cost.dropped_percent = 100.0 * dropped / (sent + dropped);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_jmh_writes_is_read() {
        let csv = "\"Benchmark\",\"Mode\",\"Threads\",\"Samples\",\"Score\",\"Score Error (99.9%)\",\"Unit\"\n\
            \"a.b.Calls.timer\",\"avgt\",1,5,55.5,1.5,\"ns/op\"\n\
            \"a.b.Calls.timer:gc.alloc.rate\",\"avgt\",1,5,9.0,NaN,\"MB/sec\"\n\
            \"a.b.Calls.timer:gc.alloc.rate.norm\",\"avgt\",1,5,0.002,0.001,\"B/op\"\n";
        let mut costs = read(csv);
        let output = "# Benchmark: a.b.Calls.timer\nIteration 1: # Stats[sent=1, packets=1, droppedFull=3, x=0]\n";
        drops(output, &mut costs);
        let expected = Cost { ns: 55.5, error_ns: 1.5, bytes: 0.002, dropped_percent: 75.0 };
        assert_eq!(costs, BTreeMap::from([("timer".to_owned(), expected)]));
    }
}
