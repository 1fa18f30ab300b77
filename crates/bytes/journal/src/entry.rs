//! What the reader returns.

/// A 128-bit id, such as a machine id or a boot id.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Id(pub [u8; 16]);

impl std::fmt::Display for Id {
    /// Writes 32 lowercase hexadecimal digits, as journalctl does.
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{:032x}", u128::from_be_bytes(self.0))
    }
}

impl std::fmt::Debug for Id {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{self}")
    }
}

/// A pair of a field's name and value in a file. Entries with the same pair share the id, which
/// stays valid as long as the file exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FieldId(pub u64);

/// An entry, without its fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Number of the entry. Numbers increase in a file, and are unique in files with the same
    /// [`seqnum_id`](crate::Header::seqnum_id).
    pub seqnum: u64,
    /// Time at which journald received the entry, in microseconds since 1970.
    pub realtime: u64,
    /// Time since the boot in microseconds.
    pub monotonic: u64,
    /// Boot to which the monotonic time belongs.
    pub boot_id: Id,
    /// Hash of all fields, regardless of their order.
    pub xor_hash: u64,
    /// Offset of the entry in the file, in bytes.
    pub offset: u64,
}

/// A field of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field<'a> {
    /// Id of the pair of name and value.
    pub id: FieldId,
    /// Name, such as `MESSAGE`.
    pub name: &'a [u8],
    /// Value, which is any bytes.
    pub value: &'a [u8],
    /// Complete length of the value in bytes if the value is longer than the limits permit, and
    /// therefore truncated. For a value that is compressed with xz, the length may be longer still.
    pub truncated: Option<u64>,
}
