use super::*;
use std::os::unix::fs::PermissionsExt;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Returns the bytes of a run's header: magic, version, and whether the run has ended.
fn header(version: u64, ended: bool) -> Vec<u8> {
    let mut words = [0_u64; 512];
    words[0] = u64::from_le_bytes(*b"MSRINGS\0");
    words[1] = version;
    words[14] = u64::from(ended);
    words.map(u64::to_le_bytes).concat()
}

/// Returns the header of a run that was alive just now, so that no agent of a concurrent test
/// treats the file as unused.
fn recent_header() -> Vec<u8> {
    const LATEST_UNIX_NS: usize = 13;
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    let mut header = header(1, false);
    let word = (now.as_nanos() as u64).to_le_bytes();
    header[LATEST_UNIX_NS * 8..][..8].copy_from_slice(&word);
    header
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
    remove(&earlier(dir.path()).useless);
    assert_eq!(names(dir.path()), ["a file of a user", "run-2.rings", "run-4.rings"]);
    assert_eq!(earlier(&dir.path().join("missing")).useless, [""; 0].map(PathBuf::from));
}

#[test]
fn a_file_is_complete_only_when_it_is_kept() {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().join(FOLDER);
    drop(NewFile::create(&folder, RecorderStorage::Disk).unwrap());
    assert_eq!(names(&folder), [""; 0]);
    let new = NewFile::create(&folder, RecorderStorage::Disk).unwrap();
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
    let make = || NewFile::create(dir.path(), RecorderStorage::Disk).unwrap().keep().unwrap().0;
    let (first, second) = (make(), make());
    assert!(first < second, "{first:?} {second:?}");
    let name = first.file_name().unwrap().to_str().unwrap();
    assert_eq!(name.len(), "run-20261126T204657.123456Z.rings".len(), "{name}");
}

#[test]
fn a_file_in_memory_is_linked_and_becomes_a_file_once_its_run_has_died() {
    let dir = tempfile::tempdir().unwrap();
    let new = NewFile::create(dir.path(), RecorderStorage::Memory).unwrap();
    fs::write(&new.path, header(1, false)).unwrap();
    let (path, file) = new.keep().unwrap();
    let target = memory::target(&path).unwrap();
    assert_eq!(fs::metadata(&target).unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(RunFile::open(&path).unwrap().end, End::Running);
    // Another agent finds the linked file.
    memory::remove_abandoned();
    assert!(target.exists());
    drop(file);
    memory::remove_abandoned();
    assert_eq!(RunFile::open(&path).unwrap().end, End::Died);
    let content = fs::read(&target).unwrap();
    earlier(dir.path()).clean();
    assert!(!target.exists() && memory::target(&path).is_none());
    assert_eq!(fs::read(&path).unwrap(), content);
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
}

#[test]
fn a_file_in_memory_goes_with_its_link_or_its_folder() {
    let dir = tempfile::tempdir().unwrap();
    let make = || {
        let new = NewFile::create(dir.path(), RecorderStorage::Memory).unwrap();
        fs::write(&new.path, header(1, false)).unwrap();
        new
    };
    let new = make();
    let target = memory::target(&new.path).unwrap();
    drop(new);
    assert!(!target.exists());
    let (path, file) = make().keep().unwrap();
    let removed = memory::target(&path).unwrap();
    drop(file);
    remove(&[path]);
    assert!(!removed.exists());
    let (path, file) = make().keep().unwrap();
    let abandoned = memory::target(&path).unwrap();
    dir.close().unwrap();
    memory::remove_abandoned();
    assert!(abandoned.exists(), "its run holds the lock");
    drop(file);
    memory::remove_abandoned();
    assert!(!abandoned.exists());
}

#[test]
fn a_file_in_memory_moves_to_a_data_folder_that_no_agent_uses_anymore() {
    let dir = tempfile::tempdir().unwrap();
    let new = NewFile::create(dir.path(), RecorderStorage::Memory).unwrap();
    fs::write(&new.path, recent_header()).unwrap();
    let (path, file) = new.keep().unwrap();
    let target = memory::target(&path).unwrap();
    assert_eq!(memory::unused_link(&target, Duration::ZERO), None, "its run holds the lock");
    drop(file);
    assert_eq!(memory::unused_link(&target, Duration::MAX), None, "it may start again");
    let link = memory::unused_link(&target, Duration::ZERO).unwrap();
    assert_eq!(link, path);
    leave_memory(&link);
    assert!(!target.exists() && memory::target(&path).is_none());
    assert_eq!(RunFile::open(&path).unwrap().end, End::Died);
}

#[test]
fn a_copied_data_folder_leaves_the_file_of_the_agent_alone() {
    let dir = tempfile::tempdir().unwrap();
    let copied = tempfile::tempdir().unwrap();
    let new = NewFile::create(dir.path(), RecorderStorage::Memory).unwrap();
    fs::write(&new.path, recent_header()).unwrap();
    let (path, file) = new.keep().unwrap();
    let target = memory::target(&path).unwrap();
    let copy = copied.path().join(path.file_name().unwrap());
    symlink(&target, &copy).unwrap();
    earlier(copied.path()).clean();
    assert!(target.exists(), "the agent runs");
    drop(file);
    earlier(copied.path()).clean();
    assert!(target.exists(), "the link of the agent leads to it");
    assert_eq!(RunFile::open(&path).unwrap().end, End::Died);
    remove(&[path]);
    assert!(!target.exists());
}

#[test]
fn a_pipe_with_the_name_of_a_run_is_no_run() {
    let dir = tempfile::tempdir().unwrap();
    let pipe = dir.path().join("run-1.rings");
    let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
    rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, mode, 0).unwrap();
    assert!(RunFile::open(&pipe).is_err());
    earlier(dir.path()).clean();
    assert!(!pipe.exists());
}
