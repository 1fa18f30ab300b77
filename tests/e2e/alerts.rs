//! `packaging/alerts.yaml` and `packaging/dashboard.json`, in a real Prometheus that scrapes an agent.

use crate::support::{Agent, folder, wait_until};
use millstream_testkit_servers::prometheus::{Prometheus, PrometheusOptions};
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(60);

/// A source whose path is missing.
const CONFIG: &str = "
sources: { app: { type: file, include: ['DIR/missing/app.log'] } }
sinks: { out: { type: blackhole, inputs: [app] } }
";

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

/// Returns every expression of the dashboard, for all instances.
fn queries(dashboard: &Value) -> Vec<String> {
    let targets = dashboard["panels"].as_array().unwrap().iter();
    let targets = targets.filter_map(|panel| panel["targets"].as_array()).flatten();
    let queries = targets.map(|target| target["expr"].as_str().unwrap());
    queries.map(|query| query.replace("$instance", ".*")).collect()
}

#[test]
fn alerts_fire_for_a_late_source_and_the_dashboard_shows_it() {
    let dir = folder();
    let agent = Agent::start(dir.path(), CONFIG, &[]);
    let mut address = None;
    wait_until("the address of the API", PATIENCE, || {
        address = api_address(&agent.log());
        address.is_some()
    });
    // What takes minutes in operation takes a second here.
    let quick = |line: &str| match line.trim_start().starts_with("for: ") {
        true => "        for: 1s\n".to_owned(),
        false => format!("{line}\n"),
    };
    let rules: String = packaging("alerts.yaml").lines().map(quick).collect();
    let path = dir.path().join("alerts.yaml");
    fs::write(&path, rules).unwrap();
    let prometheus = Prometheus::start(&PrometheusOptions {
        scrape: address.into_iter().collect(),
        rules: Some(path),
        ..PrometheusOptions::default()
    });
    wait_until("the alert fires", PATIENCE, || {
        let query = "ALERTS{alertname=\"MillstreamEventsLate\",alertstate=\"firing\"}";
        let alerts = prometheus.query(query);
        alerts.iter().any(|alert| alert["metric"]["cause"] == "path_missing")
    });
    let groups: Value = serde_json::from_str(&prometheus.get("/api/v1/rules").unwrap()).unwrap();
    for rule in groups["data"]["groups"][0]["rules"].as_array().unwrap() {
        assert_eq!(rule["health"], "ok", "{rule}");
    }
    let firing =
        prometheus.query("ALERTS{alertstate=\"firing\",alertname!=\"MillstreamEventsLate\"}");
    assert!(firing.is_empty(), "{firing:?}");
    let dashboard: Value = serde_json::from_str(&packaging("dashboard.json")).unwrap();
    let queries = queries(&dashboard);
    // An invalid query fails.
    let answers: Vec<Vec<Value>> = queries.iter().map(|query| prometheus.query(query)).collect();
    assert_eq!(answers[0][0]["metric"]["cause"], "path_missing");
}

/// Every metric that an alert or a panel reads is on the page of metrics.
#[test]
fn alerts_and_the_dashboard_read_metrics_that_are_documented() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let page = fs::read_to_string(root.join("docs/operating.md")).unwrap();
    let read = packaging("alerts.yaml") + &packaging("dashboard.json");
    let words = read.split(|char: char| !char.is_ascii_lowercase() && char != '_');
    let names: BTreeSet<&str> = words.filter(|word| word.starts_with("millstream_")).collect();
    assert!(names.len() > 15, "{names:?}");
    for name in names {
        assert!(page.contains(name), "{name} is not on the page");
    }
}
