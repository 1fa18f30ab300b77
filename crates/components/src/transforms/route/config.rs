//! Configuration of the `route` transform.

use super::{Match, Route};
use crate::component::{BuildCx, Component, TransformComponent};
use crate::util::condition::Condition;
use indexmap::IndexMap;
use millstream_model::{BuildError, OptionError, Transform};
use schemars::JsonSchema;
use serde::Deserialize;
use std::sync::Arc;

/// Options for the `route` transform.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RouteConfig {
    /// Outputs by name, each with the condition that an event must satisfy.
    pub routes: IndexMap<String, Condition>,
    /// Whether an event goes to all outputs whose conditions it satisfies, or only to the first.
    #[serde(default, rename = "match")]
    pub matching: Match,
}

impl Component for RouteConfig {
    fn check(&self) -> Vec<OptionError> {
        if self.routes.is_empty() {
            let message = "is empty; use, for example, { errors: 'status >= 500' }";
            return vec![OptionError::new("/routes", message)];
        }
        let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
        let bad = |name: &&String| name.is_empty() || !name.chars().all(is_plain);
        let error = |name: &String| {
            let message = "is not a valid output name; use letters, digits, `_` and `-`";
            let name = name.replace('~', "~0").replace('/', "~1");
            OptionError::new(format!("/routes/{name}"), message)
        };
        self.routes.keys().filter(bad).map(error).collect()
    }

    fn outputs(&self) -> Vec<String> {
        self.routes.keys().cloned().collect()
    }
}

impl TransformComponent for RouteConfig {
    fn build(&self, _: &BuildCx<'_>) -> Result<Transform, BuildError> {
        let conditions: Arc<[Condition]> = self.routes.values().cloned().collect();
        let matching = self.matching;
        Ok(Transform::Map(Arc::new(move || {
            Box::new(Route { conditions: conditions.clone(), matching })
        })))
    }
}
