//! Handwritten answers: valid, invalid and mutated ones.

use super::{Parsed, parse};
use crate::answer::{ColumnPlace, FailureReason};
use crate::error::CallError;
use crate::input::{Input, InputColumn};
use crate::layout;
use millstream_columns::{Cell, Kind};
use millstream_testkit_random::{Seed, TestSize};

const BLOCK: &[u8] = br#"GET /index 200 a\n"#;
const OWN: &[u8] = b"own value";
const RULES: usize = 2;
const ROWS: usize = 5;
/// Bytes of a buffer that an answer leaves unused.
const SPARE_BYTES: usize = 1024;

/// A changed column of an answer.
#[derive(Clone)]
struct Changed {
    column: i64,
    name: &'static str,
    cells: Vec<u64>,
}

/// An answer that is written into memory as Java would write it.
#[derive(Clone, Default)]
struct Written {
    values: Vec<u8>,
    changed: Vec<Changed>,
    emitted: Vec<u32>,
    dropped: Vec<u32>,
    failed: Vec<(i64, i64, i64, &'static str)>,
}

fn align(out: &mut Vec<u8>) {
    out.resize(out.len().next_multiple_of(8), 0);
}

fn put(out: &mut Vec<u8>, bytes: &[u8]) -> i64 {
    align(out);
    let at = out.len() as i64;
    out.extend_from_slice(bytes);
    at
}

fn words(words: &[i64]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_ne_bytes()).collect()
}

fn rows(rows: &[u32]) -> Vec<u8> {
    rows.iter().flat_map(|row| row.to_ne_bytes()).collect()
}

impl Written {
    /// Writes the answer, and returns the memory and the answer's offset.
    fn memory(&self) -> (Vec<u8>, i64) {
        let mut out = self.values.clone();
        let mut changed = Vec::new();
        for column in &self.changed {
            let name = put(&mut out, column.name.as_bytes());
            let cells: Vec<u8> = column.cells.iter().flat_map(|cell| cell.to_ne_bytes()).collect();
            let cells = put(&mut out, &cells);
            changed.extend([column.column, name, column.name.len() as i64, cells]);
        }
        let mut failed = Vec::new();
        for (row, reason, rule, message) in &self.failed {
            let at = put(&mut out, message.as_bytes());
            failed.extend([*row, *reason, *rule, at, message.len() as i64]);
        }
        let entries = [
            self.values.len() as i64,
            put(&mut out, &words(&changed)),
            self.changed.len() as i64,
            put(&mut out, &rows(&self.emitted)),
            self.emitted.len() as i64,
            put(&mut out, &rows(&self.dropped)),
            self.dropped.len() as i64,
            put(&mut out, &words(&failed)),
            self.failed.len() as i64,
        ];
        let answer = put(&mut out, &words(&entries));
        out.resize(out.len() + SPARE_BYTES, 0xAA);
        (out, answer)
    }

    fn parse(&self) -> Result<Parsed, CallError> {
        let (memory, answer) = self.memory();
        with_input(|input| parse(&memory, answer, input, RULES))
    }

    fn fault(&self) -> &'static str {
        match self.parse() {
            Err(CallError::Invalid(fault)) => fault,
            other => panic!("{other:?}"),
        }
    }
}

/// Calls a function with five rows, of which row 3 is not selected.
fn with_input<T>(run: impl FnOnce(&Input<'_>) -> T) -> T {
    let message: Vec<Cell> = (0..ROWS).map(|row| Cell::new(Kind::Text, row, 3)).collect();
    let other = [
        Cell::own(Kind::Text, 0, 3),
        Cell::own(Kind::Text, 0, 3),
        Cell::new(Kind::Int, 11, 3),
        Cell::own(Kind::Text, 4, 5),
        Cell::new(Kind::Escaped, 15, 2),
    ];
    let columns = [
        InputColumn { name: "message", cells: &message, own: b"" },
        InputColumn { name: "other", cells: &other, own: OWN },
    ];
    let (block, selected) = (BLOCK, &[0, 1, 2, 4][..]);
    run(&Input {
        deadline: None,
        block,
        rows: ROWS,
        selected,
        columns: &columns,
        times: None,
        read_ns: 0,
        segments: &[],
        output_bytes_max: 0,
    })
}

const UNCHANGED: u64 = u64::MAX;

fn raw(kind: Kind, start: usize, len: usize) -> u64 {
    start as u64 | (len as u64) << 32 | (kind as u64) << 60
}

fn own(kind: Kind, start: usize, len: usize) -> u64 {
    raw(kind, start, len) | 1 << 31
}

/// Returns an answer that uses every feature.
fn whole() -> Written {
    Written {
        values: br#"12-1.5e32026-01-02T03:04:05Z{"a":1}[1]text"#.to_vec(),
        changed: vec![
            Changed {
                column: 1,
                name: "",
                cells: vec![
                    own(Kind::Int, 0, 2),
                    UNCHANGED,
                    UNCHANGED,
                    UNCHANGED,
                    UNCHANGED,
                    own(Kind::Float, 2, 6),
                    UNCHANGED,
                ],
            },
            Changed {
                column: 0,
                name: "",
                cells: vec![
                    own(Kind::Text, 38, 4),
                    UNCHANGED,
                    UNCHANGED,
                    UNCHANGED,
                    UNCHANGED,
                    UNCHANGED,
                    own(Kind::Array, 35, 3),
                ],
            },
            Changed {
                column: -1,
                name: "new",
                cells: vec![
                    own(Kind::Object, 28, 7),
                    0,
                    raw(Kind::Null, 0, 0),
                    UNCHANGED,
                    UNCHANGED,
                    0,
                    UNCHANGED,
                ],
            },
            Changed {
                column: -1,
                name: "timestamp",
                cells: [vec![own(Kind::Time, 8, 20)], vec![UNCHANGED; 6]].concat(),
            },
        ],
        emitted: vec![1, 1],
        dropped: vec![1, 2],
        failed: vec![(4, layout::REASON_WRONG_TYPE, 1, "message")],
    }
}

#[test]
fn an_answer_becomes_columns() {
    let parsed = whole().parse().unwrap();
    assert_eq!((parsed.value_bytes, &parsed.kept[..]), (42, &b"ownvalue"[..]));
    assert_eq!((parsed.emitted, parsed.dropped), (vec![1, 1], vec![1, 2]));
    let failure = &parsed.failed[0];
    assert_eq!((failure.row, failure.reason, failure.rule), (4, FailureReason::WrongType, 1));
    assert_eq!(&*failure.message, "message");
    let other = &parsed.columns[0];
    let expected = [
        Cell::own(Kind::Int, 0, 2),
        Cell::own(Kind::Text, 42, 3),
        Cell::new(Kind::Int, 11, 3),
        Cell::own(Kind::Text, 45, 5),
        Cell::new(Kind::Escaped, 15, 2),
        Cell::own(Kind::Float, 2, 6),
        Cell::ABSENT,
    ];
    assert_eq!((&other.place, &other.cells[..]), (&ColumnPlace::Existing(1), &expected[..]));
    let message = &parsed.columns[1].cells;
    assert_eq!(message[5], Cell::new(Kind::Text, 1, 3), "that of the row that emitted");
    assert_eq!(message[6], Cell::own(Kind::Array, 35, 3));
    let new = &parsed.columns[2];
    assert_eq!(new.place, ColumnPlace::New("new".into()));
    assert_eq!(
        (new.cells[2].kind(), new.cells[3], &new.removed[..]),
        (Kind::Null, Cell::ABSENT, &[1][..])
    );
    assert_eq!(parsed.columns[3].cells[0], Cell::own(Kind::Time, 8, 20));
}

#[test]
fn an_unchanged_value_of_any_kind_may_be_repeated() {
    let mut answer = whole();
    answer.failed.clear();
    answer.changed[0].cells[4] = raw(Kind::Escaped, 15, 2);
    assert_eq!(answer.parse().unwrap().columns[0].cells[4], Cell::new(Kind::Escaped, 15, 2));
    answer.changed[0].cells[4] = raw(Kind::Escaped, 16, 1);
    assert_eq!(answer.fault(), "a value does not have the form of its kind");
}

#[test]
fn equal_unchanged_values_share_their_bytes() {
    let cells = [vec![UNCHANGED; 4], vec![own(Kind::Int, 0, 2)]].concat();
    let changed = vec![Changed { column: 1, name: "", cells }];
    let answer = Written { values: b"12".to_vec(), changed, ..Written::default() };
    let parsed = answer.parse().unwrap();
    let cells = &parsed.columns[0].cells;
    assert_eq!((cells[0], cells[1]), (Cell::own(Kind::Text, 2, 3), Cell::own(Kind::Text, 2, 3)));
    assert_eq!(parsed.kept, b"ownvalue");
}

#[test]
fn failures_without_a_message_have_the_one_before() {
    let failed = vec![(0, 0, 0, ""), (1, 1, 0, "first"), (2, 2, 1, ""), (4, 5, 1, "last")];
    let parsed = Written { failed, ..Written::default() }.parse().unwrap();
    let messages: Vec<&str> = parsed.failed.iter().map(|failure| &*failure.message).collect();
    assert_eq!(messages, ["", "first", "first", "last"]);
}

#[test]
fn cells_that_are_wrong_are_refused() {
    let with = |cell: u64| {
        let mut answer = whole();
        answer.changed[0].cells[0] = cell;
        answer.fault()
    };
    let bounds = "a value is out of bounds";
    for cell in [
        own(Kind::Text, 38, 5),
        own(Kind::Text, 43, 0),
        raw(Kind::Text, 0, 19),
        raw(Kind::Text, 0x7FFF_FFFF, 0xFFF_FFFF),
    ] {
        assert_eq!(with(cell), bounds, "{cell:x}");
    }
    for cell in [12u64 << 60, 13 << 60, 15 << 60, (15 << 60) | 7] {
        assert_eq!(with(cell), "a cell has an unknown kind", "{cell:x}");
    }
    let forms = [
        own(Kind::Int, 2, 6),
        own(Kind::Float, 0, 2),
        own(Kind::Time, 9, 20),
        own(Kind::Object, 35, 3),
        own(Kind::Array, 28, 7),
        own(Kind::Escaped, 28, 7),
        own(Kind::Members, 29, 5),
        own(Kind::True, 0, 2),
        raw(Kind::Null, 3, 1),
        raw(Kind::Int, 0, 3),
    ];
    for cell in forms {
        assert_eq!(with(cell), "a value does not have the form of its kind", "{cell:x}");
    }
}

#[test]
fn rows_that_are_wrong_are_refused() {
    let fault = |change: fn(&mut Written)| {
        let mut answer = whole();
        change(&mut answer);
        answer.fault()
    };
    let not_selected = "a row was not selected";
    assert_eq!(fault(|a| a.dropped = vec![3]), not_selected);
    assert_eq!(fault(|a| a.dropped = vec![1, 5]), not_selected);
    assert_eq!(fault(|a| a.emitted = vec![1, 3]), not_selected);
    assert_eq!(fault(|a| a.failed[0].0 = 3), not_selected);
    assert_eq!(fault(|a| a.failed[0].0 = -1), "a failed row does not exist");
    assert_eq!(fault(|a| a.dropped = vec![2, 1]), "row numbers are not ascending");
    assert_eq!(fault(|a| a.dropped = vec![1, 1]), "a row is dropped twice");
    assert_eq!(fault(|a| a.dropped = vec![1, 4]), "a failed row was dropped or emitted an event");
    assert_eq!(fault(|a| a.failed.push(a.failed[0])), "a row failed twice");
    assert_eq!(fault(|a| a.failed[0].1 = 6), "a failure has an unknown reason");
    assert_eq!(fault(|a| a.failed[0].2 = 2), "a failure has an unknown rule");
    assert_eq!(fault(|a| a.changed[0].cells[3] = 0), "a row was changed that was not selected");
    assert_eq!(fault(|a| a.changed[0].cells[4] = 0), "a failed row was changed");
}

#[test]
fn columns_that_are_wrong_are_refused() {
    let fault = |change: fn(&mut Written)| {
        let mut answer = whole();
        change(&mut answer);
        answer.fault()
    };
    let name = "a new column has a duplicate name or no name";
    assert_eq!(fault(|a| a.changed[0].column = 2), "a changed column does not exist");
    assert_eq!(fault(|a| a.changed[0].column = -2), "a changed column does not exist");
    assert_eq!(fault(|a| a.changed[0].column = 0), "a column twice");
    assert_eq!(fault(|a| a.changed[3].name = "new"), "a column twice");
    assert_eq!(fault(|a| a.changed[2].name = ""), name);
    assert_eq!(fault(|a| a.changed[2].name = "other"), name);
    assert_eq!(
        fault(|a| a.changed[3].cells[0] = own(Kind::Int, 0, 2)),
        "a timestamp is not a time"
    );
    let many = |a: &mut Written| a.changed = vec![a.changed[2].clone(); 10_000];
    assert_eq!(fault(many), "a column twice");
}

#[test]
fn columns_that_share_their_cells_cannot_exceed_the_buffer() {
    let mut memory = vec![0; (layout::ANSWER_WORDS + 10 * layout::CHANGED_WORDS) as usize * 8];
    memory[..72].copy_from_slice(&words(&[0, 72, 10, 0, 0, 0, 0, 0, 0]));
    let result = with_input(|input| parse(&memory, 0, input, RULES));
    assert_eq!(result.unwrap_err(), CallError::Invalid("more columns than the buffer can hold"));
}

#[test]
fn texts_that_overlap_cannot_exceed_the_buffer() {
    let mut answer = whole();
    answer.values.resize(SPARE_BYTES * 4, b' ');
    let (memory, at) = answer.memory();
    let parse = |word: i64, entry_word: i64, value: i64| {
        let mut memory = memory.clone();
        let place = (at + word * 8) as usize;
        let entries = i64::from_ne_bytes(memory[place..place + 8].try_into().unwrap());
        let place = (entries + entry_word * 8) as usize;
        memory[place..place + 8].copy_from_slice(&value.to_ne_bytes());
        with_input(|input| parse(&memory, at, input, RULES).unwrap_err())
    };
    let len = memory.len() as i64;
    let names = parse(layout::ANSWER_CHANGED, layout::CHANGED_NAME_BYTES, len);
    assert_eq!(names, CallError::Invalid("more columns than the buffer can hold"));
    let messages = parse(layout::ANSWER_FAILED, layout::FAILED_MESSAGE_BYTES, len + 1);
    assert_eq!(messages, CallError::Invalid("more messages than the buffer can hold"));
}

#[test]
fn offsets_that_are_wrong_are_refused() {
    let (memory, answer) = whole().memory();
    let edges = [
        -1,
        1,
        3,
        7,
        i64::MIN,
        i64::MAX,
        i64::MAX - 7,
        1 << 32,
        memory.len() as i64,
        memory.len() as i64 - 8,
    ];
    let parse_at = |memory: &[u8], at| with_input(|input| parse(memory, at, input, RULES));
    for at in edges {
        assert!(parse_at(&memory, at).is_err(), "answer at {at}");
    }
    for word in [
        layout::ANSWER_CHANGED,
        layout::ANSWER_EMITTED,
        layout::ANSWER_DROPPED,
        layout::ANSWER_FAILED,
    ] {
        for edge in edges {
            for field in [word, word + 1] {
                let mut wrong = memory.clone();
                let place = answer as usize + field as usize * 8;
                wrong[place..place + 8].copy_from_slice(&edge.to_ne_bytes());
                // A count of 1, 3 or 7 may be valid by chance.
                let result = parse_at(&wrong, answer);
                assert!(result.is_err() || (1..8).contains(&edge), "word {field}: {edge}");
            }
        }
    }
}

/// Checks properties that must hold for every accepted answer.
fn check(parsed: &Parsed, memory: &[u8]) {
    let mut buffer = memory[..parsed.value_bytes].to_vec();
    buffer.extend_from_slice(&parsed.kept);
    let cells = parsed.columns.iter().flat_map(|column| &column.cells);
    for cell in cells {
        let values = if cell.is_own() { &buffer[..] } else { BLOCK };
        assert!(cell.start() + cell.len() <= values.len());
    }
    let numbers = [&parsed.emitted[..], &parsed.dropped[..]].concat();
    assert!(numbers.into_iter().all(|row| [0, 1, 2, 4].contains(&row)));
    for column in &parsed.columns {
        assert_eq!(column.cells.len(), ROWS + parsed.emitted.len());
    }
}

/// Number of mutated answers.
const ANSWERS: TestSize = TestSize { gate: 50_000, long: 1_000_000 };

#[test]
fn a_mutated_answer_never_leads_out_of_its_memory() {
    let mut random = Seed::of_test().random();
    let (memory, answer) = whole().memory();
    let (mut accepted, mut refused) = (0, 0);
    for _ in random.rounds(ANSWERS) {
        let mut memory = memory.clone();
        let used = memory.len() - SPARE_BYTES;
        for _ in 0..random.usize(1..4) {
            mutate(&mut memory[..used], &mut random);
        }
        match with_input(|input| parse(&memory, answer, input, RULES)) {
            Ok(parsed) => {
                check(&parsed, &memory);
                accepted += 1;
            }
            Err(_) => refused += 1,
        }
    }
    assert!(accepted > 1000 && refused > 1000, "{accepted} accepted, {refused} refused");
}

fn mutate(memory: &mut [u8], random: &mut fastrand::Rng) {
    let at = random.usize(0..memory.len() / 8) * 8;
    match random.u32(0..4) {
        0 => memory[at + random.usize(0..8)] ^= 1 << random.u32(0..8),
        1 => {
            let edges = [0, 1, -1, 8, i64::MIN, i64::MAX, 1 << 31, random.i64(-100..2000)];
            let edge = edges[random.usize(0..edges.len())];
            memory[at..at + 8].copy_from_slice(&edge.to_ne_bytes());
        }
        2 => {
            let from = random.usize(0..memory.len() / 8) * 8;
            memory.copy_within(from..from + 8, at);
        }
        _ => memory[at + random.usize(0..8)] = random.u8(..),
    }
}
