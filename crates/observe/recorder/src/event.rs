//! Recorded events and the values to which they refer.

use crate::ids::{SubjectId, TextId, ThreadId};
use crate::schema::{EventKind, FIELDS_MAX, Value};

/// A recorded event.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Event {
    /// Type of the event.
    pub kind: EventKind,
    /// The thread that recorded the event.
    pub thread: ThreadId,
    /// Subject of the event. JFR files do not contain it.
    pub subject: SubjectId,
    /// Start of the event, in ticks of the recording's clock.
    pub start_ticks: u64,
    /// Time from start to end in ticks. Ignored for types that have no duration.
    pub duration_ticks: u64,
    /// The bits of each field, as returned by [`bits`]. Values after the last field are ignored.
    pub values: [u64; FIELDS_MAX],
}

/// Returns the bits of an event's fields, which must be in the order of their declaration.
pub fn bits<const N: usize>(fields: [Value; N]) -> [u64; FIELDS_MAX] {
    const { assert!(N <= FIELDS_MAX) };
    let mut all = [0; FIELDS_MAX];
    for (bits, value) in all.iter_mut().zip(fields) {
        *bits = value.to_bits();
    }
    all
}

/// A thread of the recorded process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Thread<'t> {
    /// Name of the thread.
    pub name: &'t str,
    /// System id of the thread.
    pub os_id: u32,
}

/// The strings and threads to which events refer by id.
///
/// The result for an id never changes. The result is `None` for an unknown id, which occurs, for
/// example, if the file is damaged. A field with an unknown id is written without a value.
pub trait Tables {
    /// Returns the string with this id.
    fn text(&self, id: TextId) -> Option<&str>;

    /// Returns the thread with this id.
    fn thread(&self, id: ThreadId) -> Option<Thread<'_>>;
}
