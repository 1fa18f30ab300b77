//! Finished files: only the data that shows whether they are unchanged stays in memory.

use super::*;
use crate::source::schedule::IDLE_AFTER;
use flate2::Compression;
use flate2::write::GzEncoder;

/// A source that finishes every idle file.
fn fixture() -> Fixture {
    Fixture::new(json!({ "idle_files_max": 0 }), &["out"])
}

/// Reads everything, and returns the lines once `files` files are finished.
fn finish(fixture: &mut Fixture, files: usize) -> Vec<String> {
    let mut texts = fixture.read_texts();
    for _ in 0..100 {
        fixture.rig.commit();
        if fixture.source.history.finished.len() == files && fixture.source.files.len() == 0 {
            return texts;
        }
        fixture.rig.advance(IDLE_AFTER / 10);
        texts.extend(fixture.read_texts());
    }
    let (finished, open) = (fixture.source.history.finished.len(), fixture.source.files.len());
    panic!("{finished} of {files} files are finished, {open} are not");
}

/// Returns the lines that are read up to shortly after the next walk.
fn after_walk(fixture: &mut Fixture) -> Vec<String> {
    let mut texts = fixture.read_texts();
    fixture.rig.advance(crate::source::WALK_INTERVAL);
    texts.extend(fixture.read_texts());
    fixture.rig.advance(Duration::from_secs(15));
    texts.extend(fixture.read_texts());
    texts
}

fn write_compressed(path: &Path, text: &[u8]) {
    let mut gzip = GzEncoder::new(Vec::new(), Compression::default());
    gzip.write_all(text).unwrap();
    fs::write(path, gzip.finish().unwrap()).unwrap();
}

#[test]
fn a_finished_file_is_read_from_its_checkpoint_when_it_grows() {
    let mut fixture = fixture();
    fixture.append("a.log", "one\n");
    fixture.append("b.log", "b\n");
    assert_eq!(finish(&mut fixture, 2), ["one", "b"]);
    assert_eq!(fixture.rig.ledger.origins().len(), 0, "the ledger has none of them");
    let ids = fixture.rig.store.ids();
    fixture.append("a.log", "two\n");
    assert_eq!(fixture.read_texts(), ["two"], "inotify reports the write");
    assert_eq!(finish(&mut fixture, 2), [""; 0]);
    assert_eq!(fixture.rig.store.ids(), ids, "it keeps its id");
    // Without inotify, a walk notices the change.
    fixture.source.watch = crate::watch::Watch::without_inotify();
    fixture.append("b.log", "c\n");
    assert_eq!(after_walk(&mut fixture), ["c"]);
}

#[test]
fn an_agent_that_was_killed_finds_finished_files_unchanged_or_grown() {
    let mut fixture = fixture();
    (0..5).for_each(|n| drop(fixture.append(&format!("{n}.log"), format!("{n}\n"))));
    assert_eq!(finish(&mut fixture, 5).len(), 5);
    let opened = fixture.rig.store.ids();
    fixture.append("3.log", "more\n");
    fixture.restart(false);
    assert_eq!(fixture.read_texts(), ["more"]);
    assert_eq!(fixture.source.history.finished.len(), 4, "unchanged files are not opened");
    // inotify reports the first write to a file that is not open.
    fixture.append("1.log", "late\n");
    assert_eq!(fixture.read_texts(), ["late"]);
    assert_eq!(fixture.rig.store.ids(), opened);
    // The agent is killed before the commit, so the lines are resent with the same id.
    fixture.append("2.log", "x\n");
    assert_eq!(fixture.read_texts(), ["x"]);
    fixture.restart(false);
    let mut again = fixture.read_texts();
    again.sort();
    assert_eq!(again, ["late", "more", "x"]);
}

#[test]
fn a_finished_file_that_is_truncated_is_read_from_its_beginning() {
    let mut fixture = fixture();
    fixture.append("a.log", "a first line\n");
    fixture.append("b.log", "same size 1\n");
    finish(&mut fixture, 2);
    fs::write(fixture.path("a.log"), "new\n").unwrap();
    fs::write(fixture.path("b.log"), "same size 2\n").unwrap();
    let mut texts = after_walk(&mut fixture);
    texts.sort();
    assert_eq!(texts, ["new", "same size 2"]);
    assert_eq!(fixture.dropped("truncated_unread"), 0, "everything was settled");
}

#[test]
fn a_finished_file_that_is_rotated_is_not_read_again() {
    for include in ["*.log*", "*.log"] {
        let mut fixture =
            Fixture::new(json!({ "include": include, "idle_files_max": 0 }), &["out"]);
        fixture.append("a.log", "one\n");
        assert_eq!(finish(&mut fixture, 1), ["one"]);
        fixture.rename("a.log", "a.log.1");
        fixture.append("a.log.1", "last\n");
        fixture.append("a.log", "two\n");
        let mut texts = after_walk(&mut fixture);
        texts.sort();
        assert_eq!(texts, ["last", "two"], "{include}");
    }
}

#[test]
fn a_compressed_rotation_of_a_finished_file_is_not_read_again() {
    for (include, seen_between) in [("*.log*", false), ("*.log*", true), ("*.log", false)] {
        let mut fixture =
            Fixture::new(json!({ "include": include, "idle_files_max": 0 }), &["out"]);
        fixture.append("a.log", "one\n");
        assert_eq!(finish(&mut fixture, 1), ["one"]);
        write_compressed(&fixture.path("a.log.1.gz"), b"one\n");
        let mut texts = Vec::new();
        if seen_between {
            texts.extend(after_walk(&mut fixture));
        }
        fs::remove_file(fixture.path("a.log")).unwrap();
        texts.extend(after_walk(&mut fixture));
        assert_eq!(texts, [""; 0], "{include} {seen_between}");
    }
}

#[test]
fn a_finished_file_whose_first_link_is_compressed_is_not_read_again() {
    let mut fixture = Fixture::new(json!({ "include": "*.log*", "idle_files_max": 0 }), &["out"]);
    fixture.append("a.log", "one\n");
    assert_eq!(finish(&mut fixture, 1), ["one"]);
    fs::hard_link(fixture.path("a.log"), fixture.path("h.log")).unwrap();
    assert_eq!(after_walk(&mut fixture), [""; 0]);
    write_compressed(&fixture.path("a.log.1.gz"), b"one\n");
    fs::remove_file(fixture.path("a.log")).unwrap();
    assert_eq!(after_walk(&mut fixture), [""; 0]);
}

#[test]
fn a_copy_of_a_finished_file_that_is_truncated_is_not_read_again() {
    for (include, seen_between) in [("*.log*", false), ("*.log*", true), ("*.log", false)] {
        let mut fixture =
            Fixture::new(json!({ "include": include, "idle_files_max": 0 }), &["out"]);
        fixture.append("a.log", "one\n");
        assert_eq!(finish(&mut fixture, 1), ["one"]);
        fs::copy(fixture.path("a.log"), fixture.path("a.log.1")).unwrap();
        let mut texts = Vec::new();
        if seen_between {
            texts.extend(after_walk(&mut fixture));
        }
        fs::write(fixture.path("a.log"), "").unwrap();
        fixture.append("a.log", "two\n");
        texts.extend(after_walk(&mut fixture));
        assert_eq!(texts, ["two"], "{include} {seen_between}");
    }
}

#[test]
fn a_deleted_finished_file_is_forgotten_and_its_inode_may_be_reused() {
    let mut fixture = fixture();
    (0..3).for_each(|n| drop(fixture.append(&format!("{n}.log"), "the same line\n")));
    assert_eq!(finish(&mut fixture, 3).len(), 3);
    fs::remove_file(fixture.path("0.log")).unwrap();
    fixture.append("9.log", "the same line\n");
    assert_eq!(after_walk(&mut fixture), ["the same line"]);
    assert_eq!(after_walk(&mut fixture), [""; 0]);
    assert_eq!(fixture.rig.store.ids().len(), 3, "the deleted one is forgotten");
    // A walk notices the change if inotify does not.
    fixture.source.watch = crate::watch::Watch::without_inotify();
    fs::remove_file(fixture.path("1.log")).unwrap();
    (0..3).for_each(|_| assert_eq!(after_walk(&mut fixture), [""; 0]));
    assert_eq!(fixture.rig.store.ids().len(), 2);
}

#[test]
fn data_written_just_before_the_deletion_is_counted_as_lost() {
    let mut fixture = fixture();
    fixture.append("a.log", "one\n");
    fixture.append("b.log", "b\n");
    finish(&mut fixture, 2);
    fixture.append("a.log", "two\n");
    fs::remove_file(fixture.path("a.log")).unwrap();
    (0..3).for_each(|_| assert_eq!(after_walk(&mut fixture), [""; 0]));
    assert_eq!(fixture.dropped("truncated_unread"), 1);
}

#[test]
fn a_new_sink_reads_finished_files() {
    let mut fixture = fixture();
    fixture.append("a.log", "one\n");
    finish(&mut fixture, 1);
    let sinks: Vec<_> =
        millstream_model::SinkIndex::all().zip(["out", "more"].map(str::to_owned)).collect();
    fixture.rig.sinks.clone_from(&sinks);
    fixture.rig.ready = fixture.rig.all();
    millstream_model::Source::set_sinks(&mut fixture.source, &sinks);
    assert_eq!(after_walk(&mut fixture), ["one"]);
}

#[test]
fn a_store_that_cannot_be_read_delays_a_finished_file() {
    let mut fixture = fixture();
    fixture.append("a.log", "one\n");
    finish(&mut fixture, 1);
    fixture.rig.store.fail(true);
    fixture.append("a.log", "two\n");
    assert_eq!(after_walk(&mut fixture), [""; 0]);
    fixture.rig.store.fail(false);
    assert_eq!(after_walk(&mut fixture), ["two"]);
}

#[test]
fn a_file_with_an_incomplete_line_is_not_finished() {
    let mut fixture = fixture();
    fixture.append("a.log", "one\ntw");
    fixture.read_texts();
    for _ in 0..5 {
        fixture.rig.commit();
        fixture.rig.advance(IDLE_AFTER);
        assert_eq!(fixture.read_texts(), [""; 0]);
    }
    assert_eq!(fixture.source.history.finished.len(), 0);
    fs::remove_file(fixture.path("a.log")).unwrap();
    assert_eq!(after_walk(&mut fixture), ["tw"]);
}

#[test]
fn the_memory_of_files_is_declared() {
    let mut fixture = fixture();
    (0..100).for_each(|n| drop(fixture.append(&format!("{n}.log"), "a line\n")));
    fixture.read_texts();
    fixture.rig.advance(Duration::from_secs(2));
    fixture.read_texts();
    let before = fixture.rig.grant.used();
    assert!(before > 100 * 1000, "{before}");
    finish(&mut fixture, 100);
    fixture.rig.advance(Duration::from_secs(2));
    fixture.read_texts();
    let after = fixture.rig.grant.used();
    assert!((1..100 * 400).contains(&after), "{after}");
}
