//! Content of a file, plain or compressed. The first two bytes of an input select how the content
//! is stored and read.

use crate::Random;
use flate2::Compression;
use flate2::write::GzEncoder;
use millstream_model::{Batch, LongLine, Polled};
use millstream_tail::discover::{Exclude, Pattern};
use millstream_tail::{FileSource, HeldSettings, LineFilters, LineLimits, Symlinks, TailSettings};
use millstream_testkit::{SourceRig, assert_valid, split_file_lines};
use std::fs::OpenOptions;
use std::io::Write;
use std::path::Path;
use std::time::Duration;

pub const WORDS: &[&[u8]] = &[
    b"\n",
    b"\r\n",
    b"\r",
    b"a",
    b"\0",
    b"\n\n\n",
    b"a line that is longer than the limit\n",
    "\u{e9}\u{20ac}\n".as_bytes(),
    b"\xFF\xFE",
    BYTE_ORDER_MARK,
    b"\x1F\x8B\x08\0\0\0\0\0",
    b"\x28\xB5\x2F\xFD",
    b"\x03\0\0\0\0\0\0\0\0\0",
];

/// A UTF-8 byte order mark, which a source removes from the beginning of a file.
const BYTE_ORDER_MARK: &[u8] = b"\xEF\xBB\xBF";

/// First bytes of gzip and zstd data.
const MAGIC: [&[u8]; 2] = [b"\x1F\x8B\x08", b"\x28\xB5\x2F\xFD"];

/// Limits of lines in bytes: short limits, so that inputs reach them, and the default.
const LINE_MAX: [usize; 3] = [7, 16, 256 * 1024];

const LONG: [LongLine; 3] = [LongLine::Truncate, LongLine::Split, LongLine::Drop];

/// Time that passes after each poll without data: longer than any pause between two polls of the
/// source.
const STEP: Duration = Duration::from_millis(200);

/// Number of polls after which a run fails if the source has not ended.
const POLLS_MAX: usize = 1000;

/// The storage form of the content.
#[derive(Clone, Copy)]
enum Form {
    /// Appended in two writes, with a restart in between.
    Plain,
    Gzip,
    Zstd,
    /// Compressed, but truncated or with a changed byte.
    Damaged,
}

const FORMS: [Form; 4] = [Form::Plain, Form::Gzip, Form::Zstd, Form::Damaged];

/// Checks that a source emits every line of the content once, at its offset. From damaged
/// compressed data, it emits the lines before the damage.
pub fn files(input: &[u8]) {
    let [how, limit, content @ ..] = input else { return };
    let form = FORMS[usize::from(how % 4)];
    let limits = LineLimits {
        line_max: LINE_MAX[usize::from(limit % 3)],
        long: LONG[usize::from(limit / 3 % 3)],
    };
    if is_unfinished_after_mark(content) {
        return;
    }
    let expected = expected_rows(content, limits);
    let mut random = Random::of(input);
    let mut reader = Reader::new(limits);
    match form {
        Form::Plain => {
            let split = random.below(content.len() + 1);
            reader.append(&content[..split]);
            reader.read_available();
            reader.restart();
            reader.append(&content[split..]);
        }
        Form::Gzip => reader.append(&gzip(content)),
        Form::Zstd => reader.append(&zstandard(content)),
        Form::Damaged => reader.append(&damage(gzip(content), &mut random)),
    }
    let rows = reader.read_to_end();
    match form {
        Form::Plain if MAGIC.iter().any(|magic| content.starts_with(magic)) => {}
        Form::Damaged => compare(&rows, &expected[..rows.len().min(expected.len())]),
        _ => compare(&rows, &expected),
    }
}

/// Returns whether the content is a byte order mark and an unfinished line that is empty or begins
/// with NUL bytes. The source emits such a line as it is.
fn is_unfinished_after_mark(content: &[u8]) -> bool {
    let text = content.strip_prefix(BYTE_ORDER_MARK);
    text.is_some_and(|text| !text.contains(&b'\n') && text.first().is_none_or(|byte| *byte == 0))
}

/// Returns the lines of the content with their offsets.
fn expected_rows(content: &[u8], limits: LineLimits) -> Vec<(u64, Vec<u8>)> {
    let text = content.strip_prefix(BYTE_ORDER_MARK).unwrap_or(content);
    let removed = (content.len() - text.len()) as u64;
    let rows = split_file_lines(text, limits.line_max, limits.long).into_iter();
    rows.map(|(offset, line)| (offset + removed, line)).collect()
}

/// Compares rows; the message shows the first difference.
fn compare(rows: &[(u64, Vec<u8>)], expected: &[(u64, Vec<u8>)]) {
    let differ = |at: &usize| rows.get(*at) != expected.get(*at);
    if let Some(at) = (0..rows.len().max(expected.len())).find(differ) {
        let brief = |row: Option<&(u64, Vec<u8>)>| {
            row.map(|(offset, text)| (*offset, String::from_utf8_lossy(text).into_owned()))
        };
        let (row, wanted) = (brief(rows.get(at)), brief(expected.get(at)));
        panic!("row {at} is {row:?} instead of {wanted:?}");
    }
}

fn gzip(content: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(content).expect("a write to memory");
    encoder.finish().expect("a write to memory")
}

fn zstandard(content: &[u8]) -> Vec<u8> {
    zstd::encode_all(content, 1).expect("a write to memory")
}

/// Returns compressed data that is truncated after its magic number, or in which a byte at the end
/// is changed.
fn damage(mut compressed: Vec<u8>, random: &mut Random) -> Vec<u8> {
    let (begin, end) = (MAGIC[0].len(), compressed.len());
    match random.below(2) {
        0 => compressed.truncate(begin + random.below(end - begin)),
        _ => compressed[end - 1 - random.below(8)] ^= 1,
    }
    compressed
}

/// A source that reads one file.
struct Reader {
    rig: SourceRig,
    source: FileSource,
    folder: tempfile::TempDir,
    limits: LineLimits,
    rows: Vec<(u64, Vec<u8>)>,
}

impl Reader {
    fn new(limits: LineLimits) -> Reader {
        let memory = Path::new("/dev/shm");
        let folder =
            if memory.is_dir() { tempfile::tempdir_in(memory) } else { tempfile::tempdir() };
        let folder = folder.expect("a folder");
        let rig = SourceRig::new(&["out"]);
        let source = open(&rig, folder.path(), limits);
        Reader { rig, source, folder, limits, rows: Vec::new() }
    }

    fn append(&self, bytes: &[u8]) {
        let path = self.folder.path().join("app.log");
        let file = OpenOptions::new().create(true).append(true).open(path);
        file.and_then(|mut file| file.write_all(bytes)).expect("a write to the folder");
    }

    /// Reads until several polls return no data.
    fn read_available(&mut self) {
        (0..3).for_each(|_| while self.poll().is_some_and(|has_rows| has_rows) {});
    }

    /// Commits the checkpoints and restarts, as after a crash.
    fn restart(&mut self) {
        self.rig.commit();
        self.rig = self.rig.restart();
        self.source = open(&self.rig, self.folder.path(), self.limits);
    }

    /// Reads until the source has ended. Returns all rows, including earlier ones, with their
    /// offsets.
    fn read_to_end(mut self) -> Vec<(u64, Vec<u8>)> {
        self.rig.until_eof = true;
        let ended = (0..POLLS_MAX).any(|_| self.poll().is_none());
        assert!(ended, "the source does not end");
        self.rows
    }

    /// Polls once. Returns whether rows were read; `None` if the source has ended.
    fn poll(&mut self) -> Option<bool> {
        match self.rig.poll(&mut self.source) {
            Polled::Batch(batch, _) => {
                self.take(&batch);
                Some(true)
            }
            Polled::Ended => None,
            _ => {
                self.rig.advance(STEP);
                Some(false)
            }
        }
    }

    fn take(&mut self, batch: &Batch) {
        assert_valid(batch);
        for segment in batch.segments.iter() {
            let rows = segment.first_row..segment.first_row + segment.rows;
            let selected = rows.filter(|row| batch.is_selected(*row));
            let row = |row| (batch.offset(segment, row), batch.text(row).to_vec());
            self.rows.extend(selected.map(row));
            segment.ack.finish();
        }
    }
}

fn open(rig: &SourceRig, folder: &Path, limits: LineLimits) -> FileSource {
    let pattern = folder.join("*.log");
    let settings = TailSettings {
        include: vec![Pattern::new(&pattern.to_string_lossy()).expect("a valid pattern")],
        exclude: Exclude::new([]).expect("no pattern"),
        symlinks: Symlinks::SameOwner,
        read_from_end: false,
        ignore_older: None,
        open_files_max: None,
        idle_files_max: None,
        read_timeout: None,
        held: HeldSettings { link: true, copy_at_stop: true, spool: false, bytes_max: None },
        range: None,
        filters: LineFilters::new(None, None).expect("no filter"),
        framing: None,
        header: None,
        limits,
    };
    FileSource::open(settings, rig.open()).expect("a store in memory")
}
