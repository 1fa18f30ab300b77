//! Rotated files that match no pattern: generations that were created and rotated between polls.

use super::*;
use crate::identity::Descriptor;
use crate::records::GENERATIONS_MAX;
use crate::stability::STABLE_AFTER;
use flate2::write::GzEncoder;
use millstream_model::OriginStore;
use rustix::fs::{Uid, chown};
use std::collections::BTreeSet;
use std::os::unix::fs::symlink;
use std::time::SystemTime;

/// Creates a source over `*.log` that has read `first` from `a.log`.
fn begun(first: &str) -> Fixture {
    let mut fixture = Fixture::new(json!({ "include": "*.log" }), &["out"]);
    fixture.append("a.log", first);
    assert_eq!(fixture.read_texts(), first.lines().collect::<Vec<_>>());
    fixture
}

/// Shifts the compressed generations of a log, and compresses the log with its modification time,
/// as gzip does.
fn rotate(fixture: &Fixture, name: &str) {
    let generation = |number: usize| fixture.path(&format!("{name}.{number}.gz"));
    let oldest = (1..).find(|number| !generation(*number).exists()).unwrap();
    (1..oldest)
        .rev()
        .for_each(|number| fs::rename(generation(number), generation(number + 1)).unwrap());
    pack(fixture, name, &format!("{name}.1.gz"));
    fs::remove_file(fixture.path(name)).unwrap();
}

fn pack(fixture: &Fixture, name: &str, to: &str) {
    let mut compressed = GzEncoder::new(Vec::new(), flate2::Compression::fast());
    compressed.write_all(&fs::read(fixture.path(name)).unwrap()).unwrap();
    fs::write(fixture.path(to), compressed.finish().unwrap()).unwrap();
    let modified = fs::metadata(fixture.path(name)).unwrap().modified().unwrap();
    File::options().write(true).open(fixture.path(to)).unwrap().set_modified(modified).unwrap();
}

/// Appends to a file, then waits so that the next file gets a later modification time: the kernel's
/// clock for modification times advances in steps.
fn write(fixture: &Fixture, name: &str, text: &str) {
    let written = fixture.append(name, text).metadata().unwrap().modified().unwrap();
    let beside = fixture.dir.path().parent().unwrap();
    let is_later = || {
        let probe = tempfile::tempfile_in(beside).unwrap();
        probe.metadata().unwrap().modified().unwrap() > written
    };
    while !is_later() {
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Reads until compressed files are treated as complete.
fn settle(fixture: &mut Fixture) -> Vec<String> {
    let mut all = Vec::new();
    for _ in 0..8 {
        all.extend(fixture.read_texts());
        fixture.rig.advance(STABLE_AFTER);
    }
    all
}

fn noted(fixture: &Fixture, what: &str) -> u64 {
    fixture.rig.counters.snapshot().noted_events.get(what).copied().unwrap_or(0)
}

#[test]
fn generations_rotated_while_the_agent_was_down_are_read_in_order() {
    let mut fixture = begun("0\n");
    fixture.rig.commit();
    write(&fixture, "a.log", "rest of 0\n");
    for number in 1..=30 {
        rotate(&fixture, "a.log");
        write(&fixture, "a.log", &format!("{number}\n"));
    }
    fixture.restart(false);
    let mut expected = vec!["rest of 0".to_owned()];
    expected.extend((1..=30).map(|number| number.to_string()));
    let texts = settle(&mut fixture);
    let compressed: Vec<String> = texts.iter().filter(|text| *text != "30").cloned().collect();
    assert_eq!((texts.len(), compressed), (31, expected[..30].to_vec()));
    assert_eq!(noted(&fixture, "unseen_rotations"), 29);
    for _ in 0..3 {
        fixture.rig.advance(super::super::GONE_SILENCE);
        assert_eq!(settle(&mut fixture), Vec::<String>::new());
        fixture.restart(true);
    }
    let kept = fixture.rig.store.origins().unwrap().0;
    let kept: Vec<String> =
        kept.iter().map(|r| String::from_utf8_lossy(&r.descriptor).into_owned()).collect();
    assert!(kept.len() <= GENERATIONS_MAX + 1, "{kept:#?}");
}

/// While the agent was down, more generations were rotated than one walk handles. The live file is
/// read between the two walks.
#[test]
fn generations_deferred_to_the_next_walk_are_the_newest() {
    const LAST: u64 = 100;
    let mut fixture = begun("0\n");
    fixture.restart(true);
    let begin = SystemTime::now() - Duration::from_secs(LAST);
    for number in 1..=LAST {
        fixture.rename("a.log", &format!("a.log.{}", LAST + 1 - number));
        let file = fixture.append("a.log", format!("{number}\n"));
        file.set_modified(begin + Duration::from_secs(number)).unwrap();
    }
    let mut texts = settle(&mut fixture);
    texts.retain(|text| *text != LAST.to_string());
    assert_eq!(texts, (1..LAST).map(|number| number.to_string()).collect::<Vec<_>>());
}

#[test]
fn a_file_created_and_rotated_while_the_agent_was_down_is_read() {
    let mut fixture = begun("0\n");
    fixture.restart(true);
    write(&fixture, "b.log", "1\n");
    rotate(&fixture, "b.log");
    write(&fixture, "b.log", "2\n");
    rotate(&fixture, "b.log");
    assert_eq!(settle(&mut fixture), ["1", "2"]);
}

/// Rotated files that exist when their name is first seen are not read.
#[test]
fn rotated_files_that_exist_at_the_very_first_start_are_not_read() {
    let mut fixture = Fixture::new(json!({ "include": "*.log" }), &["out"]);
    for number in 0..3 {
        write(&fixture, "a.log", &format!("{number}\n"));
        rotate(&fixture, "a.log");
    }
    write(&fixture, "a.log.1", "not compressed\n");
    write(&fixture, "a.log", "3\n");
    assert_eq!(settle(&mut fixture), ["3"]);
    for number in 4..7 {
        fixture.restart(true);
        rotate(&fixture, "a.log");
        write(&fixture, "a.log", &format!("{number}\n"));
        assert_eq!(settle(&mut fixture), [number.to_string()]);
    }
    assert_eq!(noted(&fixture, "unseen_rotations"), 0);
}

/// A file is rotated, created and rotated again between two polls.
#[test]
fn generations_rotated_between_two_polls_are_read() {
    let mut fixture = begun("0\n");
    for number in 1..5 {
        rotate(&fixture, "a.log");
        write(&fixture, "a.log", &format!("{number} a\n"));
        rotate(&fixture, "a.log");
        write(&fixture, "a.log", &format!("{number} b\n"));
        let texts: BTreeSet<String> = settle(&mut fixture).into_iter().collect();
        assert_eq!(texts, [format!("{number} a"), format!("{number} b")].into());
    }
}

/// One of two generations with the same content is recorded and still exists, so the other
/// generation is a different file.
#[test]
fn generations_with_the_same_content_are_all_read() {
    let mut fixture = begun("started\n");
    for _ in 0..3 {
        fixture.restart(true);
        rotate(&fixture, "a.log");
        write(&fixture, "a.log", "started\n");
        rotate(&fixture, "a.log");
        write(&fixture, "a.log", "started\nand more\n");
        let mut texts = settle(&mut fixture);
        texts.sort();
        assert_eq!(texts, ["and more", "started", "started"]);
        fixture.rig.advance(super::super::GONE_SILENCE);
        assert_eq!(settle(&mut fixture), Vec::<String>::new());
    }
}

/// The same situation, with patterns that match the names of rotated files.
#[test]
fn generations_with_the_same_content_are_all_read_under_names_that_match() {
    let mut fixture = Fixture::new(json!({}), &["out"]);
    fixture.append("a.log", "started\n");
    assert_eq!(fixture.read_texts(), ["started"]);
    for run in 0..3 {
        fixture.restart(true);
        for rotation in 0..2 {
            let names = |number: u64| [number, number + 1].map(|n| format!("a.log.{n}"));
            let rotated = (1..=2 * run + rotation).rev().map(names);
            rotated.for_each(|[from, to]| fixture.rename(&from, &to));
            fixture.rename("a.log", "a.log.1");
            write(&fixture, "a.log", "started\n");
            let age = Duration::from_secs(100 - 10 * (2 * run + rotation));
            let file = File::options().write(true).open(fixture.path("a.log")).unwrap();
            file.set_modified(SystemTime::now() - age).unwrap();
        }
        assert_eq!(settle(&mut fixture), ["started", "started"]);
    }
}

/// Incomplete output of a killed compressor next to the original is neither read nor awaited.
#[test]
fn a_generation_that_exists_twice_is_read_once() {
    for whole in [true, false] {
        let mut fixture = begun("0\n");
        fixture.restart(true);
        rotate(&fixture, "a.log");
        let text: String = (0..2000).map(|number| format!("1 {number}\n")).collect();
        write(&fixture, "a.log", &text);
        fixture.rename("a.log", "a.log.1");
        pack(&fixture, "a.log.1", "a.log.1.gz");
        if !whole {
            let compressed = fs::read(fixture.path("a.log.1.gz")).unwrap();
            fs::write(fixture.path("a.log.1.gz"), &compressed[..compressed.len() / 2]).unwrap();
        }
        write(&fixture, "a.log", "2\n");
        assert_eq!(settle(&mut fixture).len(), 2001);
        // The compressor runs again.
        pack(&fixture, "a.log.1", "a.log.1.gz");
        fs::remove_file(fixture.path("a.log.1")).unwrap();
        assert_eq!(settle(&mut fixture), Vec::<String>::new());
        fixture.restart(true);
        assert_eq!(settle(&mut fixture), Vec::<String>::new());
    }
}

/// The same situation, with a compressed form so old that it is treated as complete at once.
#[test]
fn a_generation_next_to_its_old_compressed_form_is_read_once() {
    let mut fixture = begun("0\n");
    fixture.restart(true);
    rotate(&fixture, "a.log");
    write(&fixture, "a.log", "1\n");
    fixture.rename("a.log", "a.log.1");
    pack(&fixture, "a.log.1", "a.log.1.gz");
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
    fixture.rig.now.unix_ns = fixture.rig.now.unix_ns.max(now.as_nanos() as i64);
    fixture.rig.advance(Duration::from_secs(60));
    assert_eq!(settle(&mut fixture), ["1"]);
}

/// The agent is killed while a generation is being compressed; the restarted agent finds and reads
/// it.
#[test]
fn an_incomplete_generation_is_read_after_another_crash() {
    let mut fixture = begun("0\n");
    fixture.restart(true);
    rotate(&fixture, "a.log");
    write(&fixture, "a.log", "1\n");
    rotate(&fixture, "a.log");
    let touched = SystemTime::UNIX_EPOCH + Duration::from_nanos(fixture.rig.now.unix_ns as u64);
    let compressed = File::options().write(true).open(fixture.path("a.log.1.gz")).unwrap();
    compressed.set_modified(touched.max(SystemTime::now()) + Duration::from_secs(100)).unwrap();
    write(&fixture, "a.log", "2\n");
    assert_eq!(fixture.read_texts(), ["2"], "the compressed file may be incomplete");
    fixture.restart(true);
    assert_eq!(settle(&mut fixture), ["1"]);
}

#[test]
fn excluded_rotated_files_are_not_read() {
    let mut fixture = Fixture::new(json!({ "include": "*.log", "exclude": ["*.gz"] }), &["out"]);
    fixture.append("a.log", "0\n");
    assert_eq!(fixture.read_texts(), ["0"]);
    fixture.restart(true);
    rotate(&fixture, "a.log");
    write(&fixture, "a.log", "1\n");
    rotate(&fixture, "a.log");
    assert_eq!(settle(&mut fixture), Vec::<String>::new());
}

/// Creates a source whose paths are links, one of which goes through another link to `pods/0.log`,
/// and reads `0` from there.
fn begun_behind_links() -> Fixture {
    let mut fixture = Fixture::new(json!({ "include": "links/*.log" }), &["out"]);
    let folders = ["links", "hops", "pods"];
    folders.iter().for_each(|name| fs::create_dir(fixture.path(name)).unwrap());
    write(&fixture, "pods/0.log.20261128100000", "rotated before the very first start\n");
    write(&fixture, "pods/0.log", "0\n");
    symlink("../pods/0.log", fixture.path("hops/a.log")).unwrap();
    symlink("../hops/a.log", fixture.path("links/a.log")).unwrap();
    assert_eq!(fixture.read_texts(), ["0"]);
    fixture
}

/// Renames the target, and writes a line to the next target.
fn rotate_target(fixture: &Fixture, number: u64) {
    fixture.rename("pods/0.log", &format!("pods/0.log.2026112810000{number}"));
    write(fixture, "pods/0.log", &format!("{number}\n"));
}

fn settle_sorted(fixture: &mut Fixture) -> Vec<String> {
    let mut texts = settle(fixture);
    texts.sort();
    texts
}

/// The target of links is renamed, and no name in the link's folder changes.
#[test]
fn rotations_of_the_target_of_a_link_are_read() {
    let mut fixture = begun_behind_links();
    (1..=3).for_each(|number| rotate_target(&fixture, number));
    assert_eq!(settle_sorted(&mut fixture), ["1", "2", "3"]);
    // The same while the agent is down, with the remaining data of the last file.
    fixture.rig.commit();
    write(&fixture, "pods/0.log", "rest of 3\n");
    (4..=6).for_each(|number| rotate_target(&fixture, number));
    fixture.restart(false);
    assert_eq!(settle_sorted(&mut fixture), ["4", "5", "6", "rest of 3"]);
}

/// Release 0.1.0 recorded a linked file only under the name of the link.
#[test]
fn a_linked_file_that_an_older_release_recorded_is_found_after_its_rotation() {
    let mut fixture = begun_behind_links();
    fixture.rig.commit();
    for record in fixture.rig.store.origins().unwrap().0 {
        let descriptor = Descriptor::from_bytes(&record.descriptor).unwrap();
        assert!(descriptor.path.ends_with("links/a.log"), "{}", descriptor.path);
        let older = Descriptor { rotation_of: None, ..descriptor };
        fixture.rig.store.keep(&[(record.id, older.to_bytes())]).unwrap();
    }
    write(&fixture, "pods/0.log", "rest of 0\n");
    rotate_target(&fixture, 1);
    fixture.restart(false);
    assert_eq!(settle_sorted(&mut fixture), ["1", "rest of 0"]);
}

/// The rules for symlinks also apply to files next to a target.
#[test]
fn a_rotated_file_of_another_owner_beside_a_target_is_not_read() {
    let mut fixture = begun_behind_links();
    (1..=2).for_each(|number| rotate_target(&fixture, number));
    // Only root can change a file's owner; other users skip this test.
    let unseen = fixture.path("pods/0.log.20261128100002");
    if chown(&unseen, Some(Uid::from_raw(1)), None).is_ok() {
        assert_eq!(settle_sorted(&mut fixture), ["2"]);
    }
}

#[test]
fn files_that_come_and_go_between_two_polls_are_counted() {
    let mut fixture = begun("0\n");
    let remove = |fixture: &Fixture, name: &str| fs::remove_file(fixture.path(name)).unwrap();
    fixture.append("b.log", "1\n");
    remove(&fixture, "b.log");
    fixture.read_texts();
    assert_eq!(noted(&fixture, "unseen_deletions"), 1);
    rotate(&fixture, "a.log");
    fixture.append("a.log", "2\n");
    fixture.rename("a.log", "a.log.2");
    fixture.append("a.log", "3\n");
    remove(&fixture, "a.log.2");
    fixture.append("other", "4\n");
    remove(&fixture, "other");
    assert_eq!(settle(&mut fixture), ["3"]);
    assert_eq!(noted(&fixture, "unseen_deletions"), 2);
    fixture.append("a.log", "5\n");
    remove(&fixture, "a.log");
    settle(&mut fixture);
    assert_eq!(noted(&fixture, "unseen_deletions"), 2, "an open file is read to its end");
}

/// Several generations wait after an outage or a restart: the oldest is read first, whether its own
/// name was already known or only the name of its rotation.
#[test]
fn generations_that_wait_are_read_in_the_order_of_writing() {
    for known in [true, false] {
        let mut fixture = Fixture::new(json!({}), &["out"]);
        fixture.rig.ready = Default::default();
        let mut written = Vec::new();
        for generation in 0..4 {
            let lines: Vec<String> = (0..20_000)
                .map(|line| format!("{generation} {line:06} {}", "x".repeat(40)))
                .collect();
            fixture.append("a.log", lines.join("\n") + "\n");
            written.extend(lines);
            if known {
                fixture.poll();
            }
            // The modification times differ by more than one step of the file system's clock.
            std::thread::sleep(Duration::from_millis(20));
            if generation < 3 {
                for number in (1..3).rev() {
                    let name = |number: usize| format!("a.log.{number}");
                    if fixture.path(&name(number)).exists() {
                        fixture.rename(&name(number), &name(number + 1));
                    }
                }
                fixture.rename("a.log", "a.log.1");
            }
            fixture.append("b.log", "another file\n");
        }
        fixture.restart(true);
        fixture.rig.ready = fixture.rig.all();
        let lines = fixture.read();
        let texts = texts(&lines);
        let lines_of_a: Vec<&String> =
            texts.iter().filter(|line| *line != "another file").collect();
        assert!(
            lines_of_a.iter().copied().eq(&written),
            "known: {known}, {} lines",
            lines_of_a.len()
        );
        let first = texts.iter().position(|line| line == "another file").unwrap();
        assert!(first < 40_000, "the other file has its turns");
    }
}

/// At the start the log itself is missing, because its writer is down as well.
#[test]
fn generations_are_read_while_the_log_itself_is_missing() {
    let mut fixture = begun("0\n");
    fixture.restart(true);
    write(&fixture, "a.log", "rest of 0\n");
    fixture.rename("a.log", "a.log.2");
    write(&fixture, "a.log", "1\n");
    fixture.rename("a.log", "a.log.1");
    assert_eq!(settle(&mut fixture), ["rest of 0", "1"]);
}

/// Programs may set modification times in the future, and clocks may be wrong.
#[test]
fn a_modification_time_in_the_future_hides_no_later_generation() {
    let mut fixture = Fixture::new(json!({ "include": "*.log" }), &["out"]);
    let old = fixture.append("a.log-20200101", "old\n");
    old.set_modified(SystemTime::now() + Duration::from_hours(24)).unwrap();
    write(&fixture, "a.log", "0\n");
    assert_eq!(settle(&mut fixture), ["0"]);
    fixture.restart(true);
    write(&fixture, "a.log", "rest of 0\n");
    fixture.rename("a.log", "a.log-20200102");
    write(&fixture, "a.log", "1\n");
    fixture.rename("a.log", "a.log-20200103");
    write(&fixture, "a.log", "2\n");
    assert_eq!(settle(&mut fixture), ["rest of 0", "1", "2"]);
}

/// The last lines of a file are written just before it is rotated, while the agent runs.
#[test]
fn the_last_lines_of_a_rotated_file_come_before_those_of_the_next_one() {
    for include in ["*.log", "*.log*"] {
        let mut fixture = Fixture::new(json!({ "include": include }), &["out"]);
        fixture.append("a.log", "0\n");
        assert_eq!(fixture.read_texts(), ["0"]);
        for number in 1..5 {
            // The file is not due for its next poll yet.
            assert!(matches!(fixture.poll(), Polled::Wait(_)));
            fixture.append("a.log", format!("{number} last\n"));
            fixture.rename("a.log", &format!("a.log.{}", 10 - number));
            fixture.append("a.log", format!("{number} next\n"));
            let expected = [format!("{number} last"), format!("{number} next")];
            assert_eq!(fixture.read_texts(), expected);
        }
    }
}
