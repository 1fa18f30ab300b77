//! Configuration of sink `file`.

use super::FileSink;
use super::files::Settings;
use crate::codec::Encoding;
use crate::compress::Compression;
use crate::registry::{Component, SinkComponent};
use crate::rotation::{Rotate, example};
use crate::template::PathTemplate;
use millstream_model::{BuildError, Interval, Sink};
use schemars::JsonSchema;
use serde::Deserialize;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// Options of sink `file`.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FileConfig {
    /// File to append to; missing folders are made. A template: `{{ host }}` is a field of the event,
    /// `%F` a part of its time, `%%` a percent sign.
    pub path: PathTemplate,
    /// How events are encoded.
    #[serde(default)]
    pub encoding: Encoding,
    /// How files are compressed.
    #[serde(default)]
    pub compression: Compression,
    /// 1 to 9 for `gzip` (6 if nothing is said), 1 to 19 for `zstd` (3).
    pub compression_level: Option<u32>,
    /// When files are renamed and begun anew.
    pub rotate: Option<Rotate>,
    /// Longest time until what is written is synced to the disk and counts as delivered.
    #[serde(default = "default_sync")]
    pub sync: Interval,
    /// Files that are open at the same time at most.
    #[serde(default = "default_open_files_max")]
    #[schemars(range(min = 1, max = 10_000))]
    pub open_files_max: usize,
    /// Files not written to for this long are closed.
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

impl FileConfig {
    fn check_rotate(&self) -> Option<(String, String)> {
        let rotate = self.rotate?;
        if rotate.size.is_none() && rotate.every.is_none() {
            return Some(("/rotate".into(), "says not when; give it size: 100MiB or every: 1h".into()));
        }
        // A value could look like the name of another one's rotated file.
        let name_has_field = self.path.0.text().rsplit('/').next().is_some_and(|name| name.contains("{{"));
        let advice = "counts files by name, which a field in it would confuse; put fields into the folder: \
                      /var/log/millstream/{{ host }}/app.log";
        (rotate.keep.is_some() && name_has_field).then(|| ("/rotate/keep".into(), advice.into()))
    }

    fn check_level(&self) -> Option<(String, String)> {
        let (levels, _) = self.compression.levels();
        let message = match (self.compression, self.compression_level?) {
            (Compression::None, _) => "compresses nothing; add compression: gzip or zstd".to_owned(),
            (_, level) if levels.contains(&level) => return None,
            _ => format!("out of range; write {} to {}", levels.start(), levels.end()),
        };
        Some(("/compression_level".into(), message))
    }
}

impl Component for FileConfig {
    /// With `*` for each field, and what a rotated file is called.
    fn writes(&self) -> Vec<PathBuf> {
        let path = PathBuf::from(self.path.0.outline(super::writer::now_ns()));
        let path = std::path::absolute(&path).unwrap_or(path);
        let rotated = self.rotate.map(|_| example(&path));
        [path].into_iter().chain(rotated).collect()
    }

    fn check(&self) -> Vec<(String, String)> {
        let mut faults = self.encoding.check();
        faults.extend(self.check_rotate());
        faults.extend(self.check_level());
        faults
    }
}

impl SinkComponent for FileConfig {
    fn build(self) -> Result<Arc<dyn Sink>, BuildError> {
        let level = self.compression_level.unwrap_or(self.compression.levels().1);
        let settings = Settings {
            compression: (self.compression, level),
            rotate: self.rotate.unwrap_or_default(),
            open_files_max: self.open_files_max,
            idle_timeout: self.idle_timeout.0,
        };
        Ok(Arc::new(FileSink { path: self.path.0, encoding: self.encoding, sync: self.sync.0, settings }))
    }
}
