//! Files with the content of other files: copies made by copytruncate, and compressed rotations.

use super::*;
use crate::copy_detection::Originals;
use crate::folder_inodes::FolderInodes;
use crate::source::copy_detection::Comparison;
use crate::tail::Tail;
use flate2::write::GzEncoder;
use millstream_model::{OriginStatus, SinkIndex};

/// Returns lines numbered from `from` up to, but not including, `to`.
fn numbered(from: usize, to: usize) -> String {
    (from..to).map(|n| format!("{n:08} a line of the log\n")).collect()
}

fn numbers(lines: &[Line]) -> Vec<usize> {
    lines.iter().map(|line| String::from_utf8_lossy(&line.text)[..8].parse().unwrap()).collect()
}

fn gzip(fixture: &Fixture, name: &str) {
    let mut compressed = GzEncoder::new(Vec::new(), flate2::Compression::fast());
    compressed.write_all(&fs::read(fixture.path(name)).unwrap()).unwrap();
    fs::write(fixture.path(&format!("{name}.gz")), compressed.finish().unwrap()).unwrap();
}

fn compress(fixture: &Fixture, name: &str) {
    gzip(fixture, name);
    fs::remove_file(fixture.path(name)).unwrap();
}

fn copy_truncate(fixture: &Fixture, name: &str, to: &str) {
    fs::copy(fixture.path(name), fixture.path(to)).unwrap();
    File::options().write(true).open(fixture.path(name)).unwrap().set_len(0).unwrap();
}

/// Reads until the source treats compressed files as complete.
fn settle(fixture: &mut Fixture) -> Vec<Line> {
    let mut all = Vec::new();
    for _ in 0..4 {
        all.extend(fixture.read());
        fixture.rig.advance(crate::stability::STABLE_AFTER);
    }
    all
}

/// The program that copies the file creates the copy before it writes to it.
#[test]
fn a_copy_is_recognized_although_it_is_first_seen_empty() {
    let mut fixture = Fixture::new(json!({}), &["out"]);
    fixture.append("a.log", numbered(0, 200));
    assert_eq!(fixture.read().len(), 200);
    fixture.append("a.log.1", "");
    assert_eq!(fixture.read().len(), 0);
    copy_truncate(&fixture, "a.log", "a.log.1");
    fixture.append("a.log", numbered(200, 205));
    assert_eq!(numbers(&settle(&mut fixture)), (200..205).collect::<Vec<_>>());
    // An empty file that is not a copy is read once it contains lines.
    fixture.append("a.log.2", "");
    assert_eq!(settle(&mut fixture).len(), 0);
    fixture.append("a.log.2", numbered(300, 303));
    assert_eq!(numbers(&settle(&mut fixture)), [300, 301, 302]);
}

/// Data that was read from the original is not reread from the copy; data that was unread before
/// the truncation is read from the copy, with the ids of the original.
#[test]
fn copytruncate_neither_repeats_nor_loses_lines() {
    for lines in [3, 200] {
        let mut fixture = Fixture::new(json!({}), &["out"]);
        fixture.append("a.log", numbered(0, lines));
        let first = fixture.read();
        fixture.append("a.log", numbered(lines, lines + 5));
        copy_truncate(&fixture, "a.log", "a.log.1");
        fixture.append("a.log", numbered(lines + 5, lines + 10));
        let second = settle(&mut fixture);
        let mut seen = numbers(&second);
        seen.sort_unstable();
        assert_eq!(seen, (lines..lines + 10).collect::<Vec<_>>());
        let in_copy = second.iter().filter(|line| line.file_id == first[0].file_id);
        let rows: Vec<Line> = in_copy.cloned().collect();
        assert_eq!(numbers(&rows), (lines..lines + 5).collect::<Vec<_>>());
        assert_eq!(rows[0].offset as usize, numbered(0, lines).len());
        fixture.restart(true);
        assert_eq!(settle(&mut fixture), []);
    }
}

/// A program may keep one copy, and overwrite it each time.
#[test]
fn copies_over_an_older_copy_are_not_read_again() {
    for include in ["*.log*", "*.log"] {
        let mut fixture = Fixture::new(json!({ "include": include }), &["out"]);
        let mut seen = Vec::new();
        for generation in 0..5 {
            let first = generation * 100;
            fixture.append("a.log", numbered(first, first + 20));
            seen.extend(numbers(&settle(&mut fixture)));
            // The last line is read from the copy.
            fixture.append("a.log", numbered(first + 20, first + 21));
            copy_truncate(&fixture, "a.log", "a.log.1");
            seen.extend(numbers(&settle(&mut fixture)));
        }
        let all: Vec<_> = (0..5).flat_map(|n| n * 100..n * 100 + 21).collect();
        assert_eq!(seen, all, "{include}");
    }
}

/// A truncation is also detected if the new content is longer than the old content at the next
/// poll.
#[test]
fn a_truncated_file_that_grew_past_its_old_length_is_a_new_file() {
    let mut fixture = Fixture::new(json!({}), &["out"]);
    fixture.append("a.log", numbered(0, 100));
    fixture.read();
    copy_truncate(&fixture, "a.log", "a.log.1");
    fixture.append("a.log", numbered(1000, 1300));
    assert_eq!(numbers(&settle(&mut fixture)), (1000..1300).collect::<Vec<_>>());
    let truncations = fixture.rig.counters.snapshot().noted_events.get("truncations").copied();
    assert_eq!(truncations, Some(1));
}

/// A rewritten file is detected even if the new content has the same length and there is no copy.
#[test]
fn a_file_rewritten_to_the_same_length_is_a_new_file() {
    let mut fixture = Fixture::new(json!({}), &["out"]);
    fixture.append("a.log", numbered(0, 100));
    fixture.read();
    fs::write(fixture.path("a.log"), numbered(500, 600)).unwrap();
    end(&mut fixture);
    assert_eq!(numbers(&fixture.read()), (500..600).collect::<Vec<_>>());
}

/// The truncation happens after the original is checked and before it is compared with the copy.
#[test]
fn a_copy_compared_with_a_truncated_original_is_looked_at_again() {
    for include in ["*.log*", "*.log"] {
        let mut fixture = Fixture::new(json!({ "include": include }), &["out"]);
        fixture.append("a.log", numbered(0, 100));
        fixture.read();
        let mut originals = Originals::default();
        fixture.source.files.iter().for_each(|tail| tail.add_to(&mut originals));
        copy_truncate(&fixture, "a.log", "a.log.1");
        fixture.append("a.log", numbered(100, 110));
        let generations = &fixture.source.history.records.generations;
        let names = fixture.source.scope.names(generations);
        let copy = names.candidate(&fixture.path("a.log.1")).unwrap();
        let name = (include == "*.log").then(|| fixture.path("a.log"));
        let (folder_inodes, cx) = (FolderInodes::default(), fixture.rig.cx());
        let others =
            Comparison { originals: &originals, folder_inodes: &folder_inodes, new: &mut [] };
        let adopted = fixture.source.copies().adopt_one(copy, name, others, &cx);
        assert!(adopted.unwrap().is_none(), "{include}");
        assert_eq!(numbers(&settle(&mut fixture)), (100..110).collect::<Vec<_>>(), "{include}");
    }
}

/// The walk that opens the original finds its copy, and the truncation happens in between.
#[test]
fn a_copy_of_a_new_file_that_is_truncated_is_looked_at_again() {
    for include in ["*.log*", "*.log"] {
        let mut fixture = Fixture::new(json!({ "include": include }), &["out"]);
        fixture.append("z.log", numbered(0, 10));
        fixture.read();
        fixture.append("a.log", numbered(0, 100));
        let cx = fixture.rig.cx();
        let folder_inodes = FolderInodes::default();
        let mut originals = Originals::default();
        let candidate = |fixture: &Fixture, name: &str| {
            let generations = &fixture.source.history.records.generations;
            fixture.source.scope.names(generations).candidate(&fixture.path(name)).unwrap()
        };
        let others =
            Comparison { originals: &originals, folder_inodes: &folder_inodes, new: &mut [] };
        let original = candidate(&fixture, "a.log");
        let original = fixture.source.copies().adopt_one(original, None, others, &cx).unwrap();
        let mut new = [original.unwrap()];
        new[0].add_to(&mut originals);
        copy_truncate(&fixture, "a.log", "a.log.1");
        fixture.append("a.log", numbered(100, 110));
        let name = (include == "*.log").then(|| fixture.path("a.log"));
        let copy = candidate(&fixture, "a.log.1");
        let others =
            Comparison { originals: &originals, folder_inodes: &folder_inodes, new: &mut new };
        let adopted = fixture.source.copies().adopt_one(copy, name, others, &cx);
        assert!(adopted.unwrap().is_none(), "{include}");
        fixture.source.insertion().insert(new.into(), &cx);
        let mut read = numbers(&settle(&mut fixture));
        read.sort_unstable();
        assert_eq!(read, (0..110).collect::<Vec<_>>(), "{include}");
    }
}

/// A copy that is renamed during the first search after a restart is found by the second search.
#[test]
fn a_copy_that_the_first_search_misses_continues_its_original() {
    let mut fixture = Fixture::new(json!({}), &["out"]);
    fixture.append("a.log", numbered(0, 100));
    let known = fixture.read()[0].file_id;
    fixture.restart(true);
    fixture.append("a.log", numbered(100, 110));
    let away = tempfile::NamedTempFile::new_in(fixture.dir.path().parent().unwrap()).unwrap();
    fs::copy(fixture.path("a.log"), away.path()).unwrap();
    File::options().write(true).open(fixture.path("a.log")).unwrap().set_len(0).unwrap();
    fixture.poll();
    fs::rename(away.into_temp_path(), fixture.path("a.log.1")).unwrap();
    let lines = settle(&mut fixture);
    assert_eq!(numbers(&lines), (100..110).collect::<Vec<_>>());
    assert!(lines.iter().all(|line| line.file_id == known));
}

/// The record of a file that was not found by two searches is removed.
#[test]
fn a_file_deleted_while_the_agent_was_down_is_forgotten() {
    for until_eof in [false, true] {
        let mut fixture = Fixture::new(json!({}), &["out"]);
        fixture.append("a.log", numbered(0, 100));
        fixture.append("b.log", numbered(100, 200));
        fixture.read();
        fixture.restart(true);
        fs::remove_file(fixture.path("a.log")).unwrap();
        fixture.rig.until_eof = until_eof;
        fixture.poll();
        assert_eq!(fixture.rig.store.ids().len(), 2, "one search is not enough");
        fixture.read();
        assert_eq!(fixture.rig.store.ids().len(), 1);
    }
}

/// The copy and the truncation happen while the agent is down.
#[test]
fn copytruncate_while_the_agent_is_down_neither_repeats_nor_loses_lines() {
    let mut fixture = Fixture::new(json!({}), &["out"]);
    fixture.append("a.log", numbered(0, 100));
    let first = fixture.read();
    fixture.rig.advance(STEP * 10);
    fixture.read();
    fixture.restart(true);
    fixture.append("a.log", numbered(100, 110));
    copy_truncate(&fixture, "a.log", "a.log.1");
    fixture.append("a.log", numbered(110, 120));
    let second = settle(&mut fixture);
    let mut seen = numbers(&second);
    seen.sort_unstable();
    assert_eq!(seen, (100..120).collect::<Vec<_>>());
    assert_eq!(second.iter().filter(|line| line.file_id == first[0].file_id).count(), 10);
}

/// A rotated file keeps its id when it is compressed; only its unread data is read.
#[test]
fn a_compressed_rotation_is_not_read_again() {
    let mut fixture = Fixture::new(json!({}), &["out"]);
    fixture.append("a.log", numbered(0, 200));
    fixture.read();
    fixture.rename("a.log", "a.log.1");
    fixture.append("a.log", numbered(200, 300));
    compress(&fixture, "a.log.1");
    assert_eq!(numbers(&settle(&mut fixture)), (200..300).collect::<Vec<_>>());
    fixture.restart(true);
    assert_eq!(settle(&mut fixture), []);
}

/// A file may also be compressed while the agent is down: unread data is read from the compressed
/// file, with the same file id.
#[test]
fn a_file_compressed_while_the_agent_is_down_continues_in_the_compressed_file() {
    let mut fixture = Fixture::new(json!({}), &["out"]);
    fixture.append("a.log", numbered(0, 200));
    let first = fixture.read();
    fixture.rig.advance(STEP * 10);
    fixture.read();
    fixture.restart(true);
    fixture.append("a.log", numbered(200, 210));
    fixture.rename("a.log", "a.log.1");
    compress(&fixture, "a.log.1");
    fixture.append("a.log", numbered(300, 305));
    let second = settle(&mut fixture);
    let first_lines: Vec<Line> =
        second.iter().filter(|line| line.file_id == first[0].file_id).cloned().collect();
    assert_eq!(numbers(&first_lines), (200..210).collect::<Vec<_>>());
    assert_eq!(second.len(), 15);
}

/// A compressed file is read once it is complete, so its last line is complete even without a line
/// ending.
#[test]
fn the_last_line_of_a_compressed_file_needs_no_line_end() {
    let mut fixture = Fixture::new(json!({ "include": "*.log*" }), &["out"]);
    fixture.append("a.log.1", "1\n2\nlast");
    compress(&fixture, "a.log.1");
    let texts: Vec<Vec<u8>> = settle(&mut fixture).into_iter().map(|line| line.text).collect();
    assert_eq!(texts, [&b"1"[..], b"2", b"last"]);
    fixture.restart(true);
    assert!(settle(&mut fixture).is_empty());
}

/// A new compressed file is read like any other file; offsets count decompressed bytes.
#[test]
fn a_new_compressed_file_is_read() {
    let mut fixture = Fixture::new(json!({}), &["out"]);
    fixture.append("a.log", numbered(0, 50_000));
    compress(&fixture, "a.log");
    let lines = settle(&mut fixture);
    assert_eq!(numbers(&lines), (0..50_000).collect::<Vec<_>>());
    assert_eq!(lines[1].offset as usize, numbered(0, 1).len());
    fixture.restart(true);
    assert_eq!(settle(&mut fixture), []);
}

/// Files with the same head are different files, even if their names look like rotations.
#[test]
fn files_with_the_same_head_are_all_read() {
    let mut fixture = Fixture::new(json!({}), &["out"]);
    let head = numbered(0, 100);
    fixture.append("a.log", format!("{head}{}", numbered(100, 200)));
    fixture.append("a.log.1", format!("{head}{}", numbered(300, 350)));
    assert_eq!(fixture.read().len(), 350);
    // The same content under an unrelated name is read as well.
    fs::copy(fixture.path("a.log"), fixture.path("b.log")).unwrap();
    assert_eq!(fixture.read().len(), 200);
}

/// Data that is appended to a copy is not in the original, so it is read.
#[test]
fn data_appended_to_a_copy_is_read() {
    let mut fixture = Fixture::new(json!({}), &["out"]);
    fixture.append("a.log", numbered(0, 100));
    fixture.read();
    fs::copy(fixture.path("a.log"), fixture.path("a.log.1")).unwrap();
    assert_eq!(fixture.read(), []);
    fixture.append("a.log.1", numbered(500, 510));
    assert_eq!(numbers(&fixture.read()), (500..510).collect::<Vec<_>>());
    fixture.append("a.log", numbered(100, 110));
    assert_eq!(numbers(&fixture.read()), (100..110).collect::<Vec<_>>());
}

/// A copy that is still being written is not read.
#[test]
fn a_growing_copy_is_not_read() {
    let mut fixture = Fixture::new(json!({}), &["out"]);
    let text = numbered(0, 300);
    fixture.append("a.log", &text);
    fixture.read();
    for piece in text.as_bytes().chunks(1000) {
        fixture.append("a.log.1", piece);
        assert_eq!(fixture.read(), []);
    }
    fixture.restart(true);
    assert_eq!(settle(&mut fixture), []);
}

/// The original is copied and truncated, and the agent is killed before the data that it read from
/// the original is delivered.
#[test]
fn undelivered_data_of_a_truncated_file_is_read_from_its_copy() {
    for committed in [0, 100] {
        let mut fixture = Fixture::new(json!({}), &["out"]);
        fixture.append("a.log", numbered(0, committed));
        fixture.read();
        fixture.rig.commit();
        fixture.append("a.log", numbered(committed, 200));
        fs::copy(fixture.path("a.log"), fixture.path("a.log.1")).unwrap();
        let in_flight = fixture.batches();
        assert_eq!(in_flight.iter().map(Batch::rows).sum::<usize>(), 200 - committed);
        File::options().write(true).open(fixture.path("a.log")).unwrap().set_len(0).unwrap();
        fixture.restart(false);
        assert_eq!(numbers(&settle(&mut fixture)), (committed..200).collect::<Vec<_>>());
    }
}

/// Abandoned data is reread from the copy, even if more data was read since.
#[test]
fn abandoned_data_is_read_again_from_the_copy() {
    let mut fixture = Fixture::new(json!({}), &["out"]);
    fixture.append("a.log", numbered(0, 100));
    let (in_flight, _) = fixture.next();
    drop(in_flight);
    fixture.append("a.log", numbered(100, 110));
    copy_truncate(&fixture, "a.log", "a.log.1");
    let mut seen = numbers(&settle(&mut fixture));
    seen.sort_unstable();
    assert_eq!(seen, (0..110).collect::<Vec<_>>());
}

/// Data that was abandoned twice is sent in a separate batch. The part that the copy lacks is
/// counted as lost and is settled, so that checkpoints advance.
#[test]
fn abandoned_data_that_the_copy_lacks_is_counted_and_settled() {
    let mut fixture = Fixture::new(json!({}), &["out"]);
    fixture.append("a.log", numbered(0, 100));
    drop(fixture.next());
    let (in_flight, _) = fixture.next();
    fixture.append("a.log.1", numbered(0, 95));
    File::options().write(true).open(fixture.path("a.log")).unwrap().set_len(0).unwrap();
    drop(in_flight);
    assert_eq!(numbers(&settle(&mut fixture)), (0..95).collect::<Vec<_>>());
    assert_eq!(fixture.dropped("truncated_unread"), 1);
    assert!(fixture.rig.ledger.is_idle());
    assert_eq!(fixture.rig.ledger.progress(SinkIndex::new(0)).lag, 0);
}

/// The agent stops right after the first read of the file; the file is copied and truncated before
/// the agent restarts.
#[test]
fn a_file_read_only_once_continues_in_its_copy() {
    let mut fixture = Fixture::new(json!({}), &["out"]);
    fixture.append("a.log", numbered(0, 100));
    deliver(&fixture.next().0);
    fixture.restart(true);
    copy_truncate(&fixture, "a.log", "a.log.1");
    assert_eq!(settle(&mut fixture), []);
}

/// A file that continues in its copy after a restart is finished, because no writer appends to a
/// copy.
#[test]
fn a_file_that_continues_in_its_copy_after_a_restart_is_finished() {
    let mut fixture = Fixture::new(json!({}), &["out"]);
    fixture.append("a.log", numbered(0, 100));
    let id = fixture.read()[0].file_id;
    fixture.restart(true);
    copy_truncate(&fixture, "a.log", "a.log.1");
    assert_eq!(settle(&mut fixture), []);
    let tail = fixture.source.files.get(id).expect("it continues in the copy");
    assert_eq!(tail.origin().state.status(), OriginStatus::Finished);
}

/// A new file with a rotation name begins with all of the data that was read from another file.
#[test]
fn a_file_with_the_same_beginning_is_not_a_copy() {
    let mut fixture = Fixture::new(json!({}), &["out"]);
    fixture.append("a.log", "started\n");
    assert_eq!(fixture.read_texts(), ["started"]);
    fixture.rename("a.log", "a.log.2");
    fixture.append("a.log.1", "started\na line\n");
    assert_eq!(fixture.read_texts(), ["started", "a line"]);
}

/// A file is rewritten, then copied and truncated before the new data is read.
#[test]
fn the_copy_of_newly_written_data_is_read() {
    let mut fixture = Fixture::new(json!({}), &["out"]);
    fixture.append("a.log", numbered(0, 3));
    fixture.read();
    fs::write(fixture.path("a.log"), numbered(10, 13)).unwrap();
    fs::copy(fixture.path("a.log"), fixture.path("a.log.1")).unwrap();
    fixture.poll();
    File::options().write(true).open(fixture.path("a.log")).unwrap().set_len(0).unwrap();
    assert_eq!(numbers(&settle(&mut fixture)), (10..13).collect::<Vec<_>>());
}

/// A compressed file that is still empty is not mistaken for a plain file.
#[test]
fn an_incomplete_compressed_file_is_not_read_yet() {
    let mut fixture = Fixture::new(json!({}), &["out"]);
    fixture.append("a.log", numbered(0, 200));
    fixture.read();
    fixture.rename("a.log", "a.log.1");
    fixture.append("a.log.1.gz", "");
    assert_eq!(fixture.read(), []);
    compress(&fixture, "a.log.1");
    assert_eq!(settle(&mut fixture), []);
}

/// A short file is truncated and grows past its old length; its new content is not mistaken for its
/// head.
#[test]
fn the_copy_of_a_short_file_is_found_after_the_file_regrows() {
    let mut fixture = Fixture::new(json!({}), &["out"]);
    fixture.append("a.log", numbered(0, 2));
    let (in_flight, _) = fixture.next();
    fixture.rig.advance(STEP);
    fs::copy(fixture.path("a.log"), fixture.path("a.log.1")).unwrap();
    fixture.poll();
    File::options().write(true).open(fixture.path("a.log")).unwrap().set_len(0).unwrap();
    fixture.append("a.log", numbered(10, 14));
    drop(in_flight);
    let mut seen = numbers(&settle(&mut fixture));
    seen.sort_unstable();
    assert_eq!(seen, [0, 1, 10, 11, 12, 13]);
}

/// The copy of a truncated file is compressed long after it was recognized.
#[test]
fn a_copy_that_continues_a_file_stays_open_after_it_is_compressed() {
    let mut fixture = Fixture::new(json!({}), &["out"]);
    fixture.append("a.log", numbered(0, 10));
    fixture.read();
    copy_truncate(&fixture, "a.log", "a.log.1");
    fixture.poll();
    fixture.rig.advance(super::super::GONE_SILENCE * 2);
    compress(&fixture, "a.log.1");
    assert_eq!(settle(&mut fixture), []);
}

/// Two vanished files have the same head. The compressed file continues the one whose last bytes it
/// contains.
#[test]
fn a_compressed_file_continues_the_record_with_the_most_matching_content() {
    let banner = numbered(0, 100);
    for _ in 0..8 {
        let mut fixture = Fixture::new(json!({}), &["out"]);
        fixture.append("a.log", &banner);
        fixture.read();
        fixture.rename("a.log", "a.log.2");
        fixture.append("a.log.1", format!("{banner}{}", numbered(100, 110)));
        fixture.read();
        fixture.restart(true);
        fs::remove_file(fixture.path("a.log.2")).unwrap();
        compress(&fixture, "a.log.1");
        assert_eq!(settle(&mut fixture), []);
    }
}

/// An earlier file with the same path and the same head is still recorded; the new file is not
/// mistaken for the earlier one.
#[test]
fn the_last_of_several_files_at_a_path_with_the_same_beginning_is_recognized() {
    let banner = numbered(0, 100);
    for _ in 0..8 {
        let mut fixture = Fixture::new(json!({}), &["out"]);
        fixture.append("a.log", format!("{banner}{}", numbered(100, 101)));
        let _ = fixture.next();
        fixture.restart(false);
        copy_truncate(&fixture, "a.log", "a.log.1");
        compress(&fixture, "a.log.1");
        fixture.poll();
        fixture.append("a.log", format!("{banner}{}", numbered(200, 201)));
        let seen = numbers(&settle(&mut fixture));
        assert_eq!(seen.iter().filter(|number| **number == 200).count(), 1);
        fixture.restart(true);
        assert_eq!(settle(&mut fixture), []);
    }
}

/// A file is truncated before its first read; all of its data is read from its known copy.
#[test]
fn an_unread_file_that_was_truncated_is_read_from_its_copy() {
    let mut fixture = Fixture::new(json!({}), &["out"]);
    fixture.append("a.log", numbered(0, 200));
    fs::copy(fixture.path("a.log"), fixture.path("a.log.1")).unwrap();
    let ready = std::mem::take(&mut fixture.rig.ready);
    assert!(matches!(fixture.poll(), Polled::Backpressure));
    File::options().write(true).open(fixture.path("a.log")).unwrap().set_len(0).unwrap();
    fixture.append("a.log", numbered(200, 210));
    fixture.rig.ready = ready;
    fixture.rig.advance(super::super::schedule::QUIET_POLL);
    let mut seen = numbers(&settle(&mut fixture));
    seen.sort_unstable();
    assert_eq!(seen, (0..210).collect::<Vec<_>>());
}

/// The copy in which a file continued is rewritten in place; its new content is not sent with the
/// ids of the old content.
#[test]
fn an_overwritten_copy_is_not_read_from_the_middle() {
    let mut fixture = Fixture::new(json!({}), &["out"]);
    fixture.append("a.log", numbered(0, 100));
    let first = fixture.read();
    copy_truncate(&fixture, "a.log", "a.log.1");
    fixture.append("a.log", format!("{}\n", "x".repeat(7)) + &numbered(100, 300));
    let mut lines = settle(&mut fixture);
    copy_truncate(&fixture, "a.log", "a.log.1");
    lines.extend(settle(&mut fixture));
    let texts: Vec<String> = texts(&lines);
    assert!(texts.iter().all(|text| text.len() == 26 || text == "xxxxxxx"), "a partial line");
    assert!(lines.iter().all(|line| line.file_id != first[0].file_id));
}

/// The agent is killed before the first checkpoint of a file, and the file is compressed before the
/// agent restarts.
#[test]
fn lines_of_a_compressed_file_keep_their_ids_if_only_the_head_was_saved() {
    for count in [3, 200] {
        let mut fixture = Fixture::new(json!({}), &["out"]);
        fixture.append("a.log", numbered(0, count));
        let first = fixture.read();
        fixture.restart(false);
        fixture.rename("a.log", "a.log.1");
        compress(&fixture, "a.log.1");
        fixture.append("a.log", numbered(1000, 1005));
        let second = settle(&mut fixture);
        let again: Vec<&Line> =
            second.iter().filter(|line| line.file_id == first[0].file_id).collect();
        assert_eq!(again.len(), first.len());
        assert!(again.iter().zip(&first).all(|(again, first)| again.offset == first.offset));
        assert_eq!(second.len(), count + 5);
    }
}

/// An original that was closed because of the limit on open files is reopened for the comparison.
#[test]
fn a_copy_is_compared_with_a_closed_original() {
    let mut fixture = Fixture::new(json!({ "open_files_max": 1 }), &["out"]);
    fixture.append("a.log", numbered(0, 100));
    let mut lines = settle(&mut fixture);
    fs::copy(fixture.path("a.log"), fixture.path("a.log.1")).unwrap();
    lines.extend(settle(&mut fixture));
    fixture.append("a.log", numbered(100, 120));
    lines.extend(settle(&mut fixture));
    fs::copy(fixture.path("a.log"), fixture.path("a.log.1")).unwrap();
    lines.extend(settle(&mut fixture));
    copy_truncate(&fixture, "a.log", "a.log.1");
    fixture.append("a.log", numbered(120, 130));
    lines.extend(settle(&mut fixture));
    assert_eq!(numbers(&lines), (0..130).collect::<Vec<_>>());
}

/// A file is copied and truncated while it is closed because of the limit on open files.
#[test]
fn a_copy_of_a_closed_file_that_is_truncated_is_not_read_again() {
    for include in ["*.log*", "*.log"] {
        for lines in [8, 200] {
            let mut fixture = Fixture::new(json!({ "include": include }), &["out"]);
            fixture.append("a.log", numbered(0, lines));
            assert_eq!(settle(&mut fixture).len(), lines);
            fixture.source.files.iter_mut().for_each(Tail::park);
            copy_truncate(&fixture, "a.log", "a.log.1");
            assert_eq!(settle(&mut fixture), []);
            fixture.append("a.log", numbered(lines, lines + 3));
            assert_eq!(numbers(&settle(&mut fixture)), (lines..lines + 3).collect::<Vec<_>>());
        }
    }
}

/// A copy ends in the middle of a line that was read from the original, which is then truncated.
/// Whether or not the copy was seen earlier, nothing is reread and there is no lag, even after a
/// restart.
#[test]
fn a_copy_that_ends_within_a_line_is_not_read_again() {
    for (lines, polled) in [(5000, false), (5000, true), (8, false), (8, true)] {
        let mut fixture = Fixture::new(json!({}), &["out"]);
        let text = numbered(0, lines);
        fixture.append("a.log", &text);
        assert_eq!(fixture.read().len(), lines);
        fixture.append("a.log.1", &text[..text.len() - 7]);
        if polled {
            assert_eq!(fixture.read(), []);
        }
        File::options().write(true).open(fixture.path("a.log")).unwrap().set_len(0).unwrap();
        fixture.append("a.log", numbered(lines, lines + 3));
        assert_eq!(numbers(&settle(&mut fixture)), (lines..lines + 3).collect::<Vec<_>>());
        fixture.rig.advance(super::super::orphans::ORPHAN_TIME);
        assert_eq!(
            (settle(&mut fixture), fixture.rig.ledger.progress(SinkIndex::new(0)).lag),
            (vec![], 0)
        );
        assert_eq!(fixture.dropped("truncated_unread"), 0);
        fixture.restart(true);
        assert_eq!(
            (settle(&mut fixture), fixture.rig.ledger.progress(SinkIndex::new(0)).lag),
            (vec![], 0)
        );
    }
}

/// A copy is seen, and the original is truncated, before their data is read. The original may be
/// closed because of the limit on open files.
#[test]
fn data_of_an_unread_file_is_read_from_a_copy_seen_before_the_truncation() {
    read_from_copy_seen_before_truncation(false);
    read_from_copy_seen_before_truncation(true);
}

fn read_from_copy_seen_before_truncation(is_parked: bool) {
    let mut fixture = Fixture::new(json!({}), &["out"]);
    fixture.append("a.log", "");
    assert_eq!(fixture.read(), []);
    fixture.poll();
    fixture.append("a.log", numbered(0, 3));
    fs::copy(fixture.path("a.log"), fixture.path("a.log.1")).unwrap();
    if is_parked {
        fixture.source.files.iter_mut().for_each(Tail::park);
    }
    fixture.poll();
    assert_eq!(fixture.source.files.iter().count(), 2, "the copy is seen");
    File::options().write(true).open(fixture.path("a.log")).unwrap().set_len(0).unwrap();
    assert_eq!(numbers(&settle(&mut fixture)), [0, 1, 2]);
    fixture.append("a.log", numbered(3, 6));
    assert_eq!(numbers(&settle(&mut fixture)), [3, 4, 5]);
}

/// The copy of a truncated file appears late, and the agent is killed before any of its data is
/// delivered.
#[test]
fn a_late_copy_continues_at_the_checkpoints_after_a_crash() {
    let mut fixture = Fixture::new(json!({}), &["out"]);
    fixture.append("a.log", numbered(0, 300));
    assert_eq!(numbers(&settle(&mut fixture)).len(), 300);
    fixture.rig.commit();
    fixture.append("a.log", numbered(300, 600));
    let content = fs::read(fixture.path("a.log")).unwrap();
    File::options().write(true).open(fixture.path("a.log")).unwrap().set_len(0).unwrap();
    assert_eq!(settle(&mut fixture), []);
    fixture.rig.ready = Default::default();
    fs::write(fixture.path("a.log.1"), content).unwrap();
    (0..5).for_each(|_| assert_eq!(fixture.read(), []));
    fixture.restart(false);
    assert_eq!(numbers(&settle(&mut fixture)), (300..600).collect::<Vec<_>>());
}

/// The copy of a truncated file appears while data from the file is in flight.
#[test]
fn a_late_copy_continues_once_nothing_is_in_flight() {
    let mut fixture = Fixture::new(json!({}), &["out"]);
    fixture.append("a.log", numbered(0, 300));
    let (batch, _permit) = fixture.next();
    fixture.append("a.log", numbered(300, 600));
    fs::copy(fixture.path("a.log"), fixture.dir.path().join("saved")).unwrap();
    File::options().write(true).open(fixture.path("a.log")).unwrap().set_len(0).unwrap();
    assert_eq!(fixture.read(), []);
    fixture.rename("saved", "a.log.1");
    assert_eq!(fixture.read(), [], "data is in flight");
    deliver(&batch);
    assert_eq!(numbers(&settle(&mut fixture)), (300..600).collect::<Vec<_>>());
    fixture.restart(true);
    assert_eq!(fixture.read(), []);
}

/// A file is truncated, and the agent exits before it sees the copy. Delivered lines are not reread
/// from the copy, and undelivered lines keep their ids.
#[test]
fn a_copy_that_appears_while_the_agent_is_down_is_not_read_again() {
    for (is_compressed, committed) in [(false, 300), (true, 300), (false, 100), (true, 100)] {
        let mut fixture = Fixture::new(json!({}), &["out"]);
        fixture.append("a.log", numbered(0, committed));
        settle(&mut fixture);
        fixture.rig.commit();
        fixture.append("a.log", numbered(committed, 300));
        let rest = settle(&mut fixture);
        fs::copy(fixture.path("a.log"), fixture.dir.path().join("saved")).unwrap();
        File::options().write(true).open(fixture.path("a.log")).unwrap().set_len(0).unwrap();
        fixture.append("a.log", numbered(300, 400));
        assert_eq!(numbers(&settle(&mut fixture)), (300..400).collect::<Vec<_>>());
        fixture.rename("saved", "a.log.1");
        if is_compressed {
            compress(&fixture, "a.log.1");
        }
        fixture.restart(committed == 300);
        let again = settle(&mut fixture);
        let in_copy: Vec<usize> =
            numbers(&again).into_iter().filter(|number| *number < 300).collect();
        let case = format!("compressed: {is_compressed}, committed: {committed}");
        assert_eq!(in_copy, numbers(&rest), "{case}");
        assert!(rest.iter().all(|line| again.contains(line)), "other ids; {case}");
        fixture.restart(true);
        assert_eq!(settle(&mut fixture), []);
    }
}

/// A file whose beginning, shorter than a head, equals the beginning of another file is not its
/// copy.
#[test]
fn a_short_beginning_does_not_prove_a_continuation() {
    let mut fixture = Fixture::new(json!({}), &["out"]);
    fixture.append("a.log", numbered(0, 2));
    assert_eq!(numbers(&settle(&mut fixture)), [0, 1]);
    fs::create_dir(fixture.path("away")).unwrap();
    fixture.rename("a.log", "away/a.log");
    for _ in 0..3 {
        fixture.rig.commit();
        fixture.rig.advance(super::super::GONE_SILENCE);
        assert_eq!(fixture.read(), []);
    }
    assert_eq!(fixture.source.files.iter().count(), 0, "the file is closed");
    fixture.append("a.log.1", numbered(0, 3));
    assert_eq!(numbers(&settle(&mut fixture)), [0, 1, 2]);
}

/// After a restart, a compressed file that was read to its end is recognized by its size and
/// modification time.
#[test]
fn the_end_of_a_compressed_file_is_saved() {
    use crate::identity::Descriptor;
    use millstream_model::OriginStore;
    let mut fixture = Fixture::new(json!({}), &["out"]);
    fixture.append("a.log.1", numbered(0, 100));
    compress(&fixture, "a.log.1");
    assert_eq!(numbers(&settle(&mut fixture)), (0..100).collect::<Vec<_>>());
    fixture.rig.commit();
    let kept = fixture.rig.store.origins().unwrap().0;
    let mut kept = kept.iter().filter_map(|record| Descriptor::from_bytes(&record.descriptor));
    assert!(kept.any(|descriptor| descriptor.compressed.is_some()));
}
