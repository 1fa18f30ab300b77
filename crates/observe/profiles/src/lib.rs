//! Profiles, which contain stacks of named frames and their sample counts, and the formats for
//! profiles.
//!
//! A separate crate because it is pure and fuzzed alone. It parses files that other programs wrote.

#![forbid(unsafe_code)]

mod collapsed;
mod html;
mod jfr;
mod pprof;
mod profile;
mod svg;
mod tree;

pub use collapsed::write_collapsed;
pub use html::{write_diff_html, write_html};
pub use jfr::write_jfr;
pub use pprof::{ReadError, read_pprof, write_pprof};
pub use profile::{About, Frame, FrameId, FrameKind, Profile};
pub use svg::{write_diff_svg, write_svg};
