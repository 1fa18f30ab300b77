//! Follows the names that inotify reports, to find files that were renamed before they were opened,
//! and to count files that were deleted before they were opened.

use crate::rotation_names::is_compressed_name;
use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};

/// Maximum number of remembered paths for files that one look has opened. If a look opens more
/// files, deleted files are not counted until the next look.
const OPENED_MAX: usize = 1000;

/// Maximum number of created files that are still remembered after a look.
const CREATED_MAX: usize = 10_000;

/// A file rename. A name has several paths if symlinks refer to its folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rename {
    /// The paths of the old name.
    pub from: Vec<PathBuf>,
    /// The paths of the new name.
    pub to: Vec<PathBuf>,
}

/// A name change in a watched folder, with every path by which the name can be reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NameChange {
    /// A file was created.
    Created(Vec<PathBuf>),
    /// A file was renamed.
    Renamed(Rename),
    /// A file was deleted.
    Deleted(Vec<PathBuf>),
}

/// The outcome of a list of name changes.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Followed {
    /// Current paths of files that were renamed and once had a matching name.
    pub renamed: HashSet<PathBuf>,
    /// The matching names of files that were both created and deleted, or replaced, by these
    /// changes.
    pub deleted: Vec<PathBuf>,
}

/// Follows the files whose names change between two looks at them.
#[derive(Default)]
pub struct NameFollower {
    created: CreatedFiles,
    /// Paths of the files that were opened at the last look; `None` if they are unknown.
    opened: Option<HashSet<PathBuf>>,
}

impl NameFollower {
    /// Follows the files that once had a name for which `matches` is true, given the changes in
    /// order.
    pub fn follow(
        &mut self,
        changes: Vec<NameChange>,
        matches: impl Fn(&Path) -> bool,
    ) -> Followed {
        let mut followed = Followed::default();
        for change in changes {
            let mut deleted = None;
            match change {
                NameChange::Created(paths) => self.created.add(paths, &matches),
                NameChange::Deleted(paths) => deleted = self.created.delete(&paths),
                NameChange::Renamed(rename) => {
                    deleted = self.created.rename(&rename, &matches);
                    follow_rename(&mut followed.renamed, rename, &matches);
                }
            }
            if let Some(name) = deleted {
                followed.deleted.push(name);
            }
        }
        // The last look may have opened a file before its creation was reported.
        let mut opened = self.opened.take();
        let is_unseen = |path: &PathBuf| opened.as_mut().is_some_and(|opened| !opened.remove(path));
        followed.deleted.retain(is_unseen);
        followed
    }

    /// Records that a look has seen all present files, and the paths of the files that it opened.
    pub fn note_look<'p>(&mut self, opened: impl ExactSizeIterator<Item = &'p Path>) {
        self.created.keep_absent();
        let is_known = opened.len() <= OPENED_MAX;
        self.opened = is_known.then(|| opened.map(Path::to_path_buf).collect());
    }
}

fn follow_rename(renamed: &mut HashSet<PathBuf>, rename: Rename, matches: impl Fn(&Path) -> bool) {
    let Rename { from, to } = rename;
    let followed = from.iter().filter(|path| renamed.remove(*path)).count();
    // The rename replaces a file at the new name.
    for path in &to {
        renamed.remove(path);
    }
    if followed > 0 || from.iter().any(|path| matches(path)) {
        renamed.extend(to);
    }
}

/// Files that were created since the last look, by their current name.
#[derive(Default)]
struct CreatedFiles {
    /// The first matching name of each file, if there was one, by current path. If the current name
    /// has several paths, the smallest one is the key.
    files: HashMap<PathBuf, Option<PathBuf>>,
}

impl CreatedFiles {
    fn add(&mut self, paths: Vec<PathBuf>, matches: impl Fn(&Path) -> bool) {
        let matching = paths.iter().find(|path| matches(path)).cloned();
        self.files.extend(paths.into_iter().min().map(|key| (key, matching)));
    }

    /// Records a rename. Returns the matching name of the file that it replaces.
    fn rename(&mut self, rename: &Rename, matches: impl Fn(&Path) -> bool) -> Option<PathBuf> {
        let replaced = rename.to.iter().min().and_then(|key| self.files.remove(key)).flatten();
        let moved = rename.from.iter().min().and_then(|key| self.files.remove(key));
        if let (Some(matching), Some(key)) = (moved, rename.to.iter().min()) {
            let name = || rename.to.iter().find(|path| matches(path)).cloned();
            self.files.insert(key.clone(), matching.or_else(name));
        }
        replaced
    }

    /// Forgets the files that are present. The files that remain have been deleted or renamed, but
    /// this has not been reported yet.
    fn keep_absent(&mut self) {
        self.files.retain(|path, _| path.symlink_metadata().is_err());
        if self.files.len() > CREATED_MAX {
            self.files.clear();
        }
    }

    /// Forgets a deleted file. Returns its matching name, if it had one, unless the file was
    /// compressed.
    fn delete(&mut self, paths: &[PathBuf]) -> Option<PathBuf> {
        let key = paths.iter().min()?;
        let matching = self.files.remove(key)??;
        let is_compressed = self.files.keys().any(|other| is_compressed_form(other, key));
        (!is_compressed).then_some(matching)
    }
}

/// Returns whether a path is another path plus the extension of a compressed file.
fn is_compressed_form(path: &Path, original: &Path) -> bool {
    let bytes = path.as_os_str().as_encoded_bytes();
    is_compressed_name(path) && bytes.starts_with(original.as_os_str().as_encoded_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_followed_from_its_matching_name() {
        let matches = |path: &Path| ["/in/app.log", "/in/a.txt"].iter().any(|p| path == *p);
        let follow_renames = |moved: &[(&str, &str)]| {
            let moved = moved.iter().map(|(from, to)| rename(from, to)).collect();
            let paths = NameFollower::default().follow(moved, matches).renamed;
            let mut paths: Vec<String> =
                paths.iter().map(|path| path.display().to_string()).collect();
            paths.sort();
            paths
        };
        let rotation = ("/in/app.log", "/in/app.log.1");
        assert_eq!(follow_renames(&[rotation]), ["/in/app.log.1"]);
        let second = [rotation, ("/in/app.log.1", "/in/app.log.2"), rotation];
        assert_eq!(follow_renames(&second), ["/in/app.log.1", "/in/app.log.2"]);
        assert_eq!(
            follow_renames(&[rotation, rotation]),
            ["/in/app.log.1"],
            "the first one was replaced"
        );
        assert_eq!(follow_renames(&[("/in/app.log.1", "/in/app.log.2")]), [""; 0]);
        assert_eq!(
            follow_renames(&[rotation, ("/other", "/in/app.log.1")]),
            [""; 0],
            "replaced by another"
        );
        assert_eq!(
            follow_renames(&[("/in/a.txt", "/b"), ("/in/no.txt", "/c"), ("/b", "/d")]),
            ["/d"]
        );
    }

    #[test]
    fn one_of_several_paths_of_a_name_is_enough() {
        let paths =
            |name: &str| ["/in", "/data"].map(|folder| Path::new(folder).join(name)).to_vec();
        let rename =
            |from: &str, to: &str| NameChange::Renamed(Rename { from: paths(from), to: paths(to) });
        let moved = vec![rename("app.log", "app.log.1"), rename("app.log.1", "app.log.2")];
        let matches = |path: &Path| path == "/data/app.log";
        let mut names = NameFollower::default();
        let found = names.follow(moved, matches);
        assert_eq!(found.renamed, paths("app.log.2").into_iter().collect());
        let changes = vec![
            NameChange::Created(paths("app.log")),
            rename("app.log", "app.log.1"),
            NameChange::Deleted(paths("app.log.1").into_iter().rev().collect()),
        ];
        names.note_look([].into_iter());
        assert_eq!(names.follow(changes, matches).deleted, [Path::new("/data/app.log")]);
    }

    fn rename(from: &str, to: &str) -> NameChange {
        NameChange::Renamed(Rename { from: vec![from.into()], to: vec![to.into()] })
    }

    #[test]
    fn files_that_were_created_and_deleted_are_counted() {
        let created = |name: &str| NameChange::Created(vec![name.into()]);
        let deleted = |name: &str| NameChange::Deleted(vec![name.into()]);
        let count = |changes: Vec<NameChange>| {
            let mut names = NameFollower::default();
            names.note_look([].into_iter());
            names.follow(changes, |path| path == "/app.log").deleted.len()
        };
        assert_eq!(count(vec![created("/app.log"), deleted("/app.log")]), 1);
        assert_eq!(count(vec![deleted("/app.log"), created("/app.log")]), 0, "another file");
        assert_eq!(count(vec![created("/other"), deleted("/other")]), 0);
        let late = vec![created("/tmp"), rename("/tmp", "/app.log"), deleted("/app.log")];
        assert_eq!(count(late), 1);
        let rotated = || vec![created("/app.log"), rename("/app.log", "/app.log.1")];
        assert_eq!(count(rotated()), 0);
        assert_eq!(count([rotated(), vec![deleted("/app.log.1")]].concat()), 1);
        assert_eq!(count([rotated(), rotated()].concat()), 1, "the first one was replaced");
        let compressed = [rotated(), vec![created("/app.log.1.gz"), deleted("/app.log.1")]];
        assert_eq!(count(compressed.concat()), 0);
    }

    /// The look happens either between the creation and the deletion, or between the creation and
    /// its report.
    #[test]
    fn a_file_that_a_look_has_opened_is_not_counted_and_one_that_it_missed_is() {
        let created = || vec![NameChange::Created(vec!["/app.log".into()])];
        let deleted = || vec![NameChange::Deleted(vec!["/app.log".into()])];
        let matches = |path: &Path| path == "/app.log";
        for was_opened in [false, true] {
            let opened: &[&Path] = if was_opened { &[Path::new("/app.log")] } else { &[] };
            let mut names = NameFollower::default();
            assert_eq!(names.follow(created(), matches).deleted.len(), 0);
            names.note_look(opened.iter().copied());
            let count = usize::from(!was_opened);
            assert_eq!(names.follow(deleted(), matches).deleted.len(), count);
            names.note_look(opened.iter().copied());
            let both = [created(), deleted(), created(), deleted()].concat();
            assert_eq!(names.follow(both, matches).deleted.len(), count + 1);
        }
    }
}
