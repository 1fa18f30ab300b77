//! Measures the encoders of values as text, which write hexadecimal digits, timestamps and JSON
//! strings, and compares them with naive code and a library.

use crate::measure::{Samples, progress};
use crate::report::{Report, Table};
use chrono::{DateTime, SecondsFormat};
use millstream_expressions::encode_hex;
use millstream_scan::escape_json;
use millstream_timestamps::{Rfc3339, civil};
use std::fmt::Write as _;
use std::hint::black_box;
use std::io::{self, Write as _};
use std::time::Instant;

/// Values per measurement.
const VALUES: usize = 10_000;
const REPETITIONS: usize = 21;
const DAY_MS: i64 = 86_400_000;

/// An encoder with its name. The function appends the value with the given index.
type Encoder<'a> = (&'static str, Box<dyn FnMut(usize, &mut Vec<u8>) + 'a>);

/// Measures and reports the encoders.
pub fn run(report: &mut Report) -> io::Result<()> {
    let mut table = Table::new(
        "encoders",
        "Values to text: ns per value",
        &["value", "millstream", "naive", "library", "times naive", "times the library"],
    );
    let mut random = fastrand::Rng::with_seed(5);
    let ids: Vec<[u8; 8]> = (0..VALUES).map(|_| random.u64(..).to_be_bytes()).collect();
    row(&mut table, "id of 8 bytes, in hexadecimal digits", hex(&ids))?;
    let blobs: Vec<[u8; 1024]> = vec![std::array::from_fn(|_| random.u8(..)); VALUES / 100];
    row(&mut table, "1,024 bytes, in hexadecimal digits", hex(&blobs))?;
    let mut ms = 1_763_700_000_000;
    let times: Vec<i64> = std::iter::repeat_with(|| {
        ms += random.i64(0..4);
        ms
    })
    .take(VALUES)
    .collect();
    row(&mut table, "timestamp, ascending", timestamps(&times))?;
    let times: Vec<i64> = (0..VALUES).map(|_| random.i64(0..2_000_000_000_000)).collect();
    row(&mut table, "timestamp, random", timestamps(&times))?;
    let text = |len: usize, escapes: bool| -> String {
        (0..len)
            .map(|at| if escapes && at % 40 == 39 { '"' } else { (b'a' + at as u8 % 26) as char })
            .collect()
    };
    for (name, text) in [
        ("JSON string of 20 bytes", text(20, false)),
        ("JSON string of 200 bytes", text(200, false)),
        ("JSON string of 200 bytes, 5 quotes", text(200, true)),
    ] {
        row(&mut table, name, strings(&text))?;
    }
    table.note(
        "Libraries: hex, chrono, serde_json. Medians; the output buffer is reused.".to_owned(),
    );
    report.add(table)
}

/// Measures encoders of the same values; the first encoder is the agent's. All encoders must write
/// the same text.
fn row(table: &mut Table, name: &'static str, encoders: [Encoder<'_>; 3]) -> io::Result<()> {
    progress(&format!("encoders: {name}"));
    let mut texts = Vec::new();
    let mut ns = Vec::new();
    for (encoder, mut encode) in encoders {
        let mut text = Vec::new();
        (0..VALUES / 100).for_each(|index| encode(index, &mut text));
        if texts.first().is_some_and(|first| *first != text) {
            return Err(io::Error::other(format!("{name}: {encoder} writes different text")));
        }
        texts.push(text);
        ns.push(measure(&mut encode));
    }
    let cells = ns.iter().map(|ns| format!("{ns:.1}"));
    let ratios = ns[1..].iter().map(|of| format!("{:.1}", of / ns[0]));
    table.row([name.to_owned()].into_iter().chain(cells).chain(ratios).collect());
    Ok(())
}

fn measure(encode: &mut dyn FnMut(usize, &mut Vec<u8>)) -> f64 {
    let (mut samples, mut out) = (Samples::default(), Vec::new());
    for _ in 0..REPETITIONS {
        let begun = Instant::now();
        for index in 0..VALUES {
            out.clear();
            encode(index, &mut out);
            black_box(&out);
        }
        samples.push(begun.elapsed().as_nanos() as f64 / VALUES as f64);
    }
    samples.median()
}

fn hex<const N: usize>(values: &[[u8; N]]) -> [Encoder<'_>; 3] {
    let at = |index: usize| &values[index % values.len()][..];
    [
        ("millstream", Box::new(move |index, out| encode_hex(at(index), out))),
        (
            "naive",
            Box::new(move |index, out| {
                at(index).iter().for_each(|byte| drop(write!(out, "{byte:02x}")));
            }),
        ),
        (
            "library",
            Box::new(move |index, out| {
                let begin = out.len();
                out.resize(begin + 2 * N, 0);
                hex::encode_to_slice(at(index), &mut out[begin..]).unwrap_or_default();
            }),
        ),
    ]
}

fn timestamps(ms: &[i64]) -> [Encoder<'_>; 3] {
    let mut cached = Rfc3339::default();
    [
        (
            "millstream",
            Box::new(move |index, out| out.extend_from_slice(cached.text(ms[index] * 1_000_000))),
        ),
        ("naive", Box::new(move |index, out| naive_timestamp(ms[index], out))),
        (
            "library",
            Box::new(move |index, out| {
                let time = DateTime::from_timestamp_millis(ms[index]).unwrap_or_default();
                let text = time.to_rfc3339_opts(SecondsFormat::Millis, true);
                out.extend_from_slice(text.as_bytes());
            }),
        ),
    ]
}

fn naive_timestamp(ms: i64, out: &mut Vec<u8>) {
    let (year, month, day) = civil(ms.div_euclid(DAY_MS));
    let of_day = ms.rem_euclid(DAY_MS);
    let (hour, minute) = (of_day / 3_600_000, of_day / 60_000 % 60);
    let (second, ms) = (of_day / 1000 % 60, of_day % 1000);
    // A write to memory does not fail.
    let _ = write!(out, "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{ms:03}Z");
}

fn strings(text: &str) -> [Encoder<'_>; 3] {
    [
        (
            "millstream",
            Box::new(move |_, out| {
                out.push(b'"');
                escape_json(text.as_bytes(), out);
                out.push(b'"');
            }),
        ),
        ("naive", Box::new(move |_, out| out.extend_from_slice(naive_string(text).as_bytes()))),
        ("library", Box::new(move |_, out| drop(serde_json::to_writer(out, text)))),
    ]
}

fn naive_string(text: &str) -> String {
    let mut out = String::from("\"");
    for character in text.chars() {
        match character {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            control if control < ' ' => drop(write!(out, "\\u{:04x}", control as u32)),
            other => out.push(other),
        }
    }
    out.push('"');
    out
}
