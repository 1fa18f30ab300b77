//! Symbolic links that match patterns, and the files to which they lead.
//!
//! Kubernetes links `/var/log/containers/POD.log` to a file in `/var/log/pods`, which is rotated in
//! its own folder, so no name in the link's folder changes. Therefore, the names behind a link are
//! watched as well, and rotations are named after the file at the end of the chain.

use rustix::fs::Uid;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Maximum number of links in a chain, as in the kernel.
const CHAIN_MAX: usize = 40;

/// A link to a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Link {
    /// The name that a pattern matches.
    pub path: PathBuf,
    /// The owner of the link.
    pub owner: Uid,
}

/// The links that the last walk found, with their targets.
#[derive(Default)]
pub struct Links {
    /// For each target, the link that refers to it. If there are several links, the first one by
    /// name.
    by_target: HashMap<PathBuf, Link>,
    /// All links, including the inner links of chains.
    links: HashSet<PathBuf>,
    /// Folders that contain the names behind the links.
    folders: BTreeSet<PathBuf>,
    /// Folders that contain the targets.
    target_folders: HashSet<PathBuf>,
}

impl Links {
    /// Follows links, and replaces them in `files` by their targets. A target that `is_included` by
    /// its own name needs no link.
    pub fn follow(
        links: BTreeSet<PathBuf>,
        files: &mut BTreeSet<PathBuf>,
        is_included: impl Fn(&Path) -> bool,
    ) -> Links {
        let mut followed = Links::default();
        for path in links {
            let Some((owner, mut names)) = names_behind(&path) else { continue };
            let folders = names.iter().filter_map(|name| name.parent());
            followed.folders.extend(folders.map(Path::to_path_buf));
            let Some(target) = names.pop() else { continue };
            files.remove(&path);
            files.insert(target.clone());
            followed.links.insert(path.clone());
            followed.links.extend(names);
            if !is_included(&target) {
                if let Some(folder) = target.parent() {
                    followed.target_folders.insert(folder.to_path_buf());
                }
                followed.by_target.entry(target).or_insert(Link { path, owner });
            }
        }
        followed
    }

    /// Returns whether no link refers to a file.
    pub fn is_empty(&self) -> bool {
        self.by_target.is_empty()
    }

    /// Returns the link that refers to a file.
    pub fn to(&self, target: &Path) -> Option<&Link> {
        self.by_target.get(target)
    }

    /// Returns whether a path is one of the links.
    pub fn has(&self, path: &Path) -> bool {
        self.links.contains(path)
    }

    /// Returns whether a file is in the same folder as a target, so that it may be a rotation of
    /// the target.
    pub fn is_beside_target(&self, path: &Path) -> bool {
        path.parent().is_some_and(|folder| self.target_folders.contains(folder))
    }

    /// Returns the folders of all names behind the links.
    pub fn folders(&self) -> &BTreeSet<PathBuf> {
        &self.folders
    }
}

/// Returns a link's owner, and the names behind the link up to its target, which does not need to
/// exist. Returns `None` if the path is not a link, or leads to a folder or to no valid path.
fn names_behind(link: &Path) -> Option<(Uid, Vec<PathBuf>)> {
    let owner = Uid::from_raw(std::fs::symlink_metadata(link).ok()?.uid());
    let mut names = Vec::new();
    let mut last = link.to_path_buf();
    while let Ok(to) = std::fs::read_link(&last) {
        let next = last.parent()?.join(to);
        let folder = std::fs::canonicalize(next.parent()?).ok()?;
        last = folder.join(next.file_name()?);
        if names.len() == CHAIN_MAX || last.is_dir() {
            return None;
        }
        names.push(last.clone());
    }
    (!names.is_empty()).then_some((owner, names))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::symlink;

    fn followed(root: &Path, links: &[&str], included: &str) -> (Links, Vec<String>) {
        let paths: BTreeSet<PathBuf> = links.iter().map(|link| root.join(link)).collect();
        let mut files = paths.clone();
        let links = Links::follow(paths, &mut files, |path| path.ends_with(included));
        let below = files.iter().map(|file| file.strip_prefix(root).unwrap().display().to_string());
        (links, below.collect())
    }

    #[test]
    fn links_and_chains_are_replaced_by_their_targets() {
        let dir = tempfile::tempdir().unwrap();
        let root = fs::canonicalize(dir.path()).unwrap();
        ["in", "pods", "docker"].iter().for_each(|name| fs::create_dir(root.join(name)).unwrap());
        symlink("../pods/0.log", root.join("in/a.log")).unwrap();
        symlink(root.join("docker/json.log"), root.join("pods/0.log")).unwrap();
        symlink("a.log", root.join("in/b.log")).unwrap();
        symlink("own.log", root.join("in/c.log")).unwrap();
        let names = ["in/a.log", "in/b.log", "in/c.log"];
        let (links, files) = followed(&root, &names, "own.log");
        assert_eq!(files, ["docker/json.log", "in/own.log"]);
        let target = root.join("docker/json.log");
        assert_eq!(
            links.to(&target).unwrap().path,
            root.join("in/a.log"),
            "the first of two links"
        );
        assert!(links.to(&root.join("in/own.log")).is_none(), "it has an included name");
        let folders: Vec<PathBuf> = links.folders().iter().cloned().collect();
        assert_eq!(folders, ["docker", "in", "pods"].map(|name| root.join(name)));
        let is_link = |name: &&str| links.has(&root.join(name));
        assert!(["in/a.log", "in/b.log", "pods/0.log"].iter().all(is_link));
        assert!(!["docker/json.log", "in/own.log"].iter().any(is_link));
        assert!(links.is_beside_target(&root.join("docker/json.log.1")));
        assert!(!links.is_beside_target(&root.join("pods/0.log.1")));
    }

    #[test]
    fn what_leads_to_no_file_is_left_as_it_is() {
        let dir = tempfile::tempdir().unwrap();
        let root = fs::canonicalize(dir.path()).unwrap();
        symlink("loop.log", root.join("loop.log")).unwrap();
        symlink(".", root.join("folder.log")).unwrap();
        symlink("nowhere/x.log", root.join("lost.log")).unwrap();
        fs::write(root.join("plain.log"), "").unwrap();
        let names = ["folder.log", "loop.log", "lost.log", "plain.log"];
        let (links, files) = followed(&root, &names, "own.log");
        assert_eq!(files, names);
        assert!(links.folders().is_empty() && !links.has(&root.join("loop.log")));
    }
}
