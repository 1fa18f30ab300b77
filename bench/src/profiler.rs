//! Measures the cost of profiles for the agent: CPU time per event without a profile, with
//! continuous profiling, and with a profile that a client has started.

use crate::Options;
use crate::beside::Beside;
use crate::header::Header;
use crate::measure::{Samples, progress};
use crate::operators::Jdk;
use crate::report::{Report, Table};
use crate::scratch::{Input, Scratch};
use std::io;

/// Maximum share of the CPU time, with continuous profiling and with a profile.
const SHARES_MAX: [f64; 2] = [0.005, 0.02];

/// Size of the web log in megabytes: some seconds of CPU time, so that the start is a small part.
const INPUT_MB: usize = 1000;

const COLUMNS: &[&str] = &[
    "scenario",
    "Java",
    "ns per event",
    "continuous, 19 Hz",
    "range",
    "target",
    "profile, 10 ms",
    "range",
    "target",
];

/// Profiling of the agent in one run.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Mode {
    Off,
    Continuous,
    Profile,
}

const MODES: [Mode; 3] = [Mode::Off, Mode::Continuous, Mode::Profile];

/// Measures each scenario.
pub fn run(options: &Options, scratch: &Scratch, report: &mut Report) -> io::Result<()> {
    let scenarios = Header::read_folder(&options.folder.join("profiler"), &[])?;
    let input = Input::weblog(scratch, options.input_mb.unwrap_or(INPUT_MB) * 1_000_000, 1)?;
    let mut table = Table::new("profiler", "The agent while it is profiled, one core", COLUMNS);
    for scenario in &scenarios {
        let jdks = match scenario.config.contains("type: jvm") {
            true => Jdk::all()?.into_iter().map(Some).collect(),
            false => vec![None],
        };
        for jdk in jdks {
            table.row(row(options, scenario, jdk.as_ref(), &input, scratch)?);
        }
    }
    table.note(format!(
        "CPU time of the agent per event of the second half of {} million, so without its start. Shares are \
         the medians of the differences within each of {} repetitions, and the range of their middle \
         half; the three cases alternate.",
        input.lines / 1_000_000,
        options.repetitions
    ));
    report.add(table)
}

fn row(
    options: &Options,
    scenario: &Header,
    jdk: Option<&Jdk>,
    input: &Input,
    scratch: &Scratch,
) -> io::Result<Vec<String>> {
    let (mut off, mut shares) = (Samples::default(), [Samples::default(), Samples::default()]);
    let java = jdk.map_or(String::new(), |jdk| jdk.version.to_string());
    for repetition in 1..=options.repetitions {
        let label = format!("{} {java} {repetition}/{}", scenario.name, options.repetitions);
        progress(&format!("profiler: {label}"));
        let mut ns = [0.0; 3];
        for (ns, mode) in ns.iter_mut().zip(MODES) {
            *ns = ns_per_event(options, scenario, jdk, mode, input, scratch)?;
        }
        off.push(ns[0]);
        shares.iter_mut().zip(&ns[1..]).for_each(|(share, ns_on)| share.push(ns_on / ns[0] - 1.0));
    }
    let mut cells = vec![scenario.name.clone(), java, format!("{:.0}", off.median())];
    for (share, share_max) in shares.iter().zip(SHARES_MAX) {
        let percent = |share: f64| format!("{:.2}%", share * 100.0);
        let verdict = if share.median() < share_max { "holds" } else { "MISSED" };
        cells.push(percent(share.median()));
        cells.push(format!(
            "{} to {}",
            percent(share.quantile(0.25)),
            percent(share.quantile(0.75))
        ));
        cells.push(format!("< {:.1}%: {verdict}", share_max * 100.0));
    }
    Ok(cells)
}

/// Returns the CPU time per event for the second half of the events.
fn ns_per_event(
    options: &Options,
    scenario: &Header,
    jdk: Option<&Jdk>,
    mode: Mode,
    input: &Input,
    scratch: &Scratch,
) -> io::Result<f64> {
    let config = match mode {
        Mode::Continuous => format!("profiler: {{ continuous: true }}\n{}", scenario.config),
        Mode::Off | Mode::Profile => scenario.config.clone(),
    };
    let home = jdk.map(|jdk| format!("JAVA_HOME={}", jdk.home.display()));
    let client: Option<&[&str]> =
        (mode == Mode::Profile).then_some(&["profile", "-d", "1h", "-i", "10ms", "-o", "-"]);
    let env = home.as_deref().unwrap_or_default();
    let agent = Beside { scenario, config: &config, env, client };
    agent.ns_per_event(options, input, scratch)
}
