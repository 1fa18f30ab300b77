//! Measures the cost of taps for the agent: CPU time per event without a tap, with a tap, and with
//! a tap that follows events.

use crate::Options;
use crate::beside::Beside;
use crate::header::Header;
use crate::measure::{Samples, progress};
use crate::report::{Report, Table};
use crate::scratch::{Input, Scratch};
use std::io;

/// Minimum rate while a tap is open, as a share of the rate without a tap.
const RATE_MIN: f64 = 0.99;

/// Size of the web log in megabytes: some seconds of CPU time, so that the start is a small part.
const INPUT_MB: usize = 1000;

/// Commands to measure, in addition to a run without a tap.
const CLIENTS: [&[&str]; 3] = [
    &["tap", "web"],
    &["tap", "access", "--where", "status == '500'"],
    &["tap", "access", "--follow"],
];

const COLUMNS: &[&str] = &["command", "ns per event", "rate", "range", "target"];

/// Measures each command.
pub fn run(options: &Options, scratch: &Scratch, report: &mut Report) -> io::Result<()> {
    let scenarios = Header::read_folder(&options.folder.join("profiler"), &["parse".to_owned()])?;
    let input = Input::weblog(scratch, options.input_mb.unwrap_or(INPUT_MB) * 1_000_000, 1)?;
    let mut table = Table::new("taps", "The agent while events are tapped, one core", COLUMNS);
    for scenario in &scenarios {
        rows(options, scenario, &input, scratch)?.into_iter().for_each(|row| table.row(row));
    }
    table.note(format!(
        "CPU time of the agent per event, for the second half of {} million events, which excludes the start. It \
         includes the thread that makes the lines; no event is lost. The rate is the time without a command \
         divided by the time with it: the median over {} repetitions, and the range of the middle half. The \
         cases alternate; the client has another core.",
        input.lines / 1_000_000,
        options.repetitions
    ));
    report.add(table)
}

fn rows(
    options: &Options,
    scenario: &Header,
    input: &Input,
    scratch: &Scratch,
) -> io::Result<Vec<Vec<String>>> {
    let mut off = Samples::default();
    let mut tapped = CLIENTS.map(|_| (Samples::default(), Samples::default()));
    for repetition in 1..=options.repetitions {
        progress(&format!("taps: {} {repetition}/{}", scenario.name, options.repetitions));
        let measure = |client| {
            let agent = Beside { scenario, config: &scenario.config, env: "", client };
            agent.ns_per_event(options, input, scratch)
        };
        let ns_off = measure(None)?;
        off.push(ns_off);
        for ((ns, rates), client) in tapped.iter_mut().zip(CLIENTS) {
            let ns_on = measure(Some(client))?;
            ns.push(ns_on);
            rates.push(ns_off / ns_on);
        }
    }
    let none = ["none", &format!("{:.0}", off.median()), "1", "", ""].map(str::to_owned).to_vec();
    let tapped = tapped.iter().zip(CLIENTS).map(|((ns, rates), client)| row(client, ns, rates));
    Ok(std::iter::once(none).chain(tapped).collect())
}

fn row(client: &[&str], ns: &Samples, rates: &Samples) -> Vec<String> {
    let verdict = if rates.median() >= RATE_MIN { "holds" } else { "MISSED" };
    vec![
        client.join(" "),
        format!("{:.0}", ns.median()),
        format!("{:.4}", rates.median()),
        format!("{:.4} to {:.4}", rates.quantile(0.25), rates.quantile(0.75)),
        format!(">= {RATE_MIN}: {verdict}"),
    ]
}
