//! Information from a configuration about its components: their resources, their inputs, the
//! metadata that their events share, and their proxies.

use crate::jvms;
use millstream_components::component::Resources;
use millstream_config::{Component, Config};
use millstream_engine::Input;
use millstream_model::SourceInfo;

/// Returns the resources that the program provides to the components of a configuration.
pub fn resources(config: &Config) -> Resources {
    let mut resources = Resources::new();
    resources.insert(jvms::runtime(config));
    resources
}

/// Returns the metadata shared by all events from a source.
pub fn source_info(component: &Component) -> SourceInfo {
    SourceInfo {
        id: component.id.clone(),
        host: component.host.clone().unwrap_or_else(host_name),
        attributes: component.attributes.clone(),
    }
}

fn host_name() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

/// Resolves the inputs of a component: `id` is the main output, `id.name` a side output.
pub fn inputs(config: &Config, component: &Component) -> Vec<Input> {
    let resolve = |input: &String| {
        let (id, name) = input.split_once('.').unwrap_or((input, ""));
        let index = config
            .components
            .iter()
            .find(|c| c.id == id)
            .and_then(|found| found.decoded.outputs().iter().position(|output| output == name));
        (id.to_owned(), if name.is_empty() { 0 } else { index.map_or(0, |i| i + 1) })
    };
    component.inputs.iter().map(resolve).collect()
}

/// Returns component ids with the endpoints to which the components send through proxies.
pub fn proxies(config: &Config) -> impl Iterator<Item = (&str, String)> {
    config.components.iter().flat_map(|component| {
        let ways = component.decoded.proxies().into_iter();
        ways.map(|way| (component.id.as_str(), way))
    })
}
