//! Parsers of log lines. No I/O, no clock.
//!
//! A crate of its own because it is pure and fuzzed alone.
//!
//! A [`Parser`] parses lines into [`Fields`]: per field a column of cells that point into the
//! line. Nothing is copied but what must be written differently, such as a number with leading
//! zeros. A line that does not fit leaves no field behind, and the reason why.

#![forbid(unsafe_code)]

mod access;
mod cri;
mod delimited;
mod docker;
mod fields;
mod grok;
#[cfg(test)]
mod harness;
mod input;
mod json;
mod key_value;
mod regex;
mod region;
mod syslog;
mod types;

pub use access::{Access, AccessConfig, Escape, Server};
pub use cri::Cri;
pub use delimited::{Delimited, DelimitedConfig, Unequal};
pub use docker::Docker;
pub use fields::{Failure, Field, Fields, Reason};
pub use grok::{Grok, GrokConfig};
pub use input::Input;
pub use json::{Json, JsonConfig};
pub use key_value::{Bare, KeyValue, KeyValueConfig};
pub use regex::{Regex, RegexConfig};
pub use syslog::{Syslog, SyslogConfig};
pub use types::{Type, is_number};

use std::sync::Arc;

/// Where lines of a form say their own time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TimeField {
    /// Name of the field.
    pub name: Arc<str>,
    /// What it looks like, see [`millstream_timestamps::Format`].
    pub format: Arc<str>,
}

/// Takes lines apart.
pub trait Parser: Send {
    /// Takes the chosen rows of `input` apart. What is found is put into `fields`; of a row that
    /// does not fit there are no fields, and it is noted with [`Fields::fail`].
    fn parse(&mut self, input: &Input<'_>, fields: &mut Fields);

    /// Where a line of this form says its own time, if it does.
    fn time_field(&self) -> Option<TimeField> {
        None
    }

    /// The same parser for another thread.
    fn again(&self) -> Box<dyn Parser>;
}
