//! The numbers of the types of events.

use crate::schema::{EVENTS, EventKind};
use millstream_jfr::metadata::TypeId;

/// The first of the events of the schema. All of them have one byte as compressed integers.
const FIRST_EVENT: u8 = 80;
const _: () = assert!(FIRST_EVENT as usize + EVENTS.len() <= 0x80);

/// Returns the number of a type of event.
pub const fn of_event(kind: EventKind) -> TypeId {
    TypeId(FIRST_EVENT + kind as u8)
}
