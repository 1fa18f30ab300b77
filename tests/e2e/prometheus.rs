//! Tests metrics that reach a real Prometheus by remote write and by scraping, with exact values.

use crate::support::{Agent, folder, lines, wait_until};
use millstream_testkit_servers::http::{HttpServer, ReceivedRequest, Reply};
use millstream_testkit_servers::ports::free_port;
use millstream_testkit_servers::prometheus::{Prometheus, PrometheusOptions};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Timeout for events that should happen soon, generous for a busy host.
const PATIENCE: Duration = Duration::from_secs(60);

/// Returns a configuration with these options of the `points` source and the `out` sink.
fn config(source: &str, sink: &str) -> String {
    format!(
        "sources:\n  points: {{ type: dogstatsd, listen: ['unixgram://DIR/points.sock'], {source} }}\n\
         sinks:\n  out: {{ inputs: [points], {sink} }}\n"
    )
}

fn start(dir: &Path, config: &str) -> Agent {
    let mut agent = Agent::start(dir, config, &[]);
    wait_until("the agent is ready", PATIENCE, || {
        assert!(!agent.poll_ended(), "{}", agent.log());
        agent.get("/ready").is_some_and(|body| body.contains("\"ready\":true"))
    });
    agent
}

fn send(dir: &Path, points: &[&str]) {
    let socket = UnixDatagram::unbound().unwrap();
    socket.connect(dir.join("points.sock")).unwrap();
    points.iter().for_each(|point| assert!(socket.send(point.as_bytes()).is_ok()));
}

fn remote_write(prometheus: &Prometheus, more: &str) -> String {
    format!("type: prometheus_remote_write, uri: '{}', spread: 0s, {more}", prometheus.write_uri())
}

/// Returns a counter of the sink, by reason.
fn dropped(agent: &Agent, reason: &str) -> f64 {
    let line = format!(
        "millstream_component_dropped_events_total{{component_id=\"out\",component_type=\"prometheus_remote_write\",\
         component_kind=\"sink\",reason=\"{reason}\"}}"
    );
    agent.metric(&line).unwrap_or(0.0)
}

#[test]
fn deltas_become_sums_over_periods_and_restarts() {
    let (dir, prometheus) = (folder(), Prometheus::shared());
    let config =
        config("period: 1s", &remote_write(prometheus, "labels: { cluster: x }, host_label: node"));
    let total = |query: &str| prometheus.value(query);
    let mut agent = start(dir.path(), &config);
    send(
        dir.path(),
        &[
            "sums.orders:3|c|#country:de",
            "sums.orders:4|c|#country:fr",
            "sums.load:0.5|g|#k.k:v,flag",
        ],
    );
    wait_until("the first values", PATIENCE, || {
        total("sum(sums_orders_total{cluster='x'})") == Some(7.0)
    });
    send(dir.path(), &["sums.orders:10|c|#country:de"]);
    wait_until("the sum", PATIENCE, || {
        total("sums_orders_total{country='de',node!=''}") == Some(13.0)
    });
    assert_eq!(total("sums_load{k_k='v',flag='true',host=''}"), Some(0.5));
    assert_eq!(agent.stop().code(), Some(0), "{}", agent.log());
    // A new agent starts at 0. Prometheus detects the reset, even though the first value is larger
    // than the last value of the previous agent.
    let mut agent = start(dir.path(), &config);
    send(dir.path(), &["sums.orders:100|c|#country:de"]);
    wait_until("the sum after a restart", PATIENCE, || {
        total("sums_orders_total{country='de'}") == Some(100.0)
    });
    assert_eq!(agent.stop().code(), Some(0), "{}", agent.log());
    assert_eq!(total("resets(sums_orders_total{country='de'}[5m])"), Some(1.0));
    let first = &prometheus.query("sums_orders_total{country='de'}[5m]")[0]["values"][0];
    assert_eq!(first[1], "0", "a sum begins with 0 at the beginning of its first period");
    let log = agent.log();
    assert!(!log.contains("endpoint rejected") && !log.contains("refused"), "{log}");
}

#[test]
fn distributions_become_summaries() {
    let (dir, prometheus) = (folder(), Prometheus::shared());
    let source = "period: 1d, distributions: sketch";
    let mut agent =
        start(dir.path(), &config(source, &remote_write(prometheus, "quantiles: [0, 0.5, 1]")));
    send(dir.path(), &["summed.login:1:2:4:8|d|#quantile:mine"]);
    assert_eq!(agent.stop().code(), Some(0), "{}", agent.log());
    for (series, value) in [
        ("summed_login{quantile='0'}", 1.0),
        ("summed_login{quantile='0.5',exported_quantile='mine'}", 2.0),
        ("summed_login{quantile='1'}", 8.0),
        ("summed_login_sum", 15.0),
        ("summed_login_count", 4.0),
    ] {
        assert_eq!(prometheus.value(series), Some(value), "{series}");
    }
}

#[test]
fn distributions_become_native_histograms() {
    let flags = vec!["--enable-feature=native-histograms".to_owned()];
    let prometheus =
        Prometheus::start(&PrometheusOptions { flags, ..PrometheusOptions::default() });
    let dir = folder();
    let source = "period: 1s, distributions: sketch";
    let sink = remote_write(&prometheus, "distributions: native");
    let mut agent = start(dir.path(), &config(source, &sink));
    send(dir.path(), &["native.login:1:2:4:8|d", "native.login:0:-3|d"]);
    let count = || prometheus.value("histogram_count(native_login)");
    wait_until("the first period", PATIENCE, || count() == Some(6.0));
    send(dir.path(), &["native.login:100:100|d"]);
    wait_until("the sum of both", PATIENCE, || count() == Some(8.0));
    assert_eq!(agent.stop().code(), Some(0), "{}", agent.log());
    assert_eq!(prometheus.value("histogram_sum(native_login)"), Some(212.0));
    let half = prometheus.value("histogram_quantile(0.5, native_login)").unwrap();
    assert!((1.95..=4.05).contains(&half), "{half}");
    let largest = prometheus.value("histogram_quantile(1, native_login)").unwrap();
    assert!((98.0..=103.0).contains(&largest), "{largest}");
}

#[test]
fn samples_rejected_by_prometheus_are_counted_and_the_rest_delivered() {
    let (dir, prometheus) = (folder(), Prometheus::shared());
    // Prometheus rejects a whole request if it contains samples that are more than an hour older
    // than the newest sample.
    let agent = start(dir.path(), &config("period: 1s", &remote_write(prometheus, "")));
    send(dir.path(), &["refused.first:1|g"]);
    wait_until("a sample of now", PATIENCE, || prometheus.value("refused_first") == Some(1.0));
    let points = [
        "refused.a:1|c",
        "refused.old:2|g|T1000000000",
        "refused.b:3|c",
        "refused.future:2|g|T4000000000",
    ];
    send(dir.path(), &points);
    wait_until("the others", PATIENCE, || prometheus.value("refused_b_total") == Some(3.0));
    wait_until("a count", PATIENCE, || dropped(&agent, "refused") >= 1.0);
    // The points may be in two periods, and the agent repeats a refused request in parts.
    wait_until("the first", PATIENCE, || prometheus.value("refused_a_total") == Some(1.0));
    wait_until("a sample of the future", PATIENCE, || dropped(&agent, "future") >= 1.0);
    assert!(prometheus.query("refused_old[100y]").is_empty());
}

#[test]
fn a_series_that_prometheus_refuses_again_and_again_costs_no_more_requests() {
    const BAD: u64 = 4;
    let is_bad = |seen: &ReceivedRequest| {
        let word = b"toolong";
        seen.body.windows(word.len()).any(|bytes| bytes == word)
    };
    let endpoint = HttpServer::start(move |seen| match is_bad(seen) {
        true => Reply::Status(400, Vec::new(), "label value too long".to_owned()),
        false => Reply::status(204),
    });
    let dir = folder();
    let sink = format!(
        "type: prometheus_remote_write, uri: '{}', spread: 0s, protocol: '1'",
        endpoint.uri("/write")
    );
    let config = config("period: 1s", &sink)
        + "  dead: { type: file, inputs: [out.rejected], path: DIR/dead.json, sync: 100ms }\n";
    let mut agent = start(dir.path(), &config);
    let good = (0..200).map(|number| format!("costs.good{number}:1|g"));
    let bad = (0..BAD).map(|number| format!("costs.bad{number}:1|g|#x:toolong"));
    let points: Vec<String> = good.chain(bad).collect();
    send(dir.path(), &points.iter().map(String::as_str).collect::<Vec<_>>());
    let dead = || lines(&dir.path().join("dead.json")).len();
    let refused = |seen: &[ReceivedRequest]| seen.iter().filter(|seen| is_bad(seen)).count();
    // A batch that was packed before the refusals may still contain the bad series.
    wait_until("three periods", PATIENCE, || dead() >= 3 * BAD as usize);
    let before = refused(&endpoint.requests());
    assert!(before >= 10, "{before} refused requests found {BAD} series");
    wait_until("six periods", PATIENCE, || dead() >= 6 * BAD as usize);
    let seen = endpoint.requests();
    assert_eq!(refused(&seen), before, "of {} requests", seen.len());
    assert!(!is_bad(seen.last().unwrap()), "the others are accepted");
    assert_eq!(agent.stop().code(), Some(0), "{}", agent.log());
    for line in lines(&dir.path().join("dead.json")) {
        let event: Value = serde_json::from_str(&line).unwrap();
        assert_eq!(event["reason"], "400: label value too long", "{event}");
        assert_eq!(event["tags"]["x"], "toolong", "{event}");
    }
}

/// Metrics in a log; Prometheus refuses the metrics of 2001.
const LOG: &str = "
sources:
  app: { type: file, include: ['DIR/in.log'] }
transforms:
  parsed: { type: parse, inputs: [app], format: json, time: { field: time, format: epoch_s } }
sinks:
  out: { type: prometheus_remote_write, inputs: [parsed], uri: 'URI', spread: 0s, batch: { events: 100 } }
  dead: { type: file, inputs: [out.rejected], path: DIR/dead.json, sync: 100ms, encoding: { metadata: [id] } }
";

#[test]
fn refused_samples_arrive_as_dead_letters_once_by_id_over_kills() {
    const SAMPLES: usize = 10_000;
    let (dir, prometheus) = (folder(), Prometheus::shared());
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    let is_old = |number: usize| number % 50 == 25;
    let line = |number: usize| {
        let time = if is_old(number) { 1_000_000_000 } else { now };
        let labels = format!("\"tags\":{{\"number\":\"{number}\"}}");
        format!(
            "{{\"name\":\"letters\",{labels},\"type\":\"gauge\",\"value\":{number},\"time\":{time}}}\n"
        )
    };
    fs::write(dir.path().join("in.log"), (0..SAMPLES).map(line).collect::<String>()).unwrap();
    let config = LOG.replace("URI", &prometheus.write_uri());
    for kill in 0..20 {
        let mut agent = Agent::start(dir.path(), &config, &[]);
        std::thread::sleep(Duration::from_millis(30 + kill * 97 % 1000));
        agent.kill();
    }
    let mut agent = Agent::start(dir.path(), &config, &["--until-eof"]);
    assert!(agent.wait(PATIENCE).success(), "nothing is dropped\n{}", agent.log());
    let accepted = (0..SAMPLES).filter(|number| !is_old(*number)).count();
    assert_eq!(prometheus.value("count(letters)"), Some(accepted as f64));
    let mut letters: BTreeMap<String, u64> = BTreeMap::new();
    for line in lines(&dir.path().join("dead.json")) {
        let event: Value = serde_json::from_str(&line).unwrap();
        assert!(event["reason"].as_str().unwrap().contains("out of"), "{event}");
        let (id, number) =
            (event["meta"]["id"].as_str().unwrap(), event["value"].as_u64().unwrap());
        assert_eq!(event["tags"]["number"], number.to_string());
        assert_eq!(*letters.entry(id.to_owned()).or_insert(number), number, "an id is one event");
    }
    let mut numbers: Vec<u64> = letters.into_values().collect();
    numbers.sort_unstable();
    let expected: Vec<u64> = (0..SAMPLES).filter(|n| is_old(*n)).map(|n| n as u64).collect();
    assert_eq!(numbers, expected);
}

/// Returns the head and body of an exporter's response to a request with these headers.
fn scrape(port: u16, request: &str) -> (String, Vec<u8>) {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    write!(stream, "{request} HTTP/1.0\r\nHost: x\r\n\r\n").unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    let end = answer.windows(4).position(|window| window == b"\r\n\r\n").unwrap();
    (String::from_utf8_lossy(&answer[..end]).into_owned(), answer[end + 4..].to_vec())
}

fn text(port: u16) -> String {
    String::from_utf8(scrape(port, "GET /metrics").1).unwrap()
}

#[test]
fn prometheus_scrapes_the_exporter() {
    let (dir, port) = (folder(), free_port());
    let prometheus = Prometheus::start(&PrometheusOptions {
        scrape: vec![format!("127.0.0.1:{port}")],
        ..Default::default()
    });
    let sink = format!("type: prometheus_exporter, listen: '127.0.0.1:{port}', quantiles: [0.5]");
    let _agent = start(dir.path(), &config("period: 1s, expire: 1s, distributions: sketch", &sink));
    send(dir.path(), &["seen.orders:3|c|#country:de", "seen.login:1:2:4|d|#odd:a\"b"]);
    let total = |query: &str| prometheus.value(query);
    wait_until("the first scrape", PATIENCE, || {
        total("seen_orders_total{country='de'}") == Some(3.0)
    });
    send(dir.path(), &["seen.orders:4|c|#country:de", "seen.login:9|d|#odd:a\"b"]);
    wait_until("the sum", PATIENCE, || {
        total("seen_orders_total{country='de',job='agent'}") == Some(7.0)
    });
    wait_until("the summary", PATIENCE, || total("seen_login_sum{odd='a\"b'}") == Some(16.0));
    assert_eq!(total("seen_login_count"), Some(4.0));
    assert_eq!(total("seen_login{quantile='0.5'}"), Some(9.0), "of the last period");
    assert_eq!(total("up"), Some(1.0));
    assert!(text(port).contains("# TYPE seen_login summary\n"), "{}", text(port));
}

/// Returns the sum over all series with this name on an exporter's page.
fn sum_of(text: &str, name: &str) -> f64 {
    let values = text.lines().filter(|line| line.starts_with(&format!("{name}{{")));
    values.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).sum()
}

/// Returns a counter of a component by reason, or the sum over all reasons if `reason` is empty.
fn counted(agent: &Agent, counter: &str, component: &str, reason: &str) -> f64 {
    let of_component = format!("component_id=\"{component}\"");
    let (reason, key) = (format!("=\"{reason}"), format!("millstream_component_{counter}"));
    let metrics = agent.get("/metrics").unwrap_or_default();
    let lines = metrics.lines().filter(|line| {
        line.starts_with(&key) && line.contains(&of_component) && line.contains(&reason)
    });
    lines.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).sum::<f64>()
}

/// The source and the sink have different limits, and both get more series than their limit.
#[test]
fn each_point_beyond_a_limit_of_series_is_on_the_page_or_counted_once() {
    const SERIES: usize = 200;
    let (dir, port) = (folder(), free_port());
    let sink = format!("type: prometheus_exporter, listen: '127.0.0.1:{port}', max_series: 20");
    let agent = start(dir.path(), &config("period: 1s, max_series: 50", &sink));
    let points = |value: &str| -> Vec<String> {
        (0..SERIES).map(|at| format!("many.{value}:1|{value}|#series:{at}")).collect()
    };
    for kind in ["c", "g", "ms", "s"] {
        let points = points(kind);
        send(dir.path(), &points.iter().map(String::as_str).collect::<Vec<_>>());
        if kind == "c" {
            wait_until("the counters", PATIENCE, || {
                let text = text(port);
                sum_of(&text, "many_c_total") == 20.0
                    && sum_of(&text, "millstream_overflow_total") == 180.0
            });
        }
    }
    wait_until("the timings", PATIENCE, || {
        sum_of(&text(port), "millstream_overflow_timing_count_total") == SERIES as f64
    });
    wait_until("the set", PATIENCE, || {
        // All sets have the same single member.
        sum_of(&text(port), "millstream_overflow_set") == 1.0
    });
    // The agent counts these points when the period has been emitted, which may be after the events
    // are on the page.
    wait_until("the points beyond the limit of the source", PATIENCE, || {
        counted(&agent, "noted_events_total", "points", "series") == 150.0 + 200.0 + 200.0
            && counted(&agent, "dropped_events_total", "points", "overflow_gauge") == SERIES as f64
    });
    let text = text(port);
    assert_eq!(sum_of(&text, "many_c_total"), 20.0);
    assert_eq!(sum_of(&text, "millstream_overflow_total"), 180.0, "only counts");
    assert_eq!(counted(&agent, "noted_events_total", "out", "too_many_series"), 30.0);
    assert_eq!(counted(&agent, "dropped_events_total", "out", ""), 0.0);
}

#[test]
fn of_names_that_become_one_the_first_is_exposed_and_escaped_ones_stay_apart() {
    let (dir, port, other_port) = (folder(), free_port(), free_port());
    let sink = |port: u16| format!("type: prometheus_exporter, listen: '127.0.0.1:{port}'");
    let apart = format!("inputs: [points], name_escaping: values, {}", sink(other_port));
    let config = config("period: 1s, aggregates: [count]", &sink(port));
    let agent = start(dir.path(), &format!("{config}  apart: {{ {apart} }}\n"));
    let points = [
        "stat_count:5|c",
        "stat:2|ms",
        "a.b:1|g",
        "a_b:2|g",
        "größe:1|c",
        "grüße:2|c",
        "tagged:1|c|#x.y:1",
        "tagged:2|c|#x_y:1",
    ];
    send(dir.path(), &points);
    // The sink repeats gauges, so they are refused in each period.
    let refused = || counted(&agent, "dropped_events_total", "out", "name_conflict");
    wait_until("refusals in several periods", PATIENCE, || refused() >= 6.0);
    for other in ["out_of_order", "type_conflict"] {
        assert_eq!(counted(&agent, "dropped_events_total", "out", other), 0.0, "{other}");
    }
    let page = text(port);
    let first_of = [
        ("stat_count_total{} ", [5.0, 1.0]),
        ("a_b{} ", [1.0, 2.0]),
        ("gr__e_total{} ", [1.0, 2.0]),
        ("tagged_total{x_y=\"1\"} ", [1.0, 2.0]),
    ];
    for (series, values) in first_of {
        let found: Vec<f64> =
            page.lines().filter_map(|line| line.strip_prefix(series)?.parse().ok()).collect();
        assert!(found.len() == 1 && values.contains(&found[0]), "{series}{found:?}\n{page}");
    }
    let said = ["both become stat_count_total;", "both become a_b;", "both become gr__e_total;"];
    for said in said.into_iter().chain(["different tags of metric \"tagged\""]) {
        wait_until("the conflict is logged", PATIENCE, || agent.log().contains(said));
        assert_eq!(agent.log().matches(said).count(), 1, "{said}\n{}", agent.log());
    }
    let all = [
        "stat_count_total{} 5",
        "U__stat_2e_count__total{} 1",
        "U__a_2e_b{} 1",
        "a_b{} 2",
        "U__gr_f6__df_e__total{} 1",
        "U__gr_fc__df_e__total{} 2",
        "tagged_total{U__x_2e_y=\"1\"} 1",
        "tagged_total{x_y=\"1\"} 2",
    ];
    for series in all {
        wait_until(series, PATIENCE, || text(other_port).lines().any(|line| line == series));
    }
    assert_eq!(counted(&agent, "dropped_events_total", "apart", ""), 0.0);
}

#[test]
fn the_exporter_negotiates_format_and_compression() {
    let (dir, port) = (folder(), free_port());
    let sink = format!("type: prometheus_exporter, listen: '127.0.0.1:{port}', expire: 2s");
    let agent = start(dir.path(), &config("period: 1s, expire: 1s", &sink));
    send(dir.path(), &["asked.orders:3|c", "asked.load:1|g"]);
    wait_until("both", PATIENCE, || {
        text(port).contains("asked_orders_total{} 3") && text(port).contains("asked_load{} 1")
    });
    let (head, body) =
        scrape(port, "GET /metrics HTTP/1.0\r\nAccept: application/openmetrics-text\r\nX:");
    assert!(head.contains("application/openmetrics-text; version=1.0.0"), "{head}");
    assert!(String::from_utf8_lossy(&body).ends_with("# EOF\n"));
    let (head, body) = scrape(port, "GET /metrics HTTP/1.0\r\nAccept-Encoding: gzip\r\nX:");
    assert!(head.contains("content-encoding: gzip") && body.starts_with(b"\x1f\x8b"), "{head}");
    assert!(
        scrape(port, "GET /").0.contains(" 404 ")
            && scrape(port, "POST /metrics").0.contains(" 405 ")
    );
    wait_until("what is idle is gone", PATIENCE, || text(port).is_empty());
    send(dir.path(), &["asked.orders:2|c"]);
    // A series is not evicted during a scrape, so the series may also continue from its old sum.
    wait_until("it is back", PATIENCE, || text(port).contains("asked_orders_total{} "));
    drop(agent);
}

#[test]
fn the_exporter_requires_authentication() {
    let (dir, port) = (folder(), free_port());
    std::fs::write(dir.path().join("password"), "secret\n").unwrap();
    let auth = "auth: { type: basic, user: prom, password_file: DIR/password }";
    let sink = format!("type: prometheus_exporter, listen: '127.0.0.1:{port}', {auth}");
    let _agent = start(dir.path(), &config("period: 1s", &sink));
    wait_until("it listens", PATIENCE, || TcpStream::connect(("127.0.0.1", port)).is_ok());
    let with = |shown: &str| {
        scrape(port, &format!("GET /metrics HTTP/1.0\r\nAuthorization: Basic {shown}\r\nX:")).0
    };
    assert!(with("cHJvbTpzZWNyZXQ=").contains(" 200 "));
    assert!(
        with("cHJvbTp3cm9uZw==").contains(" 401 ")
            && scrape(port, "GET /metrics").0.contains(" 401 ")
    );
}

#[test]
fn a_port_in_use_is_reported_and_bound_once_free() {
    let dir = folder();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port();
    let sink = format!("type: prometheus_exporter, listen: '127.0.0.1:{port}'");
    let agent = Agent::start(dir.path(), &config("period: 1s", &sink), &[]);
    let said = format!("cannot listen on 127.0.0.1:{port}");
    wait_until("it is said", PATIENCE, || agent.log().contains(&said));
    let ready = |ready: bool| {
        let text = format!("\"ready\":{ready}");
        wait_until(&text, PATIENCE, || {
            agent.get("/ready").is_some_and(|body| body.contains(&text))
        });
    };
    ready(false);
    drop(taken);
    wait_until("it listens", PATIENCE, || agent.log().contains("serving metrics at"));
    ready(true);
    assert!(scrape(port, "GET /metrics").0.contains(" 200 "));
}
