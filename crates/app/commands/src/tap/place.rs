//! The position of a tap in a configuration: its point, and the redactions on the path from the
//! point to the sinks.

use crate::components::resources;
use millstream_components::component::{AnyComponent, BuildCx};
use millstream_config::{
    Catalog, Component, Config, Registry,
    suggest::{listed, nearest},
};
use millstream_console::TapRefusal;
use millstream_model::TapSide;
use millstream_model::{Kind, Map, Transform};
use std::collections::BTreeSet;

/// The type of transforms that redact.
const REDACT: &str = "redact";

/// Transform types that do not change event fields. A redaction downstream of them finds the same
/// data upstream of them.
const KEEP_FIELDS: [&str; 6] = ["dedupe", "filter", "route", "sample", "throttle", REDACT];

/// A tap point: the side of a component, its id in the engine, and the index of its output.
pub type Point = (TapSide, String, usize);

/// Returns the point with an id, which is a component id or `ID.OUTPUT`.
pub fn point(config: &Config, name: &str) -> Result<Point, TapRefusal> {
    let (id, output) = match name.split_once('.') {
        Some((id, output)) => (id, Some(output)),
        None => (name, None),
    };
    let Some(component) = config.components.iter().find(|component| component.id == id) else {
        return Err(unknown(config, name));
    };
    let index = output.map(|output| component.decoded.outputs().iter().position(|o| o == output));
    match (component.kind, index) {
        (_, Some(None)) => Err(unknown(config, name)),
        (Kind::Sink, None) => Ok((TapSide::Input, id.to_owned(), 0)),
        // The engine creates these events only if a component reads them.
        (Kind::Sink, Some(_)) if readers(config, name).next().is_none() => {
            let text = format!("no component reads `{name}`, so there are no events to show");
            Err(TapRefusal::Unknown(text))
        }
        (Kind::Sink, Some(_)) => Ok((TapSide::Output, name.to_owned(), 0)),
        (_, None) => Ok((TapSide::Output, id.to_owned(), 0)),
        (_, Some(Some(index))) => Ok((TapSide::Output, id.to_owned(), index + 1)),
    }
}

fn unknown(config: &Config, name: &str) -> TapRefusal {
    let names: Vec<String> = config.components.iter().flat_map(names).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let near = nearest(name, &names);
    let near = near.map_or(String::new(), |near| format!("; did you mean `{near}`?"));
    let text = format!(
        "no component or output is named `{name}`{near} The names are {}",
        listed(&names, "and")
    );
    TapRefusal::Unknown(text.replace("` The names", "`; the names"))
}

/// Returns the names of a component's outputs, the main one first. The names of a sink include its
/// id.
pub fn names(component: &Component) -> Vec<String> {
    let others = component.decoded.outputs().into_iter();
    let others = others.map(|output| format!("{}.{output}", component.id));
    std::iter::once(component.id.clone()).chain(others).collect()
}

/// Returns the components that read an output.
fn readers<'c>(config: &'c Config, name: &'c str) -> impl Iterator<Item = &'c Component> {
    config.components.iter().filter(move |c| c.inputs.iter().any(|input| input == name))
}

/// Returns the ids of all components on the paths to an output. Any of them may issue the events: a
/// transform issues batches if it builds them from many events.
pub fn upstream(config: &Config, name: &str) -> Vec<String> {
    let mut found = BTreeSet::new();
    let mut names = vec![name];
    while let Some(name) = names.pop() {
        let id = name.split_once('.').map_or(name, |(id, _)| id);
        let Some(component) = config.components.iter().find(|component| component.id == id) else {
            continue;
        };
        // The events of a sink's output come from the sink itself, not from its inputs.
        let is_begin = component.kind == Kind::Sink && id != name;
        if found.insert(if is_begin { name } else { id }.to_owned()) && !is_begin {
            names.extend(component.inputs.iter().map(String::as_str));
        }
    }
    found.into_iter().collect()
}

/// Returns every redaction between a point and any sink, in the order of the flow.
///
/// # Errors
///
/// Returns an error if a redaction cannot be built.
pub fn redactions(config: &Config, name: &str) -> Result<Vec<Box<dyn Map>>, String> {
    let is_sink = |c: &Component| c.kind == Kind::Sink && c.id == name;
    if config.components.iter().any(is_sink) {
        return Ok(Vec::new());
    }
    let mut found = Downstream::default();
    follow(config, name, true, &mut found);
    let of_kind = |(id, as_is): &(String, bool)| {
        let component = config.components.iter().find(|component| component.id == *id)?;
        (component.type_name == REDACT).then_some((component, *as_is))
    };
    found
        .order
        .iter()
        .rev()
        .filter_map(of_kind)
        .map(|(c, as_is)| redaction(config, c, as_is))
        .collect()
}

/// The components downstream of an output, and whether the events have the same fields there.
#[derive(Default)]
struct Downstream {
    seen: BTreeSet<(String, bool)>,
    /// Components in an order in which each follows all components downstream of it.
    order: Vec<(String, bool)>,
}

/// Collects the components downstream of an output.
fn follow(config: &Config, name: &str, as_is: bool, found: &mut Downstream) {
    for reader in readers(config, name) {
        let place = (reader.id.clone(), as_is);
        if reader.kind == Kind::Sink || !found.seen.insert(place.clone()) {
            continue;
        }
        let as_is = as_is && KEEP_FIELDS.contains(&reader.type_name);
        names(reader).iter().for_each(|name| follow(config, name, as_is, found));
        found.order.push(place);
    }
}

/// Builds a redaction. A redaction that is limited to some fields searches all data, unless the
/// events have these fields `as_is`. Otherwise their values may be in other fields or in the
/// message.
fn redaction(config: &Config, component: &Component, as_is: bool) -> Result<Box<dyn Map>, String> {
    let resources = resources(config);
    let cx = BuildCx { id: &component.id, resources: &resources, header: None };
    let mut options = component.options.clone();
    let limit = options.as_object_mut().and_then(|options| options.shift_remove("fields"));
    let decoded = match limit.is_some() && !as_is {
        true => Registry.decode(Kind::Transform, REDACT, options)?,
        false => component.decoded.clone(),
    };
    let AnyComponent::Transform(transform) = decoded else {
        return Err(format!("{} is not a transform", component.id));
    };
    match transform.build(&cx).map_err(|error| error.to_string())? {
        Transform::Map(make) => Ok(make()),
        _ => Err(format!("{} cannot be applied to a sample", component.id)),
    }
}

#[cfg(test)]
mod tests;
