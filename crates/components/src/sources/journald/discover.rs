//! Finds journal files: in the configured folders, and in their subfolders that are named after a
//! machine.

use millstream_model::EngineTime;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

/// Time for which a folder must be unchanged before it is not read any more. File systems may give
/// two changes the same time if less than a tick of the kernel, up to 10 ms, is between them.
const SETTLED_AFTER: Duration = Duration::from_millis(50);

/// Maximum time between two walks, for file systems that do not update the times of folders.
const WALK_INTERVAL: Duration = Duration::from_secs(30);

/// Maximum number of subfolders that are read in a folder.
const FOLDERS_MAX: usize = 1024;

/// End of the path of the journal in memory.
const VOLATILE: &str = "run/log/journal";

/// What to do if the system denies access to the journal.
const ADVICE: &str = "add the agent's user to the group of the journal: `usermod -aG \
                      systemd-journal millstream`, then restart the agent";

/// Identity of a file on this host: device and inode.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FileKey(u64, u64);

impl FileKey {
    /// Returns the identity of a file.
    pub fn of(metadata: &std::fs::Metadata) -> FileKey {
        FileKey(metadata.dev(), metadata.ino())
    }
}

/// A journal file in a folder.
#[derive(Clone, Debug)]
pub struct FoundFile {
    /// Path of the file.
    pub path: PathBuf,
    /// Identity of the file.
    pub key: FileKey,
    /// Where the file belongs.
    pub place: Arc<Place>,
}

/// The journal to which a file belongs.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// Folder of the file.
    pub folder: PathBuf,
    /// Name of the journal, which is the same in memory and on disk: the name of the machine's
    /// folder, or an empty name.
    pub journal: String,
    /// Whether the journal is in memory, from where journald moves it to the disk.
    pub is_volatile: bool,
}

/// Returns whether a path has the name of a journal file.
pub fn is_journal(path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    name.ends_with(".journal") || name.ends_with(".journal~")
}

/// Returns whether a file is complete according to its name: journald has rotated it, or has found
/// it damaged.
pub fn is_archived(path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    name.ends_with('~') || name.contains('@')
}

/// The result of a walk.
#[derive(Debug, Default)]
pub struct Walked {
    /// Files in the order of their paths.
    pub found: Vec<FoundFile>,
    /// Paths that cannot be read, with reasons.
    pub unreadable: BTreeMap<String, String>,
}

/// A folder that was read.
#[derive(Debug)]
struct SeenFolder {
    modified: Option<SystemTime>,
    /// When `modified` was seen for the first time.
    since: EngineTime,
    is_settled: bool,
}

/// The folders that are read, and when they last changed.
#[derive(Debug, Default)]
pub struct Folders {
    seen: BTreeMap<PathBuf, SeenFolder>,
    walked: Option<EngineTime>,
}

impl Folders {
    /// Returns whether a walk may find other files than the last one.
    pub fn may_have_changed(&mut self, now: EngineTime) -> bool {
        if self.walked.is_none_or(|walked| now >= walked + WALK_INTERVAL) {
            return true;
        }
        let is_other = |(path, seen): (&PathBuf, &SeenFolder)| {
            !seen.is_settled || modified(path) != seen.modified
        };
        self.seen.iter().any(is_other)
    }

    /// Makes the next call of [`Folders::may_have_changed`] return true.
    pub fn forget(&mut self) {
        self.walked = None;
    }

    /// Reads all folders.
    pub fn walk(&mut self, paths: &[PathBuf], namespaces: &[String], now: EngineTime) -> Walked {
        let mut walk = Walk { namespaces, folders: BTreeMap::new(), walked: Walked::default() };
        let mut missing = BTreeSet::new();
        for path in paths {
            if let Err(error) = walk.root(path) {
                match error.kind() {
                    io::ErrorKind::NotFound => drop(missing.insert(path)),
                    _ => walk.note(path, &error),
                }
            }
        }
        // A host has one of the default folders, so a missing one is normal.
        if walk.walked.found.is_empty() && walk.walked.unreadable.is_empty() {
            for path in paths {
                let reason = match missing.contains(path) {
                    true => "no file or folder has this path; mount the journal, or set `path`",
                    false => "no file of a journal is in this folder",
                };
                walk.walked.unreadable.insert(path.display().to_string(), reason.to_owned());
            }
        }
        self.walked = Some(now);
        self.remember(walk.folders, now);
        walk.walked
    }

    fn remember(&mut self, folders: BTreeMap<PathBuf, Option<SystemTime>>, now: EngineTime) {
        let mut before = std::mem::take(&mut self.seen);
        for (path, modified) in folders {
            let old = before.remove(&path).filter(|old| old.modified == modified);
            let since = old.map_or(now, |old| old.since);
            let is_settled = now >= since + SETTLED_AFTER;
            self.seen.insert(path, SeenFolder { modified, since, is_settled });
        }
    }
}

fn modified(path: &Path) -> Option<SystemTime> {
    std::fs::metadata(path).ok()?.modified().ok()
}

/// A walk in progress.
struct Walk<'a> {
    namespaces: &'a [String],
    /// Folders with the times of their changes, read before the folders were read.
    folders: BTreeMap<PathBuf, Option<SystemTime>>,
    walked: Walked,
}

impl Walk<'_> {
    fn note(&mut self, path: &Path, error: &io::Error) {
        self.walked.unreadable.insert(path.display().to_string(), reason(error));
    }

    /// Reads a configured path.
    fn root(&mut self, path: &Path) -> io::Result<()> {
        if std::fs::metadata(path)?.is_file() {
            let folder = path.parent().unwrap_or(path);
            let place = Arc::new(place(folder, folder.parent().unwrap_or(folder)));
            self.folders.insert(folder.to_owned(), modified(folder));
            self.file(path.to_owned(), &place);
            return Ok(());
        }
        let of_itself = place(path, path.parent().unwrap_or(path));
        let subfolders = self.folder(path, of_itself)?;
        for subfolder in subfolders.into_iter().take(FOLDERS_MAX) {
            let of_subfolder = place(&subfolder, path);
            match self.folder(&subfolder, of_subfolder) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    self.note(&subfolder, &error);
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Reads a folder, and returns its subfolders that belong to machines.
    fn folder(&mut self, folder: &Path, place: Place) -> io::Result<Vec<PathBuf>> {
        self.folders.insert(folder.to_owned(), modified(folder));
        let place = Arc::new(place);
        let mut subfolders = Vec::new();
        let mut files = Vec::new();
        for entry in std::fs::read_dir(folder)? {
            let path = entry?.path();
            let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            if is_journal(&path) {
                files.push(path);
            } else if is_machine(name, self.namespaces) && path.is_dir() {
                subfolders.push(path);
            }
        }
        files.sort_unstable();
        files.into_iter().for_each(|path| self.file(path, &place));
        subfolders.sort_unstable();
        Ok(subfolders)
    }

    fn file(&mut self, path: PathBuf, place: &Arc<Place>) {
        match std::fs::metadata(&path) {
            Ok(metadata) if metadata.is_file() => {
                let key = FileKey::of(&metadata);
                self.walked.found.push(FoundFile { path, key, place: place.clone() });
            }
            Ok(_) => {}
            // A rotation renamed the file meanwhile, and the next walk finds it.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => self.note(&path, &error),
        }
    }
}

/// Returns the reason why a path cannot be read, with advice.
pub fn reason(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::PermissionDenied => format!("{error}; {ADVICE}"),
        _ => error.to_string(),
    }
}

/// Returns the place of a folder in a folder of the journal.
fn place(folder: &Path, root: &Path) -> Place {
    let name = folder.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let journal = if machine(name).is_some() { name.to_owned() } else { String::new() };
    let root = if journal.is_empty() { folder } else { root };
    Place { folder: folder.to_owned(), journal, is_volatile: root.ends_with(VOLATILE) }
}

/// Splits the name of a machine's folder into the id of the machine and the namespace.
fn machine(name: &str) -> Option<(&str, &str)> {
    let (id, namespace) = name.split_once('.').unwrap_or((name, "default"));
    let is_id = id.len() == 32 && id.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_id.then_some((id, namespace))
}

fn is_machine(name: &str, namespaces: &[String]) -> bool {
    machine(name).is_some_and(|(_, namespace)| {
        namespaces.iter().any(|wanted| wanted == "*" || wanted == namespace)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    const MACHINE: &str = "0123456789abcdef0123456789abcdef";

    fn walk(root: &Path, namespaces: &[&str]) -> Vec<String> {
        let namespaces: Vec<String> = namespaces.iter().map(|name| (*name).to_owned()).collect();
        let walked = Folders::default().walk(&[root.to_owned()], &namespaces, EngineTime::ZERO);
        let name = |found: &FoundFile| {
            let path = found.path.strip_prefix(root).unwrap().display().to_string();
            path.replace(MACHINE, "M")
        };
        walked.found.iter().map(name).collect()
    }

    #[test]
    fn journals_are_found_by_namespace() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        for name in ["", ".web", "x"] {
            let folder = root.join(format!("{MACHINE}{name}"));
            fs::create_dir(&folder).unwrap();
            for name in ["system.journal", "user-7@a-1-2.journal", "system@3.journal~", "other"] {
                fs::write(folder.join(name), "").unwrap();
            }
        }
        fs::write(root.join("a.journal"), "").unwrap();
        let all = ["system.journal", "system@3.journal~", "user-7@a-1-2.journal"];
        let of = |folder: &str| all.map(|name| format!("{folder}/{name}")).to_vec();
        let own = vec!["a.journal".to_owned()];
        assert_eq!(walk(root, &["default"]), [own.clone(), of("M")].concat());
        assert_eq!(walk(root, &["web"]), [own.clone(), of("M.web")].concat());
        assert_eq!(walk(root, &["*"]), [own, of("M"), of("M.web")].concat());
        let file = root.join(MACHINE).join("system.journal");
        assert_eq!(walk(&file, &["default"]), [""], "the file itself");
    }

    #[test]
    fn a_folder_is_read_again_after_a_change() {
        let folder = tempfile::tempdir().unwrap();
        let (paths, namespaces) = ([folder.path().to_owned()], ["default".to_owned()]);
        let mut folders = Folders::default();
        let at = |ms: u64| EngineTime::ZERO + Duration::from_millis(ms);
        assert!(folders.may_have_changed(at(0)));
        folders.walk(&paths, &namespaces, at(0));
        assert!(folders.may_have_changed(at(10)), "a change in the same tick is not visible");
        folders.walk(&paths, &namespaces, at(60));
        assert!(!folders.may_have_changed(at(100)));
        std::thread::sleep(Duration::from_millis(20));
        fs::write(folder.path().join("a.journal"), "").unwrap();
        assert!(folders.may_have_changed(at(200)));
        folders.walk(&paths, &namespaces, at(200));
        folders.walk(&paths, &namespaces, at(300));
        assert!(!folders.may_have_changed(at(400)) && folders.may_have_changed(at(40_000)));
    }

    #[test]
    fn a_missing_journal_is_reported() {
        let folder = tempfile::tempdir().unwrap();
        let (here, gone) = (folder.path().to_owned(), folder.path().join("gone"));
        let walk = || {
            let paths = [here.clone(), gone.clone()];
            Folders::default().walk(&paths, &["default".to_owned()], EngineTime::ZERO).unreadable
        };
        let reasons = walk();
        assert!(reasons.values().all(|reason| reason.starts_with("no file")), "{reasons:?}");
        assert_eq!(reasons.len(), 2);
        fs::write(here.join("a.journal"), "").unwrap();
        assert_eq!(walk(), BTreeMap::new(), "one of the folders is enough");
        let denied = io::Error::from(io::ErrorKind::PermissionDenied);
        assert!(reason(&denied).contains("usermod -aG systemd-journal"));
    }

    #[test]
    fn the_journal_in_memory_has_the_name_of_the_journal_on_disk() {
        let memory = Path::new("/host/run/log/journal");
        let disk = Path::new("/host/var/log/journal");
        let [memory, disk] = [memory, disk].map(|root| place(&root.join(MACHINE), root));
        assert!(memory.is_volatile && !disk.is_volatile && memory.journal == disk.journal);
    }
}
