//! Configuration of source `jfr`.

use super::JfrSource;
use super::catalog::Group;
use crate::component::{Component, SourceComponent};
use crate::sources::points::config::check_period;
use crate::util::glob::Glob;
use millstream_model::{BuildError, Interval, OptionError, Source, SourceOpen};
use millstream_tail::discover::{Exclude, Pattern};
use schemars::JsonSchema;
use serde::Deserialize;
use std::path::Path;
use std::time::Duration;

/// Bytes that the source holds in addition to its blocks: types and constant pools, and the window
/// that it reads.
const HELD_BYTES: u64 = super::HELD_BYTES_MAX as u64 + (2 << 20);

/// Options of source `jfr`.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct JfrConfig {
    /// Recordings to read: absolute paths with `*`, `?`, `[a-z]`, `{a,b}` and `**` for folders at any
    /// depth. Chunks in the repositories of running JVMs, such as `/tmp/*_*/*.jfr`, are read while
    /// they are written.
    #[schemars(length(min = 1))]
    pub include: Vec<Glob>,
    /// Recordings to exclude: patterns as in `include`; one without `/` matches the file name.
    #[serde(default)]
    pub exclude: Vec<Glob>,
    /// Whether recordings that exist at the very first start are read, or only what is added to them.
    #[serde(default)]
    pub read_from: ReadFrom,
    /// Groups of events that are read.
    #[serde(default = "default_events")]
    #[schemars(length(min = 1))]
    pub events: Vec<Group>,
    /// Aggregation period of metrics: whole seconds, 1s to 1d, aligned to the clock.
    #[serde(default = "default_period")]
    pub period: Interval,
    /// Events that take this long also become log events; `off` for none.
    #[serde(default)]
    pub log_threshold: LogThreshold,
    /// Whether log events have the stack of their thread.
    #[serde(default)]
    pub stack: bool,
    /// Most sets of tags of a process and type of event, 1 to 10,000; further ones become `other`.
    #[serde(default = "default_max_tag_values")]
    #[schemars(range(min = 1, max = 10_000))]
    pub max_tag_values: usize,
}

/// Where to start reading a recording that exists at the very first start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ReadFrom {
    /// At its first event.
    #[default]
    Beginning,
    /// At its end.
    End,
}

/// From which duration on an event becomes a log event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum LogThreshold {
    /// This duration.
    From(Interval),
    /// None does.
    Off(Off),
}

/// The word `off`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Off {
    /// None.
    Off,
}

impl Default for LogThreshold {
    fn default() -> LogThreshold {
        LogThreshold::From(Interval(Duration::from_millis(100)))
    }
}

fn default_events() -> Vec<Group> {
    Group::DEFAULT.to_vec()
}

fn default_period() -> Interval {
    Interval(Duration::from_secs(10))
}

fn default_max_tag_values() -> usize {
    100
}

/// What the source reads, and what it makes of it.
pub struct Settings {
    /// Patterns of recordings.
    pub include: Vec<Pattern>,
    /// Patterns of those that are excluded.
    pub exclude: Exclude,
    /// Whether recordings that exist at the very first start are skipped.
    pub is_from_end: bool,
    /// Groups of events.
    pub groups: Vec<Group>,
    /// Length of the windows of metrics.
    pub period: Duration,
    /// From which duration on an event becomes a log event.
    pub log_threshold: Option<Duration>,
    /// Whether log events have stacks.
    pub has_stacks: bool,
    /// Most sets of tags.
    pub tag_values_max: usize,
}

impl JfrConfig {
    fn settings(&self) -> Result<Settings, String> {
        let include: Result<_, _> = self.include.iter().map(|glob| Pattern::new(&glob.0)).collect();
        Ok(Settings {
            include: include?,
            exclude: Exclude::new(self.exclude.iter().map(|glob| glob.0.as_str()))?,
            is_from_end: self.read_from == ReadFrom::End,
            groups: self.events.clone(),
            period: self.period.0,
            log_threshold: match self.log_threshold {
                LogThreshold::From(threshold) => Some(threshold.0),
                LogThreshold::Off(_) => None,
            },
            has_stacks: self.stack,
            tag_values_max: self.max_tag_values,
        })
    }
}

impl Component for JfrConfig {
    fn makes_metrics(&self) -> bool {
        true
    }

    fn check(&self) -> Vec<OptionError> {
        let of = |list: &str, globs: &[Glob], check: fn(&str) -> Option<String>| {
            let error = |(index, glob): (usize, &Glob)| {
                Some(OptionError::new(format!("/{list}/{index}"), check(&glob.0)?))
            };
            globs.iter().enumerate().filter_map(error).collect::<Vec<_>>()
        };
        let mut errors = of("include", &self.include, |glob| Pattern::new(glob).err());
        errors.extend(of("exclude", &self.exclude, |glob| Exclude::new([glob]).err()));
        errors.extend(check_period(self.period.0));
        errors
    }

    fn reads(&self, path: &Path) -> bool {
        let Ok(settings) = self.settings() else { return false };
        millstream_tail::discover::is_included(path, &settings.include, &settings.exclude)
    }
}

impl SourceComponent for JfrConfig {
    fn open(&self, open: SourceOpen) -> Result<Box<dyn Source>, BuildError> {
        let settings = self.settings().map_err(BuildError::Options)?;
        Ok(Box::new(JfrSource::open(settings, open)?))
    }

    fn queue_bytes(&self) -> u64 {
        HELD_BYTES
    }
}
