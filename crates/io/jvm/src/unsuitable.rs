//! Java installations that cannot run operators.

use std::fmt;
use std::path::PathBuf;

/// Minimum Java version that can run the operators.
pub const JAVA_VERSION_MIN: u32 = 17;

/// A Java installation that is not suitable, and the reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unsuitable {
    /// Origin of the path, such as `JAVA_HOME`; empty for the usual folders.
    pub from: &'static str,
    /// Java home.
    pub home: PathBuf,
    /// Reason why the installation is unsuitable.
    pub reason: String,
}

impl fmt::Display for Unsuitable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let separator = if self.from.is_empty() { "" } else { " " };
        write!(f, "{}{separator}{}: {}", self.from, self.home.display(), self.reason)
    }
}
