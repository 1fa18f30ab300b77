//! Random tests: their seed is taken from `SEED` and printed when they fail.

use super::rust::{code, production};
use super::{fail_if_any, files, read, test_files};

/// The folders with Rust code, all of which may contain tests.
const FOLDERS: &[&str] = &["bench", "crates", "fuzz", "src", "tests"];

/// The crate whose code takes and prints the seed.
const TESTKIT: &str = "crates/testing/testkit-random/";

/// Random bytes that a test only moves, and why their values do not matter.
const FILLERS: &[(&str, &str)] = &[
    ("crates/bytes/compression/tests/readers.rs", "bytes that do not compress"),
    ("crates/io/kafka/tests/recording.rs", "bytes that do not compress"),
    ("crates/io/tail/tests/recording.rs", "lines that do not compress"),
    ("tests/e2e/output.rs", "lines that do not compress"),
];

/// Sources of numbers that cannot be repeated.
const UNREPEATABLE: &[&str] = &["process::id", "SystemTime", "Instant::now", "getrandom::"];

/// How to write a property of `proptest`.
const CONFIGURED: &str = "#![proptest_config(property(";

/// Returns the test code of each file. Other code is blanked.
fn tests() -> Vec<(String, String)> {
    let paths = FOLDERS.iter().flat_map(|folder| files(folder));
    let paths = paths.filter(|path| path.ends_with(".rs") && !path.starts_with(TESTKIT));
    let all: Vec<(String, String)> = paths.map(|path| (path.clone(), read(&path))).collect();
    let modules: Vec<String> = all.iter().flat_map(|(path, text)| test_files(path, text)).collect();
    let is_test = |path: &str| {
        let is_module = |module: &String| {
            path.strip_prefix(&**module).is_some_and(|rest| rest == ".rs" || rest.starts_with('/'))
        };
        path.starts_with("tests/") || path.contains("/tests/") || modules.iter().any(is_module)
    };
    let of_tests = |(path, text): (String, String)| {
        let code = if is_test(&path) { code(&text) } else { without_production(&text) };
        (path, code)
    };
    all.into_iter().map(of_tests).collect()
}

/// Blanks the lines that are also in the production code.
fn without_production(text: &str) -> String {
    let (all, production) = (code(text), production(text));
    let lines = all.lines().zip(production.lines());
    let kept = lines.map(|(line, production)| if line == production { "" } else { line });
    kept.collect::<Vec<_>>().join("\n")
}

/// Returns the lines that generate random numbers without a repeatable seed, and what is wrong with
/// each.
fn unseeded(code: &str) -> Vec<(usize, &'static str)> {
    let properties = code.match_indices("proptest! {").filter_map(|(at, name)| {
        let is_configured = code[at + name.len()..].trim_start().starts_with(CONFIGURED);
        (!is_configured).then(|| code[..at].matches('\n').count() + 1)
    });
    let mut found: Vec<(usize, &'static str)> =
        properties.map(|line| (line, "a property without `property(CASES)`")).collect();
    let in_lines = code.lines().enumerate();
    found.extend(in_lines.filter_map(|(index, line)| Some((index + 1, wrong_line(line)?))));
    found
}

fn wrong_line(line: &str) -> Option<&'static str> {
    let is_unrepeatable = UNREPEATABLE.iter().any(|source| line.contains(source));
    let makes_seed = line.contains("with_seed(") || line.contains("let seed");
    if makes_seed && is_unrepeatable {
        return Some("a seed that cannot be repeated");
    }
    if line.contains("Seed::of_test") && line.contains(").value()") {
        return Some("a seed that is dropped, and so not printed, before the test ends");
    }
    if line.contains("Rng::new()") || line.contains("RandomState::new()") || is_global(line) {
        return Some("random numbers without a seed");
    }
    has_number_as_seed(line).then_some("a seed that is always the same")
}

/// Returns whether a line draws from the generator of the thread.
fn is_global(line: &str) -> bool {
    let mut calls = line.split("fastrand::").skip(1);
    calls.any(|call| {
        let is_function = call.starts_with(|c: char| c.is_ascii_lowercase());
        is_function && !call.starts_with("seed(")
    })
}

fn has_number_as_seed(line: &str) -> bool {
    let mut seeds = line.split("Rng::with_seed(").skip(1);
    seeds.any(|seed| seed.starts_with(|c: char| c.is_ascii_digit()))
}

#[test]
fn random_tests_take_their_seed_from_the_environment_and_print_it() {
    let (mut faults, mut unused) = (Vec::new(), FILLERS.to_vec());
    for (path, code) in tests() {
        for (line, wrong) in unseeded(&code) {
            unused.retain(|(filler, _)| *filler != path);
            if !FILLERS.iter().any(|(filler, _)| *filler == path) {
                faults.push(format!("{path}:{line}: {wrong}; use `millstream_testkit_random`"));
            }
        }
    }
    faults.extend(unused.iter().map(|(path, _)| format!("{path}: no random bytes for FILLERS")));
    fail_if_any(faults);
}

/// Seeds and sizes have one meaning: no test reads other variables for them.
#[test]
fn only_one_crate_reads_seeds_and_sizes_from_the_environment() {
    let ends = ["SEED\"", "CASES\"", "SOAK\"", "KILLS\""];
    let mut faults = Vec::new();
    for path in FOLDERS.iter().flat_map(|folder| files(folder)) {
        if !path.ends_with(".rs") || path.starts_with(TESTKIT) {
            continue;
        }
        for (number, line) in read(&path).lines().enumerate() {
            let is_read = line.contains("env::var") && ends.iter().any(|end| line.contains(end));
            if is_read {
                faults.push(format!("{path}:{}: use SEED and SOAK", number + 1));
            }
        }
    }
    fail_if_any(faults);
}

#[test]
fn seeds_that_cannot_be_repeated_are_found() {
    let bad = [
        "let mut random = Rng::with_seed(std::process::id().into());",
        "let seed = SystemTime::now();",
        "let mut random = fastrand::Rng::new();",
        "let seed = fastrand::u64(..);",
        "let mut random = fastrand::Rng::with_seed(7);",
        "let state = RandomState::new();",
        "let seed = Seed::of_test().value();",
        "let seed = Seed::of_test_or(7).value();",
        "proptest! {\n    #[test]\n",
        "proptest! {\n    #![proptest_config(ProptestConfig::default())]\n",
    ];
    for code in bad {
        assert_eq!(unseeded(code).first().map(|(line, _)| *line), Some(1), "{code}");
    }
    let good = [
        "let mut random = Seed::of_test().random();",
        "let mut random = Rng::with_seed(seed);",
        "let mut random = Rng::with_seed(seed ^ 1);",
        "fastrand::seed(seed);",
        "use fastrand::Rng;",
        "fn draw(random: &mut fastrand::Rng) {}",
        "let begun = SystemTime::now();",
        "let folder = format!(\"{}\", std::process::id());",
        "proptest! {\n    #![proptest_config(property(CASES))]\n\n    #[test]\n",
    ];
    for code in good {
        assert_eq!(unseeded(code), [], "{code}");
    }
}

#[test]
fn only_the_code_for_tests_is_searched() {
    let source = "fn a() { fastrand::u64(..); }\n#[cfg(test)]\nmod tests {\n    fn b() { fastrand::u8(..); }\n}\n";
    let found = unseeded(&without_production(source));
    assert_eq!(found, [(4, "random numbers without a seed")]);
}
