//! The kinds of log rotation.

use std::str::FromStr;

/// A kind of rotation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::IntoStaticStr, strum::VariantArray)]
#[strum(serialize_all = "snake_case")]
pub enum Rotation {
    /// `app.log` becomes `.1`, `.1` becomes `.2`, and so on.
    Rename,
    /// The file is renamed to a name with the date.
    Date,
    /// The file is copied to `.1` and truncated.
    Copytruncate,
    /// The file is moved to another folder that is also watched.
    Move,
    /// Renamed as in [`Rotation::Rename`] and compressed; the uncompressed file is deleted.
    Gzip,
    /// The file is deleted and recreated.
    Delete,
    /// Renamed, and all but the newest rotated files are deleted while the sink is behind.
    Expire,
}

impl Rotation {
    /// All kinds, in the order in which they alternate.
    pub const ALL: &[Rotation] = <Rotation as strum::VariantArray>::VARIANTS;

    /// Returns the name of the rotation on the command line.
    pub fn name(self) -> &'static str {
        self.into()
    }
}

impl FromStr for Rotation {
    type Err = String;

    fn from_str(text: &str) -> Result<Rotation, String> {
        let names =
            || Rotation::ALL.iter().map(|rotation| rotation.name()).collect::<Vec<_>>().join(", ");
        let found = Rotation::ALL.iter().copied().find(|rotation| rotation.name() == text);
        found.ok_or_else(|| format!("no such rotation; use some of {}", names()))
    }
}
