//! The log folder: its content, and the operations of writers and rotations.

use super::Size;
use flate2::read::MultiGzDecoder;
use flate2::write::GzEncoder;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::fs::{self, File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::{Path, PathBuf};

/// Names of the logs. The last may be a symlink.
pub const NAMES: [&str; 3] = ["a.log", "b.log", "c.log"];

/// Maximum number of numbered rotations per log.
const KEPT: usize = 3;

/// First line of every file with [`Heads::Short`].
pub const STARTED: &str = "started";

/// The content at the beginning of the files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Heads {
    /// Unique lines.
    Differ,
    /// The same short line.
    Short,
    /// Identical lines, longer than a full head.
    Long,
}

impl Heads {
    fn text(self) -> String {
        match self {
            Heads::Differ => String::new(),
            Heads::Short => format!("{STARTED}\n"),
            Heads::Long => format!("{STARTED}\n").repeat(140),
        }
    }
}

/// The content of a file, which may have several names.
#[derive(Clone, Default)]
pub struct Content {
    /// Complete lines.
    pub lines: Vec<String>,
    /// The text after the last line ending.
    pub rest: String,
    /// Whether one of the file's names matches one of the agent's patterns.
    pub named: bool,
}

/// The log folder.
pub struct Disk {
    dir: PathBuf,
    heads: Heads,
    /// Last number that was used for a unique line or name.
    next: usize,
    /// Inode numbers of copies, which no writer has open.
    copies: HashSet<u64>,
    /// Copies that do not have a rotation name yet, by the name of their log.
    away: BTreeMap<String, PathBuf>,
}

impl Disk {
    pub fn new(dir: &Path, heads: Heads) -> Disk {
        Disk {
            dir: dir.to_path_buf(),
            heads,
            next: 0,
            copies: HashSet::new(),
            away: BTreeMap::new(),
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }

    fn next(&mut self) -> usize {
        self.next += 1;
        self.next
    }

    /// Returns the content of every file by inode number.
    pub fn contents(&self) -> HashMap<u64, Content> {
        let mut contents: HashMap<u64, Content> = HashMap::new();
        for entry in fs::read_dir(&self.dir).unwrap().map(Result::unwrap) {
            let Ok(stat) = fs::metadata(entry.path()) else { continue };
            let named = entry.file_name().to_string_lossy().contains(".log");
            let content = contents.entry(stat.ino()).or_insert_with(|| content(&entry.path()));
            content.named |= named;
        }
        contents
    }

    /// Returns the file to write to: the log, or, for a late writer, the renamed log. A copy has no
    /// late writer.
    fn target(&self, name: &str, late: bool) -> Option<PathBuf> {
        if !late {
            return Some(self.path(name));
        }
        let renamed = self.path(&format!("{name}.1"));
        let stat = fs::metadata(&renamed).ok()?;
        (!self.copies.contains(&stat.ino())).then_some(renamed)
    }

    fn lines(&mut self, count: usize) -> String {
        (0..count)
            .map(|_| self.next())
            .map(|n| format!("{n:06} {}\n", "x".repeat(n * 7 % 40)))
            .collect()
    }

    pub fn append(&mut self, name: &str, late: bool, count: usize) {
        let Some(path) = self.target(name, late) else { return };
        let lines = self.lines(count);
        self.write(&path, &lines);
    }

    pub fn begin(&mut self, name: &str, late: bool) {
        let Some(path) = self.target(name, late) else { return };
        let text = format!("{:06} begun,", self.next());
        self.write(&path, &text);
    }

    pub fn complete(&self, name: &str, late: bool) {
        let path = self.target(name, late).filter(|path| path.exists());
        if let Some(path) = path.filter(|path| !content(path).rest.is_empty()) {
            self.write(&path, " completed\n");
        }
    }

    fn write(&self, path: &Path, text: &str) {
        let mut file = OpenOptions::new().create(true).append(true).open(path).unwrap();
        if file.metadata().unwrap().len() == 0 {
            file.write_all(self.heads.text().as_bytes()).unwrap();
        }
        file.write_all(text.as_bytes()).unwrap();
    }

    /// Renames `.1` to `.2` and so on, and deletes the oldest rotation.
    fn shift(&self, name: &str) {
        for ending in ["", ".gz"] {
            let _ = fs::remove_file(self.path(&format!("{name}.{KEPT}{ending}")));
            for n in (1..KEPT).rev() {
                let to = self.path(&format!("{name}.{}{ending}", n + 1));
                let _ = fs::rename(self.path(&format!("{name}.{n}{ending}")), to);
            }
        }
    }

    pub fn rotate(&self, name: &str) {
        if self.path(name).exists() {
            self.shift(name);
            fs::rename(self.path(name), self.path(&format!("{name}.1"))).unwrap();
        }
    }

    pub fn date(&mut self, name: &str) {
        let to = format!("{name}-20261122-{:06}", self.next());
        let _ = fs::rename(self.path(name), self.path(&to));
    }

    pub fn copy(&mut self, name: &str) {
        if has_one_name(&self.path(name)) {
            self.shift(name);
            let to = self.path(&format!("{name}.1"));
            fs::copy(self.path(name), &to).unwrap();
            self.copies.insert(fs::metadata(to).unwrap().ino());
        }
    }

    /// Copies a log to a name that is not a rotation name, and truncates it.
    pub fn copy_away(&mut self, name: &str) {
        if has_one_name(&self.path(name)) && !self.away.contains_key(name) {
            let number = self.next();
            let to = self.path(&format!("away-{number}"));
            fs::copy(self.path(name), &to).unwrap();
            self.copies.insert(fs::metadata(&to).unwrap().ino());
            self.away.insert(name.to_owned(), to);
            self.truncate(name);
        }
    }

    /// Gives the copies made by [`Disk::copy_away`] the names of rotations.
    pub fn appear(&mut self) {
        for (name, copy) in std::mem::take(&mut self.away) {
            self.shift(&name);
            fs::rename(copy, self.path(&format!("{name}.1"))).unwrap();
        }
    }

    pub fn truncate(&self, name: &str) {
        if let Ok(file) = File::options().write(true).open(self.path(name)) {
            file.set_len(0).unwrap();
        }
    }

    pub fn rewrite(&mut self, name: &str, size: Size) {
        let Ok(stat) = fs::metadata(self.path(name)) else { return };
        let before = stat.len() as usize;
        let mut text = self.heads.text();
        let size_bytes = match size {
            Size::Same => before,
            Size::Longer => before + 500,
            Size::Shorter => before / 2,
        };
        while text.len() + 60 < size_bytes {
            text += &self.lines(1);
        }
        let n = self.next();
        let padding = size_bytes.saturating_sub(text.len() + 8);
        text += &format!("{n:06} {}\n", "y".repeat(padding));
        fs::write(self.path(name), text).unwrap();
    }

    pub fn delete(&self, name: &str) {
        let _ = fs::remove_file(self.path(name));
    }

    /// Skips symlinks: once a name is gone, it is unknown which target it belonged to.
    pub fn hard_link(&mut self, name: &str) {
        if self.path(name).is_symlink() {
            return;
        }
        let to = format!("link-{}.log", self.next());
        let _ = fs::hard_link(self.path(name), self.path(&to));
    }

    /// Points the last log's symlink at a new file, atomically.
    pub fn switch(&mut self) {
        let name = format!("target-{}", self.next());
        let target = self.path(&name);
        let lines = self.lines(2);
        self.write(&target, &lines);
        let link = self.path("link");
        symlink(&target, &link).unwrap();
        fs::rename(link, self.path(NAMES[NAMES.len() - 1])).unwrap();
    }

    /// Returns the compressed content of a log's first rotation, without changing any file.
    pub fn compressed(&self, name: &str) -> Option<CompressedFile> {
        let from = self.path(&format!("{name}.1"));
        if !has_one_name(&from) {
            return None;
        }
        let mut compressed = GzEncoder::new(Vec::new(), flate2::Compression::fast());
        compressed.write_all(&fs::read(&from).ok()?).unwrap();
        let content = compressed.finish().unwrap();
        Some(CompressedFile { from, to: self.path(&format!("{name}.1.gz")), content })
    }
}

/// The compressed form of a file.
pub struct CompressedFile {
    /// The path of the file.
    pub from: PathBuf,
    /// The path of its compressed form.
    pub to: PathBuf,
    /// The compressed bytes.
    pub content: Vec<u8>,
}

/// Returns whether the file exists and has no other name. A copy of a file with two names may be
/// compared with the wrong name, and is then read like any other file.
fn has_one_name(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|stat| stat.nlink() == 1)
}

/// Returns the content of retained files, without lines that are partly in the hole of a copy.
pub fn held(folder: &Path) -> Vec<Content> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let paths = entries.map(|entry| entry.path());
    // A copy without a valid part is removed after a restart.
    let paths = paths.filter(|path| path.extension().is_none_or(|extension| extension != "tmp"));
    let mut contents: Vec<Content> = paths.map(|path| held_content(&path)).collect();
    for content in &mut contents {
        content.lines.retain(|line| !line.contains('\0'));
    }
    contents
}

/// Returns the content of a link, or of the valid part of a copy, whose name is `ID-FROM-TO`.
fn held_content(path: &Path) -> Content {
    let name = path.file_name().unwrap().to_string_lossy();
    let end = name.splitn(3, '-').nth(2).map(|end| end.parse().unwrap());
    let mut bytes = fs::read(path).unwrap();
    bytes.truncate(end.unwrap_or(usize::MAX));
    content_of(bytes)
}

fn content(path: &Path) -> Content {
    content_of(fs::read(path).unwrap())
}

fn content_of(mut bytes: Vec<u8>) -> Content {
    if bytes.starts_with(&[0x1F, 0x8B]) {
        let mut decompressed = Vec::new();
        // An error means that the file is incomplete.
        let _ = MultiGzDecoder::new(&bytes[..]).read_to_end(&mut decompressed);
        bytes = decompressed;
    }
    let text = String::from_utf8(bytes).unwrap();
    let (whole, rest) = text.rsplit_once('\n').unwrap_or(("", &text));
    let lines =
        if whole.is_empty() { Vec::new() } else { whole.split('\n').map(str::to_owned).collect() };
    Content { lines, rest: rest.to_owned(), named: false }
}
