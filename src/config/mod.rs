//! The configuration: YAML files to checked settings, with every fault at its place.
//!
//! The way of a file: `files` reads it, `parse` makes a placed tree, `replace` fills in variables,
//! `merge` joins all files, `globals` and `components` check the keys through `check`, and
//! `wiring` checks how the components are joined. Each step goes on after a fault.

mod aliases;
mod check;
mod components;
mod fault;
mod files;
mod globals;
mod hash;
mod merge;
mod node;
mod parse;
mod replace;
mod scalar;
mod schema;
mod secret;
pub mod suggest;
mod syntax;
mod topology;
mod unit_tests;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use millstream_engine::{Buffer, Pace};
use millstream_model::Kind;
use serde_json::Value as Json;

pub use check::Formats;
pub use fault::{Fault, Place};
pub use files::{Fingerprint, fingerprint};
pub use globals::{Globals, LogLevel, LogTarget};
pub use schema::schema;
pub use unit_tests::{Event, Expectation, TestInput, UnitTest};

use components::Draft;
use node::Node;

/// The component types there are, and what each takes.
pub trait Catalog {
    /// Type names of a kind, sorted.
    fn types(&self, kind: Kind) -> Vec<&'static str>;

    /// JSON Schema of the component's own options, without the common keys.
    fn schema(&self, kind: Kind, type_name: &str) -> Option<schemars::Schema>;

    /// Names of the side outputs of a component with these options: `rejected`, routes.
    fn outputs(&self, kind: Kind, type_name: &str, options: &Json) -> Vec<String>;

    /// What is wrong with options that fit their schema, each as a JSON pointer into the options
    /// and a message of the form "what is wrong; what to write instead".
    fn check(&self, kind: Kind, type_name: &str, options: &Json) -> Vec<(String, String)>;

    /// Files that a component with these options reads once it connects, each with the JSON pointer
    /// of its option.
    fn files(&self, kind: Kind, type_name: &str, options: &Json) -> Vec<(String, PathBuf)>;

    /// Files that a component with these options reads when it is built.
    fn contents(&self, kind: Kind, type_name: &str, options: &Json) -> Vec<PathBuf>;

    /// Checks of text by the name of its `format` in a schema.
    fn formats(&self) -> Formats;
}

/// A configuration without faults.
#[derive(Clone, Debug)]
pub struct Config {
    /// Settings of the whole agent.
    pub globals: Globals,
    /// Every component, in the order of the files.
    pub components: Vec<Component>,
    /// Changes when the configuration does; values from variables do not count.
    pub hash: u64,
    /// Its unit tests; what they name may not be there.
    pub tests: Vec<UnitTest>,
    /// What is allowed but likely unintended, sorted by place.
    pub warnings: Vec<Fault>,
}

/// One source, transform or sink.
#[derive(Clone, PartialEq)]
pub struct Component {
    /// What it does.
    pub kind: Kind,
    /// Its name, unique in the configuration.
    pub id: String,
    /// Its type as registered.
    pub type_name: String,
    /// What it reads from, each `id` or `id.output`; empty for a source.
    pub inputs: Vec<String>,
    /// Constant fields of every event of a source.
    pub attributes: BTreeMap<String, String>,
    /// What a source gives as the host's name instead of the real one.
    pub host: Option<String>,
    /// How fast a source is read.
    pub pace: Pace,
    /// What may wait for a sink.
    pub buffer: Buffer,
    /// Its own keys as a JSON object. May hold secrets: never to be shown.
    pub options: Json,
    /// Changes with the contents of the files that it reads when it is built.
    pub contents: u64,
    /// Where its id stands.
    pub place: Place,
}

impl Component {
    /// Whether this is the same component doing the same: who reads whom, how fast it is read and
    /// what may wait for it may differ.
    pub fn is_same(&self, other: &Component) -> bool {
        let of = |c: &Component| {
            (c.kind, c.id.clone(), c.type_name.clone(), c.attributes.clone(), c.host.clone())
        };
        of(self) == of(other) && self.options == other.options && self.contents == other.contents
    }
}

impl fmt::Debug for Component {
    /// Leaves out the values that may be secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Component { kind, id, type_name, inputs, .. } = self;
        write!(f, "{kind} {id} ({type_name}) from {inputs:?}")
    }
}

/// Reads and checks the configuration in `paths`: files, and folders of `*.yaml` and `*.yml`.
/// Without any, the default file. `env` looks up variables.
///
/// # Errors
/// Every fault there is, sorted by place.
pub fn load(
    paths: &[PathBuf],
    catalog: &dyn Catalog,
    env: &dyn Fn(&str) -> Option<String>,
) -> Result<Config, Vec<Fault>> {
    let mut faults = Vec::new();
    let read = read_files(paths, env, &mut faults);
    checked(read, catalog, faults)
}

/// The same together with `files` that hold tests. Where they hold components too, nothing else
/// needs to be named: the default file is not read then.
///
/// # Errors
/// Every fault there is, sorted by place.
pub fn load_with_tests(
    paths: &[PathBuf],
    files: &[PathBuf],
    catalog: &dyn Catalog,
    env: &dyn Fn(&str) -> Option<String>,
) -> Result<Config, Vec<Fault>> {
    let mut faults = Vec::new();
    let mut read = read_files(&[paths, files].concat(), env, &mut faults);
    let has_section = |root: &Node| Kind::ALL.iter().any(|kind| root.get(kind.section()).is_some());
    if paths.is_empty() && !files.is_empty() && read.complete && !read.roots.iter().any(has_section)
    {
        let default = read_files(&[], env, &mut faults);
        read.roots.splice(0..0, default.roots);
        (read.start, read.complete) = (default.start, default.complete);
    }
    checked(read, catalog, faults)
}

/// Checks everything that was read.
fn checked(
    read: Read,
    catalog: &dyn Catalog,
    mut faults: Vec<Fault>,
) -> Result<Config, Vec<Fault>> {
    let merged = merge::merge(read.roots, &mut faults);
    let hash = hash::hash(&merged);
    let allowed = millstream_host::memory_allowance(Path::new("/proc"), Path::new("/sys"));
    let globals::Read { globals, warnings: of_globals } =
        globals::read(merged.globals, &read.start, allowed, &mut faults);
    let drafts = merged
        .components
        .iter()
        .map(|(kind, entry)| components::read(*kind, entry, catalog, &mut faults));
    let drafts: Vec<Draft> = drafts.collect();
    let tests = unit_tests::read(merged.tests, catalog.formats(), &mut faults);
    // Inputs may lead into a file that could not be read; only the reading is at fault then.
    let mut warnings = if read.complete {
        topology::check(&drafts, &merged.written, &read.start, &mut faults)
    } else {
        Vec::new()
    };
    if !faults.is_empty() {
        sort(&mut faults);
        return Err(faults);
    }
    warnings.extend(of_globals);
    warnings.extend(drafts.iter().flat_map(|draft| draft.warnings.clone()));
    sort(&mut warnings);
    let components = drafts.into_iter().filter_map(|draft| draft.component).collect();
    Ok(Config { globals, components, hash, tests, warnings })
}

/// The trees of all files.
struct Read {
    roots: Vec<Node>,
    /// Every file could be read.
    complete: bool,
    /// The beginning of the first file.
    start: Place,
}

fn read_files(
    paths: &[PathBuf],
    env: &dyn Fn(&str) -> Option<String>,
    faults: &mut Vec<Fault>,
) -> Read {
    let sources = files::read_all(paths, faults);
    let first =
        sources.first().map_or_else(|| Arc::from("millstream.yaml"), |source| source.name.clone());
    let mut read = Read {
        roots: Vec::new(),
        complete: faults.is_empty(),
        start: Place { file: first, line: 1, column: 1 },
    };
    for source in sources {
        match parse::parse(&source.name, &source.text, faults) {
            Ok(Some(mut root)) => {
                replace::replace(&mut root, env, faults);
                read.roots.push(root);
            }
            Ok(None) => {}
            Err(fault) => {
                faults.push(fault);
                read.complete = false;
            }
        }
    }
    read
}

/// Sorts by place. A value that aliases repeat is at fault in one place, which is enough to say
/// once.
fn sort(faults: &mut Vec<Fault>) {
    faults.sort();
    faults.dedup();
}
