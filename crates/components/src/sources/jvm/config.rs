//! Configuration of the `jvm` source.

use super::JvmSource;
use super::built::{Built, built};
use crate::component::{BuildCx, Component, OpenSource, ResourceRequest, SourceComponent};
use crate::util::jvm::scripts::{RuleFault, ScriptPlace, check_inline};
use crate::util::jvm::{JvmMode, Place, removed_calls};
use millstream_jvm::CollectorSpec;
use millstream_model::limits::BLOCK_BYTES;
use millstream_model::{BuildError, Interval, OptionError, Source, SourceOpen};
use schemars::JsonSchema;
use serde::Deserialize;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// Default timeout for a collector with an interval.
const TIMEOUT: Duration = Duration::from_secs(30);

/// Shortest configurable interval and timeout.
const SHORTEST: Duration = Duration::from_millis(1);

/// The language in which a collector is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema, strum::IntoStaticStr)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum CollectorLanguage {
    /// A script in Groovy.
    Groovy,
    /// A class in a jar.
    Class,
}

/// Options for the `jvm` source.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct JvmSourceConfig {
    /// Language of the collector.
    pub language: CollectorLanguage,
    /// Where the collector runs: inside the agent, or in a separate process.
    #[serde(default)]
    pub mode: JvmMode,
    /// Name of the process, with `mode: process`. Components with the same name share one process.
    pub process: Option<String>,
    /// Inline script.
    pub script: Option<String>,
    /// Path of a script file.
    pub script_file: Option<PathBuf>,
    /// Path of a jar, for language `class`.
    pub jar: Option<PathBuf>,
    /// Name of the class in the jar that implements `Collector`.
    pub class: Option<String>,
    /// Additional jars whose classes the collector can use, such as a client library.
    #[serde(default)]
    pub jars: Vec<PathBuf>,
    /// Time between the starts of two calls. Without it, the next call starts when the previous
    /// call returns.
    pub interval: Option<Interval>,
    /// Maximum time for a call, after which the thread is interrupted. The default is 30s with an
    /// interval, and unlimited without one.
    pub timeout: Option<Interval>,
    /// Options that the collector receives, with any keys and values.
    #[serde(default)]
    pub options: serde_json::Map<String, serde_json::Value>,
    /// Additional classes that a script may use, or packages such as `java.util.zip.*`.
    #[serde(default)]
    pub allow: Vec<String>,
    /// Methods whose calls are removed from a script if the result is unused. The default is the
    /// methods that print, log or walk the stack.
    #[serde(default = "removed_calls")]
    pub removed_calls: Vec<String>,
}

impl CollectorLanguage {
    fn name(self) -> &'static str {
        self.into()
    }
}

impl JvmSourceConfig {
    fn check_code(&self) -> Option<OptionError> {
        let scripts = usize::from(self.script.is_some()) + usize::from(self.script_file.is_some());
        let classes = usize::from(self.jar.is_some()) + usize::from(self.class.is_some());
        match (self.language, scripts, classes) {
            (CollectorLanguage::Groovy, 1, 0) | (CollectorLanguage::Class, 0, 2) => None,
            (CollectorLanguage::Groovy, ..) => Some(OptionError::new(
                "/language",
                "needs one script; set one of `script` and `script_file`, and neither `jar` nor \
                 `class`",
            )),
            (CollectorLanguage::Class, ..) => Some(OptionError::new(
                "/language",
                "a class needs a jar that contains it; set both `jar` and `class`, and no script",
            )),
        }
    }

    fn check_allow(&self) -> Option<OptionError> {
        let is_misplaced = self.language == CollectorLanguage::Class && !self.allow.is_empty();
        let message = "is for language `groovy` only; remove it";
        is_misplaced.then(|| OptionError::new("/allow", message))
    }

    fn check_times(&self) -> Vec<OptionError> {
        let times = [("/interval", self.interval), ("/timeout", self.timeout)];
        let is_short = |time: Option<Interval>| time.is_some_and(|time| time.0 < SHORTEST);
        let short = times.into_iter().filter(|(_, time)| is_short(*time));
        short.map(|(at, _)| OptionError::new(at, "is too short; use 1ms or more")).collect()
    }

    fn place(&self) -> Option<ScriptPlace<'_>> {
        let inline = self.script.as_deref().map(ScriptPlace::Inline);
        inline.or_else(|| self.script_file.as_deref().map(ScriptPlace::File))
    }

    /// Returns the timeout for a call in milliseconds; 0 for no timeout.
    fn timeout_ms(&self) -> u64 {
        let usual = self.interval.map(|_| Interval(TIMEOUT));
        self.timeout.or(usual).map_or(0, milliseconds)
    }

    /// Returns the collector's description for the JVM.
    ///
    /// # Errors
    /// Returns an error if the script cannot be read.
    fn spec(&self, component: &str, place: &Place<'_>) -> Result<CollectorSpec, RuleFault> {
        Ok(CollectorSpec {
            component: component.to_owned(),
            language: self.language.name().to_owned(),
            rules: self.place().map_or(Ok(Vec::new()), |place| place.read())?,
            jar: self.jar.clone(),
            class_name: self.class.clone(),
            jars: self.jars.clone(),
            options: self.options.clone(),
            allow: self.allow.clone(),
            removed_calls: self.removed_calls.clone(),
            interval_ms: self.interval.map_or(0, milliseconds),
            timeout_ms: self.timeout_ms(),
            threads: place.jvm().collectors,
        })
    }

    fn built(&self, cx: &BuildCx<'_>) -> Result<Arc<Built>, BuildError> {
        let place = self.mode.place(&self.process, cx);
        let spec = self.spec(cx.id, &place);
        let spec = spec.map_err(|fault| BuildError::Options(fault.to_string()))?;
        built(&place, spec).map_err(BuildError::Options)
    }
}

fn milliseconds(time: Interval) -> u64 {
    time.0.as_millis() as u64
}

impl Component for JvmSourceConfig {
    fn check(&self) -> Vec<OptionError> {
        let mut errors: Vec<OptionError> = self.check_code().into_iter().collect();
        errors.extend(check_inline(self.script.as_deref()));
        errors.extend(self.check_allow());
        errors.extend(self.check_times());
        errors.extend(self.mode.check(&self.process));
        errors
    }

    fn contents(&self) -> Vec<PathBuf> {
        let jars = self.jar.iter().chain(&self.jars);
        self.script_file.iter().chain(jars).cloned().collect()
    }

    fn resources(&self) -> Vec<ResourceRequest> {
        vec![self.mode.request(&self.process)]
    }
}

impl SourceComponent for JvmSourceConfig {
    fn open(&self, open: SourceOpen) -> Result<Box<dyn Source>, BuildError> {
        let built = self.built(&BuildCx::default())?;
        Ok(Box::new(JvmSource::open(built, open)?))
    }

    fn build(&self, cx: &BuildCx<'_>) -> Result<Option<OpenSource>, BuildError> {
        let built = self.built(cx)?;
        Ok(Some(Box::new(move |open| Ok(Box::new(JvmSource::open(built, open)?)))))
    }

    fn queue_bytes(&self) -> u64 {
        BLOCK_BYTES as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn errors(options: &str) -> Vec<String> {
        let config: JvmSourceConfig = serde_json::from_str(options).unwrap();
        config.check().into_iter().map(|error| error.to_string()).collect()
    }

    fn timeout_ms(times: &str) -> u64 {
        let text = format!(r#"{{"language":"groovy","script":"x"{times}}}"#);
        serde_json::from_str::<JvmSourceConfig>(&text).unwrap().timeout_ms()
    }

    #[test]
    fn options_that_contradict_each_other_are_refused() {
        for right in [
            r#"{"language":"groovy","script":"events.add('x')"}"#,
            r#"{"language":"groovy","script_file":"x.groovy","allow":["a.*"],"jars":["a.jar"]}"#,
            r#"{"language":"class","jar":"a.jar","class":"A","interval":"1s"}"#,
        ] {
            assert_eq!(errors(right), Vec::<String>::new(), "{right}");
        }
        for (wrong, told) in [
            (r#"{"language":"groovy"}"#, "needs one script"),
            (r#"{"language":"groovy","script":"x","script_file":"y"}"#, "needs one script"),
            (r#"{"language":"groovy","script":"x","jar":"a.jar"}"#, "needs one script"),
            (r#"{"language":"groovy","script":" // no\n"}"#, "is empty"),
            (r#"{"language":"class","jar":"a.jar"}"#, "needs a jar"),
            (r#"{"language":"class","jar":"a.jar","class":"A","allow":["a.*"]}"#, "groovy"),
            (r#"{"language":"groovy","script":"x","interval":"10us"}"#, "too short"),
            (r#"{"language":"groovy","script":"x","timeout":"10us"}"#, "too short"),
        ] {
            let found = errors(wrong);
            assert!(found.len() == 1 && found[0].contains(told), "{wrong}: {found:?}");
        }
    }

    #[test]
    fn only_calls_with_an_interval_have_a_timeout_by_default() {
        assert_eq!(timeout_ms(""), 0);
        assert_eq!(timeout_ms(r#","interval":"1s""#), 30_000);
        assert_eq!(timeout_ms(r#","interval":"1s","timeout":"2s""#), 2_000);
        assert_eq!(timeout_ms(r#","timeout":"2s""#), 2_000);
    }
}
