//! Records of files that are not open: files from before a restart, and files that were closed
//! after they were read to their end.
//!
//! A rotation creates *generations* of a file: `app.log.1`, then `app.log.1.gz`, then
//! `app.log.2.gz`. A closed generation stays recorded for a while, so that it is recognized by its
//! later names and not mistaken for an unread file. The number of closed generations per name is
//! bounded; a file older than the oldest recorded generation is treated as read.

use super::identity::Descriptor;
use super::rotation_names::{is_rotation_name, originals_of, stem};
use millstream_model::{OriginId, OriginRecord, OriginStore, SinkIndex, SourceOpen};
use std::collections::{BTreeSet, HashMap, HashSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Number of closed generations recorded per name, about 100 bytes each. An unread generation is
/// missed only after more rotations than this between two attempts to read it.
pub const GENERATIONS_MAX: usize = 16;

/// A file's saved state and its checkpoints.
pub struct FileRecord {
    /// The id of the file.
    pub id: OriginId,
    /// The checkpoint of each sink, by sink id. Sinks that have never settled anything are missing.
    pub checkpoints: Vec<(String, u64)>,
    /// The saved state.
    pub descriptor: Descriptor,
}

impl FileRecord {
    /// Parses a record of the checkpoint store; `None` if the saved state is invalid.
    pub fn parse(record: OriginRecord) -> Option<FileRecord> {
        let descriptor = Descriptor::from_bytes(&record.descriptor)?;
        Some(FileRecord { id: record.id, checkpoints: record.checkpoints, descriptor })
    }

    /// Returns the offset up to which a sink has settled the file. For a sink without a checkpoint,
    /// this is the offset at which reading of the file began.
    pub fn settled_by(&self, sink: &str) -> u64 {
        let checkpoint = self.checkpoints.iter().find(|(id, _)| id == sink);
        checkpoint.map_or(self.descriptor.start, |(_, offset)| *offset)
    }

    /// Raises the checkpoints, and the offset at which reading began, to at least `offset`.
    pub fn raise(&mut self, offset: u64) {
        let checkpoints = self.checkpoints.iter_mut().map(|(_, checkpoint)| checkpoint);
        for position in checkpoints.chain([&mut self.descriptor.start]) {
            *position = offset.max(*position);
        }
    }

    /// Returns the highest checkpoint, but at least the offset at which reading of the file began.
    pub fn furthest(&self) -> u64 {
        let highest = self.checkpoints.iter().map(|(_, offset)| *offset).max();
        highest.unwrap_or(0).max(self.descriptor.start)
    }
}

/// Records of files that are not open, by id, inode number and name.
#[derive(Default)]
pub struct Records {
    by_id: HashMap<OriginId, FileRecord>,
    by_inode: HashMap<u64, Vec<OriginId>>,
    /// Ids by the stem of the file name.
    by_stem: HashMap<String, Vec<OriginId>>,
    /// Generations by name, including open files.
    pub generations: Generations,
}

impl Records {
    /// Adds a record. If its name then has too many closed generations, removes the oldest one and
    /// returns its id.
    pub fn insert(&mut self, record: FileRecord) -> Option<OriginId> {
        let id = record.id;
        let descriptor = &record.descriptor;
        let mut pruned = None;
        if descriptor.closed {
            pruned = self.generations.close(descriptor, id);
        } else {
            self.generations.open(descriptor);
        }
        self.by_inode.entry(descriptor.inode).or_default().push(id);
        for stem in stems_of(descriptor) {
            self.by_stem.entry(stem).or_default().push(id);
        }
        self.by_id.insert(id, record);
        if let Some(oldest) = pruned {
            self.remove(oldest);
        }
        pruned
    }

    /// Removes and returns a record.
    pub fn remove(&mut self, id: OriginId) -> Option<FileRecord> {
        let record = self.by_id.remove(&id)?;
        let descriptor = &record.descriptor;
        if descriptor.closed {
            self.generations.reopen(descriptor, id);
        } else {
            self.generations.release(descriptor);
        }
        remove_from(&mut self.by_inode, &descriptor.inode, id);
        for stem in stems_of(descriptor) {
            remove_from(&mut self.by_stem, &stem, id);
        }
        Some(record)
    }

    /// Returns the number of records.
    pub fn len(&self) -> usize {
        self.by_id.len()
    }

    /// Returns the record with this id.
    pub fn get(&self, id: OriginId) -> Option<&FileRecord> {
        self.by_id.get(&id)
    }

    /// Returns all records, in any order.
    pub fn values(&self) -> impl Iterator<Item = &FileRecord> {
        self.by_id.values()
    }

    /// Returns the records of files with this inode number.
    pub fn of_inode(&self, number: u64) -> impl Iterator<Item = &FileRecord> {
        self.by_inode.get(&number).into_iter().flatten().filter_map(|id| self.by_id.get(id))
    }

    /// Returns the records of files that a rotation could have renamed to `path`.
    pub fn related(&self, path: &Path) -> impl Iterator<Item = &FileRecord> {
        let other = file_name(Some(path));
        let stems: Vec<String> =
            other.match_indices(['.', '-', '_']).map(|(end, _)| other[..end].to_owned()).collect();
        let ids = stems.into_iter().filter_map(|stem| self.by_stem.get(&stem)).flatten();
        let records = ids.filter_map(|id| self.by_id.get(id));
        records.filter(move |record| {
            names_of(&record.descriptor).iter().any(|name| is_rotation_name(name, &other))
        })
    }
}

fn remove_from<K: std::hash::Hash + Eq>(
    ids: &mut HashMap<K, Vec<OriginId>>,
    key: &K,
    id: OriginId,
) {
    if let Some(same_key) = ids.get_mut(key) {
        same_key.retain(|other| *other != id);
        if same_key.is_empty() {
            ids.remove(key);
        }
    }
}

/// Returns the names from which rotations derive the names of generations. A linked file may be
/// rotated in the link's folder as well.
fn names_of(descriptor: &Descriptor) -> BTreeSet<String> {
    let paths = [descriptor.name(), &*descriptor.path];
    paths.into_iter().map(|path| file_name(Some(Path::new(path)))).collect()
}

fn stems_of(descriptor: &Descriptor) -> BTreeSet<String> {
    names_of(descriptor).iter().map(|name| stem(name).to_owned()).collect()
}

fn file_name(path: Option<&Path>) -> String {
    path.and_then(Path::file_name).unwrap_or_default().to_string_lossy().into_owned()
}

/// Generations of files, open and recorded, by their included name.
#[derive(Default)]
pub struct Generations(HashMap<Arc<str>, NameGenerations>);

#[derive(Default)]
struct NameGenerations {
    since_ns: i64,
    /// Number of generations that are not closed.
    open: usize,
    /// Closed generations by modification time and id, oldest first.
    closed: Vec<(i64, OriginId)>,
}

impl Generations {
    /// Counts an open generation.
    pub fn open(&mut self, descriptor: &Descriptor) {
        self.name(descriptor).open += 1;
    }

    /// Reverts [`Generations::open`].
    pub fn release(&mut self, descriptor: &Descriptor) {
        self.change(descriptor, |name| name.open = name.open.saturating_sub(1));
    }

    /// Adds a closed generation; returns the oldest one if there are now too many.
    fn close(&mut self, descriptor: &Descriptor, id: OriginId) -> Option<OriginId> {
        let closed = &mut self.name(descriptor).closed;
        let entry = (descriptor.modified_ns, id);
        closed.insert(closed.partition_point(|other| *other < entry), entry);
        (closed.len() > GENERATIONS_MAX).then(|| closed[0].1)
    }

    /// Reverts [`Generations::close`].
    fn reopen(&mut self, descriptor: &Descriptor, id: OriginId) {
        self.change(descriptor, |name| name.closed.retain(|(_, other)| *other != id));
    }

    fn name(&mut self, descriptor: &Descriptor) -> &mut NameGenerations {
        let name = self.0.entry(descriptor.shared_name()).or_default();
        name.since_ns = name.since_ns.max(descriptor.since_ns);
        name
    }

    fn change(&mut self, descriptor: &Descriptor, change: impl FnOnce(&mut NameGenerations)) {
        self.0.get_mut(descriptor.name()).map(change).unwrap_or_default();
    }

    /// Removes names without generations. Called between walks, so that a name whose files are
    /// being renamed is not removed.
    pub fn sweep(&mut self) {
        self.0.retain(|_, name| name.open > 0 || !name.closed.is_empty());
    }

    /// Frees the memory that removed names used.
    pub fn shrink(&mut self) {
        self.sweep();
        self.0.shrink_to(2 * self.0.len());
    }

    /// Returns the modification time, in nanoseconds since 1970, up to which all generations of the
    /// name are accounted for. Returns `None` if no generation is recorded, and 0 if the time is
    /// unknown.
    pub fn since(&self, path: &Path) -> Option<i64> {
        let name = self.0.get(&*path.to_string_lossy())?;
        let oldest = name.closed.first().filter(|_| name.closed.len() >= GENERATIONS_MAX);
        Some(name.since_ns.max(oldest.map_or(0, |(modified_ns, _)| *modified_ns)))
    }

    /// Returns the name of which `path` may be a generation: a recorded name in the same folder, or
    /// otherwise a name there that `is_included`.
    pub fn name_of(&self, path: &Path, is_included: impl Fn(&Path) -> bool) -> Option<PathBuf> {
        let names =
            originals_of(&file_name(Some(path))).into_iter().map(|name| path.with_file_name(name));
        let names: Vec<PathBuf> = names.collect();
        let recorded = names.iter().find(|name| self.0.contains_key(&*name.to_string_lossy()));
        recorded.or_else(|| names.iter().find(|name| is_included(name))).cloned()
    }
}

/// Loads the saved records of files. The record of a copy is deleted if its original has a record,
/// because any unsettled data that they share is reread from the original.
///
/// Beyond `idle_max` records, files that were read to their end are only listed, so that they can
/// be finished if they are unchanged.
///
/// # Errors
/// Returns an error if the checkpoint store cannot be read.
pub fn load_records(open: &SourceOpen, idle_max: usize) -> io::Result<Loaded> {
    let mut loaded = Loaded::default();
    let mut idle = Vec::new();
    let mut copies = Vec::new();
    let mut ids = HashSet::new();
    let mut after = None;
    loop {
        let page = open.store.origins_after(after)?;
        let Some(last) = page.last() else { break };
        after = Some(last.id);
        for record in page {
            let Some(record) = FileRecord::parse(record) else {
                log::error!(
                    "source {}: the saved state of a file is invalid; reading the file from its beginning",
                    open.info.id
                );
                continue;
            };
            ids.insert(record.id);
            match record.descriptor.copy_of {
                Some(_) => copies.push(record),
                None if is_settled(&record, &open.sinks) => idle.push(record),
                None => loaded.add(record),
            }
        }
        if idle.len() > idle_max || !loaded.idle.is_empty() {
            loaded.idle.extend(idle.drain(..).map(|record| IdleRecord::of(&record)));
        }
    }
    for copy in copies {
        if copy.descriptor.copy_of.is_some_and(|original| ids.contains(&original)) {
            loaded.gone.push(copy.id);
        } else {
            loaded.add(copy);
        }
    }
    for record in idle {
        loaded.add(record);
    }
    forget(&loaded.gone, &*open.store, &open.info.id);
    Ok(loaded)
}

/// The records loaded from the checkpoint store.
#[derive(Default)]
pub struct Loaded {
    /// The records, except those of the files in `idle`.
    pub records: Records,
    /// Files that were read to their end and whose records were not loaded.
    pub idle: Vec<IdleRecord>,
    gone: Vec<OriginId>,
}

impl Loaded {
    fn add(&mut self, record: FileRecord) {
        if let Some(pruned) = self.records.insert(record) {
            self.gone.push(pruned);
        }
    }
}

/// A file that was read to its end before the restart.
pub struct IdleRecord {
    /// Id of the file.
    pub id: OriginId,
    /// Path of the file.
    pub path: Arc<str>,
    /// Inode number of the file.
    pub inode: u64,
    /// Size of the file in bytes.
    pub bytes: u64,
    /// Modification time of the file, in nanoseconds since 1970.
    pub modified_ns: i64,
    /// See [`Descriptor::since_ns`].
    pub since_ns: i64,
}

impl IdleRecord {
    fn of(record: &FileRecord) -> IdleRecord {
        let descriptor = &record.descriptor;
        IdleRecord {
            id: record.id,
            path: descriptor.path.clone(),
            inode: descriptor.inode,
            bytes: descriptor.fingerprint.end,
            modified_ns: descriptor.modified_ns,
            since_ns: descriptor.since_ns,
        }
    }
}

/// Returns whether every sink has settled everything read so far from a plain file that has only
/// ever been seen under one name.
fn is_settled(record: &FileRecord, sinks: &[(SinkIndex, String)]) -> bool {
    let descriptor = &record.descriptor;
    let end = descriptor.fingerprint.end;
    let is_plain = !descriptor.closed && !descriptor.in_copy && descriptor.compressed.is_none();
    is_plain
        && descriptor.rotation_of.is_none()
        && descriptor.inode != 0
        && sinks.iter().all(|(_, sink)| record.settled_by(sink) == end)
}

/// Deletes files from the checkpoint store, and logs a failure.
pub fn forget(gone: &[OriginId], store: &dyn OriginStore, source: &str) {
    if !gone.is_empty()
        && let Err(error) = store.forget(gone)
    {
        log::warn!(
            "source {source}: cannot remove the ids of {} deleted files from the checkpoint store: {error}",
            gone.len()
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(id: u64, modified_ns: i64, closed: bool) -> FileRecord {
        let path = "/in/app.log".into();
        let descriptor =
            Descriptor { path, modified_ns, since_ns: 5, closed, ..Descriptor::default() };
        FileRecord { id: OriginId(id), checkpoints: Vec::new(), descriptor }
    }

    #[test]
    fn closed_generations_are_bounded_and_older_files_count_as_read() {
        let mut records = Records::default();
        let since = |records: &Records| records.generations.since(Path::new("/in/app.log"));
        assert_eq!(since(&records), None);
        // The order of insertion does not matter.
        for id in (0..GENERATIONS_MAX as u64).rev() {
            assert_eq!(records.insert(record(id, 100 + id as i64, true)), None);
            assert_eq!(since(&records), Some(if id == 0 { 100 } else { 5 }));
        }
        let open = GENERATIONS_MAX as u64;
        assert_eq!(
            records.insert(record(open, 10, false)),
            None,
            "an open generation removes none"
        );
        assert_eq!(records.insert(record(open + 1, 200, true)), Some(OriginId(0)));
        assert_eq!((since(&records), records.values().count()), (Some(101), GENERATIONS_MAX + 1));
        let ids: Vec<OriginId> = records.values().map(|record| record.id).collect();
        ids.into_iter().for_each(|id| assert!(records.remove(id).is_some()));
        assert_eq!(since(&records), Some(5), "its files may be adopted again before the sweep");
        records.generations.sweep();
        assert_eq!(since(&records), None, "the name is removed");
        assert!(records.by_inode.is_empty() && records.by_stem.is_empty());
    }

    #[test]
    fn a_rotated_file_belongs_to_the_recorded_or_included_name() {
        let mut records = Records::default();
        records.insert(record(1, 1, false));
        let name_of = |path: &str| {
            records.generations.name_of(Path::new(path), |name| name.ends_with("other.log"))
        };
        for path in ["/in/app.log.1", "/in/app.log.12.gz", "/in/app-20261122.log.gz"] {
            assert_eq!(name_of(path), Some("/in/app.log".into()), "{path}");
            let mut related = records.related(Path::new(path));
            assert_eq!(related.next().map(|record| record.id), Some(OriginId(1)), "{path}");
        }
        assert_eq!(name_of("/in/other.log.1.gz"), Some("/in/other.log".into()));
        for path in
            ["/elsewhere/app.log.1", "/in/app.log", "/in/apple.log.1", "/in/app.log.1.gz.tmp"]
        {
            assert_eq!(name_of(path), None, "{path}");
        }
    }
}
