//! The `mode` and `process` options, which define where the code of a component runs.

use super::java::Place;
use super::runtime::{JVM, JvmRuntime};
use crate::component::{BuildCx, ResourceRequest};
use millstream_jvm::DEFAULT_PROCESS;
use millstream_model::OptionError;
use schemars::JsonSchema;
use serde::Deserialize;

/// Where the code of a component runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum JvmMode {
    /// In the JVM inside the agent.
    #[default]
    InProcess,
    /// In the JVM of a separate process.
    Process,
}

/// Name of a separate process, as an option.
pub type ProcessName = Option<String>;

impl JvmMode {
    /// Checks the `process` option for this mode.
    pub fn check(self, process: &ProcessName) -> Option<OptionError> {
        let name = process.as_deref()?;
        if self != JvmMode::Process {
            return Some(OptionError::new(
                "/process",
                "needs `mode: process`; set the mode, or remove this option",
            ));
        }
        let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
        let is_name = !name.is_empty() && name.chars().all(is_plain);
        let message = "is not a valid name; use letters, digits, `-`, `_` and `.` only";
        (!is_name).then(|| OptionError::new("/process", message))
    }

    /// Returns the request for the JVM in which the code runs.
    pub fn request(self, process: &ProcessName) -> ResourceRequest {
        ResourceRequest { kind: JVM, instance: self.process(process).map(str::to_owned) }
    }

    /// Returns the name of the separate process; `None` for the JVM inside the agent.
    fn process(self, process: &ProcessName) -> Option<&str> {
        let name = process.as_deref().unwrap_or(DEFAULT_PROCESS);
        (self == JvmMode::Process).then_some(name)
    }

    /// Returns the JVM in which the code runs.
    pub fn place<'a>(self, process: &'a ProcessName, cx: &BuildCx<'a>) -> Place<'a> {
        let runtime = JvmRuntime::of(cx.resources);
        match self.process(process) {
            None => Place::Inside(&runtime.options),
            Some(name) => Place::Process(name, runtime.processes.options(name)),
        }
    }
}
