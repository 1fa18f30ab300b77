//! Events that are normal on healthy hosts.

use super::agent::{Setup, World};
use super::writer::Lines;
use std::fs;

/// A normal event.
pub struct Event {
    pub name: &'static str,
    pub configure: fn(&mut Setup),
    pub at_start: fn(&mut World),
    /// Called once a second with the number of seconds since the start.
    pub each_second: fn(&mut World, u64),
}

const EVENTS: &[Event] = &[
    event("bursts", nothing, |world, second| {
        if (second + world.seed).is_multiple_of(7) {
            world.writer.burst(20_000);
        }
    }),
    event("quiet times", nothing, |world, second| {
        let is_quiet = (second / 12 + world.seed).is_multiple_of(2);
        world.writer.lines(if is_quiet { Lines::None } else { Lines::Normal });
    }),
    event(
        "late endpoint",
        |setup| setup.has_endpoint = false,
        |world, second| {
            if second == 2 + world.seed % 3 {
                world.open_endpoint();
            }
        },
    ),
    event("rotation", nothing, |world, second| {
        if (second + world.seed).is_multiple_of(4) {
            let path = world.writer.path();
            // The rename fails harmlessly if the writer has not yet created the file again.
            drop(fs::rename(&path, path.with_extension(format!("log.{second}"))));
        }
    }),
    event("copytruncate", nothing, |world, second| {
        if (second + world.seed).is_multiple_of(9) {
            let path = world.writer.path();
            drop(fs::copy(&path, path.with_extension("1")));
            drop(fs::OpenOptions::new().write(true).truncate(true).open(&path));
        }
    }),
    event("reloads", nothing, |world, second| {
        if (second + world.seed).is_multiple_of(10) {
            world.reload(second);
        }
    }),
    event("a few odd lines", nothing, |world, second| {
        if second == 1 {
            world.writer.lines(Lines::FewOdd);
        }
    }),
    event("lines in two writes", nothing, |world, second| match second % 10 {
        3 => {
            world.writer.lines(Lines::None);
            world.writer.append(b"1700000000000 INFO half of ");
        }
        5 => {
            world.writer.append(b"a line\n");
            world.writer.lines(Lines::Normal);
        }
        _ => {}
    }),
    event("short outages", nothing, |world, second| match (second + world.seed) % 24 {
        4 => world.answer(503),
        7 => world.answer(200),
        _ => {}
    }),
    event("a slow minute", nothing, |world, second| {
        if second == 3 {
            world.answer_slowly(50 + world.seed % 200);
        }
    }),
    Event {
        name: "a backlog at the start",
        configure: nothing,
        at_start: |world| world.writer.burst(200_000),
        each_second: |_, _| (),
    },
];

const fn event(
    name: &'static str,
    configure: fn(&mut Setup),
    each_second: fn(&mut World, u64),
) -> Event {
    Event { name, configure, at_start: nothing, each_second }
}

fn nothing<T>(_: &mut T) {}

/// Returns one to three events, selected by a seed.
pub fn chosen(seed: u64) -> Vec<&'static Event> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = |bound: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state % bound as u64) as usize
    };
    let mut chosen: Vec<usize> = (0..=next(3)).map(|_| next(EVENTS.len())).collect();
    chosen.sort_unstable();
    chosen.dedup();
    // Two events that change the kind of lines would undo each other.
    let sets_lines = |index: &usize| {
        ["quiet times", "a few odd lines", "lines in two writes"].contains(&EVENTS[*index].name)
    };
    let first = chosen.iter().copied().find(|index| sets_lines(index));
    let sets_answers =
        |index: &usize| ["short outages", "a slow minute"].contains(&EVENTS[*index].name);
    let answers = chosen.iter().copied().find(|index| sets_answers(index));
    chosen.retain(|index| !sets_lines(index) || Some(*index) == first);
    chosen.retain(|index| !sets_answers(index) || Some(*index) == answers);
    chosen.into_iter().map(|index| &EVENTS[index]).collect()
}
