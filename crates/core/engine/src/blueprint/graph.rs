//! The graph of components and its topological order.

use super::{Input, Parts};
use crate::error::EngineError;
use crate::index::NodeIndex;
use std::collections::HashMap;

/// Maps each output to the nodes that read it. The nodes are the transforms in data-flow order,
/// followed by the sinks.
pub struct Graph {
    /// Indices of the transforms among the parts, in data-flow order.
    pub order: Vec<usize>,
    /// Nodes that read each output of a component.
    readers: HashMap<Input, Vec<NodeIndex>>,
}

impl Graph {
    /// Orders the transforms, and finds the readers of each output.
    ///
    /// # Errors
    ///
    /// Returns an error if the transforms form a cycle or have an unknown input.
    pub fn new(parts: &Parts) -> Result<Graph, EngineError> {
        let order = flow_order(parts)?;
        let transforms = order.iter().map(|i| &parts.transforms[*i].inputs);
        let mut readers: HashMap<Input, Vec<NodeIndex>> = HashMap::new();
        let sinks = parts.sinks.iter().map(|sink| &sink.inputs);
        for (node, inputs) in transforms.chain(sinks).enumerate() {
            for input in inputs {
                readers.entry(input.clone()).or_default().push(NodeIndex::new(node));
            }
        }
        Ok(Graph { order, readers })
    }

    /// Returns the nodes that read an output of a component.
    pub fn readers(&self, id: &str, output: usize) -> Vec<NodeIndex> {
        self.readers.get(&(id.to_owned(), output)).cloned().unwrap_or_default()
    }

    /// Returns the readers of each of a component's outputs.
    pub fn outputs(&self, id: &str) -> Vec<Vec<NodeIndex>> {
        let read = self.readers.keys().filter(|(component, _)| component == id);
        let count = read.map(|(_, output)| output + 1).max().unwrap_or(0);
        (0..count).map(|output| self.readers(id, output)).collect()
    }
}

/// Sorts transforms topologically: each transform comes after its inputs.
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
