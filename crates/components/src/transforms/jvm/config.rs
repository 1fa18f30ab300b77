//! Configuration of the `jvm` transform.

use super::registered::registered;
use super::{JvmOperator, Limits};
use crate::component::{BuildCx, Component, ResourceRequest, TransformComponent};
use crate::transforms::on_error::OnError;
use crate::util::condition::Condition;
use crate::util::jvm::scripts::{RuleFault, ScriptPlace, check_inline};
use crate::util::jvm::{JvmMode, Place, removed_calls};
use millstream_jvm::OperatorSpec;
use millstream_model::limits::BLOCK_BYTES;
use millstream_model::{BuildError, Interval, LINE, OptionError, Transform};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// Largest configurable output size per call, as a number of read blocks.
const EXPANSION_MAX: u64 = 256;

/// The language in which an operator is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema, strum::IntoStaticStr)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum OperatorLanguage {
    /// Scripts in Groovy.
    Groovy,
    /// Expressions in AviatorScript.
    Aviator,
    /// A class in a jar.
    Class,
}

/// The type of a field, as scripts see it.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema, strum::IntoStaticStr,
)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum DeclaredType {
    /// Text.
    Text,
    /// A 64-bit integer.
    Int,
    /// A 64-bit floating-point number.
    Float,
    /// `true` or `false`.
    Bool,
    /// A timestamp.
    Time,
}

/// Timeouts for an operator.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Timeouts {
    /// Maximum time for one event.
    pub event: Interval,
    /// Maximum time for a call with a batch of events. A longer call is abandoned.
    pub batch: Interval,
}

impl Default for Timeouts {
    fn default() -> Self {
        let (event, batch) = (Duration::from_secs(1), Duration::from_secs(30));
        Timeouts { event: Interval(event), batch: Interval(batch) }
    }
}

/// Options for the `jvm` transform.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct JvmConfig {
    /// Language of the operator.
    pub language: OperatorLanguage,
    /// Where the operator runs: inside the agent, or in a separate process.
    #[serde(default)]
    pub mode: JvmMode,
    /// Name of the process, with `mode: process`. Components with the same name share one process.
    pub process: Option<String>,
    /// Inline script.
    pub script: Option<String>,
    /// Path of a script file.
    pub script_file: Option<PathBuf>,
    /// Folder with scripts. Each script runs on each event, in file name order.
    pub script_dir: Option<PathBuf>,
    /// Path of a jar, for language `class`.
    pub jar: Option<PathBuf>,
    /// Name of the class in the jar that implements `Operator` or `BatchOperator`.
    pub class: Option<String>,
    /// Options that the class receives, with any keys and values.
    #[serde(default)]
    pub options: serde_json::Map<String, serde_json::Value>,
    /// Condition that an event must satisfy to reach the operator; other events pass through
    /// unchanged.
    #[serde(rename = "where")]
    pub condition: Option<Condition>,
    /// Field types, for language `groovy`. Scripts that use declared fields are compiled
    /// statically, which makes them faster.
    #[serde(default)]
    pub fields: BTreeMap<String, DeclaredType>,
    /// Field that receives the expression's value, for language `aviator`.
    pub output: Option<String>,
    /// Timeouts for the operator.
    #[serde(default)]
    pub timeouts: Timeouts,
    /// Additional classes that scripts may use, or packages such as `java.util.zip.*`.
    #[serde(default)]
    pub allow: Vec<String>,
    /// Methods whose calls are removed from scripts if the result is unused. The default is the
    /// methods that print, log or walk the stack.
    #[serde(default = "removed_calls")]
    pub removed_calls: Vec<String>,
    /// Maximum output size per call, as a multiple of a read block (1 MiB). The agent reserves this
    /// memory before it reads a block, so raise it only for operators that enlarge events.
    #[serde(default = "expansion")]
    pub expansion: u64,
    /// What happens to an event for which the operator fails.
    #[serde(default)]
    pub on_error: OnError,
}

fn expansion() -> u64 {
    4
}

impl OperatorLanguage {
    /// Returns the name of the language in a configuration.
    pub fn name(self) -> &'static str {
        self.into()
    }

    /// Returns the file extension of the language.
    fn extension(self) -> &'static str {
        match self {
            OperatorLanguage::Groovy => "groovy",
            OperatorLanguage::Aviator => "av",
            OperatorLanguage::Class => "jar",
        }
    }
}

impl JvmConfig {
    fn check_sources(&self) -> Option<OptionError> {
        let is_class = self.language == OperatorLanguage::Class;
        let sources = [
            ("script", self.script.is_some()),
            ("script_file", self.script_file.is_some()),
            ("script_dir", self.script_dir.is_some()),
            ("jar", self.jar.is_some()),
            ("class", self.class.is_some()),
        ];
        let set = sources.into_iter().filter(|(_, is_set)| *is_set);
        let set: Vec<&str> = set.map(|(name, _)| name).collect();
        match (is_class, &set[..]) {
            (true, ["jar", "class"]) | (false, ["script" | "script_file" | "script_dir"]) => None,
            (true, _) => Some(OptionError::new(
                "/language",
                "a class needs a jar that contains it; set both `jar` and `class`, and no script",
            )),
            (false, _) => Some(OptionError::new(
                "/language",
                "needs one script; set one of `script`, `script_file` and `script_dir`, and \
                 neither `jar` nor `class`",
            )),
        }
    }

    /// Returns the errors in options that do not apply to the language.
    fn check_language(&self) -> Vec<OptionError> {
        use OperatorLanguage::{Aviator, Class, Groovy};
        let only = [
            ("/options", !self.options.is_empty(), Class),
            ("/fields", !self.fields.is_empty(), Groovy),
            ("/output", self.output.is_some(), Aviator),
        ];
        let misplaced = |(at, is_set, language): (&str, bool, OperatorLanguage)| {
            let message = format!("is for language `{}` only; remove it", language.name());
            (is_set && self.language != language).then(|| OptionError::new(at, message))
        };
        only.into_iter().filter_map(misplaced).collect()
    }

    fn check_limits(&self) -> Vec<OptionError> {
        let mut errors = Vec::new();
        let Timeouts { event, batch } = self.timeouts;
        if event.0 < Duration::from_millis(1) {
            errors.push(OptionError::new("/timeouts/event", "is too short; use 1ms or more"));
        }
        if batch.0 < event.0 {
            let message = "is shorter than the timeout for a single event; use a longer timeout";
            errors.push(OptionError::new("/timeouts/batch", message));
        }
        if !(1..=EXPANSION_MAX).contains(&self.expansion) {
            errors.push(OptionError::new("/expansion", "is out of range; use 1 to 256"));
        }
        errors
    }

    /// Returns the location of the scripts; `None` for a class.
    pub(super) fn place(&self) -> Option<ScriptPlace<'_>> {
        let inline = self.script.as_deref().map(ScriptPlace::Inline);
        let file = || self.script_file.as_deref().map(ScriptPlace::File);
        let extension = self.language.extension();
        let folder = || self.script_dir.as_deref().map(|dir| ScriptPlace::Folder(dir, extension));
        inline.or_else(file).or_else(folder)
    }

    /// Returns the operator's description for the JVM.
    ///
    /// # Errors
    /// Returns an error if a file cannot be read or the folder contains no script.
    pub(super) fn spec(&self, component: &str) -> Result<OperatorSpec, RuleFault> {
        Ok(OperatorSpec {
            component: component.to_owned(),
            language: self.language.name().to_owned(),
            rules: self.place().map_or(Ok(Vec::new()), |place| place.read())?,
            jar: self.jar.clone(),
            class_name: self.class.clone(),
            options: self.options.clone(),
            fields: self
                .fields
                .iter()
                .map(|(name, kind)| (name.clone(), kind.name().to_owned()))
                .collect(),
            output: self.output.clone(),
            row_timeout_ms: self.timeouts.event.0.as_millis() as u64,
            allow: self.allow.clone(),
            removed_calls: self.removed_calls.clone(),
        })
    }

    fn limits(&self, place: &Place<'_>) -> Limits {
        Limits {
            concurrency: place.jvm().threads,
            runs_in_child: matches!(place, Place::Process(..)),
            deadline: self.timeouts.batch.0,
            output_bytes_max: self.expansion * BLOCK_BYTES as u64,
            reads_lines: false,
        }
    }
}

impl DeclaredType {
    fn name(self) -> &'static str {
        self.into()
    }
}

impl Component for JvmConfig {
    fn check(&self) -> Vec<OptionError> {
        let mut errors: Vec<OptionError> = self.check_sources().into_iter().collect();
        errors.extend(check_inline(self.script.as_deref()));
        errors.extend(self.check_language());
        errors.extend(self.check_limits());
        errors.extend(self.mode.check(&self.process));
        errors
    }

    fn outputs(&self) -> Vec<String> {
        self.on_error.outputs()
    }

    fn contents(&self) -> Vec<PathBuf> {
        let scripts = self.place().and_then(|place| place.files().ok()).unwrap_or_default();
        scripts.into_iter().chain(self.jar.clone()).collect()
    }

    fn resources(&self) -> Vec<ResourceRequest> {
        vec![self.mode.request(&self.process)]
    }
}

impl TransformComponent for JvmConfig {
    fn build(&self, cx: &BuildCx<'_>) -> Result<Transform, BuildError> {
        let spec = self.spec(cx.id).map_err(|fault| BuildError::Options(fault.to_string()))?;
        let place = self.mode.place(&self.process, cx);
        let reads_lines = spec.rules.iter().any(|rule| rule.text.contains(LINE));
        let (operator, figures) = registered(&place, spec).map_err(BuildError::Options)?;
        Ok(Transform::Offload(Arc::new(JvmOperator {
            operator,
            figures,
            condition: self.condition.clone(),
            on_error: self.on_error,
            limits: Limits { reads_lines, ..self.limits(&place) },
        })))
    }
}
