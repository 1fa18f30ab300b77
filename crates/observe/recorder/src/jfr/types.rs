//! Ids of event types.

use crate::schema::{EVENTS, EventKind};
use millstream_jfr::metadata::TypeId;

/// Id of the schema's first event type. The ids of all event types fit in a one-byte compressed
/// integer.
const FIRST_EVENT: u8 = 80;
const _: () = assert!(FIRST_EVENT as usize + EVENTS.len() <= 0x80);

/// Returns the id of an event type.
pub const fn of_event(kind: EventKind) -> TypeId {
    TypeId(FIRST_EVENT + kind as u8)
}
