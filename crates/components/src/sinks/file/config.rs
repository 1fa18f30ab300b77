//! Configuration of the `file` sink.

use super::FileSink;
use super::files::MEMBERS_MAX;
use super::settings::Settings;
use crate::codec::Encoding;
use crate::component::{Component, SinkComponent};
use crate::sinks::file::compress::Compression;
use crate::sinks::file::disk::now_ns;
use crate::sinks::file::rotation::{Rotate, example};
use crate::util::template::PathTemplate;
use millstream_model::{BuildError, Interval, OptionError, Sink};
use schemars::JsonSchema;
use serde::Deserialize;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// Options for the `file` sink.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FileConfig {
    /// Path of the file to append to; missing folders are created. The path is a template, in which
    /// `{{ host }}` inserts an event field, `%F` the event date, and `%%` a percent sign.
    pub path: PathTemplate,
    /// Event encoding.
    #[serde(default)]
    pub encoding: Encoding,
    /// File compression. The sink does not add `.gz` or `.zst` to the path.
    #[serde(default)]
    pub compression: Compression,
    /// Compression level: 1 to 9 for `gzip` (default 6), 1 to 19 for `zstd` (default 3). A higher
    /// level makes files smaller but uses more CPU time.
    pub compression_level: Option<u32>,
    /// File rotation. Without it, files are not rotated.
    pub rotate: Option<Rotate>,
    /// Maximum time until written events are synced to disk and treated as delivered. A longer
    /// interval means fewer syncs and a later checkpoint.
    #[serde(default = "default_sync")]
    pub sync: Interval,
    /// Maximum number of open files, up to 10,000. Beyond this number, the sink closes the least
    /// recently used file. Raise it if more files than this receive events at the same time.
    #[serde(default = "default_open_files_max")]
    #[schemars(range(min = 1, max = 10_000))]
    pub open_files_max: usize,
    /// Idle time after which a file is closed.
    #[serde(default = "default_idle_timeout")]
    pub idle_timeout: Interval,
}

fn default_sync() -> Interval {
    Interval(Duration::from_secs(1))
}

fn default_open_files_max() -> usize {
    100
}

fn default_idle_timeout() -> Interval {
    Interval(Duration::from_secs(300))
}

impl Component for FileConfig {
    /// Returns the paths that the sink may write, with `*` for each field, and the name of a
    /// rotated file.
    fn writes(&self) -> Vec<PathBuf> {
        let path = PathBuf::from(self.path.0.outline(now_ns()));
        let path = std::path::absolute(&path).unwrap_or(path);
        let rotated = self.rotate.map(|_| example(&path));
        [path].into_iter().chain(rotated).collect()
    }

    fn check(&self) -> Vec<OptionError> {
        let mut errors = self.encoding.check_lines();
        let wrong = self.rotate.and_then(|rotate| rotate.check(self.path.0.text()));
        errors
            .extend(wrong.map(|(key, message)| OptionError::new(format!("/rotate{key}"), message)));
        let wrong =
            self.compression_level.and_then(|level| self.compression.check_level(level).err());
        errors.extend(wrong.map(|message| OptionError::new("/compression_level", message)));
        errors
    }
}

impl SinkComponent for FileConfig {
    fn build(&self) -> Result<Arc<dyn Sink>, BuildError> {
        let level = self.compression_level.unwrap_or(self.compression.levels().1);
        let settings = Settings {
            compression: (self.compression, level),
            members_max: MEMBERS_MAX,
            follow_links: !self.path.0.has_field(),
            rotate: self.rotate.unwrap_or_default(),
            open_files_max: self.open_files_max,
            idle_timeout: self.idle_timeout.0,
        };
        Ok(Arc::new(FileSink {
            path: self.path.0.clone(),
            encoding: self.encoding.clone(),
            sync: self.sync.0,
            settings,
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn errors(options: Value) -> Vec<OptionError> {
        serde_json::from_value::<FileConfig>(options).unwrap().check()
    }

    #[test]
    fn errors_beyond_the_schema_have_advice() {
        let found = errors(
            json!({ "path": "/o/{{ host }}.log", "compression_level": 3, "rotate": { "every": "1h", "keep": 3 } }),
        );
        let found: Vec<(&str, bool)> =
            found.iter().map(|error| (error.pointer.as_str(), !error.advice.is_empty())).collect();
        assert_eq!(found, [("/rotate/keep", true), ("/compression_level", true)]);
        let found = errors(
            json!({ "path": "/o/a.gz", "compression": "gzip", "compression_level": 10, "rotate": { "keep": 3 } }),
        );
        let found: Vec<&str> = found.iter().map(|error| error.pointer.as_str()).collect();
        assert_eq!(found, ["/rotate", "/compression_level"]);
        let all = json!({ "size": "1MiB", "every": "1h", "keep": 3 });
        assert_eq!(errors(json!({ "path": "/o/{{ host }}/%F/a.gz", "rotate": all })), []);
    }

    #[test]
    fn written_paths_have_a_star_per_field_and_include_rotated_files() {
        let writes =
            |options: Value| serde_json::from_value::<FileConfig>(options).unwrap().writes();
        let all = json!({ "path": "/o/{{ host }}/a.log", "rotate": { "size": "1MiB" } });
        assert_eq!(writes(all), ["/o/*/a.log", "/o/*/a-19700101T000000Z.log"].map(PathBuf::from));
        assert_eq!(writes(json!({ "path": "/o/100%%" })), [PathBuf::from("/o/100%")]);
    }
}
