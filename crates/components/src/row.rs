//! A row of the registry.

use crate::component::AnyComponent;
use millstream_model::Kind;
use serde_json::Value;

/// One component type.
pub struct Row {
    /// Role of the component in the topology.
    pub kind: Kind,
    /// Type of the component in the configuration.
    pub name: &'static str,
    /// Decodes options that match the schema.
    pub decode: fn(Value) -> Result<AnyComponent, serde_json::Error>,
    /// Returns the JSON Schema of the component's specific options.
    pub schema: fn() -> schemars::Schema,
    /// Sample configuration with every option. It is part of the documentation, and tests use it.
    pub sample: &'static str,
    /// User documentation.
    pub readme: &'static str,
}

/// Creates the row of a component. The path of the folder that contains the component's sample and
/// page is relative to the caller.
macro_rules! row {
    ($kind:ident, $config:ty, $name:literal, $folder:literal) => {
        $crate::row::Row {
            kind: millstream_model::Kind::$kind,
            name: $name,
            decode: |options| {
                let config: $config = serde_json::from_value(options)?;
                Ok($crate::component::AnyComponent::$kind(std::sync::Arc::new(config)))
            },
            schema: || schemars::schema_for!($config),
            sample: include_str!(concat!($folder, "/sample.yaml")),
            readme: include_str!(concat!($folder, "/README.md")),
        }
    };
}

pub(crate) use row;
