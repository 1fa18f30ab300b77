//! Rules for the repository: dependencies between crates, function lengths, contents of a
//! component's folder.

mod circles;
mod dependencies;
mod io;
mod layers;
mod random;
mod rust;
mod size;

use millstream_components::registry::rows;
use rust::{Function, functions, production, test_modules};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// Maximum length of a handwritten file in lines.
const FILE_LINES_MAX: usize = 800;

/// Length of a function that fits a screen.
const SCREEN_LINES: usize = 36;

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

fn fail_if_any(faults: Vec<String>) {
    assert!(faults.is_empty(), "{} faults:\n{}", faults.len(), faults.join("\n"));
}

/// Lists the files below a folder as paths from the root, except those in generated folders.
fn files(folder: &str) -> Vec<String> {
    let mut found = Vec::new();
    for entry in fs::read_dir(root().join(folder)).unwrap().map(|entry| entry.unwrap()) {
        let name = entry.file_name().to_string_lossy().into_owned();
        let path = if folder.is_empty() { name.clone() } else { format!("{folder}/{name}") };
        let is_made = ["target", ".git", "data", "results"].contains(&name.as_str());
        match entry.file_type().unwrap().is_dir() {
            true if !is_made => found.extend(files(&path)),
            true => {}
            false => found.push(path),
        }
    }
    found.sort();
    found
}

/// Returns the production code by file, without code that is compiled for tests only.
fn sources(folders: &[&str]) -> Vec<(String, String)> {
    let all = folders.iter().flat_map(|folder| files(folder)).filter(|path| path.ends_with(".rs"));
    let all: Vec<(String, String)> = all.map(|path| (path.clone(), read(&path))).collect();
    let tests: Vec<String> = all.iter().flat_map(|(path, text)| test_files(path, text)).collect();
    let is_test = |path: &str| {
        tests
            .iter()
            .any(|test| path == format!("{test}.rs") || path.starts_with(&format!("{test}/")))
    };
    let is_library = |path: &str| {
        !path.starts_with("crates/testing/") && (path.starts_with("src/") || path.contains("/src/"))
    };
    let kept = all.into_iter().filter(|(path, _)| is_library(path) && !is_test(path));
    kept.map(|(path, text)| (path, production(&text))).collect()
}

/// Returns the paths of a file's test-only modules, without extension.
fn test_files(path: &str, text: &str) -> Vec<String> {
    let stem = path.trim_end_matches(".rs");
    let owns_folder = ["/lib", "/main", "/mod"].iter().any(|name| stem.ends_with(name));
    let folder =
        if owns_folder { stem.rsplit_once('/').map_or("", |(folder, _)| folder) } else { stem };
    test_modules(text).iter().map(|name| format!("{folder}/{name}")).collect()
}

/// The sentence at the top of a crate that fences `unsafe` code.
const FENCES_UNSAFE: &str = "A separate crate because it fences `unsafe`";

/// The other reasons for a crate: the sentence at the top of its `lib.rs`.
const CRATE_REASONS: &[&str] = &[
    "A separate crate because it is pure and fuzzed alone.",
    "A separate crate because it cuts a dependency: ",
];

/// The sentence of the crates in [`TOOLS`], which no other crate may use.
const TOOL: &str = "A separate crate because it is a tool with separate tests.";

/// The crates that have no other reason than [`TOOL`].
const TOOLS: &[&str] = &["crates/app/commands/src/lib.rs"];

#[test]
fn every_crate_states_its_reason_and_forbids_unsafe_code_unless_it_fences_it() {
    let is_library = |path: &&String| path.ends_with("/src/lib.rs");
    let paths = files("crates");
    fail_if_any(paths.iter().filter(is_library).filter_map(|path| wrong_crate(path)).collect());
}

fn wrong_crate(path: &str) -> Option<String> {
    let text = read(path);
    let top = text.lines().map_while(|line| line.strip_prefix("//!"));
    let top = top.map(str::trim).collect::<Vec<_>>().join(" ");
    if top.contains(FENCES_UNSAFE) {
        return None;
    }
    let is_tool = TOOLS.contains(&path) && top.contains(TOOL);
    if !is_tool && !CRATE_REASONS.iter().any(|reason| top.contains(reason)) {
        return Some(format!("{path}: does not state why it is a separate crate"));
    }
    let is_safe = text.lines().any(|line| line == "#![forbid(unsafe_code)]");
    (!is_safe).then(|| format!("{path}: `#![forbid(unsafe_code)]` is missing"))
}

/// A glob import hides which parts of its parent a module uses.
#[test]
fn no_module_imports_all_of_its_parent() {
    let imports = |text: &str| text.contains("use super::*;");
    let found = sources(&["crates", "src"]).into_iter().filter(|(_, text)| imports(text));
    fail_if_any(found.map(|(path, _)| format!("{path}: `use super::*`; name the items")).collect());
}

#[test]
fn functions_stay_short() {
    let all: Vec<(String, Function)> = sources(&["src", "crates"])
        .iter()
        .flat_map(|(path, text)| functions(text).into_iter().map(|f| (path.clone(), f)))
        .collect();
    let longest = all.iter().map(|(_, f)| f.lines).max().unwrap();
    let short = all.iter().filter(|(_, f)| f.lines <= SCREEN_LINES).count();
    let percent = short * 100 / all.len();
    let (ceiling, floor) =
        (recorded("longest_function_lines"), recorded("functions_on_one_screen_percent"));
    let mut long: Vec<_> = all.iter().filter(|(_, f)| f.lines > SCREEN_LINES).collect();
    long.sort_by_key(|(_, f)| std::cmp::Reverse(f.lines));
    let shown = long
        .iter()
        .map(|(path, f)| format!("  {path}:{}: {} has {} lines", f.line, f.name, f.lines));
    let shown = shown.collect::<Vec<_>>().join("\n");
    assert!(
        longest <= ceiling,
        "a function has {longest} lines, {ceiling} is the most; cut it in parts:\n{shown}"
    );
    assert!(
        percent >= floor,
        "{percent}% of the functions have up to {SCREEN_LINES} lines, {floor}% is the least:\n{shown}"
    );
    assert!(
        longest == ceiling && percent == floor,
        "functions have become shorter: write longest_function_lines = {longest} and \
         functions_on_one_screen_percent = {percent} into tests/tidy/ratchet.toml"
    );
}

fn recorded(key: &str) -> usize {
    let text = read("tests/tidy/ratchet.toml");
    let value = text.lines().find_map(|line| line.strip_prefix(key)?.trim().strip_prefix('='));
    value
        .and_then(|value| value.trim().parse().ok())
        .unwrap_or_else(|| panic!("ratchet.toml: no number for {key}"))
}

/// Modules that several components of one kind share.
const SHARED: &[&str] = &[
    "sinks/http_delivery",
    "sinks/prometheus",
    "sources/points",
    "transforms/on_error",
    "transforms/rows",
    "transforms/windows",
];

#[test]
fn a_component_is_a_folder_with_all_its_parts_and_a_row() {
    let base = "crates/components/src";
    let mut faults = Vec::new();
    for section in
        ["sources", "transforms", "sinks"].iter().filter(|s| root().join(base).join(s).is_dir())
    {
        for entry in fs::read_dir(root().join(base).join(section)).unwrap().map(|e| e.unwrap()) {
            let name = entry.file_name().to_string_lossy().into_owned();
            if SHARED.contains(&format!("{section}/{}", name.trim_end_matches(".rs")).as_str()) {
                continue;
            }
            if !rows().any(|row| row.kind.section() == *section && row.name == name) {
                faults.push(format!("{base}/{section}/{name}: no row in the registry"));
            }
            let parts = ["mod.rs", "config.rs", "README.md", "sample.yaml"];
            let is_missing = |part: &&&str| {
                fs::metadata(entry.path().join(part)).map_or(true, |meta| meta.len() == 0)
            };
            let missing = parts.iter().filter(is_missing);
            faults.extend(
                missing.map(|part| format!("{base}/{section}/{name}: {part} is missing or empty")),
            );
        }
    }
    fail_if_any(faults);
}

#[test]
fn each_step_of_both_paths_names_an_existing_function() {
    let text = read("ARCHITECTURE.md");
    let (line, datagram) =
        (steps(&text, "The path of one line"), steps(&text, "The path of one datagram"));
    assert_eq!((line.len(), datagram.len()), (6, 11), "steps of a line, of a datagram");
    fail_if_any(
        line.into_iter().chain(datagram).filter_map(|step| wrong_step(step).err()).collect(),
    );
}

/// Returns the numbered steps of a section.
fn steps<'t>(text: &'t str, heading: &str) -> Vec<&'t str> {
    let section = text.lines().skip_while(|line| line.strip_prefix("## ") != Some(heading)).skip(1);
    let section = section.take_while(|line| !line.starts_with("## "));
    let is_step =
        |line: &&str| line.split_once(". ").is_some_and(|(number, _)| number.parse::<u8>().is_ok());
    section.filter(is_step).collect()
}

/// Checks a step, which must end with "`function` in `file`"; the function must exist in the file.
fn wrong_step(step: &str) -> Result<(), String> {
    let quoted: Vec<&str> = step.split('`').skip(1).step_by(2).collect();
    let (Some(path), Some(function)) = (quoted.last(), quoted.iter().rev().nth(1)) else {
        return Err(format!("{step}: names no function"));
    };
    if !step.ends_with(&format!("`{function}` in `{path}`.")) {
        return Err(format!("{step}: does not end with `function` in `file`."));
    }
    let code = production(
        &fs::read_to_string(root().join(path)).map_err(|error| format!("{path}: {error}"))?,
    );
    let (of, name) = function.split_once("::").unwrap_or(("", function));
    let has_type =
        of.is_empty() || code.lines().any(|line| line.starts_with("impl") && line.contains(of));
    match has_type && functions(&code).iter().any(|f| f.name == name) {
        true => Ok(()),
        false => Err(format!("{path} has no function {function}")),
    }
}

/// Maximum number of terms in the glossary: more would be a dialect.
const GLOSSARY_TERMS_MAX: usize = 40;

#[test]
fn the_glossary_is_short() {
    let text = read("ARCHITECTURE.md");
    let (_, words) = text.split_once("\n## Words\n").expect("a section Words");
    let rows = words.lines().take_while(|line| !line.starts_with("## "));
    let rows = rows.filter_map(|line| line.strip_prefix("| ")).skip(1);
    let terms: usize = rows.map(|row| row.split('|').next().unwrap().split(',').count()).sum();
    assert!((10..=GLOSSARY_TERMS_MAX).contains(&terms), "the glossary has {terms} terms");
}

/// Pages for readers of the code, which cite files by their paths from the root.
const CODE_PAGES: &[&str] = &["ARCHITECTURE.md", "docs/where-to-look.md"];

/// Folders at the root that contain cited files.
const CITED_FOLDERS: &[&str] = &["crates", "src", "tests", "docs", "bench", "fuzz", "java"];

#[test]
fn the_pages_about_the_code_cite_files_that_exist() {
    fail_if_any(CODE_PAGES.iter().flat_map(|page| missing_files(page)).collect());
}

/// Returns the paths on a page that do not exist.
fn missing_files(page: &str) -> Vec<String> {
    let text = read(page);
    let in_text = text.lines().filter(|line| !line.starts_with("```"));
    let mut faults = Vec::new();
    for line in in_text {
        for quoted in line.split('`').skip(1).step_by(2) {
            let base = quoted.split('/').next().unwrap();
            let is_path = CITED_FOLDERS.contains(&base);
            if is_path && !quoted.contains(' ') && !root().join(quoted).exists() {
                faults.push(format!("{page}: {quoted} does not exist"));
            }
        }
    }
    faults
}

/// The lengths in the table of files in reading order must be roughly right.
#[test]
fn the_reading_order_has_the_length_of_each_file() {
    let text = read("ARCHITECTURE.md");
    let (_, table) = text.split_once("\n| file | lines | holds |\n").expect("a table of files");
    let rows: Vec<&str> = table.lines().skip(1).take_while(|line| line.starts_with("| ")).collect();
    assert!(rows.len() >= 12, "the table has {} files", rows.len());
    fail_if_any(rows.into_iter().filter_map(wrong_length).collect());
}

fn wrong_length(row: &str) -> Option<String> {
    let cells: Vec<&str> = row.split('|').map(str::trim).collect();
    let path = cells[1].trim_matches('`');
    let given: usize = cells[2].parse().unwrap();
    let lines = read(path).lines().count();
    let is_right = lines.abs_diff(given) <= lines / 10 + 10;
    (!is_right).then(|| format!("ARCHITECTURE.md: {path} has {lines} lines, not {given}"))
}

/// Functions named `is_` and `has_` take `&self`: a question changes nothing.
#[test]
fn questions_change_nothing() {
    let mut faults = Vec::new();
    for path in files("").iter().filter(|path| path.ends_with(".rs")) {
        for (number, line) in read(path).lines().enumerate() {
            let Some((_, function)) = line.split_once("fn ") else { continue };
            let asks = function.starts_with("is_") || function.starts_with("has_");
            if asks && function.contains("(&mut self") {
                faults.push(format!("{path}:{}: {}", number + 1, line.trim()));
            }
        }
    }
    fail_if_any(faults);
}

#[test]
fn files_are_short_and_have_no_todo() {
    // Split so that this file does not match.
    let words = [["TO", "DO"], ["FIX", "ME"], ["to", "do!("], ["unimpl", "emented!("]]
        .map(|word| word.concat());
    let mut faults = Vec::new();
    for path in files("").iter().filter(|path| is_written_by_hand(path)) {
        let text = read(path);
        let lines = text.lines().count();
        if lines > FILE_LINES_MAX {
            faults.push(format!("{path}: {lines} lines, {FILE_LINES_MAX} is the most"));
        }
        for (number, line) in text.lines().enumerate() {
            let found = words.iter().filter(|word| line.contains(*word));
            faults.extend(found.map(|word| format!("{path}:{}: {word}", number + 1)));
        }
    }
    fail_if_any(faults);
}

/// Retired words, and the term of the field that replaced each.
const RETIRED_WORDS: &[(&str, &str)] = &[
    ("far side", "endpoint"),
    ("far_side", "endpoint"),
    ("carrier", "dispatcher"),
    ("workshop", "pack task"),
    ("intake", "handler"),
    ("outlet", "emitter"),
    ("stranger", "candidate"),
    ("lay by", "remember"),
    ("taken apart", "parsed"),
    ("takes apart", "parses"),
    ("take apart", "parse"),
    ("taken_apart", "parsed"),
    ("given out", "emitted"),
    ("gives out", "emits"),
    ("give out", "emit"),
    ("given_out", "emitted"),
    ("trouble", "error"),
    ("standing", "status"),
];

/// Retired words return with copied lines: in names, comments and pages.
#[test]
fn retired_words_do_not_come_back() {
    let is_checked = |path: &&String| {
        let is_text = path.ends_with(".rs") || path.ends_with(".md");
        // Java threads have carriers.
        is_text && *path != "tests/tidy.rs" && *path != "docs/java-client.md"
    };
    let mut faults = Vec::new();
    for path in files("").iter().filter(is_checked) {
        for (number, line) in read(path).to_lowercase().lines().enumerate() {
            let retired = RETIRED_WORDS.iter().filter(|(word, _)| has_word(line, word));
            faults.extend(
                retired.map(|(word, term)| format!("{path}:{}: {word}: write {term}", number + 1)),
            );
        }
    }
    fail_if_any(faults);
}

/// Phrases of literal translations, in place of the plain English of the field.
const STILTED_PHRASES: &[&str] = &[
    "anew",
    "anybody",
    "by far",
    "everybody",
    "goes on",
    "goes past",
    "is told",
    "are told",
    "was told",
    "lie in",
    "lies in",
    "nobody",
    "of its own",
    "of their own",
    "once more",
    "somebody",
    "stand for",
    "stands for",
    "stands in",
    "whoever",
];

#[test]
fn comments_and_pages_have_no_stilted_phrases() {
    let is_checked = |path: &&String| {
        let is_prose = [".rs", ".java", ".md"].iter().any(|extension| path.ends_with(extension));
        is_prose && *path != "tests/tidy.rs"
    };
    let paths = files("");
    let checked = paths.iter().filter(is_checked);
    fail_if_any(checked.flat_map(|path| stilted(path, &read(path))).collect());
}

/// Returns the stilted phrases in the comments of a source file, or in the whole text of a page.
fn stilted(path: &str, text: &str) -> Vec<String> {
    let prose = |line: &str| match path.ends_with(".md") {
        true => line.to_lowercase(),
        false => comment(line).to_lowercase(),
    };
    let in_line = |(number, line): (usize, &str)| {
        let prose = prose(line);
        let found = STILTED_PHRASES.iter().filter(move |phrase| has_phrase(&prose, phrase));
        found.map(move |phrase| format!("{path}:{}: {phrase}", number + 1)).collect::<Vec<_>>()
    };
    text.lines().enumerate().flat_map(in_line).collect()
}

/// Returns the comment at the end of a line of Rust or Java, or the line of a block comment.
fn comment(line: &str) -> &str {
    let is_block = line.trim_start().starts_with('*');
    line.split_once("//").map_or(if is_block { line } else { "" }, |(_, comment)| comment)
}

fn has_phrase(line: &str, phrase: &str) -> bool {
    line.match_indices(phrase).any(|(at, _)| {
        let is_letter = |text: Option<char>| text.is_some_and(char::is_alphanumeric);
        let after = &line[at + phrase.len()..];
        !is_letter(line[..at].chars().next_back()) && !is_letter(after.chars().next())
    })
}

/// Returns whether a lowercase line contains a word, alone or as a part of a snake-case name.
fn has_word(line: &str, word: &str) -> bool {
    line.match_indices(word).any(|(at, _)| {
        let is_letter = |text: Option<char>| text.is_some_and(|c| c.is_ascii_alphabetic());
        let rest = line[at + word.len()..].trim_start_matches('s');
        !is_letter(line[..at].chars().next_back()) && !is_letter(rest.chars().next())
    })
}

fn is_written_by_hand(path: &str) -> bool {
    let extension = Path::new(path).extension().map_or("", |e| e.to_str().unwrap_or_default());
    ["rs", "md", "yaml", "toml"].contains(&extension)
        || path.starts_with("scripts/")
        || path == "Makefile"
}

#[test]
fn only_the_program_ends_the_process() {
    let calls = |text: &str| text.contains("process::exit") || text.contains("process::abort");
    let is_program = |path: &str| path.starts_with("crates/app/commands/");
    let found = sources(&["crates"]).into_iter().filter(|(_, text)| calls(text));
    fail_if_any(
        found
            .filter(|(path, _)| !is_program(path))
            .map(|(path, _)| format!("{path}: ends the process; return an error instead"))
            .collect(),
    );
}

/// Public types of several crates that share a name, and the reason. All other names are exported
/// once.
const SHARED_NAMES: &[(&str, &str)] = &[
    ("Chunk", "of a JFR file; events of a collector in a JVM"),
    ("Clock", "ticks of a JFR file and their time; what the engine takes the time from"),
    ("Counts", "what each crate counted, qualified by it"),
    ("Event", "of a consumer group; of DogStatsD; what a profile samples: qualified by its crate"),
    ("Failure", "a failed record of Kafka; a line that a parser cannot read"),
    ("Fault", "the error of a crate, qualified by it as `io::Error` is"),
    ("Field", "a named column: of an expression's input, of a parser's output"),
    ("Fields", "the fields of a parsed line; of a container format's line"),
    ("Input", "the argument of a crate's main call, qualified by it"),
    ("Kind", "of a component, a cell, a point, a metric: always qualified or renamed on import"),
    ("Place", "a position in a configuration file; an offset of a partition"),
    ("Progress", "of a sink; of merging generations"),
    ("Reading", "a value read of the host; a value read of a series"),
    ("Reason", "why a crate leaves something out, qualified by it"),
    ("Settings", "what a crate is started with, qualified by it"),
    ("Shard", "one worker's part: of a merge transform; of the series"),
    ("StartError", "why a crate cannot start what it runs, qualified by it"),
    ("Store", "of checkpoints; of series"),
    ("Wake", "a callback that wakes a source; a collection"),
];

#[test]
fn shared_names_of_public_types_have_a_reason() {
    let mut owners: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for path in files("crates").iter().filter(|path| path.ends_with("/src/lib.rs")) {
        for name in exported_types(&read(path)) {
            owners.entry(name).or_default().push(path.clone());
        }
    }
    let shared = owners.into_iter().filter(|(_, paths)| paths.len() > 1);
    let without_reason =
        shared.filter(|(name, _)| !SHARED_NAMES.iter().any(|(known, _)| known == name));
    fail_if_any(
        without_reason.map(|(name, paths)| format!("{name}: {}", paths.join(", "))).collect(),
    );
}

/// Returns the types that a `lib.rs` exports from its modules.
fn exported_types(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    for exports in text.split("\npub use ").skip(1) {
        let exports = exports.split(';').next().unwrap();
        if exports.starts_with("millstream_") || exports.starts_with("arrow_") {
            continue;
        }
        let names = exports.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
        let is_type = |name: &&str| {
            name.starts_with(|c: char| c.is_ascii_uppercase())
                && name.contains(|c: char| c.is_ascii_lowercase())
        };
        found.extend(names.filter(is_type).map(str::to_owned));
    }
    found
}
