//! Queue of files to read: live files take turns, and a rotated file comes before later files with
//! the same name.
//!
//! A busy writer with a slow sink leaves dozens of unread rotated files. If each of them had a
//! turn, the live files would wait for all rotated files. Therefore, the rotated files share one
//! turn, and a rotated file whose name now belongs to a live file uses the live file's turns. The
//! oldest file is read first, so that a sink gets the lines for a name in the order of writing.

use crate::rotation_names::originals_of;
use crate::tail::Tail;
use millstream_model::OriginId;
use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::hash::{BuildHasher, RandomState};
use std::path::{Path, PathBuf};

/// Queue of files to read.
#[derive(Default)]
pub(super) struct ReadQueue {
    live: VecDeque<OriginId>,
    /// Rotated files, oldest first, each with the hashes of its former names.
    rotated: BTreeMap<Generation, Vec<NameHash>>,
    by_name: HashMap<NameHash, BTreeSet<Generation>>,
    /// Number of live files to read before the next rotated one.
    before_rotated: usize,
    hasher: RandomState,
}

/// Hash of a path. If two paths have the same hash, their files only wait for each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct NameHash(u64);

/// A rotated file. Generations are ordered by their time of writing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Generation {
    modified_ns: i64,
    id: OriginId,
}

impl ReadQueue {
    /// Returns whether the queue is empty.
    pub(super) fn is_empty(&self) -> bool {
        self.live.is_empty() && self.rotated.is_empty()
    }

    /// Returns the number of files.
    pub(super) fn len(&self) -> usize {
        self.live.len() + self.rotated.len()
    }

    /// Frees the memory of files that were read.
    pub(super) fn shrink(&mut self) {
        self.live.shrink_to(2 * self.live.len());
        self.by_name.shrink_to(2 * self.by_name.len());
    }

    /// Queues a file: a live file at the end, a rotated file by its age.
    pub(super) fn push_back(&mut self, tail: &Tail) {
        if tail.is_rotated() {
            self.push_rotated(tail);
        } else {
            self.live.push_back(tail.id());
        }
    }

    /// Returns the file that was popped last to the front of the queue.
    pub(super) fn push_front(&mut self, tail: &Tail) {
        if tail.is_rotated() {
            self.push_rotated(tail);
            self.before_rotated = 0;
        } else {
            self.live.push_front(tail.id());
            self.before_rotated += 1;
        }
    }

    fn push_rotated(&mut self, tail: &Tail) {
        let generation = Generation { modified_ns: tail.modified_ns(), id: tail.id() };
        self.insert(generation, names_of(Path::new(tail.descriptor().name())));
    }

    fn insert(&mut self, generation: Generation, names: Vec<PathBuf>) {
        let names: Vec<NameHash> = names.iter().map(|name| self.hash(name)).collect();
        for name in &names {
            self.by_name.entry(*name).or_default().insert(generation);
        }
        self.rotated.insert(generation, names);
    }

    fn hash(&self, name: &Path) -> NameHash {
        NameHash(self.hasher.hash_one(name))
    }

    /// Pops the next file. `name_of` returns the path of a live file.
    pub(super) fn pop_front<'n>(
        &mut self,
        name_of: impl Fn(OriginId) -> Option<&'n Path>,
    ) -> Option<OriginId> {
        if self.live.is_empty() || self.before_rotated == 0 && !self.rotated.is_empty() {
            self.before_rotated = self.live.len();
            let oldest = *self.rotated.keys().next()?;
            return Some(self.take(oldest));
        }
        self.before_rotated = self.before_rotated.saturating_sub(1);
        let id = self.live.pop_front()?;
        let Some(oldest) = self.oldest_before(id, name_of) else { return Some(id) };
        self.live.push_back(id);
        Some(self.take(oldest))
    }

    /// Returns the oldest rotated file that once had this live file's name.
    fn oldest_before<'n>(
        &self,
        id: OriginId,
        name_of: impl Fn(OriginId) -> Option<&'n Path>,
    ) -> Option<Generation> {
        if self.by_name.is_empty() {
            return None;
        }
        self.by_name.get(&self.hash(name_of(id)?))?.first().copied()
    }

    /// Removes a rotated file.
    fn take(&mut self, generation: Generation) -> OriginId {
        for name in self.rotated.remove(&generation).unwrap_or_default() {
            if let Some(generations) = self.by_name.get_mut(&name) {
                generations.remove(&generation);
                if generations.is_empty() {
                    self.by_name.remove(&name);
                }
            }
        }
        generation.id
    }
}

/// Returns the names under which a file may have been live, given one of its names.
fn names_of(name: &Path) -> Vec<PathBuf> {
    let file_name = name.file_name().unwrap_or_default().to_string_lossy();
    let originals = originals_of(&file_name).into_iter();
    originals.map(|original| name.with_file_name(original)).chain([name.to_owned()]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Id 1 is the live file `/in/a.log`. Ids 100 and up are its rotations, and ids 200 and up are
    /// rotations of a file that does not exist.
    struct Rig(ReadQueue);

    impl Rig {
        fn new(ids: &[u64]) -> Rig {
            let mut rig = Rig(ReadQueue::default());
            for id in ids {
                rig.push_back(*id);
            }
            rig
        }

        fn push_rotated(&mut self, id: u64) {
            let name = if id < 200 { "/in/a.log" } else { "/in/gone.log" };
            // The larger the id, the older the file.
            let generation = Generation { modified_ns: -(id as i64), id: OriginId(id) };
            self.0.insert(generation, names_of(Path::new(name)));
        }

        fn push_back(&mut self, id: u64) {
            if id < 100 {
                self.0.live.push_back(OriginId(id));
            } else {
                self.push_rotated(id);
            }
        }

        fn pop(&mut self) -> Option<u64> {
            let name = |id: OriginId| {
                Some(Path::new(if id.0 == 1 { "/in/a.log" } else { "/in/other.log" }))
            };
            self.0.pop_front(name).map(|id| id.0)
        }

        /// Pops `count` files, and requeues each one that is not in `read`.
        fn take(&mut self, count: usize, read: &[u64]) -> Vec<u64> {
            let mut popped = Vec::new();
            for _ in 0..count {
                let id = self.pop().unwrap();
                if !read.contains(&id) {
                    self.push_back(id);
                }
                popped.push(id);
            }
            popped
        }
    }

    #[test]
    fn rotated_files_share_one_turn_and_the_oldest_is_first() {
        let mut rig = Rig::new(&[3, 200, 201, 202, 2]);
        assert_eq!(rig.take(5, &[]), [202, 3, 2, 202, 3]);
        assert_eq!(rig.take(7, &[202, 201]), [2, 202, 3, 2, 201, 3, 2]);
        assert_eq!(rig.take(2, &[]), [200, 3]);
    }

    #[test]
    fn rotated_files_get_every_turn_while_no_live_file_is_due() {
        let mut rig = Rig::new(&[200, 201]);
        assert_eq!(rig.take(3, &[201]), [201, 200, 200]);
        assert!(!rig.0.is_empty());
    }

    /// Other live files keep their turns.
    #[test]
    fn a_live_file_gives_its_turns_to_its_rotations() {
        let mut rig = Rig::new(&[1, 2, 100, 101]);
        assert_eq!(rig.take(4, &[]), [101, 101, 2, 101]);
        assert_eq!(rig.take(4, &[101]), [101, 2, 100, 100]);
        assert_eq!(rig.take(4, &[100]), [2, 100, 1, 2]);
        assert_eq!((rig.0.rotated.len(), rig.0.by_name.len(), rig.0.len()), (0, 0, 2));
    }

    #[test]
    fn rotations_have_the_names_of_their_originals() {
        for (name, original) in [
            ("/in/app.log", "/in/app.log"),
            ("/in/app.log.1", "/in/app.log"),
            ("/in/app.log-20261129.gz", "/in/app.log"),
        ] {
            assert!(names_of(Path::new(name)).contains(&PathBuf::from(original)), "{name}");
        }
    }
}
