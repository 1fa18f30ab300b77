//! Tests `millstream spool`, which inspects the disk buffers of a folder.

use crate::support::{folder, millstream};
use bytes::Bytes;
use millstream_spool::{
    EntryMeta, EntryNumber, Folder, NewEntry, SourceRange, Spool, SpoolOptions,
};
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

fn run(args: &[&str]) -> Output {
    Command::new(millstream()).arg("spool").args(args).output().unwrap()
}

fn stdout(output: &Output) -> &str {
    std::str::from_utf8(&output.stdout).unwrap()
}

/// Creates the disk buffer of a sink; its entries have two parts and ten events each.
fn spool(data_dir: &Path, sink: &str, numbers: &[u64]) -> Spool {
    let disk = Folder::open(&data_dir.join("spool").join(sink)).unwrap();
    let options = SpoolOptions { segment_bytes: 500 };
    let mut spool = Spool::open(Box::new(disk), options, EntryNumber(0)).unwrap();
    for number in numbers {
        let source = "app".into();
        let range = SourceRange { source, origin: 0xAB, start: number * 10, end: number * 10 + 10 };
        let meta = EntryMeta {
            number: EntryNumber(*number),
            written_ms: 1_000 + *number as i64,
            events: 10,
            lane: 1,
            lanes: 2,
            format: "text/1".into(),
            ranges: vec![range],
            completes: true,
        };
        let parts = [Bytes::from(format!("entry {number},")), Bytes::from(" two parts\n")];
        let entry = NewEntry { meta: &meta, parts: &parts, routing: b"r", rows: b"" };
        spool.append(&entry).unwrap();
    }
    spool.sync().unwrap();
    spool
}

fn text(numbers: impl IntoIterator<Item = u64>) -> String {
    numbers.into_iter().map(|number| format!("entry {number}, two parts\n")).collect()
}

#[test]
fn disk_buffers_are_listed_beside_their_owner() {
    let dir = folder();
    let data_dir = dir.path().to_str().unwrap();
    let none = run(&["ls", "--data-dir", data_dir]);
    assert_eq!((none.status.code(), stdout(&none)), (Some(0), ""));
    let _out = spool(dir.path(), "out", &[3, 4, 5, 9]);
    let _search = spool(dir.path(), "search", &[1]);
    let listed = run(&["ls", "--data-dir", data_dir]);
    assert_eq!(listed.status.code(), Some(0));
    let lines: Vec<&str> = stdout(&listed).lines().collect();
    assert_eq!(lines.len(), 3, "{lines:?}");
    assert!(lines[0].starts_with("sink    entries  events"), "{lines:?}");
    let columns: Vec<&str> = lines[1].split_whitespace().collect();
    assert_eq!((&columns[..3], columns[5], columns[6]), (&["out", "4", "40"][..], "text/1", "-"));
    let listed = run(&["ls", "--json", "--data-dir", data_dir]);
    let listed: Value = serde_json::from_slice(&listed.stdout).unwrap();
    let out = &listed[0];
    assert_eq!(
        (&out["sink"], &out["entries"], &out["events"]),
        (&"out".into(), &4.into(), &40.into())
    );
    assert_eq!((&out["first"], &out["last"]), (&3.into(), &9.into()));
    assert_eq!((&out["oldest_ms"], &out["formats"][0]), (&1_003.into(), &"text/1".into()));
    assert_eq!(listed[1]["sink"], "search");
}

#[test]
fn payloads_are_written_as_they_were_encoded() {
    let dir = folder();
    let data_dir = dir.path().to_str().unwrap();
    let _out = spool(dir.path(), "out", &[3, 4, 5, 9]);
    let cat = |more: &[&str]| {
        let output = run(&[&["cat", "out", "--data-dir", data_dir], more].concat());
        assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
        stdout(&output).to_owned()
    };
    assert_eq!(cat(&[]), text([3, 4, 5, 9]));
    assert_eq!(cat(&["--limit", "2"]), text([3, 4]));
    assert_eq!(cat(&["--from", "5"]), text([5, 9]));
    assert_eq!(cat(&["--from", "10"]), "");
    let meta = cat(&["--meta", "--from", "4", "--limit", "1"]);
    assert_eq!(
        meta,
        "{\"number\":4,\"time_ms\":1004,\"events\":10,\"bytes\":19,\"format\":\"text/1\",\"lane\":1,\"lanes\":2,\
         \"ranges\":[{\"source\":\"app\",\"origin\":\"00000000000000ab\",\"start\":40,\"end\":50}]}\n"
    );
}

#[test]
fn the_configuration_says_where_disk_buffers_are() {
    let dir = folder();
    let config = format!(
        "data_dir: {}\nsources: {{ in: {{ type: stdin }} }}\nsinks: {{ out: {{ type: blackhole, inputs: [in] }} }}\n",
        dir.path().display()
    );
    let path = dir.path().join("c.yaml");
    fs::write(&path, config).unwrap();
    let _out = spool(dir.path(), "out", &[7]);
    let output = run(&["cat", "out", "-c", path.to_str().unwrap()]);
    assert_eq!((output.status.code(), stdout(&output)), (Some(0), &*text([7])));
    let output = run(&["cat", "ou", "-c", path.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(2));
    let message = String::from_utf8_lossy(&output.stderr);
    assert!(message.contains("`ou`") && message.contains("these sinks have one: out"), "{message}");
    let output = run(&["ls", "-c", "/nowhere.yaml"]);
    assert_eq!(output.status.code(), Some(2));
}

/// Returns the segments of a sink, in order.
fn segments(data_dir: &Path, sink: &str) -> Vec<PathBuf> {
    let files = fs::read_dir(data_dir.join("spool").join(sink)).unwrap();
    let mut paths: Vec<PathBuf> = files.map(|file| file.unwrap().path()).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "spool"));
    paths.sort();
    paths
}

#[test]
fn damage_is_listed_and_left_out() {
    let dir = folder();
    let data_dir = dir.path().to_str().unwrap();
    drop(spool(dir.path(), "out", &[3, 4, 5, 9]));
    let first = segments(dir.path(), "out").swap_remove(0);
    let mut bytes = fs::read(&first).unwrap();
    let at = bytes.windows(7).position(|window| window == b"entry 3").unwrap();
    bytes[at] ^= 1;
    fs::write(&first, bytes).unwrap();
    let listed = run(&["ls", "--data-dir", data_dir]);
    assert!(stdout(&listed).trim_end().ends_with("bytes, 1 entries"), "{}", stdout(&listed));
    let output = run(&["cat", "out", "--data-dir", data_dir]);
    assert_eq!((output.status.code(), stdout(&output)), (Some(0), &*text([4, 5, 9])));
}

#[test]
fn a_closed_pipe_ends_the_output_quietly() {
    let dir = folder();
    let _out = spool(dir.path(), "out", &(0..2_000).collect::<Vec<_>>());
    for more in [&[][..], &["--meta"]] {
        let mut command = Command::new(millstream());
        command.args(["spool", "cat", "out", "--data-dir"]).arg(dir.path()).args(more);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        drop(child.stdout.take());
        let output = child.wait_with_output().unwrap();
        assert_eq!((output.status.code(), output.stderr.len()), (Some(0), 0));
    }
}
