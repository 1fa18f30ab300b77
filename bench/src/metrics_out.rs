//! Measures output: the cost of compression, a million series over the network, points to
//! Prometheus, logs over HTTP.

mod compressed;
mod flush;
mod latency;
mod logs;
mod remote_write;
mod whole;

use crate::Options;
use crate::compression;
use crate::header::Header;
use crate::metrics::program::Bench;
use crate::peers::TARGET_COLUMNS;
use crate::report::{Report, Table};
use crate::scratch::Scratch;
use std::io;

/// Measures the scenarios in `names`, or all scenarios, and then compression separately.
pub fn run(
    options: &Options,
    names: &[String],
    scratch: &Scratch,
    report: &mut Report,
) -> io::Result<()> {
    let bench = Bench { scratch, core: options.core, load_core: options.load_core };
    let mut targets =
        Table::new("metrics_out_targets", "The targets of the way out", TARGET_COLUMNS);
    if names.is_empty() {
        compression::run(report)?.into_iter().for_each(|row| targets.row(row));
    }
    let scenarios = Header::read_folder(&options.folder.join("metrics_out"), names)?;
    let flushes: Vec<&Header> =
        scenarios.iter().filter(|scenario| scenario.text("part") == "flush").collect();
    if !flushes.is_empty() {
        flush::run(options, &flushes, &bench, report)?.into_iter().for_each(|row| targets.row(row));
    }
    let distant: Vec<&Header> =
        scenarios.iter().filter(|scenario| scenario.text("part") == "latency").collect();
    if !distant.is_empty() {
        latency::run(options, &distant, &bench, report)?
            .into_iter()
            .for_each(|row| targets.row(row));
    }
    let is_single = |scenario: &&Header| !["flush", "latency"].contains(&scenario.text("part"));
    for scenario in scenarios.iter().filter(is_single) {
        let rows = match scenario.text("part") {
            "whole" => whole::run(options, scenario, &bench, report)?,
            "logs" => logs::run(options, scenario, &bench, report)?,
            part => {
                return Err(io::Error::other(format!(
                    "{}: there is no part {part}",
                    scenario.name
                )));
            }
        };
        rows.into_iter().for_each(|row| targets.row(row));
    }
    report.add(targets)
}
