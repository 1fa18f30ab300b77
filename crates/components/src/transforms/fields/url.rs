//! The `url` step: parses a URL into fields (RFC 3986).

use super::{Noted, Step, column, plain, put, rows};
use millstream_model::{Batch, Cell, CellKind, ColumnBuilder};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Maximum number of fields that are created from the URL parameters in one batch.
const PARAMETERS_MAX: usize = 64;

/// Maximum length of a parameter's name in bytes.
const NAME_BYTES_MAX: usize = 128;

/// Names of the parts, in the order in which [`parts`] returns them.
const PARTS: [&str; 6] = ["scheme", "host", "port", "path", "query", "fragment"];

const QUERY: usize = 4;

/// Parses a URL into fields.
pub struct Url {
    pub field: String,
    pub prefix: String,
    /// Whether to store each parameter as a field instead of the query.
    pub parameters: bool,
}

impl Step for Url {
    fn apply(&self, batch: &mut Batch, noted: &mut Noted) {
        let Some(source) = column(batch, &self.field) else { return };
        let mut texts = source.edit();
        texts.cells().fill(Cell::ABSENT);
        for row in rows(batch) {
            let cell = source.cells()[row];
            if let Some((_, whole)) = plain(&mut texts, cell, source.bytes(&batch.block, cell)) {
                texts.set(row, whole);
            }
        }
        let texts = texts.finish(source.name.clone());
        let mut parameters = BTreeMap::new();
        let mut columns: [ColumnBuilder; PARTS.len()] = std::array::from_fn(|_| texts.edit());
        columns.iter_mut().for_each(|column| column.cells().fill(Cell::ABSENT));
        for row in rows(batch).filter(|row| texts.cells()[*row].is_present()) {
            let cell = texts.cells()[row];
            let text = texts.bytes(&batch.block, cell);
            for (part, range) in parts(text).into_iter().enumerate() {
                let Some((start, end)) = range else { continue };
                let is_number = part == 2 && matches!(&text[start..end], [b'1'..=b'9', ..]);
                let kind = if is_number { CellKind::Int } else { CellKind::Text };
                columns[part].set(row, cell.part(kind, start, end - start));
                if part == QUERY && self.parameters {
                    noted.left_out +=
                        take_parameters(&text[start..end], row, batch.rows(), &mut parameters);
                }
            }
        }
        self.put(batch, columns, parameters);
    }
}

impl Url {
    fn put(
        &self,
        batch: &mut Batch,
        columns: [ColumnBuilder; 6],
        parameters: BTreeMap<String, ColumnBuilder>,
    ) {
        for (mut column, part) in columns.into_iter().zip(PARTS) {
            let is_wanted = part != PARTS[QUERY] || !self.parameters;
            if is_wanted && column.cells().iter().any(|cell| cell.is_present()) {
                put(batch, column.finish(Arc::from(format!("{}{part}", self.prefix))));
            }
        }
        for (name, column) in parameters {
            put(batch, column.finish(Arc::from(format!("{}query.{name}", self.prefix))));
        }
    }
}

/// Returns the ranges of the parts. All are `None` for text that is not a URL.
fn parts(text: &[u8]) -> [Option<(usize, usize)>; PARTS.len()] {
    let mut found = [None; PARTS.len()];
    let find = |from: usize, end: usize, byte| {
        text[from..end].iter().position(|one| *one == byte).map(|at| at + from)
    };
    let mut end = text.len();
    if let Some(at) = find(0, end, b'#') {
        (found[5], end) = (Some((at + 1, end)), at);
    }
    if let Some(at) = find(0, end, b'?') {
        (found[QUERY], end) = (Some((at + 1, end)), at);
    }
    let mut path = 0;
    let is_scheme = |byte: &u8| byte.is_ascii_alphanumeric() || b"+-.".contains(byte);
    if let Some(at) = memchr::memmem::find(&text[..end], b"://")
        .filter(|at| *at > 0 && text[..*at].iter().all(is_scheme))
    {
        found[0] = Some((0, at));
        path = find(at + 3, end, b'/').unwrap_or(end);
        let host = text[at + 3..path]
            .iter()
            .rposition(|byte| *byte == b'@')
            .map_or(at + 3, |sign| at + 4 + sign);
        let colon = text[host..path]
            .iter()
            .rposition(|byte| matches!(byte, b':' | b']'))
            .map(|at| at + host);
        let colon = colon.filter(|at| text[*at] == b':');
        found[1] = Some((host, colon.unwrap_or(path))).filter(|(start, end)| start < end);
        let port = colon.map(|at| (at + 1, path));
        found[2] = port.filter(|(start, end)| {
            (1..=5).contains(&(end - start)) && text[*start..*end].iter().all(u8::is_ascii_digit)
        });
    }
    found[3] = Some((path, end)).filter(|(start, end)| start < end);
    found
}

/// Stores the query parameters in their columns. Returns the number of parameters that were left
/// out because they exceed the limits or have no valid name.
fn take_parameters(
    query: &[u8],
    row: usize,
    rows: usize,
    columns: &mut BTreeMap<String, ColumnBuilder>,
) -> u64 {
    let mut left_out = 0;
    for pair in query.split(|byte| *byte == b'&').filter(|pair| !pair.is_empty()) {
        let at = pair.iter().position(|byte| *byte == b'=').unwrap_or(pair.len());
        let name = String::from_utf8(decode(&pair[..at])).unwrap_or_default();
        let fits = !name.is_empty() && name.len() <= NAME_BYTES_MAX;
        if !fits || columns.len() >= PARAMETERS_MAX && !columns.contains_key(&name) {
            left_out += 1;
            continue;
        }
        let column = columns.entry(name).or_insert_with(|| ColumnBuilder::new(rows));
        column.text(row, &decode(pair.get(at + 1..).unwrap_or_default()));
    }
    left_out
}

/// Decodes `%41` and `+` in a query.
fn decode(text: &[u8]) -> Vec<u8> {
    let digit = |at: usize| text.get(at).and_then(|byte| char::from(*byte).to_digit(16));
    let (mut decoded, mut at) = (Vec::with_capacity(text.len()), 0);
    while at < text.len() {
        match (text[at], digit(at + 1), digit(at + 2)) {
            (b'%', Some(high), Some(low)) => {
                decoded.push((high * 16 + low) as u8);
                at += 2;
            }
            (b'+', ..) => decoded.push(b' '),
            (byte, ..) => decoded.push(byte),
        }
        at += 1;
    }
    decoded
}
