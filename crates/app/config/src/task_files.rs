//! Task files: replaces the patterns that a component lists with the tasks of the matching files.
//!
//! Each file is checked separately. An invalid file is rejected: its previous version stays in use
//! if there is one, and the other files are not affected.

use super::check::{self, Spot};
use super::fault::{Fault, Place};
use super::files::{Fingerprint, fingerprint_of};
use super::node::{Entry, Node, Value};
use super::option_faults::option_faults;
use super::{Catalog, files, parse};
use globset::Glob;
use millstream_model::Kind;
use serde_json::{Value as Json, json};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::{Path, PathBuf};

/// The option that lists tasks and patterns, and the only key of a task file.
const KEY: &str = "tasks";

/// Format of a pattern in a schema.
const FORMAT: &str = "task-files";

/// The task files in use.
#[derive(Clone, Debug, Default)]
pub struct TaskFiles {
    /// The patterns, as configured.
    patterns: Vec<String>,
    /// Fingerprint of the files, taken before they were read.
    seen: Fingerprint,
    /// The tasks in the last valid version of each file.
    tasks: BTreeMap<PathBuf, Vec<Node>>,
}

impl TaskFiles {
    /// Returns the fingerprint of the files that was taken before they were read.
    pub fn seen(&self) -> &Fingerprint {
        &self.seen
    }

    /// Returns the current fingerprint of the files.
    pub fn fingerprint(&self) -> Fingerprint {
        fingerprint_of(listed(&self.patterns))
    }
}

/// Reads task files.
pub struct Reader<'r> {
    /// The task files that are in use.
    pub previous: &'r TaskFiles,
    /// The task files that the reader has read.
    pub found: TaskFiles,
    /// Errors in rejected files.
    pub refused: Vec<Fault>,
}

/// The component that lists the files.
pub struct Owner<'o> {
    pub kind: Kind,
    pub type_name: &'static str,
    /// The schema of the component's options.
    pub schema: &'o Json,
    pub catalog: &'o dyn Catalog,
}

impl<'r> Reader<'r> {
    /// Starts with the files that are in use.
    pub fn new(previous: &'r TaskFiles) -> Reader<'r> {
        Reader { previous, found: TaskFiles::default(), refused: Vec::new() }
    }

    /// Returns a component with the tasks from files instead of patterns; `None` if it has no
    /// patterns. Warns about patterns that match no file.
    pub fn expand(
        &mut self,
        entry: &Entry,
        owner: &Owner<'_>,
        warnings: &mut Vec<Fault>,
    ) -> Option<Entry> {
        let listed = entry.node.get(KEY)?;
        let has_patterns = listed.items().iter().any(|item| item.text().is_some());
        if !has_patterns || !takes_files(owner.schema) {
            return None;
        }
        let mut tasks = Vec::new();
        let (mut names, mut known) = (HashMap::new(), HashSet::new());
        let (patterns, own): (Vec<&Node>, Vec<&Node>) =
            listed.items().iter().partition(|item| item.text().is_some());
        add(own.into_iter().cloned().collect(), &mut names, &mut tasks);
        for pattern in patterns {
            self.found.patterns.extend(pattern.text().map(String::from));
            let files = match matching(pattern) {
                Ok(files) => files,
                Err(fault) => {
                    warnings.push(fault);
                    continue;
                }
            };
            self.found.seen.extend(fingerprint_of(files.clone()));
            // A file that several patterns match is read once.
            for file in files.into_iter().filter(|file| known.insert(file.clone())) {
                let of_file = self.file(&file, &names, owner);
                add(of_file, &mut names, &mut tasks);
            }
        }
        Some(with_tasks(entry, tasks))
    }

    /// Returns the tasks of a file. If the file is invalid, returns the tasks of its previous
    /// version, except tasks whose names another file uses now.
    fn file(
        &mut self,
        path: &Path,
        names: &HashMap<String, Place>,
        owner: &Owner<'_>,
    ) -> Vec<Node> {
        let mut tasks = read(path, names, owner).unwrap_or_else(|mut faults| {
            self.refused.append(&mut faults);
            self.previous.tasks.get(path).cloned().unwrap_or_default()
        });
        self.found.tasks.insert(path.to_path_buf(), tasks.clone());
        // The previous version may contain a name that another file uses now.
        tasks.retain(|task| name_of(task).is_none_or(|(name, _)| !names.contains_key(&name)));
        tasks
    }
}

/// Reads task files for a component type that supports them, and returns the options with all
/// tasks.
///
/// # Errors
///
/// Returns all errors in all files.
pub fn options_of(
    files: &[PathBuf],
    kind: Kind,
    type_name: &'static str,
    catalog: &dyn Catalog,
) -> Result<Json, Vec<Fault>> {
    let schema = catalog.schema(kind, type_name).map(schemars::Schema::to_value);
    let schema = schema.unwrap_or_default();
    let owner = Owner { kind, type_name, schema: &schema, catalog };
    let (mut tasks, mut names, mut faults) = (Vec::new(), HashMap::new(), Vec::new());
    for file in files {
        match read(file, &names, &owner) {
            Ok(of_file) => add(of_file, &mut names, &mut tasks),
            Err(of_file) => faults.extend(of_file),
        }
    }
    let tasks: Vec<Json> = tasks.iter().map(Node::to_json).collect();
    if faults.is_empty() { Ok(json!({ KEY: tasks })) } else { Err(faults) }
}

/// Returns whether the options in a schema support task files.
fn takes_files(schema: &Json) -> bool {
    schema.pointer("/properties/tasks").is_some() && schema.to_string().contains(FORMAT)
}

/// Adds tasks and their names. If two tasks have the same name, the first one counts.
fn add(tasks: Vec<Node>, names: &mut HashMap<String, Place>, all: &mut Vec<Node>) {
    for task in tasks {
        if let Some((name, place)) = name_of(&task) {
            names.entry(name).or_insert(place);
        }
        all.push(task);
    }
}

fn name_of(task: &Node) -> Option<(String, Place)> {
    let name = task.get("name")?;
    Some((name.text()?.to_owned(), name.place.clone()))
}

/// Returns the component with these tasks.
fn with_tasks(entry: &Entry, tasks: Vec<Node>) -> Entry {
    let mut entry = entry.clone();
    if let Value::Map(options) = &mut entry.node.value {
        for option in options.iter_mut().filter(|option| option.key == KEY) {
            option.node.value = Value::Seq(tasks.clone());
        }
    }
    entry
}

/// Returns the files that a pattern matches, sorted by name. A pattern is a folder, a file, or a
/// folder and a file name with wildcards.
fn matching(pattern: &Node) -> Result<Vec<PathBuf>, Fault> {
    let text = pattern.text().unwrap_or_default();
    let advice = "use, for example, tasks/*.yaml; only the file name may contain wildcards";
    let fault = |what: String| Fault::new(&pattern.place, format!("`{KEY}`: {what}"), advice);
    let path = Path::new(text);
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let (folder, name) = match path.is_dir() {
        true => (path, "*.{yaml,yml}"),
        false => (path.parent().unwrap_or(Path::new("")), name),
    };
    let glob = Glob::new(name).map_err(|error| fault(error.to_string()))?.compile_matcher();
    let listed = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    let entries = std::fs::read_dir(listed)
        .map_err(|error| fault(format!("cannot read {}: {error}", listed.display())))?;
    let names = entries.flatten().map(|entry| entry.file_name());
    let is_match = |name: &std::ffi::OsString| {
        !name.as_encoded_bytes().starts_with(b".") && glob.is_match(name)
    };
    let mut found: Vec<PathBuf> = names.filter(is_match).map(|name| folder.join(name)).collect();
    found.retain(|path| path.is_file());
    found.sort();
    if found.is_empty() {
        return Err(fault(format!("no file matches {}", pattern.quoted())));
    }
    Ok(found)
}

/// Returns the files that match the patterns and can be read now.
fn listed(patterns: &[String]) -> Vec<PathBuf> {
    let place = Place { file: "".into(), line: 1, column: 1 };
    let scalar = |text: &String| super::node::Scalar {
        data: super::node::Data::Text,
        text: text.clone(),
        plain: true,
    };
    let node = |text: &String| Node {
        value: Value::Scalar(scalar(text)),
        place: place.clone(),
        template: None,
        substituted: Vec::new(),
    };
    patterns.iter().flat_map(|text| matching(&node(text)).unwrap_or_default()).collect()
}

/// Reads the tasks of a file. `names` are the names of tasks in other files.
fn read(
    path: &Path,
    names: &HashMap<String, Place>,
    owner: &Owner<'_>,
) -> Result<Vec<Node>, Vec<Fault>> {
    let source = files::read(path).map_err(|fault| vec![fault])?;
    let mut faults = Vec::new();
    let root =
        parse::parse(&source.name, &source.text, &mut faults).map_err(|fault| vec![fault])?;
    let Some(root) = root.filter(|_| faults.is_empty()) else {
        if faults.is_empty() {
            let place = Place { file: source.name.clone(), line: 1, column: 1 };
            faults.push(Fault::new(&place, "the file is empty", "use tasks: [] for no tasks"));
        }
        return Err(faults);
    };
    let schema = file_schema(owner.schema);
    let spot = Spot { key: "", place: &root.place };
    faults.extend(check::check(&root, &schema, owner.catalog.formats(), spot));
    if faults.is_empty() {
        faults.extend(option_faults(
            &root,
            &root.place,
            owner.kind,
            owner.type_name,
            owner.catalog,
        ));
    }
    let tasks = root.get(KEY).map(|tasks| tasks.items().to_vec()).unwrap_or_default();
    for (name, place) in tasks.iter().filter_map(name_of) {
        if let Some(other) = names.get(&name) {
            let what = format!("`name`: another task is already named `{name}`, at {other}");
            faults.push(Fault::new(&place, what, "rename one of them"));
        }
    }
    if faults.is_empty() { Ok(tasks) } else { Err(faults) }
}

/// Returns the schema of a task file: only the `tasks` option of the component.
fn file_schema(options: &Json) -> Json {
    let mut schema = options.clone();
    schema["properties"] = json!({ KEY: options.pointer("/properties/tasks") });
    schema["required"] = json!([KEY]);
    schema["type"] = "object".into();
    schema
}
