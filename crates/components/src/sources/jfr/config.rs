//! Configuration of the `jfr` source.

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

/// Maximum memory in bytes that the source holds in addition to its blocks: types and constant
/// pools, and the buffer that it reads into.
const HELD_BYTES: u64 = super::HELD_BYTES_MAX as u64 + (2 << 20);

/// Options for the `jfr` source.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct JfrConfig {
    /// Recordings to read: absolute paths with `*`, `?`, `[a-z]`, `{a,b}`, and `**` for folders at
    /// any depth. The source reads chunks in the repositories of running JVMs, such as
    /// `/tmp/*_*/*.jfr`, while the JVM writes them.
    #[schemars(length(min = 1))]
    pub include: Vec<Glob>,
    /// Recordings to exclude: patterns as in `include`. A pattern without `/` is matched against
    /// the file name.
    #[serde(default)]
    pub exclude: Vec<Glob>,
    /// Whether to read the contents of recordings that exist when the source starts for the first
    /// time, or only data that is added to them later.
    #[serde(default)]
    pub read_from: ReadFrom,
    /// Event groups to read. The default is all groups except `exceptions` and `allocation`. The
    /// JVM's settings determine which events it records.
    #[serde(default = "default_events")]
    #[schemars(length(min = 1))]
    pub events: Vec<Group>,
    /// Metric aggregation period: whole seconds, 1s to 1d, aligned to the clock.
    #[serde(default = "default_period")]
    pub period: Interval,
    /// Events that last at least this long also become log events; `off` disables this. Raise the
    /// threshold if there are too many log events.
    #[serde(default)]
    pub log_threshold: LogThreshold,
    /// Whether log events contain the thread's stack, up to 32 frames.
    #[serde(default)]
    pub stack: bool,
    /// Maximum number of tag sets per process and event type, 1 to 10,000; additional sets become
    /// `other`. The limit bounds the number of metric series.
    #[serde(default = "default_max_tag_values")]
    #[schemars(range(min = 1, max = 10_000))]
    pub max_tag_values: usize,
}

/// Where to start reading a recording that exists when the source starts for the first time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ReadFrom {
    /// At its first event.
    #[default]
    Beginning,
    /// At its end.
    End,
}

/// Minimum duration of an event that becomes a log event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum LogThreshold {
    /// A duration.
    From(Interval),
    /// No event becomes a log event.
    Off(Off),
}

/// The value `off`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Off {
    /// No event becomes a log event.
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

/// Source settings.
pub struct Settings {
    /// Patterns that match the recordings to read.
    pub include: Vec<Pattern>,
    /// Patterns that match the recordings to exclude.
    pub exclude: Exclude,
    /// Whether to skip recordings that exist when the source starts for the first time.
    pub is_from_end: bool,
    /// Event groups to read.
    pub groups: Vec<Group>,
    /// Metric aggregation period.
    pub period: Duration,
    /// Minimum duration for an event to become a log event; `None` if no event does.
    pub log_threshold: Option<Duration>,
    /// Whether log events contain stacks.
    pub has_stacks: bool,
    /// Maximum number of tag sets per process and event type.
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
        let faults = |list: &str, globs: &[Glob], check: fn(&str) -> Option<String>| {
            let error = |(index, glob): (usize, &Glob)| {
                Some(OptionError::new(format!("/{list}/{index}"), check(&glob.0)?))
            };
            globs.iter().enumerate().filter_map(error).collect::<Vec<_>>()
        };
        let mut errors = faults("include", &self.include, |glob| Pattern::new(glob).err());
        errors.extend(faults("exclude", &self.exclude, |glob| Exclude::new([glob]).err()));
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
