//! Runs golden cases: compares the output of the real program for a configuration and its inputs.
//!
//! A case is a folder `tests/golden/<type>/<case>/`:
//!
//! | file | meaning |
//! |---|---|
//! | `millstream.yaml` | the configuration; `${CASE}` is the folder in which the program runs, a copy of the case |
//! | `stdin` | the standard input, if any |
//! | `expected.NAME` | the expected content of the file `NAME` at the end; `stdout` is the standard output |
//! | `expected.status` | the exit status, if it is not 0 |
//! | `unordered` | names of files whose lines may be in any order, one per line |
//! | any other file | an input |
//!
//! The test replaces parts that differ between runs before the comparison: the folder by `CASE`,
//! times from 2025 on by `TIME`, file ids by `FILE_ID`. Times that a case tests are earlier.
//! `UPDATE_GOLDEN=1` rewrites the existing expectations; a new case starts with empty files.

use crate::support::{folder, millstream};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Time limit of a case.
const LIMIT: Duration = Duration::from_secs(30);

#[test]
fn every_case_has_the_expected_output() {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    let update = std::env::var_os("UPDATE_GOLDEN").is_some();
    let types = entries(&root).into_iter().filter(|path| path.is_dir());
    let cases: Vec<PathBuf> = types.flat_map(|of_type| entries(&of_type)).collect();
    assert!(cases.len() > 10, "the cases are found");
    let faults: Vec<String> = cases.iter().filter_map(|case| check(case, update).err()).collect();
    assert!(
        faults.is_empty(),
        "{} of {} cases:\n\n{}",
        faults.len(),
        cases.len(),
        faults.join("\n\n")
    );
}

fn entries(folder: &Path) -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> =
        fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    found.sort();
    found
}

fn name(path: &Path) -> &str {
    path.file_name().and_then(|name| name.to_str()).expect("a plain file name")
}

/// Runs a case, and compares the results with the expectations, or writes the expectations.
fn check(case: &Path, update: bool) -> Result<(), String> {
    let dir = folder();
    let files = entries(case);
    let (expected, inputs): (Vec<_>, Vec<_>) =
        files.iter().partition(|path| name(path).starts_with("expected."));
    for input in inputs {
        fs::copy(input, dir.path().join(name(input))).unwrap();
    }
    let status = run(dir.path()).map_err(|message| format!("{}: {message}", case.display()))?;
    if update {
        return write(case, dir.path(), &expected, status);
    }
    let status_expected = fs::read_to_string(case.join("expected.status")).unwrap_or("0".into());
    let log = fs::read_to_string(dir.path().join("log")).unwrap();
    let mut faults = Vec::new();
    if status_expected.trim() != status.to_string() {
        faults.push(format!("exit status {status} instead of {}", status_expected.trim()));
    }
    for path in expected.iter().filter(|path| !path.ends_with("expected.status")) {
        let (wanted, got) = (fs::read(path).unwrap(), produced(dir.path(), path));
        if wanted != got {
            faults.push(format!("{}: {}", name(path), difference(&wanted, &got)));
        }
    }
    let has_output = expected.iter().any(|path| !path.ends_with("expected.status"));
    match faults.is_empty() && has_output {
        true => Ok(()),
        false => Err(format!("{}: {}\n{log}", case.display(), faults.join("\n"))),
    }
}

/// Runs the program in a copy of a case; returns its exit status.
fn run(dir: &Path) -> Result<i32, String> {
    let stdin = File::open(dir.join("stdin")).map_or_else(|_| Stdio::null(), Stdio::from);
    let file = |name: &str| Stdio::from(File::create(dir.join(name)).unwrap());
    let mut command = Command::new(millstream());
    command.args(["run", "--until-eof"]).current_dir(dir).env("CASE", dir);
    let mut child =
        command.stdin(stdin).stdout(file("stdout")).stderr(file("log")).spawn().unwrap();
    let begun = Instant::now();
    loop {
        if let Some(status) = child.try_wait().unwrap() {
            return status.code().ok_or_else(|| format!("ended by {status}"));
        }
        if begun.elapsed() > LIMIT {
            let _ = (child.kill(), child.wait());
            return Err(format!(
                "it does not end\n{}",
                fs::read_to_string(dir.join("log")).unwrap()
            ));
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Returns the content of an output file. The parts that differ between runs are replaced, and the
/// lines are sorted if their order may differ.
fn produced(dir: &Path, expected: &Path) -> Vec<u8> {
    let name = name(expected).trim_start_matches("expected.");
    let text = normalise(&fs::read(dir.join(name)).unwrap_or_default(), dir);
    let unordered = fs::read_to_string(dir.join("unordered")).unwrap_or_default();
    if !unordered.lines().any(|line| line == name) {
        return text;
    }
    let mut lines: Vec<&[u8]> = text.split_inclusive(|b| *b == b'\n').collect();
    lines.sort_unstable();
    lines.concat()
}

fn write(case: &Path, dir: &Path, expected: &[&PathBuf], status: i32) -> Result<(), String> {
    for path in expected {
        fs::write(path, produced(dir, path)).unwrap();
    }
    let path = case.join("expected.status");
    match status {
        0 => _ = fs::remove_file(path),
        _ => fs::write(path, format!("{status}\n")).unwrap(),
    }
    Ok(())
}

fn difference(wanted: &[u8], got: &[u8]) -> String {
    let lines =
        |text: &[u8]| String::from_utf8_lossy(text).lines().map(str::to_owned).collect::<Vec<_>>();
    let (wanted, got) = (lines(wanted), lines(got));
    let at = (0..wanted.len().max(got.len())).find(|at| wanted.get(*at) != got.get(*at));
    let Some(at) = at else { return "other line endings, or bytes that are no text".into() };
    format!("line {}:\n  wanted {:?}\n  got    {:?}", at + 1, wanted.get(at), got.get(at))
}

/// Replaces parts that differ between runs.
fn normalise(text: &[u8], dir: &Path) -> Vec<u8> {
    let folder = dir.as_os_str().as_encoded_bytes();
    let (mut out, mut rest) = (Vec::with_capacity(text.len()), text);
    while let Some(first) = rest.first() {
        let inside = out.last().is_some_and(|b: &u8| b.is_ascii_hexdigit());
        let (seen, shown): (usize, &[u8]) = match () {
            () if rest.starts_with(folder) => (folder.len(), b"CASE"),
            () if is_json_time(rest) => (26, b"\"TIME\""),
            () if is_log_time(rest) => (28, b"[TIME]"),
            () if !inside && is_file_id(rest) => (16, b"FILE_ID"),
            () => (1, std::slice::from_ref(first)),
        };
        out.extend_from_slice(shown);
        rest = &rest[seen..];
    }
    out
}

/// Returns whether the text starts like `shape`, where `9` matches any digit and `A` any letter.
fn has_shape(text: &[u8], shape: &[u8]) -> bool {
    let fits = |(byte, shape): (&u8, &u8)| match shape {
        b'9' => byte.is_ascii_digit(),
        b'A' => byte.is_ascii_alphabetic(),
        _ => byte == shape,
    };
    text.len() >= shape.len() && text.iter().zip(shape).all(fits)
}

fn is_json_time(text: &[u8]) -> bool {
    has_shape(text, b"\"9999-99-99T99:99:99.999Z\"") && text[1..5] >= b"2025"[..]
}

fn is_log_time(text: &[u8]) -> bool {
    has_shape(text, b"[99/AAA/9999:99:99:99 +9999]") && text[8..12] >= b"2025"[..]
}

/// Returns whether the text starts with exactly 16 hexadecimal digits.
fn is_file_id(text: &[u8]) -> bool {
    text.iter().take_while(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f')).count() == 16
}

#[test]
fn only_varying_parts_are_replaced() {
    let line = r#"{"timestamp":"2026-11-21T20:29:46.123Z","message":"2026 0123456789abcdef0","file":"/tmp/x/a.log","id":"0123456789abcdef-12"} [21/Nov/2026:20:29:46 +0000] "2024-02-29T12:34:56.000Z" [29/Feb/2024:12:34:56 +0000]"#;
    let expected = r#"{"timestamp":"TIME","message":"2026 0123456789abcdef0","file":"CASE/a.log","id":"FILE_ID-12"} [TIME] "2024-02-29T12:34:56.000Z" [29/Feb/2024:12:34:56 +0000]"#;
    assert_eq!(
        String::from_utf8(normalise(line.as_bytes(), Path::new("/tmp/x"))).unwrap(),
        expected
    );
}
