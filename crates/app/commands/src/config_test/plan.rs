//! Resolves the names in the tests before any test runs.

use super::network::Network;
use super::{Config, Fault, Place};
use crate::{components, headers};
use millstream_components::component::HeaderLines;
use millstream_components::util::formats::parse_rfc3339;
use millstream_config::{Component, Event, Expectation, TestInput, UnitTest, suggest};
use millstream_model::{EngineTime, Kind, Now, SourceInfo};
use std::sync::Arc;

/// A test, ready to run.
pub struct Plan<'c> {
    /// The test.
    pub test: &'c UnitTest,
    /// Inputs, in order.
    pub steps: Vec<Step<'c>>,
    /// Expected outputs.
    pub expect: Vec<Wanted<'c>>,
}

/// An input.
pub struct Step<'c> {
    /// Index of the component.
    pub component: usize,
    /// Metadata that the events share.
    pub source: Arc<SourceInfo>,
    /// Header lines in the input, which name the columns.
    pub headers: Option<HeaderLines>,
    /// Time when the input is read.
    pub now: Now,
    /// The events.
    pub input: &'c TestInput,
}

/// The expectation for one output.
pub struct Wanted<'c> {
    /// Index of the component.
    pub component: usize,
    /// Index of the output.
    pub output: usize,
    /// Position of the expectation.
    pub place: &'c Place,
    /// The expectation.
    pub expected: &'c Expectation,
}

/// Resolves the names in every test.
///
/// # Errors
/// Returns an error for every unknown name, with its position and a suggestion.
pub fn all<'c>(config: &'c Config, network: &Network<'_>) -> Result<Vec<Plan<'c>>, Vec<Fault>> {
    let mut faults = Vec::new();
    let plans = config.tests.iter().map(|test| {
        let mut planner = Planner { config, test, faults: &mut faults };
        let (steps, expect) = (planner.steps(), planner.expect());
        planner.unreached(network, &steps, &expect);
        Plan { test, steps, expect }
    });
    let plans = plans.collect();
    if faults.is_empty() { Ok(plans) } else { Err(faults) }
}

struct Planner<'c, 'f> {
    config: &'c Config,
    test: &'c UnitTest,
    faults: &'f mut Vec<Fault>,
}

impl<'c> Planner<'c, '_> {
    fn fault(&mut self, pointer: &str, what: impl Into<String>, advice: impl Into<String>) {
        self.faults.push(Fault::new(self.test.place(pointer), what, advice));
    }

    fn steps(&mut self) -> Vec<Step<'c>> {
        // The format of the time was checked earlier.
        let begin_ns = parse_rfc3339(&self.test.now).unwrap_or_default();
        let (mut since_start, mut steps) = (EngineTime::ZERO, Vec::new());
        for (at, input) in self.test.input.list() {
            since_start += input.after.0;
            let ns = i64::try_from(since_start.uptime().as_nanos()).unwrap_or(i64::MAX);
            let now = Now { since_start, unix_ns: begin_ns.saturating_add(ns) };
            self.events(&at, input.events.as_deref().unwrap_or_default());
            if let Some(component) = self.target(&at, input) {
                let target = &self.config.components[component];
                let source = source_info(target);
                let headers = header_lines(self.config, target);
                steps.push(Step { component, source, headers, now, input });
            }
        }
        steps
    }

    /// Resolves the component of an input.
    fn target(&mut self, at: &str, input: &TestInput) -> Option<usize> {
        let pointer = format!("{at}/to");
        let found = self.config.components.iter().position(|component| component.id == input.to);
        if found.is_some_and(|index| self.config.components[index].kind != Kind::Sink) {
            return found;
        }
        let shown = self.test.shown(&pointer);
        let takers = self.config.components.iter().filter(|component| component.kind != Kind::Sink);
        let names: Vec<&str> = takers.map(|component| component.id.as_str()).collect();
        match found {
            Some(_) => {
                let advice = "use a transform, or a source upstream of the sink";
                self.fault(
                    &pointer,
                    format!("`to`: `{shown}` is a sink, which has no output"),
                    advice,
                );
            }
            None => {
                let advice = suggest::advice(shown, &names, "the inputs are");
                self.fault(&pointer, format!("`to`: `{shown}` does not exist"), advice);
            }
        }
        None
    }

    /// Reports events with an invalid line or time.
    fn events(&mut self, at: &str, events: &[Event]) {
        for (index, event) in events.iter().enumerate() {
            let pointer = |key: &str| format!("{at}/events/{index}/{key}");
            if event.get("message").is_some_and(|message| !message.is_string()) {
                self.fault(&pointer("message"), "`message`: expected text", "use quotes");
            }
            let is_time =
                |time: &serde_json::Value| time.as_str().is_some_and(|t| parse_rfc3339(t).is_ok());
            if event.get("timestamp").is_some_and(|time| !is_time(time)) {
                let advice = "use, for example, 2026-11-21T20:29:46Z";
                self.fault(&pointer("timestamp"), "`timestamp`: expected a time", advice);
            }
        }
    }

    fn expect(&mut self) -> Vec<Wanted<'c>> {
        let mut all = Vec::new();
        for (at, expected) in self.test.expect.iter().enumerate() {
            let pointer = format!("/expect/{at}/from");
            match find(self.config, &expected.from) {
                Some((component, output)) => {
                    let place = self.test.place(&pointer);
                    all.push(Wanted { component, output, place, expected });
                }
                None => {
                    let shown = self.test.shown(&pointer);
                    let names = outputs(self.config);
                    let names: Vec<&str> = names.iter().map(String::as_str).collect();
                    let advice = suggest::advice(shown, &names, "the outputs are");
                    self.fault(&pointer, format!("`from`: `{shown}` does not exist"), advice);
                }
            }
        }
        all
    }

    /// Reports an expectation for an output that can have no events, even if it expects none.
    fn unreached(&mut self, network: &Network<'_>, steps: &[Step<'_>], expect: &[Wanted<'_>]) {
        let reached: Vec<Vec<bool>> =
            steps.iter().map(|step| network.reached(step.component)).collect();
        for wanted in expect.iter().filter(|_| steps.len() == self.test.input.list().len()) {
            if !reached.iter().any(|reached| reached[wanted.component]) {
                let what =
                    format!("`from`: no input of this test reaches `{}`", wanted.expected.from);
                self.faults.push(Fault::new(
                    wanted.place,
                    what,
                    "send the input to an upstream component",
                ));
            }
        }
    }
}

/// Resolves component and output of `id` or `id.output`.
fn find(config: &Config, name: &str) -> Option<(usize, usize)> {
    let (id, output) = name.split_once('.').map_or((name, None), |(id, output)| (id, Some(output)));
    let index = config.components.iter().position(|component| component.id == id)?;
    let Some(output) = output else { return Some((index, 0)) };
    let at = side_outputs(&config.components[index]).iter().position(|name| name == output)?;
    Some((index, at + 1))
}

/// Returns the names of all outputs: `id` and `id.output`.
fn outputs(config: &Config) -> Vec<String> {
    let names = |component: &Component| {
        let side =
            side_outputs(component).into_iter().map(|output| format!("{}.{output}", component.id));
        std::iter::once(component.id.clone()).chain(side).collect::<Vec<_>>()
    };
    config.components.iter().flat_map(names).collect()
}

/// Returns the side outputs of a component. A sink has none, because it delivers nothing in a test.
/// The events of a sink are its input.
fn side_outputs(component: &Component) -> Vec<String> {
    match component.kind {
        Kind::Sink => Vec::new(),
        _ => component.decoded.outputs(),
    }
}

/// Returns the metadata that the events of an input share: the metadata of the source, if the
/// component is a source.
fn source_info(component: &Component) -> Arc<SourceInfo> {
    Arc::new(match component.kind {
        Kind::Source => components::source_info(component),
        _ => SourceInfo { id: "test".into(), ..SourceInfo::default() },
    })
}

/// Returns the header lines of an input: the lines that the receiving source finds, or that the
/// receiving transform expects.
fn header_lines(config: &Config, component: &Component) -> Option<HeaderLines> {
    match component.kind {
        Kind::Source if component.type_name == "file" => headers::of(config, component),
        Kind::Source => None,
        _ => component.decoded.header_lines().into_iter().next(),
    }
}
