//! SIMD kernels compared with their twins.

use millstream_scan::kernels::{Kernel, available};
use millstream_scan::{ByteSet, scalar, string_end};

pub const WORDS: &[&[u8]] = &[
    b"\n",
    b"\r\n",
    b"\"",
    b"\\",
    b"\0",
    b"\x1f",
    b"\x7f",
    b"\x80",
    b"\xFF",
    b" ",
    b"0",
    b"o",
    b"\x0f\x8f\x10\x90",
    &[b'x'; 15],
    &[b'x'; 16],
    &[b'x'; 31],
    &[b'x'; 63],
    &[b'x'; 64],
    &[b'\n'; 64],
    &[b'"'; 33],
];

/// Positions in the input at which blocks begin, so that they have different alignments.
const SHIFTS: [usize; 4] = [0, 1, 7, 33];

const SETS: [&[u8]; 5] = [b"\n", b" \"\\]", b"0123456789", b"\0\x7f\x0f\x10oOaA", b""];

/// Checks that every kernel returns the same as its scalar twin.
pub fn scan(input: &[u8]) {
    for block in SHIFTS.iter().filter_map(|shift| input.get(*shift..)) {
        newlines(block);
        escapes(block);
        SETS.iter().for_each(|set| sets(block, &ByteSet::new(set)));
        for from in [0, 1, block.len() / 2, block.len(), block.len() + 3] {
            assert_eq!(string_end(block, from), scalar::string_end(block, from), "from {from}");
        }
    }
}

/// Returns the values that a kernel's function appends, and checks that existing values are
/// unchanged.
fn appended<T: Copy + Default + PartialEq + std::fmt::Debug>(
    append: impl FnOnce(&mut Vec<T>),
) -> Vec<T> {
    let mut out = vec![T::default(); 3];
    append(&mut out);
    assert_eq!(out[..3], [T::default(); 3], "existing entries remain");
    out.split_off(3)
}

fn newlines(block: &[u8]) {
    let expected = appended(|out| scalar::newlines(block, out));
    assert_eq!(appended(|out| millstream_scan::newlines(block, out)), expected);
    for kernel in available() {
        let name = kernel.name();
        assert_eq!(appended(|out| kernel.newlines(block, out)), expected, "{name}");
        assert_eq!(kernel.count_newlines(block), scalar::count_newlines(block), "{name}");
        assert_eq!(kernel.last_newline(block), scalar::last_newline(block), "{name}");
    }
}

fn escapes(block: &[u8]) {
    let expected = appended(|out| scalar::escape_json(block, out));
    let escaped = |kernel: Kernel| appended(|out| kernel.escape_json(block, out));
    available()
        .into_iter()
        .for_each(|kernel| assert_eq!(escaped(kernel), expected, "{}", kernel.name()));
}

fn sets(block: &[u8], set: &ByteSet) {
    let places = appended(|out| scalar::find(block, set, out));
    let bits = appended(|out| scalar::bitmap(block, set, out));
    for kernel in available() {
        assert_eq!(
            appended(|out| kernel.find(block, set, out)),
            places,
            "{} {set:?}",
            kernel.name()
        );
        assert_eq!(
            appended(|out| kernel.bitmap(block, set, out)),
            bits,
            "{} {set:?}",
            kernel.name()
        );
    }
}
