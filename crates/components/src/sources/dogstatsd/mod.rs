//! Source `dogstatsd`: points, events and service checks of DogStatsD clients, and plain StatsD.
//!
//! [`crate::metrics`] processes them.

mod config;

pub use config::DogStatsdConfig;
