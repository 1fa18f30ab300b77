//! `millstream record`: writes events that an agent has recorded, or records new events.

mod crash;
mod events;
mod json;
mod live;
mod missing;
mod output;
mod settings;
mod story;
mod ticks;

use crate::client::{AgentArgs, Client, ClientError};
use crate::exit::{DONE, FAILED, USAGE};
use crate::run_files::End;
use millstream_config::suggest;
use millstream_console::Limit;
use millstream_model::Interval;
use millstream_recorder::schema::{EVENTS, EventKind, PerSecond};
use missing::Missing;
use output::{Format, Target};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// Default duration of a recording in seconds.
const SECONDS_DEFAULT: u64 = 30;

/// The help of `record`.
pub const HELP: &str = "Example:\n  \
    millstream record -c millstream.yaml -d 1m -o slow.jfr\n  \
    millstream record --dump --last 5m -o incident.jsonl\n  \
    millstream record --from-crash /var/lib/millstream\n  \
    millstream record --from-crash /var/lib/millstream --list\n  \
    millstream record --enable SocketWrite --threshold 1ms --rate 100/s\n  \
    millstream record --enable all -d 30s\n\n\
    *.jfr is for JDK Mission Control and the jfr tool of a JDK, *.jsonl and *.json contain one event\n\
    per line, and *.txt is a report. Without -o, --dump and --from-crash write the report to standard\n\
    output, and -d writes millstream-TIME.jfr.\n\n\
    Changed settings are in effect until the agent exits or a reload changes recorder.events.\n\n\
    Exit status: 0 done; 1 no agent is running, the agent exited early, there is no recording, or the\n\
    output cannot be written; 2 invalid configuration or usage.";

/// The arguments of `record`.
#[derive(clap::Args)]
pub struct RecordArgs {
    #[command(flatten)]
    agent: AgentArgs,
    /// Record for this duration, starting now [default: 30s]
    #[arg(short, long, value_name = "DURATION", conflicts_with_all = ["dump", "from_crash"])]
    duration: Option<Interval>,
    /// Write the events that the agent has recorded so far
    #[arg(long, conflicts_with = "from_crash")]
    dump: bool,
    /// Include only events that ended within this period before the end
    #[arg(long, value_name = "DURATION", conflicts_with = "duration")]
    last: Option<Interval>,
    /// Write the recording of a run that died, from this data_dir or file; needs no agent
    #[arg(long, value_name = "DATA_DIR|FILE")]
    #[arg(conflicts_with_all = ["enable", "disable", "settings", "url", "config", "data_dir"])]
    from_crash: Option<PathBuf>,
    /// List the runs that have a recording
    #[arg(long, requires = "from_crash", conflicts_with_all = ["output", "format", "last"])]
    list: bool,
    /// Output file, or - for standard output
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Output format, instead of the format of the file name
    #[arg(long, value_name = "FORMAT")]
    format: Option<Format>,
    /// Record this type of event, or all types; repeatable
    #[arg(long, value_name = "EVENT", value_parser = kinds)]
    enable: Vec<Kinds>,
    /// Do not record this type of event, or all types; repeatable
    #[arg(long, value_name = "EVENT", value_parser = kinds)]
    disable: Vec<Kinds>,
    /// Minimum duration of the enabled events, or none to record all
    #[arg(long, value_name = "DURATION", requires = "enable")]
    threshold: Option<Limit<Interval>>,
    /// Maximum rate of the enabled events, such as 100/s, or none to record all
    #[arg(long, value_name = "RATE", requires = "enable")]
    rate: Option<Limit<PerSecond>>,
    /// Print the conditions for recording events
    #[arg(long)]
    settings: bool,
}

/// An event type, or all types.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Kinds(Vec<EventKind>);

fn kinds(text: &str) -> Result<Kinds, String> {
    if text == "all" {
        return Ok(Kinds(EVENTS.iter().map(|spec| spec.kind).collect()));
    }
    let names: Vec<&str> = EVENTS.iter().map(|spec| spec.name).chain(["all"]).collect();
    let kind = EventKind::named(text).map(|kind| Kinds(vec![kind]));
    kind.ok_or_else(|| format!("no such event; {}", suggest::advice(text, &names, "there are")))
}

/// The task of the command.
enum Task {
    /// Only prints or changes settings.
    Settings,
    Live(Interval),
    Dump,
    Crash(PathBuf),
}

impl RecordArgs {
    fn task(&self) -> Result<Task, String> {
        let has_settings = self.settings || !self.enable.is_empty() || !self.disable.is_empty();
        let task = match (&self.from_crash, self.duration) {
            (Some(path), _) => Task::Crash(path.clone()),
            (None, _) if self.dump => Task::Dump,
            (None, Some(duration)) => Task::Live(duration),
            (None, None) if has_settings => Task::Settings,
            (None, None) => Task::Live(Interval(std::time::Duration::from_secs(SECONDS_DEFAULT))),
        };
        if self.last.is_some() && matches!(task, Task::Live(_) | Task::Settings) {
            return Err("--last needs --dump or --from-crash".to_owned());
        }
        if self.list && !matches!(task, Task::Crash(_)) {
            return Err("--list needs --from-crash DATA_DIR".to_owned());
        }
        let has_output = self.output.is_some() || self.format.is_some();
        if has_output && matches!(task, Task::Settings) {
            return Err("-o needs -d or --dump if settings are changed".to_owned());
        }
        Ok(task)
    }

    /// Returns the destination of the output. A live recording goes to a file by default.
    fn target(&self, is_live: bool) -> Result<Target, String> {
        Target::new(self.output.as_deref(), self.format, is_live)
    }
}

/// The reason for an early end: the exit status, and the message unless it is already printed.
#[derive(Debug)]
struct Failure(u8, Option<String>);

impl Failure {
    fn failed(message: impl Into<String>) -> Failure {
        Failure(FAILED, Some(message.into()))
    }

    fn usage(message: impl Into<String>) -> Failure {
        Failure(USAGE, Some(message.into()))
    }
}

impl From<ClientError> for Failure {
    fn from(error: ClientError) -> Failure {
        let advice = match &error {
            ClientError::NotRunning(data_dir) => {
                let data_dir = data_dir.display();
                format!(
                    "; start the agent, or use --from-crash {data_dir} to read the recording of an \
                     earlier run"
                )
            }
            _ => String::new(),
        };
        Failure::failed(format!("{error}{advice}"))
    }
}

/// Writes the events that an agent has recorded so far to a JFR file.
///
/// # Errors
///
/// Returns the reason why this is not possible.
pub async fn dump(client: &Client, path: &Path) -> Result<(), String> {
    let said = |failure: Failure| failure.1.unwrap_or_default();
    let target = Target::new(Some(path), Some(Format::Jfr), true)?;
    let bytes = live::copy(client, Vec::new()).await.map_err(|error| error.to_string())?;
    events::write_silently(&bytes, End::Running, None, &target).map(drop).map_err(said)
}

/// Writes the events that the newest run of a data folder recorded before it died to a JFR file.
///
/// # Errors
///
/// Returns the reason why this is not possible.
pub fn dump_crash(data_dir: &Path, path: &Path) -> Result<(), String> {
    let said = |failure: Failure| failure.1.unwrap_or_default();
    let target = Target::new(Some(path), Some(Format::Jfr), true)?;
    let (bytes, end) = crash::read(data_dir).map_err(said)?;
    events::write_silently(&bytes, end, None, &target).map(drop).map_err(said)
}

/// Runs the command; returns the exit status.
pub fn record(args: &RecordArgs) -> u8 {
    match run(args) {
        Ok(()) => DONE,
        Err(Failure(status, message)) => {
            message.iter().for_each(|message| eprintln!("{message}"));
            status
        }
    }
}

fn run(args: &RecordArgs) -> Result<(), Failure> {
    let task = args.task().map_err(Failure::usage)?;
    if let Task::Crash(path) = &task {
        if args.list {
            return crash::list(path);
        }
        let target = args.target(false).map_err(Failure::usage)?;
        return crash::write(path, args.last, &target);
    }
    let target = args.target(matches!(task, Task::Live(_))).map_err(Failure::usage)?;
    let client = args.agent.client().map_err(|status| Failure(status, None))?;
    // The runtime's thread receives signals while this thread writes.
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
    let runtime = runtime
        .map_err(|error| Failure::failed(format!("cannot start the async runtime: {error}")))?;
    runtime.block_on(with_agent(args, &task, &client, &target))
}

async fn with_agent(
    args: &RecordArgs,
    task: &Task,
    client: &Client,
    target: &Target,
) -> Result<(), Failure> {
    if args.settings || !args.enable.is_empty() || !args.disable.is_empty() {
        let table = settings::change(args, client).await?;
        print(&table)?;
    }
    match task {
        Task::Live(duration) => live::record(client, *duration, target).await,
        Task::Dump => {
            let bytes = live::copy(client, Vec::new()).await?;
            events::write(&bytes, End::Running, args.last, target)
        }
        Task::Settings | Task::Crash(_) => Ok(()),
    }
}

/// Prints to standard output. A closed pipe stops the command as if its output were complete.
fn print(text: &str) -> Result<(), Failure> {
    use std::io::Write;
    match std::io::stdout().write_all(text.as_bytes()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(Failure::failed(format!("standard output: {error}")))
        }
        _ => Ok(()),
    }
}

/// Prints on standard error what was written and what is missing.
fn summarize(name: &Path, events: u64, seconds: f64, bytes: u64, missing: &Missing) {
    eprintln!("{}: {events} events in {seconds:.1} s, {bytes} bytes", name.display());
    missing.lines().iter().for_each(|line| eprintln!("missing: {line}"));
}

#[cfg(test)]
mod tests;
