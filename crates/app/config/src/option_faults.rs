//! Errors that components find in their options.

use millstream_components::component::AnyComponent;
use millstream_model::{Kind, OptionError};

use super::Catalog;
use super::fault::{Fault, Place};
use super::node::{Node, Value};
use super::secret::{advice, masked, masked_advice, subject};

/// Decodes options that match the schema of a component, and reports their errors.
pub fn option_faults(
    node: &Node,
    place: &Place,
    kind: Kind,
    type_name: &'static str,
    catalog: &dyn Catalog,
) -> Vec<Fault> {
    match catalog.decode(kind, type_name, node.to_json()) {
        Ok(decoded) => faults_of(&decoded, node, place),
        Err(message) => vec![Fault::new(place, message, "")],
    }
}

/// Reports the errors that a component finds in options that match the schema.
pub fn faults_of(decoded: &AnyComponent, node: &Node, place_of_all: &Place) -> Vec<Fault> {
    let found = decoded.check().into_iter().map(|error| option_fault(&error, node, place_of_all));
    found.collect()
}

/// Returns a component check's error at the option's position, without the values of variables.
fn option_fault(error: &OptionError, node: &Node, place_of_all: &Place) -> Fault {
    let at = node.nearest(&error.pointer);
    let place = if std::ptr::eq(at, node) { place_of_all } else { &at.place };
    let others = node.all_substituted();
    // An error about a whole map rarely quotes the contents of the map.
    let is_map = matches!(at.value, Value::Map(_));
    let own = if is_map { Vec::new() } else { at.all_substituted() };
    let option = match &at.template {
        Some(_) => pointer_path(&error.pointer),
        None => pointer_key(&error.pointer).unwrap_or_default().to_owned(),
    };
    let what = format!("{}{}", subject(at, &option), masked(&error.what, &own, &others));
    Fault::new(place, what, advice(at, masked_advice(&error.advice, &own, &others)))
}

/// Returns the keys of a JSON pointer, without list indices.
fn pointer_path(pointer: &str) -> String {
    let keys: Vec<&str> = pointer.split('/').filter(|step| is_key(step)).collect();
    keys.join(".")
}

/// Returns the last key of a JSON pointer that is not a list index.
pub fn pointer_key(pointer: &str) -> Option<&str> {
    pointer.rsplit('/').find(|step| is_key(step))
}

fn is_key(step: &str) -> bool {
    !step.is_empty() && step.parse::<usize>().is_err()
}
