//! Checks between the components of a configuration.

mod metrics;

use crate::headers;
use millstream_components::component::tcp_claim;
use millstream_config::{Component, Config, Fault, LogTarget};
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
                    "keep one of them, and connect it to several components",
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

/// Returns whether two claims conflict. A wildcard address claims the port on every interface.
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

/// Checks that two components do not write the same file, because each would truncate the other's
/// data after a crash. Messages omit paths, because they may come from a variable with a secret.
fn shared_file(
    first: &Component,
    files: &[PathBuf],
    second: &Component,
    others: &[PathBuf],
) -> Option<Fault> {
    let pairs = || files.iter().flat_map(|file| others.iter().map(move |other| (file, other)));
    let (what, advice) = if pairs().any(|(file, other)| file == other) {
        ("both use the same file", "keep one of them, and connect it to several components")
    } else if pairs().any(|(file, other)| paths_may_match(file, other)) {
        ("may write the same file for some field values", "use different folders")
    } else {
        return None;
    };
    Some(Fault::new(&second.place, format!("`{}` and `{}` {what}", first.id, second.id), advice))
}

/// Returns whether two paths, in which `*` replaces a field, can be the same file. Field values are
/// never empty and contain no `/`.
fn paths_may_match(one: &Path, other: &Path) -> bool {
    let (one, other) = (one.as_os_str().as_bytes(), other.as_os_str().as_bytes());
    // For each prefix of `other`, whether it can match the part of `one` that was processed so far.
    let mut fits = vec![false; other.len() + 1];
    fits[0] = true;
    // A star matches one or more bytes other than `/`.
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

/// Checks that a sink does not write to `data_dir`, because a field's value could name one of the
/// agent's own files, or a rotation could move one.
fn in_data_dir(config: &Config, sink: &Component, file: &Path) -> Option<Fault> {
    let data_dir = &config.globals.data_dir;
    let data_dir = canonical(&std::path::absolute(data_dir).unwrap_or_else(|_| data_dir.clone()));
    let bytes = file.as_os_str().as_bytes();
    let before_field = bytes.split(|byte| *byte == b'*').next().unwrap_or_default();
    let folder_end = before_field.iter().rposition(|byte| *byte == b'/').unwrap_or_default();
    let is_folder = Path::new(OsStr::from_bytes(&bytes[..folder_end])) == data_dir;
    let may_be_folder = || file.parent().is_some_and(|folder| paths_may_match(folder, &data_dir));
    (is_folder || may_be_folder()).then(|| {
        let what =
            format!("`{}` writes to `data_dir`, which is reserved for this agent's files", sink.id);
        Fault::new(
            &sink.place,
            what,
            "write to another folder, such as /var/log/millstream-out/app.json",
        )
    })
}

/// Returns the canonical paths of the files that a component writes.
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
            std::path::absolute(path).ok().map(|path| ("this agent's log".into(), path))
        }
        LogTarget::Stderr => None,
    };
    let written = config.components.iter().flat_map(|c| {
        writes(c).into_iter().map(|path| (format!("the output of `{}`", c.id), path))
    });
    let read = written.chain(log).filter(|(_, path)| source.decoded.reads(path));
    // The message omits the path, because it may come from a variable with a secret.
    let fault = |(what, _): (String, PathBuf)| {
        Fault::new(
            &source.place,
            format!("`{}` reads {what}", source.id),
            "exclude the file, or write to another folder",
        )
    };
    read.map(fault).collect()
}

fn hidden_attributes(component: &Component) -> Vec<Fault> {
    let own = |name: &&String| matches!(name.as_str(), "message" | "timestamp");
    let fault = |name: &String| {
        let what = format!(
            "the attribute `{name}` of `{}` is reserved because every event contains this key",
            component.id
        );
        Fault::new(&component.place, what, "rename the attribute")
    };
    component.attributes.keys().filter(own).map(fault).collect()
}

#[cfg(test)]
mod tests;
