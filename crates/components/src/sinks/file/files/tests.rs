//! Files after crashes, renames, truncations, rotations, and with hostile names.

use super::*;
use crate::sinks::file::compress::Compression;
use crate::sinks::file::rotation::Rotate;
use millstream_model::{Interval, Size};
use parking_lot::Mutex;
use std::fs;
use std::io::Read;
use std::path::PathBuf;

const PLAIN: Settings = Settings {
    compression: (Compression::None, 0),
    members_max: MEMBERS_MAX,
    follow_links: false,
    rotate: Rotate { size: None, every: None, keep: None },
    open_files_max: 100,
    idle_timeout: Duration::from_secs(300),
};

/// The storage behind a [`Keep`], which a restart would read.
#[derive(Clone, Default)]
struct Kept(Arc<Mutex<(Vec<u8>, usize)>>);

impl Kept {
    /// Opens files as after a restart, with the stored state.
    fn files(&self, settings: Settings) -> Files {
        let (kept, state) = (self.clone(), self.state());
        let keep: Keep = Arc::new(move |state| {
            let mut kept = kept.0.lock();
            *kept = (state, kept.1 + 1);
            Ok(())
        });
        Files::new(settings, Some(&state), keep, Arc::default())
    }

    fn state(&self) -> Vec<u8> {
        self.0.lock().0.clone()
    }

    fn commits(&self) -> usize {
        self.0.lock().1
    }

    fn sync(&self, files: &mut Files) {
        self.0.lock().0 = files.sync().unwrap();
    }
}

fn route(path: &Path) -> Route {
    Route { name: path.to_str().unwrap().into(), parts: 1 }
}

fn try_append(files: &mut Files, path: &Path, text: &str) -> io::Result<()> {
    files.deliver(&[Bytes::from(text.to_owned())], &[route(path)])
}

fn append(files: &mut Files, path: &Path, text: &str) {
    try_append(files, path, text).unwrap();
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap()
}

/// Reads every file of a folder, decompressed, sorted by name.
fn texts(dir: &Path) -> Vec<(String, String)> {
    let mut all: Vec<(String, String)> = Vec::new();
    for path in
        fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()).filter(|path| path.is_file())
    {
        let (bytes, mut text) = (fs::read(&path).unwrap(), String::new());
        match path.extension().and_then(|e| e.to_str()) {
            Some("gz") => {
                flate2::read::MultiGzDecoder::new(&bytes[..]).read_to_string(&mut text).unwrap();
            }
            Some("zst") => {
                text = String::from_utf8(zstd::stream::decode_all(&bytes[..]).unwrap()).unwrap()
            }
            _ => text = String::from_utf8(bytes).unwrap(),
        }
        all.push((path.file_name().unwrap().to_string_lossy().into_owned(), text));
    }
    all.sort();
    all
}

fn with(compression: Compression) -> Settings {
    Settings { compression: (compression, compression.levels().1), ..PLAIN }
}

fn folder() -> (tempfile::TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("out.log");
    (dir, path)
}

#[test]
fn a_crash_truncates_the_file_to_the_synced_length() {
    let dir = tempfile::tempdir().unwrap();
    for (name, compression) in
        [("a.log", Compression::None), ("a.gz", Compression::Gzip), ("a.zst", Compression::Zstd)]
    {
        let (folder, kept) = (dir.path().join(name).join("new"), Kept::default());
        let path = folder.join(name);
        let mut files = kept.files(with(compression));
        append(&mut files, &path, "synced\n");
        kept.sync(&mut files);
        append(&mut files, &path, "written, not synced\ntorn");
        let mut files = kept.files(with(compression));
        assert_eq!(texts(&folder), [(name.to_owned(), "synced\n".to_owned())]);
        append(&mut files, &path, "again\n");
        kept.sync(&mut files);
        append(&mut files, &path, "more\n");
        files.sync().unwrap();
        assert_eq!(texts(&folder), [(name.to_owned(), "synced\nagain\nmore\n".to_owned())]);
    }
}

#[test]
fn bytes_that_others_append_after_a_clean_shutdown_stay() {
    let ((_dir, path), kept) = (folder(), Kept::default());
    let mut files = kept.files(PLAIN);
    append(&mut files, &path, "ours\n");
    files.sync().unwrap();
    kept.0.lock().0 = files.close();
    fs::write(&path, "ours\ntheirs\n").unwrap();
    append(&mut kept.files(PLAIN), &path, "more\n");
    assert_eq!(read(&path), "ours\ntheirs\nmore\n");
}

#[test]
fn a_crash_before_the_first_sync_truncates_all_our_bytes() {
    let ((_dir, path), kept) = (folder(), Kept::default());
    fs::write(&path, "was there\n").unwrap();
    append(&mut kept.files(PLAIN), &path, "to");
    kept.files(PLAIN);
    assert_eq!(read(&path), "was there\n");
}

#[test]
fn foreign_bytes_are_never_truncated() {
    let ((dir, path), kept) = (folder(), Kept::default());
    let mut files = kept.files(PLAIN);
    append(&mut files, &path, "ours\n");
    kept.sync(&mut files);
    fs::write(&path, "replaced by others, no line feed").unwrap();
    append(&mut kept.files(PLAIN), &path, "new\n");
    let texts: Vec<String> = texts(dir.path()).into_iter().map(|(_, text)| text).collect();
    assert_eq!(texts, ["new\n", "replaced by others, no line feed"]);
}

/// Nothing is appended to a compressed file that may be incomplete.
#[test]
fn a_foreign_compressed_file_is_set_aside_and_our_own_is_continued() {
    for (name, compression) in [("a.gz", Compression::Gzip), ("a.zst", Compression::Zstd)] {
        let (dir, kept) = (tempfile::tempdir().unwrap(), Kept::default());
        let path = dir.path().join(name);
        let mut files = kept.files(with(compression));
        append(&mut files, &path, "1\n");
        files.sync().unwrap();
        let mut files = Kept::default().files(with(compression));
        append(&mut files, &path, "2\n");
        files.sync().unwrap();
        assert_eq!(texts(dir.path()), [(name.to_owned(), "1\n2\n".to_owned())]);
        fs::write(&path, "foreign").unwrap();
        let mut files = Kept::default().files(with(compression));
        append(&mut files, &path, "3\n");
        files.sync().unwrap();
        let texts = texts(dir.path());
        assert_eq!((texts.len(), &*texts[0].1, &*texts[1].1), (2, "3\n", "foreign"));
    }
}

#[test]
fn a_renamed_or_deleted_file_is_created_again() {
    let (dir, path) = folder();
    let moved = dir.path().join("out.log.1");
    let mut files = Kept::default().files(PLAIN);
    append(&mut files, &path, "1\n");
    fs::rename(&path, &moved).unwrap();
    append(&mut files, &path, "2\n");
    assert_eq!((read(&moved), read(&path)), ("1\n".into(), "2\n".into()));
    fs::remove_file(&path).unwrap();
    append(&mut files, &path, "3\n");
    files.sync().unwrap();
    assert_eq!(read(&path), "3\n");
    fs::OpenOptions::new().write(true).open(&path).unwrap().set_len(0).unwrap();
    append(&mut files, &path, "4\n");
    assert_eq!(read(&path), "4\n");
}

#[test]
fn a_renamed_or_truncated_compressed_file_stays_readable() {
    let dir = tempfile::tempdir().unwrap();
    let (path, moved) = (dir.path().join("a.gz"), dir.path().join("b.gz"));
    let mut files = Kept::default().files(with(Compression::Gzip));
    append(&mut files, &path, "1\n");
    fs::rename(&path, &moved).unwrap();
    append(&mut files, &path, "2\n");
    fs::OpenOptions::new().write(true).open(&path).unwrap().set_len(0).unwrap();
    append(&mut files, &path, "3\n");
    files.sync().unwrap();
    assert_eq!(texts(dir.path()), [("a.gz".into(), "3\n".into()), ("b.gz".into(), "1\n".into())]);
}

/// Neither the end of a member nor a failed write is written to a file that was truncated
/// meanwhile.
#[test]
fn a_write_after_a_truncation_does_not_continue_a_lost_member() {
    for (compression, name) in [(Compression::Gzip, "a.gz"), (Compression::Zstd, "a.zst")] {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(name);
        let cut = || fs::OpenOptions::new().write(true).open(&path).unwrap().set_len(0).unwrap();
        let mut files = Kept::default().files(with(compression));
        append(&mut files, &path, "1\n");
        cut();
        files.sync().unwrap();
        assert_eq!(texts(dir.path()), [(name.into(), String::new())]);
        append(&mut files, &path, "2\n");
        cut();
        files.open.values_mut().for_each(|writer| writer.end_member().unwrap());
        append(&mut files, &path, "3\n");
        files.sync().unwrap();
        assert_eq!(texts(dir.path()), [(name.into(), "3\n".into())]);
    }
}

#[test]
fn a_symbolic_link_is_rejected_if_the_path_contains_fields() {
    let dir = tempfile::tempdir().unwrap();
    let (path, link) = (dir.path().join("a.log"), dir.path().join("b.log"));
    std::os::unix::fs::symlink("a.log", &link).unwrap();
    let mut files = Kept::default().files(PLAIN);
    append(&mut files, &path, "1\n");
    let error = try_append(&mut files, &link, "2\n").unwrap_err().to_string();
    assert!(error.contains("b.log: is a symbolic link; remove it"), "{error}");
    fs::remove_file(&link).unwrap();
    append(&mut files, &link, "2\n");
    assert_eq!((read(&path), read(&link)), ("1\n".into(), "2\n".into()));
    // A constant path may be a symbolic link that an operator created.
    fs::remove_file(&link).unwrap();
    std::os::unix::fs::symlink("a.log", &link).unwrap();
    append(&mut Kept::default().files(Settings { follow_links: true, ..PLAIN }), &link, "3\n");
    assert_eq!(read(&path), "1\n3\n");
}

#[test]
fn a_file_is_not_written_under_two_names() {
    for open_files_max in [1, 100] {
        let dir = tempfile::tempdir().unwrap();
        let (path, other) = (dir.path().join("a.log"), dir.path().join("b.log"));
        let mut files = Kept::default().files(Settings { open_files_max, ..PLAIN });
        append(&mut files, &path, "1\n");
        fs::hard_link(&path, &other).unwrap();
        let error = try_append(&mut files, &other, "2\n").unwrap_err().to_string();
        assert!(error.contains("a.log, which this sink also writes; remove one"), "{error}");
        // After the removal, the file has one name.
        fs::remove_file(&path).unwrap();
        append(&mut files, &other, "2\n");
        assert_eq!(read(&other), "1\n2\n");
    }
}

#[test]
fn an_unreachable_file_keeps_its_unsynced_data() {
    let dir = tempfile::tempdir().unwrap();
    let (folder, away) = (dir.path().join("out"), dir.path().join("away"));
    let path = folder.join("out.log");
    let mut files = Kept::default().files(PLAIN);
    append(&mut files, &path, "1\n");
    fs::rename(&folder, &away).unwrap();
    fs::write(&folder, "obstacle").unwrap();
    assert!(try_append(&mut files, &path, "2\n").is_err());
    fs::remove_file(&folder).unwrap();
    fs::rename(&away, &folder).unwrap();
    append(&mut files, &path, "2\n");
    assert_eq!(read(&path), "1\n2\n");
}

#[test]
fn many_parts_are_written_in_order() {
    let (_dir, path) = folder();
    let parts: Vec<Bytes> = (0..1000).map(|i| Bytes::from(format!("{i}\n"))).collect();
    Kept::default()
        .files(PLAIN)
        .deliver(&parts, &[Route { parts: usize::MAX, ..route(&path) }])
        .unwrap();
    let expected: String = (0..1000).map(|i| format!("{i}\n")).collect();
    assert_eq!(read(&path), expected);
}

/// A failed payload is resumed: no file contains an event twice.
#[test]
fn a_delivery_to_several_files_resumes_where_it_failed() {
    for compression in [Compression::None, Compression::Gzip] {
        let (dir, kept) = (tempfile::tempdir().unwrap(), Kept::default());
        let name = if compression == Compression::None { "x.log" } else { "x.gz" };
        let paths: Vec<PathBuf> =
            ["a", "b", "c"].iter().map(|folder| dir.path().join(folder).join(name)).collect();
        let routes: Vec<Route> = paths.iter().map(|path| route(path)).collect();
        let parts: Vec<Bytes> = ["1\n", "2\n", "3\n"].map(Bytes::from).into();
        let mut files = kept.files(Settings { open_files_max: 1, ..with(compression) });
        files.deliver(&parts, &routes).unwrap();
        assert_eq!(kept.commits(), 1, "one commit for all files of a payload");
        // Simulates a failure of the second route after the first one was written.
        files.done = 1;
        fs::remove_dir_all(dir.path().join("b")).unwrap();
        fs::write(dir.path().join("b"), "obstacle").unwrap();
        for _ in 0..3 {
            assert!(files.deliver(&parts, &routes).is_err());
        }
        fs::remove_file(dir.path().join("b")).unwrap();
        files.deliver(&parts, &routes).unwrap();
        files.sync().unwrap();
        let found: Vec<String> =
            paths.iter().map(|path| texts(path.parent().unwrap())[0].1.clone()).collect();
        assert_eq!(
            found,
            ["1\n", "2\n", "3\n3\n"],
            "the first was written before, the third by both deliveries"
        );
    }
}

/// After a crash, files evicted since the last sync are truncated like open files.
#[test]
fn files_closed_since_the_last_sync_are_truncated_too() {
    let (dir, kept) = (tempfile::tempdir().unwrap(), Kept::default());
    let paths: Vec<PathBuf> = (0..9).map(|n| dir.path().join(n.to_string())).collect();
    let two = Settings { open_files_max: 2, ..PLAIN };
    let mut files = kept.files(two);
    for round in ["settled\n", "not settled\n", "torn"] {
        paths.iter().for_each(|path| append(&mut files, path, round));
        assert!(files.open.len() <= 2);
        if round == "settled\n" {
            kept.sync(&mut files);
            assert!(files.known.count() <= 2, "settled and closed files are not kept");
        }
    }
    kept.files(two);
    paths.iter().for_each(|path| assert_eq!(read(path), "settled\n"));
}

#[test]
fn the_kept_state_stays_bounded_over_100_000_names() {
    // In memory if possible, since every name costs a sync.
    let memory = Path::new("/dev/shm");
    let dir =
        if memory.is_dir() { tempfile::tempdir_in(memory) } else { tempfile::tempdir() }.unwrap();
    let kept = Kept::default();
    let mut files = kept.files(PLAIN);
    let (mut syncs, mut most) = (0, 0);
    for chunk in 0..1000 {
        let routes: Vec<Route> =
            (0..100).map(|n| route(&dir.path().join(format!("{chunk}-{n}")))).collect();
        files.deliver(&vec![Bytes::from_static(b"line\n"); 100], &routes).unwrap();
        most = most.max(kept.state().len());
        assert!(files.open.len() <= 100);
        if files.wants_sync() {
            kept.sync(&mut files);
            assert!(!files.wants_sync());
            syncs += 1;
        }
    }
    assert!((80..100).contains(&syncs), "{syncs} syncs");
    assert!(most < 1300 * 300, "{most} bytes kept");
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 100_000);
}

#[test]
fn idle_files_are_closed_after_a_sync() {
    let (_dir, path) = folder();
    let mut files = Kept::default().files(Settings { idle_timeout: Duration::ZERO, ..PLAIN });
    append(&mut files, &path, "1\n");
    files.close_idle();
    assert_eq!(files.open.len(), 1);
    files.sync().unwrap();
    files.close_idle();
    assert_eq!(files.open.len(), 0);
    append(&mut files, &path, "2\n");
    assert_eq!(read(&path), "1\n2\n");
}

#[test]
fn the_number_of_members_in_progress_is_bounded() {
    let dir = tempfile::tempdir().unwrap();
    for members_max in [1, 3, MEMBERS_MAX] {
        let folder = dir.path().join(members_max.to_string());
        let mut files = Kept::default().files(Settings { members_max, ..with(Compression::Zstd) });
        let mut most = 0;
        for round in 0..3 {
            for n in 0..40 {
                append(&mut files, &folder.join(format!("{n}.zst")), &format!("{round}\n"));
                most = most
                    .max(files.open.values().filter(|writer| writer.has_member()).count() as u64);
            }
        }
        assert_eq!(most, members_max);
        files.sync().unwrap();
        texts(&folder).into_iter().for_each(|(_, text)| assert_eq!(text, "0\n1\n2\n"));
    }
}

#[test]
fn the_members_in_progress_fit_into_the_available_memory() {
    let level_19 = Settings { compression: (Compression::Zstd, 19), ..PLAIN };
    let members = |mib: u64| level_19.within(mib << 20).members_max;
    assert_eq!([members(4), members(16), members(100), members(4096)], [1, 1, 8, MEMBERS_MAX]);
    assert_eq!(with(Compression::Gzip).within(4 << 20).members_max, 8);
}

/// After a crash at any point of a rotation, every settled line exists once, and no unsettled line
/// exists.
#[test]
fn a_rotated_file_is_settled_and_never_modified_again() {
    for (ending, compression) in
        [("log", Compression::None), ("gz", Compression::Gzip), ("zst", Compression::Zstd)]
    {
        let (dir, kept) = (tempfile::tempdir().unwrap(), Kept::default());
        let path = dir.path().join(format!("out.{ending}"));
        let settings = Settings {
            rotate: Rotate { size: Some(Size(10)), ..Rotate::default() },
            ..with(compression)
        };
        let mut files = kept.files(settings);
        append(&mut files, &path, "more than ten bytes\n");
        assert!(files.wants_sync());
        append(&mut files, &path, "unsettled: it stays\n");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
        kept.sync(&mut files);
        append(&mut files, &path, "in a new file\n");
        // A crash: the rotated file is complete, the new one is truncated to nothing.
        drop(files);
        let mut files = kept.files(settings);
        let found = texts(dir.path());
        assert_eq!(found.len(), 2);
        assert_eq!(
            (&*found[0].1, &*found[1].1),
            ("more than ten bytes\nunsettled: it stays\n", "")
        );
        append(&mut files, &path, "in a new file\n");
        kept.sync(&mut files);
        assert_eq!(texts(dir.path())[1].1, "in a new file\n");
        // Another rotation, with a crash between the rename and the new file.
        files.rotate(&[route(&path)]).unwrap();
        kept.files(settings);
        let all: String = texts(dir.path()).into_iter().map(|(_, text)| text).collect();
        assert_eq!(all, "more than ten bytes\nunsettled: it stays\nin a new file\n");
    }
}

/// A file is renamed only after the checkpoints record that its events are settled.
#[test]
fn a_file_is_not_renamed_before_its_events_are_recorded_as_settled() {
    let (dir, path) = folder();
    let kept = Kept::default();
    let settings =
        Settings { rotate: Rotate { size: Some(Size(1)), ..Rotate::default() }, ..PLAIN };
    let mut files = kept.files(settings);
    append(&mut files, &path, "1\n");
    files.sync().unwrap();
    let keep =
        std::mem::replace(&mut files.keep, Arc::new(|_| Err(io::ErrorKind::StorageFull.into())));
    assert!(try_append(&mut files, &path, "2\n").is_err());
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    files.keep = keep;
    append(&mut files, &path, "2\n");
    assert_eq!((fs::read_dir(dir.path()).unwrap().count(), read(&path)), (2, "2\n".into()));
}

#[test]
fn files_are_rotated_by_time_across_restarts() {
    let ((dir, path), kept) = (folder(), Kept::default());
    let every = Some(Interval(Duration::from_secs(1)));
    let settings = Settings { rotate: Rotate { every, ..Rotate::default() }, ..PLAIN };
    for line in ["1\n", "2\n", "3\n"] {
        let mut files = kept.files(settings);
        append(&mut files, &path, line);
        kept.sync(&mut files);
        std::thread::sleep(Duration::from_millis(1100));
    }
    let found: Vec<String> = texts(dir.path()).into_iter().map(|(_, text)| text).collect();
    assert_eq!(found, ["1\n", "2\n", "3\n"]);
}

#[test]
fn a_failed_rotation_does_not_stop_the_sink() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("x".repeat(250));
    let settings =
        Settings { rotate: Rotate { size: Some(Size(1)), ..Rotate::default() }, ..PLAIN };
    let mut files = Kept::default().files(settings);
    for line in ["1\n", "2\n", "3\n"] {
        append(&mut files, &path, line);
        files.sync().unwrap();
    }
    assert_eq!(read(&path), "1\n2\n3\n");
    assert_eq!(files.counters.snapshot().errors["rotate"], 1);
}
