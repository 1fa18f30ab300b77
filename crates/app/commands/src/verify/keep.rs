//! The ways in which sources hold deleted files.

use std::path::{Path, PathBuf};

/// How a source holds deleted files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keep {
    /// By hard links.
    Link,
    /// By open descriptors, and by copies at shutdown, as when the files are on a different file
    /// system than `data_dir`.
    Copy,
    /// Only by open descriptors; the loss is counted at shutdown.
    Count,
}

impl Keep {
    /// All ways.
    pub const ALL: [Keep; 3] = [Keep::Link, Keep::Copy, Keep::Count];

    /// Returns the id of the source.
    pub fn source(self) -> &'static str {
        match self {
            Keep::Link => "linked",
            Keep::Copy => "copied",
            Keep::Count => "counted",
        }
    }

    /// Returns the folder of the source's log within the run's folder.
    pub fn folder(self, scratch: &Path) -> PathBuf {
        scratch.join(self.source())
    }

    /// Returns the source's configuration.
    pub fn configuration(self, scratch: &Path) -> String {
        let held = match self {
            Keep::Link => "{ link: true }",
            Keep::Copy => "{ link: false }",
            Keep::Count => "{ link: false, copy_at_stop: false }",
        };
        format!(
            "  {}: {{ type: file, include: ['{}/in/*.log*'], held: {held} }}\n",
            self.source(),
            self.folder(scratch).display()
        )
    }
}
