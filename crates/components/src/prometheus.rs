//! What the sinks for Prometheus share: rows of metrics, made on the workers, and options of series.

mod encoder;
mod options;

#[cfg(test)]
pub use encoder::encoded;
pub use encoder::{Encoding, RowsEncoder, rows_of};
pub use options::{DistributionKind, SeriesOptions, default_quantiles};
