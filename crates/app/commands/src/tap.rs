//! `millstream tap`: shows a sample of the events at an output of a running agent.

mod escape;
mod follow;
mod place;
mod route;
mod service;
mod tap_client;
mod topology;
mod view;

pub use service::TapService;

use crate::client::{AgentArgs, Client, ClientError, ENDED};
use crate::exit::{DONE, FAILED, USAGE};
use crate::interrupts::Signals;
use crate::output::{print_error, stdout_error};
use hyper::StatusCode;
use serde_json::Value;
use std::io::{self, Write};
use std::ops::ControlFlow;
use std::time::Duration;
use tokio::sync::oneshot;

/// The help of `tap`.
pub const HELP: &str = "Example:\n  \
    millstream tap web -c millstream.yaml\n  \
    millstream tap parsed --where 'status >= 500' --limit 20 --format text\n  \
    millstream tap parsed.rejected | jq .message\n  \
    millstream tap web --follow --limit 1 --format text\n\n\
    ID is a source or transform to see its output, ID.OUTPUT for a named output, or a sink to see its\n\
    input. The tap examines at most 1,000 events per second, and --where selects among these. Events\n\
    are shown as the downstream sinks receive them: every `redact` transform on the path is applied,\n\
    unless --raw is set. A tap neither delays nor drops the agent's events. With --follow each line is\n\
    an event that passed ID, with its path from the source to the sinks. Events go to standard output\n\
    and messages to standard error. Without --limit the command runs until Ctrl-C.\n\n\
    Exit status: 0 done; 1 no agent is running, the agent stops, too many taps are open, or the output\n\
    no longer exists after a reload; 2 unknown id, invalid expression or usage.";

/// Maximum length of a request's path and parameters, in bytes. The agent accepts 16 KiB with all
/// headers.
const PATH_BYTES_MAX: usize = 15 << 10;

/// Maximum time for a tap to end in an orderly way after a signal.
const STOP_TIMEOUT: Duration = Duration::from_millis(100);

/// The arguments of `tap`.
#[derive(clap::Args)]
pub struct TapArgs {
    /// Id of a component, or ID.OUTPUT for a named output
    #[arg(value_name = "ID")]
    id: String,
    /// End after this many events
    #[arg(short = 'n', long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    limit: Option<u64>,
    /// Show only events that satisfy this condition, as in the filter transform
    #[arg(long = "where", value_name = "EXPR")]
    condition: Option<String>,
    /// json: one event per line, as the codec writes it; text: the message, for people
    #[arg(short, long, value_name = "FORMAT", default_value = "json")]
    format: Format,
    /// Show events as they are, without the redactions downstream of this output
    #[arg(long)]
    raw: bool,
    /// Show single events with their path: each component up to the endpoints, with its time
    #[arg(long)]
    follow: bool,
    #[command(flatten)]
    agent: AgentArgs,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum Format {
    Json,
    Text,
}

/// Runs the command; returns the exit status.
pub fn tap(args: &TapArgs) -> u8 {
    let client = match args.agent.client() {
        Ok(client) => client,
        Err(status) => return status,
    };
    run(args, &client).unwrap_or_else(|(status, message)| {
        print_error(message);
        status
    })
}

fn run(args: &TapArgs, client: &Client) -> Result<u8, (u8, String)> {
    let path = path(args);
    if path.len() > PATH_BYTES_MAX {
        return Err((USAGE, too_long(args)));
    }
    let failed = |error: io::Error| (FAILED, error.to_string());
    // A separate thread receives signals while this thread waits for a reader of its output.
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
    let runtime = runtime.map_err(failed)?;
    let (stop, stopped) = oneshot::channel();
    let guard = runtime.enter();
    runtime.spawn(end_at_signal(Signals::receive().map_err(failed)?, stop));
    drop(guard);
    runtime.block_on(show(args, client, &path, stopped))
}

/// Ends the tap in an orderly way when a signal arrives. Exits the process if this takes too long.
async fn end_at_signal(mut signals: Signals, stop: oneshot::Sender<()>) {
    signals.stop().await;
    let _ = stop.send(());
    tokio::time::sleep(STOP_TIMEOUT).await;
    std::process::exit(i32::from(DONE));
}

async fn show(
    args: &TapArgs,
    client: &Client,
    path: &str,
    stopped: oneshot::Receiver<()>,
) -> Result<u8, (u8, String)> {
    let mut output = Output::new(args.format);
    let streamed = tokio::select! {
        streamed = client.stream(path, |chunk| output.take(chunk)) => streamed,
        _ = stopped => return Ok(DONE),
    };
    streamed.map_err(|error| match error {
        ClientError::Refused(StatusCode::BAD_REQUEST | StatusCode::NOT_FOUND, text) => {
            (USAGE, text)
        }
        ClientError::Refused(StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE, _) => {
            (USAGE, too_long(args))
        }
        error => (FAILED, error.to_string()),
    })?;
    match output.end {
        Some(End::Done) => Ok(DONE),
        Some(End::Failed(message)) => Err((FAILED, message)),
        None => Err((FAILED, ENDED.to_owned())),
    }
}

/// Describes which argument makes the request too long.
fn too_long(args: &TapArgs) -> String {
    let condition = args.condition.as_deref().map_or(0, |condition| encoded(condition).len());
    let name = if condition > encoded(&args.id).len() { "--where" } else { "ID" };
    format!("{name} is longer than {} KiB, percent-encoded", PATH_BYTES_MAX >> 10)
}

/// Returns the request.
fn path(args: &TapArgs) -> String {
    let mut path = format!("/api/tap?id={}", encoded(&args.id));
    args.limit.iter().for_each(|limit| path += &format!("&limit={limit}"));
    args.condition.iter().for_each(|condition| path += &format!("&where={}", encoded(condition)));
    path += if matches!(args.format, Format::Text) { "&format=text" } else { "&format=json" };
    path += if args.raw { "&raw=true" } else { "" };
    path + if args.follow { "&follow=true" } else { "" }
}

/// Returns a value of a query, percent-encoded.
fn encoded(text: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte);
    let encode = |byte: u8| match is_plain(byte) {
        true => char::from(byte).to_string(),
        false => format!("%{byte:02X}"),
    };
    text.bytes().map(encode).collect()
}

/// How a tap ended.
enum End {
    /// All requested events were shown, or the reader of the output is gone.
    Done,
    Failed(String),
}

/// Writes events to standard output, and notes to standard error.
struct Output {
    format: Format,
    /// Beginning of an incomplete line.
    rest: Vec<u8>,
    end: Option<End>,
    has_hinted: bool,
}

impl Output {
    fn new(format: Format) -> Output {
        Output { format, rest: Vec::new(), end: None, has_hinted: false }
    }

    /// Processes a piece of the response.
    fn take(&mut self, chunk: &[u8]) -> ControlFlow<()> {
        self.rest.extend_from_slice(chunk);
        let Some(end) = self.rest.iter().rposition(|byte| *byte == b'\n') else {
            return ControlFlow::Continue(());
        };
        let rest = self.rest.split_off(end + 1);
        let lines = std::mem::replace(&mut self.rest, rest);
        let written = self.write(&lines);
        if let Err(error) = written {
            self.end = Some(stdout_error(&error).map_or(End::Done, End::Failed));
        }
        if self.end.is_some() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }

    fn write(&mut self, lines: &[u8]) -> io::Result<()> {
        let mut out = io::stdout().lock();
        for line in lines.split_inclusive(|byte| *byte == b'\n') {
            match self.note(line) {
                Some(note) => self.take_note(&note),
                None => out.write_all(line)?,
            }
        }
        out.flush()
    }

    /// Returns the note in a line, if the line is a note.
    fn note(&self, line: &[u8]) -> Option<Value> {
        let line = match self.format {
            Format::Json => line,
            Format::Text => line.strip_prefix(&[tap_client::TEXT_NOTE as u8])?,
        };
        let is_note = line.starts_with(view::NOTE.as_bytes());
        let mut note: Value = is_note.then(|| serde_json::from_slice(line).ok())??;
        Some(note["tap"].take())
    }

    fn take_note(&mut self, note: &Value) {
        if let Some(hint) = hint(note).filter(|_| !self.has_hinted) {
            self.has_hinted = true;
            print_error(hint);
        }
        if let Some(warning) = note["warning"].as_str() {
            print_error(format_args!("warning: {warning}"));
        }
        match note["ended"].as_str() {
            Some("limit") => self.end = Some(End::Done),
            Some(why) => self.end = Some(End::Failed(format!("the tap ended: {why}"))),
            None => {}
        }
    }
}

/// Returns the reason why a running tap has shown no event yet.
fn hint(note: &Value) -> Option<String> {
    // Followed events are shown at the end of their path.
    let is_pending = note["pending"].as_u64().is_some_and(|pending| pending > 0);
    let is_running = note["ended"].is_null() && note["shown"] == 0 && !is_pending;
    match note["passed"].as_u64().filter(|_| is_running)? {
        0 => Some(
            "no event has passed here yet; `millstream diagnose` shows whether events are late"
                .into(),
        ),
        1 => Some("1 event has passed, but it was not selected or not examined".into()),
        passed => Some(format!(
            "{passed} events have passed, but none of the examined events was selected"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tap_that_shows_nothing_says_why() {
        let hint = |note: &str| hint(&serde_json::from_str(note).unwrap());
        assert!(hint(r#"{"passed":0,"shown":0}"#).unwrap().starts_with("no event has passed"));
        assert!(hint(r#"{"passed":1,"shown":0}"#).unwrap().starts_with("1 event has passed"));
        assert!(hint(r#"{"passed":7,"shown":0}"#).unwrap().starts_with("7 events have passed"));
        for quiet in [
            r#"{"passed":7,"shown":1}"#,
            r#"{"warning":"x"}"#,
            r#"{"passed":0,"shown":0,"pending":3}"#,
            r#"{"passed":0,"shown":0,"ended":"limit"}"#,
        ] {
            assert_eq!(hint(quiet), None, "{quiet}");
        }
    }

    #[test]
    fn a_value_of_a_query_is_encoded() {
        assert_eq!(encoded("a.b-c_d~1"), "a.b-c_d~1");
        assert_eq!(encoded("x > 1 && é+"), "x%20%3E%201%20%26%26%20%C3%A9%2B");
    }

    #[test]
    fn a_note_is_told_from_an_event() {
        let json = Output::new(Format::Json);
        assert!(json.note(b"{\"tap\":{\"ended\":\"limit\"}}\n").is_some());
        assert!(json.note(b"{ \"tap\":{\"ended\":\"limit\"}}\n").is_none());
        let text = Output::new(Format::Text);
        assert!(text.note(b"{\"tap\":{\"ended\":\"limit\"}}\n").is_none());
        assert!(text.note(b"\x1e{\"tap\":{\"ended\":\"limit\"}}\n").is_some());
    }
}
