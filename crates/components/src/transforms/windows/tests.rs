//! Which windows are open, and when the lane looks at them.

use super::definition::Definition;
use super::emit::Emit;
use super::lane::results_max;
use super::snapshot::{Frame, Saved};
use super::tasks::Tasks;
use millstream_model::{EngineTime, Now};
use millstream_rules::FrequentKeys;
use std::sync::Arc;

const NOW: Now = Now { since_start: EngineTime::ZERO, unix_ns: 1_795_291_200_000_000_000 };

/// A task whose windows follow the time of events.
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
    let memory = (FrequentKeys::default(), 1 << 20);
    Tasks::open(&[logged()], memory, Arc::default(), saved, NOW)
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
    // The first has ended, and waits for its results to be made.
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

#[test]
fn the_results_that_wait_are_bounded_whatever_the_memory() {
    assert_eq!([1, 16, 8192].map(|mib| results_max(mib << 20)), [10_000, 32_768, 131_072]);
}
