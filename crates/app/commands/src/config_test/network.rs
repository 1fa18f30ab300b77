//! The transforms of a configuration, connected as in a run and called as functions.

use super::Config;
use crate::components;
use millstream_components::component::{AnyComponent, BuildCx, Resources};
use millstream_config::Component;
use millstream_engine::MergeTrial;
use millstream_model::{
    Batch, BuildError, ComponentError, Counters, Map, Now, Offload, Outputs, Serial, Transform,
};
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// The connections between the components of a configuration.
pub struct Network<'c> {
    components: &'c [Component],
    /// Resources for the transforms.
    resources: Resources,
    /// Readers of each component: the output that is read, and the index of the reader.
    readers: Vec<Vec<(usize, usize)>>,
    /// Every component, in topological order.
    order: Vec<usize>,
}

impl<'c> Network<'c> {
    /// Builds the network of a checked configuration, which contains no cycle.
    pub fn new(config: &'c Config) -> Network<'c> {
        let components = &config.components[..];
        let mut readers = vec![Vec::new(); components.len()];
        let mut inputs = vec![Vec::new(); components.len()];
        for (reader, component) in components.iter().enumerate() {
            for (id, output) in components::inputs(config, component) {
                let Some(from) = components.iter().position(|other| other.id == id) else {
                    continue;
                };
                readers[from].push((output, reader));
                inputs[reader].push(from);
            }
        }
        let mut order: Vec<usize> = Vec::new();
        while order.len() < components.len() {
            let is_next = |index: &usize| {
                !order.contains(index) && inputs[*index].iter().all(|input| order.contains(input))
            };
            let Some(next) = (0..components.len()).find(is_next) else { break };
            order.push(next);
        }
        let resources = components::resources(config);
        Network { components, resources, readers, order }
    }

    /// Returns, for each component, whether events that enter at `target` can reach it.
    pub fn reached(&self, target: usize) -> Vec<bool> {
        let mut reached = vec![false; self.components.len()];
        reached[target] = true;
        for &index in self.order.iter().filter(|index| **index != target) {
            let reads = |(from, readers): (usize, &Vec<(usize, usize)>)| {
                reached[from] && readers.iter().any(|(_, reader)| *reader == index)
            };
            reached[index] = self.readers.iter().enumerate().any(reads);
        }
        reached
    }
}

/// The operation of a component on a batch.
enum Op {
    /// Sources and sinks record the batch unchanged.
    Pass,
    Map(Box<dyn Map>),
    Serial(Box<dyn Serial>),
    Offload(Arc<dyn Offload>),
    Merge(Box<MergeTrial>),
}

impl Op {
    fn new(
        component: &Component,
        network: &Network<'_>,
        counters: &Arc<Counters>,
    ) -> Result<Op, BuildError> {
        let AnyComponent::Transform(transform) = &component.decoded else { return Ok(Op::Pass) };
        let resources = &network.resources;
        match transform.build(&BuildCx { id: &component.id, resources, header: None })? {
            Transform::Map(instance) => Ok(Op::Map(instance())),
            Transform::Serial(serial) => Ok(Op::Serial(serial)),
            Transform::Offload(offload) => Ok(Op::Offload(offload)),
            Transform::Merge(sink) => {
                let trial = MergeTrial::new(&component.id, &*sink, counters.clone())?;
                Ok(Op::Merge(Box::new(trial)))
            }
        }
    }

    fn apply(&mut self, now: Now, batch: Batch, out: &mut Outputs) -> Result<(), ComponentError> {
        match self {
            Op::Pass => {
                out.send(0, batch);
                Ok(())
            }
            Op::Map(map) => map.apply(batch, out),
            Op::Serial(serial) => serial.apply(now, batch, out),
            Op::Offload(offload) => offload.apply(now, vec![batch], std::slice::from_mut(out)),
            Op::Merge(trial) => trial.add(now, &batch),
        }
    }

    /// Returns the results that are due; at the end of the input, returns all results.
    fn results(&mut self, now: Now, has_ended: bool) -> Vec<Batch> {
        match self {
            Op::Merge(trial) => trial.results(now, has_ended),
            _ => Vec::new(),
        }
    }
}

/// A run of one test: newly built transforms, and the outputs of all components.
pub struct Play<'n> {
    network: &'n Network<'n>,
    ops: Vec<Op>,
    counters: Vec<Arc<Counters>>,
    /// Output batches by component, each with the index of the output.
    made: Vec<Vec<(usize, Batch)>>,
    /// Messages that the components would log.
    said: Vec<String>,
    has_panicked: bool,
}

impl<'n> Play<'n> {
    /// Rebuilds every transform.
    pub fn new(network: &'n Network<'n>) -> Result<Play<'n>, BuildError> {
        let count = network.components.len();
        let counters: Vec<Arc<Counters>> = (0..count).map(|_| Arc::default()).collect();
        let ops = network
            .components
            .iter()
            .zip(&counters)
            .map(|(component, counters)| Op::new(component, network, counters));
        let ops = ops.collect::<Result<Vec<Op>, _>>()?;
        let made = vec![Vec::new(); count];
        Ok(Play { network, ops, counters, made, said: Vec::new(), has_panicked: false })
    }

    /// Passes a batch to a component, and passes the results to all components downstream.
    pub fn pass(&mut self, now: Now, target: usize, batch: Batch) {
        let mut waiting = vec![Vec::new(); self.network.components.len()];
        waiting[target].push(batch);
        self.pass_on(now, waiting, None);
    }

    /// Passes on results that aggregates hold back: the results that are due at this time, or all
    /// results at the end of the input.
    pub fn advance(&mut self, now: Now, has_ended: bool) {
        let waiting = vec![Vec::new(); self.network.components.len()];
        self.pass_on(now, waiting, Some(has_ended));
    }

    fn pass_on(&mut self, now: Now, mut waiting: Vec<Vec<Batch>>, ended: Option<bool>) {
        let network = self.network;
        for &index in &network.order {
            let mut outputs = Vec::new();
            for batch in std::mem::take(&mut waiting[index]) {
                outputs.extend(self.apply(index, now, batch));
            }
            let results = ended.map(|ended| self.ops[index].results(now, ended));
            outputs.extend(results.into_iter().flatten().map(|batch| (0, batch)));
            for (output, made) in outputs {
                let readers = network.readers[index].iter().filter(|(from, _)| *from == output);
                readers.for_each(|(_, reader)| waiting[*reader].push(made.clone()));
                self.made[index].push((output, made));
            }
        }
    }

    /// Applies a component like the engine does: rejected events are counted, and panics are
    /// caught.
    fn apply(&mut self, index: usize, now: Now, batch: Batch) -> Vec<(usize, Batch)> {
        let (op, counters) = (&mut self.ops[index], &self.counters[index]);
        let (id, events) = (&self.network.components[index].id, batch.events() as u64);
        let mut out = Outputs { counters: counters.clone(), ..Outputs::default() };
        match catch_unwind(AssertUnwindSafe(|| op.apply(now, batch, &mut out))) {
            Ok(Ok(())) => {}
            Ok(Err(error)) => {
                counters.dropped(error.kind, events);
                self.said.push(format!("{id}: {error}"));
            }
            Err(_) => {
                self.has_panicked = true;
                self.said.push(format!("{id}: panic, see standard error"));
                return Vec::new();
            }
        }
        self.said.extend(out.warning.take().map(|warning| format!("{id}: {warning}")));
        out.batches.retain(|(_, batch)| batch.events() > 0);
        out.batches
    }

    /// Returns the batches of an output, in order.
    pub fn made(&self, component: usize, output: usize) -> impl Iterator<Item = &Batch> {
        self.made[component].iter().filter(move |(from, _)| *from == output).map(|(_, batch)| batch)
    }

    /// Returns whether a component panicked, which fails the test.
    pub fn has_panicked(&self) -> bool {
        self.has_panicked
    }

    /// Returns the counts and messages from the run.
    pub fn notes(&self) -> Vec<String> {
        let counted = self.network.components.iter().zip(&self.counters).filter_map(
            |(component, counters)| {
                let counters = counters.snapshot();
                let dropped = listed("dropped", &counters.dropped_events);
                let noted = listed("noted", &counters.noted_events);
                let both = dropped.into_iter().chain(noted).collect::<Vec<_>>().join("; ");
                (!both.is_empty()).then(|| format!("counted by {}: {both}", component.id))
            },
        );
        counted.chain(self.said.iter().cloned()).collect()
    }
}

/// Formats counts: `dropped throttled 3, duplicate 1`.
fn listed(what: &str, counts: &BTreeMap<&'static str, u64>) -> Option<String> {
    let each: Vec<String> =
        counts.iter().map(|(reason, count)| format!("{reason} {count}")).collect();
    (!each.is_empty()).then(|| format!("{what} {}", each.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::super::events::Maker;
    use super::super::plan;
    use super::*;
    use millstream_config::{self as config, Registry};

    /// Two paths lead from `a` to `d`; `e` reads a side output.
    const CONFIG: &str = "
sources: { in: { type: stdin }, other: { type: stdin } }
transforms:
  d: { type: sample, inputs: [b, c], one_in: 1 }
  c: { type: sample, inputs: [a], one_in: 1 }
  b: { type: sample, inputs: [a], one_in: 1 }
  a: { type: parse, inputs: [in], time: { format: epoch_s }, on_error: reject }
  e: { type: sample, inputs: [a.rejected, other], one_in: 1 }
sinks: { out: { type: blackhole, inputs: [d, e] } }
tests: [{ name: t, input: { to: in, lines: ['1 x', y] }, expect: [{ from: out, count: 3 }] }]
";

    fn config() -> Config {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("m.yaml");
        std::fs::write(&path, CONFIG).unwrap();
        config::load_with_tests(&[path], &[], &Registry, &|_| None).unwrap()
    }

    fn index(config: &Config, id: &str) -> usize {
        config.components.iter().position(|component| component.id == id).unwrap()
    }

    /// Runs the only test after `change`; returns the number of events that each component
    /// produced.
    fn play(change: impl Fn(&mut Play<'_>, &Config)) -> (Vec<(String, usize)>, Vec<String>, bool) {
        let config = config();
        let network = Network::new(&config);
        let plans = plan::all(&config, &network).unwrap_or_else(|faults| panic!("{faults:?}"));
        let mut play = Play::new(&network).unwrap();
        change(&mut play, &config);
        let step = &plans[0].steps[0];
        let batches = Maker::new().batches(0, step);
        batches.into_iter().for_each(|batch| play.pass(step.now, step.component, batch));
        let made = config.components.iter().enumerate().map(|(index, component)| {
            let events = play.made(index, 0).chain(play.made(index, 1)).map(Batch::events).sum();
            (component.id.clone(), events)
        });
        (made.collect(), play.notes(), play.has_panicked())
    }

    fn counts(list: [usize; 8]) -> Vec<(String, usize)> {
        let ids = ["in", "other", "d", "c", "b", "a", "e", "out"];
        ids.into_iter().map(String::from).zip(list).collect()
    }

    #[test]
    fn events_take_every_path_and_components_run_in_topological_order() {
        let (made, notes, panicked) = play(|_, _| ());
        assert_eq!(made, counts([2, 0, 2, 1, 1, 2, 1, 3]));
        assert!(!panicked && notes[0].starts_with("counted by a: "), "{notes:?}");
    }

    #[test]
    fn downstream_components_are_found() {
        let config = config();
        let network = Network::new(&config);
        let reached = |id| network.reached(index(&config, id));
        assert_eq!(reached("other"), [false, true, false, false, false, false, true, true]);
        assert_eq!(reached("c"), [false, false, true, true, false, false, false, true]);
    }

    struct Fails(Option<ComponentError>);

    impl Map for Fails {
        fn apply(&mut self, _: Batch, _: &mut Outputs) -> Result<(), ComponentError> {
            Err(self.0.take().expect("an error"))
        }
    }

    #[test]
    fn rejected_events_and_panics_are_reported() {
        let error = || ComponentError::new("broken", "no luck");
        let (made, notes, panicked) = play(|play, config| {
            play.ops[index(config, "b")] = Op::Map(Box::new(Fails(Some(error()))));
        });
        assert_eq!((made, panicked), (counts([2, 0, 1, 1, 0, 2, 1, 2]), false));
        assert_eq!(notes[0], "counted by b: dropped broken 1");
        let (made, notes, panicked) = play(|play, config| {
            play.ops[index(config, "b")] = Op::Map(Box::new(Fails(None)));
        });
        assert_eq!((made, panicked), (counts([2, 0, 1, 1, 0, 2, 1, 2]), true));
        assert!(notes.contains(&"b: panic, see standard error".to_owned()), "{notes:?}");
    }
}
