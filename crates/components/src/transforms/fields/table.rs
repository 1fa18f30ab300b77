//! The `lookup` step: values from a table.

use super::config::Constant;
use super::constant::{constant, written};
use super::{Noted, Step, change, plain};
use millstream_model::{Batch, Cell, CellKind};
use std::collections::HashMap;
use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::sync::Arc;

/// Maximum size of a table file in bytes. The table stays in memory while the agent runs.
const FILE_BYTES_MAX: u64 = 32 << 20;

/// Looks values up in a table.
pub struct Lookup {
    pub field: String,
    pub to: Arc<str>,
    pub table: Table,
    pub default: Option<usize>,
}

/// A table, which maps keys to values by their indexes.
#[derive(Default)]
pub struct Table {
    keys: HashMap<Vec<u8>, usize>,
    values: Vec<(CellKind, Vec<u8>)>,
}

impl Table {
    /// Adds a key, or replaces its value.
    pub fn add(&mut self, key: &[u8], value: &Constant) {
        let index = self.value(value);
        self.keys.insert(key.to_vec(), index);
    }

    /// Adds a value without a key, and returns its index.
    pub fn value(&mut self, value: &Constant) -> usize {
        self.values.push(written(value));
        self.values.len() - 1
    }

    /// Adds the lines of a CSV file; each line is `key,value`. The error names the invalid line.
    pub fn read(&mut self, path: &Path) -> Result<(), String> {
        let shown = path.display();
        let mut text = Vec::new();
        let file = File::open(path).map_err(|error| format!("cannot open {shown}: {error}"))?;
        let read = file.take(FILE_BYTES_MAX + 1).read_to_end(&mut text);
        read.map_err(|error| format!("cannot read {shown}: {error}"))?;
        if text.len() as u64 > FILE_BYTES_MAX {
            return Err(format!("{shown} is larger than 32 MiB; remove entries"));
        }
        for (number, line) in text.split(|byte| *byte == b'\n').enumerate() {
            let line = line.strip_suffix(b"\r").unwrap_or(line);
            if line.is_empty() {
                continue;
            }
            let number = number + 1;
            let pair = parse_pair(line).ok_or_else(|| {
                format!("{shown}, line {number} is not `key,value`; write a key and a value")
            })?;
            self.values.push((CellKind::Text, pair.1));
            self.keys.insert(pair.0, self.values.len() - 1);
        }
        Ok(())
    }
}

/// Parses the key and value of a CSV line (RFC 4180).
fn parse_pair(line: &[u8]) -> Option<(Vec<u8>, Vec<u8>)> {
    let (key, rest) = unquote(line)?;
    let (value, rest) = unquote(rest.strip_prefix(b",")?)?;
    rest.is_empty().then_some((key, value))
}

/// Parses the first value of a line. Returns the value and the rest of the line.
fn unquote(line: &[u8]) -> Option<(Vec<u8>, &[u8])> {
    let Some(mut rest) = line.strip_prefix(b"\"") else {
        let end = line.iter().position(|byte| *byte == b',').unwrap_or(line.len());
        return Some((line[..end].to_vec(), &line[end..]));
    };
    let mut value = Vec::new();
    loop {
        let end = rest.iter().position(|byte| *byte == b'"')?;
        value.extend_from_slice(&rest[..end]);
        rest = &rest[end + 1..];
        match rest.strip_prefix(b"\"") {
            Some(more) => {
                value.push(b'"');
                rest = more;
            }
            None => return Some((value, rest)),
        }
    }
}

impl Step for Lookup {
    fn apply(&self, batch: &mut Batch, _: &mut Noted) {
        // Each value is added to the column once.
        let mut cells: HashMap<usize, Cell> = HashMap::new();
        change(batch, &self.field, &self.to, |made, cell, bytes| {
            let is_same = *self.field == *self.to;
            let Some((text, _)) = plain(made, cell, bytes) else { return cell };
            let found = self.table.keys.get(&*text).copied().or(self.default);
            match found {
                Some(index) => *cells.entry(index).or_insert_with(|| {
                    let (kind, text) = &self.table.values[index];
                    constant(made, *kind, text)
                }),
                None if is_same => cell,
                None => Cell::ABSENT,
            }
        });
    }
}
