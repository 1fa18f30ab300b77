//! Transform `aggregate`: counts events and adds up their fields, by group and window.
//!
//! It is one task of what the transform `rules` does.

mod config;

pub use config::AggregateConfig;

#[cfg(test)]
mod tests;
