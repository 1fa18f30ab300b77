//! Checks that sinks that accept only metrics have inputs that emit metrics.

use millstream_config::{Component, Config, Fault};
use std::collections::HashSet;

/// Returns an error for each input of a metrics-only sink if the input cannot emit metrics, because
/// the sink would drop all of its events.
pub fn missing(config: &Config) -> Vec<Fault> {
    let (with_metrics, mut faults) = (with_metrics(config), Vec::new());
    for sink in config.components.iter().filter(|sink| accepts_only_metrics(sink)) {
        for input in sink.inputs.iter().filter(|input| !with_metrics.contains(id(input))) {
            let what =
                format!("`{}` accepts only metrics, but `{input}` does not emit metrics", sink.id);
            let advice = "read from a metric source, or create metrics with `parse` or `fields`";
            faults.push(Fault::new(&sink.place, what, advice));
        }
    }
    faults
}

/// Returns the ids of the components that can emit metrics.
fn with_metrics(config: &Config) -> HashSet<&str> {
    let mut found = HashSet::new();
    loop {
        let before = found.len();
        for component in &config.components {
            if emits_metrics(component)
                || component.inputs.iter().any(|input| found.contains(id(input)))
            {
                found.insert(component.id.as_str());
            }
        }
        if found.len() == before {
            return found;
        }
    }
}

/// Returns the component id of an input: `id`, or `id.output`.
fn id(input: &str) -> &str {
    input.split('.').next().unwrap_or(input)
}

fn emits_metrics(component: &Component) -> bool {
    component.decoded.makes_metrics()
}

fn accepts_only_metrics(component: &Component) -> bool {
    component.decoded.wants_metrics()
}
