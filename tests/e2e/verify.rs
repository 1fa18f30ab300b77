//! Tests `millstream verify`: it passes, detects losses, and leaves no files.

use crate::support::{folder, millstream, wait_until};
use millstream_testkit_servers::kafka::Kafka;
use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

/// Runs the command in `dir` at a rate that leaves capacity for other tests.
fn verify(dir: &Path, args: &[&str]) -> Output {
    let mut command = Command::new(millstream());
    command.args(["verify", "--rate", "5000", "--dir"]).arg(dir).args(args);
    command.output().unwrap()
}

fn last_line(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).lines().last().unwrap_or_default().to_owned()
}

fn count(dir: &Path) -> usize {
    fs::read_dir(dir).unwrap().count()
}

/// Returns the number that follows a word in the report.
fn number(output: &Output, word: &str) -> u64 {
    let text = String::from_utf8_lossy(&output.stdout).replace(',', "");
    let mut words = text.split_whitespace().skip_while(|w| *w != word).skip(1);
    words
        .next()
        .and_then(|number| number.parse().ok())
        .unwrap_or_else(|| panic!("no {word} in:\n{text}"))
}

#[test]
fn every_kind_of_rotation_with_kills_loses_nothing() {
    let dir = folder();
    let output = verify(dir.path(), &["-d", "8s"]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let last = last_line(&output);
    assert!(
        last.starts_with("lost 0 repeated ")
            && (last.ends_with(" torn 0") || last.contains(" torn 0 (")),
        "{output:?}"
    );
    for rotation in ["rename", "date", "copytruncate", "move", "delete", "expire"] {
        assert!(number(&output, rotation) > 0, "{output:?}");
    }
    assert!(number(&output, "agent:") > 0 && number(&output, "written:") > 10_000, "{output:?}");
    assert_eq!(count(dir.path()), 0, "nothing is left");
}

#[test]
fn files_deleted_behind_a_slow_sink_are_held_if_possible() {
    let dir = folder();
    let output = verify(dir.path(), &["-d", "3s", "--rotate", "expire", "--keep"]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let last = last_line(&output);
    let before = text.split(" lines could not be kept").next().unwrap();
    let not_kept = before.rsplit(char::is_whitespace).next().unwrap();
    let end = format!(" torn 0 ({not_kept} lines of deleted files could not be kept)");
    assert!(last.starts_with("lost 0 repeated ") && last.ends_with(&end), "{output:?}");
    // For each of the three logs, files were deleted before a kill and before a shutdown.
    let before = |phrase: &str| -> u64 {
        let (start, _) = text.split_once(phrase).unwrap_or_else(|| panic!("no {phrase}: {text}"));
        start.rsplit([' ', '\n']).next().unwrap().parse().unwrap()
    };
    let deleted = number(&output, "delivery:");
    assert!(
        deleted >= 24 && before(" of them linked") >= 6 && deleted.is_multiple_of(3),
        "{output:?}"
    );
    assert!(before(" kills and ") >= 1 && before(" stops\n") >= 1, "{output:?}");
    // Data that only a descriptor keeps is neither delivered nor lost, and the shutdown summary
    // counts it.
    assert!(before(" across kills") > 0, "{output:?}");
    let kept =
        fs::read_dir(dir.path()).unwrap().next().expect("the folder is kept").unwrap().path();
    let log = fs::read_to_string(kept.join("agent.log")).unwrap();
    let counted =
        log.lines().filter_map(|line| line.split_once(" deleted_undelivered (source counted)"));
    let counted = counted
        .map(|(before, _)| before.rsplit(['(', ' ']).next().unwrap().parse::<u64>().unwrap());
    let counted: u64 = counted.sum();
    assert!(
        counted > 0
            && text.contains(&format!(
                " {counted} across stops without copies, counted by the agent\n"
            )),
        "{output:?}\n{log}"
    );
    assert!(!log.contains("deleted_undelivered (source linked)"), "{log}");
    assert!(!log.contains("deleted_undelivered (source copied)"), "{log}");
}

#[test]
fn missing_lines_are_reported_as_lost() {
    let dir = folder();
    let args = ["-d", "3s", "--inject", "lose=3", "--rotate", "rename", "--keep"];
    let output = verify(dir.path(), &args);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert!(last_line(&output).starts_with("lost 3 repeated 0 torn 0"), "{output:?}");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let shown: Vec<&str> = text.lines().filter_map(|line| line.strip_prefix("lost: ")).collect();
    assert_eq!(shown.len(), 3, "{text}");
    // The reported offset is the offset of the line in one of the rotated files, which `--keep`
    // preserves.
    let kept =
        fs::read_dir(dir.path()).unwrap().next().expect("the folder is kept").unwrap().path();
    for line in shown {
        let (name, behind) = line.split_once(", file ").unwrap();
        let offset = behind.split("offset ").nth(1).unwrap().split(',').next().unwrap();
        let offset: usize = offset.parse().unwrap();
        let files = fs::read_dir(kept.join("in"))
            .unwrap()
            .map(|entry| fs::read(entry.unwrap().path()).unwrap());
        let is_there =
            |file: Vec<u8>| file.get(offset..).is_some_and(|at| at.starts_with(name.as_bytes()));
        assert!(files.into_iter().any(is_there), "{line}");
    }
}

#[test]
fn ctrl_c_prints_the_report_so_far() {
    let dir = folder();
    let mut command = Command::new(millstream());
    command.args(["verify", "-d", "10m", "--rate", "1000", "--dir"]).arg(dir.path());
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    // On a busy host the agent starts late.
    let has_begun = |entry: std::io::Result<fs::DirEntry>| {
        let log = fs::metadata(entry.unwrap().path().join("agent.log"));
        log.is_ok_and(|log| log.len() > 0)
    };
    wait_until("the agent runs", Duration::from_secs(60), || {
        fs::read_dir(dir.path()).unwrap().any(has_begun)
    });
    std::thread::sleep(Duration::from_secs(2));
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert!(String::from_utf8_lossy(&output.stdout).contains("interrupted"), "{output:?}");
    assert!(last_line(&output).starts_with("lost 0 "), "{output:?}");
    assert_eq!(count(dir.path()), 0, "nothing is left");
}

#[test]
fn a_topic_is_verified_and_repeats_have_the_same_ids() {
    let (dir, kafka) = (folder(), Kafka::shared());
    kafka.create_topic("verify", 3);
    let sink = format!("kafka://{}/verify", kafka.bootstrap());
    // The command must not change existing records.
    let other = folder();
    let before = other.path().join("before");
    fs::write(&before, "before\n").unwrap();
    kafka.kcat(&["-P", "-t", "verify", "-l", before.to_str().unwrap()]);
    let output = verify(
        dir.path(),
        &[
            "-d",
            "6s",
            "--sink",
            &sink,
            "--rotate",
            "rename,date,copytruncate,move,delete,gzip,expire",
        ],
    );
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(
        text.contains(
            " with the same id, 0 with another id\nout of order: 0; with the id of another line: \
             0\n"
        ),
        "{text}"
    );
    assert!(last_line(&output).starts_with("lost 0 "), "{text}");
}

#[test]
fn invalid_usage_is_rejected() {
    let dir = folder();
    let taken = dir.path().join("taken.json");
    fs::write(&taken, "").unwrap();
    let taken = format!("file://{}", taken.display());
    for (args, status) in [
        (&["--rotate", "renam"][..], 2),
        (&["--inject", "3"], 2),
        (&["--sink", "http://x/y"], 2),
        (&["--dir", "/no/such/folder"], 2),
        (&["--sink", &taken], 1),
    ] {
        let mut command = Command::new(millstream());
        command.args(["verify", "-d", "1s"]).args(args);
        if !args.contains(&"--dir") {
            command.arg("--dir").arg(dir.path());
        }
        assert_eq!(command.output().unwrap().status.code(), Some(status), "{args:?}");
    }
    assert_eq!(count(dir.path()), 1, "nothing is left");
}
