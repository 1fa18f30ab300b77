//! The JDK Flight Recorder format, version 2.1. No I/O, no clock, no dependencies.
//!
//! A separate crate because it cuts a dependency: `profiles` writes the format without the
//! recorder, its shared memory and its `unsafe`.
//!
//! A file is a sequence of chunks. Each chunk is self-contained: it includes the declarations of
//! its types ([`metadata`]) and the values to which its events refer ([`pools`]). A [`Chunk`] is
//! built in memory and written as a whole, so that the output can be a pipe.
//! `docs/formats/recorder.md` describes the format.
//!
//! ```
//! use millstream_jfr::elements::Element;
//! use millstream_jfr::{Chunk, Clock, metadata, varint};
//! use std::num::NonZeroU64;
//!
//! let ticks_per_second = NonZeroU64::new(1_000_000_000).unwrap();
//! let clock = Clock { ticks_per_second, start_ticks: 0, start_unix_ns: 0 };
//! let mut chunk = Chunk::new(&metadata::root([metadata::active_setting()]), 0);
//! chunk.push_setting(metadata::types::ACTIVE_SETTING, "enabled", "true");
//! let file = chunk.end(&clock, 1_000, |pools| varint::push(pools, 0));
//! assert!(file.starts_with(b"FLR\0"));
//! ```

#![forbid(unsafe_code)]

mod chunk;
mod clock;
pub mod elements;
mod header;
pub mod keys;
pub mod metadata;
pub mod pools;
pub mod read;
pub mod stacks;
pub mod text;
pub mod varint;

pub use chunk::{CHUNK_BYTES_MAX, Chunk};
pub use clock::Clock;
