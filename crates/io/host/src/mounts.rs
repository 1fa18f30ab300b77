//! The mounted file systems.

use crate::filter::Filter;
use crate::reading::Readings;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The file systems to collect.
#[derive(Clone, Debug)]
pub struct Filesystems {
    /// Filter for the types of file systems, such as `ext4`.
    pub types: Filter,
    /// Filter for the mount points, as the host sees them.
    pub mountpoints: Filter,
    /// Timeout for querying the usage of one file system.
    pub timeout: Duration,
}

/// A mounted file system.
#[derive(Clone, Debug, PartialEq)]
pub struct Mount {
    /// Device number (`major:minor`), shared by all mounts of a file system.
    number: Vec<u8>,
    /// The folder of the file system that is mounted; `/` if the whole file system is mounted.
    folder: Vec<u8>,
    /// Mount point.
    pub point: PathBuf,
    /// Type of the file system.
    pub kind: String,
    /// Mount source, such as a device.
    pub device: String,
    /// Whether the mount or its file system is read-only.
    pub is_read_only: bool,
}

/// Returns the configured file systems without duplicates, sorted by mount point.
pub fn read(proc: &Path, wanted: &Filesystems, out: &mut Readings) -> Vec<Mount> {
    // If the host's `/proc` is mounted into a container, process 1 shows the host's mounts. If its
    // file is unreadable, the agent's own mounts are read.
    let paths = ["1", "self"].map(|process| proc.join(process).join("mountinfo"));
    let Some((path, bytes)) = out.read_first(paths) else { return Vec::new() };
    let lines = bytes.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    let mounts: Vec<Option<Mount>> = lines.map(parse).collect();
    if mounts.is_empty() || mounts.contains(&None) {
        out.malformed(&path);
    }
    choose(mounts.into_iter().flatten(), wanted)
}

/// Chooses one mount per file system. If several mounts have the same point, the last of them hides
/// the others. If several mounts have the same file system, the mount with the shortest folder path
/// wins, then the mount with the shortest mount point.
fn choose(mounts: impl Iterator<Item = Mount>, wanted: &Filesystems) -> Vec<Mount> {
    let visible: BTreeMap<PathBuf, Mount> =
        mounts.map(|mount| (mount.point.clone(), mount)).collect();
    let allowed = visible.into_values().filter(|mount| {
        wanted.types.allows(&mount.kind)
            && wanted.mountpoints.allows(&mount.point.to_string_lossy())
    });
    let mut chosen: BTreeMap<Vec<u8>, Mount> = BTreeMap::new();
    for mount in allowed {
        let rank = |mount: &Mount| (mount.folder.len(), mount.point.as_os_str().len());
        let kept = chosen.entry(mount.number.clone()).or_insert_with(|| mount.clone());
        if rank(&mount) < rank(kept) {
            *kept = mount;
        }
    }
    let mut chosen: Vec<Mount> = chosen.into_values().collect();
    chosen.sort_by(|a, b| a.point.cmp(&b.point));
    chosen
}

/// Parses a line in `mountinfo`: `id parent major:minor folder point options [optional…] - type
/// device options`. The first options belong to the mount, and the last to the file system.
fn parse(line: &[u8]) -> Option<Mount> {
    let mut words = line.split(|byte| *byte == b' ');
    let mut next = || words.next();
    let (_id, _parent, number, folder, point) = (next()?, next()?, next()?, next()?, next()?);
    let mount_options = next()?;
    words.find(|word| *word == b"-")?;
    let (kind, device) = (words.next()?, words.next()?);
    let is_read_only = has_option(mount_options, b"ro") || words.any(|all| has_option(all, b"ro"));
    let text = |word| String::from_utf8_lossy(&unescape(word)).into_owned();
    let point = PathBuf::from(OsString::from_vec(unescape(point)));
    let is_valid = point.is_absolute() && !kind.is_empty() && number.contains(&b':');
    let (number, folder) = (number.to_vec(), folder.to_vec());
    is_valid.then(|| Mount {
        number,
        folder,
        point,
        kind: text(kind),
        device: text(device),
        is_read_only,
    })
}

/// Returns whether a list of options, separated by commas, contains an option.
fn has_option(options: &[u8], wanted: &[u8]) -> bool {
    options.split(|byte| *byte == b',').any(|option| option == wanted)
}

/// Decodes each `\` with three octal digits, which the kernel writes for whitespace and `\`.
fn unescape(word: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(word.len());
    let mut rest = word;
    while let [first, tail @ ..] = rest {
        match rest {
            [b'\\', a @ b'0'..=b'3', b @ b'0'..=b'7', c @ b'0'..=b'7', tail @ ..] => {
                out.push((a - b'0') << 6 | (b - b'0') << 3 | (c - b'0'));
                rest = tail;
            }
            _ => {
                out.push(*first);
                rest = tail;
            }
        }
    }
    out
}

impl Mount {
    /// Returns the path at which the mount point is found if the host's root is mounted at `root`.
    pub fn below(&self, root: &Path) -> PathBuf {
        let bytes = self.point.as_os_str().as_bytes();
        let relative = bytes.strip_prefix(b"/").unwrap_or(bytes);
        match relative.is_empty() {
            true => root.to_owned(),
            false => root.join(std::ffi::OsStr::from_bytes(relative)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn without(kinds: &[&str]) -> Filesystems {
        let kinds: Vec<String> = kinds.iter().map(|kind| (*kind).to_owned()).collect();
        let all = Filter::new(&[], &[]).unwrap();
        Filesystems {
            types: Filter::new(&[], &kinds).unwrap(),
            mountpoints: all,
            timeout: Duration::ZERO,
        }
    }

    #[test]
    fn optional_fields_and_escapes_are_parsed() {
        let line =
            b"36 35 98:0 /mnt1 /a\\040b\\134c rw shared:1 master:2 - ext4 /dev/x\\011y rw,errors=continue";
        let mount = parse(line).unwrap();
        assert_eq!(mount.point, PathBuf::from("/a b\\c"));
        assert_eq!((mount.kind.as_str(), mount.device.as_str()), ("ext4", "/dev/x\ty"));
        assert_eq!(mount.below(Path::new("/host")), PathBuf::from("/host/a b\\c"));
        for bad in [
            "",
            "1 2 3:4 / relative rw - ext4 x rw",
            "1 2 3:4 / /a rw ext4 x rw",
            "1 2 3 / /a rw - ext4 x",
            "a - b",
        ] {
            assert_eq!(parse(bad.as_bytes()), None, "{bad}");
        }
        assert_eq!(unescape(b"\\04\\400\\"), b"\\04\\400\\");
    }

    #[test]
    fn a_mount_or_its_file_system_may_be_read_only() {
        let is_read_only = |line: &str| parse(line.as_bytes()).unwrap().is_read_only;
        assert!(is_read_only("2 1 8:2 / /a ro,relatime shared:1 - ext4 /dev/sdb rw"));
        assert!(is_read_only("2 1 8:2 / /a rw,relatime shared:1 - ext4 /dev/sdb ro,errors=x"));
        assert!(!is_read_only("2 1 8:2 / /ro rw,relatime ro - ext4 ro rw,errors=remount-ro"));
    }

    #[test]
    fn each_file_system_is_chosen_once_and_hidden_mounts_are_skipped() {
        let lines = [
            "1 0 8:1 / / rw - ext4 /dev/sda1 rw",
            "2 1 8:1 /var/data /data rw - ext4 /dev/sda1 rw",
            "3 1 8:2 /sub /srv rw - ext4 /dev/sdb rw",
            "4 1 8:2 / /srv/everything rw - ext4 /dev/sdb rw",
            "5 1 8:2 / /all rw - ext4 /dev/sdb rw",
            "6 1 8:3 / /over rw - ext4 /dev/sdc rw",
            "7 6 8:4 / /over rw - xfs /dev/sdd rw",
            "8 1 0:9 / /proc rw - proc proc rw",
        ];
        let chosen =
            choose(lines.iter().map(|line| parse(line.as_bytes()).unwrap()), &without(&["proc"]));
        let shown = |mount: &Mount| format!("{} {}", mount.point.display(), mount.device);
        let shown: Vec<String> = chosen.iter().map(shown).collect();
        assert_eq!(shown, ["/ /dev/sda1", "/all /dev/sdb", "/over /dev/sdd"]);
    }
}
