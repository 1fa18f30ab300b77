//! Loads that parse lines into fields.

use super::events::{Block, access_parser};
use crate::load::Load;
use crate::text::{self, FIELDS, WriteLine};
use millstream_parsers::{
    Cef, Delimited, DelimitedConfig, EventConfig, Json, JsonConfig, KeyValue, KeyValueConfig,
    Parser,
};
use std::hint::black_box;

/// Parses access lines into 11 fields.
pub fn nginx() -> Load {
    parse(text::access, access_parser())
}

/// Parses JSON lines into flat fields.
pub fn json() -> Load {
    let config = JsonConfig { flatten: true, ..JsonConfig::default() };
    parse(text::json, Json::new(&config).expect("valid options"))
}

/// Parses lines with commas into ten fields.
pub fn delimited() -> Load {
    let fields = (0..FIELDS).map(|field| (format!("field{field}").into(), None)).collect();
    let config = DelimitedConfig { fields, ..DelimitedConfig::default() };
    parse(text::delimited, Delimited::new(config).expect("a format"))
}

/// Parses lines of ten pairs into fields.
pub fn key_value() -> Load {
    parse(text::key_value, KeyValue::new(KeyValueConfig::default()).expect("a format"))
}

/// Parses CEF lines into their header and twelve pairs.
pub fn cef() -> Load {
    parse(text::cef, Cef::new(EventConfig { escapes: true, ..EventConfig::default() }))
}

fn parse(write: WriteLine, mut parser: impl Parser + 'static) -> Load {
    let block = Block::new(write);
    Load::new("line", move || {
        black_box(block.parse(&mut parser));
        block.cells.len() as u64
    })
}
