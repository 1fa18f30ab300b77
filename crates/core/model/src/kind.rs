//! The three kinds of component.

use std::fmt;

/// What a component does in the topology.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kind {
    /// Takes data in.
    Source,
    /// Changes data.
    Transform,
    /// Lets data out.
    Sink,
}

impl Kind {
    /// Every kind, in the order data flows.
    pub const ALL: [Kind; 3] = [Kind::Source, Kind::Transform, Kind::Sink];

    /// The word used in metrics and messages: `source`, `transform`, `sink`.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Source => "source",
            Kind::Transform => "transform",
            Kind::Sink => "sink",
        }
    }

    /// The top-level configuration key that holds components of this kind.
    pub fn section(self) -> &'static str {
        match self {
            Kind::Source => "sources",
            Kind::Transform => "transforms",
            Kind::Sink => "sinks",
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
