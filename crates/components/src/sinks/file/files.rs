//! The files of a sink: limits the number of open files, and tracks their durable state.
//!
//! The state kept with the checkpoints defines what may be truncated after a crash. A file is added
//! to the state, with the length up to which its events are settled, before its first unsettled
//! byte is written. After a sync that settles all events, the state contains only the open files.

use super::settings::Settings;
use super::writer::Writer;
use crate::sinks::file::disk::now_ns;
use crate::sinks::file::route::Route;
use crate::sinks::file::synced::{Synced, SyncedFiles};
use bytes::Bytes;
use millstream_model::Counters;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Number of files in the kept state, beyond the maximum number of open files, above which a sync
/// is requested to shrink the state.
const KEPT_FILES_MAX: usize = 1000;

/// Maximum number of compressed members in progress, if memory allows.
pub const MEMBERS_MAX: u64 = 16;

/// Delay before a failed rotation is retried.
const ROTATE_RETRY: Duration = Duration::from_secs(10);

/// Stores a state durably.
pub type Keep = Arc<dyn Fn(Vec<u8>) -> io::Result<()> + Send + Sync>;

impl Settings {
    /// Returns the memory use of a compressed member in progress, in bytes.
    pub fn member_bytes(&self) -> u64 {
        let (compression, level) = self.compression;
        compression.member_bytes(level)
    }

    /// Reduces the number of members in progress so that they fit into `state_bytes` of memory, but
    /// not below one.
    pub fn within(self, state_bytes: u64) -> Settings {
        let affordable = state_bytes / self.member_bytes().max(1);
        Settings { members_max: affordable.clamp(1, self.members_max), ..self }
    }
}

/// The open files of a sink.
pub struct Files {
    settings: Settings,
    keep: Keep,
    counters: Arc<Counters>,
    open: HashMap<Arc<str>, Writer>,
    /// The state to keep for the open files, and for the files that were closed since the last
    /// sync.
    known: SyncedFiles,
    /// Whether `known` is stored durably.
    is_kept: bool,
    /// Files from before a restart whose unsettled data is not truncated yet.
    torn: BTreeMap<Arc<str>, Synced>,
    /// Number of routes of the current payload that are already written.
    done: usize,
    rotate_from: Instant,
    needs_sync: bool,
}

impl Files {
    /// Starts without open files, and truncates the data that a crash left after the settled
    /// events. `state` is the result of the last sync.
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
            known: SyncedFiles::default(),
            is_kept: true,
            torn,
            done: 0,
            rotate_from: Instant::now(),
            needs_sync: false,
        };
        files.torn.retain(|path, synced| match synced.truncate_unsynced(Path::new(&**path)) {
            Ok(done) => !done,
            Err(error) => {
                log::warn!("{path}: {error}; retrying when the first event arrives");
                true
            }
        });
        files
    }

    /// Appends the parts of each route to its file. After an error, a repeated call resumes and
    /// skips the parts that were already appended.
    pub fn deliver(&mut self, parts: &[Bytes], routes: &[Route]) -> io::Result<()> {
        if self.done == 0 {
            // Open all files first, so that the state is stored once for all routes.
            routes.iter().try_for_each(|route| self.ensure_open(&route.name))?;
            if self.rotate(routes)? {
                routes.iter().try_for_each(|route| self.ensure_open(&route.name))?;
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
        self.ensure_open(path)?;
        self.keep()?;
        self.limit_members(path)?;
        let Some(writer) = self.open.get_mut(path) else {
            return Err(io::ErrorKind::NotFound.into());
        };
        writer.append(parts).map_err(|error| at(path, error))?;
        self.needs_sync |=
            self.known.count() > self.settings.open_files_max + KEPT_FILES_MAX || self.is_due(path);
        Ok(())
    }

    /// Ensures that the file at this path is open and that `known` contains it.
    fn ensure_open(&mut self, path: &Arc<str>) -> io::Result<()> {
        if let Some(writer) = self.open.get_mut(path) {
            if writer.is_in_place().map_err(|error| at(path, error))? {
                return Ok(());
            }
            if writer.is_deleted() {
                self.open.remove(path);
            }
            // Make the file's data durable first, so that nothing is truncated if the path refers
            // to this file again.
            self.sync_and_close(path)?;
        }
        while self.open.len() >= self.settings.open_files_max {
            let oldest = self
                .open
                .iter()
                .min_by_key(|(_, writer)| writer.used)
                .map(|(path, _)| path.clone());
            oldest.iter().try_for_each(|path| self.sync_and_close(path))?;
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
    fn sync_and_close(&mut self, path: &Arc<str>) -> io::Result<()> {
        if let Some(writer) = self.open.get_mut(path) {
            writer.sync().map_err(|error| at(path, error))?;
        }
        self.open.remove(path);
        Ok(())
    }

    /// Ends the oldest member in progress if this file is about to start another member beyond the
    /// limit.
    fn limit_members(&mut self, path: &Arc<str>) -> io::Result<()> {
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
            let (bytes, started_ns) = writer.extent();
            self.rotate_from <= Instant::now()
                && self.settings.rotate.is_due(bytes, started_ns, now_ns())
        })
    }

    /// Renames files that are due for rotation if all their events are settled, because a rotated
    /// file is never modified again. Returns whether there were such files.
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
        // The checkpoints must be updated before the file is renamed.
        self.is_kept = false;
        self.keep()?;
        for path in due {
            self.open.remove(&path);
            self.known.remove(&path);
            if let Err(error) = self.settings.rotate.rotate(Path::new(&*path), now_ns()) {
                log::warn!("cannot rotate {path}: {error}; retrying in {ROTATE_RETRY:?}");
                self.counters.error("rotate");
                self.rotate_from = Instant::now() + ROTATE_RETRY;
            }
        }
        Ok(true)
    }

    /// Makes all appended data durable and returns the state to keep.
    pub fn sync(&mut self) -> io::Result<Vec<u8>> {
        self.open
            .iter_mut()
            .try_for_each(|(path, writer)| writer.sync().map_err(|error| at(path, error)))?;
        self.known = SyncedFiles::default();
        for (path, writer) in &self.open {
            self.known.insert(path, writer.synced.clone());
        }
        (self.is_kept, self.needs_sync) = (true, false);
        Ok(self.state())
    }

    /// Returns whether a sync would unblock a rotation or shrink the state.
    pub fn wants_sync(&self) -> bool {
        self.needs_sync
    }

    /// Closes idle files that have no unsynced data.
    pub fn close_idle(&mut self) {
        let idle = self.settings.idle_timeout;
        self.open.retain(|_, writer| writer.dirty || writer.used.elapsed() < idle);
    }

    /// Forgets synced files if nothing is unsynced, and returns the state to keep after this agent
    /// stops writing. Bytes that are added later belong to other programs and must not be
    /// truncated.
    pub fn close(&mut self) -> Vec<u8> {
        if self.open.values().all(|writer| !writer.dirty) {
            self.known = SyncedFiles::default();
        }
        self.state()
    }

    /// Stores the state before the first byte of a new file is written. Otherwise a crash could
    /// leave a torn line that this sink does not recognize as its data.
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
