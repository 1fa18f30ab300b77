//! Appends to one file and can say, after a crash, which part of it is settled.

use bytes::Bytes;
use rustix::fs::{Stat, fstat};
use serde::{Deserialize, Serialize};
use std::fs::{File, OpenOptions};
use std::io::{self, IoSlice, Write};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

/// Bytes before the synced length that are hashed, to know our own bytes again.
const TAIL_BYTES: u64 = 4096;

/// Slices handed to one `writev` at most (Linux takes 1,024).
const SLICES_MAX: usize = 256;

/// What is kept with the checkpoints, as JSON.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Synced {
    device: u64,
    inode: u64,
    /// Length of the file when it was last synced.
    length: u64,
    /// XXH3 of the last bytes before that length.
    tail_hash: u64,
    /// The agent stopped cleanly here: what lies behind is not ours.
    #[serde(default)]
    clean: bool,
}

/// Keeps a state durably, before the first write to a file.
type Keep = Arc<dyn Fn(Vec<u8>) -> io::Result<()> + Send + Sync>;

/// Writes one path.
pub struct Writer {
    path: PathBuf,
    file: Option<File>,
    /// Length of the file as far as we wrote it.
    length: u64,
    synced: Option<Synced>,
    keep: Keep,
}

impl Writer {
    /// A writer that opens its file with the first event; `state` is what the last sync returned.
    pub fn new(path: PathBuf, state: Option<&[u8]>, keep: Keep) -> Writer {
        let synced = state.and_then(|state| serde_json::from_slice(state).ok());
        Writer { path, file: None, length: 0, synced, keep }
    }

    /// Whether there may be something of ours from before a restart.
    pub fn resumes(&self) -> bool {
        self.synced.is_some() && self.path.exists()
    }

    /// Appends all parts, or none: a write that fails half way is taken back.
    pub fn append(&mut self, parts: &[Bytes]) -> io::Result<()> {
        if !self.is_in_place() {
            self.leave()?;
            self.open()?;
        }
        let Some(file) = &mut self.file else { return Err(io::ErrorKind::NotFound.into()) };
        // Not our own count: somebody may have cut the file meanwhile.
        let before = fstat(&*file)?.st_size as u64;
        let written = write_all(file, parts);
        match written {
            Ok(bytes) => self.length = before + bytes,
            Err(_) if fstat(&*file)?.st_size as u64 > before => file.set_len(before)?,
            Err(_) => {}
        }
        written.map(drop)
    }

    /// Whether the path still names the file that is open: it may have been moved or deleted, and
    /// what is written to it then would be lost to its readers.
    fn is_in_place(&self) -> bool {
        let Some(file) = &self.file else { return false };
        match (fstat(file), rustix::fs::stat(&self.path)) {
            (Ok(ours), Ok(there)) => (ours.st_dev, ours.st_ino) == (there.st_dev, there.st_ino),
            _ => false,
        }
    }

    /// Closes the file, with everything written to it on the disk and known as synced: if the path
    /// leads to it again later, nothing of it is cut off.
    fn leave(&mut self) -> io::Result<()> {
        self.sync()?;
        self.file = None;
        Ok(())
    }

    /// Makes everything written durable and returns the state to keep.
    pub fn sync(&mut self) -> io::Result<Vec<u8>> {
        let Some(file) = &self.file else { return Ok(self.state()) };
        file.sync_data()?;
        let stat = fstat(file)?;
        // Somebody may have cut the file (copytruncate): what counts is what is there.
        self.length = self.length.min(stat.st_size as u64);
        self.synced = Some(synced(file, &stat, self.length)?);
        Ok(self.state())
    }

    /// The state to keep when nothing more will be written by this agent.
    pub fn close(&mut self) -> Option<Vec<u8>> {
        // A file that was never opened may still hold what a crash left behind.
        self.file.as_ref()?;
        let synced = self.synced.as_mut().filter(|synced| synced.length == self.length)?;
        synced.clean = true;
        Some(self.state())
    }

    fn state(&self) -> Vec<u8> {
        serde_json::to_vec(&self.synced).unwrap_or_default()
    }

    /// Opens the file, after a crash cut back to what was synced.
    pub fn open(&mut self) -> io::Result<()> {
        if let Some(folder) = self.path.parent() {
            std::fs::create_dir_all(folder)?;
        }
        let mut file = open_append(&self.path)?;
        let mut stat = fstat(&file)?;
        match &self.synced {
            Some(synced) if !synced.clean && synced.is_in(&file, &stat) => file.set_len(synced.length)?,
            _ if !ends_with_newline(&file, &stat)? => {
                self.set_aside()?;
                file = open_append(&self.path)?;
            }
            _ => {}
        }
        stat = fstat(&file)?;
        self.length = stat.st_size as u64;
        self.synced = Some(synced(&file, &stat, self.length)?);
        // Known before the first byte is written: else a crash now would leave a torn line that
        // nobody knows to be ours.
        file.sync_all()?;
        (self.keep)(self.state())?;
        self.file = Some(file);
        Ok(())
    }

    /// A file that is not ours and ends in the middle of a line: left whole, under another name.
    fn set_aside(&self) -> io::Result<()> {
        let seconds = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        let mut aside = self.path.clone().into_os_string();
        aside.push(format!(".{seconds}"));
        log::warn!(
            "{} ends in the middle of a line that is not ours; it is kept as {} and a new file is begun",
            self.path.display(),
            Path::new(&aside).display()
        );
        std::fs::rename(&self.path, aside)
    }
}

impl Synced {
    /// Whether `file` is the file that was synced and still has our bytes before the synced length.
    fn is_in(&self, file: &File, stat: &Stat) -> bool {
        (self.device, self.inode) == (stat.st_dev, stat.st_ino)
            && stat.st_size as u64 >= self.length
            && tail_hash(file, self.length).is_ok_and(|hash| hash == self.tail_hash)
    }
}

fn synced(file: &File, stat: &Stat, length: u64) -> io::Result<Synced> {
    let tail_hash = tail_hash(file, length)?;
    Ok(Synced { device: stat.st_dev, inode: stat.st_ino, length, tail_hash, clean: false })
}

fn open_append(path: &Path) -> io::Result<File> {
    OpenOptions::new().create(true).append(true).read(true).mode(0o640).open(path)
}

fn tail_hash(file: &File, length: u64) -> io::Result<u64> {
    let bytes = TAIL_BYTES.min(length);
    let mut tail = vec![0; bytes as usize];
    file.read_exact_at(&mut tail, length - bytes)?;
    Ok(xxhash_rust::xxh3::xxh3_64(&tail))
}

fn ends_with_newline(file: &File, stat: &Stat) -> io::Result<bool> {
    let size = stat.st_size as u64;
    let mut last = [b'\n'];
    if size > 0 {
        file.read_exact_at(&mut last, size - 1)?;
    }
    Ok(last == *b"\n")
}

/// Writes all parts; returns the bytes written.
fn write_all(file: &mut File, parts: &[Bytes]) -> io::Result<u64> {
    let mut total = 0;
    for group in parts.chunks(SLICES_MAX) {
        let mut slices: Vec<IoSlice<'_>> = group.iter().map(|part| IoSlice::new(part)).collect();
        let mut slices = &mut slices[..];
        while slices.iter().any(|slice| !slice.is_empty()) {
            match file.write_vectored(slices) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(n) => {
                    total += n as u64;
                    IoSlice::advance_slices(&mut slices, n);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }
    Ok(total)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::sync::Mutex;

    /// A writer whose kept states can be looked at.
    fn writer(path: &Path, state: Option<&[u8]>) -> (Writer, Arc<Mutex<Vec<u8>>>) {
        let kept = Arc::new(Mutex::new(Vec::new()));
        let keep = kept.clone();
        let keep: Keep = Arc::new(move |state| {
            *keep.lock().unwrap() = state;
            Ok(())
        });
        (Writer::new(path.to_path_buf(), state, keep), kept)
    }

    fn append(writer: &mut Writer, text: &'static str) {
        writer.append(&[Bytes::from_static(text.as_bytes())]).unwrap();
    }

    #[test]
    fn after_a_crash_the_file_is_cut_back_to_what_was_synced() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("new/folder/out.log");
        let (mut first, _) = writer(&path, None);
        append(&mut first, "synced\n");
        let state = first.sync().unwrap();
        append(&mut first, "written, not synced\ntorn");
        let (mut second, _) = writer(&path, Some(&state));
        second.open().unwrap();
        append(&mut second, "again\n");
        assert_eq!(fs::read_to_string(&path).unwrap(), "synced\nagain\n");
    }

    #[test]
    fn after_a_clean_stop_what_others_append_stays() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("out.log");
        let (mut first, _) = writer(&path, None);
        append(&mut first, "ours\n");
        first.sync().unwrap();
        let state = first.close().unwrap();
        fs::write(&path, "ours\ntheirs\n").unwrap();
        let (mut second, _) = writer(&path, Some(&state));
        append(&mut second, "more\n");
        assert_eq!(fs::read_to_string(&path).unwrap(), "ours\ntheirs\nmore\n");
    }

    #[test]
    fn a_crash_before_the_first_sync_leaves_nothing_of_ours() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("out.log");
        fs::write(&path, "was there\n").unwrap();
        let (mut first, kept) = writer(&path, None);
        append(&mut first, "to");
        let state = kept.lock().unwrap().clone();
        let (mut second, _) = writer(&path, Some(&state));
        second.open().unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "was there\n");
    }

    #[test]
    fn foreign_bytes_are_never_cut() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("out.log");
        let (mut first, _) = writer(&path, None);
        append(&mut first, "ours\n");
        let state = first.sync().unwrap();
        fs::write(&path, "replaced by somebody, no line end").unwrap();
        let (mut second, _) = writer(&path, Some(&state));
        append(&mut second, "new\n");
        assert_eq!(fs::read_to_string(&path).unwrap(), "new\n");
        let names: Vec<_> = fs::read_dir(dir.path()).unwrap().map(|e| e.unwrap().path()).collect();
        let aside = names.iter().find(|p| **p != path).unwrap();
        assert_eq!(fs::read_to_string(aside).unwrap(), "replaced by somebody, no line end");
    }

    #[test]
    fn a_file_that_was_moved_away_or_deleted_is_begun_anew() {
        let dir = tempfile::tempdir().unwrap();
        let (path, moved) = (dir.path().join("out.log"), dir.path().join("out.log.1"));
        let (mut writer, _) = writer(&path, None);
        append(&mut writer, "1\n");
        fs::rename(&path, &moved).unwrap();
        append(&mut writer, "2\n");
        let read = |path: &Path| fs::read_to_string(path).unwrap();
        assert_eq!((read(&moved), read(&path)), ("1\n".into(), "2\n".into()));
        fs::remove_file(&path).unwrap();
        append(&mut writer, "3\n");
        writer.sync().unwrap();
        assert_eq!(read(&path), "3\n");
        fs::OpenOptions::new().write(true).open(&path).unwrap().set_len(0).unwrap();
        append(&mut writer, "4\n");
        assert_eq!(read(&path), "4\n");
    }

    #[test]
    fn a_file_that_is_out_of_reach_for_a_while_keeps_what_was_not_synced_yet() {
        let dir = tempfile::tempdir().unwrap();
        let (folder, away) = (dir.path().join("out"), dir.path().join("away"));
        let path = folder.join("out.log");
        let (mut writer, _) = writer(&path, None);
        append(&mut writer, "1\n");
        fs::rename(&folder, &away).unwrap();
        fs::write(&folder, "in the way").unwrap();
        assert!(writer.append(&[Bytes::from_static(b"2\n")]).is_err());
        fs::remove_file(&folder).unwrap();
        fs::rename(&away, &folder).unwrap();
        append(&mut writer, "2\n");
        assert_eq!(fs::read_to_string(&path).unwrap(), "1\n2\n");
    }

    #[test]
    fn many_parts_are_written_in_order() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("out.log");
        let parts: Vec<Bytes> = (0..1000).map(|i| Bytes::from(format!("{i}\n"))).collect();
        let (mut writer, _) = writer(&path, None);
        writer.append(&parts).unwrap();
        let expected: String = (0..1000).map(|i| format!("{i}\n")).collect();
        assert_eq!(fs::read_to_string(&path).unwrap(), expected);
    }
}
