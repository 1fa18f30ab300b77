//! Shared code of the sources that receive metric points: receiver threads that parse and aggregate
//! points, and a flusher that emits the aggregates of each period.

pub mod batch_emitter;
pub mod config;
pub mod events;
mod flusher;
pub mod log_events;
pub mod numbers;
pub mod origin;
pub mod percentiles;
pub mod point_handler;
mod round_counts;
mod swap_slot;

pub use flusher::Flusher;

#[cfg(test)]
mod tests;
