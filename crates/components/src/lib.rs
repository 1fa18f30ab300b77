//! The components of Millstream: one folder each, and the registry that lists them.

pub mod codec;
pub mod formats;
pub mod registry;
pub mod sinks;
pub mod sources;
pub mod template;
pub mod transforms;

mod stream;
