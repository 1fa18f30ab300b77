//! Log messages about the configuration, at startup and after a reload.

use millstream_commands::{components, logging};
use millstream_config::{Component, Config};
use millstream_model::Kind;

/// The target of these log lines, by which users can select them: the module that starts the agent.
const TARGET: &str = "millstream::run";

/// Reports task files that were rejected.
pub fn report_refused(config: &Config) {
    let faults = config.refused.iter().map(ToString::to_string);
    logging::each(log::Level::Error, TARGET, faults);
    if !config.refused.is_empty() {
        log::error!(
            target: TARGET,
            "invalid task files are rejected; a file's previous version stays in use if there is \
             one, and all other tasks run"
        );
    }
}

/// Warns about files that are held for sources that are no longer configured. Nothing reads them,
/// and they use disk space.
pub fn warn_of_unowned(config: &Config) {
    for (id, files, bytes) in unowned(config) {
        let folder = config.globals.data_dir.join("held").join(&id);
        log::warn!(
            target: TARGET,
            "{}: {files} held files ({bytes} bytes) belong to source {id}, which is not \
             configured, so they are not delivered; configure a source with this id, or remove the \
             files",
            folder.display()
        );
    }
}

/// Returns the ids that have held files but no source, with the number and bytes of the files.
fn unowned(config: &Config) -> Vec<(String, usize, u64)> {
    let mut unowned = Vec::new();
    for folder in
        std::fs::read_dir(config.globals.data_dir.join("held")).into_iter().flatten().flatten()
    {
        let id = folder.file_name().to_string_lossy().into_owned();
        let is_owner = |component: &Component| component.kind == Kind::Source && component.id == id;
        let files = std::fs::read_dir(folder.path()).into_iter().flatten().flatten();
        let sizes: Vec<u64> = files.filter_map(|file| Some(file.metadata().ok()?.len())).collect();
        if !sizes.is_empty() && !config.components.iter().any(is_owner) {
            unowned.push((id, sizes.len(), sizes.iter().sum()));
        }
    }
    unowned
}

/// Logs which endpoints are reached through proxies.
pub fn announce_proxies(config: &Config) {
    for (id, way) in components::proxies(config) {
        log::info!(target: TARGET, "{id}: sends to {way}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use millstream_config::Registry;
    use std::fs;

    /// Files held for a renamed source are reported, because otherwise they would fill the disk
    /// unnoticed.
    #[test]
    fn files_held_for_an_unconfigured_source_are_a_warning() {
        let dir = tempfile::tempdir().unwrap();
        let (file, data) = (dir.path().join("c.yaml"), dir.path().join("data"));
        let text = "sources: { app: { type: generate } }\nsinks: { out: { type: blackhole, inputs: [app] } }\n";
        fs::write(&file, format!("data_dir: {}\n{text}", data.display())).unwrap();
        let config = millstream_config::load(&[file], &Registry, &|_| None)
            .unwrap_or_else(|faults| panic!("{}", faults[0]));
        for (source, files) in [("app", 2), ("old", 3), ("empty", 0)] {
            let folder = data.join("held").join(source);
            fs::create_dir_all(&folder).unwrap();
            (0..files).for_each(|n| fs::write(folder.join(format!("{n:016x}")), "four").unwrap());
        }
        assert_eq!(unowned(&config), [("old".to_owned(), 3, 12)]);
    }
}
