//! The declaration of a type: its name and fields.

/// The unit of a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// The chunk's ticks.
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
    /// Type id of the field's values.
    pub type_id: u64,
    /// Whether the field contains the key of a value in a pool.
    pub is_key: bool,
    /// Whether the field is an array.
    pub is_array: bool,
    /// The unit, if the field is a duration.
    pub unit: Option<Unit>,
}

/// An event type or value type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Type {
    /// Name of the type, such as `jdk.SocketWrite` or `java.lang.Thread`.
    pub name: String,
    /// Whether the type is an event type.
    pub is_event: bool,
    /// Fields of the type in encoding order.
    pub fields: Vec<Field>,
}
