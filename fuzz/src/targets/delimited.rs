//! Delimited lines, such as CSV, and lines of key-value pairs.

use crate::cells::Found;
use crate::lines::{lines, lossy, take};
use millstream_columns::Kind;
use millstream_parsers::{Delimited, DelimitedConfig, KeyValue, KeyValueConfig, Type, Unequal};
use std::collections::BTreeMap;

pub const WORDS: &[&[u8]] = &[
    b",",
    b"\t",
    b"||",
    b"|",
    b"\"",
    b"\"\"",
    b"\",\"",
    b"'",
    b";",
    b" ",
    b"\n",
    b"\r",
    b"true",
    b"-1",
    b"007",
    b"1.50",
    b"+3",
    b"1e5",
    b"10.0.0.1",
    b"\xFF",
    b"\0",
    b"0123456789abcdef0123456789abcdef",
    b"::1",
    b"99999999999999999999",
];
pub const PAIR_WORDS: &[&[u8]] = &[
    b"=",
    b"a=",
    b" ",
    b"\"",
    b"\\\"",
    b"\\\\",
    b"=\"",
    b"\" ",
    b"a=b ",
    b"key=\"v w\"",
    b"\t",
    b":",
    b"a:b\t",
    b"||",
    b"->",
    b"-",
    b">",
    b"\\u0041",
    b"\\n",
    b"\n",
    b"level=info ",
    b"status=200",
    b"long_name_of_a_key=",
    b"\xFF",
    b"'",
];

const NAMES: [&str; 4] = ["a", "b", "c", "d"];

/// Parses CSV in several forms. Without quotes, checks that the fields equal the parts of a split.
pub fn delimited(input: &[u8]) {
    let lines = lines(input);
    let types = [Some(Type::Int), Some(Type::Float), Some(Type::Bool), None];
    let typed = fields(types);
    let csv = DelimitedConfig { fields: typed.clone(), ..DelimitedConfig::default() };
    take(&mut parser(csv.clone()), &lines);
    let strict =
        DelimitedConfig { on_extra: Unequal::Fail, on_missing: Unequal::Fail, ..csv.clone() };
    take(
        &mut parser(DelimitedConfig { delimiter: "||".into(), trim: true, ..strict.clone() }),
        &lines,
    );
    take(
        &mut parser(DelimitedConfig { delimiter: ";".into(), quote: Some(b'\''), ..strict }),
        &lines,
    );
    let (escapes, null_values) = (true, vec![b"-1".to_vec()]);
    take(&mut parser(DelimitedConfig { escapes, null_values, ..csv.clone() }), &lines);
    let plain = fields([None, None, None, None]);
    let tabs = DelimitedConfig { delimiter: "\t".into(), quote: None, fields: plain, ..csv };
    for (line, row) in lines.iter().zip(take(&mut parser(tabs), &lines)) {
        let values = NAMES.iter().zip(line.split(|byte| *byte == b'\t'));
        let expected =
            values.filter(|(_, value)| !value.is_empty()).map(|(name, value)| pair(name, value));
        assert_eq!(row, Ok(expected.collect()), "{}", lossy(line));
    }
}

fn fields(types: [Option<Type>; 4]) -> Vec<(std::sync::Arc<str>, Option<Type>)> {
    NAMES.iter().zip(types).map(|(name, of)| ((*name).into(), of)).collect()
}

fn parser(config: DelimitedConfig) -> Delimited {
    Delimited::new(config).expect("a configuration that is possible")
}

fn pair(name: &str, value: &[u8]) -> (String, Found) {
    (name.to_owned(), (Kind::Text, value.to_vec()))
}

/// Parses pairs in several forms. For LTSV, which has no quotes, checks that the fields equal those
/// found with splits.
pub fn key_value(input: &[u8]) {
    let lines = lines(input);
    let types = vec![("status".into(), Type::Int), ("a".into(), Type::Float)];
    take(&mut pairs(KeyValueConfig { types, ..KeyValueConfig::default() }), &lines);
    take(&mut pairs(KeyValueConfig::logfmt()), &lines);
    let (field_delimiter, key_value_delimiter) = ("||".into(), "->".into());
    let long = KeyValueConfig { field_delimiter, key_value_delimiter, ..KeyValueConfig::default() };
    take(&mut pairs(KeyValueConfig { quotes: b"'".to_vec(), ..long.clone() }), &lines);
    let (escapes, null_values) = (false, vec![b"-".to_vec()]);
    let field_delimiter = "|".into();
    take(&mut pairs(KeyValueConfig { field_delimiter, escapes, null_values, ..long }), &lines);
    for (line, row) in lines.iter().zip(take(&mut pairs(KeyValueConfig::ltsv()), &lines)) {
        // Names that are not UTF-8, and names beyond the maximum number of columns, share an extra
        // field with an empty name.
        let row = row.ok().map(|mut found| {
            found.remove("");
            found
        });
        assert_eq!(row, labelled(line), "{}", lossy(line));
    }
}

fn pairs(config: KeyValueConfig) -> KeyValue {
    KeyValue::new(config).expect("a configuration that is possible")
}

/// Returns the fields of an LTSV line; `None` if the line has no pair.
fn labelled(line: &[u8]) -> Option<BTreeMap<String, Found>> {
    let split = |piece| -> Option<(&[u8], &[u8])> {
        let piece: &[u8] = piece;
        let at = piece.iter().position(|byte| *byte == b':')?;
        Some((&piece[..at], &piece[at + 1..]))
    };
    let pieces: Vec<_> = line.split(|byte| *byte == b'\t').filter_map(split).collect();
    let kept = pieces.iter().filter(|(key, value)| !key.is_empty() && !value.is_empty());
    let kept = kept.filter_map(|(key, value)| Some(pair(std::str::from_utf8(key).ok()?, value)));
    pieces.iter().any(|(key, _)| !key.is_empty()).then(|| kept.collect())
}
