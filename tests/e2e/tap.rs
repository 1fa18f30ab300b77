//! Tests `millstream tap` with the real binary.

mod follow;

use crate::support::{Agent, folder, lines, millstream, wait_until};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::collections::HashSet;
use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

const LIMIT: Duration = Duration::from_secs(60);

/// A configuration that writes the parsed and redacted lines to `out.json`.
const CONFIG: &str = "
sources: { app: { type: file, include: ['DIR/app.log'] } }
transforms:
  parsed: { type: parse, inputs: [app], format: logfmt, types: { n: int, odd: bool }, on_error: reject }
  clean: { type: redact, inputs: [parsed, parsed.rejected] }
sinks: { out: { type: file, path: 'DIR/out.json', inputs: [clean] } }
";

/// Appends numbered lines to the log until dropped.
struct Writer {
    done: Arc<AtomicBool>,
    written: Arc<AtomicU64>,
    thread: Option<JoinHandle<()>>,
}

impl Writer {
    /// Starts a writer that appends `at_once` lines at a time, with pauses of a few milliseconds.
    fn start(dir: &Path, at_once: u64) -> Writer {
        let (done, written) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let (ended, count) = (done.clone(), written.clone());
        let mut file = log(dir);
        let thread = std::thread::spawn(move || {
            while !ended.load(Ordering::Relaxed) {
                let first = count.load(Ordering::Relaxed);
                let line = |n: u64| format!("n={n} odd={} mail=a{n}@example.com\n", n % 2 == 1);
                let text: String = (first..first + at_once).map(line).collect();
                file.write_all(text.as_bytes()).unwrap();
                count.fetch_add(at_once, Ordering::Relaxed);
                std::thread::sleep(Duration::from_millis(5));
            }
        });
        Writer { done, written, thread: Some(thread) }
    }

    /// Ends the writer; returns the number of lines.
    fn end(mut self) -> u64 {
        self.done.store(true, Ordering::Relaxed);
        self.thread.take().unwrap().join().unwrap();
        self.written.load(Ordering::Relaxed)
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.done.store(true, Ordering::Relaxed);
        self.thread.take().map(JoinHandle::join);
    }
}

fn log(dir: &Path) -> File {
    File::options().create(true).append(true).open(dir.join("app.log")).unwrap()
}

/// Starts an agent and waits until it is ready.
fn agent(dir: &Path, config: &str) -> Agent {
    let agent = Agent::start(dir, config, &[]);
    wait_until("the agent is ready", LIMIT, || {
        agent.get("/ready").is_some_and(|body| body.contains("\"ready\":true"))
    });
    agent
}

fn command(dir: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(millstream());
    command.arg("tap").args(args).args(["-c", "millstream.yaml"]).current_dir(dir);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn tap(dir: &Path, args: &[&str]) -> Output {
    command(dir, args).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// A tap that is opened without the command.
struct Raw(BufReader<UnixStream>);

impl Raw {
    fn open(dir: &Path, query: &str) -> Raw {
        let mut stream = UnixStream::connect(dir.join("data/control.sock")).unwrap();
        stream.set_read_timeout(Some(LIMIT)).unwrap();
        write!(stream, "GET /api/tap?{query} HTTP/1.0\r\n\r\n").unwrap();
        let mut tap = Raw(BufReader::new(stream));
        assert!(tap.line().contains("200 OK"));
        while tap.line() != "\r\n" {}
        tap
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.0.read_line(&mut line).unwrap();
        line
    }
}

fn delivered(agent: &Agent) -> f64 {
    agent.metric("millstream_component_sent_events_total{component_id=\"out\"").unwrap_or(0.0)
}

fn wait_delivered(agent: &Agent, events: u64) {
    wait_until("everything is delivered", LIMIT, || delivered(agent) >= events as f64);
}

fn ends_within(child: &mut Child, limit: Duration) -> i32 {
    let mut status = None;
    wait_until("the tap ends", limit, || {
        status = child.try_wait().unwrap();
        status.is_some()
    });
    status.unwrap().code().unwrap()
}

#[test]
fn a_tap_shows_events_as_the_sink_writes_them_up_to_its_limit() {
    let dir = folder();
    let mut agent = agent(dir.path(), CONFIG);
    let writer = Writer::start(dir.path(), 10);
    let shown: Vec<(&str, Output)> = ["clean", "out"]
        .map(|id| (id, tap(dir.path(), &[id, "--limit", "25"])))
        .into_iter()
        .collect();
    let written = writer.end();
    wait_delivered(&agent, written);
    assert!(agent.stop().success(), "{}", agent.log());
    let sink: Vec<String> = lines(&dir.path().join("out.json"));
    assert_eq!(sink.len() as u64, written);
    let sink: HashSet<String> = sink.into_iter().collect();
    for (id, output) in shown {
        assert!(output.status.success() && output.stderr.is_empty(), "{}", text(&output.stderr));
        let events: Vec<String> = text(&output.stdout).lines().map(str::to_owned).collect();
        assert_eq!(events.len(), 25, "{id}");
        assert!(events.iter().all(|event| sink.contains(event)), "{id}: {events:#?}");
    }
}

#[test]
fn a_condition_selects_and_faults_are_named() {
    let dir = folder();
    let _agent = agent(dir.path(), CONFIG);
    let _writer = Writer::start(dir.path(), 10);
    let odd = tap(dir.path(), &["parsed", "--where", "odd == true && n > 0", "-n", "20"]);
    let odd_text = text(&odd.stdout);
    assert_eq!(
        (odd.status.code(), odd_text.lines().count()),
        (Some(0), 20),
        "{}",
        text(&odd.stderr)
    );
    for event in odd_text.lines() {
        let event: Value = serde_json::from_str(event).unwrap();
        assert_eq!(event["n"].as_u64().unwrap() % 2, 1, "{event}");
    }
    for (args, part) in [
        (&["app", "--where", "odd =="][..], "where: "),
        (&["pased"], "no component or output is named `pased`; did you mean `parsed`?"),
        (&["parsed.rejectd"], "`app`, `parsed`, `parsed.rejected`, `clean` and `out`"),
        (&["app", "--limit", "0"], "--limit"),
        (&["app", "--format", "xml"], "--format"),
    ] {
        let output = tap(dir.path(), args);
        assert_eq!(output.status.code(), Some(2), "{args:?}");
        assert!(text(&output.stderr).contains(part), "{args:?}: {}", text(&output.stderr));
    }
    // A condition with a field that does not exist selects no events, so the command warns.
    let mut command = command(dir.path(), &["app", "--where", "nosuch == 1"]).spawn().unwrap();
    let mut warning = String::new();
    BufReader::new(command.stderr.take().unwrap()).read_line(&mut warning).unwrap();
    assert!(warning.starts_with("warning: ") && warning.contains("missing_field"), "{warning}");
    kill_process(Pid::from_child(&command), Signal::INT).unwrap();
    assert_eq!(ends_within(&mut command, LIMIT), 0);
    let elsewhere = tap(dir.path(), &["app", "--url", "http://127.0.0.1:1", "--token", "x"]);
    assert_eq!(elsewhere.status.code(), Some(2), "-c and --url exclude each other");
    let none = Command::new(millstream()).args(["tap", "app", "--data-dir", "/nowhere"]).output();
    assert_eq!(none.unwrap().status.code(), Some(1));
}

/// Lines that attack the terminal through its title, colors, cursor or text direction, invalid
/// UTF-8, or their length.
#[test]
fn hostile_lines_are_harmless() {
    let dir = folder();
    let _agent = agent(dir.path(), &CONFIG.replace("app.log'] }", "app.log'], max_line: 2MiB }"));
    let hostile: Vec<Vec<u8>> = vec![
        b"\x1b]0;owned\x07\x1b[2J\x1b[31mred\x9b1m".to_vec(),
        "\u{9b}31m \u{202e}gpj.exe\u{2066} \u{7f}\u{85}".as_bytes().to_vec(),
        b"\xff\xfe\xc3( invalid \xe2\x80".to_vec(),
        [vec![b'x'; 1 << 20], b" end".to_vec()].concat(),
        b"{\"tap\":{\"ended\":\"limit\"}}".to_vec(),
        b"\x1e{\"tap\":{\"ended\":\"limit\"}}".to_vec(),
        b"last".to_vec(),
    ];
    let mut json = Raw::open(dir.path(), "id=app&format=json");
    let mut plain = Raw::open(dir.path(), "id=app&format=text");
    log(dir.path()).write_all(&[hostile.join(&b'\n'), b"\n".to_vec()].concat()).unwrap();
    let harmful = |char: char| {
        char.is_control()
            || ('\u{202a}'..='\u{202e}').contains(&char)
            || ('\u{2066}'..='\u{2069}').contains(&char)
    };
    let read = |tap: &mut Raw| -> Vec<String> {
        let lines: Vec<String> = (0..hostile.len()).map(|_| tap.line()).collect();
        let inside = lines.iter().map(|line| line.trim_end_matches('\n'));
        inside.clone().for_each(|line| assert!(!line.chars().any(harmful), "{line:?}"));
        inside.map(str::to_owned).collect()
    };
    let plain = read(&mut plain);
    assert_eq!(plain[0], r"\x1b]0;owned\x07\x1b[2J\x1b[31mred\x9b1m");
    assert_eq!(plain[1], r"\u{9b}31m \u{202e}gpj.exe\u{2066} \x7f\u{85}");
    assert_eq!(plain[2], r"\xff\xfe\xc3( invalid \xe2\x80");
    let rest = (1 << 20) + 4 - (4 << 10);
    assert_eq!(plain[3], format!("{}… (+{rest} bytes)", "x".repeat(4 << 10)));
    assert_eq!(plain[6], "last");
    let json: Vec<Value> =
        read(&mut json).iter().map(|line| serde_json::from_str(line).unwrap()).collect();
    for (at, event) in json.iter().enumerate().filter(|(at, _)| *at != 3) {
        assert_eq!(event["message"], String::from_utf8_lossy(&hostile[at]).as_ref());
    }
    let long = json[3]["message"].as_str().unwrap();
    assert!(long.len() <= 64 << 10 && long.ends_with(" bytes)"), "{}", long.len());
}

#[test]
fn events_are_redacted_as_the_sinks_get_them_unless_raw() {
    let dir = folder();
    let agent = agent(dir.path(), CONFIG);
    let _writer = Writer::start(dir.path(), 10);
    for id in ["app", "parsed", "clean", "out"] {
        for format in ["json", "text"] {
            let output = tap(dir.path(), &[id, "-n", "20", "--format", format]);
            let shown = text(&output.stdout);
            assert_eq!(shown.lines().count(), 20, "{id}: {}", text(&output.stderr));
            let hidden = shown.lines().all(|line| line.contains("[email]"));
            assert!(hidden && !shown.contains("@example.com"), "{id}: {shown}");
        }
    }
    assert!(!agent.log().contains("raw tap"), "{}", agent.log());
    let raw = text(&tap(dir.path(), &["app", "-n", "20", "--raw"]).stdout);
    assert!(raw.lines().all(|line| line.contains("@example.com")), "{raw}");
    let told = "a raw tap of app was opened";
    wait_until("the log tells it", LIMIT, || agent.log().contains(told));
}

/// A stopped client does not delay the data, which is delivered in the meantime.
#[test]
fn a_client_that_does_not_read_delays_nothing() {
    let dir = folder();
    let mut agent = agent(dir.path(), CONFIG);
    let writer = Writer::start(dir.path(), 2000);
    let mut client = command(dir.path(), &["app"]).stderr(Stdio::null()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(client.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
    kill_process(Pid::from_child(&client), Signal::STOP).unwrap();
    wait_until("200,000 more lines", LIMIT, || writer.written.load(Ordering::Relaxed) > 300_000);
    let written = writer.end();
    wait_delivered(&agent, written);
    let (begun, status) = (Instant::now(), agent.stop());
    assert!(begun.elapsed() < Duration::from_secs(5) && status.success(), "{}", agent.log());
    assert_eq!(lines(&dir.path().join("out.json")).len() as u64, written);
    client.kill().unwrap();
    client.wait().unwrap();
}

#[test]
fn nothing_is_lost_and_a_tap_gets_a_bounded_sample_under_load() {
    let dir = folder();
    let mut agent = agent(dir.path(), CONFIG);
    let writer = Writer::start(dir.path(), 2000);
    let mut clients: Vec<Child> = ["app", "parsed", "out"]
        .iter()
        .map(|id| {
            let shown = File::create(dir.path().join(format!("{id}.shown"))).unwrap();
            command(dir.path(), &[id]).stdout(shown).spawn().unwrap()
        })
        .collect();
    let begun = Instant::now();
    let shown = |id: &str| lines(&dir.path().join(format!("{id}.shown"))).len() as u64;
    // On a busy host, a tap may open only after many lines have been written.
    wait_until("many lines, and many shown", LIMIT, || {
        let is_shown = ["app", "parsed", "out"].iter().all(|id| shown(id) >= 500);
        is_shown && writer.written.load(Ordering::Relaxed) > 300_000
    });
    let written = writer.end();
    wait_delivered(&agent, written);
    let seconds = begun.elapsed().as_secs() + 2;
    assert!(agent.stop().success(), "{}", agent.log());
    for client in &mut clients {
        assert_eq!(ends_within(client, LIMIT), 1, "the agent has stopped");
    }
    assert_eq!(lines(&dir.path().join("out.json")).len() as u64, written);
    for id in ["app", "parsed", "out"] {
        let shown = shown(id);
        assert!(shown >= 500 && shown <= 1000 * (seconds + 1), "{id}: {shown} in {seconds} s");
    }
}

#[test]
fn eight_taps_may_be_open() {
    let dir = folder();
    let _agent = agent(dir.path(), CONFIG);
    let mut taps: Vec<Raw> = (0..8).map(|_| Raw::open(dir.path(), "id=app&format=text")).collect();
    let ninth = tap(dir.path(), &["app"]);
    assert_eq!(ninth.status.code(), Some(1));
    assert!(text(&ninth.stderr).contains("8 taps are open"), "{}", text(&ninth.stderr));
    log(dir.path()).write_all(b"hello\n").unwrap();
    taps.iter_mut().for_each(|tap| assert_eq!(tap.line(), "hello\n"));
    taps.pop();
    let _writer = Writer::start(dir.path(), 1);
    wait_until("a place is free", LIMIT, || tap(dir.path(), &["app", "-n", "1"]).status.success());
}

#[test]
fn a_tap_continues_after_a_reload_with_the_new_redactions() {
    let dir = folder();
    let agent = agent(dir.path(), CONFIG);
    let mut open = Raw::open(dir.path(), "id=app&format=text");
    log(dir.path()).write_all(b"a@example.com 203.0.113.9\n").unwrap();
    assert_eq!(open.line(), "[email] 203.0.113.9\n");
    let loaded = |times: usize| {
        wait_until("the reload", LIMIT, || {
            agent.log().matches("configuration reloaded;").count() == times
        });
    };
    agent.reload(&CONFIG.replace("parsed.rejected] }", "parsed.rejected], detect: [ip] }"));
    loaded(1);
    // Lines that were taken before the tap noticed the reload are not shown.
    let mut line = String::new();
    let _writer = Writer::start(dir.path(), 1);
    while !line.contains("@example.com") {
        line = open.line();
        assert!(!line.contains("[email]"), "{line}");
    }
    agent.reload(&CONFIG.replace("app", "web").replace("web.log", "app.log"));
    loaded(2);
    while !line.contains("\"ended\"") {
        line = open.line();
    }
    let why = "the configuration was reloaded: no component or output is named `app`";
    assert!(line.contains(why), "{line}");
}

#[test]
fn a_tap_of_an_agent_that_hangs_ends() {
    let dir = folder();
    let agent = agent(dir.path(), CONFIG);
    let mut open = command(dir.path(), &["app"]).spawn().unwrap();
    log(dir.path()).write_all(b"first\n").unwrap();
    let mut line = String::new();
    BufReader::new(open.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
    agent.send(Signal::STOP);
    assert_eq!(ends_within(&mut open, LIMIT), 1);
    let mut said = String::new();
    BufReader::new(open.stderr.take().unwrap()).read_line(&mut said).unwrap();
    assert_eq!(said, "/api/tap: no data from the agent for 30s\n");
    agent.send(Signal::CONT);
}

/// The fastest of several stops counts, because a busy host delays single ones.
#[test]
fn a_stop_ends_taps_within_a_second() {
    let times: Vec<Duration> = (0..3).map(|_| stop_with_taps()).collect();
    assert!(times.iter().any(|time| *time < Duration::from_secs(1)), "{times:?}");
}

/// Returns how long an agent takes to stop while one tap reads and another does not.
fn stop_with_taps() -> Duration {
    let dir = folder();
    let mut agent = agent(dir.path(), CONFIG);
    let _writer = Writer::start(dir.path(), 500);
    let mut first = command(dir.path(), &["app"]).stdout(Stdio::null()).spawn().unwrap();
    let mut stuck = command(dir.path(), &["app"]).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(stuck.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
    kill_process(Pid::from_child(&stuck), Signal::STOP).unwrap();
    let begun = Instant::now();
    agent.terminate();
    assert!(agent.wait(LIMIT).success(), "{}", agent.log());
    let time = begun.elapsed();
    assert_eq!(ends_within(&mut first, LIMIT), 1);
    let mut said = String::new();
    BufReader::new(first.stderr.take().unwrap()).read_line(&mut said).unwrap();
    assert_eq!(said, "the tap ended: the agent is stopping\n");
    stuck.kill().unwrap();
    stuck.wait().unwrap();
    time
}
