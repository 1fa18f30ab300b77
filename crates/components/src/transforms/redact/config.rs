//! Configuration of transform `redact`.

use super::Redact;
use super::hide::Hide;
use crate::registry::{Component, TransformComponent};
use millstream_detect::{Detector, Detectors};
use millstream_model::{BuildError, Transform};
use regex::bytes::{Regex, RegexBuilder};
use schemars::JsonSchema;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Bytes a compiled pattern may take.
const PATTERN_BYTES_MAX: usize = 4 << 20;

/// What stands for what is hidden, with `replace: text`.
const STARS: &str = "***";

/// Options of transform `redact`.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RedactConfig {
    /// What is looked for.
    #[serde(default = "usual")]
    pub detect: Vec<DetectorName>,
    /// Regular expressions of your own, by name: what group 1 matches is hidden, or all of it if
    /// there is no group.
    #[serde(default)]
    pub patterns: BTreeMap<String, String>,
    /// The only fields that are searched; all of them, and the message, if it is not given.
    pub fields: Option<Vec<String>>,
    /// What stands for what is hidden.
    #[serde(default)]
    pub replace: Replace,
    /// Of `hash`: the secret that goes into it.
    pub key: Option<String>,
    /// Of `text`: what stands there.
    pub text: Option<String>,
}

/// A detector.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum DetectorName {
    /// Numbers of payment cards.
    Card,
    /// E-mail addresses.
    Email,
    /// Telephone numbers.
    Phone,
    /// IPv4 and IPv6 addresses.
    Ip,
    /// JWT, bearer tokens, and those of well-known services.
    Token,
    /// Private keys in PEM, and values behind names such as `password`.
    Key,
}

/// What stands for what is hidden.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Replace {
    /// The name of what found it: `[email]`.
    #[default]
    Mask,
    /// The name, and a keyed hash: the same for the same text, and nobody without the key can try
    /// texts.
    Hash,
    /// A text.
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

/// What is wrong: a JSON pointer, and what to write instead.
type Fault = (String, String);

fn fault(key: &str, message: &str) -> Fault {
    (key.to_owned(), message.to_owned())
}

impl RedactConfig {
    fn regexes(&self) -> Result<Vec<Regex>, Fault> {
        let compile = |(name, pattern): (&String, &String)| {
            let at = |message: String| (format!("/patterns/{name}"), message);
            let is_plain = |c: char| c.is_ascii_alphanumeric() || "_-.".contains(c);
            if name.is_empty() || !name.chars().all(is_plain) {
                return Err(at(
                    "the name stands in events; write letters, digits, `_`, `-` and `.`".into(),
                ));
            }
            let regex = RegexBuilder::new(pattern).size_limit(PATTERN_BYTES_MAX).build();
            let regex = regex
                .map_err(|error| at(format!("no valid regular expression: {}", last(&error))))?;
            match regex.is_match(b"") {
                true => Err(at(
                    "fits where nothing is; write a pattern of at least one character".into()
                )),
                false => Ok(regex),
            }
        };
        self.patterns.iter().map(compile).collect()
    }

    fn hide(&self) -> Result<Hide, Fault> {
        let text = self.text.as_deref().unwrap_or(STARS);
        if self.text.is_some() && self.replace != Replace::Text {
            return Err(fault(
                "/text",
                "belongs to replace: text; remove it, or write replace: text",
            ));
        }
        if text.chars().any(|c| c.is_control() || c == '"' || c == '\\') {
            let message =
                "may stand within JSON; write it without quotes, backslashes and control bytes";
            return Err(fault("/text", message));
        }
        match (self.replace, &self.key) {
            (Replace::Hash, None) => Err(fault(
                "/key",
                "a hash without a key can be guessed; write for example key: ${REDACT_KEY}",
            )),
            (Replace::Hash, Some(key)) if key.len() < 8 => {
                Err(fault("/key", "is too short to be a secret; write at least 8 characters"))
            }
            (Replace::Hash, Some(key)) => Ok(Hide::Hash(key.as_bytes().into())),
            (_, Some(_)) => {
                Err(fault("/key", "belongs to replace: hash; remove it, or write replace: hash"))
            }
            (Replace::Mask, None) => Ok(Hide::Mask),
            (Replace::Text, None) => Ok(Hide::Text(text.as_bytes().into())),
        }
    }

    fn make(&self) -> Result<Redact, Fault> {
        if self.detect.is_empty() && self.patterns.is_empty() {
            return Err(fault("", "looks for nothing; write for example detect: [email]"));
        }
        if self.fields.as_ref().is_some_and(Vec::is_empty) {
            return Err(fault(
                "/fields",
                "has no field; write for example [message], or leave it out",
            ));
        }
        let found: Vec<Detector> = self.detect.iter().map(|name| name.detector()).collect();
        let mut names: Vec<Arc<str>> =
            Detector::ALL.iter().map(|detector| detector.name().into()).collect();
        names.extend(self.patterns.keys().map(|name| Arc::from(name.as_str())));
        let detectors = Detectors::new(&found, self.regexes()?);
        Ok(Redact::new(detectors, self.fields.clone(), self.hide()?, names))
    }
}

/// The last line of a regex error says what is wrong; the lines before draw the place.
fn last(error: &regex::Error) -> String {
    let text = error.to_string();
    text.lines().last().unwrap_or_default().trim_start_matches("error: ").to_owned()
}

impl Component for RedactConfig {
    fn check(&self) -> Vec<(String, String)> {
        self.make().err().into_iter().collect()
    }
}

impl TransformComponent for RedactConfig {
    fn build(self) -> Result<Transform, BuildError> {
        let redact =
            self.make().map_err(|(key, message)| BuildError(format!("{key}: {message}")))?;
        Ok(Transform::Map(Arc::new(move || Box::new(redact.clone()))))
    }
}
