//! Parts of options, and functions for events, that components of several kinds use.

pub mod condition;
pub mod excerpt;
pub mod framing;
pub mod glob;
pub mod jvm;
pub mod kafka;
pub mod message;
pub mod period;
pub mod segments;
pub mod sockets;

pub use millstream_codecs::{formats, seed, template};
