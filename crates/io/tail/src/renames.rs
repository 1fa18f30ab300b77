//! Follows renames that inotify reports, to find files that were renamed before they were opened.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

/// Returns the current paths of files that once had a name that `matches`, given the renames
/// (from, to) in order.
pub fn follow_renames(
    moved: Vec<(PathBuf, PathBuf)>,
    matches: impl Fn(&Path) -> bool,
) -> HashSet<PathBuf> {
    let mut paths = HashSet::new();
    for (from, to) in moved {
        if paths.remove(&from) || matches(&from) {
            paths.insert(to);
        } else {
            // The rename replaced the file at this path.
            paths.remove(&to);
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
            let moved = moved.iter().map(|(from, to)| (from.into(), to.into())).collect();
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
}
