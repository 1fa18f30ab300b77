//! Configurations in YAML.

use crate::lines::lossy;
use millstream_config::{Config, Fault, Registry, load, redacted};
use serde_json::Value;
use std::fs;
use std::path::PathBuf;
use std::slice;
use tempfile::TempDir;

pub const WORDS: &[&[u8]] = &[
    b"sources:\n  app:\n    type: file\n",
    b"transforms:\n  t:\n    type: parse\n",
    b"sinks:\n  out:\n    type: http\n",
    b"    inputs: [app]\n",
    b"{ type: stdin }",
    b"{ type: console, inputs: [in] }",
    b"tests:\n",
    b"&a ",
    b"*a",
    b"<<: ",
    b"!!str ",
    b"!!binary ",
    b"|+\n",
    b">-\n",
    b"? ",
    b"---\n",
    b"...\n",
    b"${PORT}",
    b"${PASSWORD:-x}",
    b"$${",
    b"10MiB",
    b"1h30m",
    b"-1",
    b"0x7f",
    b".inf",
    b"1e999",
    b"null",
    b"~",
    b"true",
    b"\t",
    b"# ",
    b"'",
    b"\"\\u0000\"",
    b"{}",
    b"[]",
];

/// Value of every variable. Inputs never contain this text.
const VARIABLE: &str = "v4riab1e-va1ue";

/// Folders with files that are endless, or block until another process writes.
const DEVICES: [&[u8]; 3] = [b"/dev", b"/proc", b"/sys"];

/// A file with a configuration.
struct Written {
    _folder: TempDir,
    path: PathBuf,
}

impl Written {
    fn new(text: &[u8]) -> Written {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("m.yaml");
        fs::write(&path, text).expect("a file");
        Written { _folder: folder, path }
    }

    fn load(&self) -> Result<Config, Vec<Fault>> {
        load(slice::from_ref(&self.path), &Registry, &|_| Some(VARIABLE.to_owned()))
    }
}

/// Checks that a configuration stays the same when it is read again, when a comment is appended,
/// and when its JSON is formatted differently; that the positions of errors are in the file; and
/// that neither errors nor the redacted configuration contain the value of a variable.
pub fn config(input: &[u8]) {
    if DEVICES.iter().any(|device| input.windows(device.len()).any(|part| part == *device)) {
        return;
    }
    let file = Written::new(input);
    let loaded = file.load();
    match (&loaded, file.load()) {
        (Ok(one), Ok(other)) => assert_eq!(one.hash, other.hash, "{}", lossy(input)),
        (Err(one), Err(other)) => assert_eq!(*one, other, "{}", lossy(input)),
        _ => panic!("valid once only: {}", lossy(input)),
    }
    let faults = match &loaded {
        Ok(config) => &config.warnings,
        Err(faults) => faults,
    };
    assert!(faults.is_sorted(), "{faults:?}");
    faults.iter().for_each(|fault| is_readable(fault, input));
    hides_variables(&file);
    if loaded.is_ok() && input.ends_with(b"\n") {
        let commented = Written::new(&[input, b"# a comment\n"].concat());
        is_same(&loaded, &commented.load(), input);
    }
    if let Ok(json @ Value::Object(_)) = serde_json::from_slice(input) {
        let short = Written::new(json.to_string().as_bytes());
        let long = Written::new(format!("{json:#}").as_bytes());
        is_same(&short.load(), &long.load(), input);
    }
}

/// Checks that both are valid and equal, or both invalid.
fn is_same(one: &Result<Config, Vec<Fault>>, other: &Result<Config, Vec<Fault>>, input: &[u8]) {
    let hash = |loaded: &Result<Config, Vec<Fault>>| loaded.as_ref().ok().map(|config| config.hash);
    let faults = || [one, other].map(|loaded| loaded.as_ref().err());
    assert_eq!(hash(one), hash(other), "{}: {:?}", lossy(input), faults());
}

/// Checks the position and the text of an error.
fn is_readable(fault: &Fault, input: &[u8]) {
    let shown = fault.to_string();
    assert!(!fault.what.is_empty() && !shown.contains('\n'), "{shown:?}");
    assert!(!shown.contains(VARIABLE), "{shown}: {}", lossy(input));
    let Some(place) = &fault.place else { return };
    let text = String::from_utf8_lossy(input);
    // YAML also ends lines with a carriage return.
    let lines = text.split(['\n', '\r']).count();
    assert!(place.line >= 1 && place.column >= 1, "{shown}");
    assert!(place.line <= lines + 1, "{shown}: {}", lossy(input));
    assert!(place.column <= text.chars().count() + 1, "{shown}: {}", lossy(input));
}

/// Checks that the redacted configuration does not contain the values of variables.
fn hides_variables(file: &Written) {
    let shown = redacted(slice::from_ref(&file.path), &Registry, &|_| Some(VARIABLE.to_owned()));
    for (_, content) in &shown.files {
        let text = content.as_ref().map_or_else(Clone::clone, Value::to_string);
        assert!(!text.contains(VARIABLE), "{text}");
    }
}
