//! Parsers for log lines. They do no I/O and read no clock.
//!
//! A separate crate because it is pure and fuzzed alone.
//!
//! A [`Parser`] parses lines into [`Fields`]. Each field is a column of cells that point into the
//! lines. Only values that must be rewritten, such as numbers with leading zeros, are copied. A
//! line that does not match has a reason instead of fields.

#![forbid(unsafe_code)]

mod access;
mod cef;
mod cri;
mod delimited;
mod docker;
mod escapes;
mod events;
mod fields;
mod grok;
#[cfg(test)]
mod harness;
mod input;
mod json;
mod key_value;
mod keys;
mod leef;
mod members;
mod regex;
mod region;
mod severity;
mod syslog;
mod types;

pub use access::{Access, AccessConfig, Escape, Server};
pub use cef::Cef;
pub use cri::Cri;
pub use delimited::{ColumnNames, Columned, Delimited, DelimitedConfig, Unequal};
pub use docker::Docker;
pub use events::EventConfig;
pub use fields::{Failure, Field, Fields, Reason};
pub use grok::{Grok, GrokConfig};
pub use input::Input;
pub use json::{Json, JsonConfig, JsonPaths, json_members};
pub use key_value::{Bare, KeyValue, KeyValueConfig};
pub use leef::{Leef, LeefConfig};
pub use regex::{Regex, RegexConfig};
pub use severity::{Severity, SeverityScale};
pub use syslog::{Syslog, SyslogConfig};
pub use types::{Type, is_number};

use std::sync::Arc;

/// The field that contains a line's timestamp.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TimeField {
    /// Name of the field.
    pub name: Arc<str>,
    /// Timestamp format of the field (see [`millstream_timestamps::Format`]).
    pub format: Arc<str>,
}

/// A parser of lines.
pub trait Parser: Send {
    /// Parses the selected rows of `input` into `fields`. A row that does not match gets no fields
    /// and is recorded with [`Fields::fail`].
    fn parse(&mut self, input: &Input<'_>, fields: &mut Fields);

    /// Sets the header line that names the columns in the next input. `None` means that the header
    /// is unknown or does not exist.
    fn set_header(&mut self, _: Option<&Arc<str>>) {}

    /// Returns the field that contains a line's timestamp, if the format defines one.
    fn time_field(&self) -> Option<TimeField> {
        None
    }

    /// Clones the parser for use on another thread.
    fn clone_boxed(&self) -> Box<dyn Parser>;
}
