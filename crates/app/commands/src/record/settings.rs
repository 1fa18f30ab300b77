//! Shows the recorder's event settings, and changes them in the running agent.

use super::{Failure, RecordArgs};
use crate::client::Client;
use hyper::Method;
use hyper::body::Bytes;
use millstream_console::EventChange;
use millstream_recorder::schema::EventKind;
use serde::Deserialize;
use serde_json::json;
use std::collections::BTreeMap;
use std::fmt::Write;

const PATH: &str = "/api/recorder";

/// The state of the recorder in the agent's response.
#[derive(Deserialize)]
struct Recorder {
    enabled: bool,
    file: Option<String>,
    size_bytes: u64,
    events: Vec<EventState>,
    without_space: u64,
    without_name: u64,
}

#[derive(Deserialize)]
struct EventState {
    name: String,
    enabled: bool,
    threshold: Option<String>,
    rate: Option<String>,
    over_rate: u64,
}

/// Applies the changes in the arguments. Returns a table of all settings.
pub async fn change(args: &RecordArgs, client: &Client) -> Result<String, Failure> {
    let changes = changes(args);
    let answer = match changes.is_empty() {
        true => client.request(Method::GET, PATH, Vec::new()).await?,
        false => {
            let body = json!({ "events": changes }).to_string();
            client.request(Method::PUT, PATH, body.into_bytes()).await?
        }
    };
    parse(&answer).map(|recorder| table(&recorder))
}

fn parse(answer: &Bytes) -> Result<Recorder, Failure> {
    let text = "the agent's response is invalid; use the same release for the agent and this \
                command";
    serde_json::from_slice(answer).map_err(|error| Failure::failed(format!("{text} {error}")))
}

/// Returns the changes by event type. A type that is both enabled and disabled, as with `all`, is
/// enabled.
fn changes(args: &RecordArgs) -> BTreeMap<&'static str, EventChange> {
    let mut changes = BTreeMap::new();
    for kind in args.disable.iter().flat_map(|kinds| &kinds.0) {
        let change = EventChange { enabled: Some(false), ..EventChange::default() };
        changes.insert(kind.spec().name, change);
    }
    for kind in args.enable.iter().flat_map(|kinds| &kinds.0) {
        changes.insert(kind.spec().name, enabled(args, *kind));
    }
    changes
}

fn enabled(args: &RecordArgs, kind: EventKind) -> EventChange {
    let is_named = args.enable.iter().any(|kinds| kinds.0 == [kind]);
    let has_threshold = kind.spec().has_duration || is_named;
    let threshold = args.threshold.filter(|_| has_threshold);
    EventChange { enabled: Some(true), threshold, rate: args.rate }
}

fn table(recorder: &Recorder) -> String {
    let mut text = String::new();
    let state = match (&recorder.file, recorder.enabled) {
        (_, false) => "off".to_owned(),
        (Some(file), true) => file.clone(),
        (None, true) => "in memory only".to_owned(),
    };
    let _ = writeln!(text, "recording: {state}, {} bytes", recorder.size_bytes);
    let _ = writeln!(
        text,
        "events without space: {}, without a name: {}\n",
        recorder.without_space, recorder.without_name
    );
    let (name, on, threshold) = ("event", "enabled", "threshold");
    let _ = writeln!(text, "{name:<15}  {on:<7}  {threshold:>9}  {:>9}  over rate", "rate");
    for event in &recorder.events {
        let EventState { name, enabled, threshold, rate, over_rate } = event;
        let shown = |limit: &Option<String>| limit.clone().unwrap_or_else(|| "none".to_owned());
        let (threshold, rate) = (shown(threshold), shown(rate));
        let _ = writeln!(
            text,
            "{name:<15}  {:<7}  {threshold:>9}  {rate:>9}  {over_rate:>9}",
            if *enabled { "yes" } else { "no" }
        );
    }
    text
}
