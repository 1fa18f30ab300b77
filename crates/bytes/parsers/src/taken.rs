//! For tests: lines parsed, and every cell looked at.

use crate::{Fields, Input, Parser, Reason};
use fastrand::Rng;
use millstream_columns::{Cell, Kind, push_json_string};
use std::fmt::Write;

/// What was found in a line: names, kinds and bytes, in the order of the fields; or why it does not
/// fit and from where on.
pub type Taken = Result<Vec<(String, Kind, Vec<u8>)>, (Reason, usize)>;

/// All lines.
pub struct All {
    pub lines: Vec<Taken>,
    pub bad_types: u64,
    pub duplicates: u64,
}

/// Takes lines apart, once from the block and once from the own buffer of a column: both find the
/// same. Panics if a cell lies neither in its line nor among what the parser wrote.
pub fn take(parser: &mut dyn Parser, lines: &[&[u8]]) -> All {
    let all = take_from(parser, lines, false);
    let own = take_from(parser, lines, true);
    assert_eq!(all.lines, own.lines);
    assert_eq!((all.bad_types, all.duplicates), (own.bad_types, own.duplicates));
    all
}

fn take_from(parser: &mut dyn Parser, lines: &[&[u8]], is_own: bool) -> All {
    let (mut text, mut cells) = (b"\"},".to_vec(), Vec::new());
    let cell = if is_own { Cell::own } else { Cell::new };
    for line in lines {
        cells.push(cell(Kind::Text, text.len(), line.len()));
        text.extend_from_slice(line);
        text.extend_from_slice(b"\"}\n");
    }
    let (block, own) = if is_own { (&b""[..], &text[..]) } else { (&text[..], &b""[..]) };
    let input = Input { block, own, cells: &cells, runs: &[(0, lines.len())], read_ns: 0 };
    let mut fields = Fields::new(lines.len(), own);
    parser.parse(&input, &mut fields);
    let failures = fields.take_failures();
    let (bad_types, duplicates) = (fields.bad_types().len() as u64, fields.duplicates);
    let mut taken: Vec<Taken> = vec![Ok(Vec::new()); lines.len()];
    for column in fields.finish() {
        for (row, cell) in column.cells().iter().enumerate().filter(|(_, cell)| cell.is_present()) {
            let is_placed =
                lies_in(*cell, cells[row]) || cell.is_own() && cell.start() >= own.len();
            assert!(is_placed, "{}: {cell:?} not in {:?}", column.name, cells[row]);
            let bytes = column.bytes(block, *cell).to_vec();
            taken[row].as_mut().unwrap().push((column.name.to_string(), cell.kind(), bytes));
        }
    }
    for failure in failures {
        assert!(failure.at <= lines[failure.row].len(), "{failure:?}");
        assert_eq!(
            taken[failure.row],
            Ok(Vec::new()),
            "no field is left of a line that does not fit"
        );
        taken[failure.row] = Err((failure.reason, failure.at));
    }
    All { lines: taken, bad_types, duplicates }
}

/// Whether a cell lies in the line `within`, or has no bytes to lie anywhere.
fn lies_in(cell: Cell, within: Cell) -> bool {
    let is_constant = matches!(cell.kind(), Kind::Null | Kind::True | Kind::False);
    let end = within.start() + within.len();
    let is_inside = cell.start() >= within.start() && cell.start() + cell.len() <= end;
    is_constant || cell.is_own() == within.is_own() && is_inside
}

/// Takes one line apart.
pub fn take_one(parser: &mut dyn Parser, line: &[u8]) -> Taken {
    take(parser, &[line]).lines.remove(0)
}

/// Fields as `name=value` with blanks between; what does not fit as `!reason@place`. Kinds that the
/// value does not show are written before it.
pub fn show(taken: &Taken) -> String {
    let fields = match taken {
        Ok(fields) => fields,
        Err((reason, at)) => return format!("!{reason}@{at}"),
    };
    let mut shown = String::new();
    for (name, kind, bytes) in fields {
        let value = match kind {
            Kind::Text => format!("'{}'", String::from_utf8_lossy(bytes)),
            Kind::Null | Kind::True | Kind::False => format!("{kind:?}"),
            Kind::Int | Kind::Float | Kind::Object | Kind::Array => {
                String::from_utf8_lossy(bytes).into()
            }
            _ => format!("{kind:?}'{}'", String::from_utf8_lossy(bytes)),
        };
        let _ = write!(shown, "{}{name}={value}", if shown.is_empty() { "" } else { " " });
    }
    shown
}

/// The fields as a JSON object, each copied as an encoder does.
pub fn json(fields: &[(String, Kind, Vec<u8>)]) -> Vec<u8> {
    let mut out = b"{".to_vec();
    for (name, kind, bytes) in fields {
        if out.len() > 1 {
            out.push(b',');
        }
        if *kind == Kind::Members {
            out.extend_from_slice(bytes);
            continue;
        }
        push_json_string(name.as_bytes(), &mut out);
        out.push(b':');
        match kind {
            Kind::Text | Kind::Time => push_json_string(bytes, &mut out),
            Kind::Escaped => out.extend([b"\"", &bytes[..], b"\""].concat()),
            Kind::Null => out.extend_from_slice(b"null"),
            Kind::True => out.extend_from_slice(b"true"),
            Kind::False => out.extend_from_slice(b"false"),
            _ => out.extend_from_slice(bytes),
        }
    }
    out.push(b'}');
    out
}

/// How often the loops over random changes run: `PARSER_CASES`, or `count`.
pub fn cases(count: u64) -> u64 {
    std::env::var("PARSER_CASES").ok().and_then(|text| text.parse().ok()).unwrap_or(count)
}

/// Changes a line at random: bytes exchanged, taken out, doubled, or put in from `words`.
pub fn mutate(line: &mut Vec<u8>, words: &[&[u8]], random: &mut Rng) {
    for _ in 0..1 + random.u64(..4) {
        let at = random.u64(..line.len() as u64 + 1) as usize;
        let end = (at + 1 + random.u64(..6) as usize).min(line.len());
        match random.u64(..5) {
            0 if at < line.len() => line[at] = random.u64(..) as u8,
            1 => drop(line.drain(at..end)),
            2 => {
                let copy = line[at..end].to_vec();
                drop(line.splice(at..at, copy));
            }
            3 => line.truncate(at),
            _ => {
                drop(line.splice(
                    at..at,
                    words[random.u64(..words.len() as u64) as usize].iter().copied(),
                ))
            }
        }
    }
}
