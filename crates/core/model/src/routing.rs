//! Routings: information about a payload that an encoder passes to its lane, and that can be
//! written to disk.

use std::any::Any;

/// Metadata about a payload that a sink's encoder passes to its lane, such as the destination of
/// each part and the end of each record.
pub trait Routing: Any + Send + Sync {
    /// Appends the bytes from which [`Sink::read_routing`](crate::Sink::read_routing) recreates the
    /// routing, possibly in another process.
    fn write(&self, out: &mut Vec<u8>);
}

impl dyn Routing {
    /// Returns the routing as the sink's type `T`; `None` if it belongs to another sink.
    pub fn as_type<T: Routing>(&self) -> Option<&T> {
        (self as &dyn Any).downcast_ref()
    }
}

/// Reason why a payload's routing cannot be recreated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("its metadata is invalid: {0}")]
pub struct RoutingError(pub &'static str);
