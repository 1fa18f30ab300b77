//! The sides of components.

/// A side of a component.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Side {
    /// Batches that enter the encoder of a sink.
    Input,
    /// Batches that a source or a transform sends.
    Output,
}
