//! The lines of files, compared with the lines in the entire content.

use crate::identity::HEAD_BYTES_MAX;
use crate::source::tests::{Fixture, Line, deliver, end, lines, texts};
use flate2::Compression;
use flate2::write::GzEncoder;
use millstream_model::limits::{BATCH_ROWS_MAX, BLOCK_BYTES};
use millstream_model::{Batch, LongLine, Polled};
use millstream_testkit::{split_file_lines, split_lines};
use millstream_testkit_random::{TestSize, property};
use proptest::prelude::*;
use serde_json::json;
use std::fs::OpenOptions;
use std::io::Write;
use std::os::unix::fs::FileExt;

fn rows(lines: &[Line]) -> Vec<(u64, Vec<u8>)> {
    lines.iter().map(|line| (line.offset, line.text.clone())).collect()
}

/// Delivers everything until the source has ended.
fn read_to_end(fixture: &mut Fixture) -> Vec<Line> {
    let mut all = Vec::new();
    end(fixture);
    loop {
        match fixture.poll() {
            Polled::Batch(batch, _) => {
                deliver(&batch);
                all.extend(lines(&batch));
            }
            Polled::Ended => return all,
            _ => fixture.rig.advance(std::time::Duration::from_millis(50)),
        }
    }
}

/// Like [`assert_eq`] for rows, with a short message.
fn compare(got: &[(u64, Vec<u8>)], expected: &[(u64, Vec<u8>)], what: &str) {
    let brief = |row: Option<&(u64, Vec<u8>)>| {
        row.map(|(offset, text)| {
            (*offset, text.len(), String::from_utf8_lossy(&text[..text.len().min(20)]).into_owned())
        })
    };
    if let Some(at) =
        (0..got.len().max(expected.len())).find(|at| got.get(*at) != expected.get(*at))
    {
        let (got, expected) = (brief(got.get(at)), brief(expected.get(at)));
        panic!("{what}: row {at} is {got:?} instead of {expected:?} (offset, length, beginning)");
    }
}

/// More empty lines than a batch may have rows are split over batches without loss.
#[test]
fn empty_lines_fill_batches_up_to_their_limit() {
    let mut fixture = Fixture::new(json!({}), &["out"]);
    fixture.append("a.log", "\n".repeat(40_000));
    fixture.append("b.log", "\n".repeat(10));
    let batches = fixture.batches();
    assert!(batches.iter().map(Batch::rows).all(|rows| rows <= BATCH_ROWS_MAX));
    assert_eq!(batches.iter().map(Batch::rows).sum::<usize>(), 40_010);
    let mut all: Vec<Line> = batches.iter().flat_map(lines).collect();
    all.sort();
    all.dedup();
    assert_eq!(all.len(), 40_010, "every line has its own id");
}

/// Lines longer than a block, with each `on_long_line` and with limits below and above the block
/// size, in a file that grows in pieces. The other lines are complete.
#[test]
fn lines_longer_than_a_block_are_handled_as_configured() {
    let long: String = (0..90_000).map(|n| format!("é{n:06}")).collect();
    let content = format!("first\n{long}\r\n\nmiddle\n{long}\nlast\n{long}");
    for (name, long) in
        [("truncate", LongLine::Truncate), ("split", LongLine::Split), ("drop", LongLine::Drop)]
    {
        for line_max in [1000, BLOCK_BYTES - 1, BLOCK_BYTES, 300_000, 1 << 20] {
            let mut fixture = Fixture::new(
                json!({ "max_line": format!("{line_max}B"), "on_long_line": name }),
                &["out"],
            );
            let mut got = Vec::new();
            for piece in content.as_bytes().chunks(300_001) {
                fixture.append("a.log", piece);
                got.extend(fixture.read());
            }
            got.extend(read_to_end(&mut fixture));
            let what = format!("{name} at {line_max}");
            compare(&rows(&got), &split_lines(content.as_bytes(), line_max, long), &what);
            let long_lines = if line_max > 800_000 { 0 } else { 3 };
            assert_eq!(
                fixture.dropped("long_line"),
                if name == "drop" { long_lines } else { 0 },
                "{what}"
            );
            let cut = fixture.rig.counters.snapshot().noted_events.get("truncated").copied();
            assert_eq!(cut.unwrap_or(0), if name == "truncate" { long_lines } else { 0 }, "{what}");
        }
    }
}

/// Filler before a short text places the end of a block at each position in the text.
#[test]
fn a_block_may_end_anywhere_in_a_file() {
    let short = "ab\r\n\n\r\n\rcd\ne\u{20ac}\n\n\u{e9}\r\r\nlast line\n";
    for shift in 0..short.len() + 2 {
        for filler_line in [BLOCK_BYTES, 1000] {
            let filler = BLOCK_BYTES - shift;
            let mut content = vec![b'f'; filler];
            (1..=filler / filler_line).for_each(|n| content[n * filler_line - 1] = b'\n');
            content[filler - 1] = b'\n';
            content.extend_from_slice(short.as_bytes());
            let mut fixture = Fixture::new(json!({}), &["out"]);
            fixture.append("a.log", &content);
            fixture.append("b.log", short);
            let all = fixture.read();
            let (a, b): (Vec<Line>, Vec<Line>) = {
                let longest = all.iter().max_by_key(|line| line.text.len()).unwrap().file_id;
                all.into_iter().partition(|line| line.file_id == longest)
            };
            let what = format!("shift {shift}, lines of {filler_line}");
            compare(&rows(&a), &split_lines(&content, 1 << 18, LongLine::Truncate), &what);
            compare(&rows(&b), &split_lines(short.as_bytes(), 1 << 18, LongLine::Truncate), &what);
        }
    }
}

/// Lines are written byte by byte, with a poll after each byte.
#[test]
fn an_incomplete_line_waits_for_its_end() {
    let mut fixture = Fixture::new(json!({}), &["out"]);
    let mut got = Vec::new();
    for byte in "ab\r\nc\n\n".bytes() {
        fixture.append("a.log", [byte]);
        got.extend(fixture.read());
    }
    assert_eq!(texts(&got), ["ab", "c", ""]);
}

/// A carriage return is part of a line ending only before a newline.
#[test]
fn a_carriage_return_at_the_end_of_a_file_is_text() {
    let mut fixture = Fixture::new(json!({}), &["out"]);
    fixture.append("a.log", "1\r\n2\r");
    assert_eq!(rows(&read_to_end(&mut fixture)), [(0, b"1".to_vec()), (3, b"2\r".to_vec())]);
}

/// A line that is truncated by damaged compressed data, beyond the head of the file, is not
/// delivered, whether lines are read as they are, are decoded, or exceed a block.
#[test]
fn a_line_cut_off_by_damaged_data_is_not_delivered() {
    let (short, long) = ("x".repeat(HEAD_BYTES_MAX as usize * 2), "x".repeat(BLOCK_BYTES * 2));
    let cases = [
        (json!({}), &short),
        (json!({ "encoding": "gbk" }), &short),
        (json!({ "max_line": "100B" }), &long),
    ];
    for (options, text) in cases {
        let what = options.to_string();
        let mut compressed = GzEncoder::new(Vec::new(), Compression::none());
        compressed.write_all(text.as_bytes()).unwrap();
        let mut compressed = compressed.finish().unwrap();
        compressed.truncate(compressed.len() - 20);
        let mut fixture = Fixture::new(options, &["out"]);
        fixture.append("a.log", compressed);
        end(&mut fixture);
        assert_eq!(fixture.read(), [], "{what}");
        assert!(matches!(fixture.poll(), Polled::Ended), "{what}");
        assert_eq!(fixture.rig.counters.snapshot().errors.get("damaged"), Some(&1), "{what}");
    }
}

/// Generates line lengths: mostly short, some near each limit.
fn line_length() -> impl Strategy<Value = usize> {
    let near = |n: usize| (n - 3)..(n + 3);
    prop_oneof![
        20 => 0..4usize,
        40 => 0..200usize,
        4 => near(16 * 1024),
        4 => near(64 * 1024),
        2 => near(BLOCK_BYTES),
        1 => 250_000..600_000usize,
    ]
}

fn line_end() -> impl Strategy<Value = &'static [u8]> {
    prop_oneof![4 => Just(&b"\n"[..]), 1 => Just(&b"\r\n"[..]), 1 => Just(&b"\r\r\n"[..])]
}

/// Generates file content: ASCII, multi-byte characters, and invalid UTF-8.
fn content() -> impl Strategy<Value = Vec<u8>> {
    let line = (line_length(), line_end(), any::<u8>());
    (prop::collection::vec(line, 0..60), 0..=5usize).prop_map(|(lines, rest)| {
        let mut content = Vec::new();
        for (length, end, salt) in lines {
            let pattern =
                ["abcdefg".as_bytes(), "é€𝄞x".as_bytes(), b"\xff\r\0\xc3\x80\x80\x80\x80"]
                    [salt as usize % 3];
            content.extend(pattern.iter().cycle().skip(salt as usize % 5).take(length));
            content.extend_from_slice(end);
        }
        content.extend_from_slice(&b"rest\r"[..rest]);
        content
    })
}

fn limit() -> impl Strategy<Value = (usize, &'static str, LongLine)> {
    let limits =
        prop_oneof![4..20usize, 90..110usize, Just(65_536usize), Just(262_144), Just(400_000)];
    let long = prop_oneof![
        Just(("truncate", LongLine::Truncate)),
        Just(("split", LongLine::Split)),
        Just(("drop", LongLine::Drop))
    ];
    (limits, long).prop_map(|(line_max, (name, long))| (line_max, name, long))
}

/// Generates numbers of NUL bytes before a line: mostly none, some near each limit.
fn nuls() -> impl Strategy<Value = usize> {
    let near = |n: usize| (n - 2)..(n + 3);
    prop_oneof![
        20 => Just(0usize),
        10 => 1..100usize,
        2 => near(64 * 1024),
        2 => near(BLOCK_BYTES),
        1 => 500_000..900_000usize,
    ]
}

/// Generates lines that begin with NUL bytes and contain some.
fn content_with_nuls() -> impl Strategy<Value = Vec<u8>> {
    let line = (nuls(), line_length(), line_end(), any::<bool>());
    (prop::collection::vec(line, 1..12), nuls(), 0..=5usize).prop_map(|(lines, last, rest)| {
        let mut content = Vec::new();
        for (nuls, length, end, is_text) in lines {
            let pattern: &[u8] = if is_text { b"abcdefg" } else { b"a\0\0b\0" };
            content.resize(content.len() + nuls, 0);
            content.extend(pattern.iter().cycle().take(length));
            content.extend_from_slice(end);
        }
        content.resize(content.len() + last, 0);
        content.extend_from_slice(&b"rest\r"[..rest]);
        content
    })
}

/// Number of cases per property.
const CASES: TestSize = TestSize { gate: 48, long: 1000 };

proptest! {
    #![proptest_config(property(CASES))]

    /// For any file content and any sizes of writes, every line is read exactly once, in order,
    /// with the right offset.
    #[test]
    fn growing_files_are_split_like_their_whole_content(
        contents in prop::collection::vec(content(), 1..4),
        pieces in prop::collection::vec((0..3usize, prop_oneof![1..50usize, 1..200_000usize]), 0..12),
        (line_max, name, long) in limit(),
    ) {
        let mut fixture = Fixture::new(json!({ "max_line": format!("{line_max}B"), "on_long_line": name }), &["out"]);
        let (mut written, mut got) = (vec![0; contents.len()], Vec::new());
        for (file, bytes) in pieces {
            let file = file % contents.len();
            let end = (written[file] + bytes).min(contents[file].len());
            fixture.append(&format!("{file}.log"), &contents[file][written[file]..end]);
            written[file] = end;
            got.extend(fixture.batches().iter().flat_map(|batch| { deliver(batch); named(batch) }));
        }
        for (file, from) in written.iter().enumerate() {
            fixture.append(&format!("{file}.log"), &contents[file][*from..]);
        }
        end(&mut fixture);
        got.extend(fixture.batches().iter().flat_map(|batch| { deliver(batch); named(batch) }));
        prop_assert!(matches!(fixture.poll(), Polled::Ended) && fixture.rig.ledger.is_idle());
        prop_assert_eq!(fixture.rig.grant.used(), fixture.source.declared_bytes());
        for (file, content) in contents.iter().enumerate() {
            let path = fixture.path(&format!("{file}.log")).display().to_string();
            let rows: Vec<_> = got.iter().filter(|(name, _)| *name == path).map(|(_, row)| row.clone()).collect();
            compare(&rows, &split_file_lines(content, line_max, long), &format!("file {file}"));
        }
    }
}

proptest! {
    #![proptest_config(property(CASES))]

    /// NUL bytes at the start of a line are skipped wherever they are divided by writes, blocks,
    /// checkpoints and restarts; NUL bytes within a line are text.
    #[test]
    fn nul_bytes_at_the_start_of_a_line_are_skipped(
        content in content_with_nuls(),
        pieces in prop::collection::vec((prop_oneof![1..50usize, 1..400_000usize], any::<bool>()), 0..8),
        compressed in any::<bool>(),
        decoded in any::<bool>(),
        (line_max, name, long) in limit(),
    ) {
        // Parts of a line that exceeds the limit would be decoded separately.
        let line_max = if decoded { 1 << 20 } else { line_max };
        let encoding = if decoded { "gbk" } else { "utf-8" };
        let options = json!({ "max_line": format!("{line_max}B"), "on_long_line": name, "encoding": encoding });
        let mut fixture = Fixture::new(options, &["out"]);
        let (mut written, mut got) = (0, Vec::new());
        if compressed {
            let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
            encoder.write_all(&content).unwrap();
            fixture.append("a.log", encoder.finish().unwrap());
        } else {
            for (bytes, is_restarted) in pieces {
                let end = (written + bytes).min(content.len());
                fixture.append("a.log", &content[written..end]);
                written = end;
                got.extend(fixture.read());
                if is_restarted {
                    fixture.restart(true);
                }
            }
            fixture.append("a.log", &content[written..]);
        }
        got.extend(fixture.read());
        got.extend(read_to_end(&mut fixture));
        prop_assert!(fixture.rig.ledger.is_idle());
        prop_assert_eq!(fixture.rig.grant.used(), fixture.source.declared_bytes());
        compare(&rows(&got), &split_file_lines(&content, line_max, long), name);
    }
}

fn by_timestamp() -> serde_json::Value {
    json!({ "multiline": { "start": "timestamp", "format": "%Y-%m-%d %H:%M:%S", "timeout": "150ms" } })
}

fn noted(fixture: &Fixture) -> u64 {
    fixture.rig.counters.snapshot().noted_events.get("leading_nuls").copied().unwrap_or(0)
}

/// After a truncation, a writer that does not append leaves a hole of several gigabytes.
#[test]
fn a_large_hole_is_skipped_at_once() {
    const HOLE: u64 = 4 << 30;
    let cases = [
        (json!({}), "first\nsecond\n", vec!["first", "second"]),
        (json!({ "encoding": "gbk" }), "first\nsecond\n", vec!["first", "second"]),
        (json!({ "format": "auto" }), "2026-11-22T10:00:00Z stdout F first\n", vec!["first"]),
        (
            by_timestamp(),
            "2026-11-22 10:00:01 first\nmore\n",
            vec!["2026-11-22 10:00:01 first\nmore"],
        ),
    ];
    for (options, text, expected) in cases {
        let what = options.to_string();
        let mut fixture = Fixture::new(options, &["out"]);
        let file = fixture.append("a.log", "");
        file.set_len(HOLE).unwrap();
        assert_eq!(fixture.read(), [], "{what}");
        fixture.append("a.log", text);
        let mut got = fixture.read();
        got.extend(read_to_end(&mut fixture));
        assert_eq!(
            (texts(&got), got[0].offset),
            (expected.iter().map(|s| s.to_string()).collect(), HOLE),
            "{what}"
        );
        assert_eq!(noted(&fixture), 1, "{what}");
    }
}

/// NUL bytes at the end of a file may be overwritten, so they are not a line, and stay unread.
#[test]
fn allocated_space_is_read_once_it_is_overwritten() {
    let mut fixture = Fixture::new(json!({}), &["out"]);
    // The head, which identifies the file, is not overwritten.
    let first = "x".repeat(HEAD_BYTES_MAX as usize);
    fixture.append("a.log", format!("{first}\n"));
    let file = OpenOptions::new().write(true).open(fixture.path("a.log")).unwrap();
    file.set_len(1_000_000).unwrap();
    assert_eq!(fixture.read_texts(), [&*first]);
    let end = first.len() as u64 + 1;
    file.write_all_at(b"second\nthi", end).unwrap();
    assert_eq!(fixture.read_texts(), ["second"]);
    fixture.restart(true);
    file.write_all_at(b"rd\n", end + 10).unwrap();
    assert_eq!(fixture.read_texts(), ["third"]);
    assert_eq!(noted(&fixture), 0);
    assert_eq!(read_to_end(&mut fixture), [], "at the end they are skipped");
    assert_eq!(noted(&fixture), 1);
}

/// NUL bytes after the last line are not a line at the end of a run, whether or not text is
/// decoded.
#[test]
fn nul_bytes_behind_the_last_line_are_no_line() {
    for options in [json!({}), json!({ "encoding": "gbk" }), by_timestamp()] {
        let mut fixture = Fixture::new(options, &["out"]);
        fixture.append("a.log", b"2026-11-22 10:00:01 one\n\0\0\0");
        assert_eq!(texts(&read_to_end(&mut fixture)), ["2026-11-22 10:00:01 one"]);
        assert_eq!(noted(&fixture), 1);
    }
}

/// A byte order mark at the beginning of a file is not text, even if NUL bytes follow.
#[test]
fn a_byte_order_mark_before_nul_bytes_is_removed() {
    let mut fixture = Fixture::new(json!({}), &["out"]);
    fixture.append("a.log", b"\xEF\xBB\xBF\0\0one\ntwo\n");
    let got = fixture.read();
    assert_eq!((texts(&got), got[0].offset), (vec!["one".to_owned(), "two".to_owned()], 5));
    assert_eq!(noted(&fixture), 1);
}

/// Reads a file that is `\u{feff}` and a line without a line ending.
fn read_marked(line: &str, mut options: serde_json::Value, line_max: usize) -> Vec<String> {
    options["max_line"] = json!(format!("{line_max}B"));
    let is_utf16 = options["encoding"] == "utf-16le";
    let text = format!("\u{feff}{line}");
    let content = match is_utf16 {
        true => text.encode_utf16().flat_map(u16::to_le_bytes).collect(),
        false => text.into_bytes(),
    };
    let mut fixture = Fixture::new(options, &["out"]);
    fixture.append("a.log", content);
    texts(&read_to_end(&mut fixture))
}

/// A byte order mark does not count as text of a first line that exceeds the limit, or almost does.
#[test]
fn a_byte_order_mark_before_a_long_line_is_removed() {
    let line = "\u{e9}".repeat(400);
    let utf16 = json!({ "encoding": "utf-16le" });
    for options in [json!({}), by_timestamp(), utf16] {
        for treatment in ["truncate", "split"] {
            let mut options = options.clone();
            options["on_long_line"] = json!(treatment);
            assert_eq!(read_marked(&line, options.clone(), 800), [&*line], "{options}");
            for line_max in [799, 101, 100] {
                let texts = read_marked(&line, options.clone(), line_max);
                let first = &texts[0];
                assert!(line.starts_with(&**first), "{options}, {line_max}: {texts:?}");
                let missing = line_max - first.len();
                assert!(missing < 4, "{options}, {line_max}: {texts:?}");
                let is_split = treatment == "split";
                assert!(!is_split || texts.concat() == line, "{options}, {line_max}: {texts:?}");
            }
        }
    }
}

/// In UTF-16, a NUL byte is part of a character.
#[test]
fn nul_bytes_of_utf_16_are_text() {
    let mut fixture = Fixture::new(json!({ "encoding": "utf-16be" }), &["out"]);
    fixture
        .append("a.log", "a\nb\n".encode_utf16().flat_map(u16::to_be_bytes).collect::<Vec<u8>>());
    assert_eq!(fixture.read_texts(), ["a", "b"]);
    assert_eq!(noted(&fixture), 0);
}

/// A hole after other lines ends a multi-line event.
#[test]
fn a_hole_ends_a_multi_line_event() {
    for nuls in [3, BLOCK_BYTES * 2] {
        let mut fixture = Fixture::new(by_timestamp(), &["out"]);
        let before = "2026-11-22 10:00:01 one\nmore\n";
        let after = "2026-11-22 10:00:02 two\nmore\n";
        let content = [before.as_bytes(), &vec![0; nuls], after.as_bytes(), before.as_bytes()];
        fixture.append("a.log", content.concat());
        let got = fixture.read();
        assert_eq!(texts(&got)[..2], [before.trim_end(), after.trim_end()], "{nuls}");
        assert_eq!(got[1].offset, (before.len() + nuls) as u64);
        assert_eq!(noted(&fixture), 1);
    }
}

/// Returns the rows of a batch, each with the path of its file.
fn named(batch: &Batch) -> Vec<(String, (u64, Vec<u8>))> {
    let mut all = Vec::new();
    for segment in batch.segments.iter() {
        for row in segment.first_row..segment.first_row + segment.rows {
            all.push((
                segment.origin.name.to_string(),
                (batch.offset(segment, row), batch.text(row).to_vec()),
            ));
        }
    }
    all
}
