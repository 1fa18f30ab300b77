//! The limit on open files, symlinks, patterns without a match, and time ranges.

use super::*;
use crate::tail::Tail;
use std::collections::BTreeSet;

fn sorted(mut texts: Vec<String>) -> Vec<String> {
    texts.sort();
    texts
}

/// Files that are closed because of the limit lose no data when they grow or are renamed.
#[test]
fn more_files_than_the_open_limit_are_read_in_turn() {
    let mut fixture = Fixture::new(json!({ "open_files_max": 4 }), &["out"]);
    let expected = |round: usize| sorted((0..40).map(|n| format!("{round} {n}")).collect());
    for round in 0..4 {
        for n in 0..40 {
            fixture.append(&format!("{n}.log"), format!("{round} {n}\n"));
        }
        assert_eq!(sorted(fixture.read_texts()), expected(round));
        let open = fixture.source.files.iter().filter(|tail| tail.open_content().is_some()).count();
        assert!(open <= 4, "{open} files are open");
        if round == 1 {
            (0..40).for_each(|n| fixture.rename(&format!("{n}.log"), &format!("{n}.log.1")));
            (0..40).for_each(|n| fixture.rename(&format!("{n}.log.1"), &format!("{n}.log")));
        }
        if round == 2 {
            fixture.restart(true);
        }
        fixture.rig.advance(super::super::schedule::QUIET_POLL);
    }
}

/// A closed file is recognized after a rename; a new file at its path is read from the beginning.
#[test]
fn a_closed_file_is_distinguished_from_its_replacement() {
    let mut fixture = Fixture::new(json!({ "open_files_max": 1 }), &["out"]);
    fixture.append("a.log", "a 1\n");
    fixture.read();
    fixture.append("b.log", "b 1\n");
    fixture.read();
    fixture.rename("a.log", "a.log.1");
    fixture.append("a.log.1", "a 2\n");
    fixture.append("a.log", "other\n");
    fixture.rig.advance(super::super::schedule::QUIET_POLL);
    let texts: BTreeSet<String> = fixture.read_texts().into_iter().collect();
    assert_eq!(texts, ["a 2".to_owned(), "other".to_owned()].into());
}

/// A partly read file that is closed because of the limit may be rewritten before it is reopened.
#[test]
fn a_reopened_file_is_checked_before_it_is_read_on() {
    let mut fixture = Fixture::new(json!({}), &["out"]);
    let texts = |what: &str| (0..400_000).map(|n| format!("{what} {n}")).collect::<Vec<_>>();
    fixture.append("a.log", texts("old").join("\n") + "\n");
    let (batch, _) = fixture.next();
    deliver(&batch);
    fixture.source.files.iter_mut().for_each(Tail::park);
    fs::write(fixture.path("a.log"), texts("new").join("\n") + "\n").unwrap();
    assert!(fixture.read_texts() == texts("new"), "the new content is read from its beginning");
}

/// Only events in the time range are emitted, together with the lines without a time that follow
/// them.
#[test]
fn a_time_range_is_read_and_the_source_ends() {
    let backfill = json!({ "from": "2024-11-22T10:00:01Z", "until": "2024-11-22T10:00:03Z", "format": "rfc3339" });
    let mut fixture = Fixture::new(json!({ "backfill": backfill, "read_from": "end" }), &["out"]);
    for n in 0..5 {
        fixture.append("a.log", format!("2024-11-22T10:00:0{n}Z event\n more of {n}\n"));
    }
    let texts = fixture.read_texts();
    assert_eq!(texts.len(), 4, "{texts:?}");
    assert!(texts[0].starts_with("2024-11-22T10:00:01Z") && texts[3] == " more of 2");
    assert!(matches!(fixture.poll(), Polled::Ended));
    assert_eq!(fixture.dropped("filtered"), 6);
}

/// A symlink that is not followed is reported as unreadable, with the reason.
#[test]
fn symlinks_are_followed_by_policy() {
    let mut fixture = Fixture::new(json!({ "symlinks": "never" }), &["out"]);
    fixture.append("target", "linked\n");
    std::os::unix::fs::symlink(fixture.path("target"), fixture.path("a.log")).unwrap();
    assert_eq!(fixture.read_texts(), Vec::<String>::new());
    let unreadable = fixture.rig.unreadable.list();
    assert!(unreadable.values().any(|reason| reason.contains("symlinks")), "{unreadable:?}");
}

/// A pattern without a match is reported until a file matches.
#[test]
fn a_pattern_without_a_match_is_reported() {
    let mut fixture = Fixture::new(json!({}), &["out"]);
    fixture.read();
    assert!(fixture.rig.unreadable.list().values().any(|reason| reason == super::super::MISSING));
    fixture.append("a.log", "1\n");
    fixture.read();
    assert!(fixture.rig.unreadable.list().is_empty());
}

/// The number of open files is tracked as an upper bound, which is recomputed only when it reaches
/// the limit.
#[test]
fn the_open_file_count_is_recomputed_only_at_the_limit() {
    let mut fixture = Fixture::new(json!({ "open_files_max": 32 }), &["out"]);
    let open = |fixture: &Fixture| {
        fixture.source.files.iter().filter(|tail| tail.open_content().is_some()).count()
    };
    for round in 0..3 {
        (0..200).for_each(|n| drop(fixture.append(&format!("{n}.log"), format!("{round}\n"))));
        fixture.rig.advance(super::super::schedule::QUIET_POLL);
        for _ in 0..10 {
            drop(fixture.poll());
            let open = open(&fixture);
            assert!(
                open <= fixture.source.files.open_bound()
                    && fixture.source.files.open_bound() <= 32,
                "{open} are open"
            );
            fixture.rig.advance(STEP);
        }
        fixture.read();
    }
}
