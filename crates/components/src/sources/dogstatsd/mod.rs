//! Source `dogstatsd`: receives points, events and service checks of DogStatsD and StatsD clients.
//!
//! [`crate::metrics`] processes them.

mod config;

pub use config::DogStatsdConfig;
