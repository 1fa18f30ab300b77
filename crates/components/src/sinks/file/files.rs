//! The files of one sink: a bounded number of them open, and what is kept about them.
//!
//! Whatever may be cut off a file after a crash is known from the state kept with the checkpoints:
//! a file is in it, with the length up to which its events are settled, before the first byte is
//! written that is not. A sync that settles everything leaves only the open files in it.

use super::writer::Writer;
use crate::compress::Compression;
use crate::disk::now_ns;
use crate::rotation::Rotate;
use crate::route::Route;
use crate::synced::{Known, Synced};
use bytes::Bytes;
use millstream_model::Counters;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Files in the kept state, beside those that may be open, from which on a sync should make it
/// shorter.
const KEPT_FILES_MAX: usize = 1000;

/// Compressed members in progress at a time, if there is memory for as many.
pub const MEMBERS_MAX: u64 = 16;

/// Time until a rotation is tried again that failed.
const ROTATE_AGAIN: Duration = Duration::from_secs(10);

/// Keeps a state durably.
pub type Keep = Arc<dyn Fn(Vec<u8>) -> io::Result<()> + Send + Sync>;

/// What the files have in common.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    pub compression: (Compression, u32),
    /// Compressed members in progress at a time.
    pub members_max: u64,
    /// Whether the last name of a path may be a symbolic link.
    pub follow_links: bool,
    pub rotate: Rotate,
    pub open_files_max: usize,
    pub idle_timeout: Duration,
}

impl Settings {
    /// Bytes of memory that a compressed member in progress takes.
    pub fn member_bytes(&self) -> u64 {
        let (compression, level) = self.compression;
        compression.member_bytes(level)
    }

    /// The same with as many members in progress as these bytes of memory have room for, and at
    /// least one.
    pub fn within(self, state_bytes: u64) -> Settings {
        let affordable = state_bytes / self.member_bytes().max(1);
        Settings { members_max: affordable.clamp(1, self.members_max), ..self }
    }
}

/// Writes files.
pub struct Files {
    settings: Settings,
    keep: Keep,
    counters: Arc<Counters>,
    open: HashMap<Arc<str>, Writer>,
    /// What the kept state says of the files written to since the last sync.
    known: Known,
    /// Whether it does not say so yet.
    is_kept: bool,
    /// From before a restart, and not mended yet.
    torn: BTreeMap<Arc<str>, Synced>,
    /// Routes of the payload in delivery that are done.
    done: usize,
    rotate_from: Instant,
    hurry: bool,
}

impl Files {
    /// No file open; what a crash left behind settled events is cut off. `state` is what the last
    /// sync returned.
    pub fn new(
        settings: Settings,
        state: Option<&[u8]>,
        keep: Keep,
        counters: Arc<Counters>,
    ) -> Files {
        let torn = state.and_then(|state| serde_json::from_slice(state).ok()).unwrap_or_default();
        let mut files = Files {
            settings,
            keep,
            counters,
            open: HashMap::new(),
            known: Known::default(),
            is_kept: true,
            torn,
            done: 0,
            rotate_from: Instant::now(),
            hurry: false,
        };
        files.torn.retain(|path, synced| match synced.truncate_unsynced(Path::new(&**path)) {
            Ok(mended) => !mended,
            Err(error) => {
                log::warn!("{path}: {error}; trying again with the first event");
                true
            }
        });
        files
    }

    /// Appends the parts, those of each route to its file. Called again after an error, it goes on
    /// where it stopped: what was appended is not appended again.
    pub fn deliver(&mut self, parts: &[Bytes], routes: &[Route]) -> io::Result<()> {
        if self.done == 0 {
            // One commit for all of them.
            routes.iter().try_for_each(|route| self.place(&route.name))?;
            if self.rotate(routes)? {
                routes.iter().try_for_each(|route| self.place(&route.name))?;
            }
        }
        let mut begin = 0_usize;
        for (index, route) in routes.iter().enumerate() {
            let end = parts.len().min(begin.saturating_add(route.parts));
            if index >= self.done {
                self.append(&route.name, &parts[begin..end])?;
                self.done = index + 1;
            }
            begin = end;
        }
        self.done = 0;
        Ok(())
    }

    fn append(&mut self, path: &Arc<str>, parts: &[Bytes]) -> io::Result<()> {
        self.place(path)?;
        self.keep()?;
        self.make_room_for_a_member(path)?;
        let Some(writer) = self.open.get_mut(path) else {
            return Err(io::ErrorKind::NotFound.into());
        };
        writer.append(parts).map_err(|error| at(path, error))?;
        self.hurry |=
            self.known.count() > self.settings.open_files_max + KEPT_FILES_MAX || self.is_due(path);
        Ok(())
    }

    /// Sees to it that the file of this path is open, and known.
    fn place(&mut self, path: &Arc<str>) -> io::Result<()> {
        if let Some(writer) = self.open.get_mut(path) {
            if writer.is_in_place().map_err(|error| at(path, error))? {
                return Ok(());
            }
            if writer.is_deleted() {
                self.open.remove(path);
            }
            // Everything written is on the disk: if the path leads to it again, nothing is cut off.
            self.shut(path)?;
        }
        while self.open.len() >= self.settings.open_files_max {
            let oldest = self
                .open
                .iter()
                .min_by_key(|(_, writer)| writer.used)
                .map(|(path, _)| path.clone());
            oldest.iter().try_for_each(|path| self.shut(path))?;
        }
        let (torn, ours) = (self.torn.get(path), self.known.paths().get(path));
        let writer = Writer::open(Path::new(&**path), &self.settings, torn, ours)
            .and_then(|writer| self.known.refuse_second_name(path, &writer.synced).map(|()| writer))
            .map_err(|error| at(path, error))?;
        self.torn.remove(path);
        if !ours.is_some_and(|ours| ours.is_same_file(&writer.synced)) {
            self.known.insert(path, writer.synced.clone());
            self.is_kept = false;
        }
        self.open.insert(path.clone(), writer);
        Ok(())
    }

    /// Syncs and closes a file.
    fn shut(&mut self, path: &Arc<str>) -> io::Result<()> {
        if let Some(writer) = self.open.get_mut(path) {
            writer.sync().map_err(|error| at(path, error))?;
        }
        self.open.remove(path);
        Ok(())
    }

    /// Ends the oldest member in progress if this file is to begin one too many.
    fn make_room_for_a_member(&mut self, path: &Arc<str>) -> io::Result<()> {
        let with_member =
            self.open.iter_mut().filter(|(other, writer)| *other != path && writer.has_member());
        let (mut count, mut oldest): (u64, Option<(&Arc<str>, &mut Writer)>) = (0, None);
        for (other, writer) in with_member {
            count += 1;
            if oldest.as_ref().is_none_or(|(_, oldest)| writer.used < oldest.used) {
                oldest = Some((other, writer));
            }
        }
        match oldest {
            Some((other, writer)) if count >= self.settings.members_max => {
                writer.end_member().map_err(|error| at(other, error))
            }
            _ => Ok(()),
        }
    }

    fn is_due(&self, path: &Arc<str>) -> bool {
        self.open.get(path).is_some_and(|writer| {
            let (bytes, begun_ns) = writer.extent();
            self.rotate_from <= Instant::now()
                && self.settings.rotate.is_due(bytes, begun_ns, now_ns())
        })
    }

    /// Gives files that are due their names for good. Only files of which every event is settled:
    /// they are never touched again, whatever happens. Whether there were any.
    fn rotate(&mut self, routes: &[Route]) -> io::Result<bool> {
        let is_settled = |path: &Arc<str>| {
            let writer = self.open.get(path);
            writer.is_some_and(|writer| {
                !writer.dirty && self.known.paths().get(path) == Some(&writer.synced)
            })
        };
        let due = routes.iter().map(|route| route.name.clone());
        let due: HashSet<Arc<str>> =
            due.filter(|path| self.is_due(path) && is_settled(path)).collect();
        if due.is_empty() {
            return Ok(false);
        }
        // The checkpoints must know before the name changes.
        self.is_kept = false;
        self.keep()?;
        for path in due {
            self.open.remove(&path);
            self.known.remove(&path);
            if let Err(error) = self.settings.rotate.rotate(Path::new(&*path), now_ns()) {
                log::warn!("{path} cannot be rotated: {error}; trying again in {ROTATE_AGAIN:?}");
                self.counters.error("rotate");
                self.rotate_from = Instant::now() + ROTATE_AGAIN;
            }
        }
        Ok(true)
    }

    /// Makes everything appended durable and returns the state to keep.
    pub fn sync(&mut self) -> io::Result<Vec<u8>> {
        self.open
            .iter_mut()
            .try_for_each(|(path, writer)| writer.sync().map_err(|error| at(path, error)))?;
        self.known = self.open.iter().map(|(path, writer)| (path, writer.synced.clone())).collect();
        (self.is_kept, self.hurry) = (true, false);
        Ok(self.state())
    }

    /// Whether a sync would let a file be rotated, or make the state shorter.
    pub fn wants_sync(&self) -> bool {
        self.hurry
    }

    /// Closes files that were not written to for a while.
    pub fn close_idle(&mut self) {
        let idle = self.settings.idle_timeout;
        self.open.retain(|_, writer| writer.dirty || writer.used.elapsed() < idle);
    }

    /// The state to keep when nothing more will be written by this agent: what lies behind the
    /// synced lengths from then on is not ours.
    pub fn close(&mut self) -> Vec<u8> {
        if self.open.values().all(|writer| !writer.dirty) {
            self.known = Known::default();
        }
        self.state()
    }

    /// A file is known before the first byte is written: else a crash would leave a torn line that
    /// nobody knows to be ours.
    fn keep(&mut self) -> io::Result<()> {
        if !self.is_kept {
            (self.keep)(self.state())?;
            self.is_kept = true;
        }
        Ok(())
    }

    fn state(&self) -> Vec<u8> {
        let all: BTreeMap<_, _> = self.torn.iter().chain(self.known.paths()).collect();
        serde_json::to_vec(&all).unwrap_or_default()
    }
}

fn at(path: &str, error: io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{path}: {error}"))
}

#[cfg(test)]
mod tests;
