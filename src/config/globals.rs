//! Settings of the whole agent.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;

use millstream_jvm::{COLLECTORS_DEFAULT, JvmOptions};
use millstream_model::{Interval, Kind, Size};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value as Json;

use super::check::{self, Spot};
use super::fault::{Fault, Place};
use super::node::{Entry, Node, Value};

/// Smallest CPU limit in cores.
const CPU_MIN: f64 = 0.01;

/// Smallest heap of the JVM.
const HEAP_MIN: Size = Size(32 << 20);

/// Smallest memory limit.
const MEMORY_MIN: Size = Size(32 << 20);

/// Settings of the whole agent, with defaults.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Globals {
    /// Folder of the agent's state: checkpoints, token, control socket. Created if missing.
    #[schemars(length(min = 1))]
    pub data_dir: PathBuf,
    /// The agent's own log.
    pub log: Log,
    /// Limits on host resources.
    pub limits: Limits,
    /// The JVM inside the agent, which starts when a component needs it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub jvm: Option<JvmSettings>,
    /// How long a stop waits for the delivery of data in flight.
    pub shutdown_timeout: Interval,
    /// The agent's HTTP API.
    pub api: Api,
    /// Whether to reload when the configuration files change, as on SIGHUP.
    pub watch: bool,
}

/// The parsed settings.
#[derive(Default)]
pub struct Read {
    /// The settings.
    pub globals: Globals,
    /// Allowed but likely unintended.
    pub warnings: Vec<Fault>,
}

/// The agent's own log.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Log {
    /// Minimum severity.
    pub level: LogLevel,
    /// Destination: `stderr`, or the path of a file.
    pub to: LogTarget,
}

/// Severity of the agent's own log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum LogLevel {
    /// A failure that needs attention.
    Error,
    /// A problem that the agent can handle.
    Warn,
    /// Normal operation.
    #[default]
    Info,
    /// Details for debugging.
    Debug,
    /// Every step.
    Trace,
}

/// Destination of the agent's own log.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(from = "String", into = "String")]
#[schemars(with = "String", extend("format" = "log-target"))]
pub enum LogTarget {
    /// Standard error.
    #[default]
    Stderr,
    /// A file, appended to.
    File(PathBuf),
}

/// Limits on host resources.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Limits {
    /// Worker threads; never more than the host allows the process.
    #[schemars(range(min = 1))]
    pub threads: usize,
    /// Memory of the whole agent, at least 32MiB.
    pub memory: Size,
    /// Cores of the whole agent, averaged over a fifth of a second; unlimited by default.
    #[schemars(range(min = 0.01), extend("examples" = [0.5]))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu: Option<f64>,
}

/// The JVM inside the agent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct JvmSettings {
    /// Home of a JDK or JRE, version 17 or later; searched for by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub home: Option<PathBuf>,
    /// Largest heap; part of `limits.memory`.
    pub heap: Size,
    /// Further options of the JVM.
    pub options: Vec<String>,
    /// Threads that run operators; twice `limits.threads` by default.
    #[schemars(range(min = 1))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub threads: Option<usize>,
    /// Threads that run the collectors of all sources `jvm`.
    #[schemars(range(min = 1, max = 256))]
    pub collectors: usize,
    /// Whether the JVM starts in an agent that runs as root.
    pub allow_root: bool,
}

/// The agent's HTTP API.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Api {
    /// Address and port of `/metrics`, `/health`, `/ready` and the console.
    #[schemars(with = "String", extend("format" = "address"))]
    pub listen: SocketAddr,
}

impl Default for Globals {
    fn default() -> Self {
        Globals {
            data_dir: "/var/lib/millstream".into(),
            log: Log::default(),
            limits: Limits::default(),
            jvm: None,
            shutdown_timeout: Interval(std::time::Duration::from_secs(20)),
            api: Api::default(),
            watch: false,
        }
    }
}

impl Default for Limits {
    fn default() -> Self {
        Limits { threads: 2, memory: Size(512 << 20), cpu: None }
    }
}

impl Default for JvmSettings {
    fn default() -> Self {
        let (home, options, threads) = (None, Vec::new(), None);
        let (heap, collectors) = (Size(128 << 20), COLLECTORS_DEFAULT);
        JvmSettings { home, heap, options, threads, collectors, allow_root: true }
    }
}

impl Globals {
    /// Returns how the JVM is started in an agent with so many worker threads.
    pub fn jvm_options(&self, threads: usize) -> JvmOptions {
        let settings = self.jvm.clone().unwrap_or_default();
        JvmOptions {
            home: settings.home,
            heap_bytes: settings.heap.0,
            options: settings.options,
            threads: settings.threads.unwrap_or(2 * threads),
            collectors: settings.collectors,
            jar: None,
            allow_root: settings.allow_root,
        }
    }
}

impl Default for Api {
    fn default() -> Self {
        Api { listen: SocketAddr::from(([127, 0, 0, 1], 7878)) }
    }
}

impl From<String> for LogTarget {
    fn from(text: String) -> Self {
        if text == "stderr" { LogTarget::Stderr } else { LogTarget::File(text.into()) }
    }
}

impl From<LogTarget> for String {
    fn from(target: LogTarget) -> String {
        target.to_string()
    }
}

impl fmt::Display for LogTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LogTarget::Stderr => f.write_str("stderr"),
            LogTarget::File(path) => path.display().fmt(f),
        }
    }
}

/// The JSON Schema of the top level, without the contents of the sections.
pub fn schema() -> Json {
    let mut schema = schemars::schema_for!(Globals).to_value();
    if let Some(properties) = schema.get_mut("properties").and_then(Json::as_object_mut) {
        for kind in Kind::ALL {
            properties.insert(kind.section().into(), Json::Bool(true));
        }
        properties.insert("tests".into(), Json::Bool(true));
    }
    schema
}

/// Parses the settings from the top-level keys; uses defaults for invalid ones, which are added to
/// `faults`. `allowed` is the memory limit of the agent's control groups in bytes.
pub fn read(
    entries: Vec<Entry>,
    start: &Place,
    allowed: Option<u64>,
    faults: &mut Vec<Fault>,
) -> Read {
    let node = Node { value: Value::Map(entries), place: start.clone(), template: None };
    let found = check::check(&node, &schema(), &[], Spot { key: "", place: start });
    if !found.is_empty() || node.has_hole() {
        faults.extend(found);
        return Read::default();
    }
    let mut globals = serde_json::from_value::<Globals>(node.to_json()).unwrap_or_else(|_| {
        // The message itself could contain a secret.
        faults.push(Fault::new(
            start,
            "the global settings cannot be read",
            "compare them with the manual",
        ));
        Globals::default()
    });
    faults.extend(memory_fault(&globals, &node));
    faults.extend(cpu_fault(&globals, &node));
    faults.extend(jvm_faults(&globals, &node));
    let is_chosen = node.get("limits").is_some_and(|limits| limits.get("memory").is_some());
    if !is_chosen {
        globals.limits.memory = default_memory(allowed);
    }
    let warning = memory_warning(globals.limits.memory, allowed, &node);
    Read { globals, warnings: warning.into_iter().collect() }
}

/// Returns the default memory limit: half of `allowed`, if that is less than usual.
fn default_memory(allowed: Option<u64>) -> Size {
    let usual = Limits::default().memory;
    allowed.map_or(usual, |allowed| Size(allowed / 2).clamp(MEMORY_MIN, usual))
}

/// The kernel would kill the agent before it reaches its limit.
fn memory_warning(memory: Size, allowed: Option<u64>, node: &Node) -> Option<Fault> {
    let allowed = allowed.filter(|allowed| *allowed < memory.0)?;
    let what = format!(
        "`memory`: {memory} is more than the {} that the agent's control group allows, and the kernel kills processes \
         that use more",
        Size(allowed)
    );
    let advice = match default_memory(Some(allowed)) {
        half if half.0 < allowed => format!("write {half}, or allow the control group more"),
        _ => format!("allow the control group {} or more", Size(2 * MEMORY_MIN.0)),
    };
    Some(Fault::new(&node.nearest("/limits/memory").place, what, advice))
}

fn memory_fault(globals: &Globals, node: &Node) -> Option<Fault> {
    if globals.limits.memory >= MEMORY_MIN {
        return None;
    }
    let memory = node.nearest("/limits/memory");
    let what = format!("`memory`: {} is too small", memory.quoted());
    Some(Fault::new(&memory.place, what, format!("write at least {MEMORY_MIN}")))
}

/// Reports an integer that is too small; the schema reports others.
fn cpu_fault(globals: &Globals, node: &Node) -> Option<Fault> {
    globals.limits.cpu.filter(|cores| *cores < CPU_MIN)?;
    let cpu = node.nearest("/limits/cpu");
    let shown =
        cpu.template.as_ref().map_or(cpu.shown().to_owned(), |template| format!("`{template}`"));
    let what = format!("`cpu`: {shown} is too small");
    Some(Fault::new(&cpu.place, what, format!("write at least {CPU_MIN}")))
}

/// Reports a heap that is too small, and options that would break the agent.
fn jvm_faults(globals: &Globals, node: &Node) -> Vec<Fault> {
    let mut faults = Vec::new();
    if globals.jvm.as_ref().is_some_and(|jvm| jvm.heap < HEAP_MIN) {
        let heap = node.nearest("/jvm/heap");
        let what = format!("`heap`: {} is too small", heap.quoted());
        faults.push(Fault::new(&heap.place, what, format!("write at least {HEAP_MIN}")));
    }
    if let Err(error) = globals.jvm_options(1).check() {
        faults.push(Fault::new(&node.nearest("/jvm/options").place, error.to_string(), ""));
    }
    faults
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::parse;

    /// Returns the memory limit of such a configuration in a control group of so many MiB, and the
    /// warning.
    fn memory(text: &str, allowed_mib: Option<u64>) -> (String, String) {
        let mut faults = Vec::new();
        let node = parse::parse(&"m.yaml".into(), text, &mut faults).unwrap();
        let entries = match node.map(|node| node.value) {
            Some(Value::Map(entries)) => entries,
            _ => Vec::new(),
        };
        let start = Place { file: "m.yaml".into(), line: 1, column: 1 };
        let read = read(entries, &start, allowed_mib.map(|mib| mib << 20), &mut faults);
        assert_eq!(faults, []);
        let told: Vec<String> = read.warnings.iter().map(ToString::to_string).collect();
        (read.globals.limits.memory.to_string(), told.join("\n"))
    }

    #[test]
    fn the_default_memory_is_at_most_half_of_the_control_groups_limit() {
        let of = |allowed_mib| memory("watch: true", allowed_mib);
        assert_eq!(of(None), ("512MiB".to_owned(), String::new()));
        assert_eq!(of(Some(4096)).0, "512MiB");
        assert_eq!(of(Some(600)), ("300MiB".to_owned(), String::new()));
        assert_eq!(
            of(Some(48)),
            ("32MiB".to_owned(), String::new()),
            "no less than it can work in"
        );
    }

    #[test]
    fn a_memory_limit_over_that_of_the_control_group_is_a_warning() {
        let text = "limits:\n  memory: 512MiB";
        assert_eq!(memory(text, Some(512)), ("512MiB".to_owned(), String::new()));
        let (kept, told) = memory(text, Some(256));
        assert_eq!(kept, "512MiB", "what was chosen is not changed");
        assert!(
            told.starts_with("m.yaml:2:11: ") && told.contains("512MiB") && told.contains("256MiB"),
            "{told}"
        );
        assert!(told.ends_with("write 128MiB, or allow the control group more"), "{told}");
        let (_, small) = memory("", Some(20));
        assert!(small.ends_with("allow the control group 64MiB or more"), "{small}");
    }
}
