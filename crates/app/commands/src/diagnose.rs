//! `millstream diagnose`: why the events from each source are late, lost or wrong.

use crate::client::{AgentArgs, Client, ClientError};
use crate::exit::{DONE, FAILED, USAGE};
use crate::output;
use crate::text::escaped;
use hyper::Method;
use millstream_config::suggest;
use millstream_console::Bottleneck;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::time::{Duration, Instant};

/// The help of `diagnose`.
pub const HELP: &str = "Example:\n  \
    millstream diagnose\n  \
    millstream diagnose web archive -c millstream.yaml\n  \
    millstream diagnose --json --data-dir /var/lib/millstream\n\n\
    For each source: healthy, idle, starting (too early to tell), degraded (events arrive, some are lost\n\
    or wrong) or late. A finding contains the cause, the component, the start, the measured values and\n\
    advice. A cause is reported after a few seconds, at most 30 s after it began.\n\n\
    Exit status: 0 all sources are healthy, idle or starting; 1 a source is late or degraded, no agent\n\
    is running, or the agent has no diagnosis yet; 2 invalid usage.";

/// Maximum length of a string in the output, in bytes.
const TEXT_BYTES_MAX: usize = 400;

/// Observation time in seconds after which a diagnosis is complete.
const COMPLETE_SECONDS: f64 = 24.0;

/// Maximum time to wait for the first diagnosis of a starting agent, which takes about a second.
const FIRST_DIAGNOSIS_TIMEOUT: Duration = Duration::from_secs(5);

/// Interval between requests for the first diagnosis.
const FIRST_DIAGNOSIS_LOOK: Duration = Duration::from_millis(100);

/// Message while the agent has no diagnosis.
const STARTING: &str = "the agent is starting and has no diagnosis yet";

/// The arguments of `diagnose`.
#[derive(clap::Args)]
pub struct DiagnoseArgs {
    /// Sources to diagnose, or transforms and sinks whose sources to diagnose [default: all]
    #[arg(value_name = "ID")]
    ids: Vec<String>,
    /// Write JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    agent: AgentArgs,
}

/// Prints the diagnosis of an agent; returns the exit status.
pub fn diagnose(args: &DiagnoseArgs) -> u8 {
    let client = match args.agent.client() {
        Ok(client) => client,
        Err(status) => return status,
    };
    match report(args, &client) {
        Ok((text, is_late)) => output::print(&text, if is_late { FAILED } else { DONE }),
        Err((status, message)) => {
            output::print_error(message);
            status
        }
    }
}

/// Returns the diagnosis, and whether a source is late, or the exit status and a message.
fn report(args: &DiagnoseArgs, client: &Client) -> Result<(String, bool), (u8, String)> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| (FAILED, error.to_string()))?;
    let asked = runtime.block_on(ask(client, !args.ids.is_empty()));
    let (mut diagnosis, bottleneck, behind) = asked.map_err(|error| (FAILED, error.to_string()))?;
    keep(&mut diagnosis, &args.ids, &behind).map_err(|message| (USAGE, message))?;
    sort(&mut diagnosis);
    let is_late = list(&diagnosis["sources"]).iter().any(is_late);
    let text = match args.json {
        true => as_json(&diagnosis, &bottleneck, is_late) + "\n",
        false => as_text(&diagnosis, &bottleneck),
    };
    Ok((text, is_late))
}

/// Ids of the transforms and sinks downstream of each source.
type Behind = BTreeMap<String, BTreeSet<String>>;

/// Requests the diagnosis and the bottleneck. Also requests the flow if there are ids to look up in
/// it.
async fn ask(client: &Client, has_ids: bool) -> Result<(Value, Bottleneck, Behind), ClientError> {
    let diagnosis = first_diagnosis(client).await?;
    let snapshot = match has_ids {
        true => get(client, "/api/snapshot").await?,
        false => Value::Null,
    };
    let behind = behind(&snapshot, &diagnosis);
    Ok((diagnosis, get(client, "/api/bottleneck").await?, behind))
}

/// Waits until a starting agent has a diagnosis. The diagnosis of a running agent contains sources.
async fn first_diagnosis(client: &Client) -> Result<Value, ClientError> {
    let begun = Instant::now();
    loop {
        let diagnosis: Value = get(client, "/api/diagnosis").await?;
        if !list(&diagnosis["sources"]).is_empty() {
            return Ok(diagnosis);
        }
        if begun.elapsed() > FIRST_DIAGNOSIS_TIMEOUT {
            return Err(ClientError::Failed(STARTING.to_owned()));
        }
        tokio::time::sleep(FIRST_DIAGNOSIS_LOOK).await;
    }
}

async fn get<T: DeserializeOwned>(client: &Client, path: &str) -> Result<T, ClientError> {
    let body = client.request(Method::GET, path, Vec::new()).await?;
    serde_json::from_slice(&body).map_err(|error| ClientError::Failed(format!("{path}: {error}")))
}

/// Returns the components downstream of each source: sinks from the diagnosis, and readers from a
/// snapshot, which an older agent does not provide.
fn behind(snapshot: &Value, diagnosis: &Value) -> Behind {
    let ids = |item: &Value| list(item).iter().map(text).map(str::to_owned).collect::<Vec<_>>();
    let components = list(&snapshot["components"]).iter();
    let readers: BTreeMap<&str, Vec<String>> =
        components.map(|component| (text(&component["id"]), ids(&component["readers"]))).collect();
    let of_source = |source: &Value| {
        let id = text(&source["source"]);
        let mut next = readers.get(id).cloned().unwrap_or_default();
        let mut found: BTreeSet<String> = ids(&source["sinks"]).into_iter().collect();
        let mut seen = BTreeSet::new();
        while let Some(id) = next.pop() {
            if seen.insert(id.clone()) {
                next.extend(readers.get(id.as_str()).into_iter().flatten().cloned());
            }
        }
        found.append(&mut seen);
        (id.to_owned(), found)
    };
    list(&diagnosis["sources"]).iter().map(of_source).collect()
}

/// Removes all sources except sources with one of these ids, or upstream of a transform or sink
/// with one of these ids. Without ids, keeps all sources.
fn keep(diagnosis: &mut Value, ids: &[String], behind: &Behind) -> Result<(), String> {
    let is_of = |source: &Value, id: &str| {
        let source = text(&source["source"]);
        source == id || behind.get(source).is_some_and(|behind| behind.contains(id))
    };
    let is_known = |id: &str| list(&diagnosis["sources"]).iter().any(|source| is_of(source, id));
    if let Some(unknown) = ids.iter().find(|id| !is_known(id)) {
        return Err(unknown_id(diagnosis, behind, unknown));
    }
    if let Some(sources) = diagnosis["sources"].as_array_mut() {
        sources.retain(|source| ids.is_empty() || ids.iter().any(|id| is_of(source, id)));
    }
    Ok(())
}

/// Describes an unknown id, with the ids that exist.
fn unknown_id(diagnosis: &Value, behind: &Behind, id: &str) -> String {
    let all = list(&diagnosis["sources"]);
    let sources: BTreeSet<&str> = all.iter().map(|source| text(&source["source"])).collect();
    let sinks: BTreeSet<&str> =
        all.iter().flat_map(|source| list(&source["sinks"])).map(text).collect();
    let transforms = behind.values().flatten().map(String::as_str);
    let transforms: BTreeSet<&str> = transforms.filter(|id| !sinks.contains(id)).collect();
    let names: Vec<&str> = [&sources, &transforms, &sinks].into_iter().flatten().copied().collect();
    let like = suggest::nearest(id, &names);
    let like = like.map_or(String::new(), |like| format!("; did you mean `{like}`?"));
    let listed = |names: BTreeSet<&str>| names.into_iter().collect::<Vec<_>>().join(", ");
    let [sources, transforms, sinks] = [sources, transforms, sinks].map(listed);
    let known = format!("sources: {sources}; transforms: {transforms}; sinks: {sinks}");
    format!("no source, transform or sink is named `{id}`{like} ({known})")
}

/// Statuses, the worst first.
const WORST_FIRST: [&str; 5] = ["late", "degraded", "starting", "idle", "healthy"];

/// Sorts the sources by status, the worst first, and by id.
fn sort(diagnosis: &mut Value) {
    let rank = |source: &Value| WORST_FIRST.iter().position(|status| source["status"] == *status);
    if let Some(sources) = diagnosis["sources"].as_array_mut() {
        sources.sort_by(|a, b| (rank(a), text(&a["source"])).cmp(&(rank(b), text(&b["source"]))));
    }
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn is_late(source: &Value) -> bool {
    matches!(text(&source["status"]), "late" | "degraded")
}

fn as_json(diagnosis: &Value, bottleneck: &Bottleneck, is_late: bool) -> String {
    let sources = &diagnosis["sources"];
    let observed = &diagnosis["observed_seconds"];
    let all = json!({
        "late": is_late, "observed_seconds": observed, "sources": sources, "bottleneck": bottleneck,
    });
    serde_json::to_string_pretty(&all).unwrap_or_default()
}

fn as_text(diagnosis: &Value, bottleneck: &Bottleneck) -> String {
    let mut out = String::new();
    for source in list(&diagnosis["sources"]) {
        add_source(&mut out, source);
    }
    let _ = writeln!(out, "{}", escaped(bottleneck.line(), TEXT_BYTES_MAX));
    let observed = diagnosis["observed_seconds"].as_f64().unwrap_or_default();
    if observed < COMPLETE_SECONDS {
        let _ = writeln!(
            out,
            "the agent has been observed for {observed:.0} s; a diagnosis takes up to 30 s"
        );
    }
    out
}

fn add_source(out: &mut String, source: &Value) {
    let _ = writeln!(out, "{}: {}", shown(&source["source"]), shown(&source["status"]));
    if source["cause"].is_null() {
        return;
    }
    for named in [source].into_iter().chain(list(&source["also"])) {
        let (cause, component) = (shown(&named["cause"]), shown(&named["component"]));
        let _ = writeln!(out, "  {cause} at {component}, since {}", shown(&named["since"]));
        let unit = text(&named["numbers"]["lag_unit"]);
        let numbers = named["numbers"].as_object().into_iter().flatten();
        for (name, value) in numbers.filter(|(name, _)| *name != "lag_unit") {
            let (name, value) = with_unit(name, value, unit);
            let _ = writeln!(out, "    {}: {value}", name.replace('_', " "));
        }
        let _ = writeln!(out, "    what to do: {}", shown(&named["advice"]));
    }
}

/// Suffixes of names with their units. The suffix is removed from the name. Other names, such as
/// `attempts`, contain no unit.
const UNITS: [(&str, &str); 6] = [
    ("_events_per_second", " events/s"),
    ("_seconds", " s"),
    ("_bytes", " bytes"),
    ("_hours", " h"),
    ("failed", " events"),
    ("refused", " events"),
];

/// Returns the display name of a number, and the number with its unit.
fn with_unit<'n>(name: &'n str, value: &Value, lag_unit: &str) -> (&'n str, String) {
    match (name, name.ends_with("_share"), value.as_f64()) {
        ("lag", ..) => return (name, format!("{} {lag_unit}", shown(value)).trim_end().to_owned()),
        ("lag_change_per_second", ..) => {
            return ("lag_change", format!("{} {lag_unit}/s", shown(value)));
        }
        (_, true, Some(share)) => return (name, format!("{}%", (share * 1000.0).round() / 10.0)),
        _ => {}
    }
    let unit = UNITS.iter().find(|(end, _)| name.ends_with(end));
    let Some((end, unit)) = unit.filter(|_| value.is_number()) else { return (name, shown(value)) };
    let rest = name.strip_suffix(end).filter(|rest| end.starts_with('_') && *rest != "in");
    let unit = if *unit == " events" && value == 1 { " event" } else { unit };
    (rest.unwrap_or(name), format!("{}{unit}", shown(value)))
}

/// Returns a value as one line without control characters.
fn shown(value: &Value) -> String {
    let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    escaped(&text, TEXT_BYTES_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn diagnosis() -> Value {
        let also = json!([{ "source": "web", "status": "degraded", "cause": "lines_too_long",
            "component": "web", "since": "2026-01-01T00:00:00.000Z", "numbers": {}, "advice": "x" }]);
        json!({ "observed_seconds": 5.0, "sources": [
            { "source": "web", "status": "late", "cause": "endpoint_unreachable", "component": "out",
              "since": "2026-01-01T00:00:00.000Z", "numbers": {
                "error": "a\u{1b}[2Jb", "lag": 7, "lag_unit": "records",
                "lag_change_per_second": 0.5, "oldest_seconds": 2.5, "attempts": 9,
                "source_waits_share": 0.905, "delivered_events_per_second": 3.0, "refused": 4,
                "unfinished_bytes": 30, "full_in_seconds": 60,
              },
              "advice": "check", "sinks": ["out"], "also": also },
            { "source": "db", "status": "healthy", "cause": null, "sinks": ["archive", "out"] },
            { "source": "app", "status": "healthy", "cause": null, "sinks": ["archive"] },
            { "source": "new", "status": "starting", "cause": null },
            { "source": "disk", "status": "degraded", "cause": null },
        ]})
    }

    #[test]
    fn the_text_has_every_cause_and_no_control_characters() {
        let text = as_text(&diagnosis(), &Bottleneck::default());
        for part in [
            "web: late\n",
            "db: healthy\n",
            "endpoint_unreachable at out",
            "    lag: 7 records\n",
            "    lag change: 0.5 records/s\n",
            "    oldest: 2.5 s\n",
            "    attempts: 9\n",
            "    source waits share: 90.5%\n",
            "    delivered: 3.0 events/s\n",
            "    refused: 4 events\n",
            "    unfinished: 30 bytes\n",
            "    full in: 60 s\n",
            "lines_too_long at web",
            "bottleneck: none",
            "observed for 5 s",
        ] {
            assert!(text.contains(part), "{part} in {text}");
        }
        assert!(!text.contains('\u{1b}'), "{text}");
    }

    /// Returns the ids of the sources that `keep` leaves for these ids.
    fn kept(ids: &[&str]) -> Result<Vec<String>, String> {
        let mut diagnosis = diagnosis();
        let ids: Vec<String> = ids.iter().map(|id| (*id).to_owned()).collect();
        let snapshot = json!({ "components": [
            { "id": "db", "kind": "source", "readers": ["parsed", "archive"] },
            { "id": "parsed", "kind": "transform", "readers": ["clean"] },
            { "id": "clean", "kind": "transform", "readers": ["out"] },
            { "id": "out", "kind": "sink", "readers": [] },
        ]});
        let behind = behind(&snapshot, &diagnosis);
        keep(&mut diagnosis, &ids, &behind)?;
        sort(&mut diagnosis);
        Ok(list(&diagnosis["sources"])
            .iter()
            .map(|source| text(&source["source"]).to_owned())
            .collect())
    }

    #[test]
    fn ids_of_components_select_and_the_worst_comes_first() {
        assert_eq!(kept(&[]).unwrap(), ["web", "disk", "new", "app", "db"]);
        assert_eq!(kept(&["db"]).unwrap(), ["db"]);
        assert_eq!(kept(&["new", "web", "web"]).unwrap(), ["web", "new"]);
        assert_eq!(kept(&["archive"]).unwrap(), ["app", "db"], "the sources before the sink");
        assert_eq!(kept(&["out", "disk"]).unwrap(), ["web", "disk", "db"]);
        assert_eq!(kept(&["clean"]).unwrap(), ["db"], "the sources before the transform");
    }

    #[test]
    fn one_event_is_singular() {
        let failed = |events: u64| with_unit("failed", &json!(events), "").1;
        assert_eq!((failed(1), failed(2)), ("1 event".to_owned(), "2 events".to_owned()));
    }

    #[test]
    fn an_unknown_id_is_an_error_with_the_known_ones() {
        let error = kept(&["db", "wev"]).unwrap_err();
        assert!(error.contains("did you mean `web`") && error.contains("db"), "{error}");
        let error = kept(&["archiv"]).unwrap_err();
        assert!(error.contains("did you mean `archive`") && error.contains("out"), "{error}");
        let error = kept(&["cleam"]).unwrap_err();
        assert!(
            error.contains("`clean`") && error.contains("transforms: clean, parsed"),
            "{error}"
        );
    }
}
