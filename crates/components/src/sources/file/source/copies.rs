//! Files that hold what another file held: copies of a copy-truncate, and compressed rotations.
//!
//! A stranger is a copy if its name is one that a rotation gives, and its content agrees with what
//! was read of the other file, or with what is in it still. What a copy holds counts as read. When
//! the original is cut or gone with something unread, reading goes on in the copy, under the same id.

use super::super::identity::Mark;
use super::*;
use crate::files::content::Content;
use crate::files::names::{is_rotation_name, stem};

/// A file that is not known by its inode.
pub(super) struct Stranger {
    pub path: PathBuf,
    pub content: Content,
    pub stat: Stat,
    pub head: Head,
}

/// Where copies look for their originals: by the stems of their names, as ten thousand files may
/// begin alike, in name and in content.
#[derive(Default)]
pub(super) struct Originals(HashMap<String, Vec<(u64, Head)>>);

impl Originals {
    pub fn add(&mut self, tail: &Tail) {
        let (first, now) = (file_name(Path::new(&tail.origin.name)), file_name(&tail.path));
        self.insert(&first, tail.origin.id, tail.descriptor.head);
        if now != first {
            self.insert(&now, tail.origin.id, tail.descriptor.head);
        }
    }

    fn insert(&mut self, name: &str, id: u64, head: Head) {
        self.0.entry(stem(name).to_owned()).or_default().push((id, head));
    }

    /// Ids of files that `stranger` may be a copy of.
    fn of(&self, stranger: &Stranger) -> Vec<u64> {
        self.named(&file_name(&stranger.path), stranger.head)
    }

    /// Ids of files of which a rotation could be called `name`, and that may begin with `head`.
    fn named(&self, name: &str, head: Head) -> Vec<u64> {
        let stems = name.match_indices(['.', '-', '_']).map(|(end, _)| &name[..end]);
        let named = stems.filter_map(|stem| self.0.get(stem)).flatten();
        let differ = |other: &Head| other.is_whole() && head.is_whole() && other.hash != head.hash;
        named.filter(|(_, other)| !differ(other)).map(|(id, _)| *id).collect()
    }
}

fn file_name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// Whether a rotation of the file that was first seen as `name`, and is `path` now, could be called
/// like this.
fn is_related(name: &str, path: &Path, other: &Path) -> bool {
    let other = file_name(other);
    is_rotation_name(&file_name(Path::new(name)), &other) || is_rotation_name(&file_name(path), &other)
}

impl Stranger {
    /// Whether it holds everything that was read of a file up to `mark`.
    fn holds(&mut self, head: Head, mark: Option<Mark>) -> bool {
        let agrees = |content: &mut Content| -> io::Result<bool> {
            Ok(head.agrees(content)? && mark.is_none_or(|mark| mark.agrees(content).unwrap_or(false)))
        };
        (head.bytes > 0 || mark.is_some()) && agrees(&mut self.content).unwrap_or(false)
    }

    /// Whether all of it is in the file behind `tail` too.
    fn is_within(&mut self, tail: &mut Tail) -> io::Result<bool> {
        let bytes = self.content.bytes()?;
        let original = tail.content()?;
        let mut original = original.again();
        Ok(bytes > 0
            && self.head.agrees(&mut original)?
            && Mark::read(&mut self.content, bytes)? == Mark::read(&mut original, bytes)?)
    }

    /// Whether it is a copy of the file behind `tail`.
    fn is_copy_of(&mut self, tail: &mut Tail) -> bool {
        if !is_related(&tail.origin.name, &tail.path, &self.path) {
            return false;
        }
        if self.is_within(tail).unwrap_or(false) {
            return true;
        }
        let Ok(bytes) = self.content.bytes() else { return false };
        let mark = tail.mark_before(bytes);
        mark.is_some() && self.holds(tail.descriptor.head, mark)
    }
}

impl FileSource {
    /// Takes in files that are not known by their inode: as copies, if they are some.
    pub(super) fn place(
        &mut self,
        strangers: Vec<Stranger>,
        new: &mut Vec<Tail>,
        cx: &SourceCx<'_>,
        trouble: &mut BTreeMap<PathBuf, String>,
    ) {
        let mut originals = Originals::default();
        if !strangers.is_empty() {
            self.tails.values().chain(new.iter()).for_each(|tail| originals.add(tail));
        }
        for mut stranger in strangers {
            let path = stranger.path.clone();
            let tail = match self.resume_in_copy(&mut stranger, cx) {
                Some(known) => Ok(self.resume_stranger(stranger, known)),
                None => self.take_in(stranger, &originals, new, cx),
            };
            match tail {
                Ok(tail) => {
                    originals.add(&tail);
                    new.push(tail);
                }
                Err(error) => _ = trouble.insert(path, error.to_string()),
            }
        }
    }

    /// The record of a file that is gone and of which the stranger holds all that was read.
    fn resume_in_copy(
        &mut self,
        stranger: &mut Stranger,
        cx: &SourceCx<'_>,
    ) -> Option<(OriginRecord, Descriptor)> {
        let holds = |descriptor: &Descriptor, stranger: &mut Stranger| {
            is_related(&descriptor.path, Path::new(&descriptor.path), &stranger.path)
                && descriptor.mark.end > 0
                && stranger.holds(descriptor.head, Some(descriptor.mark))
        };
        for records in self.records.values_mut() {
            if let Some(index) = records.iter().position(|(_, descriptor)| holds(descriptor, stranger)) {
                log::info!(
                    "source {}: {} goes on in {}",
                    cx.info.id,
                    records[index].1.path,
                    stranger.path.display()
                );
                return Some(records.swap_remove(index));
            }
        }
        None
    }

    fn resume_stranger(&self, stranger: Stranger, (record, descriptor): (OriginRecord, Descriptor)) -> Tail {
        let mut tail = self.resume(stranger.content, &stranger.stat, &stranger.path, record, descriptor);
        tail.descriptor.inode = stranger.stat.st_ino;
        tail.descriptor.packed = None;
        tail.inode = Inode::of(&stranger.stat);
        tail.frozen = true;
        tail
    }

    /// A file under a name of its own, read from its beginning, or if it is a copy, from its end.
    fn take_in(
        &mut self,
        mut stranger: Stranger,
        originals: &Originals,
        new: &mut [Tail],
        cx: &SourceCx<'_>,
    ) -> io::Result<Tail> {
        for id in originals.of(&stranger) {
            let known = self.tails.get_mut(&id);
            let known = known.or_else(|| new.iter_mut().find(|tail| tail.origin.id == id));
            if let Some(original) = known.filter(|tail| tail.inode != Inode::of(&stranger.stat))
                && stranger.is_copy_of(original)
            {
                let (of, start) = (original.origin.id, stranger.content.bytes()?);
                log::debug!(
                    "source {}: {} is a copy of {}",
                    cx.info.id,
                    stranger.path.display(),
                    original.origin.name
                );
                let mut tail = self.adopt(stranger, start)?;
                tail.copy_of = Some(of);
                return Ok(tail);
            }
        }
        self.say_replaced(&stranger.path, &stranger.stat, cx);
        let start = if self.first_start { self.first_offset(&mut stranger, cx.now)? } else { 0 };
        self.adopt(stranger, start)
    }

    /// The copy of a file that was cut, in the folder it is in, with the id under which it is known.
    pub(super) fn find_copy(&mut self, id: u64) -> Option<(Stranger, Option<u64>)> {
        let tail = self.tails.get(&id)?;
        let names = std::fs::read_dir(tail.path.parent()?).ok()?;
        let paths: Vec<PathBuf> = names.flatten().map(|entry| entry.path()).collect();
        let related = |path: &&PathBuf| is_related(&tail.origin.name, &tail.path, path);
        for path in paths.iter().filter(related).cloned().collect::<Vec<_>>() {
            let Some(mut stranger) = self.stranger(&path) else { continue };
            let known = self.by_inode.get(&Inode::of(&stranger.stat)).copied();
            let is_free = known.is_none_or(|known| {
                known != id && self.tails.get(&known).is_some_and(|tail| tail.copy_of == Some(id))
            });
            let tail = self.tails.get(&id)?;
            let mark = stranger.content.bytes().ok().and_then(|bytes| tail.mark_before(bytes));
            let unread = tail.mark_before(u64::MAX).is_none();
            if is_free && (mark.is_some() || unread) && stranger.holds(tail.descriptor.head, mark) {
                return Some((stranger, known));
            }
        }
        None
    }

    fn stranger(&self, path: &Path) -> Option<Stranger> {
        let (file, _) = open_regular(path, &self.symlinks).ok()??;
        stranger_of(path.to_path_buf(), Content::new(file).ok()?).ok()
    }

    /// A file that was cut goes on in its copy, which is known as `known` if it is read already.
    pub(super) fn go_on_in_copy(&mut self, id: u64, copy: Stranger, known: Option<u64>, cx: &SourceCx<'_>) {
        if let Some(known) = known {
            self.remove(known);
            self.closing.push(known);
            self.forget(known, cx);
        }
        let inode = Inode::of(&copy.stat);
        let Some(tail) = self.tails.get_mut(&id) else { return };
        log::info!("source {}: what was in {} is in {}", cx.info.id, tail.origin.name, copy.path.display());
        self.by_inode.remove(&tail.inode);
        self.active += u32::from(std::mem::take(&mut tail.watched));
        tail.go_on_in(copy.content, inode, copy.path);
        tail.gone_since = Some(cx.now.since_start);
        tail.queued = false;
        tail.update();
        self.open.store.note(id, tail.descriptor.to_bytes());
        schedule(&mut self.looks, tail, cx.now.since_start);
        self.by_inode.insert(inode, id);
        self.walk_wanted = true;
    }

    /// Passes over what a growing copy still has in common with its original; whether it is known
    /// what to do. Where the original itself was cut, that must be found first.
    pub(super) fn follow_copy(&mut self, id: u64, cx: &SourceCx<'_>) -> io::Result<bool> {
        let Some((of, head)) =
            self.tails.get(&id).and_then(|tail| Some((tail.copy_of?, tail.cursors.head())))
        else {
            return Ok(true);
        };
        let original = self
            .tails
            .get_mut(&of)
            .and_then(|tail| Some((tail.is_same().ok()?, tail.content.as_ref()?.again())));
        let Some(tail) = self.tails.get_mut(&id) else { return Ok(true) };
        let bytes = tail.content()?.bytes()?;
        match original {
            Some((false, _)) => {
                self.tails
                    .get_mut(&of)
                    .into_iter()
                    .for_each(|tail| schedule(&mut self.looks, tail, cx.now.since_start));
                return Ok(false);
            }
            Some((true, mut original)) if bytes > head => {
                if Mark::read(tail.content()?, bytes)? == Mark::read(&mut original, bytes)? {
                    pass_over(tail, bytes, cx);
                } else {
                    tail.copy_of = None;
                }
            }
            Some(_) => {}
            None => tail.copy_of = None,
        }
        Ok(true)
    }
}

/// The file behind an open content.
pub(super) fn stranger_of(path: PathBuf, mut content: Content) -> io::Result<Stranger> {
    let stat = fstat(content.file())?;
    let head = Head::read(&mut content, HEAD_BYTES_MAX)?;
    Ok(Stranger { path, content, stat, head })
}

/// Says what a copy lacks: what was written between the copy and the cut is nowhere any more.
pub(super) fn missing(tail: &mut Tail, end: u64, cx: &SourceCx<'_>) {
    let bytes = end - tail.cursors.list().iter().map(|cursor| cursor.position).min().unwrap_or(end);
    cx.counters.error("truncated_unread");
    cx.counters.dropped("truncated_unread", 1);
    log::error!("source {}: {bytes} bytes of {} are not in its copy", cx.info.id, tail.origin.name);
    pass_over(tail, end, cx);
}

/// Settles what lies before `end` without reading it.
pub(super) fn pass_over(tail: &mut Tail, end: u64, cx: &SourceCx<'_>) {
    while let Some((index, cursor)) =
        tail.cursors.list().iter().copied().enumerate().find(|(_, c)| c.position < end)
    {
        let range = (cursor.position, cursor.until.unwrap_or(end).min(end));
        cx.ledger.issue(tail.origin.id, range, cursor.sinks, cursor.attempt, cx.now.since_start).finish();
        tail.cursors.advance(index, range.1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each file is compared with the few that it can be a copy of, not with all.
    #[test]
    fn originals_are_found_by_name_among_many_that_are_alike() {
        let mut originals = Originals::default();
        let head = Head { hash: 1, ..Head::default() };
        (0..1000).for_each(|id| originals.insert(&format!("app-{id:04}.log"), id, head));
        originals.insert("app.log", 5000, head);
        originals.insert("syslog", 6000, head);
        assert_eq!(originals.named("app-0017.log", head), [5000, 17]);
        assert_eq!(originals.named("app-0017.log.1.gz", head), [5000, 17]);
        assert_eq!(originals.named("app.log-20261122", head), [5000]);
        assert_eq!(originals.named("syslog.gz", head), [6000]);
        assert!(originals.named("other.log", head).is_empty());
    }
}
