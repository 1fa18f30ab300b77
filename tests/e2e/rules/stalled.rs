//! Tests a sink that stalls while another sink delivers.

use super::{
    FIELDS, Line, PATIENCE, Stop, Totals, assert_totals, distinct, id, results, totals, write,
};
use crate::e2e::faults::endpoint::{Act, Endpoint};
use crate::support::{Agent, folder, lines, wait_until};
use millstream_testkit_servers::http::Reply;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

const CONFIG: &str = "
limits: { memory: 64MiB }
sources:
  app: { type: file, include: ['DIR/app.log'] }
transforms:
  timed: { type: parse, inputs: [app], format: none, time: { format: iso8601 } }
  counts:
    type: rules
    inputs: [timed]
    tasks:
      - { name: arrived, fields: FIELDS, group_by: [service, level], emit: { n: count(), sum: sum(size) }, window: 1s }
      - { name: logged, fields: FIELDS, group_by: [service], emit: { n: count(), sum: sum(size) }, window: 1s, time: log, lateness: 1s }
sinks:
  out: { type: file, inputs: [counts], path: DIR/out.json, sync: 100ms }
  slow:
    type: http
    inputs: [counts]
    uri: 'URI'
    batch: { timeout: 10ms }
    request: { timeout: 2s }
";

/// Starts an endpoint that does not answer while it is stalled.
fn endpoint(is_stalled: &Arc<AtomicBool>) -> Endpoint {
    let is_stalled = is_stalled.clone();
    Endpoint::start(move |_, _| match is_stalled.load(Ordering::SeqCst) {
        true => Act::Instead(Reply::Hang),
        false => Act::Keep,
    })
}

/// Returns the expected results over `lines` lines.
fn expected(lines: u64) -> Totals {
    let mut totals = Totals::new();
    for Line { level, service, size, .. } in (0..lines).map(Line::new) {
        let tags = format!("{{\"service\":\"s{service}\",\"level\":\"{level}\"}}");
        *totals.entry(("arrived.n".to_owned(), tags.clone())).or_default() += 1;
        *totals.entry(("arrived.sum".to_owned(), tags)).or_default() += size;
        let tags = format!("{{\"service\":\"s{service}\"}}");
        *totals.entry(("logged.n".to_owned(), tags.clone())).or_default() += 1;
        *totals.entry(("logged.sum".to_owned(), tags)).or_default() += size;
    }
    totals
}

#[test]
fn a_stalled_sink_delays_no_result_and_gets_all_of_them() {
    let folder = folder();
    let (log, out) = (folder.path().join("app.log"), folder.path().join("out.json"));
    let (is_stalled, stop) = (Arc::new(AtomicBool::new(true)), AtomicBool::new(false));
    let endpoint = endpoint(&is_stalled);
    let config = CONFIG.replace("URI", &endpoint.server.uri("/in")).replace("FIELDS", FIELDS);
    let mut agent = Agent::start(folder.path(), &config, &[]);
    let written = std::thread::scope(|scope| {
        let writer = scope.spawn(|| write(&log, &stop));
        let _stop = Stop(&stop);
        let requests = |count: usize| move |seen: &[_]| seen.len() >= count;
        assert!(endpoint.server.wait(requests(2)).len() >= 2, "{}", agent.log());
        // The agent is killed, because the results that the stalled sink has not received must
        // survive a kill.
        agent.kill();
        agent = Agent::start(folder.path(), &config, &[]);
        let before = lines(&out).len();
        wait_until("further results", PATIENCE, || lines(&out).len() > before);
        stop.store(true, Ordering::SeqCst);
        writer.join().unwrap()
    });
    let (expected, in_file) = (expected(written), || totals(&results(&out)));
    let all = |totals: &Totals| totals.values().sum::<u64>();
    wait_until("the file has all results", PATIENCE, || all(&in_file()) >= all(&expected));
    assert_totals(&in_file(), &expected, &agent.log());
    assert!(endpoint.kept().is_empty(), "the endpoint was stalled");
    is_stalled.store(false, Ordering::SeqCst);
    let by_id = |results: Vec<_>| results.into_iter().map(|r| (id(&r), r)).collect();
    let in_file: BTreeMap<_, _> = by_id(results(&out));
    wait_until("the endpoint has all results", PATIENCE, || {
        endpoint.text().lines().count() >= in_file.len()
    });
    assert!(agent.stop().success(), "{}", agent.log());
    let received = endpoint.text();
    assert_eq!(received.lines().count(), in_file.len(), "each result comes once");
    let received: BTreeMap<_, _> = by_id(distinct(&received));
    assert!(received == in_file, "{received:#?}\n{in_file:#?}");
}
