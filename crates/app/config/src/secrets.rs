//! The secrets in a configuration. The running agent masks the secrets in all its output.
//!
//! These are fewer values than the values hidden in an archive for other people. The values that
//! operators need to understand a log, such as host names and attributes, stay visible.

use std::collections::BTreeSet;
use std::path::PathBuf;

use super::node::{Node, Value};
use super::redact::url_secrets;
use super::secret_name::is_secret_name;
use super::{files, parse, replace};

/// Headers that are not secret.
const PLAIN_HEADERS: &[&str] = &[
    "accept",
    "accept-encoding",
    "accept-language",
    "cache-control",
    "content-encoding",
    "content-language",
    "content-type",
    "host",
    "user-agent",
    "x-scope-orgid",
];

/// Options that are secret in a map with this `type`.
const BY_TYPE: &[(&str, &str)] = &[("api_key", "key"), ("header", "value"), ("redact", "key")];

/// Minimum length, in bytes, at which a single word of a value is also treated as a secret.
const WORD_BYTES_MIN: usize = 8;

/// Returns the secrets of the configuration in `paths`, or of the default file: the values of
/// secret options, headers and variables, the users and passwords in URLs, and the values in their
/// queries. The configuration may be invalid; `environment` looks up variables.
pub fn secrets(
    paths: &[PathBuf],
    environment: &dyn Fn(&str) -> Option<String>,
) -> BTreeSet<String> {
    let mut found = SecretValues { values: BTreeSet::new(), environment };
    // The errors are ignored, because loading the configuration reports them.
    let mut faults = Vec::new();
    for source in files::read_all(paths, &mut faults) {
        if let Ok(Some(mut root)) = parse::parse(&source.name, &source.text, &mut faults) {
            replace::replace(&mut root, environment, &mut faults);
            found.node(&root, Place::default());
        }
    }
    found.values
}

/// The location of a value.
#[derive(Clone, Copy, Default)]
struct Place {
    /// Whether the value is secret.
    is_secret: bool,
    /// Whether the value is in a map of headers.
    in_headers: bool,
    /// Whether the words of the value are also secret, as in a header.
    has_words: bool,
}

struct SecretValues<'f> {
    values: BTreeSet<String>,
    environment: replace::Environment<'f>,
}

impl SecretValues<'_> {
    fn node(&mut self, node: &Node, place: Place) {
        match &node.value {
            Value::Map(entries) => {
                for entry in entries {
                    self.node(&entry.node, below(node, place, &entry.key));
                }
            }
            Value::Seq(items) => items.iter().for_each(|item| self.node(item, place)),
            Value::Scalar(scalar) => {
                self.text(&scalar.text, place);
                let template = node.template.as_deref().unwrap_or_default();
                self.values.extend(replace::secret_values(template, self.environment));
            }
            Value::Hole => {}
        }
    }

    fn text(&mut self, text: &str, place: Place) {
        self.values.extend(url_secrets(text));
        // An assignment as in the options of a JVM: `-Dname=value`.
        let assigned = text.split_once('=').filter(|(name, _)| is_secret_name(name));
        self.values.extend(assigned.map(|(_, value)| value.to_owned()));
        if !place.is_secret {
            return;
        }
        self.values.insert(text.to_owned());
        if place.has_words {
            let words = text.split([' ', '=', ',', ';', '"', '\'']);
            let words = words.filter(|word| word.len() >= WORD_BYTES_MIN);
            self.values.extend(words.map(str::to_owned));
        }
    }
}

/// Returns the location of a key's value.
fn below(map: &Node, place: Place, key: &str) -> Place {
    let name = key.to_lowercase();
    let is_header = place.in_headers && !PLAIN_HEADERS.contains(&name.as_str());
    let of_type = map.get("type").and_then(Node::text).unwrap_or_default();
    let by_type = BY_TYPE.contains(&(of_type, &*name));
    Place {
        is_secret: place.is_secret || is_header || by_type || is_secret_name(&name),
        in_headers: name == "headers",
        has_words: place.has_words || is_header || name.contains("jaas"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> BTreeSet<String> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.yaml");
        std::fs::write(dir.path().join("file"), "from-a-file\n").unwrap();
        std::fs::write(&path, text.replace("DIR", dir.path().to_str().unwrap())).unwrap();
        let environment = |name: &str| match name {
            "ES_PASSWORD" => Some("from-a-variable".to_owned()),
            "QUERY" => Some("from-a-query".to_owned()),
            "HOST" => Some("search-1.example".to_owned()),
            _ => None,
        };
        secrets(&[path], &environment)
    }

    #[test]
    fn secrets_of_each_kind_are_found_and_nothing_else() {
        let found = of("sinks:\n  \
               one:\n    type: http\n    inputs: [web]\n    uri: https://${HOST}/x?k=${QUERY}&l=of-query\n    \
                 headers: { X-Api-Key: of-header, Content-Type: application/json }\n    \
                 auth: { type: basic, user: me, password: of-password }\n    \
                 attributes: { team: of-attributes }\n  \
               two: { type: elasticsearch, endpoints: ['https://u:of-url@h'], auth: { type: api_key, key: of-key } }\n  \
               three: { type: http, auth: { type: header, name: X, value: of-value } }\n  \
               four: { type: kafka, key: of-template, options: { sasl.jaas.config: 'a password=\"of-jaas-1\";' } }\n  \
               five: { type: http, headers: { Authorization: 'Bearer of-bearer-1' }, path: '${file:DIR/file}' }\n\
             transforms:\n  r: { type: redact, replace: hash, key: of-redact }\n  t: { type: fields, x: '${ES_PASSWORD}' }\n\
             jvm: { options: ['-Dapi.token=of-jvm', -Xmx256m] }\n");
        let expected = [
            "of-query",
            "from-a-query",
            "of-header",
            "of-password",
            "u:of-url",
            "of-url",
            "of-key",
            "of-value",
            "of-jaas-1",
            "of-bearer-1",
            "from-a-file",
            "of-redact",
            "from-a-variable",
            "of-jvm",
        ];
        for value in expected {
            assert!(found.contains(value), "{value} is not in {found:?}");
        }
        for value in [
            "me",
            "application/json",
            "search-1.example",
            "of-attributes",
            "of-template",
            "-Xmx256m",
        ] {
            assert!(!found.contains(value), "{value} is in {found:?}");
        }
    }

    #[test]
    fn a_configuration_that_is_wrong_has_none_or_those_that_are_read() {
        assert_eq!(of("a: [\n"), BTreeSet::new());
        assert!(of("nonsense: { password: still-found }\n").contains("still-found"));
    }
}
