//! The `aggregate` transform counts events and adds up their fields, by group and window.
//!
//! It is a `rules` transform with a single task.

mod config;

pub use config::AggregateConfig;

#[cfg(test)]
mod tests;
