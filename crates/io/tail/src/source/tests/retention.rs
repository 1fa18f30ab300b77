//! Files that are rotated away before they are delivered.

use super::*;
use millstream_model::Source;
use std::os::unix::fs::MetadataExt;
use std::time::Instant;

const PATIENCE: Duration = Duration::from_secs(60);

/// Creates a source whose only sink is not ready. Without `links`, the folder for retained files is
/// on another file system.
fn blocked(options: Value, links: bool) -> (Fixture, Option<TempDir>) {
    let mut fixture = Fixture::new(options, &["out"]);
    fixture.rig.ready = Default::default();
    let other = (!links).then(|| tempfile::tempdir_in("/tmp").unwrap());
    if let Some(other) = &other {
        fixture.rig.held_dir = other.path().join("held");
        fixture.restart(false);
        fixture.rig.ready = Default::default();
    }
    (fixture, other)
}

/// Polls for a few seconds while nothing can be delivered.
pub fn pass(fixture: &mut Fixture) {
    for _ in 0..15 {
        fixture.poll();
        fixture.rig.advance(STEP);
    }
}

pub fn held(fixture: &Fixture) -> Vec<String> {
    let entries = fs::read_dir(&fixture.rig.held_dir).into_iter().flatten().flatten();
    let mut names: Vec<String> =
        entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

/// Makes the sink ready; returns the emitted lines.
pub fn free(fixture: &mut Fixture) -> Vec<Line> {
    fixture.rig.ready = fixture.rig.all();
    let mut lines = fixture.read();
    // An incomplete last line is emitted once its file stops growing.
    fixture.rig.advance(super::super::FINISH_SILENCE);
    lines.extend(fixture.read());
    lines
}

fn links_of(fixture: &Fixture, name: &str) -> u64 {
    fs::metadata(fixture.path(name)).unwrap().nlink()
}

#[test]
fn an_undelivered_rotated_file_survives_deletion_and_a_crash_with_its_id() {
    let (mut fixture, _) = blocked(json!({}), true);
    fixture.append("a.log", "1\n2\n3\n");
    pass(&mut fixture);
    let id = fixture.rig.store.ids()[0];
    assert!(held(&fixture).is_empty(), "an active file is not linked");
    fixture.rename("a.log", "a.log.1");
    pass(&mut fixture);
    assert_eq!(held(&fixture), [id.to_string()]);
    fs::remove_file(fixture.path("a.log.1")).unwrap();
    fixture.restart(true);
    let lines = free(&mut fixture);
    assert_eq!(texts(&lines), ["1", "2", "3"]);
    assert!(lines.iter().all(|line| line.file_id == id));
    fixture.rig.commit();
    fixture.rig.advance(super::super::GONE_SILENCE);
    fixture.batches();
    assert!(
        held(&fixture).is_empty() && fixture.rig.store.ids().is_empty(),
        "the link is removed once the file is settled"
    );
}

#[test]
fn a_file_that_is_read_but_not_settled_is_linked() {
    let mut fixture = Fixture::new(json!({}), &["out"]);
    fixture.append("a.log", "1\n");
    let batches = fixture.batches();
    assert_eq!(batches.len(), 1);
    fixture.rename("a.log", "a.log.1");
    pass(&mut fixture);
    assert_eq!(held(&fixture).len(), 1);
    batches.iter().for_each(deliver);
    pass(&mut fixture);
    assert_eq!(held(&fixture).len(), 1, "a crash before the commit would revert the checkpoint");
    fixture.rig.commit();
    pass(&mut fixture);
    assert!(held(&fixture).is_empty());
    assert_eq!(links_of(&fixture, "a.log.1"), 1);
}

#[test]
fn the_rest_of_a_deleted_file_goes_to_the_disk_buffer() {
    let (mut fixture, _) = blocked(json!({ "held": { "spool": true } }), true);
    fixture.append("a.log", "1\n2\n");
    fixture.append("b.log", "3\n");
    fixture.rig.overflow = fixture.rig.all();
    pass(&mut fixture);
    fixture.rename("a.log", "a.log.1");
    pass(&mut fixture);
    assert_eq!(held(&fixture).len(), 1, "as long as it has a name it is held");
    fs::remove_file(fixture.path("a.log.1")).unwrap();
    assert_eq!(texts(&fixture.read()), ["1", "2"], "not what can be read later");
    fixture.rig.commit();
    fixture.rig.advance(super::super::GONE_SILENCE);
    fixture.batches();
    assert!(held(&fixture).is_empty(), "{:?}", held(&fixture));
}

/// `gzip` and logrotate reject files with several links.
#[test]
fn files_are_not_linked_while_sinks_keep_up() {
    let mut fixture = Fixture::new(json!({}), &["out"]);
    for round in 0..5 {
        fixture.append("a.log", format!("{round}\n"));
        let batches = fixture.batches();
        fixture.rename("a.log", "a.log.1");
        fixture.rig.advance(STEP);
        fixture.poll();
        assert_eq!(links_of(&fixture, "a.log.1"), 1);
        batches.iter().for_each(deliver);
        fixture.rig.commit();
        fixture.rig.advance(Duration::from_secs(5));
    }
    assert!(held(&fixture).is_empty());
}

#[test]
fn a_file_that_cannot_be_linked_is_copied_at_a_stop() {
    let (mut fixture, _other) = blocked(json!({}), false);
    fixture.append("a.log", "1\n2\n".repeat(1000));
    fixture.rig.ready = fixture.rig.all();
    let before = fixture.read();
    fixture.rig.ready = Default::default();
    fixture.append("a.log", "3\n4\nunfinished");
    pass(&mut fixture);
    assert!(held(&fixture).is_empty(), "a file with a name is not copied");
    fs::remove_file(fixture.path("a.log")).unwrap();
    fixture.rig.commit();
    fixture.source.hold(Instant::now() + PATIENCE);
    let left = fixture.source.leave().unwrap();
    assert_eq!((left.waiting.files, left.waiting.bytes, left.lost.files), (1, 14, 0));
    fixture.restart(true);
    let lines = free(&mut fixture);
    assert_eq!(texts(&lines), ["3", "4", "unfinished"]);
    assert!(lines.iter().all(|line| line.file_id == before[0].file_id && line.offset >= 4000));
    // After a crash before the commit, the restarted agent rereads the copy.
    fixture.restart(false);
    assert_eq!(texts(&free(&mut fixture)), ["3", "4", "unfinished"]);
    fixture.rig.commit();
    fixture.rig.advance(super::super::GONE_SILENCE);
    fixture.batches();
    assert!(held(&fixture).is_empty());
}

#[test]
fn data_that_cannot_be_held_at_a_stop_is_counted_exactly() {
    let (mut fixture, _other) = blocked(json!({ "held": { "copy_at_stop": false } }), false);
    fixture.append("a.log", "12345\n".repeat(100));
    fixture.append("b.log", "stays\n");
    pass(&mut fixture);
    fs::remove_file(fixture.path("a.log")).unwrap();
    pass(&mut fixture);
    fixture.source.hold(Instant::now() + PATIENCE);
    let left = fixture.source.leave().unwrap();
    assert_eq!((left.lost.files, left.lost.bytes, left.lost.events), (1, 600, 100));
    assert_eq!((left.waiting.files, left.waiting.bytes), (1, 6));
    let counters = fixture.rig.counters.snapshot();
    assert_eq!(counters.dropped_events["deleted_undelivered"], 100);
    assert_eq!(counters.dropped_bytes["deleted_undelivered"], 600);
}

#[test]
fn a_file_deleted_while_the_agent_stops_is_held() {
    for links in [true, false] {
        let (mut fixture, _other) = blocked(json!({}), links);
        fixture.append("a.log", "12345\n".repeat(100));
        pass(&mut fixture);
        fixture.source.hold(Instant::now() + PATIENCE);
        fs::remove_file(fixture.path("a.log")).unwrap();
        let left = fixture.source.leave().unwrap();
        assert_eq!((left.waiting.bytes, left.lost.bytes), (600, 0), "links: {links}");
        fixture.restart(true);
        assert_eq!(free(&mut fixture).len(), 100, "links: {links}");
    }
}

#[test]
fn a_copy_that_exceeds_the_deadline_is_counted_as_lost() {
    let (mut fixture, _other) = blocked(json!({}), false);
    fixture.append("a.log", "12345\n".repeat(100));
    pass(&mut fixture);
    fs::remove_file(fixture.path("a.log")).unwrap();
    fixture.source.hold(Instant::now());
    assert_eq!(fixture.source.leave().unwrap().lost.bytes, 600);
}

/// Writes 1000 lines of which the sink settles 500, deletes the file, and waits until it is copied.
/// Returns the fixture, the folder of its copies, and the settled lines.
fn copied(options: Value) -> (Fixture, Option<TempDir>, Vec<Line>) {
    let (mut fixture, other) = blocked(options, false);
    fixture.append("a.log", numbered(0..500));
    fixture.rig.ready = fixture.rig.all();
    let settled = fixture.read();
    fixture.rig.ready = Default::default();
    fixture.rig.commit();
    fixture.append("a.log", numbered(500..1000));
    pass(&mut fixture);
    fs::remove_file(fixture.path("a.log")).unwrap();
    pass(&mut fixture);
    (fixture, other, settled)
}

/// Returns lines of 10 bytes.
pub fn numbered(lines: std::ops::Range<usize>) -> String {
    lines.map(|number| format!("{number:09}\n")).collect()
}

#[test]
fn a_deleted_file_without_a_link_is_copied_and_survives_a_crash_with_its_id() {
    let (mut fixture, _other, settled) = copied(json!({}));
    let id = settled[0].file_id;
    assert_eq!(held(&fixture), [format!("{id}-5000-10000")]);
    let shown = fixture.rig.counters.snapshot().held.unwrap();
    assert!(shown.files == 1 && shown.copied_bytes > 0, "{shown:?}");
    for commits in [false, true] {
        fixture.restart(false);
        let lines = free(&mut fixture);
        assert_eq!(lines.len(), 500);
        assert!((500..).zip(&lines).all(|(number, line)| line.file_id == id
            && line.offset == number * 10
            && line.text == format!("{number:09}").as_bytes()));
        if commits {
            fixture.rig.commit();
        }
    }
    fixture.rig.advance(super::super::GONE_SILENCE);
    fixture.batches();
    assert!(held(&fixture).is_empty() && fixture.rig.store.ids().is_empty());
}

#[test]
fn a_copy_follows_its_file_and_is_removed_after_delivery() {
    let (mut fixture, _other) = blocked(json!({}), false);
    let mut file = fixture.append("a.log", "1\n");
    pass(&mut fixture);
    let id = fixture.rig.store.ids()[0];
    fs::remove_file(fixture.path("a.log")).unwrap();
    pass(&mut fixture);
    assert_eq!(held(&fixture), [format!("{id}-0-2")]);
    file.write_all(b"2\n3").unwrap();
    for _ in 0..10 {
        fixture.poll();
        fixture.rig.advance(STEP);
    }
    assert_eq!(held(&fixture), [format!("{id}-0-4")], "the last line may still be completed");
    pass(&mut fixture);
    assert_eq!(held(&fixture), [format!("{id}-0-5")]);
    file.write_all(b"3\n").unwrap();
    pass(&mut fixture);
    assert_eq!(held(&fixture), [format!("{id}-0-7")]);
    fixture.rig.ready = fixture.rig.all();
    let batches = fixture.batches();
    assert_eq!(batches.iter().flat_map(texts_of).collect::<Vec<_>>(), ["1", "2", "33"]);
    batches.iter().for_each(deliver);
    pass(&mut fixture);
    assert_eq!(held(&fixture).len(), 1, "a crash before the commit would revert the checkpoint");
    fixture.rig.commit();
    fixture.rig.advance(super::super::END_INTERVAL);
    fixture.poll();
    assert!(held(&fixture).is_empty());
}

/// A crash in the middle of a copy leaves a valid part, which ends at a line end, and bytes after
/// it. The lines in the valid part keep their ids, although more of the file had been read.
#[test]
fn a_crash_in_the_middle_of_a_copy_keeps_the_lines_before_it() {
    let other = tempfile::tempdir_in("/tmp").unwrap();
    let mut fixture = Fixture::new(json!({}), &["fast", "slow"]);
    fixture.rig.held_dir = other.path().join("held");
    fixture.restart(false);
    let fast = millstream_model::SinkSet::one(fixture.rig.sinks[0].0);
    fixture.append("a.log", numbered(0..1000));
    let batches = fixture.batches();
    for segment in batches.iter().flat_map(|batch| batch.segments.iter()) {
        segment.ack.finish_for(fast);
    }
    fixture.rig.commit();
    fs::remove_file(fixture.path("a.log")).unwrap();
    fixture.rig.ready = Default::default();
    pass(&mut fixture);
    let id = fixture.rig.store.ids()[0];
    assert_eq!(held(&fixture), [format!("{id}-0-10000")]);
    let part = fixture.rig.held_dir.join(format!("{id}-0-6000"));
    fs::rename(fixture.rig.held_dir.join(format!("{id}-0-10000")), part).unwrap();
    for _ in 0..2 {
        fixture.restart(false);
        let lines = free(&mut fixture);
        assert_eq!(texts(&lines).join("\n") + "\n", numbered(0..600));
        let ids = lines.iter().map(|line| (line.file_id, line.offset));
        assert!(ids.eq((0..600).map(|number| (id, number * 10))));
    }
    assert_eq!(fixture.dropped("truncated_unread"), 1, "the fast sink had settled more");
}

/// Deleted files may take the whole limit; copies get the space that is left.
#[test]
fn copies_give_way_to_deleted_files_within_the_limit() {
    let (mut fixture, _other) = blocked(json!({ "held": { "max": "10000B" } }), false);
    for (name, copies) in [("a.log", 1), ("b.log", 0)] {
        fixture.append(name, format!("{name}\n").repeat(100));
        pass(&mut fixture);
        fs::remove_file(fixture.path(name)).unwrap();
        pass(&mut fixture);
        assert_eq!(held(&fixture).len(), copies, "{name}");
        let shown = fixture.rig.counters.snapshot().held.unwrap();
        assert_eq!(shown.copied_bytes, copies as u64 * 4096);
    }
    assert_eq!(fixture.dropped("held_max"), 0);
    assert_eq!(free(&mut fixture).len(), 200);
}

#[test]
fn a_rewritten_file_is_not_held_by_its_old_copy() {
    let (mut fixture, _other) = blocked(json!({}), false);
    let file = fixture.append("a.log", "12345\n".repeat(100));
    pass(&mut fixture);
    fs::remove_file(fixture.path("a.log")).unwrap();
    pass(&mut fixture);
    let before = held(&fixture);
    assert_eq!(before.len(), 1);
    file.set_len(0).unwrap();
    (&file).write_all(&b"new\n".repeat(200)).unwrap();
    fixture.rig.ready = fixture.rig.all();
    let lines = fixture.read();
    assert!(lines.iter().all(|line| line.text == b"new"), "{:?}", texts(&lines));
    assert!(!held(&fixture).contains(&before[0]));
}

#[test]
fn a_new_sink_gets_a_copy_that_starts_early_enough() {
    let (mut fixture, _other, settled) = copied(json!({}));
    let id = settled[0].file_id;
    let mut sinks = fixture.rig.sinks.clone();
    sinks.push((millstream_model::SinkIndex::new(1), "late".to_owned()));
    fixture.source.set_sinks(&sinks);
    fixture.rig.sinks = sinks;
    assert!(held(&fixture).is_empty());
    pass(&mut fixture);
    assert_eq!(held(&fixture), [format!("{id}-0-10000")]);
}

/// If the limit is exceeded, the oldest files are dropped, and their unread data is counted in
/// bytes and lines.
#[test]
fn deleted_files_stay_within_their_limit() {
    for links in [true, false] {
        let (mut fixture, _other) = blocked(json!({ "held": { "max": "5000B" } }), links);
        for name in ["a.log", "b.log", "c.log"] {
            fixture.append(name, format!("{name}\n").repeat(100));
            pass(&mut fixture);
            fixture.rename(name, &format!("{name}.1"));
            pass(&mut fixture);
            fs::remove_file(fixture.path(&format!("{name}.1"))).unwrap();
            pass(&mut fixture);
        }
        let counters = fixture.rig.counters.snapshot();
        assert_eq!(counters.dropped_events["held_max"], 200, "links {links}");
        assert_eq!(counters.dropped_bytes["held_max"], 1200);
        let shown = counters.held.unwrap();
        assert_eq!((shown.files, shown.bytes, shown.bytes_max), (1, 4096, 5000));
        assert_eq!(held(&fixture).len(), usize::from(links));
        assert_eq!(free(&mut fixture).len(), 100);
    }
}

#[test]
fn a_deleted_folder_of_held_files_is_created_again() {
    let (mut fixture, _) = blocked(json!({}), true);
    for (before, name) in ["a.log", "b.log"].into_iter().enumerate() {
        fixture.append(name, "1\n");
        pass(&mut fixture);
        fixture.rename(name, &format!("{name}.1"));
        pass(&mut fixture);
        assert_eq!(held(&fixture).len(), before + 1);
        fs::remove_dir_all(fixture.rig.held_dir.parent().unwrap()).unwrap();
    }
    assert_eq!(free(&mut fixture).len(), 2, "open descriptors still hold the files");
}

/// Retained files are named by their id, so the id survives the loss of the checkpoint store.
#[test]
fn held_files_keep_their_ids_when_the_store_is_lost() {
    for links in [true, false] {
        let (mut fixture, _other) = blocked(json!({}), links);
        fixture.append("a.log", "1\n2\n");
        pass(&mut fixture);
        let id = fixture.rig.store.ids()[0];
        fixture.rename("a.log", "a.log.1");
        pass(&mut fixture);
        fs::remove_file(fixture.path("a.log.1")).unwrap();
        pass(&mut fixture);
        fixture.source.hold(Instant::now() + PATIENCE);
        fixture.rig.store = millstream_testkit::MemoryStore::new();
        fixture.restart(false);
        let lines = free(&mut fixture);
        assert_eq!(texts(&lines), ["1", "2"], "links {links}");
        assert!(lines.iter().all(|line| line.file_id == id));
    }
}

/// A link to a file that still has its own path is not a second file.
#[test]
fn a_held_file_with_its_own_path_is_read_once() {
    let (mut fixture, _) = blocked(json!({}), true);
    fixture.append("a.log", "1\n");
    pass(&mut fixture);
    fixture.rename("a.log", "a.log.1");
    pass(&mut fixture);
    assert_eq!(held(&fixture).len(), 1);
    fixture.restart(true);
    assert_eq!(texts(&free(&mut fixture)), ["1"]);
    fixture.rig.commit();
    pass(&mut fixture);
    assert!(held(&fixture).is_empty());
}

/// In-flight data of a dropped file is counted as lost if it is not delivered before shutdown.
#[test]
fn in_flight_data_of_a_dropped_file_is_counted_at_a_stop() {
    let mut fixture = Fixture::new(json!({ "held": { "max": "1000B" } }), &["out"]);
    fixture.append("a.log", "12345\n".repeat(100));
    let in_flight = fixture.batches();
    fs::remove_file(fixture.path("a.log")).unwrap();
    pass(&mut fixture);
    assert_eq!(fixture.dropped("held_max"), 0, "it may still be delivered");
    fixture.source.hold(Instant::now() + PATIENCE);
    let left = fixture.source.leave().unwrap();
    assert_eq!((left.lost.files, left.lost.bytes, left.lost.events), (1, 600, 100));
    assert_eq!(fixture.dropped("held_max"), 100);
    drop(in_flight);
}

/// Abandoned data of a dropped file is counted as lost at once, because nothing counts it later.
#[test]
fn abandoned_data_of_a_dropped_file_is_counted() {
    let mut fixture = Fixture::new(json!({ "held": { "max": "1000B" } }), &["out"]);
    fixture.append("a.log", "12345\n".repeat(100));
    let in_flight = fixture.batches();
    fs::remove_file(fixture.path("a.log")).unwrap();
    fixture.append("b.log", "12345\n".repeat(300));
    let rest = fixture.batches();
    fs::remove_file(fixture.path("b.log")).unwrap();
    pass(&mut fixture);
    pass(&mut fixture);
    drop((in_flight, rest));
    pass(&mut fixture);
    assert!(fixture.dropped("truncated_unread") + fixture.dropped("held_max") > 0);
    assert!(fixture.rig.ledger.is_idle());
}

/// A file that was closed because of the limit on open files is reopened through its link.
#[test]
fn a_held_file_closed_at_the_limit_is_read_after_its_deletion() {
    let (mut fixture, _) = blocked(json!({ "open_files_max": 2 }), true);
    fixture.append("a.log", "a\n");
    pass(&mut fixture);
    fixture.rename("a.log", "a.log.1");
    pass(&mut fixture);
    assert_eq!(held(&fixture).len(), 1);
    for name in ["b.log", "c.log", "d.log"] {
        fixture.append(name, format!("{name}\n"));
        pass(&mut fixture);
    }
    let is_closed = |fixture: &Fixture| {
        fixture
            .source
            .files
            .iter()
            .any(|tail| tail.held().is_some() && tail.open_content().is_none())
    };
    assert!(is_closed(&fixture));
    fs::remove_file(fixture.path("a.log.1")).unwrap();
    fixture.rig.ready = fixture.rig.all();
    let mut texts = texts(&fixture.read());
    fixture.rig.advance(super::super::schedule::QUIET_POLL);
    texts.extend(fixture.read_texts());
    texts.sort();
    assert_eq!(texts, ["a", "b.log", "c.log", "d.log"]);
    assert_eq!(fixture.dropped("closed_unread"), 0);
}

/// A file that is retained only by its descriptor could not be reopened.
#[test]
fn a_deleted_file_without_a_link_stays_open_at_the_limit() {
    let (mut fixture, _other) = blocked(json!({ "open_files_max": 1 }), false);
    fixture.append("a.log", "a\n");
    pass(&mut fixture);
    fs::remove_file(fixture.path("a.log")).unwrap();
    pass(&mut fixture);
    for name in ["b.log", "c.log"] {
        fixture.append(name, format!("{name}\n"));
        pass(&mut fixture);
    }
    let mut texts = texts(&free(&mut fixture));
    texts.sort();
    assert_eq!(texts, ["a", "b.log", "c.log"]);
    assert_eq!(fixture.dropped("closed_unread"), 0);
}
