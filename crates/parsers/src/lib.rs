//! Parsers of log lines. Pure: no I/O, no clock.
//!
//! A [`Parser`] takes lines apart into [`Fields`]: per field a column of cells that point into the line.
//! Nothing is copied but what must be written differently, such as a number with leading zeros. A line
//! that does not fit leaves no field behind, and the reason why.

mod access;
mod delimited;
mod fields;
mod input;
mod key_value;
mod region;
#[cfg(test)]
mod samples;
mod syslog;
mod types;

pub use access::{Access, AccessConfig, Escape, Server, TimeField};
pub use delimited::{Delimited, DelimitedConfig, Unequal};
pub use fields::{Failure, Field, Fields, Reason};
pub use input::Input;
pub use key_value::{Bare, KeyValue, KeyValueConfig};
pub use syslog::{Syslog, SyslogConfig};
pub use types::{Type, is_number};

/// Takes lines apart.
pub trait Parser: Send {
    /// Takes the chosen rows of `input` apart. What is found is put into `fields`; of a row that does not
    /// fit there are no fields, and it is noted with [`Fields::fail`].
    fn parse(&mut self, input: &Input<'_>, fields: &mut Fields);

    /// The same parser for another thread.
    fn again(&self) -> Box<dyn Parser>;
}
