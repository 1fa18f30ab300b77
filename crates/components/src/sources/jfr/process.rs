//! The process that wrote a recording. It provides the tags of all metrics and log events.

use millstream_jfr::read::{ChunkReader, Event, EventPlan, Lookup, Raw, ReadAt, SLOTS};
use std::fs::File;
use std::ops::ControlFlow;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Maximum offset of the events that describe the process, in bytes. They are the first events of a
/// chunk.
const BYTES_MAX: u64 = 4 << 20;

/// Names of the environment variables with the service name. The first one that is set is used.
const ENVIRONMENT: [&str; 2] = ["OTEL_SERVICE_NAME", "DD_SERVICE"];
const PROPERTIES: [&str; 2] = ["otel.service.name", "dd.service"];

/// The event types that describe the process, with the fields to read.
const EVENTS: [(&str, [&str; 2]); 3] = [
    ("jdk.JVMInformation", ["pid", "javaArguments"]),
    ("jdk.InitialEnvironmentVariable", ["key", "value"]),
    ("jdk.InitialSystemProperty", ["key", "value"]),
];

/// The process that wrote a recording.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Process {
    /// Process id in the namespace of the process.
    pub pid: Option<u64>,
    /// Service name.
    pub service: Option<String>,
    /// Id of the container.
    pub container: Option<String>,
}

impl Process {
    /// Returns the tags.
    pub fn tags(&self) -> Vec<(&'static str, String)> {
        let pid = self.pid.map(|pid| ("process.pid", pid.to_string()));
        let service = self.service.clone().map(|name| ("service.name", name));
        let container = self.container.clone().map(|id| ("container.id", id));
        let all = [container, pid, service].into_iter().flatten();
        all.map(|(key, value)| (key, super::tags::cut(&value))).collect()
    }

    /// Returns a string that identifies the process.
    pub fn key(&self) -> String {
        let pid = self.pid.unwrap_or_default();
        let [service, container] =
            [&self.service, &self.container].map(|text| text.as_deref().unwrap_or_default());
        format!("{pid} {service} {container}")
    }

    /// Returns the process to which a chunk's path belongs: the folder name in a JVM repository
    /// ends with the process id.
    pub fn of_path(path: &Path) -> Process {
        let folder = path.parent().and_then(Path::file_name).and_then(|name| name.to_str());
        let pid = folder
            .filter(|name| name.matches('_').count() >= 6)
            .and_then(|name| name.rsplit('_').next()?.parse().ok());
        Process { pid, ..Process::default() }
    }

    /// Adds what the first events of a chunk contain about the process. Returns whether the process
    /// id was found.
    pub fn read(&mut self, reader: &ChunkReader, from: &impl ReadAt, window: &mut Vec<u8>) -> bool {
        let lookup = reader.lookup();
        let plans = EVENTS.map(|(event, fields)| {
            let id = lookup.types.id(event)?;
            Some((id, EventPlan::new(lookup.types, id, &fields)?))
        });
        let mut found = RecordedProcess::default();
        let mut each = |_, event: &Event<'_>| {
            let describes = |plan: &Option<(u64, EventPlan)>| {
                plan.as_ref().is_some_and(|(id, _)| *id == event.type_id)
            };
            if let Some(index) = plans.iter().position(describes)
                && let Some((_, plan)) = &plans[index]
                && let Ok(raw) = plan.read(event.fields)
            {
                found.add(index, &raw, &lookup);
            }
            ControlFlow::Continue(())
        };
        // Reading the events themselves reports the same error later.
        let _ = reader.events(from, 0..BYTES_MAX, window, &mut each);
        let is_there = found.pid.is_some();
        self.pid = found.pid.or(self.pid);
        self.service = found.service().or(self.service.take());
        is_there
    }

    /// Finds the container of the process: below `/proc/PID/root` if the recording is there,
    /// otherwise by the process id if that process has the recording open.
    pub fn find_container(&mut self, path: &Path, file: &File) {
        let of_root = path.strip_prefix("/proc").ok().and_then(|rest| {
            let mut parts = rest.iter();
            let pid: u64 = parts.next()?.to_str()?.parse().ok()?;
            (parts.next()? == "root").then_some(pid)
        });
        let pid = of_root.or(self.pid.filter(|pid| has_open(*pid, file)));
        let found = pid.and_then(|pid| millstream_receiver::container_of(u32::try_from(pid).ok()?));
        self.container = found.or(self.container.take());
    }
}

/// Returns whether a process has a file open.
fn has_open(pid: u64, file: &File) -> bool {
    let Ok(own) = file.metadata() else { return false };
    let Ok(entries) = std::fs::read_dir(format!("/proc/{pid}/fd")) else { return false };
    let is_it = |path: PathBuf| {
        std::fs::metadata(path)
            .is_ok_and(|metadata| metadata.dev() == own.dev() && metadata.ino() == own.ino())
    };
    entries.flatten().any(|entry| is_it(entry.path()))
}

/// Values found in the events that describe the process.
#[derive(Default)]
struct RecordedProcess {
    pid: Option<u64>,
    /// Names from the environment, then from properties, each in the order of precedence.
    names: [Option<String>; ENVIRONMENT.len() + PROPERTIES.len()],
    arguments: String,
}

impl RecordedProcess {
    fn add(&mut self, event: usize, raw: &[Raw<'_>; SLOTS], lookup: &Lookup<'_>) {
        let text = |slot: usize| lookup.text(&raw[slot], 0).into_owned();
        if event == 0 {
            self.pid = Some(raw[0].integer());
            self.arguments = text(1);
            return;
        }
        let (names, first) = match event {
            1 => (&ENVIRONMENT, 0),
            _ => (&PROPERTIES, 1),
        };
        let key = text(0);
        if let Some(index) = names.iter().position(|name| *name == key) {
            self.names[2 * index + first] = Some(text(1)).filter(|name| !name.is_empty());
        }
    }

    /// Returns the service name, or the name of the main class or jar.
    fn service(self) -> Option<String> {
        let named = self.names.into_iter().flatten().next();
        named.or_else(|| main_name(&self.arguments)).filter(|name| !name.is_empty())
    }
}

/// Returns the simple name of the main class, or of the jar or source file that runs.
fn main_name(arguments: &str) -> Option<String> {
    let mut words = arguments.split_ascii_whitespace();
    let first = words.next()?;
    // `java Shop.java` compiles and runs a source file through this launcher class.
    let is_launcher = first.starts_with("jdk.compiler/com.sun.tools.javac.launcher.");
    let main = if is_launcher { words.next()? } else { first };
    let file = main.rsplit('/').next().unwrap_or(main);
    let stem = file.strip_suffix(".jar").or_else(|| file.strip_suffix(".java"));
    Some(stem.unwrap_or_else(|| file.rsplit('.').next().unwrap_or(file)).to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_service_is_named_after_what_runs() {
        let cases = [
            ("org.example.shop.Main --port 80", "Main"),
            ("/opt/shop/shop-1.2.jar run", "shop-1.2"),
            ("shop/org.example.Main", "Main"),
            ("jdk.compiler/com.sun.tools.javac.launcher.SourceLauncher /tmp/Shop.java 20", "Shop"),
            ("jdk.compiler/com.sun.tools.javac.launcher.Main Shop.java", "Shop"),
        ];
        for (arguments, expected) in cases {
            assert_eq!(main_name(arguments).as_deref(), Some(expected), "{arguments}");
        }
        assert_eq!(main_name(""), None);
    }

    #[test]
    fn the_folder_of_a_repository_has_the_id_of_the_process() {
        let pid = |path: &str| Process::of_path(Path::new(path)).pid;
        assert_eq!(pid("/tmp/2026_11_27_07_28_21_6647/2026_11_27_07_28_21.jfr"), Some(6647));
        assert_eq!(pid("/tmp/app_1/out.jfr"), None);
        assert_eq!(pid("out.jfr"), None);
    }
}
