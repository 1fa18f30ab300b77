//! The numbers of types.

use crate::schema::{EVENTS, EventKind};

/// The number of a type in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TypeId(pub u8);

pub const METADATA: TypeId = TypeId(0);
pub const CHECKPOINT: TypeId = TypeId(1);

pub const BOOLEAN: TypeId = TypeId(4);
pub const DOUBLE: TypeId = TypeId(7);
pub const LONG: TypeId = TypeId(11);
pub const STRING: TypeId = TypeId(20);
pub const THREAD: TypeId = TypeId(22);

pub const LABEL: TypeId = TypeId(40);
pub const CATEGORY: TypeId = TypeId(41);
pub const DESCRIPTION: TypeId = TypeId(42);
pub const NAME: TypeId = TypeId(43);
pub const CONTENT_TYPE: TypeId = TypeId(44);
pub const TIMESTAMP: TypeId = TypeId(45);
pub const TIMESPAN: TypeId = TypeId(46);
pub const DATA_AMOUNT: TypeId = TypeId(47);
pub const UNSIGNED: TypeId = TypeId(48);

pub const ENABLED_SETTING: TypeId = TypeId(60);
pub const THRESHOLD_SETTING: TypeId = TypeId(61);
pub const THROTTLE_SETTING: TypeId = TypeId(62);
pub const STACK_TRACE_SETTING: TypeId = TypeId(63);

pub const ACTIVE_SETTING: TypeId = TypeId(70);

/// The first of the events of the schema. All of them have one byte as compressed integers.
const FIRST_EVENT: u8 = 80;
const _: () = assert!(FIRST_EVENT as usize + EVENTS.len() <= 0x80);

/// Returns the number of a type of event.
pub const fn of_event(kind: EventKind) -> TypeId {
    TypeId(FIRST_EVENT + kind as u8)
}
