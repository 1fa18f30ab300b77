//! Reads complete or growing recordings from any JDK version starting at 11.
//!
//! A JVM writes a chunk in steps. About once per second, it appends events and the constant pools
//! to which they refer, and then stores in the header ([`ChunkHeader`]) up to where the chunk is
//! readable. A reader therefore reads the header, the [`Types`] and the [`Pools`] up to that
//! position, and the events that were added since the last update.
//!
//! The input is untrusted. Memory for a number of items is allocated only after their bytes were
//! read, nesting and memory are bounded, and errors say what is wrong.

mod chunk_header;
mod chunk_reader;
mod declaration;
mod error;
mod event;
mod input;
mod layout;
mod lookup;
mod pool_index;
mod text;
mod types;

pub use chunk_header::{ChunkHeader, ChunkState, HEADER_BYTES};
pub use chunk_reader::{ChunkReader, EVENT_BYTES_MAX, ReadAt, read_header};
pub use declaration::{Field, Type, Unit};
pub use error::{ChunkError, ReadError};
pub use event::{CHECKPOINT, Event, EventPlan, METADATA, Raw, SLOTS};
pub use lookup::{Frame, Lookup};
pub use pool_index::{POOL_BYTES_MAX, POOL_ENTRIES_MAX, Pools};
pub use text::Text;
pub use types::Types;
