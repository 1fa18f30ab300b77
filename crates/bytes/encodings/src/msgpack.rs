//! Metrics as msgpack: column blocks, each with dictionaries for its strings and tag sets.
//!
//! `docs/formats/metrics-msgpack.md` specifies the format. A block is one self-contained msgpack
//! map, so a body, frame or record may contain several consecutive blocks.
//!
//! ```
//! use millstream_encodings::metric::{Kind, Metric, Temporality, Value};
//! use millstream_encodings::msgpack::{BlockEncoder, Shared, blocks};
//!
//! let mut encoder = BlockEncoder::new(7); // random in a program
//! let metric = Metric {
//!     name: b"requests",
//!     tags: br#"{"env":"prod"}"#,
//!     kind: Kind::Counter,
//!     temporality: Temporality::Delta,
//!     value: Value::Number(3.0),
//!     time_ns: 1_700_000_000_000_000_000,
//!     interval: 10.0,
//! };
//! encoder.push(&metric).unwrap();
//! let mut body = Vec::new();
//! encoder.finish(&Shared::default(), &mut body);
//!
//! let block = blocks(&body).next().unwrap().unwrap();
//! let read = block.metrics().next().unwrap();
//! assert_eq!((read.name, read.tags().collect::<Vec<_>>()), ("requests", vec![("env", "prod")]));
//! ```

mod decode;
mod encode;
mod intern;
mod read;
mod split;
mod write;

pub use decode::{Block, Blocks, DecodeError, ReadMetric, ReadValue, Sketch, blocks};
pub use encode::{BlockEncoder, Shared};
pub use split::split;

/// The version of the block format.
pub const VERSION: u8 = 1;

/// Keys of a block's map, in output order.
mod key {
    pub const VERSION: &str = "v";
    pub const ROWS: &str = "rows";
    pub const META: &str = "meta";
    pub const ATTRIBUTES: &str = "attributes";
    pub const NAMES: &str = "names";
    pub const KEYS: &str = "keys";
    pub const VALUES: &str = "values";
    pub const KEYSETS: &str = "keysets";
    pub const TAGSETS: &str = "tagsets";
    pub const NAME: &str = "name";
    pub const TAGS: &str = "tags";
    pub const TYPE: &str = "type";
    pub const TIME: &str = "time";
    pub const INTERVAL: &str = "interval";
    pub const VALUE: &str = "value";
}

#[cfg(test)]
mod tests;
