//! The `dogstatsd` source receives points, events and service checks of DogStatsD and StatsD
//! clients.
//!
//! [`crate::sources::points`] processes them.

mod config;

pub use config::DogStatsdConfig;
