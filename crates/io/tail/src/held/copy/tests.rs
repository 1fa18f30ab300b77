use super::*;
use crate::held::HeldFolder;
use std::fs::{self, File};
use std::io::Write;
use std::time::Duration;
use tempfile::TempDir;

const ID: OriginId = OriginId(7);

fn later() -> Instant {
    Instant::now() + Duration::from_secs(60)
}

/// A file, and the folder of its copies.
struct Fixture {
    dir: TempDir,
    file: File,
    content: Content,
    held: HeldFolder,
}

impl Fixture {
    fn new(text: &[u8]) -> Fixture {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("app.log");
        fs::write(&path, text).unwrap();
        Fixture {
            file: File::options().append(true).open(&path).unwrap(),
            content: Content::new(File::open(&path).unwrap(), &path).unwrap(),
            held: HeldFolder::new(dir.path().join("held/app")),
            dir,
        }
    }

    fn begin(&mut self, from: u64) -> HeldCopy {
        self.held.begin_copy(CopySource::new(ID, &self.content), from).unwrap()
    }

    fn append(&mut self, text: &str) {
        self.file.write_all(text.as_bytes()).unwrap();
    }

    fn read(&self, held: &HeldFile) -> Vec<u8> {
        let mut content = Content::new(self.held.open(held).unwrap(), self.dir.path()).unwrap();
        let mut text = vec![0; content.bytes().unwrap() as usize];
        content.read_all_at(&mut text, 0).unwrap();
        text
    }
}

fn part(from: u64, to: u64) -> Option<CopiedPart> {
    Some(CopiedPart { from, to: Some(to) })
}

/// Lines of 100 bytes.
fn lines(bytes: u64) -> Vec<u8> {
    (0..bytes).map(|n| if n % 100 == 99 { b'\n' } else { n as u8 | 32 }).collect()
}

#[test]
fn a_copy_keeps_head_fingerprint_and_rest_at_their_offsets() {
    let text = lines(3_000_000);
    let mut fixture = Fixture::new(&text);
    let from = 2_000_000;
    let held = fixture.held.copy(ID, &fixture.content, from, later()).unwrap();
    assert_eq!(held.part, part(from, text.len() as u64));
    let copy = fixture.read(&held);
    let (head, fingerprint) =
        (HEAD_BYTES_MAX as usize, from as usize - FINGERPRINT_BYTES_MAX as usize);
    assert_eq!(copy.len(), text.len());
    assert!(copy[..head] == text[..head] && copy[fingerprint..] == text[fingerprint..]);
    assert!(copy[head..fingerprint].iter().all(|byte| *byte == 0));
}

#[test]
fn a_copy_without_time_fails_and_leaves_no_file() {
    let mut fixture = Fixture::new(b"1\n");
    let error = fixture.held.copy(ID, &fixture.content, 0, Instant::now()).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::TimedOut);
    assert_eq!(fs::read_dir(fixture.dir.path().join("held/app")).unwrap().count(), 0);
}

/// A crash in the middle of a copy leaves a valid part, and bytes after it that are ignored.
#[test]
fn a_crash_leaves_the_complete_lines_of_the_synced_sections() {
    let text = lines(SECTION_BYTES + 5_000_000);
    let mut fixture = Fixture::new(&text);
    let mut copy = fixture.begin(0);
    assert_eq!(copy.part(true), None);
    assert_eq!(copy.advance(DiskUse::All, &|| false).unwrap(), Progress::More);
    let held = copy.held(true).unwrap();
    let line_end = SECTION_BYTES / 100 * 100;
    assert_eq!(held.part, part(0, line_end));
    fixture.held.publish(None, &held).unwrap();
    assert_eq!(copy.advance(DiskUse::All, &|| false).unwrap(), Progress::End);
    drop(copy);
    assert_eq!(fixture.held.list().unwrap(), std::slice::from_ref(&held));
    assert!(fixture.read(&held) == text[..line_end as usize]);
}

#[test]
fn a_stopped_copy_continues_where_it_stopped() {
    let text = lines(3_000_000);
    let mut fixture = Fixture::new(&text);
    let mut copy = fixture.begin(0);
    let calls = std::cell::Cell::new(0);
    let is_stopped = || calls.replace(calls.get() + 1) == 2;
    assert_eq!(copy.advance(DiskUse::All, &is_stopped).unwrap(), Progress::Stopped);
    let before = copy.held(true).unwrap();
    assert_eq!(before.part, part(0, 2 * CALL_BYTES / 100 * 100));
    fixture.held.publish(None, &before).unwrap();
    copy.finish(later()).unwrap();
    let held = copy.held(true).unwrap();
    fixture.held.publish(Some(&before), &held).unwrap();
    assert_eq!(fixture.held.list().unwrap(), std::slice::from_ref(&held));
    assert!(fixture.read(&held) == text);
}

#[test]
fn a_copy_follows_a_growing_file_and_leaves_out_its_unfinished_line() {
    let mut fixture = Fixture::new(b"1\n2\nunfin");
    let mut copy = fixture.begin(2);
    copy.finish(later()).unwrap();
    assert_eq!((copy.part(false), copy.part(true)), (part(2, 4), part(2, 9)));
    fixture.append("ished\n3");
    copy.finish(later()).unwrap();
    assert_eq!((copy.part(false), copy.part(true)), (part(2, 15), part(2, 16)));
}

#[test]
fn an_incomplete_copy_of_a_compressed_file_has_no_valid_part() {
    let mut compressed = vec![0x1F, 0x8B, 8];
    compressed.extend(lines(SECTION_BYTES + 1));
    let mut fixture = Fixture::new(&compressed);
    let mut copy = fixture.begin(500);
    assert_eq!(copy.advance(DiskUse::All, &|| false).unwrap(), Progress::More);
    assert_eq!(copy.part(true), None);
    copy.finish(later()).unwrap();
    assert_eq!(copy.part(false), part(0, compressed.len() as u64));
}
