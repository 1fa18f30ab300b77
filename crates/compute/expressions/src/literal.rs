//! Literals that fields are compared with.

/// A value that a field is compared with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Literal<'e> {
    /// A string: equal only to strings.
    Text(&'e [u8]),
    /// An integer: equal to every number of the same value.
    Int(i64),
}
