//! The configuration without its secrets, for others to read.
//!
//! Values are hidden by the name of their option, and all texts under names that no option has:
//! what is misspelt, and what users name themselves. Comments are left out. What was hidden is
//! returned too, so that it can be searched for elsewhere.

use std::collections::BTreeSet;
use std::path::PathBuf;

use serde_json::Value as Json;

use super::files;
use super::node::{Data, Node, Scalar, Value};
use super::{Catalog, parse, replace};

/// What takes the place of a value.
const HIDDEN: &str = "REDACTED";

/// Options whose values, and everything below them, are secret or contain the data of users.
const SECRET: &[&str] = &[
    "headers",
    "key",
    "key_password",
    "options",
    "password",
    "script",
    "table",
    "tests",
    "text",
    "token",
    "value",
];

/// Parts of names that are secret, whether an option has the name or not.
const SECRET_PARTS: &[&str] = &[
    "apikey",
    "api_key",
    "access_key",
    "credential",
    "jaas",
    "passphrase",
    "passwd",
    "password",
    "private",
    "secret",
    "token",
];

/// Options that users give names in, with expressions as values, which are shown.
const NAMED: &[&str] = &["routes", "sources", "transforms", "sinks"];

/// Options that are made of single words, of which each may be the secret.
const WORDS: &[&str] = &["headers", "options"];

/// Fewest bytes of a hidden value that is searched for elsewhere: shorter ones are found anywhere.
const VALUE_BYTES_MIN: usize = 6;

/// The same of a word of a value.
const WORD_BYTES_MIN: usize = 8;

/// A configuration without its secrets.
#[derive(Debug, Default)]
pub struct Redacted {
    /// Path and content of each file; or why there is none.
    pub files: Vec<(String, Result<Json, String>)>,
    /// What was hidden.
    pub secrets: BTreeSet<String>,
}

/// Reads the configuration in `paths`, or the default file. It need not be valid. Variables are shown
/// by name; `environment` looks them up for what is hidden.
pub fn redacted(
    paths: &[PathBuf],
    catalog: &dyn Catalog,
    environment: &dyn Fn(&str) -> Option<String>,
) -> Redacted {
    let mut redacted = Redacted::default();
    let mut faults = Vec::new();
    let options = option_names(&super::schema(catalog));
    for source in files::read_all(paths, &mut faults) {
        let mut of_file = Vec::new();
        let parsed = parse::parse(&source.name, &source.text, &mut of_file);
        let content = match parsed {
            Ok(Some(mut root)) => {
                let mut resolved = root.clone();
                replace::replace(&mut resolved, environment, &mut of_file);
                let mut hide = Hide { options: &options, secrets: &mut redacted.secrets };
                hide.node(&mut root, &resolved, Place::Shown("the configuration"));
                Ok(root.to_json())
            }
            Ok(None) => Ok(Json::Null),
            // The message may quote the file.
            Err(fault) => {
                let line = fault.place.map_or(0, |place| place.line);
                Err(format!("it is left out: the YAML is wrong in line {line}"))
            }
        };
        redacted.files.push((source.name.to_string(), content));
    }
    let unread = faults.iter().map(|fault| (fault.what.clone(), Err("not read".to_owned())));
    redacted.files.extend(unread);
    redacted
}

/// Returns the names of all options of a schema.
fn option_names(schema: &Json) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    collect_names(schema, &mut names);
    names
}

fn collect_names(schema: &Json, names: &mut BTreeSet<String>) {
    match schema {
        Json::Object(parts) => {
            if let Some(Json::Object(options)) = parts.get("properties") {
                names.extend(options.keys().cloned());
            }
            parts.values().for_each(|part| collect_names(part, names));
        }
        Json::Array(items) => items.iter().for_each(|item| collect_names(item, names)),
        _ => {}
    }
}

/// Where a value is.
#[derive(Clone, Copy)]
enum Place<'p> {
    /// Under a name whose values are shown.
    Shown(&'p str),
    /// Under a name that is no option: numbers and switches are shown.
    Unknown,
    /// Somewhere below a secret option of this name.
    Secret(&'p str),
}

struct Hide<'h> {
    options: &'h BTreeSet<String>,
    secrets: &'h mut BTreeSet<String>,
}

impl Hide<'_> {
    /// `resolved` is the same node with the values of variables.
    fn node(&mut self, node: &mut Node, resolved: &Node, place: Place<'_>) {
        match (&mut node.value, &resolved.value) {
            (Value::Map(entries), Value::Map(of_resolved)) => {
                for (entry, resolved) in entries.iter_mut().zip(of_resolved) {
                    let below = self.below(place, &entry.key);
                    self.node(&mut entry.node, &resolved.node, below);
                }
            }
            (Value::Seq(items), Value::Seq(of_resolved)) => {
                items
                    .iter_mut()
                    .zip(of_resolved)
                    .for_each(|(item, resolved)| self.node(item, resolved, place));
            }
            (Value::Scalar(scalar), _) => self.scalar(scalar, resolved.scalar(), place),
            _ => node.value = Value::Hole,
        }
    }

    fn below<'p>(&self, place: Place<'p>, key: &'p str) -> Place<'p> {
        let name = key.to_lowercase();
        let is_file = name.ends_with("_file") || name.ends_with(".location");
        let has_part = SECRET_PARTS.iter().any(|part| name.contains(part));
        match place {
            Place::Secret(of) => Place::Secret(of),
            // A component may be called `key`.
            Place::Shown(of) if NAMED.contains(&of) => Place::Shown("a name"),
            _ if SECRET.contains(&name.as_str()) || (has_part && !is_file) => Place::Secret(key),
            _ if self.options.contains(key) => Place::Shown(key),
            _ => Place::Unknown,
        }
    }

    fn scalar(&mut self, scalar: &mut Scalar, resolved: Option<&Scalar>, place: Place<'_>) {
        let texts = [Some(scalar.text.clone()), resolved.map(|resolved| resolved.text.clone())];
        let texts: Vec<String> = texts.into_iter().flatten().collect();
        match place {
            Place::Secret(option) => {
                let has_words = WORDS.contains(&option);
                texts.iter().for_each(|text| self.remember(text, has_words));
                hide(scalar);
            }
            Place::Unknown if scalar.data == Data::Text => {
                texts.iter().for_each(|text| self.remember(text, false));
                hide(scalar);
            }
            Place::Unknown | Place::Shown(_) => {
                texts.iter().for_each(|text| self.remember_url(text));
                scalar.text = without_credentials(&scalar.text);
            }
        }
    }

    fn remember(&mut self, text: &str, has_words: bool) {
        if is_variable(text) {
            return;
        }
        self.remember_url(text);
        let words = text.split([' ', '=', ',', ';', '"', '\'']).filter(|_| has_words);
        let words = words.filter(|word| word.len() >= WORD_BYTES_MIN);
        let whole = Some(text.trim()).filter(|text| text.len() >= VALUE_BYTES_MIN);
        self.secrets.extend(words.chain(whole).map(str::to_owned));
    }

    /// Remembers user and password of a URL, and the values of its query.
    fn remember_url(&mut self, text: &str) {
        let Some((_, rest)) = text.split_once("://") else { return };
        let (before, query) = rest.split_once('?').unwrap_or((rest, ""));
        let host = before.split('/').next().unwrap_or_default();
        let of_user = host.rsplit_once('@').map_or("", |(user, _)| user);
        let password = of_user.split_once(':').map_or("", |(_, password)| password);
        let values = query.split('&').filter_map(|part| Some(part.split_once('=')?.1));
        let parts = [of_user, password].into_iter().chain(values);
        let parts = parts.filter(|part| part.len() >= VALUE_BYTES_MIN && !is_variable(part));
        self.secrets.extend(parts.map(str::to_owned));
    }
}

/// Hides a value. The name of a variable is no secret, but its default may be one.
fn hide(scalar: &mut Scalar) {
    if !is_variable(&scalar.text) {
        scalar.text = HIDDEN.to_owned();
        scalar.data = Data::Text;
    }
}

/// Whether a text is one variable without a default.
fn is_variable(text: &str) -> bool {
    let name = text.strip_prefix("${").and_then(|text| text.strip_suffix('}'));
    name.is_some_and(|name| !name.contains(['$', '{', '}']) && !name.contains(":-"))
}

/// Returns a text with users and passwords of URLs, and their queries, hidden.
fn without_credentials(text: &str) -> String {
    let Some((scheme, rest)) = text.split_once("://") else { return text.to_owned() };
    let (before, query) = rest.split_once('?').map_or((rest, ""), |(before, _)| (before, "?"));
    let (host, path) = before.split_once('/').map_or((before, None), |(h, p)| (h, Some(p)));
    let host = match host.rsplit_once('@') {
        Some((_, host)) => format!("{HIDDEN}@{host}"),
        None => host.to_owned(),
    };
    let path = path.map_or(String::new(), |path| format!("/{path}"));
    let query = if query.is_empty() { String::new() } else { format!("?{HIDDEN}") };
    format!("{scheme}://{host}{path}{query}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wiring::Registry;

    fn of(text: &str) -> (String, BTreeSet<String>) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.yaml");
        std::fs::write(&path, text).unwrap();
        let environment = |name: &str| (name == "PASS").then(|| "from-a-variable".to_owned());
        let redacted = redacted(&[path], &Registry, &environment);
        let shown = redacted.files.iter().map(|(_, content)| match content {
            Ok(content) => content.to_string(),
            Err(why) => why.clone(),
        });
        (shown.collect(), redacted.secrets)
    }

    #[test]
    fn options_that_are_secret_are_hidden_and_others_are_shown() {
        let (shown, secrets) = of("# a comment-secret\n\
            sinks:\n  out:\n    type: http\n    inputs: [web]\n    uri: https://me:url-secret@host/x?k=query-secret\n    \
            auth: { type: basic, user: me, password: auth-secret, password_file: /etc/key }\n    \
            headers: { Authorization: Bearer header-secret, x: '${PASS}' }\n    batch: { events: 7 }\n    \
            tls: { key_password: 1234567 }\n    pasword: typed-secret\n    token: 'x${PASS}'\n    \
            value: '${PASS:-default-secret}'\n");
        for secret in [
            "comment-secret",
            "url-secret",
            "query-secret",
            "auth-secret",
            "header-secret",
            "1234567",
            "typed-secret",
            "from-a-variable",
            "default-secret",
        ] {
            assert!(!shown.contains(secret), "{secret}: {shown}");
        }
        for text in ["https://REDACTED@host/x?REDACTED", "/etc/key", "\"events\":7", "${PASS}"] {
            assert!(shown.contains(text), "{text}: {shown}");
        }
        for secret in ["url-secret", "query-secret", "header-secret", "from-a-variable", "1234567"]
        {
            assert!(secrets.iter().any(|known| known.contains(secret)), "{secret}: {secrets:?}");
        }
        assert!(secrets.contains("header-secret") && !secrets.contains("web"), "{secrets:?}");
    }

    /// An option that is described as a secret must be hidden: also one that is added later.
    #[test]
    fn every_option_that_is_described_as_secret_is_hidden() {
        fn visit(schema: &Json, found: &mut Vec<String>) {
            let options = schema.get("properties").and_then(Json::as_object);
            for (name, option) in options.into_iter().flatten() {
                let described = option["description"].as_str().unwrap_or_default().to_lowercase();
                let is_secret = ["password", "secret", "token", "better in a file", "credential"]
                    .iter()
                    .any(|word| described.contains(word));
                if is_secret {
                    found.push(name.clone());
                }
            }
            match schema {
                Json::Object(parts) => parts.values().for_each(|part| visit(part, found)),
                Json::Array(items) => items.iter().for_each(|item| visit(item, found)),
                _ => {}
            }
        }
        let schema = super::super::schema(&Registry);
        let mut found = Vec::new();
        visit(&schema, &mut found);
        let options = option_names(&schema);
        let hide = Hide { options: &options, secrets: &mut BTreeSet::new() };
        let is_hidden =
            |name: &String| matches!(hide.below(Place::Shown("auth"), name), Place::Secret(_));
        // Files, and objects whose parts are judged by their names.
        let is_harmless =
            |name: &str| name.ends_with("_file") || ["auth", "data_dir"].contains(&name);
        let shown: Vec<&String> =
            found.iter().filter(|name| !is_harmless(name) && !is_hidden(name)).collect();
        assert!(found.len() >= 10 && shown.is_empty(), "{shown:?} of {found:?}");
    }

    #[test]
    fn routes_and_inputs_are_shown_and_a_broken_file_is_left_out() {
        let (shown, _) =
            of("transforms: { r: { type: route, inputs: [a], routes: { e: 'x > 1' } } }");
        assert!(shown.contains("x > 1"), "{shown}");
        let (shown, _) = of("a: [hunter2\n");
        assert!(shown.contains("left out") && !shown.contains("hunter2"), "{shown}");
    }
}
