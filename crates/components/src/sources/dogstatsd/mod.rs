//! Source `dogstatsd`: points, events and service checks of DogStatsD's clients, and plain StatsD.
//!
//! What it does with them is in [`crate::metrics`].

mod config;

pub use config::DogStatsdConfig;
