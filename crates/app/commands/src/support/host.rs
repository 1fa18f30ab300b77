//! Facts about the host that help to understand an agent's behavior.

use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

/// Relevant lines of `/proc/meminfo`.
const MEMORY: &[&str] = &["MemTotal", "MemAvailable", "SwapTotal", "SwapFree", "Dirty"];

/// Files of a control group with its limits, and with the number of times they were reached.
const CGROUP: &[&str] = &[
    "cpu.max",
    "cpu.stat",
    "memory.max",
    "memory.high",
    "memory.current",
    "memory.events",
    "pids.max",
    "io.max",
];

/// Returns the facts as text: about the host, the disk of a data folder, and an agent's process.
pub fn facts(data_dir: Option<&Path>, pid: Option<i32>) -> String {
    let mut out = String::new();
    let name = rustix::system::uname();
    let (kernel, version) = (name.release().to_string_lossy(), name.version().to_string_lossy());
    let _ = writeln!(out, "kernel: {kernel} {version} {}", name.machine().to_string_lossy());
    line(&mut out, "system", Path::new("/etc/os-release"), "PRETTY_NAME=");
    line(&mut out, "processor", Path::new("/proc/cpuinfo"), "model name");
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    let _ = writeln!(out, "usable cores: {cores}");
    for name in MEMORY {
        line(&mut out, name, Path::new("/proc/meminfo"), &format!("{name}:"));
    }
    line(&mut out, "load", Path::new("/proc/loadavg"), "");
    data_dir.into_iter().for_each(|data_dir| disk(&mut out, data_dir));
    if let Some(pid) = pid {
        process(&mut out, &PathBuf::from(format!("/proc/{pid}")));
    }
    out
}

/// Adds the first line that starts with `start`, without this prefix.
fn line(out: &mut String, name: &str, path: &Path, start: &str) {
    let text = fs::read_to_string(path).unwrap_or_default();
    if let Some(rest) = text.lines().find_map(|line| line.strip_prefix(start)) {
        let _ = writeln!(out, "{name}: {}", rest.trim_matches([' ', '\t', ':', '"']));
    }
}

fn disk(out: &mut String, data_dir: &Path) {
    let shown = data_dir.display();
    match rustix::fs::statvfs(data_dir) {
        Ok(space) => {
            let size = space.f_blocks * space.f_frsize;
            let free = space.f_bavail * space.f_frsize;
            let inodes = space.f_favail;
            let _ = writeln!(
                out,
                "disk of data_dir {shown}: {free} of {size} bytes and {inodes} inodes free"
            );
        }
        Err(error) => _ = writeln!(out, "disk of data_dir {shown}: {error}"),
    }
}

fn process(out: &mut String, folder: &Path) {
    for file in ["cgroup", "limits", "status"] {
        let text = fs::read_to_string(folder.join(file)).unwrap_or_default();
        let _ = writeln!(out, "\n{}/{file}:\n{}", folder.display(), text.trim_end());
    }
    let group = fs::read_to_string(folder.join("cgroup")).unwrap_or_default();
    let Some(path) = group.lines().find_map(|line| line.strip_prefix("0::/")) else { return };
    for file in CGROUP {
        let path = Path::new("/sys/fs/cgroup").join(path).join(file);
        if let Ok(text) = fs::read_to_string(&path) {
            let _ = writeln!(out, "\n{}:\n{}", path.display(), text.trim_end());
        }
    }
}
