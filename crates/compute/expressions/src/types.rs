//! The static types of expressions.

/// A set of types.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Types(u16);

const NAMES: [&str; 9] = [
    "null",
    "a boolean",
    "an int",
    "a double",
    "a string",
    "a timestamp",
    "a duration",
    "a list",
    "a map",
];

impl Types {
    pub const NONE: Types = Types(0);
    pub const NULL: Types = Types(1);
    pub const BOOL: Types = Types(1 << 1);
    pub const INT: Types = Types(1 << 2);
    pub const DOUBLE: Types = Types(1 << 3);
    pub const TEXT: Types = Types(1 << 4);
    pub const TIME: Types = Types(1 << 5);
    pub const DURATION: Types = Types(1 << 6);
    pub const LIST: Types = Types(1 << 7);
    pub const MAP: Types = Types(1 << 8);
    pub const ANY: Types = Types(0x1FF);
    pub const NUMBER: Types = Types::INT.or(Types::DOUBLE);

    pub const fn or(self, other: Types) -> Types {
        Types(self.0 | other.0)
    }

    pub const fn and(self, other: Types) -> Types {
        Types(self.0 & other.0)
    }

    pub const fn is_none(self) -> bool {
        self.0 == 0
    }

    pub const fn is_same(self, other: Types) -> bool {
        self.0 == other.0
    }

    pub fn can_be(self, other: Types) -> bool {
        !self.and(other).is_none()
    }

    /// Returns each type in the set as a set with a single type.
    pub fn each(self) -> impl Iterator<Item = Types> {
        (0..NAMES.len()).map(|bit| Types(1 << bit)).filter(move |one| self.can_be(*one))
    }

    /// Describes the set in words, such as `a string or null`.
    pub fn words(self) -> String {
        let set = (0..NAMES.len()).filter(|bit| self.can_be(Types(1 << bit)));
        set.map(|bit| NAMES[bit]).collect::<Vec<_>>().join(" or ")
    }
}
