//! The numbers of event types.

use crate::schema::{EVENTS, EventKind};
use millstream_jfr::metadata::TypeId;

/// The first event type of the schema. All event types take one byte as compressed integers.
const FIRST_EVENT: u8 = 80;
const _: () = assert!(FIRST_EVENT as usize + EVENTS.len() <= 0x80);

/// Returns the number of an event type.
pub const fn of_event(kind: EventKind) -> TypeId {
    TypeId(FIRST_EVENT + kind as u8)
}
