//! Numbers of the values to which events refer.

/// The number of a text in the table of a recording.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TextId(pub u32);

/// The number of a thread in the table of a recording.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ThreadId(pub u32);

/// The number of a file, connection or component that events are about; 0 if unknown. Two
/// connections to the same address have different numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SubjectId(pub u32);
