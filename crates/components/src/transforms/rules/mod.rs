//! Transform `rules`: counts and measures events by thousands of tasks at once.

mod config;
mod task;

pub use config::RulesConfig;
