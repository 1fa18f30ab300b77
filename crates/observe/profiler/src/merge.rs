//! Merges consecutive profiles of the same process.

use crate::profile::{Module, RawProfile, Stack, ThreadName};
use crate::runtime::RuntimeMethod;
use std::collections::HashMap;
use std::hash::Hash;

/// A list of distinct entries, and the position of each entry.
struct Positions<T> {
    list: Vec<T>,
    positions: HashMap<T, u32>,
}

impl<T: Clone + Eq + Hash> Positions<T> {
    fn new(list: Vec<T>) -> Positions<T> {
        let positions = (0..).zip(&list).map(|(position, entry)| (entry.clone(), position));
        Positions { positions: positions.collect(), list }
    }

    /// Adds the entries that are new. Returns the position of each entry.
    fn add_all(&mut self, entries: Vec<T>) -> Vec<u32> {
        entries.into_iter().map(|entry| self.add(entry)).collect()
    }

    fn add(&mut self, entry: T) -> u32 {
        let next = self.list.len() as u32;
        let position = *self.positions.entry(entry.clone()).or_insert(next);
        if position == next {
            self.list.push(entry);
        }
        position
    }
}

/// Identifies equal stacks.
#[derive(PartialEq, Eq, Hash)]
struct Key {
    thread: u32,
    component: u32,
    is_truncated: bool,
    addresses: Vec<u64>,
}

/// Merges profiles of the same process with the same event and interval, oldest first. Returns
/// `None` if there are no profiles.
///
/// Durations, CPU times and lost samples are added. The counts of threads that were not sampled
/// come from the last profile.
pub fn merge(profiles: impl IntoIterator<Item = RawProfile>) -> Option<RawProfile> {
    let mut profiles = profiles.into_iter();
    let mut merged = profiles.next()?;
    let mut threads = Positions::<ThreadName>::new(std::mem::take(&mut merged.threads));
    let mut components = Positions::<String>::new(std::mem::take(&mut merged.components));
    let mut modules = Positions::<Module>::new(std::mem::take(&mut merged.modules));
    let mut methods = Positions::<RuntimeMethod>::new(std::mem::take(&mut merged.methods));
    let mut counts = HashMap::new();
    add(&mut counts, std::mem::take(&mut merged.stacks), |thread| thread, |component| component);
    for profile in profiles {
        let thread_of = threads.add_all(profile.threads);
        let component_of = components.add_all(profile.components);
        modules.add_all(profile.modules);
        methods.add_all(profile.methods);
        let at = |positions: &[u32], old: u32| positions.get(old as usize).copied().unwrap_or(0);
        add(
            &mut counts,
            profile.stacks,
            |thread| at(&thread_of, thread),
            |component| at(&component_of, component),
        );
        merged.duration_ns += profile.duration_ns;
        merged.cpu_ns += profile.cpu_ns;
        merged.lost += profile.lost;
        merged.threads_sampled_at_ticks = profile.threads_sampled_at_ticks;
        merged.threads_without_timer = profile.threads_without_timer;
        merged.threads_with_blocked_signal = profile.threads_with_blocked_signal;
    }
    let stacks = counts.into_iter().map(|(key, count)| stack(key, count)).collect();
    let (threads, components, modules) = (threads.list, components.list, modules.list);
    let methods = methods.list;
    Some(RawProfile { stacks, threads, components, modules, methods, ..merged })
}

fn add(
    counts: &mut HashMap<Key, u64>,
    stacks: Vec<Stack>,
    thread_of: impl Fn(u32) -> u32,
    component_of: impl Fn(u32) -> u32,
) {
    for stack in stacks {
        let Stack { thread, component, count, addresses, is_truncated } = stack;
        let (thread, component) = (thread_of(thread), component_of(component));
        *counts.entry(Key { thread, component, is_truncated, addresses }).or_default() += count;
    }
}

fn stack(key: Key, count: u64) -> Stack {
    let Key { thread, component, is_truncated, addresses } = key;
    Stack { thread, component, count, addresses, is_truncated }
}

#[cfg(test)]
mod tests {
    use super::merge;
    use crate::profile::{Module, RawProfile, Stack, ThreadName};
    use crate::settings::Event;

    fn thread(tid: u32, name: &str) -> ThreadName {
        ThreadName { tid, name: name.to_owned() }
    }

    fn module(path: &str, start: u64) -> Module {
        let path = path.to_owned();
        Module { path, build_id: None, start, end: start + 10, file_offset: 0 }
    }

    fn profile(threads: &[ThreadName], components: &[&str], stacks: &[Stack]) -> RawProfile {
        RawProfile {
            pid: 1,
            event: Event::Cpu,
            interval_ns: 5,
            duration_ns: 100,
            cpu_ns: 10,
            threads: threads.to_vec(),
            components: components.iter().map(ToString::to_string).collect(),
            modules: vec![module("/agent", 0)],
            methods: Vec::new(),
            stacks: stacks.to_vec(),
            lost: 1,
            threads_sampled_at_ticks: 0,
            threads_without_timer: 0,
            threads_with_blocked_signal: 2,
        }
    }

    fn stack(thread: u32, component: u32, count: u64) -> Stack {
        Stack { thread, component, count, addresses: vec![7, 8], is_truncated: false }
    }

    #[test]
    fn equal_stacks_of_a_thread_and_component_add_up_whatever_their_positions() {
        let (main, other) = (thread(1, "main"), thread(2, "other"));
        let first = profile(&[main.clone(), other.clone()], &["", "a"], &[stack(1, 1, 3)]);
        let stacks = [stack(1, 2, 4), stack(1, 1, 5), stack(0, 0, 6)];
        let mut second = profile(&[main.clone(), other.clone()], &["", "b", "a"], &stacks);
        second.modules.push(module("/libc", 50));
        second.threads_with_blocked_signal = 0;
        let mut merged = merge([first, second]).unwrap();
        merged.stacks.sort_by_key(|stack| stack.count);
        assert_eq!(merged.stacks, [stack(1, 2, 5), stack(0, 0, 6), stack(1, 1, 7)]);
        assert_eq!(merged.threads, [main, other]);
        assert_eq!(merged.components, ["", "a", "b"]);
        assert_eq!(merged.modules, [module("/agent", 0), module("/libc", 50)]);
        assert_eq!((merged.duration_ns, merged.cpu_ns, merged.lost), (200, 20, 2));
        assert_eq!(merged.threads_with_blocked_signal, 0);
    }

    #[test]
    fn a_reused_thread_number_is_another_thread() {
        let before = profile(&[thread(1, "main"), thread(2, "a")], &[""], &[stack(1, 0, 3)]);
        let after = profile(&[thread(1, "main"), thread(2, "b")], &[""], &[stack(1, 0, 4)]);
        let merged = merge([before, after]).unwrap();
        assert_eq!(merged.threads, [thread(1, "main"), thread(2, "a"), thread(2, "b")]);
        assert_eq!(merged.stacks.len(), 2);
        assert_eq!(merge([]), None);
    }
}
