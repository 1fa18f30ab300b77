//! Guarantees of `docs/reference/guarantees.md` that no other test covers: clean shutdowns, and
//! sources that cannot read twice.

use super::kafka;
use crate::support::{Agent, folder, lines, wait_until};
use millstream_testkit_servers::kafka::Kafka;
use std::fs::{self, File, OpenOptions};
use std::io::{Seek, Write};
use std::path::Path;
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(60);

/// Number of times that an agent is stopped.
const STOPS: usize = 3;

/// Number of lines between two stops.
const LINES: usize = 5000;

/// Appends the lines of a round, runs an agent until `count` reports the lines of all rounds so
/// far, and stops it.
fn round(dir: &Path, number: usize, agent: impl Fn() -> Agent, count: impl Fn() -> usize) {
    let text: String = (0..LINES).map(|line| format!("{}\n", number * LINES + line)).collect();
    fs::create_dir_all(dir.join("in")).unwrap();
    let mut file = OpenOptions::new().create(true).append(true).open(dir.join("in/a.log")).unwrap();
    file.write_all(text.as_bytes()).unwrap();
    let mut agent = agent();
    wait_until("the lines of a round", LIMIT, || count() >= (number + 1) * LINES);
    assert_eq!(agent.stop().code(), Some(0), "{}", agent.log());
}

/// Asserts that each line occurs once, in order.
fn assert_once<'l>(lines: impl Iterator<Item = &'l str>) {
    let numbers: Vec<usize> = lines.map(|line| line.parse().unwrap()).collect();
    assert!(numbers == (0..STOPS * LINES).collect::<Vec<_>>(), "{} lines", numbers.len());
}

#[test]
fn a_clean_stop_before_kafka_neither_loses_nor_repeats() {
    let (dir, kafka) = (folder(), Kafka::shared());
    kafka.create_topic("stops", 1);
    let config = kafka::config(&kafka.bootstrap(), "stops", "encoding: { codec: text }");
    for number in 0..STOPS {
        round(
            dir.path(),
            number,
            || Agent::start(dir.path(), &config, &[]),
            || kafka.count("stops") as usize,
        );
    }
    let records = kafka.read("stops");
    assert_once(records.iter().map(|record| record.text()));
}

#[test]
fn a_clean_stop_before_standard_output_neither_loses_nor_repeats() {
    let dir = folder();
    let out = dir.path().join("out");
    let config = "
sources: { app: { type: file, include: ['DIR/in/*.log'] } }
sinks: { out: { type: console, inputs: [app], encoding: { codec: text } } }
";
    let agent = || {
        let out = File::options().create(true).append(true).open(&out).unwrap();
        Agent::spawn(dir.path(), config, &[], |command| {
            command.stdout(out);
        })
    };
    for number in 0..STOPS {
        round(dir.path(), number, agent, || lines(&out).len());
    }
    assert_once(lines(&out).iter().map(String::as_str));
}

#[test]
fn a_blackhole_counts_each_line_once_across_clean_stops() {
    let dir = folder();
    let config = "
sources: { app: { type: file, include: ['DIR/in/*.log'] } }
sinks: { out: { type: blackhole, inputs: [app] } }
";
    let sent = "millstream_component_sent_events_total{component_id=\"out\"";
    fs::create_dir(dir.path().join("in")).unwrap();
    for number in 1..=STOPS {
        let mut file =
            OpenOptions::new().create(true).append(true).open(dir.path().join("in/a.log")).unwrap();
        file.write_all("line\n".repeat(number).as_bytes()).unwrap();
        let mut agent = Agent::start(dir.path(), config, &[]);
        wait_until("the new lines", LIMIT, || agent.metric(sent) >= Some(number as f64));
        assert_eq!(agent.metric(sent), Some(number as f64), "lines from before the stop");
        assert_eq!(agent.stop().code(), Some(0), "{}", agent.log());
    }
}

/// The sink would sync only after an hour, but the shutdown delivers the events from standard
/// input.
#[test]
fn events_from_standard_input_are_delivered_at_a_stop() {
    let dir = folder();
    let config = "
sources: { in: { type: stdin } }
sinks: { out: { type: file, inputs: [in], path: DIR/out, sync: 1h, encoding: { codec: text } } }
";
    let text: String = (0..STOPS * LINES).map(|number| format!("{number}\n")).collect();
    fs::write(dir.path().join("input"), &text).unwrap();
    let input = File::open(dir.path().join("input")).unwrap();
    let mut agent = Agent::spawn(dir.path(), config, &[], |command| {
        command.stdin(input);
    });
    let received = "millstream_component_received_events_total{component_id=\"in\"";
    wait_until("all lines", LIMIT, || agent.metric(received) == Some((STOPS * LINES) as f64));
    assert_eq!(agent.stop().code(), Some(0), "{}", agent.log());
    assert_once(lines(&dir.path().join("out")).iter().map(String::as_str));
}

/// When the agent stops, the source has read much more than the sinks have taken. The test shares
/// the position in the input with the agent, and so knows how much the agent has read.
#[test]
fn what_was_read_from_standard_input_is_delivered_at_a_stop_or_counted() {
    let text: String = (0..200_000).map(|number| format!("{number:09}\n")).collect();
    for sink in [
        "type: file, path: DIR/out, encoding: { codec: text }",
        "type: http, uri: 'http://127.0.0.1:9/', buffer: { max: 64KiB }",
    ] {
        let dir = folder();
        fs::write(dir.path().join("input"), &text).unwrap();
        let mut input = File::open(dir.path().join("input")).unwrap();
        let shared = input.try_clone().unwrap();
        let config = format!(
            "
shutdown_timeout: 2s
sources: {{ in: {{ type: stdin, rate_limit: 1KiB }} }}
sinks: {{ out: {{ inputs: [in], {sink} }} }}
"
        );
        let mut agent = Agent::spawn(dir.path(), &config, &[], |command| {
            command.stdin(shared);
        });
        wait_until("the input", LIMIT, || input.stream_position().unwrap() > 300_000);
        agent.stop();
        let read = input.stream_position().unwrap() as usize;
        let log = agent.log();
        if sink.contains("http") {
            let lost = format!("lost: {read} bytes from sources that cannot be reread");
            assert!(log.contains(&lost), "{read}, {log}");
        } else {
            let out = fs::read_to_string(dir.path().join("out")).unwrap();
            assert!(out.trim_end() == text[..read].trim_end(), "{read}, {}: {log}", out.len());
        }
    }
}

#[test]
fn generated_lines_restart_with_the_agent() {
    let dir = folder();
    let config = "
sources: { load: { type: generate, count: 100 } }
sinks: { out: { type: file, inputs: [load], path: DIR/out, sync: 50ms, encoding: { codec: text } } }
";
    for run in 1..=2 {
        let mut agent = Agent::start(dir.path(), config, &["--until-eof"]);
        assert_eq!(agent.wait(LIMIT).code(), Some(0), "{}", agent.log());
        let all = lines(&dir.path().join("out"));
        let numbered =
            |(number, line): (usize, &String)| line.contains(&format!("seq={} ", number % 100));
        assert!(all.len() == run * 100 && all.iter().enumerate().all(numbered), "{all:?}");
    }
}
