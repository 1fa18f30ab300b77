//! Compact tables of groups with accumulators, for the windows of transforms that group events. No
//! I/O, no clock, no threads, no randomness.
//!
//! A separate crate because it is pure and fuzzed alone.
//!
//! A [`Groups`] table has up to [`limits::KEYS_MAX`] key columns. Each column has a dictionary that
//! maps strings to ids, and a group is a combination of ids. Ten million groups with ten keys each
//! take the space of their distinct strings plus a few dozen bytes per group. The state of a group
//! is a [`Layout`] of [`Accumulator`]s in 64-bit words; a larger accumulator has a [`Side`]. All
//! accumulators can be merged in any order, so that several tables can be combined. Operations on
//! batches of rows prefetch memory.
//!
//! ```
//! use millstream_groups::{Accumulator, Groups, Layout};
//! use std::sync::Arc;
//!
//! let layout = Arc::new(Layout::new(&[Accumulator::Count, Accumulator::Sum]));
//! let mut groups = Groups::new(layout, 2, 1_000_000);
//! let (hosts, paths) = ([Some(&b"a"[..]), Some(b"b")], [Some(&b"/"[..]), None]);
//! let (mut ids, mut numbers) = ([0; 4], [0; 2]);
//! groups.intern_many(0, &hosts, &mut ids);
//! groups.intern_many(1, &paths, &mut ids);
//! groups.add_many(&ids, &mut numbers);
//! groups.merge_many(&numbers, &[1, 2.5_f64.to_bits(), 1, 0.5_f64.to_bits()]);
//! groups.merge_many(&numbers[..1], &[1, 1.0_f64.to_bits()]);
//! assert_eq!((groups.key(0, 0), groups.key(1, 1)), (Some(&b"a"[..]), None));
//! assert_eq!(groups.words(0), [2, 3.5_f64.to_bits()]);
//! ```

#![forbid(unsafe_code)]

mod accumulators;
mod chunks;
mod dictionary;
mod groups;
mod hashing;
mod hll;
mod index;
pub mod limits;
mod packing;
mod rows;
mod samples;
mod side;
mod space_saving;

pub use accumulators::{Accumulator, Layout};
pub use dictionary::ABSENT;
pub use groups::Groups;
pub use hashing::{TextKey, hash, is_long, key};
pub use hll::Hll;
pub use index::NONE;
pub use samples::{Sample, Samples};
pub use side::Side;
pub use space_saving::{Frequent, SpaceSaving};
