//! Components: their type, common keys and options.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use millstream_engine::{Pace, Priority};
use millstream_model::{Kind, Size};
use xxhash_rust::xxh3::Xxh3;

use super::check::describe::found;
use super::check::retype::retype;
use super::check::{self, Spot};
use super::fault::{Fault, Place};
use super::files::fingerprint_of;
use super::node::{Entry, Node, Value, entries_to_json};
use super::option_faults::{faults_of, pointer_key};
use super::schema::{COMMON_KEYS, component_schema};
use super::secret::masked;
use super::task_files::{Owner, Reader};
use super::{Catalog, Component, aliases, buffer, suggest};

/// Maximum size, in bytes, of a file whose contents are hashed to detect changes. No component
/// reads larger files.
const CONTENTS_BYTES_MAX: usize = 64 << 20;

/// A component as far as it could be parsed.
pub struct Draft {
    pub kind: Kind,
    pub id: String,
    pub place: Place,
    pub inputs: Vec<Input>,
    /// Names of the side outputs; `None` if they are unknown because the options are invalid.
    pub outputs: Option<Vec<String>>,
    /// The component, if it is valid.
    pub component: Option<Component>,
    /// Settings that are allowed but likely unintended.
    pub warnings: Vec<Fault>,
}

/// One entry of `inputs`.
pub struct Input {
    /// `id` or `id.output`.
    pub name: String,
    pub place: Place,
    /// The name as shown in messages.
    pub shown: String,
    /// Whether the name came from a variable.
    pub secret: bool,
}

/// Parses one component, and reports all errors that do not involve other components.
pub fn read(
    kind: Kind,
    entry: &Entry,
    catalog: &dyn Catalog,
    task_files: &mut Reader<'_>,
    faults: &mut Vec<Fault>,
) -> Draft {
    let mut own = Vec::new();
    let type_name = type_name(kind, entry, catalog, &mut own);
    let mut draft = Draft {
        kind,
        id: entry.key.clone(),
        place: entry.place.clone(),
        inputs: if kind == Kind::Source { Vec::new() } else { inputs(&entry.node) },
        outputs: None,
        component: None,
        warnings: Vec::new(),
    };
    if let Some((type_name, options)) = type_name {
        let schema = component_schema(kind, type_name, options);
        let owner = Owner { kind, type_name, schema: &schema, catalog };
        let expanded = task_files.expand(entry, &owner, &mut draft.warnings);
        let mut entry = expanded.unwrap_or_else(|| entry.clone());
        retype(&mut entry.node, &schema);
        let entry = &entry;
        let spot = Spot { key: "", place: &entry.place };
        own.extend(check::check(&entry.node, &schema, catalog.formats(), spot));
        if own.is_empty() && !entry.node.has_hole() {
            match component(kind, type_name, entry, catalog) {
                Ok(component) => {
                    own.extend(semantic_faults(&component, &entry.node));
                    own.extend(buffer_entry(kind, &entry.node).into_iter().flat_map(buffer::check));
                    draft.warnings.extend(missing_files(&component, &entry.node));
                    draft.outputs = Some(component.decoded.outputs());
                    draft.component = Some(component);
                }
                Err(fault) => own.push(fault),
            }
        }
    }
    faults.append(&mut own);
    draft
}

/// Returns the component's type name and option schema, if both exist.
fn type_name(
    kind: Kind,
    entry: &Entry,
    catalog: &dyn Catalog,
    faults: &mut Vec<Fault>,
) -> Option<(&'static str, schemars::Schema)> {
    let types = catalog.types(kind);
    if !matches!(entry.node.value, Value::Map(_)) {
        faults.extend(not_a_map(kind, entry, &types));
        return None;
    }
    let Some(node) = entry.node.get("type") else {
        let advice = format!("add `type:` with {}", suggest::listed(&types, "or"));
        faults.push(Fault::new(
            &entry.place,
            format!("the {kind} `{}` has no `type`", entry.key),
            advice,
        ));
        return None;
    };
    let Some(text) = node.text() else {
        faults.extend(not_a_name(node, &types));
        return None;
    };
    let known = catalog.find(kind, text);
    let schema = known.and_then(|name| Some((name, catalog.schema(kind, name)?)));
    if schema.is_none() {
        faults.push(unknown_type(kind, node, &types, catalog));
    }
    schema
}

fn not_a_name(node: &Node, types: &[&str]) -> Option<Fault> {
    let what = format!("`type`: expected text, found {}", found(node));
    let advice = format!("use {}", suggest::listed(types, "or"));
    (!node.has_hole()).then(|| Fault::new(&node.place, what, advice))
}

fn not_a_map(kind: Kind, entry: &Entry, types: &[&str]) -> Option<Fault> {
    let what = format!(
        "`{}`: expected a map with the options of a {kind}, found {}",
        entry.key,
        found(&entry.node)
    );
    let first = types.first().copied().unwrap_or("...");
    let is_hole = matches!(entry.node.value, Value::Hole);
    (!is_hole)
        .then(|| Fault::new(&entry.node.place, what, format!("use, for example, type: {first}")))
}

fn unknown_type(kind: Kind, node: &Node, types: &[&str], catalog: &dyn Catalog) -> Fault {
    let text = node.text().unwrap_or_default();
    let mut what = format!("unknown {kind} type {}", node.quoted());
    if node.template.is_some() {
        return Fault::new(
            &node.place,
            what,
            format!("the types are {}", suggest::listed(types, "and")),
        );
    }
    if aliases::is_not_yet(kind, text) {
        what = format!("there is no {kind} type {} yet", node.quoted());
    }
    let elsewhere = Kind::ALL.into_iter().find(|other| catalog.types(*other).contains(&text));
    let advice = match elsewhere {
        Some(other) => format!("it is a {other}; move it to `{}`", other.section()),
        None => {
            let instead = aliases::instead(kind, text).map(String::from);
            let advice = instead.or_else(|| aliases::advice(kind, text, types));
            advice.unwrap_or_else(|| suggest::advice(text, types, "the types are"))
        }
    };
    Fault::new(&node.place, what, advice)
}

/// Parses the valid entries of `inputs`. The schema check reports invalid entries.
fn inputs(node: &Node) -> Vec<Input> {
    let items = node.get("inputs").map(Node::items).unwrap_or_default();
    let texts = items.iter().filter_map(|item| item.text().map(|text| (item, text)));
    let inputs = texts.map(|(item, text)| Input {
        name: text.to_owned(),
        place: item.place.clone(),
        shown: item.shown().to_owned(),
        secret: item.template.is_some(),
    });
    inputs.collect()
}

/// Builds the component. The keys already match the schema.
fn component(
    kind: Kind,
    type_name: &'static str,
    entry: &Entry,
    catalog: &dyn Catalog,
) -> Result<Component, Fault> {
    let node = &entry.node;
    let common = |entry: &&Entry| {
        COMMON_KEYS.iter().any(|(key, kinds)| *key == entry.key && kinds.contains(&kind))
    };
    let options = entries_to_json(node.entries().iter().filter(|entry| !common(entry)));
    let decoded = catalog
        .decode(kind, type_name, options.clone())
        .map_err(|message| undecodable(entry, &message))?;
    let files = decoded.contents();
    // Take the fingerprint before the files are read, so that later changes cause a reload.
    let seen = fingerprint_of(files.clone());
    Ok(Component {
        kind,
        id: entry.key.clone(),
        type_name,
        inputs: if kind == Kind::Source {
            Vec::new()
        } else {
            inputs(node).into_iter().map(|i| i.name).collect()
        },
        attributes: if kind == Kind::Source { attributes(node) } else { BTreeMap::new() },
        host: node
            .get("host")
            .filter(|_| kind == Kind::Source)
            .and_then(Node::text)
            .map(String::from),
        pace: if kind == Kind::Source { pace(node) } else { Pace::default() },
        buffer: buffer_entry(kind, node).map(|entry| buffer::of(&entry.node)).unwrap_or_default(),
        contents: hash_contents(&files),
        seen,
        options,
        decoded,
        place: entry.place.clone(),
    })
}

fn buffer_entry(kind: Kind, node: &Node) -> Option<&Entry> {
    node.entry("buffer").filter(|_| kind == Kind::Sink)
}

/// Reports options that match the schema but cannot be decoded.
fn undecodable(entry: &Entry, message: &str) -> Fault {
    // The message may be about any of the options.
    let message = masked(message, &entry.node.all_substituted(), &[]);
    Fault::new(&entry.place, message, "compare the option with the component's documentation")
}

/// Returns the attributes with the text of every value as written: `version: 1.10` stays `1.10`.
fn attributes(node: &Node) -> BTreeMap<String, String> {
    let entries = node.get("attributes").map(Node::entries).unwrap_or_default();
    let pairs = entries
        .iter()
        .filter_map(|entry| Some((entry.key.clone(), entry.node.scalar()?.text.clone())));
    pairs.collect()
}

/// Parses the pace of a source. The keys already match the schema.
fn pace(node: &Node) -> Pace {
    let text = |key| node.get(key).and_then(Node::text);
    let priority = match text("priority") {
        Some("high") => Priority::High,
        Some("low") => Priority::Low,
        _ => Priority::Normal,
    };
    let rate_limit =
        text("rate_limit").and_then(|text| text.parse::<Size>().ok()).map(|size| size.0);
    Pace { priority, rate_limit }
}

/// Reports the errors that the component finds in options that match the schema.
fn semantic_faults(component: &Component, node: &Node) -> Vec<Fault> {
    faults_of(&component.decoded, node, &component.place)
}

/// Warns about files that cannot be read now. These files need to exist only when the component
/// connects, so an operator may create them after the agent starts.
fn missing_files(component: &Component, node: &Node) -> Vec<Fault> {
    let id = &component.id;
    let files = component.decoded.files().into_iter();
    let warning = |(pointer, path): (String, PathBuf)| {
        let (why, key) = (unreadable(&path)?, pointer_key(&pointer).unwrap_or_default());
        // The message omits the path, which may come from a variable with a secret.
        let what = format!("`{key}`: {why}; `{id}` waits for the file");
        let advice = "create the file, make it readable for the agent, or set another path";
        Some(Fault::new(&node.nearest(&pointer).place, what, advice))
    };
    files.filter_map(warning).collect()
}

/// Hashes the contents of files. Unreadable files are skipped; the component reports them.
fn hash_contents(files: &[PathBuf]) -> u64 {
    let mut hasher = Xxh3::new();
    for file in files {
        let contents = File::open(file).and_then(|opened| hash_reader(opened, &mut hasher));
        hasher.update(&[u8::from(contents.is_ok())]);
    }
    hasher.digest()
}

fn hash_reader(mut from: File, hasher: &mut Xxh3) -> io::Result<()> {
    let mut buffer = [0; 8192];
    let mut left = CONTENTS_BYTES_MAX;
    while left > 0 {
        let read = from.read(&mut buffer)?;
        if read == 0 {
            break;
        }
        hasher.update(&buffer[..read]);
        left = left.saturating_sub(read);
    }
    Ok(())
}

/// Returns the reason why a file cannot be read; `None` if it can be read.
fn unreadable(path: &Path) -> Option<String> {
    let opened = match path.metadata() {
        // Opening a pipe could block forever.
        Ok(metadata) if !metadata.is_file() => {
            return Some("this is not a regular file".to_owned());
        }
        Ok(_) => File::open(path).map(drop),
        Err(error) => Err(error),
    };
    opened.err().map(|error| format!("the file cannot be read ({error})"))
}
