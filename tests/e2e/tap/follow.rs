//! Tests `millstream tap --follow`, which shows the path of single events.

use super::{LIMIT, Raw, Writer, agent, ends_within, log, tap, text, wait_delivered};
use crate::support::{folder, lines, wait_until};
use millstream_testkit_servers::ports::free_port;
use serde_json::Value;
use std::io::Write;
use std::net::TcpListener;
use std::process::Command;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// A configuration that drops even lines and rejects lines that are not `logfmt`; `out.json` gets
/// all other lines and the rejected lines.
const CONFIG: &str = "
sources: { app: { type: file, include: ['DIR/app.log'] } }
transforms:
  parsed: { type: parse, inputs: [app], format: logfmt, types: { n: int, odd: bool }, on_error: reject }
  kept: { type: filter, inputs: [parsed], where: 'odd' }
  clean: { type: redact, inputs: [kept, parsed.rejected] }
sinks: { out: { type: file, path: 'DIR/out.json', inputs: [clean], sync: 20ms } }
";

/// Returns `component step` of each step, and the note of the last step.
fn steps(trace: &Value) -> (Vec<String>, String) {
    let steps = trace["steps"].as_array().unwrap();
    let name = |step: &Value| {
        let name = |key: &str| step[key].as_str().unwrap().to_owned();
        format!("{} {}", name("component"), name("step"))
    };
    let note = steps.last().and_then(|step| step["note"].as_str()).unwrap_or("").to_owned();
    // Waits are omitted, because short waits depend on chance.
    (steps.iter().map(name).filter(|name| !name.ends_with(" wait")).collect(), note)
}

fn trace(line: &str) -> Value {
    serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"))
}

#[test]
fn events_are_followed_from_their_source_to_where_they_end() {
    let dir = folder();
    let agent = agent(dir.path(), CONFIG);
    let mut open = Raw::open(dir.path(), "id=app&follow=true");
    let mut follow = |line: &str| {
        writeln!(log(dir.path()), "{line}").unwrap();
        trace(&open.line())
    };
    let delivered = follow("n=1 odd=true mail=a@example.com");
    let (names, note) = steps(&delivered);
    let expected =
        ["app read", "parsed run", "kept run", "clean run", "out encode", "out queue", "out send"];
    assert_eq!((&*names, &*note), (&expected.map(str::to_owned)[..], "delivered"), "{delivered}");
    assert_eq!((&delivered["source"], &delivered["complete"]), (&"app".into(), &true.into()));
    let sum: f64 =
        delivered["steps"].as_array().unwrap().iter().map(|s| s["seconds"].as_f64().unwrap()).sum();
    let total = delivered["total_seconds"].as_f64().unwrap();
    assert!(sum <= total + 1e-4 && total < 60.0, "{delivered}");
    assert_eq!(delivered["event"]["message"], "n=1 odd=true mail=[email]", "redacted");

    let dropped = follow("n=2 odd=false");
    let (names, note) = steps(&dropped);
    assert_eq!((names.len(), &*names[2], &*note), (3, "kept run", "ends here"), "{dropped}");

    let rejected = follow("no logfmt");
    let way = rejected["steps"].to_string();
    assert!(way.contains("to parsed.rejected") && way.contains("clean"), "{way}");
    assert!(way.contains("delivered") && !way.contains("kept"), "{way}");
    wait_delivered(&agent, 2);
}

#[test]
fn a_transform_selects_the_events_that_pass_it_by_their_fields() {
    let dir = folder();
    let _agent = agent(dir.path(), CONFIG);
    let _writer = Writer::start(dir.path(), 10);
    let shown = tap(dir.path(), &["parsed", "--follow", "-n", "5", "--where", "n % 10 == 3"]);
    assert_eq!(shown.status.code(), Some(0), "{}", text(&shown.stderr));
    for line in text(&shown.stdout).lines() {
        let trace = trace(line);
        assert_eq!(trace["event"]["n"].as_i64().map(|n| n % 10), Some(3), "{line}");
        assert_eq!(steps(&trace).0[0], "app read", "{line}");
    }
    assert_eq!(text(&shown.stdout).lines().count(), 5);
    let shown = tap(dir.path(), &["out", "--follow", "-n", "1", "--format", "text"]);
    let shown = text(&shown.stdout);
    let parts: Vec<Vec<&str>> =
        shown.lines().map(|line| line.split_ascii_whitespace().collect()).collect();
    assert!(parts[0][2].ends_with("=[email]"), "{shown}");
    assert_eq!((parts[1][..2].to_vec(), parts[1][3]), (vec!["app", "read"], "ms"), "{shown}");
    assert_eq!(parts.last().unwrap()[0], "total", "{shown}");
    let unread = tap(dir.path(), &["parsed.rejected", "--follow", "--where", "n >"]);
    assert_eq!(unread.status.code(), Some(2), "{}", text(&unread.stderr));
}

/// An endpoint that accepts connections and never answers holds the events.
#[test]
fn an_event_that_takes_long_is_shown_as_far_as_it_has_come() {
    let dir = folder();
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let uri = format!("http://{}", silent.local_addr().unwrap());
    let refusing = free_port();
    let sinks = format!(
        "sinks:\n  out: {{ type: http, uri: '{uri}', inputs: [clean] }}\n  \
         down: {{ type: tcp, address: '127.0.0.1:{refusing}', inputs: [clean] }}\n  \
         closed: {{ type: http, uri: 'http://127.0.0.1:{refusing}', inputs: [clean] }}\n"
    );
    let config = CONFIG.split_once("sinks:").unwrap().0.to_owned() + &sinks;
    let _agent = agent(dir.path(), &config);
    let begun = Instant::now();
    let mut open = Raw::open(dir.path(), "id=app&follow=true");
    writeln!(log(dir.path()), "n=1 odd=true").unwrap();
    let mut line = open.line();
    while line.starts_with("{\"tap\"") {
        line = open.line();
    }
    let trace = trace(&line);
    assert!(begun.elapsed() >= Duration::from_secs(10), "{line}");
    assert_eq!(trace["complete"], false, "{line}");
    let step = |component: &str| {
        let steps = trace["steps"].as_array().unwrap();
        steps.iter().rfind(|step| step["component"] == component).unwrap().clone()
    };
    for component in ["out", "down"] {
        let last = step(component);
        assert!(last["note"].as_str().unwrap().starts_with("not settled yet"), "{line}");
        assert!(last["seconds"].as_f64().unwrap() > 5.0, "{line}");
    }
    let closed = step("closed");
    let note = closed["note"].as_str().unwrap();
    assert!(note.contains(" failed attempts; last error: http://"), "{note}");
}

/// A traced batch that stays in the queue of a stalled sink must not prevent other batches from
/// being traced.
#[test]
fn a_stalled_sink_is_named_and_does_not_end_the_following() {
    let dir = folder();
    let closed = free_port();
    let down =
        format!("\n  down: {{ type: http, uri: 'http://127.0.0.1:{closed}', inputs: [app] }}\n");
    let config = CONFIG.trim_end().to_owned() + &down;
    let config =
        config.replace("sinks: { out: {", "sinks:\n  out: {").replace("20ms } }", "20ms }");
    let _agent = agent(dir.path(), &config);
    let shown = std::fs::File::create(dir.path().join("shown")).unwrap();
    let _follower =
        Killed(super::command(dir.path(), &["app", "--follow"]).stdout(shown).spawn().unwrap());
    let writer = Writer::start(dir.path(), 100);
    let shown = || lines(&dir.path().join("shown"));
    let is_skipped = |line: &String| {
        // The last line may be incomplete, because it is still being written.
        let trace: Value = serde_json::from_str(line).unwrap_or_default();
        let steps = trace["steps"].as_array().cloned().unwrap_or_default();
        steps.iter().any(|step| step["component"] == "down" && step["step"] == "skip")
    };
    wait_until("more than 256 events, and one that skips the sink", LIMIT, || {
        let shown = shown();
        shown.len() > 300 && shown.iter().any(is_skipped)
    });
    writer.end();
}

/// A process that is killed on drop.
struct Killed(std::process::Child);

impl Drop for Killed {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

#[test]
fn nothing_is_lost_while_events_are_followed() {
    let dir = folder();
    let mut agent = agent(dir.path(), CONFIG);
    let writer = Writer::start(dir.path(), 1000);
    let shown = std::fs::File::create(dir.path().join("shown")).unwrap();
    let mut follower =
        super::command(dir.path(), &["app", "--follow"]).stdout(shown).spawn().unwrap();
    // This tap is open, but its client does not read.
    let _stuck = Raw::open(dir.path(), "id=parsed&follow=true");
    wait_until("many lines, and many events followed", LIMIT, || {
        let followed = lines(&dir.path().join("shown")).len();
        writer.written.load(Ordering::Relaxed) > 150_000 && followed >= 20
    });
    let written = writer.end();
    wait_delivered(&agent, written / 2);
    assert!(agent.stop().success(), "{}", agent.log());
    assert_eq!(ends_within(&mut follower, LIMIT), 1, "the agent has stopped");
    assert_eq!(lines(&dir.path().join("out.json")).len() as u64, written / 2);
    let shown = lines(&dir.path().join("shown"));
    shown.iter().for_each(|line| assert!(trace(line)["steps"].is_array(), "{line}"));
}

/// Payloads that are waiting at a sink keep their traces. After a reload, the events of these
/// traces must not count toward the limit.
#[test]
fn events_that_wait_since_before_a_reload_leave_room_for_others() {
    let dir = folder();
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let uri = format!("http://{}", silent.local_addr().unwrap());
    let config = format!(
        "sources: {{ app: {{ type: file, include: ['DIR/app.log'] }} }}
transforms: {{ kept: {{ type: filter, inputs: [app], where: 'true' }} }}
sinks: {{ out: {{ type: http, uri: '{uri}', inputs: [app] }}, old: {{ type: blackhole, inputs: [kept] }} }}\n"
    );
    let agent = agent(dir.path(), &config);
    let mut open = Raw::open(dir.path(), "id=app&follow=true");
    // Copies of these events exceed the limit of 2 MiB for the events of traces.
    for _ in 0..30 {
        writeln!(log(dir.path()), "{}", "x".repeat(150_000)).unwrap();
        std::thread::sleep(Duration::from_millis(100));
    }
    agent.reload(&config.replace("kept", "selected"));
    wait_until("the reload", LIMIT, || agent.log().contains("configuration reloaded;"));
    let _writer = Writer::start(dir.path(), 1);
    let (begun, mut line) = (Instant::now(), String::new());
    while !line.contains("\"selected\"") {
        assert!(begun.elapsed() < LIMIT, "{line}");
        line = open.line();
    }
}

#[test]
fn a_follower_continues_after_a_reload() {
    let dir = folder();
    let agent = agent(dir.path(), CONFIG);
    let mut open = Raw::open(dir.path(), "id=app&follow=true");
    agent.reload(&CONFIG.replace("kept", "selected"));
    wait_until("the reload", LIMIT, || agent.log().contains("configuration reloaded;"));
    let _writer = Writer::start(dir.path(), 1);
    let mut line = String::new();
    while !line.contains("\"selected\"") {
        line = open.line();
        assert!(!line.contains("\"component\":\"kept\""), "{line}");
    }
    let help = Command::new(crate::support::millstream()).args(["tap", "--help"]).output().unwrap();
    assert!(text(&help.stdout).contains("--follow"));
}
