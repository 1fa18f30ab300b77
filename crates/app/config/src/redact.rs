//! The configuration without its secrets, for sharing with other people.
//!
//! Values are hidden by the name of their option, and everything is hidden under names that are not
//! options: misspelled names, and names that users choose. Comments are omitted. The hidden values
//! are returned together with the values of all variables, so that other text can be searched for
//! them.

use std::collections::BTreeSet;
use std::ops::Range;
use std::path::{Path, PathBuf};

use millstream_model::secrets::is_searched;
use serde_json::Value as Json;

use super::files;
use super::node::{Data, Node, Scalar, Value};
use super::secret_name::is_secret_name;
use super::{Catalog, parse, replace};

/// Replacement of a hidden value.
const HIDDEN: &str = "REDACTED";

/// Options whose values are secret or contain user data, including everything below them.
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

/// Options in which users choose the names and the values are configuration; the values are shown.
const NAMED: &[&str] = &["fields", "processes", "routes", "sources", "transforms", "sinks"];

/// Options whose values consist of single words, each of which may be the secret. The names are
/// shown.
const WORDS: &[&str] = &["headers", "options"];

/// Minimum length, in bytes, at which a single word of a hidden value is also redacted on its own
/// in other text.
const WORD_BYTES_MIN: usize = 8;

/// Characters besides whitespace that end the part of a URL that may contain a user and a
/// password.
const ENDS: &[char] = &['/', '?', '#', '"', '\'', '<', '>', '\\'];

/// A configuration without its secrets.
#[derive(Debug, Default)]
pub struct Redacted {
    /// Path and content of each file, or the reason why the content is missing.
    pub files: Vec<(String, Result<Json, String>)>,
    /// The hidden values.
    pub secrets: BTreeSet<String>,
}

/// Reads the configuration in `paths`, or the default file. The configuration may be invalid.
/// Variables appear by name; `environment` looks up their values, to add them to the hidden values.
pub fn redacted(
    paths: &[PathBuf],
    catalog: &dyn Catalog,
    environment: &dyn Fn(&str) -> Option<String>,
) -> Redacted {
    let mut redacted = Redacted::default();
    let mut faults = Vec::new();
    let options = Options::of(&super::schema(catalog));
    for source in files::read_all(paths, &mut faults) {
        let mut of_file = Vec::new();
        let mut hide = Hide { options: &options, secrets: &mut redacted.secrets };
        source.text.lines().for_each(|line| hide.variables(line, environment));
        let parsed = parse::parse(&source.name, &source.text, &mut of_file);
        let content = match parsed {
            Ok(Some(mut root)) => {
                let mut resolved = root.clone();
                replace::replace(&mut resolved, environment, &mut of_file);
                hide.node(&mut root, &resolved, Place::Shown("the configuration"));
                Ok(root.to_json())
            }
            Ok(None) => Ok(Json::Null),
            // The message may quote the file, so only the line is shown.
            Err(fault) => {
                let line = fault.place.map_or(0, |place| place.line);
                Err(format!("omitted because line {line} is not valid YAML"))
            }
        };
        redacted.files.push((source.name.to_string(), content));
    }
    let unread = faults.iter().map(|fault| (fault.what.clone(), Err("not read".to_owned())));
    redacted.files.extend(unread);
    redacted
}

/// Returns the users and passwords in `text`, and the query values of a URL.
pub(crate) fn url_secrets(text: &str) -> Vec<String> {
    let query = text.split_once("://").and_then(|(_, rest)| rest.split_once('?'));
    let query = query.map_or("", |(_, query)| query);
    let values = query.split('&').filter_map(|part| Some(part.split_once('=')?.1));
    let users = credentials(text).into_iter().map(|range| &text[range]);
    let users =
        users.flat_map(|user| [user, user.split_once(':').map_or("", |(_, password)| password)]);
    let parts = users.chain(values).filter(|part| !part.is_empty() && !is_variable(part));
    parts.map(str::to_owned).collect()
}

/// The option names in a schema.
#[derive(Default)]
struct Options {
    /// All option names.
    names: BTreeSet<String>,
    /// Options that are maps with names that users choose.
    free: BTreeSet<String>,
}

impl Options {
    fn of(schema: &Json) -> Options {
        let mut options = Options::default();
        options.collect(schema);
        options
    }

    fn collect(&mut self, schema: &Json) {
        match schema {
            Json::Object(parts) => {
                let of_object = parts.get("properties").and_then(Json::as_object);
                for (name, option) in of_object.into_iter().flatten() {
                    self.names.insert(name.clone());
                    let has_names = option
                        .get("additionalProperties")
                        .is_some_and(|additional| *additional != Json::Bool(false));
                    if has_names && option.get("properties").is_none() {
                        self.free.insert(name.clone());
                    }
                }
                parts.values().for_each(|part| self.collect(part));
            }
            Json::Array(items) => items.iter().for_each(|item| self.collect(item)),
            _ => {}
        }
    }
}

/// The location of a value.
#[derive(Clone, Copy)]
enum Place<'p> {
    /// Under a name whose values are shown.
    Shown(&'p str),
    /// Under a name that is not an option.
    Unknown,
    /// Below a secret option with this name.
    Secret(&'p str),
}

impl Place<'_> {
    /// Returns whether the names below this location may also be user data.
    fn hides_names(&self) -> bool {
        match self {
            Place::Shown(_) => false,
            Place::Unknown => true,
            Place::Secret(option) => !WORDS.contains(option),
        }
    }
}

struct Hide<'h> {
    options: &'h Options,
    secrets: &'h mut BTreeSet<String>,
}

impl Hide<'_> {
    /// Remembers the values of all variables and files in a line. The path of an existing file is
    /// not secret.
    fn variables(&mut self, text: &str, environment: replace::Environment<'_>) {
        for value in replace::values(text, environment) {
            let is_path = Path::new(&value).is_absolute() && Path::new(&value).exists();
            if !is_path {
                self.remember(&value, false);
            }
        }
    }

    /// Hides the secrets in a node. `resolved` is the same node with the values of variables.
    fn node(&mut self, node: &mut Node, resolved: &Node, place: Place<'_>) {
        if place.hides_names() && node.scalar().is_none() {
            self.below_hidden(node);
            self.below_hidden(resolved);
            let text = HIDDEN.to_owned();
            node.value = Value::Scalar(Scalar { data: Data::Text, text, plain: false });
            return;
        }
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

    /// Remembers all values of a node that is hidden completely.
    fn below_hidden(&mut self, node: &Node) {
        match &node.value {
            Value::Map(entries) => entries.iter().for_each(|entry| self.below_hidden(&entry.node)),
            Value::Seq(items) => items.iter().for_each(|item| self.below_hidden(item)),
            Value::Scalar(scalar) => self.remember(&scalar.text, false),
            Value::Hole => {}
        }
    }

    fn below<'p>(&self, place: Place<'p>, key: &'p str) -> Place<'p> {
        let name = key.to_lowercase();
        match place {
            Place::Secret(option) => Place::Secret(option),
            // A component may be called `key`.
            Place::Shown(option) if NAMED.contains(&option) => Place::Shown("a name"),
            _ if SECRET.contains(&name.as_str()) || is_secret_name(&name) => Place::Secret(key),
            Place::Shown(option) if self.options.free.contains(option) => Place::Unknown,
            _ if self.options.names.contains(key) => Place::Shown(key),
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
            Place::Unknown => {
                texts.iter().for_each(|text| self.remember(text, false));
                hide(scalar);
            }
            Place::Shown(_) => {
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
        let all = words.chain([text.trim()]).filter(|text| is_searched(text));
        self.secrets.extend(all.map(str::to_owned));
    }

    /// Remembers users and passwords in `text`, and the query values of a URL.
    fn remember_url(&mut self, text: &str) {
        self.secrets.extend(url_secrets(text).into_iter().filter(|part| is_searched(part)));
    }
}

/// Hides a value. The name of a variable is not secret, but its default may be.
fn hide(scalar: &mut Scalar) {
    if !is_variable(&scalar.text) {
        scalar.text = HIDDEN.to_owned();
        scalar.data = Data::Text;
    }
}

/// Returns whether `text` is one variable without a default.
fn is_variable(text: &str) -> bool {
    let name = text.strip_prefix("${").and_then(|text| text.strip_suffix('}'));
    name.is_some_and(|name| !name.contains(['$', '{', '}']) && !name.contains(":-"))
}

/// Returns whether the first `length` bytes after `://` may be the beginning of a user and a
/// password that contains `/`, `?` or `#`, such as `me:pa` in `http://me:pa/ss@host`. Such a URL is
/// invalid. A port and a path look the same, so an address with an `@` in its path is also hidden.
pub fn is_cut_password(rest: &[u8], length: usize) -> bool {
    let (authority, behind) = rest.split_at(length);
    let user = authority.split(|byte| *byte == b'@').next().unwrap_or_default();
    let is_host = user.starts_with(b"[") || behind.starts_with(b"//");
    !is_host && user.contains(&b':')
}

/// Returns the ranges of users and passwords in `text`: in URLs, and in addresses without a scheme.
fn credentials(text: &str) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    for (at, scheme) in text.match_indices("://") {
        let start = at + scheme.len();
        let is_end = |c: char| c.is_whitespace() || ENDS.contains(&c);
        let rest = &text[start..];
        let mut end = rest.find(is_end).unwrap_or(rest.len());
        if is_cut_password(rest.as_bytes(), end) {
            end = rest.find(char::is_whitespace).unwrap_or(rest.len());
        }
        if let Some(length) = rest[..end].rfind('@') {
            found.push(start..start + length);
        }
    }
    for word in text.split_whitespace().filter(|word| !word.contains("://")) {
        let Some(length) = word.rfind('@') else { continue };
        let start = word.as_ptr() as usize - text.as_ptr() as usize;
        if word[..length].contains(':') {
            found.push(start..start + length);
        }
    }
    found.sort_by_key(|range| range.start);
    found
}

/// Returns `text` without users, passwords and URL queries.
fn without_credentials(text: &str) -> String {
    let mut shown = text.to_owned();
    for range in credentials(text).into_iter().rev() {
        shown.replace_range(range, HIDDEN);
    }
    let path = shown.find("://").and_then(|at| Some(at + shown[at..].find('?')? + 1));
    if let Some(start) = path {
        shown.replace_range(start.., HIDDEN);
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Registry;

    fn of(text: &str) -> (String, BTreeSet<String>) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.yaml");
        std::fs::write(&path, text).unwrap();
        let environment = |name: &str| match name {
            "PASS" => Some("from-a-variable".to_owned()),
            "FOLDER" => Some("/usr/share".to_owned()),
            _ => None,
        };
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
        for secret in ["url-secret", "query-secret", "header-secret", "from-a-variable"] {
            assert!(secrets.iter().any(|known| known.contains(secret)), "{secret}: {secrets:?}");
        }
        assert!(secrets.contains("header-secret") && !secrets.contains("web"), "{secrets:?}");
        // A number may be any number in another file.
        assert!(!secrets.contains("1234567"), "{secrets:?}");
    }

    /// An option that is described as a secret must be hidden. This also covers options that are
    /// added later.
    #[test]
    fn every_option_that_is_described_as_secret_is_hidden() {
        fn visit(schema: &Json, found: &mut Vec<String>) {
            let options = schema.get("properties").and_then(Json::as_object);
            for (name, option) in options.into_iter().flatten() {
                let described = option["description"].as_str().unwrap_or_default().to_lowercase();
                let words = ["password", "secret", "token", "credential"];
                // As in "API key. Prefer `key_file`."
                let has_file = described.contains("prefer `") && described.contains("_file`");
                let is_secret = has_file || words.iter().any(|word| described.contains(word));
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
        let options = Options::of(&schema);
        let hide = Hide { options: &options, secrets: &mut BTreeSet::new() };
        let is_hidden =
            |name: &String| matches!(hide.below(Place::Shown("auth"), name), Place::Secret(_));
        // Files are harmless. The parts of objects are judged by their names.
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
        let (shown, secrets) = of("a: [hunter2, ${PASS}\n");
        assert!(shown.contains("omitted") && !shown.contains("hunter2"), "{shown}");
        assert!(secrets.contains("from-a-variable"), "{secrets:?}");
    }

    #[test]
    fn ordinary_words_and_numbers_are_not_searched_for() {
        for value in [
            "5",
            "info",
            "INFO",
            "Warning",
            "millstream",
            "uptime_seconds",
            "1234567",
            "0.000001",
            "127.0.0.1:9092",
            "2026-01-01",
            "1-web",
            "Ärgernis",
        ] {
            assert!(!is_searched(value), "{value}");
        }
        for value in [
            "hunter2",
            "pass word",
            "aBcDeFgH",
            "dead-beef",
            "/services/T0/B0",
            "qwertyuiopasdfgh",
            "12345678901234567",
        ] {
            assert!(is_searched(value), "{value}");
        }
    }

    #[test]
    fn everything_below_a_name_that_no_option_has_is_hidden() {
        let (shown, secrets) = of("sinks:\n  out:\n    type: console\n    inputs: [web]\n    \
            tokn: { type: typed-secret, level: 4711, names: { inner: 4712 } }\n    nmber: 4713\n    \
            lst: [4714, { codec: 'listed-secret' }]\n    vrble: '${PASS}'\n\
            sources: { web: { type: stdin, attributes: { level: attribute-secret, team: 4715 } } }\n\
            jvm: { processes: { heavy: { memory: 1GiB } } }\n\
            transforms: { t: { type: fields, inputs: [web], steps: [\n\
            { lookup: { field: a, table: { a-table-key: 1 } } }] } }\n");
        for secret in
            ["typed-secret", "471", "inner", "listed-secret", "attribute-secret", "a-table-key"]
        {
            assert!(!shown.contains(secret), "{secret}: {shown}");
        }
        for text in ["\"tokn\":\"REDACTED\"", "\"lst\":\"REDACTED\"", "${PASS}", "1GiB", "team"] {
            assert!(shown.contains(text), "{text}: {shown}");
        }
        for secret in ["typed-secret", "listed-secret", "attribute-secret", "from-a-variable"] {
            assert!(secrets.contains(secret), "{secret}: {secrets:?}");
        }
    }

    #[test]
    fn values_of_variables_are_remembered_wherever_they_are() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("hook");
        std::fs::write(&file, "T99/from-a-file\n").unwrap();
        let (shown, secrets) = of(&format!(
            "data_dir: '${{FOLDER}}'\nsinks:\n  out:\n    type: http\n    inputs: [web]\n    \
             uri: 'https://host/${{PASS}}/${{file:{}}}?${{OTHER:-a-default}}'\n",
            file.display()
        ));
        assert!(secrets.contains("from-a-variable"), "{secrets:?}");
        assert!(secrets.contains("T99/from-a-file"), "{secrets:?}");
        assert!(!secrets.contains("/usr/share") && !secrets.contains("a-default"), "{secrets:?}");
        assert!(shown.contains("https://host/${PASS}/"), "{shown}");
    }

    #[test]
    fn users_and_passwords_are_hidden_with_and_without_a_scheme() {
        for (text, shown) in [
            ("me:pass-1@host:9092", "REDACTED@host:9092"),
            ("a:1,me:pass-1@host:9092", "REDACTED@host:9092"),
            ("me:pass/1@host", "REDACTED@host"),
            ("at me:pass-1@host now", "at REDACTED@host now"),
            ("kafka://a:1,me:pass-1@b:2/x", "kafka://REDACTED@b:2/x"),
            ("http://a:1,http://me:pass-1@b:2", "http://a:1,http://REDACTED@b:2"),
            ("http://me@b:2/c@d", "http://REDACTED@b:2/c@d"),
            ("http://b:2/c", "http://b:2/c"),
            ("http://b:2/c@d", "http://REDACTED@d"),
            ("http://[::1]/c@d", "http://[::1]/c@d"),
            ("http://me:pa/ss@b:2/c", "http://REDACTED@b:2/c"),
            ("http://me:12/34@b:2/c", "http://REDACTED@b:2/c"),
            ("http://me:pa@s/s@b:2/c", "http://REDACTED@b:2/c"),
            ("http://me:pa#ss@b:2/c", "http://REDACTED@b:2/c"),
            ("http://me:pa?ss@b:2/c", "http://REDACTED@b:2/c"),
            ("http://me:/pass@b:2/c", "http://REDACTED@b:2/c"),
            ("someone@example.com", "someone@example.com"),
            ("host:9092", "host:9092"),
            ("http://h/a?b=c", "http://h/a?REDACTED"),
        ] {
            assert_eq!(without_credentials(text), shown, "{text}");
        }
        let (_, secrets) =
            of("sinks: { o: { type: kafka, inputs: [a], brokers: ['me:pass-1@host:9092'] } }");
        assert!(secrets.contains("me:pass-1") && secrets.contains("pass-1"), "{secrets:?}");
    }
}
