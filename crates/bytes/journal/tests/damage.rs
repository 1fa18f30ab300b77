//! Damaged journals: no panic, no invented data, and no missing entry that is undamaged.

use crate::fixtures::{NAMES, Whole, journal, open, rest, whole};
use millstream_journal::{Entry, Error, FieldId, JournalFile, ReaderLimits};
use millstream_testkit_random::{Seed, TestSize};
use std::collections::HashMap;
use std::ops::Range;

const CASES: TestSize = TestSize { gate: 300, long: 10_000 };

/// Bytes of the header that the reader uses.
const HEADER: Range<u64> = 0..208;

/// Type of an object that is not an array of entries.
const OTHER_KIND: u8 = 0x7F;

fn number(bytes: &[u8], at: u64) -> u64 {
    u64::from_le_bytes(bytes[at as usize..at as usize + 8].try_into().unwrap())
}

fn object(bytes: &[u8], offset: u64) -> Range<u64> {
    offset..offset + number(bytes, offset + 8)
}

/// A journal before the damage.
struct Original {
    name: &'static str,
    bytes: Vec<u8>,
    entries: Vec<Whole>,
    /// The objects that each entry consists of, and its item in an array.
    parts: Vec<Vec<Range<u64>>>,
    arrays: Vec<Range<u64>>,
    /// Where the objects behind the hash tables are.
    objects: Range<u64>,
}

impl Original {
    fn new(name: &'static str) -> Original {
        let bytes = journal(name);
        let mut reader = open(&bytes);
        let entries = rest(&mut reader);
        reader.seek_seqnum(0).unwrap();
        let mut parts: Vec<Vec<Range<u64>>> = Vec::new();
        while let Some(entry) = reader.next_entry().unwrap() {
            let fields = reader.field_ids().iter().map(|FieldId(offset)| *offset);
            parts.push(fields.chain([entry.offset]).map(|at| object(&bytes, at)).collect());
        }
        let mut arrays = Vec::new();
        let mut array = number(&bytes, 176);
        let width = if reader.header().is_compact() { 4 } else { 8 };
        let mut unlinked = parts.iter_mut();
        while array != 0 {
            let range = object(&bytes, array);
            let items = (array + 24..range.end).step_by(width);
            for (item, parts) in items.zip(unlinked.by_ref()) {
                parts.push(item..item + width as u64);
            }
            arrays.push(range);
            array = number(&bytes, array + 16);
        }
        let tables = number(&bytes, 104) + number(&bytes, 112);
        let tables = tables.max(number(&bytes, 120) + number(&bytes, 128));
        let objects = tables..object(&bytes, number(&bytes, 136)).end;
        Original { name, bytes, entries, parts, arrays, objects }
    }

    /// Damages a piece of the file, and returns where it is.
    fn damage(&self, bytes: &mut Vec<u8>, random: &mut fastrand::Rng) -> Range<u64> {
        let area = match random.u8(..10) {
            0 => HEADER,
            1 => {
                let array = &self.arrays[random.usize(..self.arrays.len())];
                array.start..array.start + 24
            }
            2 | 3 => {
                let entry = self.entries[random.usize(..self.entries.len())].entry;
                object(&self.bytes, entry.offset)
            }
            _ => self.objects.clone(),
        };
        let start = random.u64(area);
        let len = [1, 4, 8, 16, random.u64(1..512), 4096][random.usize(..6)];
        let end = (start + len).min(self.objects.end);
        let range = start as usize..end as usize;
        match random.u8(..10) {
            0..3 => bytes[start as usize] ^= 1 << random.u8(..8),
            3..5 => bytes[range].fill(0),
            5..7 => bytes[range].iter_mut().for_each(|byte| *byte = random.u8(..)),
            7 => bytes.truncate(start as usize),
            _ => {
                let from = random.u64(self.objects.start..self.objects.end - (end - start)) & !7;
                let piece = self.bytes[from as usize..(from + end - start) as usize].to_vec();
                bytes[range].copy_from_slice(&piece);
            }
        }
        start..if bytes.len() < self.objects.end as usize { u64::MAX } else { end }
    }

    /// Reads a damaged copy, and checks what is read.
    fn check(&self, bytes: &[u8], damage: &Range<u64>) {
        let limits = ReaderLimits { block_bytes: 0, ..ReaderLimits::default() };
        let Ok(mut journal) = JournalFile::open(bytes, limits) else {
            assert!(touches(damage, &HEADER));
            return;
        };
        let expected: HashMap<u64, &Whole> =
            self.entries.iter().map(|entry| (entry.entry.seqnum, entry)).collect();
        let mut complete = Vec::new();
        let mut errors = 0;
        loop {
            match journal.next_entry() {
                Ok(None) => break,
                Ok(Some(entry)) => match whole(&mut journal, entry) {
                    Ok(read) => {
                        let known = expected.get(&entry.seqnum);
                        let original = known.unwrap_or_else(|| panic!("invented {read:?}"));
                        assert_read(original, &read, damage);
                        if read.errors.is_empty() {
                            complete.push(entry.seqnum);
                        }
                    }
                    Err(error) => assert!(matches!(error, Error::Damaged { .. })),
                },
                Err(error) => assert!(matches!(error, Error::Damaged { .. })),
            }
            errors += 1;
            assert!(errors < 10_000, "endless");
        }
        assert!(complete.is_sorted_by(|one, other| one < other), "{complete:?}");
        self.assert_complete(&complete, damage);
        let last = self.entries.len() as u64;
        journal.seek_seqnum(last / 2).unwrap();
        journal.seek_realtime(self.entries[5].entry.realtime).unwrap();
        let _ = journal.find_field(b"_SYSTEMD_UNIT=nginx.service");
    }

    /// Checks that every undamaged entry was read. If the arrays are damaged, these are the entries
    /// before the damage.
    fn assert_complete(&self, read: &[u64], damage: &Range<u64>) {
        if touches(damage, &HEADER) {
            return;
        }
        let in_arrays = self.arrays.iter().any(|array| touches(damage, array));
        for (entry, parts) in self.entries.iter().zip(&self.parts) {
            let seqnum = entry.entry.seqnum;
            let is_before = parts.iter().all(|part| part.end <= damage.start);
            if parts.iter().any(|part| touches(damage, part)) || (in_arrays && !is_before) {
                continue;
            }
            assert!(read.contains(&seqnum), "{}: entry {seqnum} is missing, {damage:?}", self.name);
        }
    }
}

fn touches(one: &Range<u64>, other: &Range<u64>) -> bool {
    one.start < other.end && other.start < one.end
}

/// Checks that an entry equals the original, without its damaged fields. The times and the boot of
/// an entry have no hash, and a hash of zero is the hash of an entry whose fields are all repeated.
/// A copied piece of the file may contain the entry, so the offset may differ.
fn assert_read(original: &Whole, read: &Whole, damage: &Range<u64>) {
    let offset = read.entry.offset;
    if !touches(damage, &(offset + 24..offset + 64)) {
        assert_eq!(read.entry, Entry { offset, ..original.entry });
    }
    for pair in &read.pairs {
        assert!(original.pairs.contains(pair), "invented {pair:?} in {read:?}");
    }
    if read.errors.is_empty() {
        assert_eq!(read.pairs, original.pairs);
    }
}

#[test]
fn damage_invents_nothing_and_hides_only_what_it_hits() {
    let originals: Vec<Original> = NAMES.iter().map(|name| Original::new(name)).collect();
    for seed in Seed::of_test().cases(CASES) {
        let mut random = fastrand::Rng::with_seed(seed);
        let original = &originals[random.usize(..originals.len())];
        let mut bytes = original.bytes[..original.objects.end as usize].to_vec();
        let damage = original.damage(&mut bytes, &mut random);
        original.check(&bytes, &damage);
    }
}

/// Breaks the chain of arrays, so that the reader scans for entries, and copies two entries over two
/// later ones.
#[test]
fn a_copied_piece_repeats_no_entries() {
    let mut copies = 0;
    for name in NAMES {
        let original = Original::new(name);
        let offsets: Vec<u64> = original.entries.iter().map(|entry| entry.entry.offset).collect();
        let distance = |at: &usize| offsets[at + 1] - offsets[*at];
        let last = offsets.len() - 2;
        let Some(from) = (2..last - 3).find(|at| distance(at) == distance(&last)) else { continue };
        let mut bytes = original.bytes.clone();
        let broken = original.arrays[1].start;
        bytes[broken as usize] = OTHER_KIND;
        let piece = offsets[from] as usize..object(&bytes, offsets[from + 1]).end as usize;
        let end = offsets[last] + piece.len() as u64;
        bytes.copy_within(piece, offsets[last] as usize);
        original.check(&bytes, &(broken..end));
        copies += 1;
    }
    assert!(copies > 0);
}
