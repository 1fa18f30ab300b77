//! Discovery: which files are read, where reading starts, and the ids of the files.

use super::super::orphans::ORPHAN_TIME;
use super::*;
use crate::identity::Descriptor;
use crate::tail::Tail;
use millstream_model::{OriginStore, Progress, SinkIndex, Source};
use std::collections::BTreeSet;
use std::time::{Instant, SystemTime};

/// Sets a file's modification time to `seconds` before the current time on the rig's wall clock.
fn age(file: &File, fixture: &Fixture, seconds: u64) {
    let now = SystemTime::UNIX_EPOCH + Duration::from_nanos(fixture.rig.now.unix_ns as u64);
    file.set_modified(now - Duration::from_secs(seconds)).unwrap();
}

/// With `read_from: end`, a file that exists at the very first start is read from its incomplete
/// last line; a file that appears later, or between two runs, is read from its beginning.
#[test]
fn read_from_end_applies_only_at_the_very_first_start() {
    let mut fixture = Fixture::new(json!({ "read_from": "end" }), &["out"]);
    fixture.append("old.log", "old\nhalf ");
    assert_eq!(fixture.read_texts(), Vec::<String>::new());
    fixture.append("old.log", "a line\n");
    fixture.append("later.log", "later\n");
    assert_eq!(
        BTreeSet::from_iter(fixture.read_texts()),
        ["half a line".into(), "later".into()].into()
    );
    fixture.restart(true);
    fixture.append("between.log", "between\n");
    assert_eq!(fixture.read_texts(), ["between"]);
}

/// With `ignore_older`, an older file is read from its end and a newer one from its beginning at
/// the very first start. After that, the age of a file does not matter.
#[test]
fn ignore_older_applies_only_at_the_very_first_start() {
    let mut fixture = Fixture::new(json!({ "ignore_older": "1h" }), &["out"]);
    age(&fixture.append("old.log", "old\n"), &fixture, 3602);
    age(&fixture.append("young.log", "young\n"), &fixture, 3598);
    assert_eq!(fixture.read_texts(), ["young"]);
    fixture.append("old.log", "events\n");
    age(&fixture.append("moved here.log", "moved here\n"), &fixture, 1_000_000);
    assert_eq!(
        BTreeSet::from_iter(fixture.read_texts()),
        ["events".into(), "moved here".into()].into()
    );
}

/// No line is sent before its file id is durable. A start during which the store failed is not
/// treated as the first start.
#[test]
fn nothing_is_read_before_its_id_is_durable() {
    let mut fixture = Fixture::new(json!({ "read_from": "end" }), &["out"]);
    fixture.append("a.log", "old\n");
    fixture.rig.store.fail(true);
    assert_eq!(fixture.read_texts(), Vec::<String>::new());
    fixture.rig.store.fail(false);
    assert_eq!(fixture.read_texts(), Vec::<String>::new());
    fixture.append("a.log", "new\n");
    assert_eq!(fixture.read_texts(), ["new"]);
    assert_eq!(fixture.rig.store.ids().len(), 1);
}

/// A start adopts no file while the store fails. Once the store works again, known files keep their
/// ids, including a file that no longer matches a pattern, and a new file gets a single id.
#[test]
fn known_files_keep_their_ids_when_a_start_cannot_write_the_store() {
    let mut fixture = Fixture::new(json!({}), &["out"]);
    fixture.append("a.log", "a1\n");
    fixture.append("b.log", "b1\n");
    fixture.read();
    let known = fixture.rig.store.ids();
    fixture.restart(true);
    fixture.append("a.log", "a2\n");
    fixture.append("b.log", "b2\n");
    fixture.append("c.log", "c1\n");
    fixture.rename("b.log", "b.old");
    fixture.rig.store.fail(true);
    for _ in 0..5 {
        assert_eq!(fixture.read_texts(), Vec::<String>::new());
    }
    fixture.rig.store.fail(false);
    let lines = fixture.read();
    assert_eq!(BTreeSet::from_iter(texts(&lines)), ["a2", "b2", "c1"].map(str::to_owned).into());
    let ids = fixture.rig.store.ids();
    assert!(known.iter().all(|id| ids.contains(id)) && ids.len() == 3, "{known:?} became {ids:?}");
    let again = lines.iter().filter(|line| known.contains(&line.file_id));
    assert_eq!(again.count(), 2, "a line of a known file has a new id: {lines:?}");
}

/// While the store cannot save new ids, files with saved ids are still read.
#[test]
fn known_files_are_read_while_the_store_cannot_save_new_ids() {
    let mut fixture = Fixture::new(json!({}), &["out"]);
    fixture.append("a.log", "a1\n");
    let known = fixture.read()[0].file_id;
    fixture.restart(true);
    fixture.append("a.log", "a2\n");
    fixture.append("b.log", "b1\n");
    fixture.rig.store.fill(true);
    let lines = fixture.read();
    assert_eq!((texts(&lines), lines[0].file_id), (vec!["a2".to_owned()], known));
    fixture.append("a.log", "a3\n");
    assert_eq!(fixture.read_texts(), ["a3"]);
    fixture.rig.store.fill(false);
    assert_eq!(fixture.read_texts(), ["b1"]);
}

/// A renamed file keeps its id, its first name and its position; a new file at the old path gets a
/// new id.
#[test]
fn a_renamed_file_keeps_its_id_and_position() {
    let mut fixture = Fixture::new(json!({}), &["out"]);
    fixture.append("a.log", "1\n");
    let first = fixture.read();
    fixture.rename("a.log", "a.log.1");
    fixture.append("a.log.1", "2\n");
    fixture.append("a.log", "new\n");
    let batches = fixture.batches();
    let all: Vec<Line> = batches.iter().flat_map(lines).collect();
    let line = |text: &str| all.iter().find(|line| line.text == text.as_bytes()).unwrap();
    assert_eq!(all.len(), 2);
    assert_eq!((line("2").file_id, line("2").offset), (first[0].file_id, 2));
    assert_ne!(line("new").file_id, first[0].file_id);
    let names: BTreeSet<&str> =
        batches.iter().flat_map(|b| b.segments.iter()).map(|s| &*s.origin.name).collect();
    assert_eq!(names, [fixture.path("a.log").to_str().unwrap()].into());
}

/// A file that is renamed while the agent is down keeps its id and its position.
#[test]
fn a_file_renamed_between_two_runs_keeps_its_id_and_position() {
    let mut fixture = Fixture::new(json!({}), &["out"]);
    fixture.append("a.log", "1\n");
    let first = fixture.read();
    fixture.restart(true);
    fixture.rename("a.log", "a.log.1");
    fixture.append("a.log.1", "2\n");
    let second = fixture.read();
    assert_eq!(texts(&second), ["2"]);
    assert_eq!((second[0].file_id, second[0].offset), (first[0].file_id, 2));
}

/// After a clean restart nothing is resent, even from a small file that has just grown.
#[test]
fn a_file_that_grew_just_before_a_restart_is_recognized() {
    let mut fixture = Fixture::new(json!({}), &["out"]);
    fixture.append("a.log", "");
    let (_, _) = (fixture.poll(), fixture.rig.advance(STEP));
    fixture.append("a.log", "1\n");
    deliver(&fixture.next().0);
    fixture.restart(true);
    fixture.append("a.log", "2\n");
    assert_eq!(fixture.read_texts(), ["2"]);
}

/// A truncated file gets a new id and offsets from 0; the old id is removed from the store once a
/// copy is no longer awaited.
#[test]
fn a_truncated_file_gets_a_new_id() {
    let mut fixture = Fixture::new(json!({}), &["out"]);
    let file = fixture.append("a.log", "1\n2\n");
    let first = fixture.read();
    file.set_len(0).unwrap();
    assert_eq!(fixture.read_texts(), Vec::<String>::new());
    fixture.append("a.log", "3\n");
    let second = fixture.read();
    assert_eq!(texts(&second), ["3"]);
    assert_ne!(second[0].file_id, first[0].file_id);
    assert_eq!(second[0].offset, 0);
    assert_eq!(fixture.rig.store.ids().len(), 2, "a copy may appear");
    fixture.rig.advance(ORPHAN_TIME);
    fixture.read();
    assert_eq!(fixture.rig.store.ids(), [second[0].file_id]);
}

/// A truncated file waits while the store fails. Afterward it is read like any new file.
#[test]
fn a_truncated_file_is_read_once_its_new_id_is_saved() {
    let mut fixture = Fixture::new(json!({}), &["out"]);
    let file = fixture.append("a.log", "1\n2\n");
    fixture.read();
    file.set_len(0).unwrap();
    fixture.append("a.log", "3\n");
    fixture.rig.store.fail(true);
    assert_eq!(fixture.read_texts(), Vec::<String>::new());
    fixture.rig.store.fail(false);
    assert_eq!(fixture.read_texts(), ["3"]);
}

/// Data that is in flight when a file is truncated, and is then abandoned, waits for the copy of
/// the file. Without a copy the data is lost.
#[test]
fn abandoned_data_of_a_truncated_file_is_counted_if_no_copy_appears() {
    let mut fixture = Fixture::new(json!({}), &["out"]);
    let file = fixture.append("a.log", "1\n2\n");
    let (in_flight, _) = fixture.next();
    fixture.append("a.log", "never read\n");
    file.set_len(0).unwrap();
    assert_eq!(fixture.read_texts(), Vec::<String>::new());
    drop(in_flight);
    assert_eq!(fixture.read_texts(), Vec::<String>::new());
    assert_eq!(fixture.dropped("truncated_unread"), 0);
    fixture.rig.advance(ORPHAN_TIME);
    assert_eq!(fixture.read_texts(), Vec::<String>::new());
    assert_eq!(fixture.dropped("truncated_unread"), 1);
    assert_eq!(fixture.rig.ledger.progress(SinkIndex::new(0)), Progress::default());
    assert!(fixture.rig.ledger.is_idle());
}

/// Unread data of a truncated file is lost, and is counted up to the last known length.
#[test]
fn data_truncated_before_it_was_read_is_counted() {
    let mut fixture = Fixture::new(json!({}), &["out"]);
    let file = fixture.append("a.log", "1\n");
    assert_eq!(fixture.read_texts(), ["1"]);
    let ready = std::mem::take(&mut fixture.rig.ready);
    fixture.append("a.log", "never read\n");
    fixture.rig.advance(super::super::schedule::QUIET_POLL);
    assert!(fixture.batches().is_empty());
    fixture.rig.advance(super::super::END_INTERVAL);
    assert!(fixture.batches().is_empty());
    file.set_len(0).unwrap();
    fixture.rig.ready = ready;
    assert!(fixture.batches().is_empty());
    // The data is counted once a copy can no longer appear.
    fixture.rig.advance(Duration::from_secs(120));
    assert!(fixture.batches().is_empty());
    assert_eq!(fixture.dropped("truncated_unread"), 1);
}

/// Unread data is also counted if the agent stops before it has seen the truncation. The restarted
/// agent reads the new content. The file may be closed because of the limit on open files.
#[test]
fn data_truncated_just_before_a_stop_is_counted() {
    for is_closed in [false, true] {
        let mut fixture = Fixture::new(json!({}), &["out"]);
        let file = fixture.append("a.log", "1\n");
        assert_eq!(fixture.read_texts(), ["1"]);
        let ready = std::mem::take(&mut fixture.rig.ready);
        fixture.append("a.log", "never read\n");
        fixture.rig.advance(super::super::schedule::QUIET_POLL);
        assert!(fixture.batches().is_empty());
        fixture.rig.advance(super::super::END_INTERVAL);
        assert!(fixture.batches().is_empty());
        if is_closed {
            fixture.source.files.iter_mut().for_each(Tail::park);
        }
        file.set_len(0).unwrap();
        fixture.append("a.log", "new\n");
        fixture.source.hold(Instant::now());
        let left = fixture.source.leave().unwrap();
        assert_eq!((left.lost.bytes, left.waiting.bytes), (11, 4), "closed: {is_closed}");
        assert_eq!(fixture.dropped("truncated_unread"), 1);
        fixture.rig.ready = ready;
        fixture.restart(true);
        assert_eq!(fixture.read_texts(), ["new"]);
    }
}

/// A deleted file is read while its writer has it open. Once it stops growing, its incomplete last
/// line is delivered; once that line is settled and committed, the file is closed and its id is
/// removed.
#[test]
fn a_deleted_file_is_forgotten_after_a_quiet_period() {
    let mut fixture = Fixture::new(json!({}), &["out"]);
    let mut file = fixture.append("a.log", "1\n");
    assert_eq!(fixture.read_texts(), ["1"]);
    fs::remove_file(fixture.path("a.log")).unwrap();
    fixture.batches();
    file.write_all(b"2\nunfinished").unwrap();
    let (batch, _) = fixture.next();
    assert_eq!(texts_of(&batch), ["2"]);
    deliver(&batch);
    assert!(fixture.batches().is_empty(), "the quiet period has not passed");
    let (batch, _) = fixture.next();
    assert_eq!(texts_of(&batch), ["unfinished"]);
    fixture.rig.advance(super::super::GONE_SILENCE * 2);
    fixture.batches();
    assert_eq!(fixture.rig.store.ids().len(), 1, "data is in flight");
    deliver(&batch);
    fixture.rig.advance(super::super::GONE_SILENCE);
    fixture.batches();
    assert_eq!(
        fixture.rig.store.ids().len(),
        1,
        "a crash before the commit would revert the checkpoint"
    );
    fixture.rig.commit();
    fixture.rig.advance(super::super::GONE_SILENCE);
    fixture.batches();
    assert_eq!((fixture.rig.store.ids(), fixture.source.files.iter().count()), (vec![], 0));
}

/// A file with the inode number of a known file but different content is a new file.
#[test]
fn new_content_in_a_known_inode_is_a_new_file() {
    for content in ["B", "Another beginning\nand a second line\n", "One li"] {
        let mut fixture = Fixture::new(json!({}), &["out"]);
        fixture.append("a.log", "One line\n");
        let first = fixture.read();
        fixture.restart(true);
        fs::write(fixture.path("a.log"), content).unwrap();
        end(&mut fixture);
        let second = fixture.read();
        assert_eq!(texts(&second).join("\n"), content.trim_end());
        assert_ne!(second[0].file_id, first[0].file_id);
        assert_eq!(second[0].offset, 0);
    }
}

/// A file with a second hard link is read once.
#[test]
fn one_file_with_two_names_is_read_once() {
    let mut fixture = Fixture::new(json!({}), &["out"]);
    fixture.append("a.log", "1\n");
    fs::hard_link(fixture.path("a.log"), fixture.path("b.log")).unwrap();
    assert_eq!(fixture.read_texts(), ["1"]);
}

/// A file that has not grown for a while is watched by inotify and polled rarely; its next line is
/// still read immediately.
#[test]
fn a_quiet_file_is_polled_rarely() {
    let mut fixture = Fixture::new(json!({}), &["out"]);
    fixture.append("a.log", "1\n");
    deliver(&fixture.next().0);
    let rarely = |fixture: &Fixture| {
        let soon = fixture.rig.now.since_start + STEP * 10;
        fixture.source.files.iter().all(|tail| tail.is_watched() && tail.next() > soon)
    };
    assert!(!rarely(&fixture));
    for _ in 0..30 {
        assert!(matches!(fixture.poll(), Polled::Wait(_)));
        fixture.rig.advance(STEP);
    }
    assert!(rarely(&fixture));
    fixture.append("a.log", "2\n");
    let Polled::Batch(batch, _) = fixture.poll() else {
        panic!("the write is noticed by the next poll")
    };
    assert_eq!(texts_of(&batch), ["2"]);
}

/// Thousands of files with one line each share one batch.
#[test]
fn many_small_files_share_a_block() {
    const FILES: usize = 5000;
    let mut fixture = Fixture::new(json!({}), &["out"]);
    raise_open_files(FILES as u64 + 500);
    for n in 0..FILES {
        fixture.append(&format!("{n}.log"), format!("line of file {n}\n"));
    }
    let batches = fixture.batches();
    assert_eq!(batches.len(), 1);
    assert_eq!((batches[0].segments.len(), batches[0].rows()), (FILES, FILES));
    assert_eq!(
        batches[0].segments.iter().map(|s| s.origin.id).collect::<BTreeSet<_>>().len(),
        FILES
    );
    assert_eq!(texts_of(&batches[0]).iter().collect::<BTreeSet<_>>().len(), FILES);
}

fn raise_open_files(least: u64) {
    use rustix::process::{Resource, getrlimit, setrlimit};
    let mut limit = getrlimit(Resource::Nofile);
    if limit.current.is_some_and(|current| current < least) {
        limit.current = Some(least);
        setrlimit(Resource::Nofile, limit).expect("the right to open some thousand files");
    }
}

/// A short head is made durable before its data is sent, so that after a crash, new content of the
/// file is not sent with the ids of delivered lines.
#[test]
fn new_content_after_a_crash_gets_new_ids_without_a_commit() {
    let mut fixture = Fixture::new(json!({}), &["out"]);
    fixture.append("a.log", "");
    fixture.read();
    fixture.rig.commit();
    fixture.append("a.log", "old 1\nold 2\n");
    let first = fixture.read();
    fixture.restart(false);
    fs::write(fixture.path("a.log"), "new 1\nnew 2\n").unwrap();
    let second = fixture.read();
    assert_eq!(
        (texts(&first).len(), texts(&second)),
        (2, vec!["new 1".to_owned(), "new 2".to_owned()])
    );
    assert_ne!(first[0].file_id, second[0].file_id);
}

/// While the store fails, data that extends a short head is not sent; it is reread afterward.
#[test]
fn nothing_is_emitted_before_its_head_is_saved() {
    let mut fixture = Fixture::new(json!({}), &["out"]);
    fixture.append("a.log", "1\n");
    fixture.read();
    fixture.rig.store.fail(true);
    fixture.append("a.log", "2\n");
    (0..10).for_each(|_| assert_eq!(fixture.read(), []));
    fixture.rig.store.fail(false);
    assert_eq!(fixture.read_texts(), ["2"]);
    assert_eq!(fixture.dropped("panic"), 0);
}

/// A FIFO that matches a pattern is reported once as unreadable, with a message that says how to
/// fix it.
#[test]
fn a_fifo_that_matches_a_pattern_is_reported() {
    use rustix::fs::{CWD, FileType, Mode, mknodat};
    let mut fixture = Fixture::new(json!({}), &["out"]);
    mknodat(CWD, fixture.path("fifo.log"), FileType::Fifo, Mode::from_raw_mode(0o600), 0).unwrap();
    fixture.append("a.log", "1\n");
    assert_eq!(fixture.read_texts(), ["1"]);
    let unreadable = fixture.rig.unreadable.list();
    let reason = &unreadable[fixture.path("fifo.log").to_str().unwrap()];
    assert_eq!(reason, "is a FIFO, not a regular file; exclude it, or narrow `include`");
    for _ in 0..3 {
        fixture.rig.advance(super::super::WALK_INTERVAL);
        fixture.batches();
    }
    assert_eq!(fixture.rig.counters.snapshot().errors.get("unreadable"), Some(&1), "once");
    fs::remove_file(fixture.path("fifo.log")).unwrap();
    fixture.rig.advance(super::super::WALK_INTERVAL);
    fixture.batches();
    assert!(fixture.rig.unreadable.list().is_empty());
}

/// A pattern whose last file is deleted is reported immediately, until a file appears again.
#[test]
fn a_pattern_is_missing_once_its_last_file_is_deleted() {
    let mut fixture = Fixture::new(json!({}), &["out"]);
    fixture.append("a.log", "1\n");
    fixture.append("b.log", "2\n");
    assert_eq!(fixture.read_texts().len(), 2);
    fs::remove_file(fixture.path("a.log")).unwrap();
    fixture.batches();
    assert!(fixture.rig.unreadable.list().is_empty(), "another file matches");
    fs::remove_file(fixture.path("b.log")).unwrap();
    let is_missing = |fixture: &mut Fixture| {
        fixture.rig.advance(std::time::Duration::from_millis(100));
        fixture.batches();
        fixture.rig.unreadable.list().values().any(|reason| reason == super::super::MISSING)
    };
    assert!((0..20).any(|_| is_missing(&mut fixture)));
    fixture.append("c.log", "3\n");
    assert!((0..20).any(|_| !is_missing(&mut fixture)));
}

/// inotify reports new names, and they are checked without a walk.
#[test]
fn a_new_file_is_read_without_a_walk() {
    let mut fixture = Fixture::new(json!({ "include": "*.log" }), &["out"]);
    fixture.append("a.log", "1\n");
    assert_eq!(fixture.read_texts(), ["1"]);
    fixture.source.walks.set_pause(Duration::from_hours(1));
    let walked = fixture.source.walks.last();
    fixture.append("b.log", "2\n");
    assert_eq!(fixture.read_texts(), ["2"]);
    fixture.append("draft", "3\n");
    fixture.rename("draft", "c.log");
    assert_eq!(fixture.read_texts(), ["3"]);
    fixture.rename("a.log", "a.log.1");
    fixture.append("a.log.1", "late\n");
    fixture.append("a.log", "4\n");
    assert_eq!(BTreeSet::from_iter(fixture.read_texts()), ["late".into(), "4".into()].into());
    let statuses = |fixture: &Fixture| {
        fixture.source.files.iter().filter(|tail| tail.gone_since().is_some()).count()
    };
    assert_eq!(statuses(&fixture), 1, "the renamed file");
    fs::remove_file(fixture.path("b.log")).unwrap();
    fixture.batches();
    assert_eq!((statuses(&fixture), fixture.source.walks.last()), (2, walked));
}

#[test]
fn the_first_walk_does_not_delay_the_next() {
    let mut fixture = Fixture::new(json!({}), &["out"]);
    for number in 0..1000 {
        fs::write(fixture.path(&format!("{number}.log")), "").unwrap();
    }
    fixture.poll();
    assert_eq!(fixture.source.walks.pause(), super::super::WALK_PAUSE);
}

/// At a start the folder is empty, because its file system is not mounted yet.
#[test]
fn files_are_recognized_after_their_folder_was_empty_at_a_start() {
    let mut fixture = Fixture::new(json!({ "include": "mount/*.log" }), &["out"]);
    fs::create_dir(fixture.path("mount")).unwrap();
    fixture.append("mount/a.log", "1\n");
    assert_eq!(fixture.read_texts(), ["1"]);
    fixture.rig.commit();
    fixture.rename("mount", "elsewhere");
    fs::create_dir(fixture.path("mount")).unwrap();
    for _ in 0..2 {
        fixture.restart(true);
        assert_eq!(fixture.read_texts(), Vec::<String>::new());
    }
    fs::remove_dir(fixture.path("mount")).unwrap();
    fixture.rename("elsewhere", "mount");
    fixture.append("mount/a.log", "2\n");
    fixture.rig.advance(super::super::WALK_INTERVAL);
    assert_eq!(fixture.read_texts(), ["2"]);
}

/// Records are also kept if the folder contains other files and is on a different device from the
/// recorded one.
#[test]
fn files_are_recognized_after_another_device_was_mounted_at_a_start() {
    let mut fixture = Fixture::new(json!({ "include": "mount/*.log" }), &["out"]);
    fs::create_dir(fixture.path("mount")).unwrap();
    fixture.append("mount/a.log", "1\n");
    assert_eq!(fixture.read_texts(), ["1"]);
    fixture.rig.commit();
    for record in fixture.rig.store.origins().unwrap().0 {
        let mut descriptor = Descriptor::from_bytes(&record.descriptor).unwrap();
        descriptor.device += 1;
        fixture.rig.store.keep(&[(record.id, descriptor.to_bytes())]).unwrap();
    }
    fixture.rename("mount/a.log", "a.log");
    fixture.append("mount/b.log", "other\n");
    fixture.restart(false);
    assert_eq!(fixture.read_texts(), ["other"]);
    fixture.rename("a.log", "mount/a.log");
    fixture.append("mount/a.log", "2\n");
    fixture.rig.advance(super::super::WALK_INTERVAL);
    assert_eq!(fixture.read_texts(), ["2"]);
}
