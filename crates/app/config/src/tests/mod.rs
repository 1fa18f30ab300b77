//! From YAML text to settings or errors, with a small catalog.

mod bad;
mod catalog;
mod docs;
mod good;
mod secrets;
mod unit_tests;

use std::fs;
use std::path::PathBuf;

use super::{Config, Fault, load};
use catalog::TestCatalog;

/// A valid source and sink on one line, for tests of other settings.
const REST: &str = "sources: {in: {type: stdin}}\nsinks: {out: {type: console, inputs: [in]}}\n";

fn environment(name: &str) -> Option<String> {
    match name {
        "PORT" => Some("7878".into()),
        "LEVEL" => Some("verbose-secret".into()),
        "GLOB" => Some("/secret/[dir".into()),
        "SIZE" => Some("12345".into()),
        "URL" => Some("https://logs.example.com/in".into()),
        "PASSWORD" => Some("hunter2".into()),
        _ => None,
    }
}

/// Loads files with these names and contents. Folder names are removed from messages.
fn load_files(files: &[(&str, &str)]) -> Result<Config, Vec<String>> {
    let folder = tempfile::tempdir().unwrap();
    let mut paths: Vec<PathBuf> = Vec::new();
    for (name, text) in files {
        paths.push(folder.path().join(name));
        fs::write(paths.last().unwrap(), text).unwrap();
    }
    let prefix = format!("{}/", folder.path().display());
    let shorten = |fault: Fault| fault.to_string().replace(&prefix, "");
    load(&paths, &TestCatalog, &environment)
        .map_err(|faults| faults.into_iter().map(shorten).collect())
}

fn faults_of(text: &str) -> Vec<String> {
    load_files(&[("m.yaml", text)]).expect_err(text)
}

fn good(text: &str) -> Config {
    load_files(&[("m.yaml", text)]).unwrap_or_else(|faults| panic!("{text}\n{}", faults.join("\n")))
}
