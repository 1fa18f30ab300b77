//! The lines of a source that name the columns that its readers parse.

use millstream_components::component::HeaderLines;
use millstream_config::{Component, Config, Fault};
use millstream_model::Kind;
use std::collections::HashSet;

/// Returns the header lines of a source, which name the columns; `None` if no component that
/// receives its events requires them.
pub fn of(config: &Config, source: &Component) -> Option<HeaderLines> {
    let wanted: Vec<HeaderLines> =
        readers(config, source).iter().flat_map(|reader| reader.decoded.header_lines()).collect();
    let certain = wanted.iter().find(|lines| is_certain(lines));
    certain.or(wanted.first()).cloned()
}

/// Returns an error for each component that expects different header lines from a source than
/// another component, or that expects header lines but does not read from a `file` source.
pub fn conflicts(config: &Config) -> Vec<Fault> {
    let sources = || config.components.iter().filter(|c| c.kind == Kind::Source);
    let found: HashSet<&str> = sources()
        .filter(|source| source.type_name == "file")
        .flat_map(|source| readers(config, source))
        .map(|reader| reader.id.as_str())
        .collect();
    let is_unread = |c: &&Component| {
        c.decoded.header_lines().iter().any(is_certain) && !found.contains(c.id.as_str())
    };
    let unread = config.components.iter().filter(is_unread).map(without_files);
    sources().flat_map(|source| conflicts_of(config, source)).chain(unread).collect()
}

/// Returns the error for a component that expects header lines but has no source that finds them.
fn without_files(component: &Component) -> Fault {
    let what =
        format!("`{}` expects header lines, which only the `file` source finds", component.id);
    Fault::new(
        &component.place,
        what,
        "read from a `file` source, or list `fields` without `header`",
    )
}

fn conflicts_of(config: &Config, source: &Component) -> Vec<Fault> {
    let mut first: Option<(&Component, HeaderLines)> = None;
    let mut faults = Vec::new();
    for reader in readers(config, source) {
        for lines in reader.decoded.header_lines().into_iter().filter(is_certain) {
            match &first {
                None => first = Some((reader, lines)),
                Some((other, expected)) if *expected != lines => {
                    let what = format!(
                        "`{}` and `{}` expect different header lines from `{}`",
                        other.id, reader.id, source.id
                    );
                    let advice = "set the same `header` and delimiter in both, or read the files \
                                  with two sources";
                    faults.push(Fault::new(&reader.place, what, advice));
                }
                Some(_) => {}
            }
        }
    }
    faults
}

/// Returns whether the configuration requests these lines explicitly.
fn is_certain(lines: &HeaderLines) -> bool {
    !matches!(lines, HeaderLines::IfPresent { .. })
}

/// Returns the transforms that receive events from a source, directly or through other transforms.
fn readers<'c>(config: &'c Config, source: &Component) -> Vec<&'c Component> {
    if source.kind != Kind::Source {
        return Vec::new();
    }
    let (mut found, mut readers) = (HashSet::from([source.id.as_str()]), Vec::new());
    loop {
        let before = found.len();
        for component in config.components.iter().filter(|c| c.kind == Kind::Transform) {
            let is_reader = component
                .inputs
                .iter()
                .any(|input| found.contains(input.split('.').next().unwrap_or(input)));
            if is_reader && found.insert(component.id.as_str()) {
                readers.push(component);
            }
        }
        if found.len() == before {
            return readers;
        }
    }
}
