//! Parsers of log lines. Pure: no I/O, no clock.
//!
//! A [`Parser`] takes lines apart into [`Fields`]: per field a column of cells that point into the line.
//! Nothing is copied but what must be written differently, such as a number with leading zeros. A line
//! that does not fit leaves no field behind, and the reason why.

mod cri;
mod docker;
mod fields;
mod grok;
mod input;
mod json;
mod regex;
#[cfg(test)]
mod taken;
mod types;

pub use cri::Cri;
pub use docker::Docker;
pub use fields::{Failure, Field, Fields, Reason};
pub use grok::{Grok, GrokConfig};
pub use input::Input;
pub use json::{Json, JsonConfig};
pub use regex::{Regex, RegexConfig};
pub use types::{Type, is_number};

use std::sync::Arc;

/// Takes lines apart.
pub trait Parser: Send {
    /// Takes the chosen rows of `input` apart. What is found is put into `fields`; of a row that does not
    /// fit there are no fields, and it is noted with [`Fields::fail`].
    fn parse(&mut self, input: &Input<'_>, fields: &mut Fields);

    /// The field that holds the time of the event, and the format of its text; `None` if it has none that
    /// is known beforehand.
    fn time_field(&self) -> Option<(Arc<str>, &'static str)> {
        None
    }

    /// The same parser for another thread.
    fn again(&self) -> Box<dyn Parser>;
}
