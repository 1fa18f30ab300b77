//! The configuration: from YAML files to checked settings, with every error at its position.
//!
//! A separate crate because it cuts a dependency: fuzz targets use it without the program.
//!
//! `files` reads a file, `parse` builds a tree with positions, `replace` substitutes variables,
//! `merge` joins all files, `globals` and `components` check the keys through `check`, and `topology`
//! checks how components are connected. Each step continues after an error.

#![forbid(unsafe_code)]

mod aliases;
mod buffer;
mod check;
mod components;
mod fault;
mod files;
mod globals;
mod hash;
mod merge;
mod node;
mod option_faults;
mod parse;
mod profiler;
mod recorder;
mod redact;
mod registry;
mod replace;
mod scalar;
mod schema;
mod secret;
mod secret_name;
mod secrets;
pub mod suggest;
mod syntax;
mod task_files;
mod topology;
mod unit_tests;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use millstream_components::component::AnyComponent;
use millstream_components::util::jvm::processes_of;
use millstream_engine::{Buffer, Pace};
use millstream_model::Kind;
use serde_json::Value as Json;

pub use check::Formats;
pub use fault::{Fault, Place};
pub use files::{DEFAULT_FILES, Fingerprint, fingerprint};
pub use globals::{Globals, LogLevel, LogTarget};
pub use millstream_model::secrets::is_searched;
pub use recorder::{RecorderSettings, RecorderStorage};
pub use redact::{is_cut_password, redacted};
pub use registry::Registry;
pub use schema::schema;
pub use secrets::secrets;
pub use task_files::{TaskFiles, options_of};
pub use unit_tests::{Event, Expectation, TestInput, UnitTest};

use components::Draft;
use files::fingerprint_of;
use node::Node;

/// The component types, and the options of each.
pub trait Catalog {
    /// Returns the type names of a kind, sorted.
    fn types(&self, kind: Kind) -> Vec<&'static str>;

    /// Returns the name of a type if it exists. Tests use types that `types` does not list.
    fn find(&self, kind: Kind, name: &str) -> Option<&'static str> {
        self.types(kind).into_iter().find(|known| *known == name)
    }

    /// Returns the JSON Schema of the component's options, without the common keys.
    fn schema(&self, kind: Kind, type_name: &str) -> Option<schemars::Schema>;

    /// Decodes options that match the schema.
    ///
    /// # Errors
    /// Returns an error that the schema cannot express, without advice.
    fn decode(&self, kind: Kind, type_name: &str, options: Json) -> Result<AnyComponent, String>;

    /// Returns the format checks, by the name of their `format` in a schema.
    fn formats(&self) -> Formats;
}

/// A valid configuration.
#[derive(Clone, Debug)]
pub struct Config {
    /// Settings for the agent.
    pub globals: Globals,
    /// All components, in file order.
    pub components: Vec<Component>,
    /// Hash that changes with the configuration. Values from variables have no effect.
    pub hash: u64,
    /// Unit tests. The components that they refer to may not exist.
    pub tests: Vec<UnitTest>,
    /// Settings that are allowed but likely unintended, sorted by position.
    pub warnings: Vec<Fault>,
    /// Errors in task files, sorted by position. The configuration contains the previous tasks of
    /// such a file, or none.
    pub refused: Vec<Fault>,
    /// The task files in use.
    pub task_files: TaskFiles,
}

impl Config {
    /// Returns a fingerprint that covers the task files and the files that components read when
    /// they are built. The fingerprint was taken before the files were read.
    pub fn seen(&self) -> Fingerprint {
        let of_components = self.components.iter().flat_map(|component| &component.seen);
        self.task_files.seen().iter().chain(of_components).cloned().collect()
    }

    /// Returns the current fingerprint of the same files.
    pub fn fingerprint(&self) -> Fingerprint {
        let contents = self.components.iter().flat_map(|component| component.decoded.contents());
        [self.task_files.fingerprint(), fingerprint_of(contents.collect())].concat()
    }
}

/// A source, transform or sink.
#[derive(Clone)]
pub struct Component {
    /// Whether the component is a source, a transform or a sink.
    pub kind: Kind,
    /// Id, unique in the configuration.
    pub id: String,
    /// Type of the component, as registered.
    pub type_name: &'static str,
    /// Inputs, each `id` or `id.output`; empty for a source.
    pub inputs: Vec<String>,
    /// Constant fields of every event from a source.
    pub attributes: BTreeMap<String, String>,
    /// Host name in the events from a source, instead of the real host name.
    pub host: Option<String>,
    /// Priority and rate limit of a source.
    pub pace: Pace,
    /// Buffer of a sink.
    pub buffer: Buffer,
    /// Options as a JSON object. It may contain secrets: never show it.
    pub options: Json,
    /// Decoded options.
    pub decoded: AnyComponent,
    /// Hash over the contents of the files that the component reads when it is built.
    pub contents: u64,
    /// Fingerprint of these files, taken before they were read.
    pub seen: Fingerprint,
    /// Position of the id.
    pub place: Place,
}

impl Component {
    /// Returns whether the component is unchanged; its inputs, pace and buffer may differ.
    pub fn is_same(&self, other: &Component) -> bool {
        let settings = |c: &Component| {
            (c.kind, c.id.clone(), c.type_name, c.attributes.clone(), c.host.clone())
        };
        settings(self) == settings(other)
            && self.options == other.options
            && self.contents == other.contents
    }
}

impl fmt::Debug for Component {
    /// Omits the values that may be secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Component { kind, id, type_name, inputs, .. } = self;
        write!(f, "{kind} {id} ({type_name}) from {inputs:?}")
    }
}

/// Reads and checks the configuration in `paths`: files, and folders of `*.yaml` and `*.yml`.
/// Without paths, reads the default file. `env` looks up variables.
///
/// # Errors
/// Returns all errors, sorted by position.
pub fn load(
    paths: &[PathBuf],
    catalog: &dyn Catalog,
    env: &dyn Fn(&str) -> Option<String>,
) -> Result<Config, Vec<Fault>> {
    load_again(paths, catalog, env, &TaskFiles::default())
}

/// Reads and checks the configuration like [`load`], while the `previous` task files are in use.
/// These replace task files that are now invalid.
///
/// # Errors
/// Returns all errors, sorted by position.
pub fn load_again(
    paths: &[PathBuf],
    catalog: &dyn Catalog,
    env: &dyn Fn(&str) -> Option<String>,
    previous: &TaskFiles,
) -> Result<Config, Vec<Fault>> {
    let mut faults = Vec::new();
    let read = read_files(paths, env, &mut faults);
    checked(read, catalog, previous, faults)
}

/// Reads and checks the configuration like [`load`], together with `files` that contain tests. If
/// these files also contain components and `paths` is empty, the default file is not read.
///
/// # Errors
/// Returns all errors, sorted by position.
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
    checked(read, catalog, &TaskFiles::default(), faults)
}

/// Returns the errors that occur while reading the configuration files in `paths`, or the default
/// file.
pub fn unreadable(paths: &[PathBuf]) -> Vec<Fault> {
    let mut faults = Vec::new();
    files::read_all(paths, &mut faults);
    faults
}

/// Returns the data folder of a configuration that may be invalid; `None` if it is not known.
pub fn data_dir(paths: &[PathBuf], env: &dyn Fn(&str) -> Option<String>) -> Option<PathBuf> {
    let read = read_files(paths, env, &mut Vec::new());
    match read.roots.iter().find_map(|root| root.get("data_dir")) {
        Some(node) => node.text().map(PathBuf::from),
        None => read.complete.then(|| Globals::default().data_dir),
    }
}

/// Checks the parsed configuration.
fn checked(
    read: Read,
    catalog: &dyn Catalog,
    previous: &TaskFiles,
    mut faults: Vec<Fault>,
) -> Result<Config, Vec<Fault>> {
    let merged = merge::merge(read.roots, &mut faults);
    let hash = hash::hash(&merged);
    let allowed = millstream_host::memory_allowance(Path::new("/proc"), Path::new("/sys"));
    let globals::Read { globals, warnings: of_globals, processes } =
        globals::read(merged.globals, &read.start, allowed, &mut faults);
    let mut reader = task_files::Reader::new(previous);
    let drafts = merged
        .components
        .iter()
        .map(|(kind, entry)| components::read(*kind, entry, catalog, &mut reader, &mut faults));
    let drafts: Vec<Draft> = drafts.collect();
    let task_files::Reader { found: task_files, mut refused, .. } = reader;
    let tests = unit_tests::read(merged.tests, catalog.formats(), &mut faults);
    // Inputs may refer to a file that could not be read. In this case, only the read error is
    // reported.
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
    warnings.extend(unused_processes(&processes, &drafts));
    warnings.extend(drafts.iter().flat_map(|draft| draft.warnings.clone()));
    sort(&mut warnings);
    let components = drafts.into_iter().filter_map(|draft| draft.component).collect();
    sort(&mut refused);
    Ok(Config { globals, components, hash, tests, warnings, refused, task_files })
}

/// Returns warnings about configured processes that no component uses. The name is probably
/// misspelled, and the component runs without the limits of the process.
fn unused_processes<'a>(
    processes: &'a [(String, Place)],
    drafts: &'a [Draft],
) -> impl Iterator<Item = Fault> + 'a {
    let runs_in = |draft: &Draft, name: &str| {
        let component = draft.component.as_ref();
        let processes = component.map(|component| processes_of(&*component.decoded));
        processes.is_some_and(|processes| processes.iter().any(|process| process == name))
    };
    let unused = processes.iter().filter(move |(name, _)| !drafts.iter().any(|d| runs_in(d, name)));
    unused.map(|(name, place)| {
        let what = format!("no component runs in process `{name}`");
        Fault::new(
            place,
            what,
            "set `mode: process` and this name as `process` in a component, or remove the process",
        )
    })
}

/// The trees of all files.
struct Read {
    roots: Vec<Node>,
    /// Whether every file could be read.
    complete: bool,
    /// Position at the start of the first file.
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

/// Sorts faults by position, and removes repetitions from aliases.
fn sort(faults: &mut Vec<Fault>) {
    faults.sort();
    faults.dedup();
}
