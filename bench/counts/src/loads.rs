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
///
/// # Errors
/// Returns an error if there is no such load.
pub fn find(name: &str) -> Result<Create, String> {
    let found = ALL.iter().find(|(known, _)| *known == name).map(|(_, create)| *create);
    found.ok_or_else(|| format!("there is no load {name}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_load_has_as_many_units_in_each_pass() {
        for (name, create) in ALL {
            let mut load = create();
            let units = [(); 3].map(|()| (load.pass)());
            assert!(units[0] > 0 && units == [units[0]; 3], "{name}: {units:?}");
        }
    }
}
