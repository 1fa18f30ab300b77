//! Tests of which windows are open, and when the lane checks them.

use super::definition::Definition;
use super::emit::Emit;
use super::lane::results_max;
use super::result::Outcome;
use super::snapshot::{Frame, Saved, tables};
use super::tasks::Tasks;
use millstream_model::{EngineTime, Now};
use millstream_rules::FrequentKeys;
use std::sync::Arc;

const NOW: Now = Now { since_start: EngineTime::ZERO, unix_ns: 1_795_291_200_000_000_000 };

/// Returns a task whose windows follow event time.
fn logged() -> Arc<Definition> {
    let count: Emit = "count()".parse().unwrap();
    Arc::new(Definition {
        name: "logged".to_owned(),
        selection: String::new(),
        group_by: Vec::new(),
        emit: vec![("n".to_owned(), count)],
        samples: 0,
        window_s: 10,
        lateness_ns: Some(0),
        due_ns: None,
        priority: 0,
        groups_max: 10,
    })
}

fn open(saved: &mut Saved) -> Tasks {
    Tasks::open(&[logged()], FrequentKeys::default(), 1 << 20, Arc::default(), saved, NOW)
}

#[test]
fn without_open_windows_by_the_time_of_events_there_is_nothing_to_wait_for() {
    let tasks = open(&mut Saved::default());
    assert_eq!(tasks.left(NOW), None);
}

#[test]
fn a_window_of_late_events_does_not_replace_the_ended_one_with_the_same_end() {
    let mut frame = Frame::default();
    frame.definition(0, &logged());
    // The first window has ended, and some of its results are still to be produced.
    frame.window(0, 0, NOW.unix_ns);
    frame.window(1, 0, NOW.unix_ns);
    let mut saved = Saved::default();
    saved.apply(&frame.0).unwrap();
    let mut tasks = open(&mut saved);
    tasks.end_due(NOW, true);
    let mut ended = 0;
    while tasks.first_ended().is_some() {
        tasks.drop_ended();
        ended += 1;
    }
    assert_eq!(ended, 2);
}

/// Adds a window with one group to a frame, with a snapshot of the group.
fn of_one_group(frame: &mut Frame) {
    frame.definition(3, &logged());
    frame.window(5, 3, NOW.unix_ns);
    let (mut groups, _) = tables(&logged(), &logged().layout());
    groups.add(&[]).unwrap();
    frame.groups(b'G', 5, |out| groups.write_all(out));
}

#[test]
fn a_snapshot_that_contradicts_itself_is_refused() {
    let other = Definition { emit: Vec::new(), ..(*logged()).clone() };
    let none = Definition { window_s: 0, ..other.clone() };
    let contradictions: [&dyn Fn(&mut Frame); 10] = [
        // Definitions: two with the same number, windows without length, no number for the next
        // one.
        &|frame| frame.definition(3, &other),
        &|frame| frame.definition(4, &none),
        &|frame| frame.definition(u32::MAX, &other),
        // Windows: begun twice, without a definition, no number for the next one.
        &|frame| frame.window(5, 3, 0),
        &|frame| frame.window(6, 4, 0),
        &|frame| frame.window(u64::MAX, 3, 0),
        // Results of more groups than exist, then of fewer than before.
        &|frame| frame.emitted(5, 2),
        &|frame| [1, 0].iter().for_each(|groups| frame.emitted(5, *groups)),
        // Settled results that do not exist.
        &|frame| [7, 8].iter().for_each(|first| frame.settled(*first)),
        // Bytes after the changes of the groups.
        &|frame| {
            let (mut groups, _) = tables(&logged(), &logged().layout());
            frame.groups(b'O', 5, |out| {
                groups.write_all(out);
                out.push(0);
            });
        },
    ];
    for (at, contradict) in contradictions.iter().enumerate() {
        let mut frame = Frame::default();
        of_one_group(&mut frame);
        assert!(Saved::default().apply(&frame.0).is_some());
        contradict(&mut frame);
        assert!(Saved::default().apply(&frame.0).is_none(), "{at}");
    }
}

#[test]
fn more_groups_than_the_definition_allows_are_refused() {
    for (groups_max, is_read) in [(2, true), (1, false)] {
        let definition = |groups_max| Definition {
            group_by: vec!["a".to_owned()],
            groups_max,
            ..(*logged()).clone()
        };
        let (mut groups, _) = tables(&definition(10), &definition(10).layout());
        [b"x", b"y"].iter().for_each(|text| _ = groups.intern(0, *text));
        let mut frame = Frame::default();
        frame.definition(0, &definition(groups_max));
        frame.window(0, 0, NOW.unix_ns);
        frame.groups(b'G', 0, |out| groups.write_all(out));
        assert_eq!(Saved::default().apply(&frame.0).is_some(), is_read);
    }
}

#[test]
fn a_result_whose_lengths_do_not_fit_its_text_is_refused() {
    let written = |lengths: [u32; 6], text: &str| {
        let lengths = lengths.iter().flat_map(|length| length.to_le_bytes());
        let head = 7_i64.to_le_bytes().into_iter().chain([1]);
        head.chain(lengths).chain(text.bytes()).collect::<Vec<u8>>()
    };
    let read = |bytes: Vec<u8>| Outcome::read(&mut &bytes[..]);
    let sound = written([3, 9, 1, 2, 3, 5], r#"t.n {"a":"b"} 7 10 0.5 ["s"]"#);
    let outcome = read(sound.clone()).unwrap();
    let mut again = Vec::new();
    outcome.write(&mut again);
    assert_eq!(again, sound);
    assert_eq!(read(written([4, 8, 1, 2, 3, 5], r#"t.n {"a":"b"} 7 10 0.5 ["s"]"#)), None);
    assert_eq!(read(written([3, 9, 2, 1, 3, 5], r#"t.n {"a":"b"} 7 10 0.5 ["s"]"#)), None);
    assert_eq!(read(written([3, 2, 1, 2, 1, 0], r#"t.n [] 7 10 1 "#)), None);
    assert_eq!(read(written([3, 2, 1, 2, 1, 0], r#"t.n {} x 10 1 "#)), None);
    assert_eq!(read([&sound[..8], &[2], &sound[9..]].concat()), None);
}

#[test]
fn the_results_that_wait_are_bounded_whatever_the_memory() {
    assert_eq!([1, 16, 8192].map(|mib| results_max(mib << 20)), [10_000, 32_768, 131_072]);
}
