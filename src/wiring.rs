//! Turns a checked configuration into a blueprint, through the registry, and into the settings of
//! an engine.

use crate::governor;
use millstream_commands::components::{inputs, resources, source_info};
use millstream_commands::load::Loader;
use millstream_commands::{headers, jvms, logging};
use millstream_components::component::{AnyComponent, BuildCx, Resources};
use millstream_config::{Component, Config};
use millstream_engine::{Blueprint, Clock, Settings, SinkPart, SourcePart, TransformPart};
use millstream_model::tap::Taps;
use millstream_model::{BuildError, InternalMetrics};

/// Loads configurations, and accepts only those that the engine could run.
pub const LOADER: Loader = Loader { refused };

/// Returns the reason why a run of this configuration would be rejected, without opening anything.
fn refused(config: &Config) -> Option<String> {
    if let Some(reason) = jvms::oversized_jvm(config) {
        return Some(reason);
    }
    match blueprint(config) {
        Ok(blueprint) => blueprint
            .check(&settings(config, false, InternalMetrics::default()))
            .err()
            .map(|error| error.to_string()),
        Err(error) => Some(error.to_string()),
    }
}

/// Returns the engine settings for a configuration.
pub fn settings(config: &Config, until_eof: bool, internal_metrics: InternalMetrics) -> Settings {
    let (threads, jvm) = (jvms::threads(config), jvms::jvm_options(config));
    Settings {
        threads,
        offload_threads: jvm.threads,
        memory_bytes: config.globals.limits.memory.0,
        reserved_bytes: jvms::jvm_bytes(config),
        memory_host: Some(governor::memory_host()),
        cpu: config.globals.limits.cpu,
        sink_bytes_max: millstream_engine::limits::SINK_BYTES_MAX,
        until_eof,
        clock: Clock::System,
        internal_metrics,
        taps: Taps::default(),
        internal_logs: logging::internal_logs(),
    }
}

/// Builds every component of a checked configuration.
pub fn blueprint(config: &Config) -> Result<Blueprint, BuildError> {
    let mut blueprint = Blueprint::default();
    let resources = resources(config);
    for component in &config.components {
        add(&mut blueprint, config, &resources, component).map_err(|error| {
            BuildError::Component {
                kind: component.kind,
                id: component.id.clone(),
                error: Box::new(error),
            }
        })?;
    }
    Ok(blueprint)
}

fn add(
    blueprint: &mut Blueprint,
    config: &Config,
    resources: &Resources,
    component: &Component,
) -> Result<(), BuildError> {
    let id = component.id.clone();
    let type_name = component.type_name;
    let cx = BuildCx { id: &component.id, resources, header: headers::of(config, component) };
    match component.decoded.clone() {
        AnyComponent::Source(source) => {
            let queue_bytes = source.queue_bytes();
            let built = source.build(&cx)?;
            let open = built.unwrap_or_else(|| Box::new(move |open| source.open(open)));
            let (info, pace) = (source_info(component), component.pace);
            blueprint.sources.push(SourcePart { info, type_name, pace, queue_bytes, open });
        }
        AnyComponent::Transform(transform) => {
            let transform = transform.build(&cx)?;
            let inputs = inputs(config, component);
            blueprint.transforms.push(TransformPart { id, type_name, inputs, transform });
        }
        AnyComponent::Sink(sink) => {
            let sink = sink.build()?;
            let (inputs, buffer) = (inputs(config, component), component.buffer);
            blueprint.sinks.push(SinkPart { id, type_name, inputs, buffer, sink });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
