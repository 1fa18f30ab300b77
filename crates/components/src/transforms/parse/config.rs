//! Configuration of transform `parse`.

use super::Parse;
use crate::registry::{Component, TransformComponent};
use millstream_framing::TimeSpec;
use millstream_model::{BuildError, Transform};
use schemars::JsonSchema;
use serde::Deserialize;
use std::sync::Arc;

/// Options of transform `parse`.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ParseConfig {
    /// How a line is taken apart: `none` leaves it as it is.
    #[serde(default)]
    pub format: LineFormat,
    /// Where a line says its own time, and how.
    pub time: Option<TimeConfig>,
    /// What becomes of an event whose line does not fit.
    #[serde(default)]
    pub on_error: OnError,
}

/// How a line is taken apart.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum LineFormat {
    /// Not at all.
    #[default]
    None,
}

/// What becomes of an event whose line does not fit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum OnError {
    /// It goes on as it came, and is counted.
    #[default]
    Pass,
    /// It is dropped and counted.
    Drop,
}

/// Where a line says its own time, and how.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TimeConfig {
    /// Pieces as `strptime` has them, or `iso8601`, `rfc3339`, `epoch_s`, `epoch_ms`, `epoch_us`,
    /// `epoch_ns`.
    pub format: String,
    /// The time begins right behind this text; without it, at the beginning of the line.
    pub after: Option<String>,
    /// Behind which occurrence of `after` it begins, counted from 1; the first if left out.
    pub nth: Option<u32>,
    /// Distance to UTC of times that do not say it: `UTC`, which it is without this option, or
    /// `+02:00`.
    pub timezone: Option<String>,
}

impl TimeConfig {
    fn spec(&self) -> TimeSpec {
        let TimeConfig { format, after, nth, timezone } = self.clone();
        TimeSpec { format, after, nth, timezone }
    }
}

impl Component for ParseConfig {
    fn check(&self) -> Vec<(String, String)> {
        let Some(time) = &self.time else {
            let message = "does nothing; write for example time: { format: iso8601 }";
            return vec![(String::new(), message.into())];
        };
        time.spec().faults().into_iter().map(|(key, message)| (format!("/time{key}"), message)).collect()
    }
}

impl TransformComponent for ParseConfig {
    fn build(self) -> Result<Transform, BuildError> {
        let time = self.time.ok_or_else(|| BuildError("nothing to parse; give it time:".into()))?;
        let reader = time.spec().reader().map_err(|(_, message)| BuildError(message))?;
        let on_error = self.on_error;
        let make = move || Parse { time: reader.clone(), on_error };
        Ok(Transform::Map(Arc::new(move || Box::new(make()))))
    }
}
