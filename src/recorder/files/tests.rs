use super::*;
use std::os::unix::fs::PermissionsExt;

/// Bytes of a header of a run: magic, version, and whether it has ended.
fn header(version: u64, ended: bool) -> Vec<u8> {
    let mut words = [0_u64; 512];
    words[0] = u64::from_le_bytes(*b"MSRINGS\0");
    words[1] = version;
    words[14] = u64::from(ended);
    words.map(u64::to_le_bytes).concat()
}

fn names(folder: &Path) -> Vec<String> {
    let name = |entry: io::Result<fs::DirEntry>| entry.unwrap().file_name().into_string().unwrap();
    let mut names: Vec<String> = fs::read_dir(folder).unwrap().map(name).collect();
    names.sort();
    names
}

#[test]
fn two_runs_that_died_are_kept() {
    let dir = tempfile::tempdir().unwrap();
    for (name, bytes) in [
        ("run-1.rings", header(1, false)),
        ("run-2.rings", header(1, false)),
        ("run-3.rings", header(1, true)),
        ("run-4.rings", header(99, true)),
        ("run-5.rings", vec![0; 8192]),
        ("run-6.rings", vec![1; 8192]),
        ("run-7.rings", header(1, false)[..4000].to_vec()),
        ("run-8.rings.new", header(1, false)),
        ("a file of a user", Vec::new()),
    ] {
        fs::write(dir.path().join(name), bytes).unwrap();
    }
    remove(&useless(dir.path()));
    assert_eq!(names(dir.path()), ["a file of a user", "run-2.rings", "run-4.rings"]);
    assert_eq!(useless(&dir.path().join("missing")), [""; 0].map(PathBuf::from));
}

#[test]
fn a_file_is_complete_only_when_it_is_kept() {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().join(FOLDER);
    drop(NewFile::create(&folder).unwrap());
    assert_eq!(names(&folder), [""; 0]);
    let new = NewFile::create(&folder).unwrap();
    fs::write(&new.path, header(1, false)).unwrap();
    assert_eq!(list(&folder).unwrap(), [""; 0].map(PathBuf::from));
    let (path, file) = new.keep().unwrap();
    assert_eq!(list(&folder).unwrap(), std::slice::from_ref(&path));
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(&folder), mode(&path)), (0o700, 0o600));
    assert_eq!(RunFile::open(&path).unwrap().end, End::Running);
    drop(file);
    assert_eq!(RunFile::open(&path).unwrap().end, End::Died);
    fs::write(&path, header(1, true)).unwrap();
    assert_eq!(RunFile::open(&path).unwrap().end, End::Ended);
}

#[test]
fn names_sort_by_time() {
    let dir = tempfile::tempdir().unwrap();
    let make = || NewFile::create(dir.path()).unwrap().keep().unwrap().0;
    let (first, second) = (make(), make());
    assert!(first < second, "{first:?} {second:?}");
    let name = first.file_name().unwrap().to_str().unwrap();
    assert_eq!(name.len(), "run-20261126T204657.123456Z.rings".len(), "{name}");
}
