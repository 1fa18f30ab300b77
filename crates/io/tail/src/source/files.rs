//! The files that a source reads, by id and by inode.

use crate::content::Content;
use crate::identity::Inode;
use crate::tail::Tail;
use millstream_model::OriginId;
use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;

/// The files being read. Each has a different inode.
#[derive(Default)]
pub(super) struct Files {
    /// The files are boxed, because map nodes have free slots.
    tails: BTreeMap<OriginId, Box<Tail>>,
    by_inode: HashMap<Inode, OriginId>,
}

impl Files {
    /// Returns the file with this id.
    pub(super) fn get(&self, id: OriginId) -> Option<&Tail> {
        self.tails.get(&id).map(AsRef::as_ref)
    }

    /// Returns the file with this id.
    pub(super) fn get_mut(&mut self, id: OriginId) -> Option<&mut Tail> {
        self.tails.get_mut(&id).map(AsMut::as_mut)
    }

    /// Returns all files, ordered by id.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Tail> {
        self.tails.values().map(AsRef::as_ref)
    }

    /// Returns all files, ordered by id.
    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Tail> {
        self.tails.values_mut().map(AsMut::as_mut)
    }

    /// Returns the number of files.
    pub(super) fn len(&self) -> usize {
        self.tails.len()
    }

    /// Returns the id of the file with this inode.
    pub(super) fn id_of(&self, inode: Inode) -> Option<OriginId> {
        self.by_inode.get(&inode).copied()
    }

    /// Returns the inodes of all files, in any order.
    pub(super) fn inodes(&self) -> impl Iterator<Item = Inode> {
        self.by_inode.keys().copied()
    }

    /// Adds a file.
    pub(super) fn insert(&mut self, tail: Tail) {
        self.by_inode.insert(tail.inode(), tail.id());
        self.tails.insert(tail.id(), Box::new(tail));
    }

    /// Removes and returns a file.
    pub(super) fn remove(&mut self, id: OriginId) -> Option<Tail> {
        let tail = self.tails.remove(&id)?;
        self.by_inode.remove(&tail.inode());
        Some(*tail)
    }

    /// Frees the memory that removed files used.
    pub(super) fn shrink(&mut self) {
        self.by_inode.shrink_to(2 * self.by_inode.len());
    }

    /// Switches a file to its copy, which has another inode. Returns the file.
    pub(super) fn continue_in(
        &mut self,
        id: OriginId,
        copy: Content,
        inode: Inode,
        path: PathBuf,
    ) -> Option<&mut Tail> {
        let tail = self.tails.get_mut(&id)?;
        self.by_inode.remove(&tail.inode());
        self.by_inode.insert(inode, id);
        tail.continue_in(copy, inode, path);
        Some(tail)
    }
}
