//! The size of the program.

use super::recorded;
use crate::support::millstream;
use std::fs;

/// Type of a segment that is loaded into memory.
const PT_LOAD: usize = 1;

/// Reads a little-endian number.
fn number(bytes: &[u8], at: usize, length: usize) -> usize {
    bytes[at..at + length].iter().rev().fold(0, |value, byte| (value << 8) | usize::from(*byte))
}

/// Returns the bytes of an ELF file that are loaded into memory, which symbols and debug
/// information are not part of.
fn loaded_bytes(file: &[u8]) -> usize {
    assert_eq!(file[..5], *b"\x7fELF\x02", "a 64-bit ELF file");
    let (table, entry, count) = (number(file, 32, 8), number(file, 54, 2), number(file, 56, 2));
    let segments = (0..count).map(|index| &file[table + index * entry..][..entry]);
    let loaded = segments.filter(|segment| number(segment, 0, 4) == PT_LOAD);
    loaded.map(|segment| number(segment, 32, 8)).sum()
}

/// The program of packages takes too long to build here, so the limit holds for the program of
/// tests, which grows for the same reasons. `scripts/dist-test` checks packages.
#[test]
fn the_program_does_not_grow_unnoticed() {
    let size = loaded_bytes(&fs::read(millstream()).unwrap()) >> 20;
    let limit = recorded("test_program_mib");
    assert!(
        size <= limit,
        "the program has grown to {size} MiB: find out why (cargo-bloat), or write \
         test_program_mib = {size} into tests/tidy/ratchet.toml and the reason into the commit"
    );
}
