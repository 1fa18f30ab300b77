//! Fuzz targets for everything that reads bytes which others wrote, with corpora that are kept.
//!
//! A [`Target`] takes any bytes and panics when something that must always hold does not. Tests
//! play the files of its corpus and random changes of them ([`Mutator`]); `scripts/fuzz` plays it
//! under libFuzzer, which keeps inputs that reach new code.

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
