//! Tests `packaging/alerts.yaml` and `packaging/dashboard.json` with a real Prometheus that scrapes
//! an agent.

use crate::support::{Agent, folder, wait_until};
use millstream_testkit_servers::http::{HttpServer, Reply};
use millstream_testkit_servers::prometheus::{Prometheus, PrometheusOptions};
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

const PATIENCE: Duration = Duration::from_secs(60);

/// A source whose path is missing, and a source whose sink has an endpoint that refuses every
/// request.
const CONFIG: &str = "
sources:
  app: { type: file, include: ['DIR/missing/app.log'] }
  lines: { type: file, include: ['DIR/lines.log'] }
sinks:
  out: { type: blackhole, inputs: [app] }
  refused: { type: http, inputs: [lines], uri: 'URI', batch: { timeout: 50ms } }
";

/// Metrics that raise all alerts except those for late events, for lost events and for a silent
/// agent.
const PLANTED: &str = r#"
millstream_diagnosis{source="in",cause="clock_off",status="degraded"} 1
millstream_source_lag_seconds{component_id="in",sink="out"} 301
millstream_disk_buffer_bytes{component_id="out"} 96
millstream_disk_buffer_bytes_max{component_id="out"} 100
millstream_checkpoint_age_seconds 31
millstream_held_bytes{component_id="in"} 51
millstream_held_bytes_max{component_id="in"} 100
millstream_jvm_process_up{process="team"} 0
millstream_config_reload_success 0
"#;

/// Returns the metric of a process that started `seconds_ago`.
fn started(seconds_ago: u64) -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    format!("millstream_process_start_time_seconds {}\n", now - seconds_ago)
}

/// Returns the response to a scrape.
fn metrics(text: String) -> Reply {
    let head = vec![("Content-Type", "text/plain; version=0.0.4".to_owned())];
    Reply::Status(200, head, text)
}

/// Alerts that [`PLANTED`] raises, each with its summary without the instance.
const RAISED: [(&str, &str); 9] = [
    ("MillstreamCheckpointsNotSaved", "checkpoints are not saved"),
    ("MillstreamDiskBufferFull", "the disk buffer of out is full, or will be within an hour"),
    ("MillstreamEventsDegraded", "source in: clock_off"),
    ("MillstreamHeldFilesNearLimit", "deleted files that in holds have 51% of `held.max`"),
    ("MillstreamJvmProcessDown", "the JVM process team does not start"),
    ("MillstreamJvmProcessRestarts", "the JVM process team ends again and again"),
    ("MillstreamOperatorFails", "operator op fails for events: exception"),
    ("MillstreamReloadRejected", "the configuration read last was rejected"),
    ("MillstreamSourceLag", "source in is late at out"),
];

/// Returns `host:port` of the API from the agent's log.
fn api_address(log: &str) -> Option<String> {
    let address = log.split_once("http://")?.1;
    let end = address.find(|char: char| !char.is_ascii_digit() && !".:".contains(char))?;
    Some(address[..end].to_owned())
}

fn packaging(name: &str) -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    fs::read_to_string(root.join("packaging").join(name)).unwrap()
}

/// Returns a page by its path below `docs`.
fn page(path: &str) -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("docs").join(path)).unwrap()
}

/// Starts a Prometheus that scrapes `address` and has the alert rules. Alerts that normally wait
/// for minutes fire after a second.
fn prometheus(dir: &Path, address: String) -> Prometheus {
    let quick = |line: &str| match line.trim_start().starts_with("for: ") {
        true => "        for: 1s\n".to_owned(),
        false => format!("{line}\n"),
    };
    let rules: String = packaging("alerts.yaml").lines().map(quick).collect();
    let path = dir.join("alerts.yaml");
    fs::write(&path, rules).unwrap();
    Prometheus::start(&PrometheusOptions {
        scrape: vec![address],
        rules: Some(path),
        ..PrometheusOptions::default()
    })
}

/// Returns the labels of the firing alerts whose name matches `name`.
fn firing(prometheus: &Prometheus, name: &str) -> Vec<Value> {
    let query = format!("ALERTS{{alertstate=\"firing\",alertname=~\"{name}\"}}");
    prometheus.query(&query).iter().map(|alert| alert["metric"].clone()).collect()
}

/// Fails if an alert fires that is not in `names`, which are separated by `|`.
fn check_only(prometheus: &Prometheus, names: &str) {
    let query = format!("ALERTS{{alertstate=\"firing\",alertname!~\"{names}\"}}");
    let others = prometheus.query(&query);
    assert!(others.is_empty(), "{others:?}");
}

/// Returns every expression of the dashboard, for all instances.
fn queries(dashboard: &Value) -> Vec<String> {
    let targets = dashboard["panels"].as_array().unwrap().iter();
    let targets = targets.filter_map(|panel| panel["targets"].as_array()).flatten();
    let queries = targets.map(|target| target["expr"].as_str().unwrap());
    let fixed = |query: &str| query.replace("$instance", ".*").replace("$__rate_interval", "1m");
    queries.map(fixed).collect()
}

#[test]
fn alerts_fire_for_a_late_source_and_a_first_loss_and_the_dashboard_shows_it() {
    let dir = folder();
    let lines = dir.path().join("lines.log");
    fs::write(&lines, "").unwrap();
    let endpoint = HttpServer::start(|_| Reply::status(400));
    let agent = Agent::start(dir.path(), &CONFIG.replace("URI", &endpoint.uri("/")), &[]);
    let mut address = None;
    wait_until("the address of the API", PATIENCE, || {
        address = api_address(&agent.log());
        address.is_some()
    });
    let prometheus = prometheus(dir.path(), address.unwrap());
    wait_until("the alert fires", PATIENCE, || {
        let late = firing(&prometheus, "MillstreamEventsLate");
        late.iter().any(|alert| alert["cause"] == "path_missing")
    });
    check_only(&prometheus, "MillstreamEventsLate");
    // A single event, so that its series starts at 1 and does not change.
    fs::write(&lines, "line\n").unwrap();
    wait_until("the loss fires", PATIENCE, || {
        !firing(&prometheus, "MillstreamEventsLost").is_empty()
    });
    for lost in firing(&prometheus, "MillstreamEventsLost") {
        assert_eq!(lost["component_id"], "refused");
        assert_eq!(lost["reason"], "refused");
        assert!(lost["instance"].is_string(), "{lost}");
    }
    check_only(&prometheus, "MillstreamEvents(Late|Degraded|Lost)");
    let groups: Value = serde_json::from_str(&prometheus.get("/api/v1/rules").unwrap()).unwrap();
    for rule in groups["data"]["groups"][0]["rules"].as_array().unwrap() {
        assert_eq!(rule["health"], "ok", "{rule}");
    }
    let dashboard: Value = serde_json::from_str(&packaging("dashboard.json")).unwrap();
    // A query fails if it is invalid.
    let answers: Vec<Vec<Value>> =
        queries(&dashboard).iter().map(|query| prometheus.query(query)).collect();
    assert!(answers[0].iter().any(|row| row["metric"]["cause"] == "path_missing"));
}

/// Losses from before the first scrape of an agent raise no alert, whether Prometheus is new or has
/// been down.
#[test]
fn old_losses_of_an_agent_that_is_scraped_for_the_first_time_raise_nothing() {
    let dir = folder();
    let endpoint = HttpServer::start(|_| {
        let lost = r#"{component_id="out",reason="refused"}"#;
        let noted = r#"{component_id="op",component_type="jvm",note="exception"}"#;
        let text = format!(
            "millstream_component_dropped_events_total{lost} 7\n\
             millstream_component_noted_events_total{noted} 7\n\
             millstream_config_reload_success 0\n"
        );
        metrics(text + &started(3600))
    });
    let prometheus = prometheus(dir.path(), format!("127.0.0.1:{}", endpoint.port));
    wait_until("another alert fires", PATIENCE, || {
        !firing(&prometheus, "MillstreamReloadRejected").is_empty()
    });
    check_only(&prometheus, "MillstreamReloadRejected");
}

#[test]
fn the_other_alerts_fire_for_planted_metrics() {
    let dir = folder();
    let scrapes = AtomicUsize::new(0);
    let endpoint = HttpServer::start(move |_| {
        let scrape = scrapes.fetch_add(1, Ordering::Relaxed);
        let restarts =
            format!("millstream_jvm_process_restarts_total{{process=\"team\"}} {scrape}\n");
        let note = r#"{component_id="op",component_type="jvm",note="exception"}"#;
        // The series of the operator appears after Prometheus has begun to scrape.
        let noted = match scrape < 3 {
            true => String::new(),
            false => format!("millstream_component_noted_events_total{note} 7\n"),
        };
        metrics(PLANTED.to_owned() + &restarts + &noted + &started(60))
    });
    let prometheus = prometheus(dir.path(), format!("127.0.0.1:{}", endpoint.port));
    let names = RAISED.map(|(name, _)| name);
    wait_until("all alerts fire", PATIENCE, || {
        names.iter().all(|name| !firing(&prometheus, name).is_empty())
    });
    check_only(&prometheus, &names.join("|"));
    let answer: Value = serde_json::from_str(&prometheus.get("/api/v1/alerts").unwrap()).unwrap();
    let alerts = answer["data"]["alerts"].as_array().unwrap();
    assert_eq!(alerts.len(), RAISED.len(), "{alerts:?}");
    for (name, summary) in RAISED {
        let alert = alerts.iter().find(|alert| alert["labels"]["alertname"] == name).unwrap();
        let shown = alert["annotations"]["summary"].as_str().unwrap();
        assert!(shown.ends_with(&format!(": {summary}")), "{name}: {shown}");
    }
}

/// Every metric that an alert or a panel reads is on the page of metrics.
#[test]
fn alerts_and_the_dashboard_read_metrics_that_are_documented() {
    let page = page("reference/metrics.md");
    let read = packaging("alerts.yaml") + &packaging("dashboard.json");
    let words = read.split(|char: char| !char.is_ascii_lowercase() && char != '_');
    let names: BTreeSet<&str> = words.filter(|word| word.starts_with("millstream_")).collect();
    assert!(names.len() > 15, "{names:?}");
    for name in names {
        assert!(page.contains(name), "{name} is not on the page");
    }
}

/// The documented table of alerts has the expressions of all rules except the rules for causes, and
/// no other expressions.
#[test]
fn the_documented_alerts_are_those_of_the_file() {
    let bare = |text: &str| text.split_whitespace().collect::<String>();
    let page = page("operating.md").replace("\\|", "\0");
    let table = page.split_once("| problem | alert on |\n|---|---|\n").unwrap().1;
    let rows = table.lines().take_while(|line| line.starts_with('|'));
    let cells = rows.map(|row| row.trim_matches('|').split_once('|').unwrap().1);
    let documented: Vec<String> = cells
        .flat_map(|cell| cell.split('`').skip(1).step_by(2))
        .map(|expression| bare(&expression.replace('\0', "|")))
        .collect();
    let file = packaging("alerts.yaml");
    let rules: Vec<String> = file.split("- alert: ").skip(1).map(bare).collect();
    for expression in &documented {
        assert!(rules.iter().any(|rule| rule.contains(expression)), "{expression} is in no rule");
    }
    for rule in rules.iter().filter(|rule| !rule.contains("millstream_diagnosis{")) {
        let is_documented = documented.iter().any(|expression| rule.contains(expression));
        assert!(is_documented, "not on the page: {rule}");
    }
}
