//! Tests that `docs/reference/guarantees.md` cites an existing test for every guarantee.

use super::{fail_if_any, root};
use std::fs;
use std::path::Path;

/// Least number of citations on the page; guards against a test that fails to read it.
const NAMED_MIN: usize = 550;

/// Returns the citations of the page: code spans such as `kill.rs::a_line_survives`.
fn named(page: &str) -> Vec<(&str, &str)> {
    let between = page.split('`').skip(1).step_by(2);
    between
        .filter_map(|text| text.split_once("::"))
        .filter(|(file, _)| file.ends_with(".rs"))
        .collect()
}

/// Collects the Rust files below a folder with their texts.
fn collect(folder: &Path, found: &mut Vec<(String, String)>) {
    for entry in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap()) {
        let path = entry.path();
        if entry.file_type().unwrap().is_dir() {
            collect(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push((path.display().to_string(), fs::read_to_string(&path).unwrap()));
        }
    }
}

/// Returns whether the text contains this function with a test attribute.
fn has_test(text: &str, function: &str) -> bool {
    let lines: Vec<&str> = text.lines().map(str::trim).collect();
    let is_it =
        |line: &&str| line.split_once("fn ").is_some_and(|(_, rest)| name(rest) == function);
    lines.iter().enumerate().filter(|(_, line)| is_it(line)).any(|(at, _)| {
        let mut above = lines[..at].iter().rev().take_while(|line| line.starts_with(['#', '/']));
        above.any(|line| *line == "#[test]" || line.starts_with("#[tokio::test"))
    })
}

/// Returns the name at the start of a declaration.
fn name(rest: &str) -> &str {
    let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
    &rest[..end]
}

#[test]
fn every_promise_names_a_test_that_exists() {
    let page = fs::read_to_string(root().join("docs/reference/guarantees.md")).unwrap();
    let named = named(&page);
    assert!(named.len() >= NAMED_MIN, "{} tests are named", named.len());
    let mut files = Vec::new();
    ["crates", "src", "tests"].iter().for_each(|folder| collect(&root().join(folder), &mut files));
    let faults = named.into_iter().filter_map(|(file, function)| {
        // The tests of a file may be in a separate file.
        let places = [format!("/{file}"), format!("/{}/tests.rs", file.trim_end_matches(".rs"))];
        let is_place = |path: &str| places.iter().any(|place| path.ends_with(place));
        let is_there =
            |(path, text): &&(String, String)| is_place(path) && has_test(text, function);
        match files.iter().filter(is_there).count() {
            1 => None,
            count => Some(format!(
                "docs/reference/guarantees.md: {file}::{function}: there are {count} such tests"
            )),
        }
    });
    fail_if_any(faults.collect());
}

#[test]
fn only_functions_with_a_test_attribute_count() {
    let text = "fn helper() {}\n#[test]\nfn one() {}\n  #[test]\n  // why\n  fn two(\n#[tokio::test]\nasync fn three() {}";
    let all = ["helper", "one", "two", "three", "thre", "on"].map(|name| has_test(text, name));
    assert_eq!(all, [false, true, true, true, false, false]);
    assert_eq!(named("see `a.rs::b`, `c::d` and `e/f.rs::g`"), [("a.rs", "b"), ("e/f.rs", "g")]);
}
