//! Tests bad input: unreadable, vanishing and truncated files, and unusual lines.

use crate::support::{Agent, folder, lines, wait_until};
use std::fs::{self, OpenOptions, Permissions};
use std::io::Write;
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(60);

const TAIL: &str = "
sources: { app: { type: file, include: ['DIR/in/*.log'] } }
sinks: { out: { type: file, inputs: [app], path: DIR/out/text, sync: 100ms, encoding: { codec: text } } }
";

fn append(path: &Path, text: &[u8]) {
    OpenOptions::new().create(true).append(true).open(path).unwrap().write_all(text).unwrap();
}

/// Runs the agent on one file to its end; returns the output, the exit status and the log.
fn pass(input: &[u8], options: &str, codec: &str) -> (Vec<u8>, Option<i32>, String) {
    let dir = folder();
    fs::write(dir.path().join("a.log"), input).unwrap();
    let config = format!(
        "
sources: {{ app: {{ type: file, include: ['DIR/a.log'], {options} }} }}
sinks: {{ out: {{ type: file, inputs: [app], path: DIR/out, encoding: {codec} }} }}
"
    );
    let mut agent = Agent::start(dir.path(), &config, &["--until-eof"]);
    let status = agent.wait(LIMIT);
    (fs::read(dir.path().join("out")).unwrap_or_default(), status.code(), agent.log())
}

const TEXT: &str = "{ codec: text }";

/// The input does not start with NUL bytes, because a source removes these at the start of a line.
#[test]
fn arbitrary_bytes_pass_through_text_unchanged() {
    let every_byte: Vec<u8> = (0..=255u8).rev().filter(|b| *b != b'\n').collect();
    let input = [b"a\0\0\n\n\nlone\rcr\n".as_slice(), &every_byte, b"\nlast\n"].concat();
    let (out, status, log) = pass(&input, "", TEXT);
    assert_eq!((out, status), (input, Some(0)), "{log}");
}

#[test]
fn crlf_is_recognized_at_every_block_boundary() {
    // The line endings are at every position around the boundary of a 256 KiB block, in turn.
    for shift in 0..4 {
        let mut input = vec![b'x'; 256 * 1024 - 3 + shift];
        input.extend_from_slice(b"\r\nsecond\r\n");
        let (out, status, log) = pass(&input, "max_line: 1MiB", TEXT);
        let expected = [&vec![b'x'; 256 * 1024 - 3 + shift][..], b"\nsecond\n"].concat();
        assert!(out == expected && status == Some(0), "shift {shift}: {} bytes, {log}", out.len());
    }
}

#[test]
fn invalid_utf8_is_replaced_in_json_and_counted() {
    let (out, status, _) = pass(b"good\nbad \xff\xfe end\n\xe4\xbd\n", "", "{ metadata: [] }");
    let events: Vec<serde_json::Value> = String::from_utf8(out)
        .unwrap()
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let texts: Vec<&str> = events.iter().map(|e| e["message"].as_str().unwrap()).collect();
    assert_eq!((texts, status), (vec!["good", "bad \u{fffd}\u{fffd} end", "\u{fffd}"], Some(0)));
}

#[test]
fn an_unfinished_last_line_is_delivered_at_the_end() {
    assert_eq!(pass(b"one\ntwo", "", TEXT).0, b"one\ntwo\n");
    assert_eq!(pass(b"", "", TEXT).1, Some(0));
    assert_eq!(pass(b"\n", "", TEXT).0, b"\n");
}

#[test]
fn long_lines_are_truncated_split_or_dropped() {
    let long = "é".repeat(700_000);
    let input = format!("first\n{long}\nlast\n");
    let (out, status, log) = pass(input.as_bytes(), "max_line: 101B", TEXT);
    assert_eq!(
        (String::from_utf8(out).unwrap(), status),
        (format!("first\n{}\nlast\n", "é".repeat(50)), Some(0)),
        "{log}"
    );
    let (out, status, log) = pass(input.as_bytes(), "max_line: 101B, on_long_line: drop", TEXT);
    assert_eq!(
        (String::from_utf8(out).unwrap(), status),
        ("first\nlast\n".to_owned(), Some(3)),
        "{log}"
    );
    let (out, status, log) = pass(input.as_bytes(), "max_line: 101B, on_long_line: split", TEXT);
    let out = String::from_utf8(out).unwrap();
    assert_eq!((out.lines().skip(1).map(str::len).max(), status), (Some(100), Some(0)), "{log}");
    assert_eq!(out.replace('\n', ""), input.replace('\n', ""));
}

#[test]
fn a_truncated_line_is_marked() {
    let (out, _, _) =
        pass(b"aaaaaaaaaa\nbbb\n", "max_line: 4B", "{ metadata: [truncated, previous_offset] }");
    let events: Vec<serde_json::Value> = String::from_utf8(out)
        .unwrap()
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let seen: Vec<_> =
        events.iter().map(|e| (e["message"].as_str(), e["meta"]["truncated"].as_bool())).collect();
    assert_eq!(seen, [(Some("aaaa"), Some(true)), (Some("bbb"), Some(false))]);
    assert_eq!(events[1]["meta"]["previous_offset"], 0);
}

#[test]
fn lines_are_kept_and_dropped_by_content() {
    let input = b"ERROR one\nINFO two\nERROR debug three\nWARN 404\n";
    let keep = "keep_lines: { contains: [ERROR], regex: ['[0-9]{3}$'] }, drop_lines: { contains: [debug] }";
    let (out, status, log) = pass(input, keep, TEXT);
    assert_eq!(
        (String::from_utf8(out).unwrap(), status),
        ("ERROR one\nWARN 404\n".to_owned(), Some(0)),
        "{log}"
    );
}

#[test]
fn an_unreadable_file_is_reported_once_and_read_once_readable() {
    let dir = folder();
    fs::create_dir(dir.path().join("in")).unwrap();
    fs::create_dir(dir.path().join("out")).unwrap();
    let (secret, open) = (dir.path().join("in/secret.log"), dir.path().join("in/open.log"));
    fs::write(&secret, "secret\n").unwrap();
    fs::write(&open, "open\n").unwrap();
    fs::set_permissions(&secret, Permissions::from_mode(0o000)).unwrap();
    // Root can read every file, so the agent runs as another user.
    let root = rustix::process::geteuid().is_root();
    if root {
        for path in [dir.path(), &dir.path().join("out")] {
            chown(path, Some(65_534), Some(65_534)).unwrap();
        }
    }
    let mut agent = Agent::spawn(dir.path(), TAIL, &[], |command| {
        if root {
            command.uid(65_534).gid(65_534);
        }
    });
    let output = dir.path().join("out/text");
    wait_until("the readable file", LIMIT, || lines(&output) == ["open"]);
    std::thread::sleep(Duration::from_millis(500));
    let reports = agent.log().lines().filter(|line| line.contains("secret.log")).count();
    assert_eq!(reports, 1, "{}", agent.log());
    fs::set_permissions(&secret, Permissions::from_mode(0o644)).unwrap();
    wait_until("the file that became readable", LIMIT, || lines(&output) == ["open", "secret"]);
    assert_eq!(agent.stop().code(), Some(0));
}

#[test]
fn a_file_deleted_while_it_is_read_is_read_to_its_end() {
    let dir = folder();
    fs::create_dir(dir.path().join("in")).unwrap();
    let (path, output) = (dir.path().join("in/a.log"), dir.path().join("out/text"));
    let mut file = OpenOptions::new().create(true).append(true).open(&path).unwrap();
    file.write_all(b"1\n").unwrap();
    let mut agent = Agent::start(dir.path(), TAIL, &[]);
    wait_until("the first line", LIMIT, || lines(&output).len() == 1);
    fs::remove_file(&path).unwrap();
    file.write_all(b"2\n").unwrap();
    std::thread::sleep(Duration::from_millis(300));
    file.write_all(b"3\nunfinished").unwrap();
    drop(file);
    wait_until("every line, the unfinished one after a silence", LIMIT * 2, || {
        lines(&output).len() == 4
    });
    assert_eq!(lines(&output), ["1", "2", "3", "unfinished"]);
    assert_eq!(agent.stop().code(), Some(0));
}

#[test]
fn rotation_by_rename_and_by_truncation_is_followed() {
    let dir = folder();
    fs::create_dir(dir.path().join("in")).unwrap();
    let (path, output) = (dir.path().join("in/a.log"), dir.path().join("out/text"));
    append(&path, b"1\n");
    let mut agent = Agent::start(dir.path(), TAIL, &[]);
    wait_until("line 1", LIMIT, || lines(&output) == ["1"]);
    fs::rename(&path, dir.path().join("in/a.log.1")).unwrap();
    append(&dir.path().join("in/a.log.1"), b"2\n");
    append(&path, b"3\n");
    wait_until("lines 2 and 3", LIMIT, || lines(&output).len() == 3);
    fs::OpenOptions::new().write(true).open(&path).unwrap().set_len(0).unwrap();
    std::thread::sleep(Duration::from_millis(400));
    append(&path, b"4\n");
    wait_until("line 4", LIMIT, || lines(&output).len() == 4);
    let mut sorted = lines(&output);
    sorted.sort();
    assert_eq!(sorted, ["1", "2", "3", "4"]);
    assert_eq!(agent.stop().code(), Some(0));
}

#[test]
fn reading_from_the_end_tears_no_line() {
    let dir = folder();
    fs::create_dir(dir.path().join("in")).unwrap();
    let config = TAIL.replace("log'] }", "log'], read_from: end }");
    let (path, output) = (dir.path().join("in/a.log"), dir.path().join("out/text"));
    append(&path, b"partial-");
    let mut agent = Agent::start(dir.path(), &config, &[]);
    wait_until("the agent is ready", LIMIT, || agent.log().contains("files match include"));
    append(&path, b"rest\nnext\n");
    wait_until("both lines", LIMIT, || lines(&output).len() == 2);
    assert_eq!(lines(&output), ["partial-rest", "next"]);
    assert_eq!(agent.stop().code(), Some(0));
}

#[test]
fn a_file_truncated_within_an_incomplete_line_is_read_from_its_beginning() {
    let dir = folder();
    fs::create_dir(dir.path().join("in")).unwrap();
    let (path, output) = (dir.path().join("in/a.log"), dir.path().join("out/text"));
    append(&path, &[b"first\n".to_vec(), vec![b'A'; 400_000]].concat());
    let mut agent = Agent::start(dir.path(), TAIL, &[]);
    wait_until("the first line", LIMIT, || lines(&output) == ["first"]);
    std::thread::sleep(Duration::from_millis(300));
    fs::OpenOptions::new().write(true).open(&path).unwrap().set_len(0).unwrap();
    wait_until("the cut is noticed", LIMIT, || agent.log().contains("was truncated"));
    append(&path, b"second\nthird\n");
    wait_until("the lines after it", LIMIT, || lines(&output).len() == 3);
    assert_eq!(lines(&output), ["first", "second", "third"]);
    assert_eq!(agent.stop().code(), Some(0));
}

#[test]
fn with_too_few_descriptors_files_are_read_in_turn() {
    let dir = folder();
    fs::create_dir(dir.path().join("in")).unwrap();
    for file in 0..400 {
        append(&dir.path().join(format!("in/{file}.log")), format!("{file}\n").as_bytes());
    }
    let output = dir.path().join("out/text");
    let mut agent = Agent::spawn(dir.path(), TAIL, &[], |command| {
        let limit = rustix::process::Rlimit { current: Some(256), maximum: Some(256) };
        // SAFETY: between fork and exec the closure makes only a system call.
        unsafe {
            command.pre_exec(move || {
                Ok(rustix::process::setrlimit(rustix::process::Resource::Nofile, limit)?)
            });
        }
    });
    wait_until("every file", LIMIT, || lines(&output).len() >= 400);
    let all: std::collections::BTreeSet<String> = lines(&output).into_iter().collect();
    assert_eq!(all, (0..400).map(|file| file.to_string()).collect());
    assert_eq!(agent.stop().code(), Some(0));
}

#[test]
fn a_file_renamed_out_of_the_patterns_before_discovery_is_read() {
    let dir = folder();
    fs::create_dir(dir.path().join("in")).unwrap();
    let (path, output) = (dir.path().join("in/a.log"), dir.path().join("out/text"));
    append(&path, b"1\n");
    let mut agent = Agent::start(dir.path(), TAIL, &["--until-eof"]);
    assert_eq!(agent.wait(LIMIT).code(), Some(0));
    append(&path, b"2\n");
    fs::rename(&path, dir.path().join("in/a.log.1")).unwrap();
    append(&path, b"3\n");
    for _ in 0..2 {
        let mut agent = Agent::start(dir.path(), TAIL, &["--until-eof"]);
        assert_eq!(agent.wait(LIMIT).code(), Some(0));
        let mut got = lines(&output);
        got.sort();
        assert_eq!(got, ["1", "2", "3"]);
    }
}

#[test]
fn only_files_of_the_first_start_are_read_from_their_end() {
    let dir = folder();
    fs::create_dir(dir.path().join("in")).unwrap();
    let config = TAIL.replace("log'] }", "log'], read_from: end }");
    append(&dir.path().join("in/old.log"), b"old\nold too, unfin");
    let mut agent = Agent::start(dir.path(), &config, &[]);
    wait_until("the agent is ready", LIMIT, || agent.get("/ready").is_some());
    std::thread::sleep(Duration::from_millis(300));
    append(&dir.path().join("in/old.log"), b"ished\nnew\n");
    append(&dir.path().join("in/later.log"), b"later\n");
    let output = dir.path().join("out/text");
    wait_until("what came after the start", LIMIT, || lines(&output).len() == 3);
    let mut got = lines(&output);
    got.sort();
    assert_eq!(got, ["later", "new", "old too, unfinished"]);
    assert_eq!(agent.stop().code(), Some(0));
}
