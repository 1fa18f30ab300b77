//! Finding files: the walk, which file is which, and what is kept of it.

use super::*;
use crate::files::effort::Effort;
use crate::files::identity::Mark;
use crate::files::names::{container, is_packed_name};
use std::collections::BTreeSet;

impl FileSource {
    /// Walks the folders: takes in new files, notices moved and vanished ones.
    pub(super) fn walk(&mut self, cx: &SourceCx<'_>) {
        let (now, effort) = (cx.now.since_start, Effort::begin());
        let mut found = walk(&self.patterns, &self.exclude, self.watch.moved());
        found.files.retain(|path| !self.retention.contains(path));
        self.watch_folders(&found.folders);
        self.walked = Some(now);
        let mut trouble = found.unreadable;
        trouble.extend(found.missing.into_iter().map(|pattern| (pattern.into(), MISSING.to_owned())));
        let (mut seen, mut new, mut strangers) = (HashSet::new(), Vec::new(), Vec::new());
        for path in &found.files {
            match self.identify(path, &new, &strangers, cx) {
                Ok(Some(Named::Known(id))) => _ = seen.insert(id),
                Ok(Some(Named::Kept(tail))) => self.add_new(&mut new, *tail),
                Ok(Some(Named::Stranger(inode))) => strangers.push((path.clone(), inode)),
                Ok(None) => {}
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => _ = trouble.insert(path.clone(), error.to_string()),
            }
        }
        self.restore_held(&mut new, &mut strangers, cx);
        self.note_seen(&seen, now);
        if !self.searched {
            new.extend(self.search(&new, cx));
        }
        self.place(strangers, &mut new, cx, &mut trouble);
        // A compressed file that is being written may be what became of one that is missing.
        if !self.searched && self.work.packing.is_empty() {
            self.searched = true;
            self.recover(&mut new, cx);
            self.forget_missing(&new, cx);
            self.say_found(found.files.len(), cx);
        }
        if self.insert(new, cx) {
            self.first_start = false;
        }
        // What was renamed just now may be deleted before the next look.
        self.update_held(cx);
        self.report(trouble, cx);
        self.walk_pause = effort.interval().max(WALK_PAUSE);
    }

    fn watch_folders(&mut self, folders: &BTreeSet<PathBuf>) {
        let watched_before = self.watch.is_complete(folders);
        self.watch.folders(folders);
        self.folders_watched = self.watch.is_complete(folders);
        // A name that came between the walk and the watch is found by walking once more.
        self.walk_wanted = self.folders_watched && !watched_before;
    }

    /// Notes since when no path leads to files that were not seen.
    fn note_seen(&mut self, seen: &HashSet<u64>, now: Duration) {
        for (id, tail) in &mut self.tails {
            match seen.contains(id) {
                true => tail.gone_since = None,
                false => _ = tail.gone_since.get_or_insert(now),
            }
            tail.note_standing();
        }
    }

    /// Adds a file that is to be taken in; of very many at once not all stay open.
    pub(super) fn add_new(&self, new: &mut Vec<Tail>, mut tail: Tail) {
        if new.len() >= self.open_max / 2 {
            tail.park();
        }
        new.push(tail);
    }

    /// Says once what the patterns match: a wrong one would be silent otherwise.
    fn say_found(&self, files: usize, cx: &SourceCx<'_>) {
        match files {
            0 => {
                log::warn!("source {}: no file matches include yet; it is looked for from now on", cx.info.id)
            }
            files => log::info!("source {}: {files} files match include", cx.info.id),
        }
    }

    /// Looks, at the start, for files that were moved out of the patterns while nobody looked, in
    /// the folders they were in: what was written before the move is still owed.
    fn search(&mut self, new: &[Tail], cx: &SourceCx<'_>) -> Vec<Tail> {
        let mut found = Vec::new();
        for folder in self.folders_of_records() {
            let Ok(entries) = std::fs::read_dir(&folder) else { continue };
            for path in entries.flatten().map(|entry| entry.path()) {
                found.extend(self.moved(&path, new, cx));
            }
        }
        found
    }

    pub(super) fn folders_of_records(&self) -> HashSet<PathBuf> {
        let records = self.records.values().flatten();
        records.filter_map(|(_, descriptor)| folder_of(descriptor)).collect()
    }

    /// Forgets files that are not there any more, unless their whole folder is away.
    fn forget_missing(&mut self, new: &[Tail], cx: &SourceCx<'_>) {
        let mut gone = Vec::new();
        for folder in self.folders_of_records() {
            let Ok(entries) = std::fs::read_dir(&folder) else { continue };
            let inode = |path: &Path| rustix::fs::lstat(path).map(|stat| stat.st_ino);
            let mut inodes: HashSet<u64> = entries.flatten().flat_map(|entry| inode(&entry.path())).collect();
            // One that is there and cannot be opened now is not forgotten; one whose inode another
            // file has taken is.
            new.iter().for_each(|tail| _ = inodes.remove(&tail.inode.number));
            for (record, descriptor) in self.records.values().flatten() {
                if folder_of(descriptor).as_ref() == Some(&folder) && !inodes.contains(&descriptor.inode) {
                    gone.push(record.id);
                }
            }
        }
        self.records
            .values_mut()
            .for_each(|records| records.retain(|(record, _)| !gone.contains(&record.id)));
        forget(&gone, &*self.open.store, &cx.info.id);
    }

    /// The file behind `path`, if it is one we knew under another name.
    fn moved(&mut self, path: &Path, new: &[Tail], cx: &SourceCx<'_>) -> Option<Tail> {
        let inode = Inode::of(&rustix::fs::lstat(path).ok()?);
        let is_read = self.by_inode.contains_key(&inode) || new.iter().any(|tail| tail.inode == inode);
        if is_read || !self.records.contains_key(&inode.number) {
            return None;
        }
        let (file, stat) = open_regular(path, &self.symlinks).ok()??;
        let mut content = Content::new(file).ok()?;
        let (record, descriptor) = self.take_record(&mut content, &stat)?;
        log::debug!("source {}: {} was moved to {}", cx.info.id, descriptor.path, path.display());
        let mut tail = self.resume(content, &stat, path, record, descriptor);
        tail.gone_since = Some(cx.now.since_start);
        Some(tail)
    }

    /// Says that a file is not what it was before the restart: what was appended to the old one
    /// after it was read last is lost.
    pub(super) fn say_replaced(&self, path: &Path, stat: &Stat, cx: &SourceCx<'_>) {
        let records = self.records.get(&stat.st_ino).map_or(&[][..], Vec::as_slice);
        if records.iter().any(|(_, old)| old.device == stat.st_dev && Path::new(&old.path) == path) {
            cx.counters.noted("truncations", 1);
            log::warn!(
                "source {}: {} was cut or replaced while the agent was down: it is read from its beginning, \
                 and what was appended to it before and not read is lost, unless a copy of it is found",
                cx.info.id,
                path.display()
            );
        }
    }

    /// Which file a path names. A file that is open already is not opened again.
    fn identify(
        &mut self,
        path: &Path,
        new: &[Tail],
        strangers: &[(PathBuf, Inode)],
        cx: &SourceCx<'_>,
    ) -> io::Result<Option<Named>> {
        let inode = Inode::of(&rustix::fs::stat(path)?);
        if let Some(id) = self.by_inode.get(&inode) {
            // Of several names the first one counts as long as it leads to the file.
            let still = |path: &Path| rustix::fs::stat(path).is_ok_and(|stat| Inode::of(&stat) == inode);
            if let Some(tail) = self.tails.get_mut(id).filter(|tail| tail.path != path && !still(&tail.path))
            {
                tail.is_at(path);
            }
            return Ok(Some(Named::Known(*id)));
        }
        if new.iter().any(|tail| tail.inode == inode) || strangers.iter().any(|(_, other)| *other == inode) {
            return Ok(None);
        }
        self.make_room(new.len().min(self.open_max / 2) + 1, &[]);
        let Some((file, stat)) = open_regular(path, &self.symlinks)? else { return Ok(None) };
        if self.range.as_ref().is_some_and(|range| !range.may_be_in(stat.st_mtime)) {
            return Ok(None);
        }
        let mut content = Content::new(file)?;
        if let Some((record, descriptor)) = self.take_record(&mut content, &stat) {
            return Ok(Some(Named::Kept(Box::new(self.resume(content, &stat, path, record, descriptor)))));
        }
        // One that has just been begun does not say yet what it is.
        let packed = content.is_packed() || stat.st_size == 0 && is_packed_name(path);
        if packed && !self.is_finite(cx) && !self.work.packing.is_complete(inode, &stat, cx.now) {
            return Ok(None);
        }
        Ok(Some(Named::Stranger(inode)))
    }

    /// The record of a file from before the restart, if it is this file.
    fn take_record(&mut self, content: &mut Content, stat: &Stat) -> Option<(OriginRecord, Descriptor)> {
        let records = self.records.get_mut(&stat.st_ino)?;
        let settled = |record: &OriginRecord, descriptor: &Descriptor| {
            record.checkpoints.iter().map(|(_, offset)| *offset).max().unwrap_or(0).max(descriptor.start)
        };
        // The device tells nothing but the order: it may have another number after a reboot. Of several
        // that begin alike, the file is the one of which it holds the most.
        records.sort_by_key(|(_, known)| (known.device != stat.st_dev, Reverse(known.known_bytes())));
        let fits = |(record, descriptor): &(OriginRecord, Descriptor)| {
            descriptor.is(content, settled(record, descriptor)).unwrap_or(false)
        };
        let index = records.iter().position(fits)?;
        Some(records.swap_remove(index))
    }

    /// Goes on with a file from before the restart: each sink from its own checkpoint.
    pub(super) fn resume(
        &self,
        content: Content,
        stat: &Stat,
        path: &Path,
        record: OriginRecord,
        mut descriptor: Descriptor,
    ) -> Tail {
        descriptor.device = stat.st_dev;
        let checkpoint =
            |sink: &String| record.checkpoints.iter().find(|(id, _)| id == sink).map(|(_, offset)| *offset);
        let start = descriptor.start;
        let resumed = self.open.sinks.iter().map(|(index, id)| (*index, checkpoint(id).unwrap_or(start)));
        let cursors = Cursors::resume(resumed);
        let origin = self.origin(record.id, descriptor.path.clone(), path);
        Tail::new(origin, content, descriptor, cursors, path.to_path_buf())
            .with_framing(self.framing.as_ref())
    }

    /// Takes in a file that was never seen, under a new id.
    pub(super) fn adopt(&self, stranger: Stranger, start: u64) -> io::Result<Tail> {
        self.adopt_as(getrandom::u64().map_err(io::Error::other)?, stranger, start)
    }

    /// Takes in a file under the id `id`, to be read from `start` on.
    pub(super) fn adopt_as(&self, id: u64, stranger: Stranger, start: u64) -> io::Result<Tail> {
        let Stranger { path, mut content, stat, head } = stranger;
        let name = path.to_string_lossy().into_owned();
        let (device, inode) = (stat.st_dev, stat.st_ino);
        let mark = if content.is_packed() { Mark::default() } else { Mark::read(&mut content, start)? };
        let path_kept = name.clone();
        let descriptor =
            Descriptor { device, inode, head, mark, packed: None, copy_of: None, start, path: path_kept };
        let cursors = Cursors::resume(self.open.sinks.iter().map(|(index, _)| (*index, start)));
        let origin = self.origin(id, name, &path);
        Ok(Tail::new(origin, content, descriptor, cursors, path).with_framing(self.framing.as_ref()))
    }

    /// An origin, with what its path says of a container.
    fn origin(&self, id: u64, name: String, path: &Path) -> Arc<Origin> {
        let attributes = container(Path::new(&name));
        let origin = Origin::new(id, name).with_attributes(attributes);
        origin.state.set_path(path.to_string_lossy());
        Arc::new(origin)
    }

    /// Where to begin with a file that is there at the very first start.
    pub(super) fn first_offset(&self, stranger: &mut Stranger, now: Now) -> io::Result<u64> {
        let age_s = now.unix_ns / 1_000_000_000 - stranger.stat.st_mtime;
        if self.range.is_some() {
            return Ok(0);
        }
        let old = self.ignore_older.is_some_and(|limit| age_s > limit.as_secs() as i64);
        if old || self.read_from == ReadFrom::End {
            let bytes = stranger.content.bytes()?;
            stranger.content.last_line_start(bytes)
        } else {
            Ok(0)
        }
    }

    /// Takes in files whose names are durable from here on; whether that went well.
    pub(super) fn insert(&mut self, new: Vec<Tail>, cx: &SourceCx<'_>) -> bool {
        let kept: Vec<(u64, Vec<u8>)> = new.iter().map(|t| (t.origin.id, t.descriptor.to_bytes())).collect();
        if (!kept.is_empty() || self.first_start)
            && let Err(error) = self.open.store.keep(&kept)
        {
            cx.counters.error("checkpoint");
            log::error!(
                "source {}: {} new files cannot be noted: {error}; trying again",
                cx.info.id,
                kept.len()
            );
            self.walk_wanted = true;
            // Those that were moved meanwhile are looked for once more, too.
            self.searched = false;
            self.retention.restore_again();
            new.into_iter().for_each(|tail| self.lay_by(tail));
            return false;
        }
        for mut tail in new {
            let checkpoints =
                tail.cursors.list().iter().flat_map(|c| c.sinks.iter().map(|sink| (sink, c.position)));
            self.open.ledger.open(&tail.origin, checkpoints.collect::<Vec<_>>());
            tail.quiet_at = cx.now.since_start + QUIET_AFTER.saturating_sub(age(&tail, cx.now));
            schedule(&mut self.work.looks, &mut tail, cx.now.since_start);
            self.work.active += 1;
            self.by_inode.insert(tail.inode, tail.origin.id);
            self.tails.insert(tail.origin.id, tail);
        }
        true
    }

    /// Says what cannot be read, once per change.
    fn report(&mut self, trouble: BTreeMap<PathBuf, String>, cx: &SourceCx<'_>) {
        let named =
            trouble.iter().map(|(path, reason)| (path.to_string_lossy().into_owned(), reason.clone()));
        self.open.troubles.set(named.collect());
        let is_new = |(path, reason): &(&PathBuf, &String)| self.trouble.get(*path) != Some(reason);
        for (path, reason) in trouble.iter().filter(is_new).filter(|(_, reason)| *reason != MISSING) {
            cx.counters.error("unreadable");
            log::warn!("source {}: cannot read {}: {reason}; trying again", cx.info.id, path.display());
        }
        let over = |(path, reason): &(&PathBuf, &String)| !trouble.contains_key(*path) && *reason != MISSING;
        for (path, _) in self.trouble.iter().filter(over) {
            log::info!("source {}: {} is readable or gone", cx.info.id, path.display());
        }
        self.trouble = trouble;
    }
}

fn folder_of(descriptor: &Descriptor) -> Option<PathBuf> {
    Path::new(&descriptor.path).parent().map(Path::to_path_buf)
}

/// A file behind a path.
enum Named {
    /// It is read already.
    Known(u64),
    /// It is known from before the restart, or from before it left the patterns.
    Kept(Box<Tail>),
    Stranger(Inode),
}
