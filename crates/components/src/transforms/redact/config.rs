//! Configuration of the `redact` transform.

use super::Redact;
use super::hide::Hide;
use crate::component::{BuildCx, Component, TransformComponent};
use millstream_detect::{Detector, Detectors};
use millstream_model::{BuildError, OptionError, Transform};
use millstream_patterns::{PatternUse, pattern_fault};
use regex::bytes::{Regex, RegexBuilder};
use schemars::JsonSchema;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Maximum memory for a compiled pattern, in bytes.
const PATTERN_BYTES_MAX: usize = 4 << 20;

/// Default value of `text`.
const STARS: &str = "***";

/// Options for the `redact` transform.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RedactConfig {
    /// Detectors to run.
    #[serde(default = "usual")]
    pub detect: Vec<DetectorName>,
    /// Additional regular expressions, by name. Group 1 of a match is redacted, or the whole match
    /// if the expression has no group.
    #[serde(default)]
    pub patterns: BTreeMap<String, String>,
    /// Fields to search. The default is all fields and the message.
    pub fields: Option<Vec<String>>,
    /// Replacement for a redacted part.
    #[serde(default)]
    pub replace: Replace,
    /// Secret key for hashing, used with `replace: hash`; at least 8 characters, preferably from a
    /// variable such as `${REDACT_KEY}`.
    pub key: Option<String>,
    /// Replacement text, for `replace: text`. The default is `***`.
    pub text: Option<String>,
}

/// A detector.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum DetectorName {
    /// Payment card numbers.
    Card,
    /// E-mail addresses.
    Email,
    /// Phone numbers.
    Phone,
    /// IPv4 and IPv6 addresses.
    Ip,
    /// JWTs, bearer tokens, and tokens of well-known services.
    Token,
    /// PEM private keys, and values with names such as `password`.
    Key,
}

/// Replacement for a redacted part.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Replace {
    /// Name of the detector or pattern, such as `[email]`.
    #[default]
    Mask,
    /// The name and a keyed hash. Equal strings have equal hashes, and readers without the key
    /// cannot test guesses.
    Hash,
    /// A constant string.
    Text,
}

fn usual() -> Vec<DetectorName> {
    vec![DetectorName::Card, DetectorName::Email, DetectorName::Token, DetectorName::Key]
}

impl DetectorName {
    fn detector(self) -> Detector {
        match self {
            DetectorName::Card => Detector::Card,
            DetectorName::Email => Detector::Email,
            DetectorName::Phone => Detector::Phone,
            DetectorName::Ip => Detector::Ip,
            DetectorName::Token => Detector::Token,
            DetectorName::Key => Detector::Key,
        }
    }
}

fn error(key: &str, message: &str) -> OptionError {
    OptionError::new(key, message)
}

impl RedactConfig {
    fn regexes(&self) -> Result<Vec<Regex>, OptionError> {
        let compile = |(name, pattern): (&String, &String)| {
            let at = |message: String| OptionError::new(format!("/patterns/{name}"), message);
            let is_plain = |c: char| c.is_ascii_alphanumeric() || "_-.".contains(c);
            if name.is_empty() || !name.chars().all(is_plain) {
                return Err(at(
                    "is not a valid name, which appears in events; use letters, digits, `_`, `-` \
                     and `.`"
                        .into(),
                ));
            }
            let regex = RegexBuilder::new(pattern).size_limit(PATTERN_BYTES_MAX).build();
            let regex = regex.map_err(|error| {
                let fault = pattern_fault(pattern, &error.to_string(), PatternUse::Hidden);
                at(format!("invalid regular expression: {fault}"))
            })?;
            match regex.is_match(b"") {
                true => Err(at(
                    "matches the empty string; use a pattern that matches at least one character"
                        .into(),
                )),
                false => Ok(regex),
            }
        };
        self.patterns.iter().map(compile).collect()
    }

    fn hide(&self) -> Result<Hide, OptionError> {
        let text = self.text.as_deref().unwrap_or(STARS);
        if self.text.is_some() && self.replace != Replace::Text {
            return Err(error("/text", "requires replace: text; remove it, or use replace: text"));
        }
        if text.chars().any(|c| c.is_control() || c == '"' || c == '\\') {
            let message = "must be valid inside a JSON string; remove quotes, backslashes and \
                           control characters";
            return Err(error("/text", message));
        }
        match (self.replace, &self.key) {
            (Replace::Hash, None) => Err(error(
                "/key",
                "is missing, and the input of a hash without a key can be guessed; use, for \
                 example, key: ${REDACT_KEY}",
            )),
            (Replace::Hash, Some(key)) if key.len() < 8 => {
                Err(error("/key", "is too short for a secret; use at least 8 characters"))
            }
            (Replace::Hash, Some(key)) => Ok(Hide::Hash(key.as_bytes().into())),
            (_, Some(_)) => {
                Err(error("/key", "requires replace: hash; remove it, or use replace: hash"))
            }
            (Replace::Mask, None) => Ok(Hide::Mask),
            (Replace::Text, None) => Ok(Hide::Text(text.as_bytes().into())),
        }
    }

    fn make(&self) -> Result<Redact, OptionError> {
        if self.detect.is_empty() && self.patterns.is_empty() {
            return Err(error("", "has no detector; use, for example, detect: [email]"));
        }
        if self.fields.as_ref().is_some_and(Vec::is_empty) {
            return Err(error("/fields", "is empty; use, for example, [message], or remove it"));
        }
        let found: Vec<Detector> = self.detect.iter().map(|name| name.detector()).collect();
        let mut names: Vec<Arc<str>> =
            Detector::ALL.iter().map(|detector| detector.name().into()).collect();
        names.extend(self.patterns.keys().map(|name| Arc::from(name.as_str())));
        let detectors = Detectors::new(&found, self.regexes()?);
        Ok(Redact { detectors, fields: self.fields.clone(), hide: self.hide()?, names })
    }
}

impl Component for RedactConfig {
    fn check(&self) -> Vec<OptionError> {
        self.make().err().into_iter().collect()
    }
}

impl TransformComponent for RedactConfig {
    fn build(&self, _: &BuildCx<'_>) -> Result<Transform, BuildError> {
        let redact = self.make()?;
        Ok(Transform::Map(Arc::new(move || Box::new(redact.clone()))))
    }
}
