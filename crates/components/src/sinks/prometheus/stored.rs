//! The binary form of the rows of a payload. It omits the keys of series, because the seed of their
//! hash is a secret of the process.

use crate::util::seed::secret_seed;
use millstream_encodings::binary::{Reader, push_bytes, push_number, push_signed};
use millstream_encodings::metric::Kind;
use millstream_encodings::prometheus::{Distributions, RestoredRows, Rows, StoredRow};

/// Appends the rows, without their text.
pub fn write(rows: &Rows, out: &mut Vec<u8>) {
    push_bytes(out, rows.host().as_bytes());
    push_number(out, rows.rows().len() as u64);
    let mut before_ms = 0;
    for row in rows.stored() {
        out.push((row.kind as u8) << 1 | u8::from(row.is_delta));
        push_number(out, u64::from(row.name_len));
        push_number(out, u64::from(row.tags_len));
        push_signed(out, row.time_ms.wrapping_sub(before_ms));
        push_number(out, u64::from(row.interval_ms));
        out.extend_from_slice(&row.value.to_le_bytes());
        push_number(out, row.numbers.len() as u64);
        row.numbers.iter().for_each(|number| out.extend_from_slice(&number.to_le_bytes()));
        before_ms = row.time_ms;
    }
}

/// Reads the rows of this `text`; returns `None` if the bytes are not valid rows of this text with
/// these distributions.
pub fn read(bytes: &[u8], text: &[u8], distributions: &Distributions) -> Option<Rows> {
    let mut reader = Reader::new(bytes);
    let mut rows = RestoredRows::new(distributions, secret_seed(), reader.text()?, text)?;
    let (mut before_ms, mut numbers) = (0_i64, Vec::new());
    for _ in 0..reader.count()? {
        let row = read_row(&mut reader, before_ms, &mut numbers)?;
        before_ms = row.time_ms;
        rows.push(&row)?;
    }
    reader.is_at_end().then(|| rows.finish())?
}

fn read_row<'n>(
    reader: &mut Reader<'_>,
    before_ms: i64,
    numbers: &'n mut Vec<f64>,
) -> Option<StoredRow<'n>> {
    let kinds = [Kind::Counter, Kind::Gauge, Kind::Distribution];
    let flags = reader.byte()?;
    let mut row = StoredRow {
        kind: *kinds.get(usize::from(flags >> 1))?,
        is_delta: flags & 1 == 1,
        name_len: reader.number_32()?,
        tags_len: reader.number_32()?,
        time_ms: before_ms.wrapping_add(reader.signed()?),
        interval_ms: reader.number_32()?,
        value: f64::from_bits(reader.word()?),
        numbers: &[],
    };
    numbers.clear();
    for _ in 0..reader.count()? {
        numbers.push(f64::from_bits(reader.word()?));
    }
    row.numbers = numbers;
    Some(row)
}
