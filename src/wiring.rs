//! Builds a blueprint from a checked configuration, through the registry.

pub mod headers;
mod metrics;

use crate::run;
use millstream_components::component::{AnyComponent, BuildCx, tcp_claim};
use millstream_config::{Component, Config, Fault, LogTarget};
use millstream_engine::{Blueprint, Input, SinkPart, SourcePart, TransformPart};
use millstream_jvm::{JvmMemory, JvmOptions, JvmProcesses};
use millstream_model::{BuildError, SourceInfo};
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::net::SocketAddr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Returns conflicts between components and invalid attributes of sources, sorted by position.
pub fn faults(config: &Config) -> Vec<Fault> {
    let mut faults = Vec::new();
    let mut claimed: Vec<(String, &Component)> = Vec::new();
    let mut written: Vec<(&Component, Vec<PathBuf>)> = Vec::new();
    for component in &config.components {
        for claim in component.decoded.claims() {
            if let Some((_, first)) = claimed.iter().find(|(other, _)| is_same_claim(other, &claim))
            {
                let what = format!("`{}` and `{}` both use {claim}", first.id, component.id);
                faults.push(Fault::new(
                    &component.place,
                    what,
                    "keep one of them, and list it in several `inputs`",
                ));
            }
            claimed.push((claim, component));
        }
        faults.extend(address_of_api(config, component));
        let writes = writes(component);
        faults.extend(
            written
                .iter()
                .filter_map(|(first, files)| shared_file(first, files, component, &writes)),
        );
        faults.extend(writes.first().and_then(|file| in_data_dir(config, component, file)));
        written.push((component, writes));
        faults.extend(loops(config, component));
        faults.extend(hidden_attributes(component));
    }
    faults.extend(headers::conflicts(config));
    faults.extend(metrics::missing(config));
    faults.sort_by(|a, b| a.place.cmp(&b.place));
    faults
}

/// Checks that a component does not use the address of the agent's API.
fn address_of_api(config: &Config, component: &Component) -> Option<Fault> {
    let own = tcp_claim(config.globals.api.listen)?;
    component.decoded.claims().iter().any(|claim| is_same_claim(claim, &own)).then(|| {
        let what = format!("`{}` and `api.listen` both use {own}", component.id);
        Fault::new(&component.place, what, "change one of them")
    })
}

/// Whether two claims conflict. A wildcard address claims the port on every interface.
fn is_same_claim(one: &str, other: &str) -> bool {
    let address = |claim: &str| {
        let (_, address) = claim.rsplit_once(' ')?;
        let address: SocketAddr = address.parse().ok()?;
        (tcp_claim(address)? == claim).then_some(address)
    };
    let (Some(a), Some(b)) = (address(one), address(other)) else { return one == other };
    let takes =
        |a: SocketAddr, b: SocketAddr| a.ip().is_unspecified() && (a.is_ipv6() || b.is_ipv4());
    a.port() == b.port() && (a.ip() == b.ip() || takes(a, b) || takes(b, a))
}

/// Checks that two components do not write the same file, because after a crash each would truncate
/// the other's data. Messages omit paths, which may come from a variable with a secret.
fn shared_file(
    first: &Component,
    files: &[PathBuf],
    second: &Component,
    others: &[PathBuf],
) -> Option<Fault> {
    let pairs = || files.iter().flat_map(|file| others.iter().map(move |other| (file, other)));
    let (what, advice) = if pairs().any(|(file, other)| file == other) {
        ("both use the same file", "keep one of them, and list it in several `inputs`")
    } else if pairs().any(|(file, other)| paths_may_match(file, other)) {
        ("may write the same file, for some values of fields", "write into different folders")
    } else {
        return None;
    };
    Some(Fault::new(&second.place, format!("`{}` and `{}` {what}", first.id, second.id), advice))
}

/// Returns whether two paths with `*` for fields can match the same file. No value is empty or
/// contains a `/`.
fn paths_may_match(one: &Path, other: &Path) -> bool {
    let (one, other) = (one.as_os_str().as_bytes(), other.as_os_str().as_bytes());
    // For each prefix of `other`: whether it can match the current prefix of `one`.
    let mut fits = vec![false; other.len() + 1];
    fits[0] = true;
    // A star matches one or more bytes.
    for &byte in one {
        let mut next = vec![false; other.len() + 1];
        for (at, &against) in other.iter().enumerate() {
            let is_same = byte == against
                || (byte == b'*' && against != b'/')
                || (against == b'*' && byte != b'/');
            let longer = byte == b'*' && next[at] && against != b'/';
            let other_longer = against == b'*' && fits[at + 1] && byte != b'/';
            next[at + 1] = (fits[at] && is_same) || longer || other_longer;
        }
        fits = next;
    }
    fits[other.len()]
}

/// Checks that a sink does not write to `data_dir`: a field's value could name one of the agent's
/// files, or a rotation could move one.
fn in_data_dir(config: &Config, sink: &Component, file: &Path) -> Option<Fault> {
    let data_dir = &config.globals.data_dir;
    let data_dir = canonical(&std::path::absolute(data_dir).unwrap_or_else(|_| data_dir.clone()));
    let bytes = file.as_os_str().as_bytes();
    let before_field = bytes.split(|byte| *byte == b'*').next().unwrap_or_default();
    let folder_end = before_field.iter().rposition(|byte| *byte == b'/').unwrap_or_default();
    let is_folder = Path::new(OsStr::from_bytes(&bytes[..folder_end])) == data_dir;
    let may_be_folder = || file.parent().is_some_and(|folder| paths_may_match(folder, &data_dir));
    (is_folder || may_be_folder()).then(|| {
        let what = format!(
            "`{}` writes to `data_dir`, which is reserved for the files of this agent",
            sink.id
        );
        Fault::new(
            &sink.place,
            what,
            "write elsewhere, for example to /var/log/millstream-out/app.json",
        )
    })
}

/// Returns canonical paths of the files that a component writes.
fn writes(component: &Component) -> Vec<PathBuf> {
    component.decoded.writes().iter().map(|path| canonical(path)).collect()
}

/// Resolves symbolic links and `..` in the existing part of a path.
fn canonical(path: &Path) -> PathBuf {
    match (path.canonicalize(), path.parent(), path.file_name()) {
        (Ok(canonical), _, _) => canonical,
        (Err(_), Some(parent), Some(name)) => canonical(parent).join(name),
        _ => path.to_path_buf(),
    }
}

/// Checks that a source does not read a file that the agent writes, because the file would grow
/// forever.
fn loops(config: &Config, source: &Component) -> Vec<Fault> {
    let log = match &config.globals.log.to {
        LogTarget::File(path) => {
            std::path::absolute(path).ok().map(|path| ("the log of this agent".into(), path))
        }
        LogTarget::Stderr => None,
    };
    let written = config
        .components
        .iter()
        .flat_map(|c| writes(c).into_iter().map(|path| (format!("what `{}` writes", c.id), path)));
    let read = written.chain(log).filter(|(_, path)| source.decoded.reads(path));
    // The message omits the path, which may come from a variable with a secret.
    let fault = |(what, _): (String, PathBuf)| {
        Fault::new(
            &source.place,
            format!("`{}` reads {what}", source.id),
            "exclude that file, or write elsewhere",
        )
    };
    read.map(fault).collect()
}

fn hidden_attributes(component: &Component) -> Vec<Fault> {
    let own = |name: &&String| matches!(name.as_str(), "message" | "timestamp");
    let fault = |name: &String| {
        let what = format!(
            "the attribute `{name}` of `{}` is reserved: every event has this key",
            component.id
        );
        Fault::new(&component.place, what, "give it another name")
    };
    component.attributes.keys().filter(own).map(fault).collect()
}

/// Returns the options of the agent's JVM.
pub fn jvm_options(config: &Config) -> JvmOptions {
    config.globals.jvm_options(run::threads(config))
}

/// Returns the options of JVMs in separate processes.
pub fn jvm_processes(config: &Config) -> JvmProcesses {
    config.globals.jvm_processes(run::threads(config))
}

/// Returns the maximum memory of the JVMs: of the JVM inside the agent if a component runs in it,
/// or if the configuration has the key `jvm` and no component runs in a separate process; and of
/// the JVMs in processes that components use.
pub fn jvm_bytes(config: &Config) -> u64 {
    reserved_jvms(config).bytes()
}

/// Returns the JVMs for which memory is reserved at the start.
fn reserved_jvms(config: &Config) -> Jvms {
    match needed_jvms(config) {
        needed if needed.0.is_empty() && config.globals.jvm.is_some() => {
            Jvms(vec![inside_jvm(config)])
        }
        needed => needed,
    }
}

/// JVMs with the memory that each may take in bytes.
struct Jvms(Vec<(String, u64)>);

impl Jvms {
    fn bytes(&self) -> u64 {
        self.0.iter().map(|(_, bytes)| *bytes).fold(0, u64::saturating_add)
    }

    /// Describes the sum and its parts.
    fn describe(&self) -> String {
        let mib = |bytes: u64| bytes.div_ceil(1 << 20);
        let parts: Vec<String> =
            self.0.iter().map(|(name, bytes)| format!("{name} {}MiB", mib(*bytes))).collect();
        match parts.len() {
            0 | 1 => format!("the JVM may take {}MiB", mib(self.bytes())),
            _ => format!("the JVMs may take {}MiB ({})", mib(self.bytes()), parts.join(", ")),
        }
    }
}

fn inside_jvm(config: &Config) -> (String, u64) {
    ("the JVM inside the agent".to_owned(), JvmMemory::of(&jvm_options(config)).total_bytes())
}

/// Returns the JVMs that components use.
fn needed_jvms(config: &Config) -> Jvms {
    let inside = needs_jvm(config).then(|| inside_jvm(config));
    let processes = jvm_processes(config);
    let names = processes_in_use(config).into_iter();
    let others = names.map(|name| {
        (format!("the JVM of process {name}"), processes.options(name).memory().total_bytes())
    });
    Jvms(inside.into_iter().chain(others).collect())
}

/// Returns the names of the processes with JVMs in which components run.
fn processes_in_use(config: &Config) -> BTreeSet<&str> {
    config.components.iter().filter_map(|component| component.decoded.jvm_process()).collect()
}

/// Returns whether a component runs in the JVM.
pub fn needs_jvm(config: &Config) -> bool {
    config.components.iter().any(|component| component.decoded.needs_jvm())
}

/// Returns an error if a configuration cannot run in an agent that has reserved this much memory
/// for JVMs at its start.
pub fn unreserved(config: &Config, reserved_bytes: u64) -> Option<Fault> {
    let needed = needed_jvms(config);
    let (what, advice) = match reserved_bytes {
        0 => (
            "a component needs a JVM, for which no memory was reserved at the start".to_owned(),
            "restart the agent; with `jvm: {}` it reserves memory in any case",
        ),
        _ => (
            format!(
                "{}, and {}MiB were reserved at the start",
                needed.describe(),
                reserved_bytes >> 20
            ),
            "restart the agent",
        ),
    };
    (needed.bytes() > reserved_bytes).then(|| Fault::anywhere(what, advice))
}

/// Returns an error if the memory limit has no space for the JVM. This is known before the JVM is
/// started.
pub fn oversized_jvm(config: &Config) -> Option<String> {
    let limit = config.globals.limits.memory.0;
    (jvm_bytes(config) >= limit).then(|| {
        format!(
            "{}, and limits.memory is {}MiB; raise limits.memory, or lower jvm.heap or the heap of a \
             process in jvm.processes",
            reserved_jvms(config).describe(),
            limit >> 20
        )
    })
}

/// Builds every component of a checked configuration.
pub fn blueprint(config: &Config) -> Result<Blueprint, BuildError> {
    let mut blueprint = Blueprint::default();
    for component in &config.components {
        add(&mut blueprint, config, component).map_err(|error| BuildError::Component {
            kind: component.kind,
            id: component.id.clone(),
            error: Box::new(error),
        })?;
    }
    Ok(blueprint)
}

fn add(
    blueprint: &mut Blueprint,
    config: &Config,
    component: &Component,
) -> Result<(), BuildError> {
    let id = component.id.clone();
    let type_name = component.type_name;
    let (jvm, processes) = (jvm_options(config), jvm_processes(config));
    let cx = BuildCx {
        id: &component.id,
        jvm: &jvm,
        processes: &processes,
        header: headers::of(config, component),
    };
    match component.decoded.clone() {
        AnyComponent::Source(source) => {
            let queue_bytes = source.queue_bytes();
            let built = source.build(&cx)?;
            let open = built.unwrap_or_else(|| Box::new(move |open| source.open(open)));
            let (info, pace) = (source_info(component), component.pace);
            blueprint.sources.push(SourcePart { info, type_name, pace, queue_bytes, open });
        }
        AnyComponent::Transform(transform) => {
            let transform = transform.build(&cx)?;
            let inputs = inputs(config, component);
            blueprint.transforms.push(TransformPart { id, type_name, inputs, transform });
        }
        AnyComponent::Sink(sink) => {
            let sink = sink.build()?;
            let (inputs, buffer) = (inputs(config, component), component.buffer);
            blueprint.sinks.push(SinkPart { id, type_name, inputs, buffer, sink });
        }
    }
    Ok(())
}

/// Returns the metadata shared by all events of a source.
pub fn source_info(component: &Component) -> SourceInfo {
    SourceInfo {
        id: component.id.clone(),
        host: component.host.clone().unwrap_or_else(host_name),
        attributes: component.attributes.clone(),
    }
}

fn host_name() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

/// Resolves the inputs of a component: `id` is the main output, `id.name` a side output.
pub fn inputs(config: &Config, component: &Component) -> Vec<Input> {
    let resolve = |input: &String| {
        let (id, name) = input.split_once('.').unwrap_or((input, ""));
        let index = config
            .components
            .iter()
            .find(|c| c.id == id)
            .and_then(|of| of.decoded.outputs().iter().position(|output| output == name));
        (id.to_owned(), if name.is_empty() { 0 } else { index.map_or(0, |i| i + 1) })
    };
    component.inputs.iter().map(resolve).collect()
}

#[cfg(test)]
mod tests;
