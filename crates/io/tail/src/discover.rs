//! Finds files that match patterns, and the folders in which new matches may appear.

use globset::{GlobBuilder, GlobMatcher};
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fs::FileType;
use std::io;
use std::path::{Path, PathBuf};

/// Maximum depth below a `**`, so that the walk ends even if mounts form a cycle.
const DEPTH_MAX: usize = 32;

/// An absolute path with wildcards, as one matcher for each path component.
pub struct Pattern {
    text: String,
    parts: Vec<Part>,
}

enum Part {
    Name(String),
    Wild(GlobMatcher),
    AnyDepth,
}

impl Pattern {
    /// Returns the pattern as it was written.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Parses a pattern.
    ///
    /// # Errors
    /// Returns an error if the pattern is invalid; the message says what to use instead.
    pub fn new(pattern: &str) -> Result<Pattern, String> {
        let Some(rest) = pattern.strip_prefix('/') else {
            return Err(format!("{pattern:?} is not an absolute path; begin it with /"));
        };
        let parts: Result<Vec<Part>, String> =
            rest.split('/').filter(|p| !p.is_empty()).map(part).collect();
        let parts = parts?;
        match parts.last() {
            None | Some(Part::AnyDepth) => {
                Err(format!("{pattern:?} names no file; end it with /* or a file name"))
            }
            Some(_) => Ok(Pattern { text: pattern.to_owned(), parts }),
        }
    }

    /// Returns whether the pattern matches this absolute path.
    pub fn matches(&self, path: &Path) -> bool {
        let names: Vec<&OsStr> = path.iter().skip(1).collect();
        fits(&self.parts, &names)
    }
}

fn fits(parts: &[Part], names: &[&OsStr]) -> bool {
    match (parts, names) {
        ([], []) => true,
        ([Part::Name(part), parts @ ..], [name, names @ ..]) => {
            *name == part.as_str() && fits(parts, names)
        }
        ([Part::Wild(part), parts @ ..], [name, names @ ..]) => {
            part.is_match(Path::new(name)) && fits(parts, names)
        }
        ([Part::AnyDepth, rest @ ..], names) => {
            fits(rest, names) || names.split_first().is_some_and(|(_, names)| fits(parts, names))
        }
        _ => false,
    }
}

fn part(text: &str) -> Result<Part, String> {
    if text == "**" {
        return Ok(Part::AnyDepth);
    }
    if !text.contains(['*', '?', '[', '{', '\\']) {
        return Ok(Part::Name(text.to_owned()));
    }
    Ok(Part::Wild(matcher(text)?))
}

/// Compiles a pattern in which `*` does not match `/`.
pub fn matcher(pattern: &str) -> Result<GlobMatcher, String> {
    let glob = GlobBuilder::new(pattern).literal_separator(true).build();
    glob.map(|g| g.compile_matcher())
        .map_err(|error| format!("{pattern:?} is not a valid pattern: {}", error.kind()))
}

/// Checks that a pattern is valid.
pub fn check_glob(pattern: &str) -> Result<(), String> {
    matcher(pattern).map(drop)
}

/// Patterns that match the files to exclude.
pub struct Exclude {
    names: Vec<GlobMatcher>,
    paths: Vec<GlobMatcher>,
    /// Folders whose whole contents are excluded.
    folders: Vec<GlobMatcher>,
}

impl Exclude {
    /// Parses the patterns. A pattern without `/` matches only the file name.
    ///
    /// # Errors
    /// Returns an error if a pattern is invalid; the message says what to use instead.
    pub fn new<'p>(patterns: impl IntoIterator<Item = &'p str>) -> Result<Exclude, String> {
        let texts = patterns.into_iter();
        let (paths, names): (Vec<&str>, Vec<&str>) = texts.partition(|p| p.contains('/'));
        let all = |list: Vec<&str>| list.into_iter().map(matcher).collect::<Result<Vec<_>, _>>();
        let folders = paths.iter().filter_map(|pattern| pattern.strip_suffix("/**")).collect();
        Ok(Exclude { names: all(names)?, paths: all(paths)?, folders: all(folders)? })
    }

    /// Returns whether the patterns exclude every file in a folder.
    fn covers(&self, folder: &Path) -> bool {
        folder.ancestors().any(|at| self.folders.iter().any(|m| m.is_match(at)))
    }

    /// Returns whether the path is excluded.
    pub fn matches(&self, path: &Path) -> bool {
        let name = path.file_name().map(Path::new);
        name.is_some_and(|name| self.names.iter().any(|m| m.is_match(name)))
            || self.paths.iter().any(|m| m.is_match(path))
    }
}

/// The result of a walk.
#[derive(Default)]
pub struct Discovered {
    /// Paths that match.
    pub files: BTreeSet<PathBuf>,
    /// Paths that match and that are symlinks.
    pub links: BTreeSet<PathBuf>,
    /// Folders that were listed.
    pub folders: BTreeSet<PathBuf>,
    /// Folders that could not be read, with the reason, unless all their files are excluded.
    pub unreadable: BTreeMap<PathBuf, String>,
    /// Patterns without a match.
    pub missing: Vec<String>,
}

/// Returns whether the patterns match a path that is not excluded.
pub fn is_included(path: &Path, patterns: &[Pattern], exclude: &Exclude) -> bool {
    patterns.iter().any(|pattern| pattern.matches(path)) && !exclude.matches(path)
}

/// Walks the file system for `patterns`. A missing folder is not an error, because it may be
/// created later.
pub fn walk(patterns: &[Pattern], exclude: &Exclude) -> Discovered {
    let mut found = Discovered::default();
    for pattern in patterns {
        let mut files = std::mem::take(&mut found.files);
        let mut unreadable = std::mem::take(&mut found.unreadable);
        step(Path::new("/"), &pattern.parts, 0, &mut found);
        found.files.retain(|path| !exclude.matches(path));
        found.unreadable.retain(|path, _| !exclude.covers(path));
        // An unreadable folder may contain matches.
        if found.files.is_empty() && found.unreadable.is_empty() {
            found.missing.push(pattern.text.clone());
        }
        found.files.append(&mut files);
        found.unreadable.append(&mut unreadable);
    }
    found.links.retain(|path| !exclude.matches(path));
    found
}

fn step(at: &Path, parts: &[Part], depth: usize, found: &mut Discovered) {
    match parts {
        [] => {
            found.files.insert(at.to_path_buf());
        }
        [Part::Name(name), rest @ ..] => named(at, name, rest, depth, found),
        [Part::Wild(wild), rest @ ..] => {
            for Entry { path, kind } in entries(at, found) {
                let fits = path.file_name().is_some_and(|name| wild.is_match(Path::new(name)));
                if fits && kind.is_dir() != rest.is_empty() {
                    if kind.is_symlink() {
                        found.links.insert(path.clone());
                    }
                    step(&path, rest, depth, found);
                }
            }
        }
        [Part::AnyDepth, rest @ ..] => {
            step(at, rest, depth, found);
            let deeper = if depth < DEPTH_MAX { entries(at, found) } else { Vec::new() };
            for folder in deeper.into_iter().filter(|entry| entry.kind.is_dir()) {
                step(&folder.path, parts, depth + 1, found);
            }
        }
    }
}

/// Handles a component without wildcards. Its folder is watched but not listed, because the
/// component may be created later.
fn named(at: &Path, name: &str, rest: &[Part], depth: usize, found: &mut Discovered) {
    let path = at.join(name);
    if rest.is_empty() && path.is_symlink() {
        found.links.insert(path.clone());
    }
    match std::fs::metadata(&path) {
        Ok(meta) if rest.is_empty() => {
            found.folders.insert(at.to_path_buf());
            if !meta.is_dir() {
                found.files.insert(path);
            }
        }
        Ok(meta) if meta.is_dir() => step(&path, rest, depth, found),
        Ok(_) => {}
        Err(error) => {
            found.folders.insert(at.to_path_buf());
            if error.kind() != io::ErrorKind::NotFound {
                found.unreadable.insert(path, error.to_string());
            }
        }
    }
}

/// An entry of a folder.
struct Entry {
    path: PathBuf,
    /// The file type of the entry itself, without following a symlink.
    kind: FileType,
}

/// Returns the entries of a folder.
fn entries(folder: &Path, found: &mut Discovered) -> Vec<Entry> {
    found.folders.insert(folder.to_path_buf());
    let listed = std::fs::read_dir(folder).and_then(|dir| {
        dir.map(|entry| entry.and_then(|e| Ok(Entry { path: e.path(), kind: e.file_type()? })))
            .collect::<io::Result<Vec<_>>>()
    });
    listed.unwrap_or_else(|error| {
        if error.kind() != io::ErrorKind::NotFound && error.kind() != io::ErrorKind::NotADirectory {
            found.unreadable.insert(folder.to_path_buf(), error.to_string());
        }
        Vec::new()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn found(root: &Path, include: &[&str], exclude: &[&str]) -> Vec<String> {
        let patterns: Vec<Pattern> = include
            .iter()
            .map(|p| Pattern::new(&format!("{}/{p}", root.display())).unwrap())
            .collect();
        let excluded = Exclude::new(exclude.iter().copied()).unwrap();
        let found = walk(&patterns, &excluded);
        let matches =
            |path: &PathBuf| patterns.iter().any(|p| p.matches(path)) && !excluded.matches(path);
        assert!(found.files.iter().all(matches), "every path found matches");
        let others = walk(
            &[Pattern::new(&format!("{}/**/*", root.display())).unwrap()],
            &Exclude::new([]).unwrap(),
        );
        assert!(
            others.files.difference(&found.files).all(|path| !matches(path)),
            "no other path matches"
        );
        found.files.iter().map(|p| p.strip_prefix(root).unwrap().display().to_string()).collect()
    }

    #[test]
    fn patterns_match_by_name_wildcard_and_depth() {
        let root = tempfile::tempdir().unwrap();
        for file in ["a.log", "b.tmp", "x/a.log", "x/y/c.log", "x/y/d.txt"] {
            let path = root.path().join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "").unwrap();
        }
        assert_eq!(found(root.path(), &["a.log"], &[]), ["a.log"]);
        assert_eq!(found(root.path(), &["*"], &["*.tmp"]), ["a.log"]);
        assert_eq!(found(root.path(), &["*/*.log"], &[]), ["x/a.log"]);
        assert_eq!(found(root.path(), &["**/*.log"], &[]), ["a.log", "x/a.log", "x/y/c.log"]);
        assert_eq!(
            found(root.path(), &["**/*.{log,txt}"], &["**/x/a.*"]),
            ["a.log", "x/y/c.log", "x/y/d.txt"]
        );
        assert_eq!(found(root.path(), &["nothing/*.log"], &[]), Vec::<String>::new());
    }

    #[test]
    fn a_pattern_whose_folder_cannot_be_read_is_not_missing() {
        let root = tempfile::tempdir().unwrap();
        // Unlike missing permissions, a loop is an error even for root.
        std::os::unix::fs::symlink("loop", root.path().join("loop")).unwrap();
        let found = |include: &str| {
            let pattern = Pattern::new(&format!("{}/{include}", root.path().display())).unwrap();
            walk(&[pattern], &Exclude::new([]).unwrap())
        };
        for include in ["loop/a.log", "loop/*.log"] {
            let found = found(include);
            assert_eq!(found.unreadable.len(), 1, "{include}");
            assert!(found.missing.is_empty(), "{include}");
        }
        assert_eq!(found("none/*.log").missing.len(), 1);
    }

    #[test]
    fn an_excluded_folder_that_cannot_be_read_is_not_reported() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path().display().to_string();
        fs::create_dir(format!("{root}/folder")).unwrap();
        std::os::unix::fs::symlink("loop", format!("{root}/folder/loop")).unwrap();
        let unreadable = |exclude: &str| {
            let pattern = Pattern::new(&format!("{root}/folder/loop/*.log")).unwrap();
            walk(&[pattern], &Exclude::new([exclude]).unwrap()).unreadable.len()
        };
        for excluded in ["folder/loop/**", "folder/**", "*/loop/**", "**"] {
            assert_eq!(unreadable(&format!("{root}/{excluded}")), 0, "{excluded}");
        }
        for excluded in ["folder/loop", "folder/loop/*", "folder/*.log", "other/**"] {
            assert_eq!(unreadable(&format!("{root}/{excluded}")), 1, "{excluded}");
        }
        assert_eq!(unreadable("loop"), 1, "a name excludes files");
    }

    #[test]
    fn a_pattern_that_cannot_match_a_file_is_rejected() {
        for bad in ["relative/*.log", "/", "/var/**", "/var/log/[a"] {
            assert!(Pattern::new(bad).is_err(), "{bad}");
        }
    }
}
