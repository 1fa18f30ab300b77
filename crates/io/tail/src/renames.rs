//! Follows renames that inotify reports, to find files that were renamed before they were opened.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

/// A rename of a file. Either name has several paths if symlinks lead to its folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rename {
    /// The paths of the old name.
    pub from: Vec<PathBuf>,
    /// The paths of the new name.
    pub to: Vec<PathBuf>,
}

/// Returns the current paths of files that once had a name that `matches`, given the renames in
/// order.
pub fn follow_renames(moved: Vec<Rename>, matches: impl Fn(&Path) -> bool) -> HashSet<PathBuf> {
    let mut paths = HashSet::new();
    for Rename { from, to } in moved {
        let followed = from.iter().filter(|path| paths.remove(*path)).count();
        // The rename replaces a file at the new name.
        to.iter().for_each(|path| _ = paths.remove(path));
        if followed > 0 || from.iter().any(|path| matches(path)) {
            paths.extend(to);
        }
    }
    paths
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_followed_from_its_matching_name() {
        let matches = |path: &Path| ["/in/app.log", "/in/a.txt"].iter().any(|p| path == *p);
        let follow_renames = |moved: &[(&str, &str)]| {
            let rename =
                |(from, to): &(&str, &str)| Rename { from: vec![from.into()], to: vec![to.into()] };
            let moved = moved.iter().map(rename).collect();
            let paths = super::follow_renames(moved, matches);
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
        let rename = |from: &str, to: &str| Rename { from: paths(from), to: paths(to) };
        let moved = vec![rename("app.log", "app.log.1"), rename("app.log.1", "app.log.2")];
        let found = follow_renames(moved, |path| path == "/data/app.log");
        assert_eq!(found, paths("app.log.2").into_iter().collect());
    }
}
