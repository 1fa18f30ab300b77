//! Ids of the values to which events refer.

/// The id of a string in a recording's table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TextId(pub u32);

/// The id of a thread in a recording's table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ThreadId(pub u32);

/// The id of the file, connection or component that an event is about, or 0 if it is unknown. Two
/// connections to the same address have different ids.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SubjectId(pub u32);
