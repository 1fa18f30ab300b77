//! The sides of a component at which events can be tapped.

/// A side of a component where taps can listen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TapSide {
    /// Batches that enter a sink's encoder.
    Input,
    /// Batches that a source or a transform sends.
    Output,
}
