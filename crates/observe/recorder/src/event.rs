//! Recorded events, and the values to which they refer.

use crate::ids::{SubjectId, TextId, ThreadId};
use crate::schema::{EventKind, FIELDS_MAX, Value};

/// A recorded event.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Event {
    /// Type of the event.
    pub kind: EventKind,
    /// The thread that recorded it.
    pub thread: ThreadId,
    /// Subject of the event. JFR files do not have it.
    pub subject: SubjectId,
    /// Start, in ticks of the recording's clock.
    pub start_ticks: u64,
    /// Time from start to end, in ticks. Ignored for types without a duration.
    pub duration_ticks: u64,
    /// The bits of each field, as [`bits`] returns them. Values after the last field are ignored.
    pub values: [u64; FIELDS_MAX],
}

/// Returns the bits of the fields of an event, which are in the order of the declaration.
pub fn bits<const N: usize>(fields: [Value; N]) -> [u64; FIELDS_MAX] {
    const { assert!(N <= FIELDS_MAX) };
    let mut all = [0; FIELDS_MAX];
    for (bits, value) in all.iter_mut().zip(fields) {
        *bits = value.to_bits();
    }
    all
}

/// A thread of the agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Thread<'t> {
    /// Name of the thread.
    pub name: &'t str,
    /// Number of the thread in the system.
    pub os_id: u32,
}

/// The texts and threads to which events refer by number.
///
/// The result for a number never changes. `None` is the result for unknown numbers, such as numbers
/// in a damaged file: a field with such a number is written without a value.
pub trait Tables {
    /// Returns a text.
    fn text(&self, id: TextId) -> Option<&str>;

    /// Returns a thread.
    fn thread(&self, id: ThreadId) -> Option<Thread<'_>>;
}
