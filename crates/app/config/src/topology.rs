//! Checks how components are connected: invalid inputs, cycles, and unused outputs.

use std::collections::{HashMap, HashSet};

use millstream_model::Kind;

use super::components::{Draft, Input};
use super::fault::{Fault, Place};
use super::suggest;

/// Checks the topology of all components. `written` are the kinds with entries; `start` is the
/// position for errors of an empty configuration.
pub fn check(
    drafts: &[Draft],
    written: &[Kind],
    start: &Place,
    faults: &mut Vec<Fault>,
) -> Vec<Fault> {
    for (kind, purpose) in [(Kind::Source, "read from"), (Kind::Sink, "deliver to")] {
        if !written.contains(&kind) {
            let section = kind.section();
            let advice = format!("add a {kind} under `{section}:`");
            faults.push(Fault::new(
                start,
                format!("no {section}, so there is nothing to {purpose}"),
                advice,
            ));
        }
    }
    let mut wiring = Wiring::new(drafts);
    for index in 0..drafts.len() {
        wiring.component(index, faults);
    }
    wiring.cycles(faults);
    wiring.unread()
}

struct Wiring<'a> {
    drafts: &'a [Draft],
    by_id: HashMap<&'a str, usize>,
    /// For each component, the components that it reads from, each with the input that refers to
    /// it.
    edges: Vec<Vec<(usize, &'a Input)>>,
    /// Every `id` and `id.output` that is used as an input.
    read: HashSet<&'a str>,
}

impl<'a> Wiring<'a> {
    fn new(drafts: &'a [Draft]) -> Self {
        let by_id =
            drafts.iter().enumerate().map(|(index, draft)| (draft.id.as_str(), index)).collect();
        Wiring { drafts, by_id, edges: vec![Vec::new(); drafts.len()], read: HashSet::new() }
    }

    fn component(&mut self, index: usize, faults: &mut Vec<Fault>) {
        let draft = &self.drafts[index];
        let mut known = HashSet::new();
        for input in &draft.inputs {
            if !known.insert(&input.name) {
                let what = format!("duplicate input `{}`", input.shown);
                faults.push(Fault::new(&input.place, what, "remove one of them"));
                continue;
            }
            match self.find(index, input) {
                Ok(from) if from == index => {
                    let what = format!("`{}` is its own input", draft.id);
                    faults.push(Fault::new(
                        &input.place,
                        what,
                        "use the id of the component that it should read from",
                    ));
                }
                Ok(from) => {
                    self.edges[index].push((from, input));
                    self.read.insert(&input.name);
                    self.read.insert(&self.drafts[from].id);
                }
                Err(fault) => faults.push(fault),
            }
        }
    }

    /// Returns the component that an input of the component `reader` refers to.
    fn find(&self, reader: usize, input: &Input) -> Result<usize, Fault> {
        let (id, output) = match input.name.split_once('.') {
            Some((id, output)) => (id, Some(output)),
            None => (input.name.as_str(), None),
        };
        let Some(&index) = self.by_id.get(id) else { return Err(self.missing(reader, input)) };
        let draft = &self.drafts[index];
        match (output, &draft.outputs) {
            (None, _) if draft.kind == Kind::Sink => Err(sink_as_input(input, draft)),
            (Some(output), Some(outputs)) if !outputs.iter().any(|name| name == output) => {
                Err(no_such_output(input, draft, outputs))
            }
            _ => Ok(index),
        }
    }

    fn missing(&self, reader: usize, input: &Input) -> Fault {
        let mut names: Vec<String> = Vec::new();
        let others = self.drafts.iter().enumerate().filter(|(index, _)| *index != reader);
        for (_, draft) in others {
            if draft.kind != Kind::Sink {
                names.push(draft.id.clone());
            }
            names.extend(output_names(draft));
        }
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let advice = match names.as_slice() {
            [] => "add a source with this id".into(),
            _ if input.secret => format!("name {}", suggest::listed(&names, "or")),
            _ => suggest::advice(&input.name, &names, "the possible inputs are"),
        };
        Fault::new(&input.place, format!("the input `{}` does not exist", input.shown), advice)
    }

    /// Reports each cycle once, with the whole path.
    fn cycles(&self, faults: &mut Vec<Fault>) {
        let mut left: HashSet<usize> = (0..self.drafts.len()).collect();
        loop {
            self.drop_acyclic(&mut left);
            let Some(&start) = left.iter().min() else { return };
            let cycle = self.cycle_from(start, &left);
            faults.push(self.cycle_fault(&cycle));
            left.retain(|index| !cycle.contains(index));
        }
    }

    /// Removes components that are neither on a cycle nor downstream of one.
    fn drop_acyclic(&self, left: &mut HashSet<usize>) {
        let mut waiting = vec![0; self.drafts.len()];
        let mut readers = vec![Vec::new(); self.drafts.len()];
        for &index in left.iter() {
            for (from, _) in self.edges[index].iter().filter(|(from, _)| left.contains(from)) {
                waiting[index] += 1;
                readers[*from].push(index);
            }
        }
        let mut ready: Vec<usize> =
            left.iter().copied().filter(|index| waiting[*index] == 0).collect();
        while let Some(index) = ready.pop() {
            left.remove(&index);
            for &reader in &readers[index] {
                waiting[reader] -= 1;
                if waiting[reader] == 0 {
                    ready.push(reader);
                }
            }
        }
    }

    /// Returns a cycle among `left`, in the direction of the data, starting with its first
    /// component.
    fn cycle_from(&self, start: usize, left: &HashSet<usize>) -> Vec<usize> {
        let mut way = vec![start];
        loop {
            let last = way[way.len() - 1];
            let next =
                self.edges[last].iter().map(|(from, _)| *from).find(|from| left.contains(from));
            let Some(next) = next else { return way };
            if let Some(at) = way.iter().position(|index| *index == next) {
                let mut cycle = way.split_off(at);
                cycle.reverse();
                let first = (0..cycle.len()).min_by_key(|at| cycle[*at]).unwrap_or(0);
                cycle.rotate_left(first);
                return cycle;
            }
            way.push(next);
        }
    }

    fn cycle_fault(&self, cycle: &[usize]) -> Fault {
        let (first, last) = (cycle[0], cycle[cycle.len() - 1]);
        let way: Vec<&str> =
            cycle.iter().chain([&first]).map(|index| self.drafts[*index].id.as_str()).collect();
        let closing = self.edges[first].iter().find(|(from, _)| *from == last);
        let place = closing.map_or(&self.drafts[first].place, |(_, input)| &input.place);
        Fault::new(
            place,
            format!("the inputs form a cycle: {}", way.join(" -> ")),
            "remove one of these inputs",
        )
    }

    /// Returns warnings about unused outputs, in component order.
    fn unread(&self) -> Vec<Fault> {
        let mut warnings = Vec::new();
        for draft in self.drafts {
            if draft.kind != Kind::Sink && !self.read.contains(draft.id.as_str()) {
                let what = format!("no component reads the {} `{}`", draft.kind, draft.id);
                let advice = "add it to the `inputs` of a transform or sink, or remove it";
                warnings.push(Fault::new(&draft.place, what, advice));
                continue;
            }
            // Events that a sink rejects are counted even if no component reads them.
            let names = output_names(draft).filter(|_| draft.kind != Kind::Sink);
            for name in names.filter(|name| !self.read.contains(name.as_str())) {
                let what =
                    format!("no component reads `{name}`, so its events are dropped and counted");
                warnings.push(Fault::new(&draft.place, what, "add it to `inputs` to keep them"));
            }
        }
        warnings
    }
}

/// Returns `id.output` of every side output.
fn output_names(draft: &Draft) -> impl Iterator<Item = String> {
    draft.outputs.iter().flatten().map(|output| format!("{}.{output}", draft.id))
}

fn sink_as_input(input: &Input, draft: &Draft) -> Fault {
    let outputs: Vec<String> = output_names(draft).collect();
    let advice = match outputs.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        [] => "use the id of a source or a transform".into(),
        names => {
            format!("use the id of a source, of a transform, or {}", suggest::listed(names, "or"))
        }
    };
    Fault::new(
        &input.place,
        format!("the input `{}` is a sink, which has no output", input.shown),
        advice,
    )
}

fn no_such_output(input: &Input, draft: &Draft, outputs: &[String]) -> Fault {
    let names: Vec<String> = output_names(draft).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let advice = match outputs {
        [] => format!("use `{}`; it has no side outputs", draft.id),
        _ if input.secret => format!("name {}", suggest::listed(&names, "or")),
        _ => suggest::advice(&input.name, &names, "its side outputs are"),
    };
    Fault::new(&input.place, format!("the input `{}` does not exist", input.shown), advice)
}
