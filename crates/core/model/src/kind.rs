//! The three component kinds.

use std::fmt;

/// The role of a component in the topology.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, strum::IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
pub enum Kind {
    /// Reads data.
    Source,
    /// Transforms data.
    Transform,
    /// Writes data.
    Sink,
}

impl Kind {
    /// Every kind, in data-flow order.
    pub const ALL: [Kind; 3] = [Kind::Source, Kind::Transform, Kind::Sink];

    /// Returns the name that metrics and messages use: `source`, `transform` or `sink`.
    pub fn name(self) -> &'static str {
        self.into()
    }

    /// Returns the top-level configuration key for components of this kind.
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
