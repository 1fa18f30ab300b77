//! Fuzz targets for all code that reads untrusted bytes, with persistent corpora.
//!
//! A [`Target`] takes any bytes and panics if an invariant is violated. Tests run the files of its
//! corpus and random mutations of them ([`Mutator`]); `scripts/fuzz` runs the target under
//! libFuzzer, which keeps inputs that reach new code.

mod cells;
mod dictionary;
mod lines;
mod mutate;
mod random;
mod run;
mod targets;

pub use dictionary::dictionary;
pub use mutate::{INPUT_BYTES_MAX, Mutator};
pub use random::Random;
pub use run::{Crash, corpus, try_input};
pub use targets::{TARGETS, Target};
