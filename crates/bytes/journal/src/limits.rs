//! ReaderLimits that keep damaged or hostile files from using much memory.

/// ReaderLimits of a reader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReaderLimits {
    /// Maximum decompressed bytes of a field, with its name. A longer value is truncated, and
    /// [`Field::truncated`](crate::Field::truncated) is set. The default is 1 MiB.
    pub field_bytes_max: usize,
    /// Maximum decompressed bytes of all fields of an entry. Later fields are truncated. The
    /// default is 8 MiB; journald itself accepts entries of up to 1 GiB.
    pub entry_bytes_max: usize,
    /// Maximum number of fields of an entry. An entry with more fields is returned with the first
    /// ones and an error. The default is 1,024, the limit of journald.
    pub entry_fields_max: usize,
    /// Bytes of decoded fields that are kept because many entries refer to them. The default is
    /// 1 MiB.
    pub cache_bytes: usize,
    /// Bytes of the file that are kept in memory, in blocks of 64 KiB. The default is 2 MiB.
    pub block_bytes: usize,
}

impl Default for ReaderLimits {
    fn default() -> ReaderLimits {
        ReaderLimits {
            field_bytes_max: 1 << 20,
            entry_bytes_max: 8 << 20,
            entry_fields_max: 1024,
            cache_bytes: 1 << 20,
            block_bytes: 2 << 20,
        }
    }
}
