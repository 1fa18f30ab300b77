//! Tests invalid messages: the agent counts them by reason and processes valid points.

use super::{Events, ONE_PERIOD, PATIENCE, counted, send_all, start};
use crate::support::{Agent, folder, wait_until};
use fastrand::Rng;
use millstream_testkit_random::{Seed, TestSize};
use std::collections::BTreeMap;
use std::io::Write;
use std::net::{Shutdown, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::Path;

/// A message with the reason under which it is counted.
type Bad<'a> = (&'a [u8], &'static str);

const DOGSTATSD: &[Bad<'_>] = &[
    (b":1|c", "no_name"),
    (b"rubbish", "no_value"),
    (b"a:|c", "no_value"),
    (b"a:1", "no_type"),
    (b"a:1|x", "unknown_type"),
    (b"a:1|", "unknown_type"),
    (b"a:x|c", "bad_value"),
    (b"a:0x10|g", "bad_value"),
    (b"a:1|c|@0", "bad_rate"),
    (b"a:1|c|@2", "bad_rate"),
    (b"a:1|c|Tnoon", "bad_timestamp"),
    (b"_e{99999999999,5}:a|b", "bad_event"),
    (b"_e{5,5}:abc", "bad_event"),
    (b"_sc|database|9", "bad_service_check"),
    (b"_e{2,2}:\xff\xff|ab", "utf8"),
    (b"name\xff:1|c", "utf8"),
    (b"a:nan|g", "not_finite"),
    (b"a:-inf|ms", "not_finite"),
];

const METRICSERVER: &[Bad<'_>] = &[
    (b"\x96\xa4em", "truncated"),
    (b"\xdd\xff\xff\xff\xff", "truncated"),
    (b"\xdd\xff\xff\xff\xff\x96", "truncated"),
    (b"\x96\xa4emit\xdb\xff\xff\xff\xff", "truncated"),
    (b"\xc1", "not_array"),
    (b"\x92\xa4emit\xa7counter", "too_few_elements"),
    (b"\x97\xa4emit\xa7counter\xa1a\xa11\xa0\xa0\xa0", "too_many_elements"),
    (b"\x96\xa4emit\xa5count\xa1a\xa11\xa0\xa0", "unknown_type"),
    (b"\x96\xa5shout\xa7counter\xa1a\xa11\xa0\xa0", "unknown_action"),
    (b"\x96\xa4emit\xa7counter\x05\xa11\xa0\xa0", "wrong_type"),
    (b"\x96\xa4emit\xa7counter\xa1a\xa3one\xa0\xa0", "bad_value"),
    (b"\x96\xa4emit\xa8ts_store\xa1a\xa11\xa0\xa4noon", "bad_timestamp"),
    (b"\x96\xa4emit\xa7counter\xa0\xa11\xa0\xa0", "no_name"),
    (b"\x96\xa4emit\xa7counter\xa1a\xa0\xa0\xa0", "no_value"),
];

/// The point `good` with value 1 in each protocol.
const GOOD_LINE: &[u8] = b"good:1|c";
const GOOD_POINT: &[u8] = b"\x96\xa4emit\xaddelta_counter\xa4good\xa11\xa0\xa0";

/// Sends every invalid message between valid messages, and checks that each is counted once and
/// that the valid messages arrive.
fn check(source: &str, bad: &[Bad<'_>], good: &[u8], good_name: &str) {
    let dir = folder();
    let mut agent = start(
        dir.path(),
        &format!("type: {source}, listen: ['unixgram://DIR/points.sock'], {ONE_PERIOD}"),
    );
    let before: Vec<&[u8]> = bad.iter().flat_map(|(message, _)| [*message, good]).collect();
    send_all(&dir.path().join("points.sock"), &before);
    let mut due: BTreeMap<&str, f64> = BTreeMap::new();
    bad.iter().for_each(|(_, reason)| *due.entry(reason).or_default() += 1.0);
    // The points that the store rejects are counted only at the end of a period, so only the last
    // log lines contain all counts.
    let ended = end(&mut agent, &due);
    let faults: Vec<String> = due
        .iter()
        .filter(|(reason, count)| ended.get(**reason) != Some(*count))
        .map(|(reason, count)| format!("{reason}: {:?} instead of {count}", ended.get(*reason)))
        .collect();
    assert!(faults.is_empty(), "{}\n{ended:?}\n{}", faults.join("\n"), agent.log());
    assert_eq!(Events::read(dir.path()).one(good_name, ""), bad.len() as f64);
}

/// Stops the agent; returns its dropped points by reason.
fn end(agent: &mut Agent, due: &BTreeMap<&str, f64>) -> BTreeMap<String, f64> {
    let seen = |reason: &str| counted(agent, "dropped_events", &format!("reason=\"{reason}\""));
    let all = |reasons: &mut dyn Iterator<Item = &&str>| {
        reasons.map(|r| ((*r).to_owned(), seen(r))).collect()
    };
    let at_once = |reason: &&&str| !["utf8", "not_finite"].contains(*reason);
    wait_until("what the parser refuses is counted", PATIENCE, || {
        due.iter()
            .filter(|(reason, _)| at_once(reason))
            .all(|(reason, count)| seen(reason) >= *count)
    });
    let mut counts: BTreeMap<String, f64> = all(&mut due.keys());
    assert_eq!(agent.stop().code(), Some(0), "{}", agent.log());
    for (reason, count) in said(&agent.log()) {
        counts.insert(reason, count);
    }
    counts
}

/// Parses `lost: 3 events (2 rejected (source points), …)` in the last log line.
fn said(log: &str) -> Vec<(String, f64)> {
    let lost = log.lines().filter_map(|line| line.split_once("; lost: "));
    let lines = lost.filter_map(|(_, lost)| lost.split_once(" events (")).map(|(_, list)| list);
    let parts = lines.flat_map(|rest| rest.split(", "));
    parts
        .filter_map(|part| {
            let (count, rest) = part.split_once(' ')?;
            Some((
                rest.split_once(' ').map_or(rest, |(reason, _)| reason).to_owned(),
                count.parse().ok()?,
            ))
        })
        .collect()
}

#[test]
fn bad_lines_are_counted_by_reason() {
    check("dogstatsd", DOGSTATSD, GOOD_LINE, "good");
}

#[test]
fn bad_msgpack_is_counted_by_reason() {
    check("metricserver", METRICSERVER, GOOD_POINT, "good.delta");
}

/// Number of rounds, each with a thousand random messages to both sources.
const ROUNDS: TestSize = TestSize { gate: 1, long: 10 };

#[test]
fn noise_bombs_and_oversized_messages_stop_nothing() {
    Seed::of_test().cases(ROUNDS).for_each(send_noise);
}

fn send_noise(seed: u64) {
    for (source, good, good_name) in
        [("dogstatsd", GOOD_LINE, "good"), ("metricserver", GOOD_POINT, "good.delta")]
    {
        let dir = folder();
        let options = format!(
            "type: {source}, listen: ['unixgram://DIR/points.sock'], max_message: 16KiB, {ONE_PERIOD}"
        );
        let mut agent = start(dir.path(), &options);
        let mut random = Rng::with_seed(seed);
        let mut messages = vec![
            vec![0x91; 16_000],
            vec![b'\n'; 16_000],
            vec![b'|'; 16_000],
            vec![0xdc; 16_000],
            vec![],
        ];
        messages.extend(
            (0..500).map(|_| (0..random.u64(..400)).map(|_| random.u64(..) as u8).collect()),
        );
        // Valid messages with a flipped bit get further into the parser than random bytes.
        messages.extend((0..500).map(|_| {
            let mut message = [good, b"\n", good].concat();
            let at = random.u64(..message.len() as u64) as usize;
            message[at] ^= 1 << random.u64(..8);
            message
        }));
        let path = dir.path().join("points.sock");
        send_all(&path, &messages);
        let giants = 3;
        send_all(&path, &vec![vec![b'x'; 60_000]; giants]);
        send_all(&path, &vec![marked(source); 100]);
        let truncated = || counted(&agent, "dropped_events", "reason=\"truncated\"");
        wait_until("the giants are counted", PATIENCE, || truncated() >= giants as f64);
        assert_eq!(agent.stop().code(), Some(0), "{}", agent.log());
        assert!(!agent.log().contains("panic"), "{}", agent.log());
        let name = good_name.replace("good", "after");
        assert_eq!(Events::read(dir.path()).one(&name, ""), 100.0, "{source}");
    }
}

/// Returns a valid point whose name is in no other message.
fn marked(source: &str) -> Vec<u8> {
    match source {
        "dogstatsd" => b"after:1|c".to_vec(),
        _ => b"\x96\xa4emit\xaddelta_counter\xa5after\xa11\xa0\xa0".to_vec(),
    }
}

#[test]
fn a_hostile_connection_does_not_delay_the_others() {
    let (dir, tcp) = (folder(), super::udp().replace("udp", "tcp"));
    let listen = format!("listen: ['{tcp}', 'unix://DIR/points.sock'], max_message: 1KiB");
    let mut agent = start(dir.path(), &format!("type: dogstatsd, {listen}, {ONE_PERIOD}"));
    let unix = || UnixStream::connect(dir.path().join("points.sock")).unwrap();
    let connect = || TcpStream::connect(tcp.trim_start_matches("tcp://")).unwrap();
    // One connection is silent, one stops within a message, and one announces a message that is too
    // large.
    let (silent, mut half, mut large, mut endless) = (unix(), unix(), unix(), connect());
    half.write_all(b"\x10\x00\x00\x00go").unwrap();
    large.write_all(b"\xff\xff\xff\xffgood:1|c").unwrap();
    // The source skips an overlong line up to the next newline.
    endless.write_all(&[b'x'; 100_000]).unwrap();
    for _ in 0..100 {
        framed(&mut unix(), GOOD_LINE);
        writeln!(connect(), "good:1|c").unwrap();
    }
    wait_for_good(&agent, 200.0);
    endless.write_all(b"\ngood:1|c\ngood:1|c").unwrap();
    // Data after the last newline counts as a line when the connection ends.
    endless.shutdown(Shutdown::Write).unwrap();
    wait_for_good(&agent, 202.0);
    drop((silent, half));
    assert_eq!(agent.stop().code(), Some(0), "{}", agent.log());
    assert_eq!(Events::read(dir.path()).one("good", ""), 202.0);
}

fn framed(stream: &mut UnixStream, message: &[u8]) {
    stream.write_all(&(message.len() as u32).to_le_bytes()).unwrap();
    stream.write_all(message).unwrap();
}

fn wait_for_good(agent: &Agent, count: f64) {
    wait_until("the good points", PATIENCE, || counted(agent, "received_events", "") >= count);
}

#[test]
fn exceeding_the_series_limit_is_logged() {
    let dir = folder();
    let options =
        "type: dogstatsd, listen: ['unixgram://DIR/points.sock'], max_series: 100, period: 1s";
    let mut agent = start(dir.path(), options);
    let messages: Vec<String> = (0..1000).map(|n| format!("many:1|c|#id:{n}")).collect();
    send_all(&dir.path().join("points.sock"), &messages);
    let noted = || counted(&agent, "noted_events", "note=\"series\"");
    wait_until("what had no room is counted", PATIENCE, || noted() >= 900.0);
    assert_eq!(agent.stop().code(), Some(0), "{}", agent.log());
    let total = total(dir.path());
    assert_eq!(total, 1000.0, "what is folded is in the sum of the overflow series");
}

/// Returns the sum of all delta counters.
fn total(dir: &Path) -> f64 {
    let events = Events::read(dir);
    events.0.iter().filter(|event| event["temporality"] == "delta").map(super::number).sum()
}
