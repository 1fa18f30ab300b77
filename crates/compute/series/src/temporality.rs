//! The temporality of emitted numbers.

/// The period that a number refers to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Temporality {
    /// The number of the period alone; the numbers of two periods can be added.
    Delta,
    /// The sum since the series was created.
    Cumulative,
    /// A state, or a number computed from the period; the numbers of two periods cannot be added.
    Gauge,
}
