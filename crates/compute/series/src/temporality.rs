//! The temporality of emitted numbers.

/// The period to which a number refers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Temporality {
    /// The number covers only its period. Numbers of different periods can be added.
    Delta,
    /// The sum since the series was created.
    Cumulative,
    /// A current state, or a number computed over the period. Numbers of different periods cannot
    /// be added.
    Gauge,
}
