//! The tasks of transforms: `/api/rules`.

use crate::reply::{Reply, as_json};
use hyper::StatusCode;
use millstream_model::snapshot::{Snapshot, TaskSnapshot};
use serde::Serialize;
use std::cmp::Reverse;

/// Maximum number of tasks per transform in a response.
const TASKS_SHOWN: usize = 1000;

/// A transform and its tasks.
#[derive(Serialize)]
struct Transform<'a> {
    transform: &'a str,
    /// Number of all tasks, including tasks that are not listed.
    total: usize,
    /// The tasks that take the most time, in descending order.
    tasks: Vec<&'a TaskSnapshot>,
}

/// Lists the tasks of all transforms.
pub fn answer(snapshot: &Snapshot) -> Reply {
    let with_tasks = snapshot.components.iter().filter(|component| !component.tasks.is_empty());
    let transforms: Vec<Transform<'_>> = with_tasks
        .map(|component| {
            let mut tasks: Vec<&TaskSnapshot> = component.tasks.iter().collect();
            tasks.sort_by_key(|task| Reverse(((task.time_share * 1e9) as u64, task.matched)));
            tasks.truncate(TASKS_SHOWN);
            Transform { transform: &component.id, total: component.tasks.len(), tasks }
        })
        .collect();
    as_json(StatusCode::OK, &transforms)
}
