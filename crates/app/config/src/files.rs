//! Finds and reads the configuration files.

use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::fault::{Fault, Place};

/// Default paths of the configuration, in order of precedence.
pub const DEFAULT_FILES: [&str; 2] = ["millstream.yaml", "/etc/millstream/millstream.yaml"];

/// Maximum size of a configuration file in bytes.
const FILE_BYTES_MAX: u64 = 4 << 20;

/// A configuration file.
pub struct Source {
    pub name: Arc<str>,
    pub text: String,
}

/// Reads every file in `paths`, including the files in folders. Without paths, reads the default
/// file.
pub fn read_all(paths: &[PathBuf], faults: &mut Vec<Fault>) -> Vec<Source> {
    let files =
        if paths.is_empty() { default_file(&DEFAULT_FILES, faults) } else { list(paths, faults) };
    files.iter().filter_map(|path| read(path).map_err(|fault| faults.push(fault)).ok()).collect()
}

/// A fingerprint that changes with the files: their paths and their metadata.
pub type Fingerprint = Vec<(PathBuf, Option<[i64; 6]>)>;

/// Returns the fingerprint of the files in `paths`.
pub fn fingerprint(paths: &[PathBuf]) -> Fingerprint {
    let mut faults = Vec::new();
    let files = if paths.is_empty() {
        default_file(&DEFAULT_FILES, &mut faults)
    } else {
        list(paths, &mut faults)
    };
    fingerprint_of(files)
}

/// Returns the fingerprint of files.
pub fn fingerprint_of(files: Vec<PathBuf>) -> Fingerprint {
    let with_attributes = |path: PathBuf| {
        let attributes = attributes(&path);
        (path, attributes)
    };
    files.into_iter().map(with_attributes).collect()
}

fn attributes(path: &Path) -> Option<[i64; 6]> {
    let stat = fs::metadata(path).ok()?;
    let times = [stat.mtime(), stat.mtime_nsec(), stat.ctime(), stat.ctime_nsec()];
    Some([times[0], times[1], times[2], times[3], stat.ino() as i64, stat.size() as i64])
}

fn default_file(candidates: &[&str], faults: &mut Vec<Fault>) -> Vec<PathBuf> {
    if let Some(found) = candidates.iter().find(|path| Path::new(path).exists()) {
        return vec![PathBuf::from(found)];
    }
    let what = format!("no configuration: neither {} exists", candidates.join(" nor "));
    faults.push(Fault::anywhere(what, "create one of them, or pass another file with -c FILE"));
    Vec::new()
}

/// Returns the files in `paths`, in order and without duplicates.
fn list(paths: &[PathBuf], faults: &mut Vec<Fault>) -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> = Vec::new();
    let mut known = std::collections::HashSet::new();
    for path in paths {
        let found = if path.is_dir() { list_folder(path) } else { Ok(vec![path.clone()]) };
        match found {
            Ok(found) => {
                // A file is listed once, even if its path is spelled differently.
                let fresh = |file: &PathBuf| {
                    known.insert(file.canonicalize().unwrap_or_else(|_| file.clone()))
                };
                files.extend(found.into_iter().filter(fresh));
            }
            Err(fault) => faults.push(fault),
        }
    }
    files
}

/// Returns the `*.yaml` and `*.yml` files of a folder, sorted by name, without dot files and
/// subfolders.
fn list_folder(folder: &Path) -> Result<Vec<PathBuf>, Fault> {
    let unreadable = |error: io::Error| {
        Fault::anywhere(
            format!("cannot read the folder {}: {error}", folder.display()),
            "check the path and its permissions",
        )
    };
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).map_err(unreadable)? {
        let path = entry.map_err(unreadable)?.path();
        let hidden = path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"."));
        let yaml =
            path.extension().is_some_and(|extension| extension == "yaml" || extension == "yml");
        if yaml && !hidden && !path.is_dir() {
            files.push(path);
        }
    }
    files.sort();
    if files.is_empty() {
        let what = format!("the folder {} contains no *.yaml or *.yml file", folder.display());
        return Err(Fault::anywhere(what, "add a configuration file, or pass another folder"));
    }
    Ok(files)
}

/// Contents of pipes, by device and inode number. A program reads its configuration several times,
/// for the secrets and for each check, but a pipe returns its content only once.
static PIPES: Mutex<BTreeMap<(u64, u64), Vec<u8>>> = Mutex::new(BTreeMap::new());

/// Returns the content of a file, or its first bytes if the file is too large.
fn content(path: &Path) -> io::Result<Vec<u8>> {
    let stat = fs::metadata(path)?;
    if stat.is_file() {
        return start_of(path);
    }
    let mut pipes = PIPES.lock();
    // A named pipe without a writer would block when it is opened again.
    if let Some(content) = pipes.get(&(stat.dev(), stat.ino())) {
        return Ok(content.clone());
    }
    let content = start_of(path)?;
    pipes.insert((stat.dev(), stat.ino()), content.clone());
    Ok(content)
}

fn start_of(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)?.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Reads a file.
pub fn read(path: &Path) -> Result<Source, Fault> {
    let name: Arc<str> = path.display().to_string().into();
    let bytes = content(path).map_err(|error| {
        Fault::anywhere(
            format!("cannot read {name}: {error}"),
            "check the path and its permissions",
        )
    })?;
    if bytes.len() as u64 > FILE_BYTES_MAX {
        return Err(Fault::anywhere(
            format!("{name} is larger than 4MiB"),
            "split it into several files",
        ));
    }
    match String::from_utf8(bytes) {
        Ok(text) => Ok(Source { name, text }),
        Err(error) => {
            let place = place_after(name, &error.as_bytes()[..error.utf8_error().valid_up_to()]);
            Err(Fault::new(&place, "not UTF-8", "save the file as UTF-8"))
        }
    }
}

/// Returns the position after `bytes`, which are valid UTF-8.
fn place_after(file: Arc<str>, bytes: &[u8]) -> Place {
    let text = String::from_utf8_lossy(bytes);
    let last = text.rsplit('\n').next().unwrap_or_default();
    Place { file, line: text.matches('\n').count() + 1, column: last.chars().count() + 1 }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A folder yields its YAML files by name, without hidden files, other types and subfolders.
    #[test]
    fn folders() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["b.yaml", "a.yml", ".hidden.yaml", "notes.txt"] {
            fs::write(folder.path().join(name), name).unwrap();
        }
        fs::create_dir(folder.path().join("deep.yaml")).unwrap();
        let mut faults = Vec::new();
        let again = folder.path().join("./b.yaml");
        let sources = read_all(&[folder.path().into(), again], &mut faults);
        assert_eq!(faults, []);
        assert_eq!(
            sources.iter().map(|source| source.text.as_str()).collect::<Vec<_>>(),
            ["a.yml", "b.yaml"]
        );
    }

    /// A missing file, an empty folder, a file in another encoding and a missing default are
    /// reported.
    #[test]
    fn faults() {
        let folder = tempfile::tempdir().unwrap();
        let empty = folder.path().join("empty");
        fs::create_dir(&empty).unwrap();
        let latin = folder.path().join("latin.yaml");
        fs::write(&latin, b"a: 1\nb: \xe9\n").unwrap();
        let missing = folder.path().join("missing.yaml");
        let mut faults = Vec::new();
        assert!(read_all(&[empty.clone(), latin.clone(), missing.clone()], &mut faults).is_empty());
        default_file(&["/nonexistent/a.yaml", "/nonexistent/b.yaml"], &mut faults);
        assert_eq!(
            faults.iter().map(Fault::to_string).collect::<Vec<_>>(),
            [
                format!(
                    "the folder {} contains no *.yaml or *.yml file; add a configuration file, or \
                     pass another folder",
                    empty.display()
                ),
                format!("{}:2:4: not UTF-8; save the file as UTF-8", latin.display()),
                format!(
                    "cannot read {}: No such file or directory (os error 2); check the path and \
                     its permissions",
                    missing.display()
                ),
                "no configuration: neither /nonexistent/a.yaml nor /nonexistent/b.yaml exists; \
                 create one of them, or pass another file with -c FILE"
                    .into(),
            ]
        );
    }
}
