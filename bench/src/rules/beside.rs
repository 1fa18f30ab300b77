//! Compares the agent with mtail: both count the lines of a web log that contain each of some
//! literals.

use crate::Options;
use crate::delivered;
use crate::measure::{Samples, progress};
use crate::peers::{Target, version};
use crate::plot::{Axes, Series};
use crate::process::{AGENT, Outcome, Program, Subject};
use crate::report::{Report, Table};
use crate::scratch::{Input, Scratch};
use crate::variables::Variables;
use crate::weblog::{PATHS, WebLog};
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::Path;

/// Runs: the number of rules, the megabytes that mtail reads, and the minimum speed of the agent
/// relative to mtail.
const RUNS: [(usize, usize, Option<f64>); 4] =
    [(1, 100, None), (10, 60, Some(20.0)), (100, 20, None), (1000, 5, Some(300.0))];
/// Megabytes that the agent reads in a run.
const INPUT_MB: usize = 400;
const MTAIL: &str = "mtail";
const COLUMNS: [&str; 10] = [
    "rules: program",
    "lines",
    "CPU s",
    "min",
    "max",
    "without input",
    "lines per CPU s",
    "times mtail",
    "counted in the same lines",
    "peak RSS MB",
];

/// Returns the literal of a rule: a path and the first digits of a number.
fn literal(rule: usize) -> String {
    format!(" {}/{}", PATHS[rule % PATHS.len()], rule / PATHS.len() + 1)
}

/// Returns the configuration of the agent with one task per rule.
fn agent_config(rules: usize, sink: &str) -> String {
    let tasks: String = (0..rules)
        .map(|rule| {
            let is = format!("message.contains('{}')", literal(rule));
            format!("      - {{ name: t{rule}, where: \"{is}\", emit: {{ n: count() }}, window: 24h }}\n")
        })
        .collect();
    format!(
        "data_dir: ${{BENCH_DATA}}\n\
         api: {{ listen: \"127.0.0.1:0\" }}\n\
         sources:\n  web: {{ type: file, include: [\"${{BENCH_INPUT}}\"], read_from: beginning }}\n\
         transforms:\n  counts:\n    type: rules\n    inputs: [web]\n    tasks:\n{tasks}\
         sinks:\n  out: {{ inputs: [counts], {sink} }}\n"
    )
}

/// Returns the program of mtail with a number of rules.
fn mtail_program(rules: usize) -> String {
    let counters: String = (0..rules).map(|rule| format!("counter c{rule}\n")).collect();
    let rule = |rule: usize| {
        let pattern = regex::escape(&literal(rule)).replace('/', "\\/");
        format!("/{pattern}/ {{\n  c{rule}++\n}}\n")
    };
    counters + &(0..rules).map(rule).collect::<String>()
}

/// A program with its rules and its figures.
struct Side {
    name: &'static str,
    run: String,
    config: String,
    input: Input,
    full: Samples,
    empty: Samples,
    rss_mb: Samples,
}

impl Side {
    fn new(name: &'static str, run: String, config: String, input: Input) -> Side {
        let samples = Samples::default;
        Side { name, run, config, input, full: samples(), empty: samples(), rss_mb: samples() }
    }

    fn subject<'s>(&'s self, config: &'s str) -> Subject<'s> {
        Subject { name: self.name, run: self.run.clone(), until: "", env: "GOGC=400", config }
    }

    fn start(&self, bench: &Bench, input: &Path, config: &str) -> io::Result<(Outcome, Variables)> {
        let variables = Variables::fresh(bench.scratch, input)?;
        let program = Program::start(&self.subject(config), &variables, &[bench.options.core])?;
        Ok((program.wait(0)?, variables))
    }

    fn repeat(&mut self, bench: &Bench) -> io::Result<()> {
        let empty = Input::empty(bench.scratch)?;
        let idle = self.start(bench, &empty.path, &self.config)?.0;
        let busy = self.start(bench, &self.input.path, &self.config)?.0;
        self.empty.push(idle.cpu_seconds);
        self.full.push(busy.cpu_seconds);
        self.rss_mb.push(busy.peak_rss_bytes as f64 / 1e6);
        Ok(())
    }

    fn lines_per_s(&self) -> f64 {
        self.input.lines as f64 / (self.full.median() - self.empty.median())
    }

    fn cells(&self, rules: usize, counted: u64, times: f64) -> Vec<String> {
        let idle = self.empty.median();
        let seconds = [self.full.median(), self.full.min(), self.full.max()];
        let mut cells = vec![format!("{rules}: {}", self.name), self.input.lines.to_string()];
        cells.extend(seconds.map(|seconds| format!("{:.3}", seconds - idle)));
        cells.extend([
            format!("{idle:.3}"),
            format!("{:.0}", self.lines_per_s()),
            format!("{times:.1}"),
            counted.to_string(),
            format!("{:.1}", self.rss_mb.max()),
        ]);
        cells
    }
}

struct Bench<'b> {
    options: &'b Options,
    scratch: &'b Scratch,
}

/// Measures both programs, adds the table and the plot, and returns the targets.
pub fn run(options: &Options, scratch: &Scratch, report: &mut Report) -> io::Result<Vec<Target>> {
    let bench = Bench { options, scratch };
    let mut table = Table::new("rules_beside", "The agent beside mtail", &COLUMNS);
    let (mut targets, mut points) = (Vec::new(), [Vec::new(), Vec::new()]);
    for (rules, mtail_mb, target) in RUNS {
        let Some((agent, mtail, counted)) = bench.measure(rules, mtail_mb)? else {
            table.note(
                "not measured: mtail is not installed; `scripts/bench-peers` installs it."
                    .to_owned(),
            );
            report.add(table)?;
            return Ok(Vec::new());
        };
        let ratio = agent.lines_per_s() / mtail.lines_per_s();
        table.row(agent.cells(rules, counted[0], ratio));
        table.row(mtail.cells(rules, counted[1], 1.0));
        let what = format!("{rules} rules, times mtail");
        targets.extend(target.map(|target| Target::least(what, ratio, target)));
        for (points, side) in points.iter_mut().zip([&agent, &mtail]) {
            points.push(((rules as f64).log10(), side.lines_per_s().log10()));
        }
    }
    table.note(notes(options));
    report.add(table)?;
    plot(report, points)?;
    Ok(targets)
}

fn notes(options: &Options) -> String {
    format!(
        "File to `rules` to blackhole with --until-eof, and mtail{} with --one_shot and GOGC=400: \
         a rule is a literal in a line, such as `{}`. CPU s, user and system, of the process on one \
         core, minus the run over an empty file; medians of {}. mtail reads the beginning of the \
         same log. The counts are over these lines, for all rules.",
        version("mtail --version"),
        literal(0).trim(),
        options.repetitions
    )
}

impl Bench<'_> {
    /// Measures both programs with a number of rules, alternately; `None` if mtail is not
    /// installed.
    fn measure(&self, rules: usize, mtail_mb: usize) -> io::Result<Option<(Side, Side, [u64; 2])>> {
        let mb = self.options.input_mb.unwrap_or(INPUT_MB);
        let program = self.scratch.empty_folder("mtail")?;
        fs::write(program.join("rules.mtail"), mtail_program(rules))?;
        let run = format!("{} run -c ${{BENCH_CONFIG}} --until-eof", self.options.agent.display());
        let config = agent_config(rules, "type: blackhole, report: 1s");
        let mut agent = Side::new(AGENT, run, config, self.weblog("agent", mb)?);
        let run = format!(
            "mtail --one_shot --one_shot_format prometheus --log_dir ${{BENCH_DATA}} --progs {} --logs ${{BENCH_INPUT}}",
            program.display()
        );
        let head = self.weblog("mtail", mtail_mb.min(mb))?;
        let mut mtail = Side::new(MTAIL, run, String::new(), head);
        if !mtail.subject("").is_installed() {
            return Ok(None);
        }
        for repetition in 1..=self.options.repetitions {
            progress(&format!("rules: {rules} beside mtail {repetition}"));
            agent.repeat(self)?;
            mtail.repeat(self)?;
        }
        let counted = self.counted(rules, &agent, &mtail)?;
        Ok(Some((agent, mtail, counted)))
    }

    /// Returns the counts of both programs over the lines that mtail reads. Returns an error if
    /// they differ.
    fn counted(&self, rules: usize, agent: &Side, mtail: &Side) -> io::Result<[u64; 2]> {
        let config =
            agent_config(rules, "type: file, path: \"${BENCH_OUTPUT}\", encoding: { codec: json }");
        let (_, variables) = agent.start(self, &mtail.input.path, &config)?;
        let ours = delivered::sum("output \"value\":#", &variables.path("OUTPUT"))?.0;
        let (_, variables) = mtail.start(self, &mtail.input.path, "")?;
        let page = variables.path("LOG");
        let theirs = delivered::sum(&format!("{} {{prog=*}} #", page.display()), &page)?.0;
        if ours != theirs {
            return Err(io::Error::other(format!(
                "{rules} rules: the agent counts {ours} lines, mtail {theirs}"
            )));
        }
        Ok([ours, theirs])
    }

    /// Writes a web log; a shorter log is the beginning of a longer log.
    fn weblog(&self, name: &str, mb: usize) -> io::Result<Input> {
        let path = self.scratch.path(&format!("{name}.log"));
        let mut out = BufWriter::with_capacity(1 << 20, File::create(&path)?);
        let (bytes, lines) = WebLog::new(1).write(mb * 1_000_000, &mut out)?;
        out.flush()?;
        Ok(Input { path, bytes: bytes as u64, lines: lines as u64 })
    }
}

fn plot(report: &mut Report, points: [Vec<(f64, f64)>; 2]) -> io::Result<()> {
    let series = [AGENT, MTAIL].into_iter().zip(points);
    let series: Vec<Series> =
        series.map(|(label, points)| Series { label: label.to_owned(), points }).collect();
    let axes = Axes {
        title: "Lines that contain each of some literals, counted on one core",
        x: "rules",
        y: "log10 of lines per CPU s",
        x_label: &super::power_of_ten,
    };
    report.plot("rules_beside", &axes, &series)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rule_is_the_same_literal_for_both_programs() {
        let (config, program) = (agent_config(8, "type: blackhole"), mtail_program(8));
        assert!(config.contains("message.contains(' /search?q=rust+logs&page=2/1')"), "{config}");
        assert!(
            program.contains("/ \\/search\\?q=rust\\+logs\\&page=2\\/1/ {\n  c7++\n}"),
            "{program}"
        );
    }
}
