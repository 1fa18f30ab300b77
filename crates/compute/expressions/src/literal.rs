//! Literals with which fields are compared.

/// A value with which a field is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Literal<'e> {
    /// A string, which equals only strings.
    Text(&'e [u8]),
    /// An integer, which equals every number with the same value.
    Int(i64),
}
