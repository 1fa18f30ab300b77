//! Tests that a transform that hangs delays only its downstream sinks, and that every end of a run
//! is bounded.

use crate::support::{Agent, folder, lines, wait_until};
use millstream_testkit_servers::http::{HttpServer, ReceivedRequest, Reply};
use millstream_testkit_servers::ports::free_port;
use rustix::process::Signal;
use std::fs;
use std::net::TcpListener;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Timeout for events that should happen soon, generous for a busy host.
const PATIENCE: Duration = Duration::from_secs(60);

/// A configuration with a sink downstream of a transform and a sink that reads the source directly.
const BRANCHES: &str = "
shutdown_timeout: 2s
limits: { memory: 64MiB }
sources:
  app: { type: file, include: ['DIR/in/*.log'] }
transforms:
  slow: { type: test_offload, inputs: [app], hang_while: DIR/hang }
sinks:
  free: { type: file, inputs: [app], path: DIR/free.out, sync: 100ms, encoding: { codec: text } }
  late: { type: file, inputs: [slow], path: DIR/late.out, sync: 100ms, encoding: { codec: text } }
";

/// Number of lines, many times the number that can wait at the transform.
const LINES: usize = 400_000;

/// Writes the input, and the file that makes the transform hang.
fn prepare(folder: &Path) -> Vec<String> {
    fs::create_dir_all(folder.join("in")).unwrap();
    fs::write(folder.join("hang"), "").unwrap();
    let written: Vec<String> =
        (0..LINES).map(|n| format!("line {n:07} {}", "x".repeat(100))).collect();
    fs::write(folder.join("in/app.log"), written.join("\n") + "\n").unwrap();
    written
}

fn has_all(path: &Path) -> bool {
    let bytes = fs::read(path).unwrap_or_default();
    bytes.iter().filter(|byte| **byte == b'\n').count() >= LINES
}

#[test]
fn a_hung_transform_delays_only_the_sinks_behind_it() {
    let folder = folder();
    let written = prepare(folder.path());
    let mut agent = Agent::start(folder.path(), BRANCHES, &[]);
    let (free, late) = (folder.path().join("free.out"), folder.path().join("late.out"));
    wait_until("the free sink has everything", PATIENCE, || has_all(&free));
    assert_eq!(lines(&late), Vec::<String>::new());
    fs::remove_file(folder.path().join("hang")).unwrap();
    wait_until("the late sink has everything", PATIENCE, || has_all(&late));
    assert!(agent.stop().success());
    assert!(lines(&free) == written, "the free sink has every line once, in order");
    assert!(lines(&late) == written, "so has the late sink");
}

#[test]
fn a_stop_ends_in_time_and_names_a_hung_transform() {
    let folder = folder();
    let written = prepare(folder.path());
    let mut agent = Agent::start(folder.path(), BRANCHES, &[]);
    let (free, late) = (folder.path().join("free.out"), folder.path().join("late.out"));
    wait_until("the free sink has everything", PATIENCE, || has_all(&free));
    let begun = Instant::now();
    agent.terminate();
    let status = agent.wait(PATIENCE);
    assert!(begun.elapsed() >= Duration::from_secs(1), "it waits for events in flight");
    assert_eq!(status.code(), Some(1), "{}", agent.log());
    let log = agent.log();
    assert!(log.contains("within 2s (events are waiting at transform slow"), "{log}");
    fs::remove_file(folder.path().join("hang")).unwrap();
    let mut agent = Agent::start(folder.path(), BRANCHES, &["--until-eof"]);
    assert!(agent.wait(PATIENCE).success(), "{}", agent.log());
    assert!(lines(&late) == written, "the next start delivers the rest");
    assert!(lines(&free) == written, "and repeats nothing");
}

#[test]
fn a_reload_that_a_hung_transform_prevents_changes_nothing() {
    let folder = folder();
    let written = prepare(folder.path());
    let mut agent = Agent::start(folder.path(), BRANCHES, &[]);
    let (free, late) = (folder.path().join("free.out"), folder.path().join("late.out"));
    wait_until("the free sink has everything", PATIENCE, || has_all(&free));
    agent.reload(&BRANCHES.replace("shutdown_timeout: 2s", "shutdown_timeout: 20s"));
    let changed = BRANCHES.replace("sync: 100ms", "sync: 200ms");
    agent.reload(&changed);
    let is_rejected =
        |agent: &Agent| agent.log().contains("the previous configuration stays in use");
    wait_until("the reload is rejected", PATIENCE, || is_rejected(&agent));
    wait_until("the log says why", PATIENCE, || agent.log().contains("5s at transform slow"));
    fs::write(folder.path().join("in/more.log"), "one more\n").unwrap();
    wait_until("the free sink continues", PATIENCE, || {
        lines(&free).contains(&"one more".to_owned())
    });
    fs::remove_file(folder.path().join("hang")).unwrap();
    wait_until("the late sink has everything", PATIENCE, || has_all(&late));
    agent.send(Signal::HUP);
    wait_until("the reload passes", PATIENCE, || agent.log().contains("changed: "));
    assert!(agent.stop().success());
    let rest: Vec<String> = lines(&late).into_iter().filter(|line| line != "one more").collect();
    assert!(rest == written, "the late sink has every line once");
}

#[test]
fn a_run_until_the_end_gives_up_a_hung_transform_and_names_it() {
    let folder = folder();
    let written = prepare(folder.path());
    let mut agent = Agent::start(folder.path(), BRANCHES, &["--until-eof"]);
    assert_eq!(agent.wait(PATIENCE).code(), Some(1), "{}", agent.log());
    agent.assert_logs("events are waiting at transform slow");
    assert!(lines(&folder.path().join("free.out")) == written);
    fs::remove_file(folder.path().join("hang")).unwrap();
    let mut agent = Agent::start(folder.path(), BRANCHES, &["--until-eof"]);
    assert!(agent.wait(PATIENCE).success(), "{}", agent.log());
    assert!(lines(&folder.path().join("late.out")) == written);
}

/// One line becomes several events. Their ids differ, and are the same after every start.
#[test]
fn events_of_one_line_have_ordinals_in_their_ids() {
    let folder = folder();
    fs::create_dir_all(folder.path().join("in")).unwrap();
    fs::write(folder.path().join("in/app.log"), "one\ntwo\n").unwrap();
    let config = BRANCHES.replace("hang_while: DIR/hang }", "copies: 3 }").replace(
        "path: DIR/late.out, sync: 100ms, encoding: { codec: text }",
        "path: DIR/late.out, encoding: { codec: json, metadata: [id] }",
    );
    let mut agent = Agent::start(folder.path(), &config, &["--until-eof"]);
    assert!(agent.wait(PATIENCE).success(), "{}", agent.log());
    let id = |line: &String| {
        let event: serde_json::Value = serde_json::from_str(line).unwrap();
        let id = event["meta"]["id"].as_str().unwrap().to_owned();
        id.split_once('-').unwrap().1.to_owned()
    };
    let ids: Vec<String> = lines(&folder.path().join("late.out")).iter().map(id).collect();
    assert_eq!(ids, ["0", "0-1", "0-2", "4", "4-1", "4-2"]);
}

/// Every call hangs. After the deadline, the events of the call continue, and later events follow.
#[test]
fn events_are_handed_back_at_the_deadline() {
    let folder = folder();
    fs::create_dir_all(folder.path().join("in")).unwrap();
    fs::write(folder.path().join("hang"), "").unwrap();
    fs::write(folder.path().join("in/app.log"), "one\ntwo\n").unwrap();
    let config = BRANCHES
        .replace("DIR/hang }", "DIR/hang, deadline: 300ms, concurrency: 2, pass_expired: true }");
    let mut agent = Agent::start(folder.path(), &config, &[]);
    let late = folder.path().join("late.out");
    wait_until("the events continue", PATIENCE, || lines(&late).len() == 2);
    for number in 0..4 {
        fs::write(folder.path().join(format!("in/{number}.log")), format!("{number}\n")).unwrap();
        wait_until("and so do later ones", PATIENCE, || lines(&late).len() == 3 + number);
    }
    let errors = || agent.metric("millstream_component_errors_total{component_id=\"slow\"");
    wait_until("they are counted", PATIENCE, || errors().is_some_and(|errors| errors >= 5.0));
    assert!(agent.stop().success(), "{}", agent.log());
}

/// Writes `lines` numbered lines to a file of the input.
fn write_input(folder: &Path, name: &str, lines: usize) {
    fs::create_dir_all(folder.join("in")).unwrap();
    let text: String = (0..lines).map(|n| format!("{n:07} {}\n", "x".repeat(100))).collect();
    fs::write(folder.join("in").join(name), text).unwrap();
}

/// The source pauses for longer than `shutdown_timeout` while the sink waits for its next sync.
#[test]
fn a_run_until_the_end_does_not_give_up_a_source_that_pauses() {
    let folder = folder();
    write_input(folder.path(), "app.log", 6000);
    let config = "
shutdown_timeout: 1s
sources:
  app: { type: file, include: ['DIR/in/*.log'], rate_limit: 128KiB }
sinks:
  out: { type: file, inputs: [app], path: DIR/out, sync: 30s, encoding: { codec: text } }
";
    let mut agent = Agent::start(folder.path(), config, &["--until-eof"]);
    assert!(agent.wait(PATIENCE).success(), "{}", agent.log());
    assert_eq!(lines(&folder.path().join("out")).len(), 6000);
}

/// A sink that drops events gets events both through the hung transform and around it.
#[test]
fn a_dropping_sink_behind_and_beside_a_hung_transform_stops_nothing() {
    let folder = folder();
    write_input(folder.path(), "a.log", 200_000);
    fs::write(folder.path().join("hang"), "").unwrap();
    let config = "
shutdown_timeout: 2s
limits: { memory: 64MiB }
sources:
  a: { type: file, include: ['DIR/in/a.log'] }
  b: { type: file, include: ['DIR/in/b.log'] }
transforms:
  hung: { type: test_offload, inputs: [a], hang_while: DIR/hang }
sinks:
  free: { type: file, inputs: [a, b], path: DIR/free.out, sync: 100ms }
  both: { type: file, inputs: [a, hung], path: DIR/both.out, buffer: { max: 1MiB, when_full: drop_oldest } }
";
    let _agent = Agent::start(folder.path(), config, &[]);
    let free = folder.path().join("free.out");
    wait_until("the free sink has everything", PATIENCE, || lines(&free).len() == 200_000);
    write_input(folder.path(), "b.log", 1000);
    wait_until("and so has the other source", PATIENCE, || lines(&free).len() == 201_000);
}

/// One batch of each source would together take all the memory.
#[test]
fn many_sources_behind_a_hung_transform_leave_memory_for_other_sinks() {
    let folder = folder();
    fs::create_dir_all(folder.path()).unwrap();
    fs::write(folder.path().join("hang"), "").unwrap();
    let ids: Vec<String> = (0..10).map(|n| format!("s{n}")).collect();
    ids.iter().for_each(|id| write_input(folder.path(), &format!("{id}.log"), 20_000));
    let source = |id: &String| format!("  {id}: {{ type: file, include: ['DIR/in/{id}.log'] }}\n");
    let (sources, all): (String, String) = (ids.iter().map(source).collect(), ids.join(", "));
    let config = format!(
        "
shutdown_timeout: 2s
limits: {{ memory: 64MiB }}
sources:
{sources}transforms:
  slow: {{ type: test_offload, inputs: [{all}], hang_while: DIR/hang }}
sinks:
  free: {{ type: file, inputs: [{all}], path: DIR/free.out, sync: 100ms }}
  late: {{ type: file, inputs: [slow], path: DIR/late.out, sync: 100ms }}
"
    );
    let mut agent = Agent::start(folder.path(), &config, &[]);
    let (free, late) = (folder.path().join("free.out"), folder.path().join("late.out"));
    wait_until("the free sink has everything", PATIENCE, || lines(&free).len() == 200_000);
    fs::remove_file(folder.path().join("hang")).unwrap();
    wait_until("the late sink has everything", PATIENCE, || lines(&late).len() == 200_000);
    assert!(agent.stop().success(), "{}", agent.log());
}

/// Calls that hang without a deadline occupy every thread of the pool.
#[test]
fn hung_calls_do_not_keep_other_transforms_from_running() {
    let folder = folder();
    write_input(folder.path(), "a.log", 100_000);
    write_input(folder.path(), "b.log", 1000);
    fs::write(folder.path().join("hang"), "").unwrap();
    let config = "
shutdown_timeout: 2s
sources:
  a: { type: file, include: ['DIR/in/a.log'] }
  b: { type: file, include: ['DIR/in/b.log'] }
transforms:
  hung: { type: test_offload, inputs: [a], hang_while: DIR/hang, concurrency: 64 }
  works: { type: test_offload, inputs: [b] }
sinks:
  late: { type: file, inputs: [hung], path: DIR/late.out }
  good: { type: file, inputs: [works], path: DIR/good.out, sync: 100ms }
";
    let _agent = Agent::start(folder.path(), config, &[]);
    let good = folder.path().join("good.out");
    wait_until("the other transform works", PATIENCE, || lines(&good).len() == 1000);
    write_input(folder.path(), "b.log", 3000);
    wait_until("and continues", PATIENCE, || lines(&good).len() >= 3000);
}

/// Returns a configuration with the sinks `dead` and `live`, where `live` sends to an HTTP
/// endpoint.
fn dead_and_live(source: &str, dead: u16, live: &HttpServer) -> String {
    format!(
        "sources:\n  app: {source}\nsinks:\n  \
         dead: {{ type: http, inputs: [app], uri: 'http://127.0.0.1:{dead}/', batch: {{ timeout: 100ms }} }}\n  \
         live: {{ type: http, inputs: [app], uri: '{}', batch: {{ timeout: 100ms }} }}\n",
        live.uri("/")
    )
}

const FILE: &str = "{ type: file, include: ['DIR/in/*.log'] }";

/// Writes some lines to `in/app.log`.
fn write_some(folder: &Path) {
    fs::create_dir_all(folder.join("in")).unwrap();
    let text: String = (0..1000).map(|n| format!("line {n}\n")).collect();
    fs::write(folder.join("in/app.log"), text).unwrap();
}

fn received(server: &HttpServer) -> usize {
    server.requests().iter().map(|request| request.text().matches("\"line ").count()).sum()
}

/// Starts an agent whose `dead` sink fails.
fn start_failing(folder: &Path, config: &str) -> Agent {
    let agent = Agent::start(folder, config, &[]);
    wait_until("the dead sink fails", PATIENCE, || agent.log().contains("sink dead: "));
    agent
}

#[test]
fn a_stop_does_not_wait_for_a_dead_endpoint() {
    let (folder, dead) = (folder(), free_port());
    write_some(folder.path());
    let live = HttpServer::start(|_| Reply::status(200));
    let config = dead_and_live(FILE, dead, &live);
    let mut agent = start_failing(folder.path(), &config);
    wait_until("the live sink has everything", PATIENCE, || received(&live) == 1000);
    let begun = Instant::now();
    assert_eq!(agent.stop().code(), Some(0), "{}", agent.log());
    assert!(begun.elapsed() < Duration::from_secs(12), "{:?}", begun.elapsed());
    let log = agent.log();
    let last = log.lines().last().unwrap();
    assert!(last.contains("not everything was delivered (sink dead: "), "{last}");
    assert!(last.contains("bytes in 1 file; lost: nothing"), "{last}");
    let revived = HttpServer::on(dead, |_| Reply::status(200));
    let mut agent = Agent::start(folder.path(), &config, &["--until-eof"]);
    assert!(agent.wait(PATIENCE).success(), "{}", agent.log());
    assert_eq!((received(&revived), received(&live)), (1000, 1000));
}

#[test]
fn a_stop_during_an_outage_is_no_failure() {
    let folder = folder();
    write_some(folder.path());
    let stalled = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = stalled.local_addr().unwrap().port();
    let live = HttpServer::start(|_| Reply::status(200));
    let config = dead_and_live(FILE, port, &live) + "shutdown_timeout: 2s\n";
    let mut agent = Agent::start(folder.path(), &config, &[]);
    wait_until("the live sink has everything", PATIENCE, || received(&live) == 1000);
    // The endpoint accepts the connection, and never responds.
    let _connection = stalled.accept().unwrap();
    assert_eq!(agent.stop().code(), Some(0), "{}", agent.log());
    let log = agent.log();
    let last = log.lines().last().unwrap();
    assert!(last.contains("WARN"), "{last}");
    assert!(last.contains("not everything was delivered (sink dead)"), "{last}");
    assert!(last.contains("bytes in 1 file; lost: nothing"), "{last}");
    drop(stalled);
    let revived = HttpServer::on(port, |_| Reply::status(200));
    let mut agent = Agent::start(folder.path(), &config, &["--until-eof"]);
    assert!(agent.wait(PATIENCE).success(), "{}", agent.log());
    assert_eq!((received(&revived), received(&live)), (1000, 1000));
}

#[test]
fn a_stop_waits_for_slow_sinks_beside_a_dead_one() {
    let folder = folder();
    write_some(folder.path());
    let live = HttpServer::start(|_| {
        std::thread::sleep(Duration::from_secs(4));
        Reply::status(200)
    });
    let config = dead_and_live(FILE, free_port(), &live);
    let mut agent = start_failing(folder.path(), &config);
    let begun = Instant::now();
    assert_eq!(agent.stop().code(), Some(0), "{}", agent.log());
    assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
    assert_eq!(received(&live), 1000, "{}", agent.log());
}

#[test]
fn a_stop_waits_for_a_dead_endpoint_if_data_would_be_lost() {
    let folder = folder();
    let live = HttpServer::start(|_| Reply::status(200));
    let source = "{ type: generate, count: 100 }";
    let config = dead_and_live(source, free_port(), &live) + "shutdown_timeout: 4s\n";
    let mut agent = start_failing(folder.path(), &config);
    let begun = Instant::now();
    assert_eq!(agent.stop().code(), Some(1), "{}", agent.log());
    assert!(begun.elapsed() >= Duration::from_secs(4), "{:?}", begun.elapsed());
    let log = agent.log();
    assert!(log.contains(" bytes from sources that cannot be reread"), "{log}");
}

/// After a 403 response, the next attempt is 5 to 10 s later, which is longer than the shutdown may
/// take.
#[test]
fn a_stop_tries_again_at_once_what_waits_for_its_next_attempt() {
    let folder = folder();
    let is_allowed = Arc::new(AtomicBool::new(false));
    let allowed = is_allowed.clone();
    let port = free_port();
    let _dead = HttpServer::on(port, move |_| {
        Reply::status(if allowed.load(Ordering::Relaxed) { 200 } else { 403 })
    });
    let live = HttpServer::start(|_| Reply::status(200));
    let source = "{ type: generate, count: 100 }";
    let config = dead_and_live(source, port, &live) + "shutdown_timeout: 4s\n";
    let mut agent = start_failing(folder.path(), &config);
    is_allowed.store(true, Ordering::Relaxed);
    assert_eq!(agent.stop().code(), Some(0), "{}", agent.log());
    agent.assert_logs("stopped; delivered: 200 events;");
}

#[test]
fn a_stop_does_not_wait_for_an_endpoint_that_asks_for_a_longer_pause() {
    let folder = folder();
    write_some(folder.path());
    let port = free_port();
    let dead = HttpServer::on(port, |_| {
        Reply::Status(429, vec![("Retry-After", "60".to_owned())], String::new())
    });
    let live = HttpServer::start(|_| Reply::status(200));
    let config = dead_and_live(FILE, port, &live);
    let mut agent = start_failing(folder.path(), &config);
    wait_until("the live sink has everything", PATIENCE, || received(&live) == 1000);
    let begun = Instant::now();
    assert_eq!(agent.stop().code(), Some(0), "{}", agent.log());
    assert!(begun.elapsed() < Duration::from_secs(12), "{:?}", begun.elapsed());
    agent.assert_logs("bytes in 1 file; lost: nothing");
    assert_eq!(dead.requests().len(), 1, "the pause is kept");
}

/// A source that a reload has removed cannot read its data again either.
#[test]
fn a_stop_waits_for_a_dead_endpoint_if_data_of_a_removed_source_would_be_lost() {
    let folder = folder();
    let live = HttpServer::start(|_| Reply::status(200));
    let dead = free_port();
    let two = format!("{FILE}\n  gen: {{ type: generate, count: 100 }}");
    let with = |source: &str| dead_and_live(source, dead, &live) + "shutdown_timeout: 4s\n";
    let mut agent = start_failing(folder.path(), &with(&two).replace("[app]", "[app, gen]"));
    agent.reload(&with(FILE));
    wait_until("the reload", PATIENCE, || agent.log().contains("removed: gen"));
    let begun = Instant::now();
    assert_eq!(agent.stop().code(), Some(1), "{}", agent.log());
    assert!(begun.elapsed() >= Duration::from_secs(4), "{:?}", begun.elapsed());
}

/// A sink with a corrected address does not wait for the data that the old sink cannot deliver.
#[test]
fn a_corrected_address_takes_effect_at_once() {
    let folder = folder();
    write_some(folder.path());
    let (live, correct) =
        (HttpServer::start(|_| Reply::status(200)), HttpServer::start(|_| Reply::status(200)));
    let dead = free_port();
    let config = dead_and_live(FILE, dead, &live) + "shutdown_timeout: 5m\n";
    let mut agent = start_failing(folder.path(), &config);
    agent.reload(&config.replace(&format!("http://127.0.0.1:{dead}/"), &correct.uri("/")));
    wait_until("the corrected sink has everything", PATIENCE, || received(&correct) == 1000);
    assert!(agent.stop().success(), "{}", agent.log());
    assert_eq!((received(&correct), received(&live)), (1000, 1000), "nothing is repeated");
    agent.assert_logs("could not be delivered before the reload");
}

/// The old sink may still deliver data that its sources cannot reread.
#[test]
fn a_replaced_sink_keeps_what_cannot_be_read_again() {
    let folder = folder();
    let live = HttpServer::start(|_| Reply::status(200));
    let dead = free_port();
    let source = "{ type: generate, count: 100 }";
    let config = dead_and_live(source, dead, &live) + "shutdown_timeout: 5m\n";
    let mut agent = start_failing(folder.path(), &config);
    agent.reload(&config.replacen("batch: { timeout: 100ms }", "batch: { timeout: 200ms }", 1));
    wait_until("the reload", PATIENCE, || agent.log().contains("changed: dead"));
    // Waits for longer than a replaced sink keeps data that can be reread.
    std::thread::sleep(Duration::from_secs(2));
    let revived = HttpServer::on(dead, |_| Reply::status(200));
    let generated = |request: &ReceivedRequest| request.text().matches("?seq=").count();
    let delivered = || revived.requests().iter().map(generated).sum::<usize>();
    wait_until("every line is delivered", PATIENCE, || delivered() == 100);
    assert!(agent.stop().success(), "{}", agent.log());
}
