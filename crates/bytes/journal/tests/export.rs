//! The export format of journalctl.

use crate::fixtures::Pair;
use std::collections::HashMap;

/// An exported entry.
#[derive(Debug)]
pub struct Exported {
    /// The parts of the cursor, such as `i`, the sequence number.
    pub cursor: HashMap<String, String>,
    /// The fields, without addresses and without the id of the boot.
    pub pairs: Vec<Pair>,
}

/// Parses exported entries.
pub fn parse(mut bytes: &[u8]) -> Vec<Exported> {
    let mut entries = Vec::new();
    let mut entry = Exported { cursor: HashMap::new(), pairs: Vec::new() };
    while !bytes.is_empty() {
        let line = until(&mut bytes, b'\n');
        if line.is_empty() {
            entries.push(entry);
            entry = Exported { cursor: HashMap::new(), pairs: Vec::new() };
            continue;
        }
        let (name, value) = match line.iter().position(|byte| *byte == b'=') {
            Some(at) => (&line[..at], &line[at + 1..]),
            None => {
                let (len, rest) = bytes.split_at(8);
                let len = u64::from_le_bytes(len.try_into().unwrap()) as usize;
                let (value, rest) = rest.split_at(len);
                bytes = &rest[1..];
                (line, value)
            }
        };
        if name == b"__CURSOR" {
            entry.cursor = cursor(std::str::from_utf8(value).unwrap());
        } else if !name.starts_with(b"__") && name != b"_BOOT_ID" {
            entry.pairs.push((name.to_vec(), value.to_vec()));
        }
    }
    entries
}

fn cursor(text: &str) -> HashMap<String, String> {
    let parts = text.split(';').map(|part| part.split_once('=').unwrap());
    parts.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}

/// Splits off the bytes before the next `end`.
fn until<'a>(bytes: &mut &'a [u8], end: u8) -> &'a [u8] {
    let at = bytes.iter().position(|byte| *byte == end).unwrap();
    let (line, rest) = bytes.split_at(at);
    *bytes = &rest[1..];
    line
}
