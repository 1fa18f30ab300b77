//! From a checked configuration to a blueprint, through the registry.

use crate::config::{Catalog, Component, Config, Fault, Formats};
use millstream_components::registry::{Build, ROWS, Row, find};
use millstream_engine::{Blueprint, Input, SinkPart, SourcePart, TransformPart};
use millstream_model::{BuildError, Kind, SourceInfo};
use serde_json::Value;
use std::collections::HashMap;

/// The registry, as the configuration loader sees it.
pub struct Registry;

impl Catalog for Registry {
    fn types(&self, kind: Kind) -> Vec<&'static str> {
        let mut names: Vec<_> = ROWS.iter().filter(|row| row.kind() == kind).map(|row| row.name).collect();
        names.sort_unstable();
        names
    }

    fn schema(&self, kind: Kind, type_name: &str) -> Option<schemars::Schema> {
        find(kind, type_name).map(|row| (row.schema)())
    }

    fn outputs(&self, kind: Kind, type_name: &str, options: &Value) -> Vec<String> {
        find(kind, type_name).map_or_else(Vec::new, |row| (row.outputs)(options.clone()))
    }

    fn check(&self, kind: Kind, type_name: &str, options: &Value) -> Vec<(String, String)> {
        find(kind, type_name).map_or_else(Vec::new, |row| (row.check)(options.clone()))
    }

    fn formats(&self) -> Formats {
        millstream_components::registry::FORMATS
    }
}

/// Components that claim what another one has already, at the later one's place.
pub fn clashes(config: &Config) -> Vec<Fault> {
    let mut claimed: HashMap<String, &Component> = HashMap::new();
    let mut faults = Vec::new();
    for component in &config.components {
        let row = find(component.kind, &component.type_name);
        for claim in row.map_or_else(Vec::new, |row| (row.claims)(component.options.clone())) {
            if let Some(first) = claimed.insert(claim.clone(), component) {
                let what = format!("`{}` and `{}` both use {claim}", first.id, component.id);
                faults.push(Fault::new(
                    &component.place,
                    what,
                    "give each its own, or one component both inputs",
                ));
            }
        }
    }
    faults
}

/// Builds every component of a checked configuration.
pub fn blueprint(config: &Config) -> Result<Blueprint, BuildError> {
    let mut blueprint = Blueprint::default();
    for component in &config.components {
        let row = find(component.kind, &component.type_name)
            .ok_or_else(|| BuildError(format!("{} {}: unknown type", component.kind, component.id)))?;
        add(&mut blueprint, config, component, row)
            .map_err(|error| BuildError(format!("{} {}: {error}", component.kind, component.id)))?;
    }
    Ok(blueprint)
}

fn add(
    blueprint: &mut Blueprint,
    config: &Config,
    component: &Component,
    row: &Row,
) -> Result<(), BuildError> {
    let (id, type_name) = (component.id.clone(), row.name);
    match row.build {
        Build::Source(build) => {
            let open = build(component.options.clone())?;
            blueprint.sources.push(SourcePart { info: source_info(component), type_name, open });
        }
        Build::Transform(build) => {
            let (inputs, transform) = (inputs(config, component), build(component.options.clone())?);
            blueprint.transforms.push(TransformPart { id, type_name, inputs, transform });
        }
        Build::Sink(build) => {
            let (inputs, sink) = (inputs(config, component), build(component.options.clone())?);
            blueprint.sinks.push(SinkPart { id, type_name, inputs, sink });
        }
    }
    Ok(())
}

fn source_info(component: &Component) -> SourceInfo {
    SourceInfo {
        id: component.id.clone(),
        host: component.host.clone().unwrap_or_else(host_name),
        attributes: component.attributes.clone(),
    }
}

fn host_name() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

/// `id` is the main output of a component, `id.name` its side output.
fn inputs(config: &Config, component: &Component) -> Vec<Input> {
    let resolve = |input: &String| {
        let (id, name) = input.split_once('.').unwrap_or((input, ""));
        let index = config.components.iter().find(|c| c.id == id).and_then(|of| {
            let outputs = Registry.outputs(of.kind, &of.type_name, &of.options);
            outputs.iter().position(|output| output == name)
        });
        (id.to_owned(), if name.is_empty() { 0 } else { index.map_or(0, |i| i + 1) })
    };
    component.inputs.iter().map(resolve).collect()
}
