//! Which windows are open, and when the lane looks at them.

use super::definition::Definition;
use super::emit::Emit;
use super::snapshot::Saved;
use super::tasks::Tasks;
use millstream_model::{EngineTime, Now};
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

#[test]
fn without_open_windows_by_the_time_of_events_there_is_nothing_to_wait_for() {
    let tasks = Tasks::open(&[logged()], 1 << 20, &mut Saved::default(), NOW);
    assert_eq!(tasks.left(NOW), None);
}
