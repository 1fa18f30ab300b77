//! The components of Millstream: one folder each, and the registry that lists them.
//!
//! A separate crate because it cuts a dependency: the engine, the console and the store can be
//! built and tested without any component.

#![forbid(unsafe_code)]

pub mod component;
pub mod registry;
mod row;
pub mod sinks;
pub mod sources;
#[cfg(feature = "test-components")]
pub mod test_offload;
pub mod transforms;
pub mod util;

pub use millstream_codecs as codec;

#[cfg(test)]
mod tests;
