//! Shared code of the Prometheus sinks: rows of metrics, which workers encode, series options, and
//! the clock.

mod conflicts;
mod encoder;
mod options;
mod stored;

pub use conflicts::log_conflicts;
#[cfg(test)]
pub use encoder::encoded;
pub use encoder::{Encoding, RowsEncoder, rows_of};
pub use options::{
    DistributionKind, EscapingKind, SeriesOptions, default_expire, default_max_series,
    default_quantiles, yes,
};

use std::time::{SystemTime, UNIX_EPOCH};

/// Returns the wall clock, in milliseconds since 1970.
pub fn now_ms() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as i64)
}
