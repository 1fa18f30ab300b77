//! Settings for the agent.

use std::collections::BTreeMap;
use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;

use millstream_jvm::{COLLECTORS_DEFAULT, JvmOptions, JvmProcesses, ProcessOptions};
use millstream_model::{Interval, Kind, Size};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value as Json;

use super::check::retype::retype;
use super::check::{self, Spot};
use super::fault::{Fault, Place};
use super::node::{Entry, Node, Value};
use super::profiler::ProfilerSettings;
use super::recorder::RecorderSettings;

/// Minimum CPU limit in cores.
const CPU_MIN: f64 = 0.01;

/// Minimum JVM heap size.
const HEAP_MIN: Size = Size(32 << 20);

/// Minimum memory limit.
const MEMORY_MIN: Size = Size(32 << 20);

/// Agent settings, with defaults.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Globals {
    /// Folder for the agent's state: checkpoints, token and control socket. The agent creates the
    /// folder if it is missing.
    #[schemars(length(min = 1))]
    pub data_dir: PathBuf,
    /// The agent's log.
    pub log: Log,
    /// Limits on host resources.
    pub limits: Limits,
    /// JVM inside the agent, which starts when a component needs it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub jvm: Option<JvmSettings>,
    /// Flight recorder.
    pub recorder: RecorderSettings,
    /// Profiler.
    pub profiler: ProfilerSettings,
    /// Maximum time that shutdown waits for data in flight to be delivered. Raise it for slow
    /// endpoints, and set a longer timeout in the service manager.
    pub shutdown_timeout: Interval,
    /// The agent's HTTP API.
    pub api: Api,
    /// Whether the agent reloads when a configuration file changes, as it does on SIGHUP.
    pub watch: bool,
}

/// Parsed settings.
#[derive(Default)]
pub struct Read {
    /// The settings.
    pub globals: Globals,
    /// Settings that are allowed but likely unintended.
    pub warnings: Vec<Fault>,
    /// Names of the processes in `jvm.processes`, with their places in the file.
    pub processes: Vec<(String, Place)>,
}

/// The agent's log.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Log {
    /// Minimum severity of logged records.
    pub level: LogLevel,
    /// Destination: `stderr`, or the path of a file.
    pub to: LogTarget,
}

/// Severity of a record in the agent's log.
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

/// Destination of the agent's log.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(from = "String", into = "String")]
#[schemars(with = "String", extend("format" = "log-target"))]
pub enum LogTarget {
    /// Standard error.
    #[default]
    Stderr,
    /// A file that the agent appends to.
    File(PathBuf),
}

/// Limits on host resources.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Limits {
    /// Number of worker threads, capped at the number of CPUs that the process may use.
    #[schemars(range(min = 1))]
    pub threads: usize,
    /// Maximum memory for the agent, at least 32MiB. The default is 512MiB, or half of the control
    /// group's limit if that is less.
    pub memory: Size,
    /// Maximum number of CPU cores that the agent uses, averaged over a fifth of a second. The
    /// default is unlimited.
    #[schemars(range(min = 0.01), extend("examples" = [0.5]))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu: Option<f64>,
}

/// JVM inside the agent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct JvmSettings {
    /// Home folder of a JDK or JRE, version 17 or later. By default, the agent searches for one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub home: Option<PathBuf>,
    /// Maximum heap size, taken from `limits.memory`.
    pub heap: Size,
    /// Additional JVM options.
    pub options: Vec<String>,
    /// Number of threads that run operators. The default is twice `limits.threads`.
    #[schemars(range(min = 1))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub threads: Option<usize>,
    /// Number of threads that run the collectors of all `jvm` sources. Raise it if collectors wait
    /// for each other.
    #[schemars(range(min = 1, max = 256))]
    pub collectors: usize,
    /// Whether the JVM may start in an agent that runs as root.
    pub allow_root: bool,
    /// JVMs in separate processes, by name.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub processes: BTreeMap<String, ProcessSettings>,
}

/// JVM in a separate process. An omitted setting defaults to the value for the JVM inside the
/// agent.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ProcessSettings {
    /// Maximum heap size, taken from `limits.memory`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub heap: Option<Size>,
    /// Additional JVM options.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub options: Option<Vec<String>>,
    /// Number of threads that run operators.
    #[schemars(range(min = 1))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub threads: Option<usize>,
    /// User that the process runs as. Requires an agent that runs as root.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// Maximum number of files that the process can have open.
    #[schemars(range(min = 64))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub open_files: Option<u64>,
    /// Folder of the control group in which the process runs, such as /sys/fs/cgroup/team.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cgroup: Option<PathBuf>,
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
            recorder: RecorderSettings::default(),
            profiler: ProfilerSettings::default(),
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
        let (allow_root, processes) = (true, BTreeMap::new());
        JvmSettings { home, heap, options, threads, collectors, allow_root, processes }
    }
}

impl Globals {
    /// Returns the options for the JVM inside an agent with this number of worker threads.
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
            owns_process: false,
        }
    }

    /// Returns the options for the JVMs in separate processes, for an agent with this number of
    /// worker threads.
    pub fn jvm_processes(&self, threads: usize) -> JvmProcesses {
        let inside = self.jvm_options(threads);
        let usual = ProcessOptions::new(JvmOptions { owns_process: true, ..inside });
        let named = self.jvm.iter().flat_map(|jvm| &jvm.processes);
        let named = named.map(|(name, settings)| (name.clone(), settings.options(&usual)));
        JvmProcesses { named: named.collect(), usual }
    }
}

impl ProcessSettings {
    fn options(&self, usual: &ProcessOptions) -> ProcessOptions {
        let jvm = JvmOptions {
            heap_bytes: self.heap.map_or(usual.jvm.heap_bytes, |heap| heap.0),
            options: self.options.clone().unwrap_or_else(|| usual.jvm.options.clone()),
            threads: self.threads.unwrap_or(usual.jvm.threads),
            ..usual.jvm.clone()
        };
        let (user, open_files, cgroup) = (self.user.clone(), self.open_files, self.cgroup.clone());
        ProcessOptions { jvm, user, open_files, cgroup, ..usual.clone() }
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

/// Returns the JSON Schema of the top level, without the contents of the sections.
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

/// Parses the settings from the top-level keys. An invalid setting falls back to its default and
/// adds an error to `faults`. `allowed` is the memory limit of the agent's control groups in bytes.
pub fn read(
    entries: Vec<Entry>,
    start: &Place,
    allowed: Option<u64>,
    faults: &mut Vec<Fault>,
) -> Read {
    let mut node = Node {
        value: Value::Map(entries),
        place: start.clone(),
        template: None,
        substituted: Vec::new(),
    };
    let schema = schema();
    retype(&mut node, &schema);
    let found = check::check(&node, &schema, &[], Spot { key: "", place: start });
    if !found.is_empty() || node.has_hole() {
        faults.extend(found);
        return Read::default();
    }
    let mut globals = serde_json::from_value::<Globals>(node.to_json()).unwrap_or_else(|_| {
        // The message itself could contain a secret.
        faults.push(Fault::new(
            start,
            "the global settings are invalid",
            "compare them with docs/configuration.md",
        ));
        Globals::default()
    });
    faults.extend(memory_fault(&globals, &node));
    faults.extend(cpu_fault(&globals, &node));
    faults.extend(jvm_faults(&globals, &node));
    faults.extend(globals.recorder.fault(&node));
    faults.extend(globals.profiler.fault(&node));
    let is_chosen = node.get("limits").is_some_and(|limits| limits.get("memory").is_some());
    if !is_chosen {
        globals.limits.memory = default_memory(allowed);
    }
    let warning = memory_warning(globals.limits.memory, allowed, &node);
    let processes = process_places(&globals, &node);
    Read { globals, warnings: warning.into_iter().collect(), processes }
}

/// Returns the default memory limit: half of `allowed`, if that is less than the usual default.
fn default_memory(allowed: Option<u64>) -> Size {
    let usual = Limits::default().memory;
    allowed.map_or(usual, |allowed| Size(allowed / 2).clamp(MEMORY_MIN, usual))
}

/// Warns about a memory limit above `allowed`, because the kernel would kill the agent before it
/// reaches the limit.
fn memory_warning(memory: Size, allowed: Option<u64>, node: &Node) -> Option<Fault> {
    let allowed = allowed.filter(|allowed| *allowed < memory.0)?;
    let what = format!(
        "`memory`: {memory} is more than the {} that the agent's control group allows, and the kernel kills processes \
         that use more",
        Size(allowed)
    );
    let advice = match default_memory(Some(allowed)) {
        half if half.0 < allowed => {
            format!("use {half}, or raise the memory limit of the control group")
        }
        _ => format!(
            "raise the memory limit of the control group to {} or more",
            Size(2 * MEMORY_MIN.0)
        ),
    };
    Some(Fault::new(&node.nearest("/limits/memory").place, what, advice))
}

fn memory_fault(globals: &Globals, node: &Node) -> Option<Fault> {
    if globals.limits.memory >= MEMORY_MIN {
        return None;
    }
    let memory = node.nearest("/limits/memory");
    let what = format!("`memory`: {} is too small", memory.quoted());
    Some(Fault::new(&memory.place, what, format!("use at least {MEMORY_MIN}")))
}

/// Reports a number of cores that is too small. The schema reports other invalid values.
fn cpu_fault(globals: &Globals, node: &Node) -> Option<Fault> {
    globals.limits.cpu.filter(|cores| *cores < CPU_MIN)?;
    let cpu = node.nearest("/limits/cpu");
    let shown =
        cpu.template.as_ref().map_or(cpu.shown().to_owned(), |template| format!("`{template}`"));
    let what = format!("`cpu`: {shown} is too small");
    Some(Fault::new(&cpu.place, what, format!("use at least {CPU_MIN}")))
}

fn process_places(globals: &Globals, node: &Node) -> Vec<(String, Place)> {
    let names = globals.jvm.iter().flat_map(|jvm| jvm.processes.keys());
    let place = |name: &String| node.nearest(&format!("/jvm/processes/{name}")).place.clone();
    names.map(|name| (name.clone(), place(name))).collect()
}

/// Reports a heap that is too small, and options that would break the agent.
fn jvm_faults(globals: &Globals, node: &Node) -> Vec<Fault> {
    let mut faults = Vec::new();
    if globals.jvm.as_ref().is_some_and(|jvm| jvm.heap < HEAP_MIN) {
        let heap = node.nearest("/jvm/heap");
        let what = format!("`heap`: {} is too small", heap.quoted());
        faults.push(Fault::new(&heap.place, what, format!("use at least {HEAP_MIN}")));
    }
    for (name, process) in globals.jvm_processes(1).named {
        let at = format!("/jvm/processes/{name}");
        if process.jvm.heap_bytes < HEAP_MIN.0 {
            let heap = node.nearest(&format!("{at}/heap"));
            let what = format!("`heap`: {} is too small", heap.quoted());
            faults.push(Fault::new(&heap.place, what, format!("use at least {HEAP_MIN}")));
        }
        if let Err(error) = process.jvm.check() {
            let place = &node.nearest(&format!("{at}/options")).place;
            faults.push(Fault::new(place, error.to_string(), ""));
        }
    }
    if let Err(error) = globals.jvm_options(1).check() {
        faults.push(Fault::new(&node.nearest("/jvm/options").place, error.to_string(), ""));
    }
    faults
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse;

    /// Returns the memory limit and the warning of this configuration, in a control group that
    /// allows this many MiB.
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
    fn a_process_has_its_own_settings_and_the_rest_of_the_jvm() {
        let settings = |processes: &str| {
            let text = format!(
                "jvm: {{ heap: 64MiB, threads: 3, options: ['-Xint'], processes: {processes} }}"
            );
            let mut faults = Vec::new();
            let node = parse::parse(&"m.yaml".into(), &text, &mut faults).unwrap();
            let Some(Value::Map(entries)) = node.map(|node| node.value) else { panic!() };
            let start = Place { file: "m.yaml".into(), line: 1, column: 1 };
            let globals = read(entries, &start, None, &mut faults).globals;
            (globals.jvm_processes(2), faults.iter().map(ToString::to_string).collect::<Vec<_>>())
        };
        let (processes, faults) =
            settings("{ a: { heap: 32MiB, user: team, cgroup: /c, open_files: 64 } }");
        assert_eq!(faults, [""; 0]);
        let (a, b) = (processes.options("a"), processes.options("b"));
        assert_eq!((a.jvm.heap_bytes, a.jvm.threads, b.jvm.heap_bytes), (32 << 20, 3, 64 << 20));
        assert_eq!(
            (&a.jvm.options, &a.user, &b.user),
            (&b.jvm.options, &Some("team".to_owned()), &None)
        );
        assert!(a.jvm.owns_process && a.open_files == Some(64) && a.cgroup == Some("/c".into()));
        let (_, faults) = settings("{ a: { options: ['-XX:+ExitOnOutOfMemoryError'] } }");
        assert_eq!(faults, [""; 0]);
        let (_, faults) = settings("{ a: { heap: 1MiB, options: [x] } }");
        assert!(faults.len() == 2 && faults[0].contains("too small"), "{faults:?}");
        let (_, faults) = settings("{ a: { open_files: 1 } }");
        assert_eq!(faults.len(), 1);
    }

    #[test]
    fn the_default_memory_is_at_most_half_of_the_control_groups_limit() {
        let watched = |allowed_mib| memory("watch: true", allowed_mib);
        assert_eq!(watched(None), ("512MiB".to_owned(), String::new()));
        assert_eq!(watched(Some(4096)).0, "512MiB");
        assert_eq!(watched(Some(600)), ("300MiB".to_owned(), String::new()));
        assert_eq!(
            watched(Some(48)),
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
        assert!(
            told.ends_with("use 128MiB, or raise the memory limit of the control group"),
            "{told}"
        );
        let (_, small) = memory("", Some(20));
        assert!(
            small.ends_with("raise the memory limit of the control group to 64MiB or more"),
            "{small}"
        );
    }
}
