//! What the sources of metric points share: receivers whose threads parse and add, and a flusher that gives out
//! what the points of a period have come to.

pub mod config;
pub mod events;
mod flusher;
mod handover;
pub mod intake;
pub mod notices;
pub mod numbers;
pub mod origin;
pub mod outlet;
pub mod percentiles;
pub mod period;
mod tally;
pub mod view;

pub use flusher::Flusher;

#[cfg(test)]
mod tests;
