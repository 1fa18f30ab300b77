//! The result of a collection: readings and errors.

use std::fmt::Display;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The labels of a reading as pairs of key and value. Readings for the same device share them.
pub type Labels = Arc<[(&'static str, String)]>;

/// A number that was read from the host.
#[derive(Clone, Debug, PartialEq)]
pub struct Reading {
    /// Metric name. It ends in the unit, followed by `_total` for a counter.
    pub name: &'static str,
    /// Labels that identify the device, process or group that the number describes.
    pub labels: Labels,
    /// A finite value, in the unit stated in the name.
    pub value: f64,
    /// Whether the number is a counter, which starts at 0 when the host or device that it describes
    /// starts; otherwise, it is a gauge.
    pub is_counter: bool,
}

/// Reason why a collection omits metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, strum::IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
pub enum Reason {
    /// The kernel or the mounted tree does not provide the file.
    Missing,
    /// The file exists but cannot be read.
    Unreadable,
    /// The file is not in the expected format.
    Malformed,
    /// The query timed out.
    Timeout,
}

impl Reason {
    /// Returns the reason as a label for the agent's error counters.
    pub fn name(self) -> &'static str {
        self.into()
    }

    fn from_error(error: &io::Error) -> Reason {
        match error.kind() {
            io::ErrorKind::NotFound => Reason::Missing,
            io::ErrorKind::InvalidData => Reason::Malformed,
            _ => Reason::Unreadable,
        }
    }
}

/// An error that caused a collection to omit metrics.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Fault {
    /// Reason for the error.
    pub reason: Reason,
    /// The file or folder and its error, for the log.
    pub text: String,
}

/// The result of a collection.
#[derive(Debug, Default)]
pub struct Readings {
    /// The numbers that were read.
    pub numbers: Vec<Reading>,
    /// The errors that caused metrics to be omitted.
    pub faults: Vec<Fault>,
}

/// Builds labels from pairs.
pub(crate) fn labels<const N: usize>(pairs: [(&'static str, &str); N]) -> Labels {
    pairs.map(|(key, value)| (key, value.to_owned())).into()
}

impl Readings {
    pub(crate) fn counter(&mut self, name: &'static str, labels: &Labels, value: f64) {
        self.number(name, labels, value, true);
    }

    pub(crate) fn gauge(&mut self, name: &'static str, labels: &Labels, value: f64) {
        self.number(name, labels, value, false);
    }

    fn number(&mut self, name: &'static str, labels: &Labels, value: f64, is_counter: bool) {
        self.numbers.push(Reading { name, labels: labels.clone(), value, is_counter });
    }

    pub(crate) fn fault(&mut self, reason: Reason, path: &Path, what: impl Display) {
        self.faults.push(Fault { reason, text: format!("{}: {what}", path.display()) });
    }

    pub(crate) fn malformed(&mut self, path: &Path) {
        self.fault(Reason::Malformed, path, "the file does not have the kernel's format");
    }

    pub(crate) fn failed(&mut self, path: &Path, error: &io::Error) {
        self.fault(Reason::from_error(error), path, error);
    }

    /// Reads a file as text. Records a fault on failure.
    pub(crate) fn read(&mut self, path: &Path) -> Option<String> {
        crate::files::text(path).map_err(|error| self.failed(path, &error)).ok()
    }

    /// Reads the first of two files, or the second if the first cannot be read. If both fail,
    /// records the fault of the second.
    pub(crate) fn read_first(&mut self, paths: [PathBuf; 2]) -> Option<(PathBuf, Vec<u8>)> {
        let [first, last] = paths;
        if let Ok(bytes) = crate::files::bytes(&first) {
            return Some((first, bytes));
        }
        match crate::files::bytes(&last) {
            Ok(bytes) => Some((last, bytes)),
            Err(error) => {
                self.failed(&last, &error);
                None
            }
        }
    }

    /// Reads a file as text. Returns `None` without a fault if the file does not exist or
    /// disappears during the read.
    pub(crate) fn read_optional(&mut self, path: &Path) -> Option<String> {
        match crate::files::text(path) {
            Err(error) if crate::files::is_gone(&error) => None,
            read => read.map_err(|error| self.failed(path, &error)).ok(),
        }
    }
}
