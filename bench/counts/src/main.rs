//! Counts the instructions of the data path under Callgrind and compares them with recorded counts.
//! On a shared host, measured times do not show the effect of a change, but instruction counts do.
//!
//! This package is separate from `bench` because it must compile in seconds: it depends only on the
//! crates that it measures, and on no crate that uses a network or a JVM.
//!
//! ```text
//! millstream-counts                    counts every load, and compares
//! millstream-counts --accept [NAME]... records the counts of these loads, or of all
//! millstream-counts run NAME           runs one load; Callgrind is started with this command
//! ```

#![forbid(unsafe_code)]

mod callgrind;
mod compare;
mod load;
mod loads;
mod record;
mod text;
mod versions;

use compare::Comparison;
use record::Record;
use std::collections::BTreeMap;
use std::path::Path;
use std::process::ExitCode;
use versions::Versions;

/// The recorded counts.
const RECORDED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/recorded.txt");

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let done = match arguments.as_slice() {
        ["run", name] => run(name).map(|()| true),
        ["--accept", names @ ..] => accept(names).map(|()| true),
        [] => check(),
        _ => Err("usage: millstream-counts [--accept [NAME]... | run NAME]".to_owned()),
    };
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("counts: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Runs one load.
fn run(name: &str) -> Result<(), String> {
    load::run(name, loads::find(name)?)
}

/// Counts all loads, and returns whether the comparison with the recorded counts passes.
fn check() -> Result<bool, String> {
    let recorded = Record::read(Path::new(RECORDED))?;
    let measured = callgrind::count(&loads::names())?;
    let comparison = Comparison {
        measured: &measured,
        recorded: &recorded,
        other_versions: Versions::find()?.differences(&recorded.versions),
        // A build server must have the recorded versions; otherwise the check would pass without a
        // comparison.
        is_strict: std::env::var_os("CI").is_some(),
    };
    print!("{comparison}");
    Ok(comparison.passes())
}

/// Records the counts of the named loads, or of all loads.
fn accept(names: &[&str]) -> Result<(), String> {
    let path = Path::new(RECORDED);
    let all = loads::names();
    if let Some(unknown) = names.iter().find(|name| !all.contains(name)) {
        return Err(format!("there is no load {unknown}; there are {}", all.join(", ")));
    }
    let (versions, mut counts) = (Versions::find()?, BTreeMap::new());
    if !names.is_empty() {
        let before = Record::read(path)?;
        if let Some(difference) = versions.differences(&before.versions).first() {
            return Err(format!("{difference}: record all loads, without names"));
        }
        counts = before.counts;
    }
    let chosen = if names.is_empty() { &all[..] } else { names };
    for (name, measured) in callgrind::count(chosen)? {
        println!("{name}: {} instructions recorded", measured.instructions);
        counts.insert(name, measured.instructions);
    }
    Record { versions, counts }.write(path)
}
