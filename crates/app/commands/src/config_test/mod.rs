//! `millstream test`: unit tests of a configuration. The transforms run as functions, on one thread
//! and at a given time; sources and sinks are never opened.
//!
//! `plan` resolves the names in a test, `events` builds batches from its input, `network` passes
//! them through the transforms, and `compare` reports the differences between the output and the
//! expectation.

mod compare;
mod events;
mod network;
mod plan;

use crate::exit::{DONE, FAILED, USAGE};
use crate::load::Loader;
use events::Maker;
use millstream_components::transforms::jvm::KeptOperators;
use millstream_components::util::condition::Condition;
use millstream_config::{self as config, Config, Fault, Place, Registry};
use millstream_model::{Batch, Outputs};
use network::{Network, Play};
use plan::{Plan, Wanted};
use std::io::{self, Write};
use std::path::PathBuf;

/// The end of `millstream test --help`.
pub const HELP: &str = "Example:\n  \
    millstream test -c millstream.yaml\n  \
    millstream test -c millstream.yaml routing_tests.yaml\n\n\
    A test is an item of the list `tests` in the configuration or in an additional FILE:\n  \
    tests:\n    \
    - name: failures are routed\n      \
    input: { to: parsed, lines: ['GET / 500', 'GET / 200'] }\n      \
    expect: [{ from: failures, events: [{ status: 500 }] }]\n\n\
    Sources and sinks are not opened. Set the same variables as for a run.\n\
    Exit status: 0 all passed; 1 some failed; 2 errors in the configuration or in a test.";

/// Runs every test in a configuration and in `files`; returns the exit status.
pub fn run(paths: &[PathBuf], files: &[PathBuf], loader: &Loader) -> u8 {
    let loaded = config::load_with_tests(paths, files, &Registry, &|name| std::env::var(name).ok());
    // Keep compiled operators, because each test rebuilds the transforms.
    let _operators = KeptOperators::begin();
    let Some(config) = loader.accept(loaded) else { return USAGE };
    let network = Network::new(&config);
    let plans = match plan::all(&config, &network) {
        Ok(plans) if plans.is_empty() => Err(vec![no_tests()]),
        other => other,
    };
    match plans {
        Ok(plans) => report(&network, &plans, &mut io::stdout().lock()).unwrap_or(FAILED),
        Err(faults) => {
            faults.iter().for_each(|fault| eprintln!("{fault}"));
            USAGE
        }
    }
}

/// Returns the error for a configuration without tests. Passing would hide that the tests were not
/// found.
fn no_tests() -> Fault {
    Fault::anywhere("no tests found", "add a list `tests`, or pass a file that contains one")
}

/// Runs every test and prints a line for each, followed by its failures.
fn report(network: &Network<'_>, plans: &[Plan<'_>], out: &mut impl Write) -> io::Result<u8> {
    let mut failed = 0;
    for plan in plans {
        let lines = differences(network, plan);
        let name = one_line(&plan.test.name);
        if lines.is_empty() {
            writeln!(out, "ok {name}")?;
            continue;
        }
        failed += 1;
        writeln!(out, "FAILED {name} ({})", short(plan.test.place("")))?;
        lines.iter().try_for_each(|line| writeln!(out, "  {line}"))?;
    }
    writeln!(out, "{} passed, {failed} failed", plans.len() - failed)?;
    Ok(if failed == 0 { DONE } else { FAILED })
}

/// Returns all differences from the expectations of a test, and possible explanations; empty if the
/// test passes.
fn differences(network: &Network<'_>, plan: &Plan<'_>) -> Vec<String> {
    let mut play = match Play::new(network) {
        Ok(play) => play,
        Err(error) => return vec![error.to_string()],
    };
    let maker = Maker::new();
    for (index, step) in plan.steps.iter().enumerate() {
        play.advance(step.now, false);
        for batch in maker.batches(index, step) {
            play.pass(step.now, step.component, batch);
        }
    }
    plan.steps.last().into_iter().for_each(|step| play.advance(step.now, true));
    let mut lines: Vec<String> =
        plan.expect.iter().flat_map(|wanted| missed(&maker, &play, wanted)).collect();
    if !lines.is_empty() || play.has_panicked() {
        lines.extend(play.notes());
    }
    lines
}

/// Returns the differences from one expectation, each line with the component's name.
fn missed(maker: &Maker, play: &Play<'_>, wanted: &Wanted<'_>) -> Vec<String> {
    let found = match maker.read(play.made(wanted.component, wanted.output)) {
        Ok(found) => found,
        Err(message) => return vec![format!("{}: {message}", wanted.expected.from)],
    };
    let mut blocks = compare::compare(&found, wanted.expected);
    blocks.extend(unheld(maker, play, wanted));
    let head = format!("{} ({})", wanted.expected.from, short(wanted.place));
    let indented = |line: &String| format!("  {line}");
    let lines = |block: &compare::Block| {
        std::iter::once(format!("{head}: {}", block.what))
            .chain(block.lines.iter().map(indented))
            .collect()
    };
    blocks.iter().flat_map(|block| -> Vec<String> { lines(block) }).collect()
}

/// Returns the events for which a condition does not hold.
fn unheld(maker: &Maker, play: &Play<'_>, wanted: &Wanted<'_>) -> Option<compare::Block> {
    let text = wanted.expected.holds.as_ref()?;
    let condition = Condition::new(text).ok()?;
    let others = play.made(wanted.component, wanted.output).map(|batch| {
        let mut others = batch.clone();
        others.select(!&condition.holds(batch, &mut Outputs::default()));
        others
    });
    let others: Vec<Batch> = others.collect();
    let events = maker.read(others.iter()).unwrap_or_default();
    let lines = events
        .iter()
        .map(|event| format!("+ {}", one_line(&serde_json::to_string(event).unwrap_or_default())))
        .collect::<Vec<_>>();
    let what = format!("{} events for which `{}` does not hold", lines.len(), one_line(text));
    (!lines.is_empty()).then_some(compare::Block { what, lines })
}

/// Returns the file and line, which suffice to find a test.
fn short(place: &Place) -> String {
    format!("{}:{}", place.file, place.line)
}

/// Escapes line endings and other control characters.
fn one_line(text: &str) -> String {
    let escaped =
        |c: char| if c.is_control() { c.escape_default().to_string() } else { c.to_string() };
    text.chars().map(escaped).collect()
}

#[cfg(test)]
mod tests;
