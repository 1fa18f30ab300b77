//! Finding files: the walk, which file is which, and what is kept of it.

use super::super::discover::walk;
use super::*;

impl FileSource {
    /// Walks the folders: takes in new files, notices moved and vanished ones.
    pub(super) fn walk(&mut self, cx: &SourceCx<'_>) {
        let (now, begun) = (cx.now.since_start, Instant::now());
        let found = walk(&self.patterns, &self.exclude);
        let watched_before = self.watch.is_complete(&found.folders);
        self.watch.folders(&found.folders);
        self.folders_watched = self.watch.is_complete(&found.folders);
        // A name that came between the walk and the watch is found by walking once more.
        self.walk_wanted = self.folders_watched && !watched_before;
        self.walked = Some(now);
        let mut trouble = found.unreadable;
        let (mut seen, mut new) = (HashSet::new(), Vec::new());
        for path in &found.files {
            match self.identify(path, &new, cx) {
                Ok(Some(Named::Known(id))) => _ = seen.insert(id),
                Ok(Some(Named::New(tail))) => new.push(*tail),
                Ok(None) => {}
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => _ = trouble.insert(path.clone(), error.to_string()),
            }
        }
        for (id, tail) in &mut self.tails {
            match seen.contains(id) {
                true => tail.gone_since = None,
                false => _ = tail.gone_since.get_or_insert(now),
            }
        }
        if !self.searched {
            self.searched = true;
            new.extend(self.search(&new, cx));
            self.say_found(found.files.len(), cx);
        }
        if self.insert(new, cx) {
            self.first_start = false;
        }
        self.report(trouble, cx);
        self.walk_pause = (begun.elapsed() * WALK_SHARE).max(WALK_PAUSE);
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
    /// the folders they were in: what was written before the move is still owed. Files that are
    /// not there any more are forgotten, unless their whole folder is away.
    fn search(&mut self, new: &[Tail], cx: &SourceCx<'_>) -> Vec<Tail> {
        let parent = |descriptor: &Descriptor| Path::new(&descriptor.path).parent().map(Path::to_path_buf);
        let folders: HashSet<PathBuf> =
            self.records.values().flatten().filter_map(|(_, descriptor)| parent(descriptor)).collect();
        let (mut found, mut gone) = (Vec::new(), Vec::new());
        for folder in folders {
            let Ok(entries) = std::fs::read_dir(&folder) else { continue };
            let mut inodes = HashSet::new();
            for path in entries.flatten().map(|entry| entry.path()) {
                inodes.extend(rustix::fs::lstat(&path).map(|stat| stat.st_ino));
                found.extend(self.moved(&path, new, cx));
            }
            // One that is there and cannot be opened now is not forgotten; one whose inode another
            // file has taken is.
            new.iter().for_each(|tail| _ = inodes.remove(&tail.inode.number));
            for (record, descriptor) in self.records.values().flatten() {
                if parent(descriptor).as_ref() == Some(&folder) && !inodes.contains(&descriptor.inode) {
                    gone.push(record.id);
                }
            }
        }
        self.records
            .values_mut()
            .for_each(|records| records.retain(|(record, _)| !gone.contains(&record.id)));
        if !gone.is_empty()
            && let Err(error) = self.open.store.forget(&gone)
        {
            log::warn!("source {}: {} deleted files could not be forgotten: {error}", cx.info.id, gone.len());
        }
        found
    }

    /// The file behind `path`, if it is one we knew under another name.
    fn moved(&mut self, path: &Path, new: &[Tail], cx: &SourceCx<'_>) -> Option<Tail> {
        let inode = Inode::of(&rustix::fs::lstat(path).ok()?);
        if !self.records.contains_key(&inode.number) || new.iter().any(|tail| tail.inode == inode) {
            return None;
        }
        let (file, stat) = open_regular(path).ok()??;
        let (record, descriptor) = self.take_record(&file, &stat)?;
        log::debug!("source {}: {} was moved to {}", cx.info.id, descriptor.path, path.display());
        let mut tail = self.resume(file, &stat, path, record, descriptor);
        tail.gone_since = Some(cx.now.since_start);
        Some(tail)
    }

    /// Says that a file is not what it was before the restart: what was appended to the old one
    /// after it was read last is lost.
    fn say_replaced(&self, path: &Path, stat: &Stat, cx: &SourceCx<'_>) {
        let records = self.records.get(&stat.st_ino).map_or(&[][..], Vec::as_slice);
        if records.iter().any(|(_, old)| old.device == stat.st_dev && Path::new(&old.path) == path) {
            cx.counters.noted("truncations", 1);
            log::warn!(
                "source {}: {} was cut or replaced while the agent was down: it is read from its beginning, \
                 and what was appended to it before and not read is lost",
                cx.info.id,
                path.display()
            );
        }
    }

    /// Which file a path names. A file that is open already is not opened again.
    fn identify(&mut self, path: &Path, new: &[Tail], cx: &SourceCx<'_>) -> io::Result<Option<Named>> {
        let inode = Inode::of(&rustix::fs::stat(path)?);
        if let Some(id) = self.by_inode.get(&inode) {
            if let Some(tail) = self.tails.get_mut(id) {
                tail.path = path.to_path_buf();
            }
            return Ok(Some(Named::Known(*id)));
        }
        if new.iter().any(|tail| tail.inode == inode) {
            return Ok(None);
        }
        if self.tails.len() + new.len() >= self.open_max {
            return Err(io::Error::other(format!("{} files are open, no more are allowed", self.open_max)));
        }
        let Some((file, stat)) = open_regular(path)? else { return Ok(None) };
        if let Some((record, descriptor)) = self.take_record(&file, &stat) {
            return Ok(Some(Named::New(Box::new(self.resume(file, &stat, path, record, descriptor)))));
        }
        self.say_replaced(path, &stat, cx);
        let start = if self.first_start { self.first_offset(&file, &stat, cx.now)? } else { 0 };
        Ok(Some(Named::New(Box::new(self.adopt(file, &stat, path, start, cx)?))))
    }

    /// The record of a file from before the restart, if it is this file.
    fn take_record(&mut self, file: &File, stat: &Stat) -> Option<(OriginRecord, Descriptor)> {
        let records = self.records.get_mut(&stat.st_ino)?;
        let settled = |record: &OriginRecord, descriptor: &Descriptor| {
            record.checkpoints.iter().map(|(_, offset)| *offset).max().unwrap_or(0).max(descriptor.start)
        };
        let fits = |(record, descriptor): &(OriginRecord, Descriptor)| {
            descriptor.is(file, stat, settled(record, descriptor))
        };
        let same_device = |(_, descriptor): &(OriginRecord, Descriptor)| descriptor.device == stat.st_dev;
        let index = records
            .iter()
            .position(|r| same_device(r) && fits(r))
            .or_else(|| records.iter().position(fits))?;
        Some(records.swap_remove(index))
    }

    /// Goes on with a file from before the restart: each sink from its own checkpoint.
    fn resume(
        &self,
        file: File,
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
        let origin = Arc::new(Origin::new(record.id, descriptor.path.clone()));
        Tail::new(origin, file, descriptor, cursors, path.to_path_buf())
    }

    /// Takes in a file that was never seen, under a new name.
    pub(super) fn adopt(
        &self,
        file: File,
        stat: &Stat,
        path: &Path,
        start: u64,
        _: &SourceCx<'_>,
    ) -> io::Result<Tail> {
        let id = getrandom::u64().map_err(io::Error::other)?;
        let head = Head::read(&file, HEAD_BYTES_MAX)?;
        let name = path.to_string_lossy().into_owned();
        let descriptor =
            Descriptor { device: stat.st_dev, inode: stat.st_ino, head, start, path: name.clone() };
        let cursors = Cursors::resume(self.open.sinks.iter().map(|(index, _)| (*index, start)));
        Ok(Tail::new(Arc::new(Origin::new(id, name)), file, descriptor, cursors, path.to_path_buf()))
    }

    /// Where to begin with a file that is there at the very first start.
    fn first_offset(&self, file: &File, stat: &Stat, now: Now) -> io::Result<u64> {
        let age_s = now.unix_ns / 1_000_000_000 - stat.st_mtime;
        let old = self.ignore_older.is_some_and(|limit| age_s > limit.as_secs() as i64);
        if old || self.read_from == ReadFrom::End {
            last_line_start(file, stat.st_size as u64)
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
            return false;
        }
        for mut tail in new {
            let checkpoints =
                tail.cursors.list().iter().flat_map(|c| c.sinks.iter().map(|sink| (sink, c.position)));
            self.open.ledger.open(&tail.origin, checkpoints.collect::<Vec<_>>());
            tail.quiet_at = cx.now.since_start + QUIET_AFTER.saturating_sub(age(&tail, cx.now));
            schedule(&mut self.looks, &mut tail, cx.now.since_start);
            self.active += 1;
            self.by_inode.insert(tail.inode, tail.origin.id);
            self.tails.insert(tail.origin.id, tail);
        }
        true
    }

    /// Says what cannot be read, once per change.
    fn report(&mut self, trouble: BTreeMap<PathBuf, String>, cx: &SourceCx<'_>) {
        for (path, reason) in trouble.iter().filter(|(path, reason)| self.trouble.get(*path) != Some(reason))
        {
            cx.counters.error("unreadable");
            log::warn!("source {}: cannot read {}: {reason}; trying again", cx.info.id, path.display());
        }
        for path in self.trouble.keys().filter(|path| !trouble.contains_key(*path)) {
            log::info!("source {}: {} is readable or gone", cx.info.id, path.display());
        }
        self.trouble = trouble;
    }
}

/// Files one source may have open: what the system allows the process, less what the agent needs for
/// itself.
pub(super) fn open_max() -> usize {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
    let limit = limit.map_or(usize::MAX, |limit| usize::try_from(limit).unwrap_or(usize::MAX));
    limit.saturating_sub(OPEN_RESERVE).max(limit / 2)
}

/// A file behind a path.
enum Named {
    Known(u64),
    New(Box<Tail>),
}

/// Start of the unfinished last line of a file, or its size: where reading "from the end" begins,
/// so that no line is torn.
fn last_line_start(file: &File, size: u64) -> io::Result<u64> {
    let mut buffer = vec![0; 64 * 1024];
    let mut end = size;
    while end > 0 {
        let begin = end.saturating_sub(buffer.len() as u64);
        let n = pread(file, &mut buffer[..(end - begin) as usize], begin)?;
        if let Some(at) = millstream_scan::last_newline(&buffer[..n]) {
            return Ok(begin + at as u64 + 1);
        }
        end = begin;
    }
    Ok(0)
}
