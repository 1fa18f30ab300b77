//! The kinds of log rotation.

use std::str::FromStr;

/// A kind of rotation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rotation {
    /// `app.log` becomes `.1`, `.1` becomes `.2`, and so on.
    Rename,
    /// The file is renamed to a name with the date.
    Date,
    /// The file is copied to `.1` and truncated.
    Copytruncate,
    /// The file is deleted and recreated.
    Delete,
    /// The file is moved to another folder that is also watched.
    Move,
    /// Renamed as in [`Rotation::Rename`] and compressed; the uncompressed file is deleted.
    Gzip,
    /// Renamed, and all but the newest rotated files are deleted while the sink is behind.
    Expire,
}

impl Rotation {
    /// All kinds, in the order in which they alternate.
    pub const ALL: [Rotation; 7] = [
        Rotation::Rename,
        Rotation::Date,
        Rotation::Copytruncate,
        Rotation::Move,
        Rotation::Gzip,
        Rotation::Delete,
        Rotation::Expire,
    ];

    /// Returns the name of the rotation on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Rotation::Rename => "rename",
            Rotation::Date => "date",
            Rotation::Copytruncate => "copytruncate",
            Rotation::Delete => "delete",
            Rotation::Move => "move",
            Rotation::Gzip => "gzip",
            Rotation::Expire => "expire",
        }
    }
}

impl FromStr for Rotation {
    type Err = String;

    fn from_str(text: &str) -> Result<Rotation, String> {
        let names = || Rotation::ALL.map(Rotation::name).join(", ");
        let found = Rotation::ALL.into_iter().find(|rotation| rotation.name() == text);
        found.ok_or_else(|| format!("no such rotation; use some of {}", names()))
    }
}
