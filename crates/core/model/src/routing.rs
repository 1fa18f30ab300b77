//! Routings: information from an encoder to its lane about a payload, in a form that can be written
//! to disk.

use std::any::Any;

/// Metadata of a payload from a sink's encoder to its lane: where each part goes, where records
/// end.
pub trait Routing: Any + Send + Sync {
    /// Appends the bytes from which [`Sink::read_routing`](crate::Sink::read_routing) recreates the
    /// routing, possibly in another process.
    fn write(&self, out: &mut Vec<u8>);
}

impl dyn Routing {
    /// Returns the routing as the type `T` of its sink; `None` if it belongs to another sink.
    pub fn as_type<T: Routing>(&self) -> Option<&T> {
        (self as &dyn Any).downcast_ref()
    }
}

/// Reason why the routing of a payload cannot be recreated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("its metadata is invalid: {0}")]
pub struct RoutingError(pub &'static str);
