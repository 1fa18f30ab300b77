//! The metric store, which aggregates points into one value per series and period. No I/O, no
//! clock, no threads, no randomness: the caller passes times and seeds.
//!
//! A separate crate because it is pure and fuzzed alone.
//!
//! A [`Shard`] belongs to one receiver thread. It looks up a point by its name and tags, with the
//! tags in arrival order, and updates 16 bytes. For a known series, this takes neither a lock nor
//! an allocation. A series keeps one name and one tag text, in the order in which the tags first
//! arrived; tags are sorted when they are read. [`Shard::swap_generation`] returns everything
//! accumulated since the last swap, and takes the same short time for any number of series. The
//! [`Store`] belongs to the flusher. It merges the generations of the shards, and keeps the state
//! that outlasts a period. Merges and drains run in steps, so that a thread with other work can run
//! them.
//!
//! NaN and infinite values are rejected and counted, -0 becomes 0, and sums saturate at the largest
//! float.
//!
//! ```
//! use millstream_series::{Aggregate, Canonical, Generation, Kind, Limits, Point, Shard, Store, TagStyle, Values};
//!
//! let seed = 7; // random in a program
//! let mut shard = Shard::new(TagStyle::DogStatsd, &Limits::default(), seed);
//! let mut store = Store::new(1, 10, seed);
//! for tags in [b"host:a,env:prod", b"env:prod,host:a"] {
//!     shard.add(&Point {
//!         kind: Kind::Count,
//!         name: b"requests",
//!         tags,
//!         values: Values::Number(1.0),
//!         sample_rate: 0.5,
//!         timestamp: None,
//!         arrived: 1,
//!     });
//! }
//! let spare = store.merge(0, shard.swap_generation(Generation::default()));
//! let mut scratch = Canonical::default();
//! store.drain(|reading| {
//!     assert_eq!(reading.key.canonical_text(&mut scratch), b"env:prod,host:a");
//!     assert!(matches!(reading.aggregate, Aggregate::Sum { delta: 4.0, points: 2, .. }));
//! });
//! # drop(spare);
//! ```

#![forbid(unsafe_code)]

mod chunks;
mod counts;
mod generation;
mod hashing;
mod index;
mod key;
pub mod limits;
mod outputs;
mod point;
mod pool;
mod shard;
mod sketch;
mod store;
mod style;
mod summary;
mod tags;
mod temporality;
mod work;

pub use counts::{Counts, Reason};
pub use generation::Generation;
pub use key::SeriesKey;
pub use limits::Limits;
pub use outputs::Output;
pub use point::{ARRIVED_MAX, Class, Kind, OVERFLOW_NAME, Point, Values};
pub use shard::{Idle, Shard};
pub use sketch::{RELATIVE_ERROR_MAX, Sketch};
pub use store::{Aggregate, Drain, Merging, Progress, Reading, Store};
pub use style::TagStyle;
pub use summary::{FRACTION_DIGITS_MAX, Statistic, Suffix, Summaries, has_suffix};
pub use tags::Canonical;
pub use temporality::Temporality;
