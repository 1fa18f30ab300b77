//! `millstream profile`: flame graphs of a running agent.

mod debug_files;
mod kernel;
mod stacks;
mod symbols;
mod target;

use crate::client::{AgentArgs, Client, ClientError};
use crate::exit::{DONE, FAILED, USAGE};
use crate::interrupts::{Signals, end_at_second_signal};
use hyper::{Method, StatusCode};
use millstream_console::{ProfileRequest, ProfileStarted};
use millstream_model::Interval;
use millstream_profiler::{Event, RawProfile};
use millstream_profiles::{Profile, read_pprof};
use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};
use symbols::Symbols;
use target::{ProfileFormat, Target};

/// The help of `profile`.
pub const HELP: &str = "Example:\n  \
    millstream profile -c millstream.yaml -d 15s -o flame.html\n  \
    millstream profile -e wall -i 20ms -o wall.svg\n  \
    millstream profile --last 5m -o late.html\n  \
    millstream profile -d 1m -o before.pb.gz\n  \
    millstream profile --diff before.pb.gz after.pb.gz -o diff.html\n\n\
    *.html is a flame graph with search and zoom, *.svg is a picture, *.collapsed and *.folded contain\n\
    one stack per line, *.pb.gz is for go tool pprof, and *.jfr is for JDK Mission Control. Without -o\n\
    the file is millstream-TIME.html.\n\n\
    Each thread is sampled once per interval of CPU time (-e cpu) or of time (-e wall), or once per\n\
    512 KiB of objects that it allocates in the JVM (-e alloc, without -i). The roots are component\n\
    ids; work for no component is below the name of the thread. SIGINT ends the profile early.\n\
    --last gets earlier samples from an agent with profiler.continuous.\n\n\
    Exit status: 0 done; 1 no agent is running, another profile is in progress, or the output cannot\n\
    be written; 2 invalid configuration or usage.";

/// Maximum size, in bytes, of a profile for a comparison.
const PPROF_BYTES_MAX: u64 = 64 << 20;

/// The arguments of `profile`.
#[derive(clap::Args)]
pub struct ProfileArgs {
    #[command(flatten)]
    agent: AgentArgs,
    /// Duration of the profile [default: 15s]
    #[arg(short, long, value_name = "DURATION", conflicts_with = "diff")]
    duration: Option<Interval>,
    /// Time between two samples of a thread, from 1ms to 1s [default: 10ms]
    #[arg(short, long, value_name = "DURATION", conflicts_with = "diff")]
    interval: Option<Interval>,
    /// Return recent samples from continuous profiling; see profiler.continuous
    #[arg(long, value_name = "DURATION", conflicts_with_all = ["duration", "interval", "event", "diff"])]
    last: Option<Interval>,
    /// Event to sample: cpu, wall or alloc
    #[arg(short, long, value_name = "EVENT", default_value = "cpu")]
    event: Event,
    /// Output file, or - for standard output
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Output format, instead of the format of the file name
    #[arg(long, value_name = "FORMAT")]
    format: Option<ProfileFormat>,
    /// Start each stack with the name of its thread
    #[arg(long)]
    threads: bool,
    /// Compare two profiles, *.pb.gz: widths show AFTER, colors show the changes
    #[arg(long, num_args = 2, value_names = ["BEFORE", "AFTER"])]
    diff: Option<Vec<PathBuf>>,
}

/// The reason for an early end: the exit status, and the message unless it is already printed.
#[derive(Debug)]
struct Failure(u8, Option<String>);

impl Failure {
    fn failed(message: impl Into<String>) -> Failure {
        Failure(FAILED, Some(message.into()))
    }
}

impl From<ClientError> for Failure {
    fn from(error: ClientError) -> Failure {
        let status = match &error {
            ClientError::Refused(StatusCode::BAD_REQUEST, _) => USAGE,
            _ => FAILED,
        };
        Failure(status, Some(error.to_string()))
    }
}

/// Runs the command; returns the exit status.
pub fn profile(args: &ProfileArgs) -> u8 {
    match run(args) {
        Ok(()) => DONE,
        Err(Failure(status, message)) => {
            message.iter().for_each(|message| eprintln!("{message}"));
            status
        }
    }
}

fn run(args: &ProfileArgs) -> Result<(), Failure> {
    let target = Target::new(args.output.as_deref(), args.format)
        .map_err(|message| Failure(USAGE, Some(message)))?;
    if args.event == Event::Alloc && args.interval.is_some() {
        let message = "-i cannot be used with -e alloc, which takes a sample per 512 KiB of \
                       objects"
            .to_owned();
        return Err(Failure(USAGE, Some(message)));
    }
    match args.diff.as_deref() {
        Some([before, after]) => write_difference(&read(before)?, &read(after)?, &target),
        _ => {
            let client = args.agent.client().map_err(|status| Failure(status, None))?;
            let runtime =
                tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
            let runtime = runtime.map_err(|error| {
                Failure::failed(format!("cannot start the async runtime: {error}"))
            })?;
            let now = SystemTime::now();
            let (raw, started) = match args.last {
                Some(last) => (runtime.block_on(sampled(last, &client))?, now.checked_sub(last.0)),
                None => (runtime.block_on(sample(args, &client))?, Some(now)),
            };
            let is_local = client.data_dir().is_some();
            write(args, &raw, started.unwrap_or(now), is_local, &target)
        }
    }
}

fn write_difference(before: &Profile, after: &Profile, target: &Target) -> Result<(), Failure> {
    let (event, other) = (&before.about().event, &after.about().event);
    if event != other {
        let message = format!(
            "the first file is a profile of {event}, but the second is a profile of {other}"
        );
        return Err(Failure::failed(message));
    }
    target.write_difference(before, after)
}

fn read(path: &Path) -> Result<Profile, Failure> {
    let failed = |error: String| Failure::failed(format!("{}: {error}", path.display()));
    let file = File::open(path).map_err(|error| failed(error.to_string()))?;
    read_pprof(&mut BufReader::new(file), PPROF_BYTES_MAX)
        .map_err(|error| failed(error.to_string()))
}

/// The path of profiles in the API.
const PATH: &str = "/api/profile";

/// Default duration of a profile.
const DURATION_DEFAULT: Interval = Interval(Duration::from_secs(15));

/// Default time between two samples.
const INTERVAL_DEFAULT: Interval = Interval(Duration::from_millis(10));

/// Returns the recent samples from continuous profiling, for a period of this length.
async fn sampled(last: Interval, client: &Client) -> Result<RawProfile, Failure> {
    let path = format!("{PATH}?last={last}");
    let raw = client.download(Method::GET, &path, Vec::new()).await?;
    serde_json::from_slice(&raw).map_err(|error| unreadable(&error))
}

fn unreadable(error: &serde_json::Error) -> Failure {
    Failure::failed(format!("{PATH}: {error}; use the same release for the agent and this command"))
}

/// Lets the agent sample its threads for the requested time, or until a signal.
async fn sample(args: &ProfileArgs, client: &Client) -> Result<RawProfile, Failure> {
    let receive = || Signals::receive().map_err(|error| Failure::failed(error.to_string()));
    let mut signals = receive()?;
    tokio::spawn(end_at_second_signal(receive()?));
    let request = ProfileRequest {
        event: args.event,
        interval: args.interval.unwrap_or(INTERVAL_DEFAULT),
        duration: args.duration.unwrap_or(DURATION_DEFAULT),
    };
    let body = serde_json::to_vec(&request).map_err(|error| unreadable(&error))?;
    let started = client.request(Method::POST, PATH, body).await?;
    let started: ProfileStarted =
        serde_json::from_slice(&started).map_err(|error| unreadable(&error))?;
    tokio::select! {
        () = tokio::time::sleep(request.duration.0) => {}
        () = signals.stop() => {}
    }
    let path = format!("{PATH}?id={}", started.id);
    let raw =
        client.download(Method::DELETE, &path, Vec::new()).await.map_err(|error| match error {
            ClientError::NotRunning(_) => Failure::failed("the agent stopped during the profile"),
            error => error.into(),
        })?;
    serde_json::from_slice(&raw).map_err(|error| unreadable(&error))
}

/// Looks up the symbols of the samples, and writes the profile.
fn write(
    args: &ProfileArgs,
    raw: &RawProfile,
    started: SystemTime,
    is_local: bool,
    target: &Target,
) -> Result<(), Failure> {
    let symbols = Symbols::open(raw, is_local);
    let missing = symbols.missing();
    let notes = stacks::notes(raw, &missing);
    let with_threads = args.threads || target.has_threads();
    let profile = stacks::profile(raw, &symbols, started, notes.clone(), with_threads);
    target.write(&profile)?;
    let (name, samples) = (target.name().display(), profile.samples());
    let seconds = Duration::from_nanos(raw.duration_ns).as_secs_f64();
    eprintln!("{name}: {samples} samples in {seconds:.1} s");
    notes.iter().for_each(|note| eprintln!("note: {note}"));
    Ok(())
}
