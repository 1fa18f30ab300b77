//! Snapshots of windows, as read back from disk.

use millstream_components::transforms::rewrite_snapshot;

pub const WORDS: &[&[u8]] = &[
    b"D\0\0\0\0",
    b"W\0\0\0\0\0\0\0\0\0\0\0\0",
    b"G\0\0\0\0\0\0\0\0",
    b"O\0\0\0\0\0\0\0\0",
    b"P\0\0\0\0\0\0\0\0",
    b"E\0\0\0\0\0\0\0\0",
    b"S\x01\0\0\0\0\0\0\0",
    b"R",
    b"\x01\0\0\0",
    b"\xFF\xFF\xFF\xFF",
    b"\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF",
    b"\0\0\0\0\0\0\xF0\x3F",
    b"\"count()\"",
    b"\"quantile(a, 0.5)\"",
    b"\"top(a, 3)\"",
    b"\"distinct(a)\"",
    b"\"last(a)\"",
    b"\"group_by\":[\"a\"]",
    b"\"samples\":2",
    b"\"window_s\":10",
    b"\"lateness_ns\":null",
    b"\"groups_max\":1",
];

/// Checks that a parsed snapshot can be written and read again, and that the second write yields
/// the same bytes.
pub fn windows(input: &[u8]) {
    let Some(written) = rewrite_snapshot(input) else { return };
    let again = rewrite_snapshot(&written);
    assert!(again.as_ref() == Some(&written), "{again:?} of {written:?}");
    // A snapshot is a list of changes, in which definitions must not be repeated.
    let twice = [&written[..], &written[..]].concat();
    let has_definitions = written.first() == Some(&b'D');
    assert!(!has_definitions || rewrite_snapshot(&twice).is_none(), "defined twice");
}
