//! Measures the agent with operators: events per CPU second after warm-up.

use super::Jdk;
use crate::Options;
use crate::header::Header;
use crate::measure::{Samples, progress};
use crate::plot::Bars;
use crate::process::{Program, Subject};
use crate::report::{Report, Table};
use crate::scratch::{Input, Scratch};
use crate::variables::Variables;
use std::io;

/// Size of the web log in megabytes. Its first half warms the agent up.
const INPUT_MB: usize = 3000;
const COLUMNS: &[&str] = &[
    "scenario",
    "Java",
    "events per CPU s",
    "min",
    "max",
    "ns per event",
    "beside",
    "ratio",
    "target",
    "CPU s to warm up",
    "peak RSS MB",
    "verdict",
];

/// Results of a scenario on one JDK.
struct Side<'a> {
    scenario: &'a Header,
    /// The JDK; `None` without operators.
    jdk: Option<&'a Jdk>,
    /// Nanoseconds of CPU time per event after warm-up.
    ns: Samples,
    /// The values of `ns` in the order of the repetitions.
    repeated: Vec<f64>,
    /// CPU seconds of start and warm-up, minus the time that the same events take later.
    warm_up: Samples,
    rss_mb: Samples,
}

/// Measures the scenarios in `names`, or all scenarios.
pub fn run(
    options: &Options,
    names: &[String],
    jdks: &[Jdk],
    scratch: &Scratch,
    report: &mut Report,
) -> io::Result<()> {
    let scenarios = Header::read_folder(&options.folder.join("operators"), names)?;
    let input = Input::weblog(scratch, INPUT_MB * 1_000_000, 1)?;
    let mut sides: Vec<Side<'_>> =
        scenarios.iter().flat_map(|scenario| Side::of(scenario, jdks)).collect();
    for repetition in 1..=options.repetitions {
        for side in &mut sides {
            progress(&format!("operators: {} {repetition}", side.label()));
            side.repeat(options, &input, scratch)?;
        }
    }
    let mut table = Table::new("operators", "The agent with operators, one core", COLUMNS);
    for side in &sides {
        table.row(side.cells(&sides)?);
    }
    for scenario in &scenarios {
        table.note(format!("{}: {}.", scenario.name, scenario.text("title")));
    }
    table.note(format!(
        "Medians of {}. CPU time per event of the second half of {INPUT_MB} MB: the start of the JVM and most of its \
         compilation are in the first half. The time to warm up is the additional CPU time of the first half.",
        options.repetitions
    ));
    report.add(table)?;
    plot(&sides, report)
}

fn plot(sides: &[Side<'_>], report: &mut Report) -> io::Result<()> {
    let labels: Vec<String> = sides.iter().map(Side::label).collect();
    let values = sides.iter().map(|side| 1e3 / side.ns.median()).collect();
    let series = [Bars { label: "agent", values }];
    report.bars("operators", "million events per CPU second", &labels, &series)
}

impl<'a> Side<'a> {
    /// Returns the scenario with each JDK, or once if it has no operator.
    fn of(scenario: &'a Header, jdks: &'a [Jdk]) -> Vec<Side<'a>> {
        let has_operator = scenario.config.contains("type: jvm");
        let jdks = if has_operator { jdks.iter().map(Some).collect() } else { vec![None] };
        let side = |jdk| Side {
            scenario,
            jdk,
            ns: Samples::default(),
            repeated: Vec::new(),
            warm_up: Samples::default(),
            rss_mb: Samples::default(),
        };
        jdks.into_iter().map(side).collect()
    }

    fn java(&self) -> String {
        self.jdk.map_or(String::new(), |jdk| jdk.version.to_string())
    }

    fn label(&self) -> String {
        format!("{} {}", self.scenario.name, self.java()).trim_end().to_owned()
    }

    fn repeat(&mut self, options: &Options, input: &Input, scratch: &Scratch) -> io::Result<()> {
        let program = self.start(options, input, scratch)?;
        let points = program.progress()?;
        let outcome = program.wait(input.lines)?;
        if outcome.lines > input.lines {
            return Err(io::Error::other(format!("{}: events are repeated", self.label())));
        }
        let (events, seconds) = points[points.len() - 1];
        let is_warm = |(reached, _): &&(u64, f64)| *reached >= events / 2;
        let (warm_events, warm_seconds) = points.iter().find(is_warm).copied().unwrap_or_default();
        // The result counts the events that were read, because filters deliver fewer.
        let read = input.lines as f64 / outcome.lines as f64;
        let per_event = (seconds - warm_seconds) / ((events - warm_events) as f64 * read);
        self.ns.push(per_event * 1e9);
        self.repeated.push(per_event * 1e9);
        self.warm_up.push(warm_seconds - per_event * read * warm_events as f64);
        self.rss_mb.push(outcome.peak_rss_bytes as f64 / 1e6);
        Ok(())
    }

    fn start(&self, options: &Options, input: &Input, scratch: &Scratch) -> io::Result<Program> {
        let variables = Variables::fresh(scratch, &input.path)?;
        let home = self.jdk.map(|jdk| format!("JAVA_HOME={}", jdk.home.display()));
        let mut subject = Subject::agent(&options.agent, "--until-eof", self.scenario);
        subject.env = home.as_deref().unwrap_or_default();
        Program::start(&subject, &variables, &[options.core])
    }

    /// Returns the side that `self` is compared with, if any.
    fn other<'s>(&self, all: &'s [Side<'a>]) -> Option<&'s Side<'a>> {
        let is_other = |side: &&Side<'_>| {
            let is_same_java = side.jdk.is_none() || side.java() == self.java();
            is_same_java && side.scenario.name == self.scenario.text("limit")
        };
        all.iter().find(is_other)
    }

    /// Returns the median over the ratios of the repetitions, because the host's speed changes less
    /// within a repetition. Returns `None` if there is no side to compare with.
    fn ratio(&self, all: &[Side<'a>]) -> Option<f64> {
        let mut ratios = Samples::default();
        let pairs = self.other(all)?.repeated.iter().zip(&self.repeated);
        pairs.for_each(|(other, own)| ratios.push(other / own));
        Some(ratios.median())
    }

    fn cells(&self, all: &[Side<'a>]) -> io::Result<Vec<String>> {
        let ratio = self.ratio(all);
        let rates = [self.ns.median(), self.ns.max(), self.ns.min()].map(|ns| 1e9 / ns);
        let (target, verdict) = self.target(rates[0], ratio)?;
        let mut cells = vec![self.scenario.name.clone(), self.java()];
        cells.extend(rates.map(|rate| format!("{rate:.0}")));
        cells.extend([
            format!("{:.0}", self.ns.median()),
            self.scenario.text("limit").to_owned(),
            ratio.map_or(String::new(), |ratio| format!("{ratio:.2}")),
            target,
            format!("{:.2}", self.warm_up.median()),
            format!("{:.0}", self.rss_mb.max()),
            verdict.to_owned(),
        ]);
        Ok(cells)
    }

    /// Returns the target and whether it is met.
    fn target(&self, rate: f64, ratio: Option<f64>) -> io::Result<(String, &'static str)> {
        let verdict = |is_met: bool| if is_met { "holds" } else { "MISSED" };
        if let Some(target) = self.scenario.number("target_records")? {
            return Ok((format!(">= {target}"), verdict(rate >= target)));
        }
        match (self.scenario.number("target_ratio")?, ratio) {
            (Some(target), Some(ratio)) => {
                Ok((format!("ratio >= {target}"), verdict(ratio >= target)))
            }
            _ => Ok((String::new(), "")),
        }
    }
}
