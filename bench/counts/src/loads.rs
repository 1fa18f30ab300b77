//! The loads, by name.

mod encode;
mod events;
mod filter;
mod framing;
mod ledger;
mod parse;
mod points;
mod read;
mod rules;

use crate::load::Create;

/// All loads, in the order in which the data path processes a line.
pub const ALL: &[(&str, Create)] = &[
    ("read_lines", read::read_lines),
    ("multiline", framing::multiline),
    ("nginx", parse::nginx),
    ("json", parse::json),
    ("delimited", parse::delimited),
    ("key_value", parse::key_value),
    ("cef", parse::cef),
    ("filter", filter::filter),
    ("rules_1000", rules::rules),
    ("json_out", encode::json),
    ("text_out", encode::text),
    ("bulk_out", encode::bulk),
    ("ledger_10000", ledger::small_batches),
    ("dogstatsd", points::dogstatsd),
    ("metric_server", points::metric_server),
];

/// Returns the names of all loads.
pub fn names() -> Vec<&'static str> {
    ALL.iter().map(|(name, _)| *name).collect()
}

/// Finds a load by its name.
pub fn find(name: &str) -> Option<Create> {
    ALL.iter().find(|(known, _)| *known == name).map(|(_, create)| *create)
}
