//! Measures how often `diagnose` is right: with one injected cause, with two, and with healthy
//! agents.

use crate::Options;
use crate::report::{Report, Table};
use millstream_testkit_servers::causes::{Matrix, VERDICT};
use std::io;

/// Numbers of runs.
#[derive(Clone, Copy, Debug, clap::Args)]
pub struct DiagnoseOptions {
    /// Number of runs of each cause
    #[arg(long, default_value_t = 5)]
    singles: u64,
    /// Number of runs with two causes
    #[arg(long, default_value_t = 60)]
    pairs: u64,
    /// Number of healthy runs
    #[arg(long, default_value_t = 300)]
    healthy: u64,
    /// Seed of the first run
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

/// Runs the agents and reports the findings of `diagnose`.
pub fn run(options: &Options, play: DiagnoseOptions, report: &mut Report) -> io::Result<()> {
    let counts = (play.singles, play.pairs, play.healthy);
    let matrix = Matrix::play(&options.agent, play.seed, counts, None);
    for run in matrix.wrong().into_iter().chain(matrix.false_alarms()) {
        println!(
            "{} (seed {}): expected {:?}, named {:?}",
            run.what, run.seed, run.expected, run.named
        );
    }
    report.add(figures(&matrix))?;
    report.add(confusion(&matrix))
}

/// Returns the counts and the F1 score of each cause.
fn figures(matrix: &Matrix) -> Table {
    let columns = ["cause", "right", "missed", "false alarms", "F1"];
    let mut table = Table::new("diagnose", "Causes injected into agents", &columns);
    for (cause, of) in matrix.figures() {
        let counts = [of.right, of.missed, of.false_alarms].map(|count| count.to_string());
        table.row([vec![cause], counts.to_vec(), vec![format!("{:.3}", of.f1())]].concat());
    }
    let planted = matrix.runs.iter().filter(|run| !run.expected.is_empty()).count();
    let (runs, healthy) = (matrix.runs.len(), matrix.runs.len() - planted);
    table.note(format!("{runs} runs, {planted} with injected causes, {healthy} healthy."));
    table.note(format!("Macro F1 {:.3}; target 0.95.", matrix.macro_f1()));
    let first = 100.0 * matrix.first_right();
    table.note(format!("The first named cause is an injected one in {first:.1}%; target 90%."));
    let alarms = matrix.false_alarms().len();
    table.note(format!("A healthy agent was accused in {alarms} runs; target 0."));
    let (seconds, limit) = (matrix.seconds_max(), VERDICT.as_secs());
    table.note(format!("All causes were named after at most {seconds:.0} s; target {limit} s."));
    table
}

/// Returns the findings in the runs of each injected cause.
fn confusion(matrix: &Matrix) -> Table {
    let columns = ["injected", "runs", "named"];
    let mut table = Table::new("diagnose_confusion", "What was named", &columns);
    for (planted, mut named) in matrix.confusion() {
        let runs = named.remove("runs").unwrap_or(0);
        let named: Vec<String> = named.iter().map(|(cause, n)| format!("{cause} {n}")).collect();
        table.row(vec![planted, runs.to_string(), named.join(", ")]);
    }
    table
}
