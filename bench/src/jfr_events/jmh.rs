//! Runs JMH on a JDK and reads its results.

use super::{CLASS_PATH, java};
use crate::measure::{Samples, pinned, progress};
use crate::operators::Jdk;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::io::{self, BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// Number of lines of JMH's output that an error shows.
const SHOWN_LINES: usize = 20;

/// Number of warm-up iterations in a quick run. They take more than a second: JFR allocates when it
/// first writes its metadata, and these bytes must not be in one of the few measured iterations.
const QUICK_WARM_UPS: &str = "12";

/// Costs by case and by size of the write in bytes.
pub type Costs = BTreeMap<(String, usize), Cost>;

/// Cost of a write in one case.
#[derive(Clone, Debug, Default)]
pub struct Cost {
    /// ns per write of each iteration.
    ns: Vec<f64>,
    /// Bytes per write that the process allocated, by JVM. Each value is the median of the JVM's
    /// iterations, because JFR allocates during one of them, and the check of the recording during
    /// the last.
    bytes: Samples,
    /// Writes of all JVMs, including the warm-up.
    pub writes: u64,
    /// Events in the recordings.
    pub events: u64,
}

impl Cost {
    /// Returns the mean time of a write in ns.
    pub fn mean_ns(&self) -> f64 {
        self.ns.iter().sum::<f64>() / self.ns.len() as f64
    }

    /// Returns half of the width of the 99.9% confidence interval, in ns.
    pub fn error_ns(&self) -> f64 {
        let (mean, count) = (self.mean_ns(), self.ns.len() as f64);
        let squares = self.ns.iter().map(|ns| (ns - mean).powi(2)).sum::<f64>();
        let quantile = if self.ns.len() < 10 { T_OF_3 } else { T_OF_50 };
        quantile * (squares / (count - 1.0) / count).sqrt()
    }

    /// Returns the median, the minimum and the maximum of the bytes over all JVMs.
    pub fn bytes(&self) -> [f64; 3] {
        [self.bytes.median(), self.bytes.min(), self.bytes.max()]
    }

    fn add(&mut self, more: Cost) {
        self.ns.extend(more.ns);
        self.bytes.push(more.bytes.median());
        self.writes += more.writes;
        self.events += more.events;
    }
}

/// Adds the costs of another round to `costs`.
pub fn add(costs: &mut Costs, round: Costs) {
    for (key, cost) in round {
        match costs.get_mut(&key) {
            Some(known) => known.add(cost),
            None => drop(costs.insert(key, cost)),
        }
    }
}

/// Quantiles of Student's distribution for a 99.9% interval, for 3 and for 50 measurements.
const T_OF_3: f64 = 31.6;
const T_OF_50: f64 = 3.5;

/// Settings for runs of the benchmark.
pub struct Jmh<'a> {
    pub jdk: &'a Jdk,
    pub is_quick: bool,
    pub cores: [usize; 2],
    /// Folder for recordings and results.
    pub temporary: PathBuf,
    /// Prefix of the progress lines.
    pub progress: String,
}

impl Jmh<'_> {
    /// Returns the cases that the JDK supports.
    pub fn supported(&self) -> io::Result<Vec<String>> {
        let class = "dev.millstream.benchmarks.WriteCase";
        let output = Command::new(java(self.jdk)).args(["-cp", CLASS_PATH, class]).output()?;
        match output.status.success() {
            true => {
                Ok(String::from_utf8_lossy(&output.stdout).lines().map(str::to_owned).collect())
            }
            false => Err(io::Error::other(String::from_utf8_lossy(&output.stderr).into_owned())),
        }
    }

    /// Measures each of the `cases` with each of the `sizes`, in a separate JVM.
    pub fn measure(&self, cases: &[String], sizes: &[usize]) -> io::Result<Costs> {
        let results = self.temporary.join("jmh.json");
        let sizes: Vec<String> = sizes.iter().map(usize::to_string).collect();
        let mut command = Command::new(java(self.jdk));
        command.args(["-cp", CLASS_PATH, "org.openjdk.jmh.Main", "SocketWrites"]);
        command.args(["-prof", "gc", "-foe", "true", "-rf", "json", "-rff"]).arg(&results);
        command.arg("-p").arg(format!("writeCase={}", cases.join(",")));
        command.arg("-p").arg(format!("bytes={}", sizes.join(",")));
        command.args(["-f", "1"]);
        if self.is_quick {
            command.args(["-wi", QUICK_WARM_UPS, "-i", "3"]);
        }
        let folder = self.temporary.display();
        command.arg("-jvmArgsAppend").arg(format!("-Djava.io.tmpdir={folder}"));
        let output = self.run(&mut command)?;
        let mut costs = read(&fs::read_to_string(results)?)?;
        count(&output, &mut costs);
        match costs.len() == cases.len() * sizes.len() {
            true => Ok(costs),
            false => Err(failure("JMH measured some cases only", &output)),
        }
    }

    /// Runs JMH on the cores and returns the lines of its output.
    fn run(&self, command: &mut Command) -> io::Result<Vec<String>> {
        command.stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = pinned(&self.cores, || command.spawn())?;
        let mut lines = Vec::new();
        for line in child.stdout.take().into_iter().flat_map(|out| BufReader::new(out).lines()) {
            let line = line?;
            if let Some(parameters) = line.strip_prefix("# Parameters: ") {
                progress(&format!("{} {parameters}", self.progress));
            }
            lines.push(line);
        }
        match child.wait()?.success() {
            true => Ok(lines),
            false => Err(failure("JMH has failed", &lines)),
        }
    }
}

fn failure(what: &str, lines: &[String]) -> io::Error {
    let end = &lines[lines.len().saturating_sub(SHOWN_LINES)..];
    io::Error::other(format!("{what}; the end of its output:\n{}", end.join("\n")))
}

/// Reads the costs from JMH's JSON.
fn read(json: &str) -> io::Result<Costs> {
    let results: Vec<Value> = serde_json::from_str(json)?;
    let costs = results.iter().map(|result| {
        let parameter = |name: &str| result["params"][name].as_str().unwrap_or_default();
        let size = parameter("bytes").parse().map_err(io::Error::other)?;
        let ns = raw(&result["primaryMetric"]).collect();
        let mut cost = Cost { ns, ..Cost::default() };
        let mut bytes = Samples::default();
        raw(&result["secondaryMetrics"]["gc.alloc.rate.norm"]).for_each(|value| bytes.push(value));
        cost.bytes.push(bytes.median());
        Ok(((parameter("writeCase").to_owned(), size), cost))
    });
    costs.collect()
}

/// Returns the values of the individual iterations.
fn raw(metric: &Value) -> impl Iterator<Item = f64> {
    let jvms = metric["rawData"].as_array().into_iter().flatten().filter_map(Value::as_array);
    jvms.flatten().filter_map(Value::as_f64)
}

/// Adds up the line that each JVM prints at its end:
/// `# Recorded[case=JDK_ON, bytes=1, writes=7, events=7]`.
fn count(output: &[String], costs: &mut Costs) {
    for line in output {
        let Some((_, said)) = line.split_once("# Recorded[") else { continue };
        let value = |name: &str| {
            let parts = said.trim_end_matches(']').split(", ");
            let value = parts.filter_map(|part| part.split_once('=')).find(|part| part.0 == name);
            value.map(|(_, value)| value).unwrap_or_default()
        };
        let number = |name: &str| value(name).parse::<u64>().unwrap_or(0);
        let key = (value("case").to_owned(), number("bytes") as usize);
        if let Some(cost) = costs.get_mut(&key) {
            cost.writes += number("writes");
            cost.events += number("events");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_jmh_writes_is_read() {
        let json = r#"[{
            "params": {"bytes": "64", "writeCase": "JDK_ON"},
            "primaryMetric": {"rawData": [[1.0, 2.0, 3.0]]},
            "secondaryMetrics": {"gc.alloc.rate.norm": {"rawData": [[296.0, 0.5, 900.0]]}}
        }]"#;
        let said = "# Recorded[case=JDK_ON, bytes=64, writes=7, events=6]";
        let output = [format!("Iteration 3: {said}"), "1 ns/op".to_owned()];
        let mut round = read(json).unwrap();
        count(&output, &mut round);
        let mut costs = Costs::new();
        add(&mut costs, round.clone());
        add(&mut costs, round);
        let cost = &costs[&("JDK_ON".to_owned(), 64)];
        assert_eq!((cost.writes, cost.events), (14, 12));
        assert_eq!((cost.mean_ns(), cost.bytes()), (2.0, [296.0; 3]));
    }

    #[test]
    fn the_error_is_that_of_jmh() {
        // JMH computes the same error for these values.
        let ns = vec![1263.593, 1307.828, 1330.627];
        let cost = Cost { ns, ..Cost::default() };
        assert!((cost.error_ns() - 621.812).abs() < 1.0, "{}", cost.error_ns());
    }
}
