use super::*;
use flate2::Compression;
use flate2::write::GzEncoder;
use std::fs;
use std::io::Write;
use std::path::Path;

fn text(lines: usize) -> Vec<u8> {
    (0..lines).flat_map(|n| format!("line {n} of the content\n").into_bytes()).collect()
}

fn gzip(text: &[u8]) -> Vec<u8> {
    let mut compressed = GzEncoder::new(Vec::new(), Compression::fast());
    compressed.write_all(text).unwrap();
    compressed.finish().unwrap()
}

fn zstd(text: &[u8]) -> Vec<u8> {
    zstd::encode_all(text, 1).unwrap()
}

fn open(path: &Path) -> Content {
    Content::new(File::open(path).unwrap(), path).unwrap()
}

fn whole(content: &mut Content) -> Vec<u8> {
    let mut all = vec![0; 1 << 20];
    let n = content.read_all_at(&mut all, 0).unwrap();
    all.truncate(n);
    all
}

/// Creates a temporary file with this content.
fn file(bytes: &[u8]) -> tempfile::NamedTempFile {
    let file = tempfile::NamedTempFile::new().unwrap();
    fs::write(file.path(), bytes).unwrap();
    file
}

#[test]
fn any_offset_of_plain_gzip_and_zstd_reads_the_same() {
    let text = text(9000);
    for compressed in
        [text.clone(), gzip(&text), zstd(&text), [gzip(&text[..99]), gzip(&text[99..])].concat()]
    {
        let file = file(&compressed);
        let mut content = open(file.path());
        assert_eq!(content.bytes().unwrap(), text.len() as u64);
        for offset in [0, 1, 70_000, 99, text.len() - 1, 3, text.len(), text.len() + 5] {
            let mut buffer = [0; 100];
            let n = content.read_at(&mut buffer, offset as u64).unwrap();
            let rest = text.get(offset..).unwrap_or_default();
            assert_eq!(buffer[..n], rest[..n], "at {offset}");
            assert_eq!(n, rest.len().min(100), "at {offset}");
            if offset == 99 {
                content.release_decoder();
            }
        }
        assert_eq!(whole(&mut content), text);
    }
}

#[test]
fn bytes_that_are_pushed_back_are_read_next() {
    let text = text(9000);
    for compressed in [gzip(&text), zstd(&text)] {
        let file = file(&compressed);
        let (mut content, mut all, mut buffer) = (open(file.path()), Vec::new(), vec![0; 1000]);
        loop {
            let n = content.read_at(&mut buffer, all.len() as u64).unwrap();
            if n == 0 {
                break;
            }
            let used = n - n / 3;
            content.unread_last(&buffer[used..n]);
            all.extend_from_slice(&buffer[..used]);
            assert!(!content.at_end(text.len() as u64 - 1).unwrap());
        }
        assert_eq!(all, text);
        assert!(content.at_end(text.len() as u64).unwrap());
    }
}

#[test]
fn a_growing_compressed_file_is_read_up_to_its_current_end() {
    let (text, compressed) = (text(9000), gzip(&text(9000)));
    let file = file(b"");
    let mut content = open(file.path());
    assert_eq!(whole(&mut content), b"");
    fs::write(file.path(), &compressed[..compressed.len() / 2]).unwrap();
    let half = whole(&mut content);
    assert!(content.is_compressed() && !half.is_empty() && text.starts_with(&half));
    let mut buffer = [0; 10];
    assert_eq!(content.read_at(&mut buffer, half.len() as u64).unwrap(), 0);
    fs::write(file.path(), &compressed).unwrap();
    let n = content.read_at(&mut buffer, half.len() as u64).unwrap();
    assert_eq!(buffer[..n], text[half.len()..half.len() + n]);
    assert_eq!(whole(&mut content), text);
    assert_eq!(content.error(), None);
}

#[test]
fn corrupt_data_ends_the_content_without_an_io_error() {
    let text = text(9000);
    for mut compressed in [gzip(&text), zstd(&text)] {
        let middle = compressed.len() / 2;
        compressed[middle..middle + 8].fill(0xAA);
        let file = file(&compressed);
        let mut content = open(file.path());
        let read = whole(&mut content);
        assert_ne!(read, text);
        assert!(content.error().is_some());
        assert_eq!(content.read_at(&mut [0; 10], read.len() as u64).unwrap(), 0);
    }
}
