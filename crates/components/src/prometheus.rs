//! What the sinks for Prometheus share: rows of metrics, made on the workers, and options of series.

mod encoder;
mod options;

pub use encoder::{Encoding, RowsEncoder, rows_of};
pub use options::{DistributionKind, SeriesOptions, default_quantiles};
