//! The catalog of the existing components.

use crate::{Catalog, Formats};
use millstream_components::component::AnyComponent;
use millstream_components::registry::{FORMATS, find, rows};
use millstream_model::Kind;
use serde_json::Value as Json;

/// The component registry as the catalog of the configuration loader.
pub struct Registry;

impl Catalog for Registry {
    fn types(&self, kind: Kind) -> Vec<&'static str> {
        let mut names: Vec<_> = rows().filter(|row| row.kind == kind).map(|row| row.name).collect();
        names.sort_unstable();
        names
    }

    fn find(&self, kind: Kind, name: &str) -> Option<&'static str> {
        find(kind, name).map(|row| row.name)
    }

    fn schema(&self, kind: Kind, type_name: &str) -> Option<schemars::Schema> {
        find(kind, type_name).map(|row| (row.schema)())
    }

    fn decode(&self, kind: Kind, type_name: &str, options: Json) -> Result<AnyComponent, String> {
        let row =
            find(kind, type_name).ok_or_else(|| format!("unknown {kind} type {type_name}"))?;
        (row.decode)(options).map_err(|error| error.to_string())
    }

    fn formats(&self) -> Formats {
        FORMATS
    }
}
