//! Ids of the types that several writers declare. The ids of the writers' own events begin at 80.
//! An id below 0x80 takes one byte as a compressed integer.

use crate::elements::Element;

/// The id of a type within a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TypeId(pub u8);

impl Element {
    /// Adds an attribute whose value is a type id.
    pub fn with_type(self, name: &'static str, id: TypeId) -> Element {
        self.with(name, id.0.to_string())
    }
}

/// The metadata of a chunk.
pub const METADATA: TypeId = TypeId(0);
/// The constant pools of a chunk.
pub const CHECKPOINT: TypeId = TypeId(1);
/// `boolean`.
pub const BOOLEAN: TypeId = TypeId(4);
/// `double`.
pub const DOUBLE: TypeId = TypeId(7);
/// `int`.
pub const INT: TypeId = TypeId(10);
/// `long`.
pub const LONG: TypeId = TypeId(11);
/// `java.lang.String`.
pub const STRING: TypeId = TypeId(20);
/// `java.lang.Class`.
pub const CLASS: TypeId = TypeId(21);
/// `java.lang.Thread`.
pub const THREAD: TypeId = TypeId(22);
/// `jdk.types.ThreadState`.
pub const THREAD_STATE: TypeId = TypeId(23);
/// `jdk.types.FrameType`.
pub const FRAME_TYPE: TypeId = TypeId(24);
/// `jdk.types.Symbol`.
pub const SYMBOL: TypeId = TypeId(25);
/// `jdk.types.Method`.
pub const METHOD: TypeId = TypeId(26);
/// `jdk.types.StackFrame`.
pub const STACK_FRAME: TypeId = TypeId(27);
/// `jdk.types.StackTrace`.
pub const STACK_TRACE: TypeId = TypeId(28);
/// `jdk.jfr.Label`.
pub const LABEL: TypeId = TypeId(40);
/// `jdk.jfr.Category`.
pub const CATEGORY: TypeId = TypeId(41);
/// `jdk.jfr.Description`.
pub const DESCRIPTION: TypeId = TypeId(42);
/// `jdk.jfr.Name`.
pub const NAME: TypeId = TypeId(43);
/// `jdk.jfr.ContentType`.
pub const CONTENT_TYPE: TypeId = TypeId(44);
/// `jdk.jfr.Timestamp`.
pub const TIMESTAMP: TypeId = TypeId(45);
/// `jdk.jfr.Timespan`.
pub const TIMESPAN: TypeId = TypeId(46);
/// `jdk.jfr.DataAmount`.
pub const DATA_AMOUNT: TypeId = TypeId(47);
/// `jdk.jfr.Unsigned`.
pub const UNSIGNED: TypeId = TypeId(48);
/// Setting: whether to record an event.
pub const ENABLED_SETTING: TypeId = TypeId(60);
/// Setting: the minimum duration of recorded events.
pub const THRESHOLD_SETTING: TypeId = TypeId(61);
/// Setting: the maximum number of events per period.
pub const THROTTLE_SETTING: TypeId = TypeId(62);
/// Setting: whether to record stack traces.
pub const STACK_TRACE_SETTING: TypeId = TypeId(63);
/// Setting: the time between two events.
pub const PERIOD_SETTING: TypeId = TypeId(64);
/// `jdk.ActiveSetting`.
pub const ACTIVE_SETTING: TypeId = TypeId(70);
