//! The graph of components and its topological order.

use super::{Input, Parts};
use crate::error::EngineError;
use std::collections::HashMap;

/// Indices of the blueprint's nodes: transforms in data-flow order, then sinks.
pub struct Graph {
    /// Index among the parts of each transform, in data-flow order.
    pub order: Vec<usize>,
    /// Readers of (component id, output).
    readers: HashMap<Input, Vec<usize>>,
}

impl Graph {
    pub fn new(parts: &Parts) -> Result<Graph, EngineError> {
        let order = flow_order(parts)?;
        let transforms = order.iter().map(|i| &parts.transforms[*i].inputs);
        let mut readers: HashMap<Input, Vec<usize>> = HashMap::new();
        for (node, inputs) in transforms.chain(parts.sinks.iter().map(|s| &s.inputs)).enumerate() {
            inputs.iter().for_each(|input| readers.entry(input.clone()).or_default().push(node));
        }
        Ok(Graph { order, readers })
    }

    pub fn of(&self, id: &str, output: usize) -> Vec<usize> {
        self.readers.get(&(id.to_owned(), output)).cloned().unwrap_or_default()
    }

    /// Returns the readers of each output of a component.
    pub fn outputs(&self, id: &str) -> Vec<Vec<usize>> {
        let count =
            self.readers.keys().filter(|(of, _)| of == id).map(|(_, output)| output + 1).max();
        (0..count.unwrap_or(0)).map(|output| self.of(id, output)).collect()
    }
}

/// Sorts transforms topologically: each comes after its inputs.
fn flow_order(parts: &Parts) -> Result<Vec<usize>, EngineError> {
    let sources = parts.sources.iter().map(|source| &source.info);
    let infos = sources.chain(parts.feeds.iter().map(|feed| &feed.info));
    let mut done: Vec<&str> = infos.map(|info| info.id.as_str()).collect();
    let mut order = Vec::new();
    while order.len() < parts.transforms.len() {
        let ready = |i: &usize| {
            let inputs = &parts.transforms[*i].inputs;
            !order.contains(i) && inputs.iter().all(|(id, _)| done.contains(&id.as_str()))
        };
        let Some(next) = (0..parts.transforms.len()).find(ready) else {
            return Err(EngineError::NoTransformOrder);
        };
        done.push(&parts.transforms[next].id);
        order.push(next);
    }
    Ok(order)
}
