//! Fuzz targets for everything that reads bytes which others wrote, with corpora that are kept.
//!
//! A [`Target`] takes any bytes and panics when something that must always hold does not. Inputs
//! are the files of its corpus and random changes of them ([`Mutator`]). Nothing is measured of the
//! code that an input reaches: the corpora have to lead to the places that matter.

mod cells;
mod lines;
mod mutate;
mod random;
mod run;
mod targets;

pub use mutate::{INPUT_BYTES_MAX, Mutator};
pub use random::Random;
pub use run::{Crash, corpus, folder, smallest, try_input};
pub use targets::{TARGETS, Target};
