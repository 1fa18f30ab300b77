//! The memory limit that control groups impose on this process.

use crate::files;
use std::path::{Component, Path, PathBuf};

/// This value and higher values mean no limit, because cgroup v1 reports about 2^63 for an
/// unlimited group.
const NO_LIMIT_FROM: u64 = 1 << 60;

/// Returns this process's memory limit in bytes: the lowest limit of its control group and that
/// group's ancestors, in cgroup v2 or v1. `None` if there is no limit, or no limit can be read.
pub fn memory_allowance(proc: &Path, sys: &Path) -> Option<u64> {
    let text = files::text(&proc.join("self/cgroup")).ok()?;
    text.lines().flat_map(|line| limit_files(line, sys)).filter_map(|file| limit(&file)).min()
}

/// Returns the limit files for a line in `/proc/self/cgroup`. The line has the form
/// `number:controllers:path`, with no controllers for cgroup v2. In a container, the path might be
/// a path on the host, where only its root is visible.
fn limit_files(line: &str, sys: &Path) -> Vec<PathBuf> {
    let mut parts = line.splitn(3, ':').skip(1);
    let (Some(controllers), Some(path)) = (parts.next(), parts.next()) else { return Vec::new() };
    let root = sys.join("fs/cgroup");
    let (roots, file) = match controllers {
        "" => (vec![root.clone(), root.join("unified")], "memory.max"),
        _ if controllers.split(',').any(|name| name == "memory") => {
            (vec![root.join("memory")], "memory.limit_in_bytes")
        }
        _ => return Vec::new(),
    };
    let is_inside_root =
        |group: &&Path| !group.components().any(|part| part == Component::ParentDir);
    let groups: Vec<&Path> = Path::new(path).ancestors().filter(is_inside_root).collect();
    let below = |group: &Path| group.strip_prefix("/").unwrap_or(group).to_path_buf();
    roots
        .iter()
        .flat_map(|root| groups.iter().map(|group| root.join(below(group)).join(file)))
        .collect()
}

fn limit(file: &Path) -> Option<u64> {
    let bytes = files::text(file).ok()?.trim_ascii().parse().ok()?;
    (bytes < NO_LIMIT_FROM).then_some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    /// Returns the limit of a process whose `/proc/self/cgroup` contains `own`, given the files
    /// below `/sys/fs/cgroup`.
    fn allowance(own: &str, limits: &[(&str, &str)]) -> Option<u64> {
        let dir = tempfile::tempdir().unwrap();
        let (proc, sys) = (dir.path().join("proc"), dir.path().join("sys"));
        fs::create_dir_all(proc.join("self")).unwrap();
        fs::write(proc.join("self/cgroup"), own).unwrap();
        for (file, text) in limits {
            let file = sys.join("fs/cgroup").join(file);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, text).unwrap();
        }
        memory_allowance(&proc, &sys)
    }

    #[test]
    fn the_lowest_limit_of_a_group_and_its_ancestors_applies() {
        let own = "0::/system.slice/agent.service\n";
        let service = "system.slice/agent.service/memory.max";
        let slice = "system.slice/memory.max";
        assert_eq!(allowance(own, &[(service, "268435456\n"), (slice, "max\n")]), Some(256 << 20));
        assert_eq!(allowance(own, &[(service, "max\n"), (slice, "134217728\n")]), Some(128 << 20));
        assert_eq!(allowance(own, &[(service, "max\n")]), None);
        assert_eq!(allowance("0::/\n", &[("memory.max", "64\n")]), Some(64), "in a container");
        assert_eq!(allowance("0::/../other\n", &[("memory.max", "64\n")]), Some(64));
    }

    #[test]
    fn cgroup_v1_and_hybrid_hierarchies_are_read() {
        let own = "5:cpu,cpuacct:/docker/1f\n4:hugetlb,memory:/docker/1f\n0::/\n";
        let group = "memory/docker/1f/memory.limit_in_bytes";
        let root = "memory/memory.limit_in_bytes";
        assert_eq!(
            allowance(own, &[(group, "4096\n"), (root, "9223372036854771712\n")]),
            Some(4096)
        );
        assert_eq!(allowance(own, &[(root, "9223372036854771712\n")]), None);
        assert_eq!(allowance(own, &[(root, "8192\n")]), Some(8192), "the root of a container");
        assert_eq!(allowance(own, &[("unified/memory.max", "512\n")]), Some(512));
        assert_eq!(allowance("nonsense", &[(root, "1\n")]), None);
    }
}
