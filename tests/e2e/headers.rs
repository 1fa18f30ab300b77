//! Tests columns that header lines name.

use crate::support::{Agent, folder, lines};
use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::Path;
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(60);

/// Runs the agent to the end of its files; returns the output of all runs so far, sorted.
fn pass(dir: &Path, source: &str, parse: &str) -> Vec<String> {
    let config = format!(
        "
sources: {{ app: {{ type: file, include: ['DIR/in/*.log'], {source} }} }}
transforms: {{ parsed: {{ type: parse, inputs: [app], on_error: reject, {parse} }} }}
sinks: {{ out: {{ type: file, inputs: [parsed, parsed.rejected], path: DIR/out, encoding: {{ metadata: [] }} }} }}
"
    );
    let mut agent = Agent::start(dir, &config, &["--until-eof"]);
    agent.wait(LIMIT);
    let mut rows = lines(&dir.join("out"));
    rows.iter_mut().for_each(|row| {
        let end = row.find("\",").map_or(0, |end| end + 2);
        row.replace_range(1..end, "");
    });
    rows.sort();
    rows
}

fn append(dir: &Path, name: &str, text: &str) {
    let path = dir.join("in").join(name);
    fs::create_dir_all(dir.join("in")).unwrap();
    OpenOptions::new()
        .create(true)
        .append(true)
        .open(path)
        .unwrap()
        .write_all(text.as_bytes())
        .unwrap();
}

/// The agent knows the header of a file after a restart in the middle of the file. A new file has a
/// separate header.
#[test]
fn csv_columns_follow_the_first_line_of_each_file_and_survive_a_restart() {
    let (dir, parse) = (folder(), "format: csv, header: first_line");
    append(dir.path(), "1.log", "\u{feff}a,\"b c\"\n1,2\n");
    append(dir.path(), "2.log", "\"b c\",a\n3,4\n\"b c\",a\n5,6\n");
    pass(dir.path(), "", parse);
    append(dir.path(), "1.log", "7,8\n\"b c\",a\n9,10\n");
    append(dir.path(), "2.log", "11,12\n");
    append(dir.path(), "3.log", "c,a\n13,14\n");
    let expected = [
        r#"{"a":"1","b c":"2"}"#,
        r#"{"a":"7","b c":"8"}"#,
        r#"{"b c":"11","a":"12"}"#,
        r#"{"b c":"3","a":"4"}"#,
        r#"{"b c":"5","a":"6"}"#,
        r#"{"b c":"9","a":"10"}"#,
        r#"{"c":"13","a":"14"}"#,
    ];
    assert_eq!(pass(dir.path(), "", parse), expected);
}

/// Even without the option `header`, a `#Fields` line reorders the columns, although the header
/// lines are dropped.
#[test]
fn fields_lines_reorder_the_configured_columns() {
    let dir = folder();
    append(dir.path(), "1.log", "#Fields: a b\n1 2\n#Fields: b a\n3 4\n");
    let parse = "format: delimited, delimiter: ' ', fields: [a, b], strict: true";
    let rows = pass(dir.path(), "drop_lines: { regex: ['^#'] }", parse);
    assert_eq!(rows, [r#"{"a":"1","b":"2"}"#, r#"{"b":"3","a":"4"}"#]);
}

/// Lines before the first header are errors. A source that starts reading at the end finds the
/// header above its position.
#[test]
fn a_header_is_searched_above_the_place_where_reading_begins() {
    let dir = folder();
    let parse = "format: delimited, delimiter: ' ', header: fields_line";
    append(dir.path(), "1.log", "0 0\n#Software: x\n#Fields: a b\n1 2\n");
    pass(dir.path(), "read_from: end", parse);
    append(dir.path(), "1.log", "3 4\n");
    append(dir.path(), "2.log", "5 6\n#Fields: b a\n#Date: x\n7 8\n");
    let expected = [
        r#"{"a":"3","b":"4"}"#,
        r#"{"b":"7","a":"8"}"#,
        r#"{"message":"5 6","reason":"no_header"}"#,
    ];
    assert_eq!(pass(dir.path(), "read_from: end", parse), expected);
}

#[test]
fn columns_of_decoded_files_follow_their_headers() {
    let dir = folder();
    fs::create_dir_all(dir.path().join("in")).unwrap();
    let text = "\u{feff}a,b\n1,2\nb,a\n3,4\n";
    let bytes: Vec<u8> = text.encode_utf16().flat_map(u16::to_le_bytes).collect();
    fs::write(dir.path().join("in/1.log"), bytes).unwrap();
    let rows = pass(dir.path(), "encoding: utf-16", "format: csv, header: first_line");
    assert_eq!(rows, [r#"{"a":"1","b":"2"}"#, r#"{"b":"3","a":"4"}"#]);
}

/// Columns change every few lines in several files, which several threads read. Each line must get
/// the columns of its header.
#[test]
fn columns_that_change_often_are_those_of_their_lines() {
    let dir = folder();
    let mut expected = 0;
    for file in 0..4 {
        let mut text = String::new();
        for part in 0..200 {
            let names = [["a", "b", "c"], ["c", "a", "b"], ["b", "a", "c"]][(file + part) % 3];
            text.push_str(&format!("#Fields: {}\n", names.join(" ")));
            for row in 0..part * 7 % 50 {
                let values = names.map(|name| format!("{name}{part}-{row}"));
                text.push_str(&(values.join(" ") + "\n"));
                expected += 1;
            }
        }
        append(dir.path(), &format!("{file}.log"), &text);
    }
    let rows = pass(dir.path(), "", "format: delimited, delimiter: ' ', header: fields_line");
    assert_eq!(rows.len(), expected);
    for row in rows {
        let row: serde_json::Map<String, serde_json::Value> = serde_json::from_str(&row).unwrap();
        let is_named = |(name, value): (&String, &serde_json::Value)| {
            value.as_str().is_some_and(|value| value.starts_with(name.as_str()))
        };
        assert!(row.len() == 3 && row.iter().all(is_named), "{row:?}");
    }
}
