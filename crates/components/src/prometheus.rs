//! What the sinks for Prometheus share: rows of metrics, made on the workers, options of series,
//! and the clock.

mod encoder;
mod options;

#[cfg(test)]
pub use encoder::encoded;
pub use encoder::{Encoding, RowsEncoder, rows_of};
pub use options::{
    DistributionKind, SeriesOptions, default_expire, default_max_series, default_quantiles, yes,
};

use std::time::{SystemTime, UNIX_EPOCH};

/// The wall clock, in milliseconds since 1970.
pub fn now_ms() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as i64)
}
