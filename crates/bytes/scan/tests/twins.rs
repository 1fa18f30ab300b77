//! Compares every kernel with its scalar twin, for all lengths, alignments and hit positions, and
//! for random text.

use millstream_scan::kernels::{self, Kernel};
use millstream_scan::{
    ByteSet, KeySecrets, StatsdLine, StatsdLines, TagOffsets, TagSyntax, scalar,
};
use millstream_testkit_random::{TestSize, property};
use proptest::prelude::*;

const LEN_MAX: usize = 300;
const ALIGNMENTS: usize = 64;

/// A 64-byte aligned buffer with capacity for every block under test.
#[repr(align(64))]
struct Buffer([u8; ALIGNMENTS + LEN_MAX + 64]);

/// Calls `check` with a block of `fill`, for every length and every alignment. The surrounding
/// bytes are `guard`, which is a hit, so that an out-of-bounds read changes the result.
fn for_every_block(fill: u8, guard: u8, mut check: impl FnMut(&mut [u8])) {
    let mut buffer = Buffer([guard; ALIGNMENTS + LEN_MAX + 64]);
    for alignment in 0..ALIGNMENTS {
        for len in 0..=LEN_MAX {
            let block = &mut buffer.0[alignment..alignment + len];
            block.fill(fill);
            check(block);
            block.fill(guard);
        }
    }
}

/// Returns all kernels except the scalar one, which would take most of an exhaustive test's time.
fn simd_kernels() -> Vec<Kernel> {
    kernels::available().into_iter().filter(|kernel| kernel.name() != "scalar").collect()
}

fn newlines(kernel: Kernel, block: &[u8]) -> Vec<u32> {
    let mut out = vec![7];
    kernel.newlines(block, &mut out);
    assert_eq!(out.remove(0), 7, "existing values are kept");
    out
}

fn escape(kernel: Kernel, text: &[u8]) -> Vec<u8> {
    let mut out = vec![b'>'];
    kernel.escape_json(text, &mut out);
    assert_eq!(out.remove(0), b'>', "existing bytes are kept");
    out
}

/// Compares every function of every kernel, and the public functions, with the scalar twins.
fn compare(block: &[u8]) {
    let (mut lines, mut json, mut public) = (Vec::new(), Vec::new(), Vec::new());
    scalar::newlines(block, &mut lines);
    scalar::escape_json(block, &mut json);
    millstream_scan::newlines(block, &mut public);
    assert_eq!(public, lines, "{block:?}");
    for kernel in kernels::available() {
        assert_eq!(newlines(kernel, block), lines, "{kernel:?} {block:?}");
        assert_eq!(kernel.count_newlines(block), lines.len(), "{kernel:?} {block:?}");
        assert_eq!(
            kernel.last_newline(block),
            lines.last().map(|at| *at as usize),
            "{kernel:?} {block:?}"
        );
        assert_eq!(escape(kernel, block), json, "{kernel:?} {block:?}");
    }
    for set in [&b"\n"[..], b" \"\\]", b"0123456789", b"\0\x7f\x0f\x10oOaA", b""] {
        compare_set(block, &ByteSet::new(set));
    }
    compare_tags(block);
    compare_statsd(block);
    compare_joined(block);
}

/// Collects the lines of a message.
#[derive(Default, PartialEq, Debug)]
struct Lines(Vec<StatsdLine>);

impl StatsdLines for Lines {
    fn line(&mut self, line: StatsdLine) {
        self.0.push(line);
    }
}

/// Compares the StatsD scanner with its twin. Bytes for which other tests search are mapped to
/// StatsD delimiters as well.
fn compare_statsd(block: &[u8]) {
    let letter = |byte: &u8| match byte {
        b'"' => b'|',
        b'a' => b':',
        other => *other,
    };
    for text in [block.to_vec(), block.iter().map(letter).collect()] {
        let (mut expected, mut public) = (Lines::default(), Lines::default());
        scalar::statsd_lines(&text, &mut expected);
        millstream_scan::statsd_lines(&text, &mut public);
        assert_eq!(public, expected, "{text:?}");
        for kernel in kernels::available() {
            let mut found = Lines::default();
            kernel.statsd_lines(&text, &mut found);
            assert_eq!(found, expected, "{kernel:?} {text:?}");
        }
    }
}

/// Compares a split block with the whole block, and with longer and shorter blocks. Compares the
/// hash of the block with the hashes of copies.
fn compare_joined(block: &[u8]) {
    let secrets = KeySecrets::new(9);
    for kernel in kernels::available() {
        for at in [0, 1, 17, 64, 100, block.len()].into_iter().filter(|at| *at <= block.len()) {
            let (first, second) = block.split_at(at);
            assert!(kernel.is_joined(block, first, second), "{kernel:?} {at} {block:?}");
            assert_eq!(
                kernel.is_joined(first, block, b""),
                at == block.len(),
                "{kernel:?} {at} {block:?}"
            );
            let hash = |[first, second]: [&[u8]; 2]| kernel.hash_key(&secrets, 1, first, second);
            let copies = [first, second].map(<[u8]>::to_vec);
            assert_eq!(
                hash([first, second]),
                hash([&copies[0], &copies[1]]),
                "{kernel:?} {at} {block:?}"
            );
            if let Some((_, less)) = second.split_last() {
                assert!(!kernel.is_joined(block, first, less), "{kernel:?} {at} {block:?}");
            }
        }
    }
}

/// Compares the tag scanner with its twin. One syntax uses letters as delimiters, so that every
/// text contains tags.
fn compare_tags(text: &[u8]) {
    let dense = TagSyntax { split: b'"', ends: *b"a\n" };
    for syntax in [TagSyntax::PAIRS, TagSyntax::DOGSTATSD, dense] {
        let (mut expected, mut found) = (TagOffsets::default(), TagOffsets::default());
        scalar::tags(text, &syntax, &mut expected);
        found.ends.push(7);
        millstream_scan::tags(text, &syntax, &mut found);
        assert_eq!(found, expected, "{syntax:?} {text:?}");
        for kernel in kernels::available() {
            kernel.tags(text, &syntax, &mut found);
            assert_eq!(found, expected, "{kernel:?} {syntax:?} {text:?}");
        }
    }
}

/// Compares the set scanners with their twins.
fn compare_set(block: &[u8], set: &ByteSet) {
    let (mut positions, mut bits) = (vec![7], vec![7]);
    scalar::find(block, set, &mut positions);
    scalar::bitmap(block, set, &mut bits);
    for kernel in kernels::available() {
        let (mut found, mut map) = (vec![7], vec![7]);
        kernel.find(block, set, &mut found);
        kernel.bitmap(block, set, &mut map);
        assert_eq!(found, positions, "{kernel:?} {set:?} {block:?}");
        assert_eq!(map, bits, "{kernel:?} {set:?} {block:?}");
    }
}

#[test]
fn a_set_of_one_byte_contains_only_that_byte() {
    let all: Vec<u8> = (0..=u8::MAX).collect();
    for byte in 0..128 {
        let set = ByteSet::new(&[byte]);
        let (mut positions, mut bits) = (Vec::new(), Vec::new());
        millstream_scan::find(&all, &set, &mut positions);
        millstream_scan::bitmap(&all, &set, &mut bits);
        assert_eq!(positions, [u32::from(byte)]);
        let expected = |at: usize| if at == usize::from(byte) / 8 { 1 << (byte % 8) } else { 0 };
        assert_eq!(bits, (0..32).map(expected).collect::<Vec<u8>>());
        compare_set(&all, &set);
    }
}

#[test]
fn one_newline_at_every_length_alignment_and_position() {
    let kernels = simd_kernels();
    let mut out = Vec::new();
    for_every_block(b'a', b'\n', |block| {
        for at in 0..block.len() {
            block[at] = b'\n';
            for kernel in &kernels {
                out.clear();
                kernel.newlines(block, &mut out);
                assert_eq!(out, [at as u32], "{kernel:?} {block:?}");
                assert_eq!(kernel.last_newline(block), Some(at), "{kernel:?} {block:?}");
            }
            out.clear();
            millstream_scan::newlines(block, &mut out);
            assert_eq!(out, [at as u32], "{block:?}");
            block[at] = b'a';
        }
    });
}

#[test]
fn one_escape_at_every_length_alignment_and_position() {
    let kernels = simd_kernels();
    let mut out = Vec::new();
    for_every_block(b'a', 0x01, |block| {
        for at in 0..block.len() {
            block[at] = b'"';
            for kernel in &kernels {
                out.clear();
                kernel.escape_json(block, &mut out);
                let right = out.len() == block.len() + 1
                    && out[..at] == block[..at]
                    && out[at] == b'\\'
                    && out[at + 1..] == block[at..];
                assert!(right, "{kernel:?} {block:?} {out:?}");
            }
            block[at] = b'a';
        }
    });
}

#[test]
fn no_hits_and_only_hits_at_every_length_and_alignment() {
    for (fill, guard) in
        [(b'a', b'\n'), (b'a', b'"'), (b'\n', b'a'), (b'"', b'a'), (0x01, 0xff), (0xff, 0x01)]
    {
        for_every_block(fill, guard, |block| compare(block));
    }
}

#[test]
fn a_differing_byte_is_found_at_every_length_alignment_and_position() {
    let (kernels, same) = (simd_kernels(), [b'a'; LEN_MAX]);
    for_every_block(b'a', b'b', |block| {
        let len = block.len();
        for at in 0..len {
            block[at] = b'c';
            for (kernel, cut) in
                kernels.iter().flat_map(|kernel| [0, 5, len / 3, len].map(|cut| (kernel, cut)))
            {
                let (first, second) = same[..len].split_at(cut.min(len));
                assert!(
                    !kernel.is_joined(block, first, second),
                    "{kernel:?} {at} of {len}, cut at {cut}"
                );
            }
            block[at] = b'a';
        }
    });
}

#[test]
fn statsd_lines_have_their_delimiters() {
    let texts: [(&[u8], &[[u32; 5]]); 8] = [
        (b"", &[]),
        (b"\n", &[[0; 5]]),
        (b"a:1|c|#b", &[[1, 3, 5, 8, 8]]),
        (b"a:1|c|#b|c:d|e:f\n", &[[1, 3, 5, 8, 16]]),
        (b"a\nb:1\n\n:|\n", &[[1; 5], [3, 5, 5, 5, 5], [6; 5], [7, 8, 9, 9, 9]]),
        (b"a|b:c", &[[1, 1, 5, 5, 5]]),
        (b"a::|||||:\r", &[[1, 3, 4, 5, 10]]),
        (b"a:b:c|d:e\nf:g", &[[1, 5, 9, 9, 9], [11, 13, 13, 13, 13]]),
    ];
    for (text, expected) in texts {
        for kernel in kernels::available() {
            let mut found = Lines::default();
            kernel.statsd_lines(text, &mut found);
            let found: Vec<_> =
                found.0.iter().map(|l| [l.split, l.bars[0], l.bars[1], l.bars[2], l.end]).collect();
            assert_eq!(found, expected, "{kernel:?} {}", text.escape_ascii());
        }
    }
}

#[test]
fn every_byte_is_escaped_as_json_requires() {
    for byte in 0..=u8::MAX {
        for at in [0, 3, 9, 20, 31, 32, 40, 63] {
            let mut text = [b'.'; 64];
            text[at] = byte;
            compare(&text);
            compare(&text[..=at]);
        }
    }
    let text = b"\"\\\n\r\t\x08\x0c\x00\x0b\x1b\x1f\x7f/\xff\xc3\xa4";
    let json = b"\\\"\\\\\\n\\r\\t\\b\\f\\u0000\\u000b\\u001b\\u001f\x7f/\xff\xc3\xa4";
    for kernel in kernels::available() {
        assert_eq!(escape(kernel, text), json, "{kernel:?}");
    }
}

#[test]
fn a_carriage_return_is_data() {
    for kernel in kernels::available() {
        assert_eq!(newlines(kernel, b"a\r\n\n\rb"), [2, 3], "{kernel:?}");
        assert_eq!(kernel.count_newlines(b"a\r\n\n\rb"), 2, "{kernel:?}");
        assert_eq!(kernel.last_newline(b"a\r\n\n\rb"), Some(3), "{kernel:?}");
        assert_eq!(kernel.last_newline(b"a\r"), None, "{kernel:?}");
    }
}

#[test]
fn blocks_longer_than_a_stride() {
    for every in [1, 2, 5, 63, 64, 65, 178, 1023, 1024, 1025, 5000] {
        let block: Vec<u8> =
            (0..20_000).map(|at| if at % every == 0 { b'\n' } else { b'x' }).collect();
        compare(&block);
    }
}

#[test]
fn the_fastest_kernel_is_selected() {
    let names: Vec<_> = kernels::available().into_iter().map(Kernel::name).collect();
    assert_eq!(names[0], "scalar");
    assert_eq!(names.last(), Some(&millstream_scan::kernel()), "the fastest is last: {names:?}");
}

/// Blocks are adjacent to unreadable pages on either side, so that an out-of-bounds load would
/// fault.
#[cfg(unix)]
#[test]
fn no_byte_outside_the_block_is_read() {
    use rustix::mm::{MapFlags, MprotectFlags, ProtFlags, mmap_anonymous, mprotect, munmap};
    let page = 64 * 1024; // a multiple of every page size
    // SAFETY: this is a new private mapping of three pages. Only the middle page is used, as bytes,
    // until the mapping is unmapped.
    unsafe {
        let start = mmap_anonymous(
            std::ptr::null_mut(),
            3 * page,
            ProtFlags::READ | ProtFlags::WRITE,
            MapFlags::PRIVATE,
        )
        .expect("map");
        mprotect(start, page, MprotectFlags::empty()).expect("protect the page before");
        mprotect(start.add(2 * page), page, MprotectFlags::empty())
            .expect("protect the page after");
        let middle = std::slice::from_raw_parts_mut(start.add(page).cast::<u8>(), page);
        middle.fill(b'"');
        middle.iter_mut().step_by(7).for_each(|byte| *byte = b'\n');
        for len in 0..=LEN_MAX {
            compare(&middle[..len]);
            compare(&middle[page - len..]);
        }
        munmap(start, 3 * page).expect("unmap");
    }
}

/// Log-like text: mostly plain, some delimiters, and a few arbitrary bytes.
fn text() -> impl Strategy<Value = Vec<u8>> {
    let byte = prop_oneof![
        20 => b' '..=b'~',
        2 => prop::sample::select(b"\n\"\\\t\r".to_vec()),
        1 => any::<u8>(),
    ];
    prop::collection::vec(byte, 0..3000)
}

/// Number of cases per property.
const CASES: TestSize = TestSize { gate: 256, long: 10_000 };

proptest! {
    #![proptest_config(property(CASES))]

    #[test]
    fn random_text(text in text(), skip in 0_usize..64) {
        compare(&text[skip.min(text.len())..]);
    }

    #[test]
    fn random_bytes(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        compare(&bytes);
    }

    #[test]
    fn dense_tags(text in prop::collection::vec(prop::sample::select(b"==|| ::,,kkvv".to_vec()), 0..400)) {
        compare_tags(&text);
    }

    #[test]
    fn sparse_tags(text in prop::collection::vec(prop::sample::select(b"=|abcdefghijklmnopqrst".to_vec()), 0..400)) {
        compare_tags(&text);
    }

    #[test]
    fn dense_statsd(text in prop::collection::vec(prop::sample::select(b"::||\n\nabc#\r".to_vec()), 0..400)) {
        compare_statsd(&text);
    }

    #[test]
    fn sparse_statsd(
        text in prop::collection::vec(
            prop_oneof![1 => prop::sample::select(b":|\n".to_vec()), 30 => b'a'..=b'z'],
            0..900,
        ),
    ) {
        compare_statsd(&text);
    }

    #[test]
    fn dense_hits(bytes in prop::collection::vec(prop::sample::select(b"\n\n\n\"\\x\x01".to_vec()), 0..700)) {
        compare(&bytes);
    }
}

#[test]
fn string_end_is_found_at_every_length_alignment_and_position() {
    for_every_block(b'a', b'"', |block| {
        assert_eq!(millstream_scan::string_end(block, block.len() + 1), block.len() + 1);
        for at in (0..=block.len()).step_by(7) {
            assert_eq!(millstream_scan::string_end(block, at), block.len());
            for hit in (at..block.len()).step_by(5) {
                block[hit] = [b'"', b'\\', 0, 0x1f, b'\n'][hit % 5];
                assert_eq!(millstream_scan::string_end(block, at), hit, "{block:?} from {at}");
                block[hit] = b'a';
            }
        }
    });
}

proptest! {
    #![proptest_config(property(CASES))]

    #[test]
    fn string_end_matches_its_twin(
        text in proptest::collection::vec(prop_oneof![4 => 0x20..=0xFFu8, 1 => any::<u8>()], 0..100),
        from in 0..110usize,
    ) {
        prop_assert_eq!(millstream_scan::string_end(&text, from), scalar::string_end(&text, from));
    }
}

#[test]
fn tags_are_split_once_and_may_be_empty() {
    let string = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).expect("ASCII");
    let tags = |text: &str, syntax| {
        let mut offsets = TagOffsets::default();
        scalar::tags(text.as_bytes(), &syntax, &mut offsets);
        offsets
            .tags(text.as_bytes())
            .map(|tag| (string(tag.key), tag.value.map(string)))
            .collect::<Vec<_>>()
    };
    let pairs = |pairs: &[(&str, Option<&str>)]| -> Vec<(String, Option<String>)> {
        pairs.iter().map(|(key, value)| ((*key).to_owned(), value.map(str::to_owned))).collect()
    };
    assert_eq!(tags("", TagSyntax::PAIRS), []);
    assert_eq!(
        tags("a=bc|d=e f=", TagSyntax::PAIRS),
        pairs(&[("a", Some("bc")), ("d", Some("e")), ("f", Some(""))])
    );
    assert_eq!(
        tags("a=b=c||=x|k", TagSyntax::PAIRS),
        pairs(&[("a", Some("b=c")), ("", None), ("", Some("x")), ("k", None)])
    );
    assert_eq!(
        tags("url:http://x,prod,", TagSyntax::DOGSTATSD),
        pairs(&[("url", Some("http://x")), ("prod", None), ("", None)])
    );
}
