//! What one collection came to: numbers, and what could not be read.

use std::fmt::Display;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Labels of a number, as (key, value); those of a device are shared by all its numbers.
pub type Labels = Arc<[(&'static str, String)]>;

/// One number of the host.
#[derive(Clone, Debug, PartialEq)]
pub struct Reading {
    /// Its name. The unit stands last, behind it `_total` if the number counts.
    pub name: &'static str,
    /// What it is of.
    pub labels: Labels,
    /// The number, in the unit that the name says; finite.
    pub value: f64,
    /// Whether it counts since the host or the device was started; else it is a state.
    pub is_counter: bool,
}

/// Why a piece of the host is not in a collection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Reason {
    /// The kernel or the mounted tree does not have it.
    Missing,
    /// The system refused to give it.
    Unreadable,
    /// It is not in the kernel's format.
    Malformed,
    /// The system gave response timed out.
    Timeout,
}

impl Reason {
    /// The reason as counters name it.
    pub fn name(self) -> &'static str {
        match self {
            Reason::Missing => "missing",
            Reason::Unreadable => "unreadable",
            Reason::Malformed => "malformed",
            Reason::Timeout => "timeout",
        }
    }

    fn of(error: &io::Error) -> Reason {
        match error.kind() {
            io::ErrorKind::NotFound => Reason::Missing,
            io::ErrorKind::InvalidData => Reason::Malformed,
            _ => Reason::Unreadable,
        }
    }
}

/// A piece of the host that is not in a collection.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Fault {
    /// Why.
    pub reason: Reason,
    /// Which file or folder, and what is wrong with it, for a person.
    pub text: String,
}

/// What one collection came to.
#[derive(Debug, Default)]
pub struct Readings {
    /// The numbers.
    pub numbers: Vec<Reading>,
    /// What could not be read.
    pub faults: Vec<Fault>,
}

/// Labels from pairs.
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
        self.fault(Reason::Malformed, path, "not in the kernel's format");
    }

    pub(crate) fn failed(&mut self, path: &Path, error: &io::Error) {
        self.fault(Reason::of(error), path, error);
    }

    /// The text of a file; without it, there is a fault.
    pub(crate) fn read(&mut self, path: &Path) -> Option<String> {
        crate::files::text(path).map_err(|error| self.failed(path, &error)).ok()
    }

    /// The first file that can be read, and its bytes; without any, there is a fault of the last
    /// one.
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

    /// The text of a file that need not be there, or may go away while it is read.
    pub(crate) fn read_optional(&mut self, path: &Path) -> Option<String> {
        match crate::files::text(path) {
            Err(error) if crate::files::is_gone(&error) => None,
            read => read.map_err(|error| self.failed(path, &error)).ok(),
        }
    }
}
