//! The declaration of a type: its name and fields.

/// The unit of a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Ticks of the chunk.
    Ticks,
    /// Nanoseconds.
    Nanoseconds,
    /// Milliseconds.
    Milliseconds,
    /// Seconds.
    Seconds,
}

/// A field of a type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Field {
    /// Name of the field.
    pub name: String,
    /// Number of the type of its value.
    pub type_id: u64,
    /// Whether the field contains the key of a value in a constant pool.
    pub is_key: bool,
    /// Whether the field is an array.
    pub is_array: bool,
    /// The unit of a duration field.
    pub unit: Option<Unit>,
}

/// A type of events or values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Type {
    /// Name of the type, such as `jdk.SocketWrite` or `java.lang.Thread`.
    pub name: String,
    /// Whether the type is an event type.
    pub is_event: bool,
    /// Fields of the type, in the order of their bytes.
    pub fields: Vec<Field>,
}
