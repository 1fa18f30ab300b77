//! Encodes text, and compares it byte for byte.

use super::*;
use arrow_buffer::BooleanBuffer;
use millstream_model::{BlockPool, Counters, Grant, Ledger};
use millstream_testkit::{Rows, batch};
use millstream_testkit_random::{TestSize, property};
use proptest::prelude::*;

/// Encodes a batch. Returns the bytes, and how many of them share memory with the block.
fn encode(batch: &Batch) -> (Vec<u8>, usize) {
    let (pool, grant, counters) = (BlockPool::new(), Grant::new(1 << 30), Counters::default());
    let mut permit = grant.try_take(1 << 20).unwrap();
    let mut payload = Payload::new(batch.events() as u64);
    let mut cx = EncodeCx { pool: &pool, permit: &mut permit, counters: &counters, refused: None };
    TextEncoder.encode(batch, &mut payload, &mut cx).unwrap();
    let block = batch.block.as_ptr_range();
    let shared = payload
        .parts
        .iter()
        .filter(|part| block.contains(&part.as_ptr()))
        .map(|part| part.len())
        .sum();
    (payload.parts.concat(), shared)
}

fn of(text: &[u8]) -> Batch {
    batch(&[Rows { name: "f", text }], usize::MAX, &Grant::new(1 << 30), &Ledger::new())
}

/// Adjacent lines of a full block are emitted without a copy, and so are long runs around filtered
/// rows.
#[test]
fn a_full_block_is_not_copied() {
    let text = format!("{}\n", "x".repeat(99)).repeat(2000).into_bytes();
    let mut batch = of(&text);
    assert_eq!(encode(&batch), (text.clone(), text.len()));
    batch.select(BooleanBuffer::collect_bool(2000, |row| row != 1000));
    assert_eq!(encode(&batch), (text[100..].to_vec(), text.len() - 100));
}

/// A few lines of a large block are copied, so that the block can be freed. Lines that do not end
/// with `\n` alone are also copied.
#[test]
fn few_lines_and_other_line_ends_are_copied() {
    let mut batch = of(&format!("{}\n", "x".repeat(99)).repeat(2000).into_bytes());
    batch.select(BooleanBuffer::collect_bool(2000, |row| row == 7));
    assert_eq!(encode(&batch), (format!("{}\n", "x".repeat(99)).into_bytes(), 0));
    let crlf = format!("{}\r\n", "x".repeat(98)).repeat(2000);
    assert_eq!(encode(&of(crlf.as_bytes())), (crlf.replace('\r', "").into_bytes(), 0));
}

fn part() -> impl Strategy<Value = Vec<u8>> {
    let byte =
        prop_oneof![8 => b'a'..b'f', 1 => any::<u8>().prop_filter("no newline", |b| *b != b'\n')];
    let line = (
        prop::collection::vec(byte, 0..6),
        prop_oneof![0..40usize, 0..3000usize],
        prop::bool::weighted(0.02),
    );
    prop::collection::vec(line, 0..120).prop_map(|lines| {
        let mut text = Vec::new();
        for (pattern, length, cr) in lines {
            text.extend(pattern.iter().cycle().take(length));
            text.extend_from_slice(if cr { b"\r\n" } else { b"\n" });
        }
        text
    })
}

/// Generates a selection of rows: all, or runs with gaps between them.
fn kept() -> impl Strategy<Value = Option<Vec<(usize, usize)>>> {
    prop::option::of(prop::collection::vec((1..60usize, 1..20usize), 1..40))
}

/// Number of cases per property.
const CASES: TestSize = TestSize { gate: 256, long: 10_000 };

proptest! {
    #![proptest_config(property(CASES))]

    /// For all lines and selections, copied or not, the output is the selected lines, byte for
    /// byte.
    #[test]
    fn selected_lines_are_encoded_unchanged(
        parts in prop::collection::vec(part(), 1..4),
        runs in kept(),
        line_max in prop_oneof![3 => Just(usize::MAX), 1 => 4..2000usize],
    ) {
        let rows: Vec<Rows<'_>> = parts.iter().map(|text| Rows { name: "f", text }).collect();
        let grant = Grant::new(1 << 30);
        let mut batch = batch(&rows, line_max, &grant, &Ledger::new());
        if let Some(runs) = runs {
            let pattern = runs.iter().flat_map(|(keep, drop)| [vec![true; *keep], vec![false; *drop]].concat());
            let keep: Vec<bool> = pattern.collect::<Vec<_>>().into_iter().cycle().take(batch.rows()).collect();
            batch.select(BooleanBuffer::from(keep));
        }
        let selected = (0..batch.rows()).filter(|row| batch.is_selected(*row));
        let expected: Vec<u8> = selected.flat_map(|row| [batch.text(row), b"\n"].concat()).collect();
        prop_assert!(encode(&batch).0 == expected);
        drop(batch);
        prop_assert_eq!(grant.used(), 0);
    }
}
