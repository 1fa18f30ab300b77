//! `millstream run`: starts the agent, waits for a signal or the end of the input, and stops the
//! agent.

use crate::governor;
use crate::notices::{announce_proxies, report_refused, warn_of_unowned};
use crate::progress::{AboveBlock, Progress};
use crate::recorder::Recording;
use crate::reload::{Files, Reloader, Services};
use crate::service::ServiceManager;
use crate::wiring::{self, LOADER, settings};
use millstream_commands::exit::{DONE, DROPPED, FAILED, USAGE};
use millstream_commands::logging;
use millstream_commands::tap::TapService;
use millstream_components::sources::jvm::collectors_snapshot;
use millstream_components::sources::stdin;
use millstream_components::transforms::jvm::{KeptOperators, jvm_process_snapshots, jvm_snapshot};
use millstream_config::{self as config, Config, LogTarget};
use millstream_console::{
    AgentSnapshot, ConfigState, Console, ConsoleConfig, RecorderState, Sections, TakeSnapshot,
};
use millstream_engine::{Running, Settings, Stopped, Store, Unsettled};
use millstream_model::{InternalMetrics, Interval};
use parking_lot::RwLock;
use std::path::PathBuf;
use std::process::exit;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};
use tokio::runtime::Runtime;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// Maximum number of threads for blocking calls, such as disk syncs.
const BLOCKING_THREADS_MAX: usize = 32;

/// Options of `run` in addition to the configuration.
#[derive(Clone, Copy)]
pub struct Options {
    /// Read the existing input, deliver it and exit.
    pub until_eof: bool,
    /// Show rates.
    pub progress: bool,
}

/// Runs the agent; returns the exit status.
pub fn run(files: &[PathBuf], options: Options) -> u8 {
    millstream_allocator::fix_thresholds();
    // Take the fingerprint before the files are read, so that later changes cause a reload.
    let seen = config::fingerprint(files);
    let (runtime, hangup) = match receive_hangups() {
        Ok(received) => received,
        Err((status, message)) => {
            eprintln!("{message}");
            return status;
        }
    };
    let operators = KeptOperators::begin();
    let Some(config) = LOADER.load(files) else { return USAGE };
    let seen = [seen, config.seen()].concat();
    let log = match open_log(&config) {
        Ok(log) => log,
        Err(error) => {
            eprintln!("log: {error}");
            return FAILED;
        }
    };
    raise_open_files();
    report_refused(&config);
    let files = Files { paths: files, seen };
    let served = runtime.block_on(serve(config, files, options, operators, hangup));
    // Threads that are stuck in a system call must not delay the exit.
    runtime.shutdown_background();
    let status = served.unwrap_or_else(|(status, message)| {
        log::error!("{message}");
        status
    });
    log.flush();
    if log.dropped_lines() > 0 {
        eprintln!(
            "{} log lines were dropped because the log destination is too slow",
            log.dropped_lines()
        );
    }
    status
}

/// Tailing needs one descriptor per file, so the limit is raised as far as the system allows.
fn raise_open_files() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    if let Err(error) = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit }) {
        log::warn!("cannot raise the open-file limit: {error}");
    }
}

/// The reason why the agent cannot continue: the exit status and the message.
type Refusal = (u8, String);

fn open_log(config: &Config) -> std::io::Result<logging::Handle> {
    let target = match &config.globals.log.to {
        LogTarget::Stderr => logging::Target::Stderr(Box::new(AboveBlock)),
        LogTarget::File(path) => logging::Target::File(path.clone()),
    };
    let log = logging::init(logging::level(config.globals.log.level), target)?;
    logging::install_panic_hook();
    if !config.components.iter().any(|component| component.type_name == "internal_logs") {
        logging::internal_logs().forget();
    }
    Ok(log)
}

/// Starts the network runtime, and starts to receive SIGHUP. Loading the configuration may take
/// long, because it may compile operators, and a SIGHUP during this time would otherwise kill the
/// process.
fn receive_hangups() -> Result<(Runtime, Signal), Refusal> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .max_blocking_threads(BLOCKING_THREADS_MAX)
        .thread_name("network")
        .enable_all()
        .build();
    let runtime =
        runtime.map_err(|error| (FAILED, format!("cannot start the async runtime: {error}")))?;
    let hangup = {
        let _entered = runtime.enter();
        receive(SignalKind::hangup())?
    };
    Ok((runtime, hangup))
}

/// Opens the folder, then the addresses, then the sources, so that nothing is read before it is
/// certain that the agent can run.
async fn serve(
    config: Config,
    files: Files<'_>,
    options: Options,
    operators: KeptOperators,
    hangup: Signal,
) -> Result<u8, Refusal> {
    let mut signals = Signals::receive()?;
    let store =
        Store::open(&config.globals.data_dir).map_err(|error| (FAILED, error.to_string()))?;
    // Keep the recording until the end of this function, so that it includes the shutdown.
    let recording = Recording::start(&config.globals.data_dir, &config.globals);
    let console = Api::open(&config, options, &recording.state).await;
    let console = console.map_err(|message| (FAILED, message))?;
    let blueprint = wiring::blueprint(&config)
        .map_err(|error| (build_status(error.is_configuration()), error.to_string()))?;
    let settings = console.settings(&config, options.until_eof);
    let built = blueprint.build(&settings, Arc::new(store));
    let mut running = built
        .map_err(|error| (build_status(error.is_configuration()), error.to_string()))?
        .start(&tokio::runtime::Handle::current());
    drop(operators);
    console.show(&running, &config);
    governor::release_unused_pages();
    warn_of_unowned(&config);
    let progress = console.progress(&running, options)?;
    let manager = ServiceManager::connect();
    manager.started();
    let services = console.services(&recording, manager.clone());
    let mut reloader = Reloader::new(config, files, hangup, settings, services);
    let late = work(&mut running, &mut reloader, &mut signals, options.until_eof).await;
    console.ready.store(false, Ordering::Release);
    let timeout = reloader.config.globals.shutdown_timeout;
    manager.stopping(timeout.0);
    // Components that have already had the whole timeout receive no additional time.
    let left = if late.is_empty() { timeout.0 } else { GIVEN_UP_TIME.min(timeout.0) };
    let mut stopped = stop(running, left, &mut signals).await;
    drop(progress);
    console.shutdown().await;
    stopped.unsettled.bytes += stdin::abandon();
    Ok(ending(&stopped, options.until_eof, timeout))
}

/// Returns the exit status for an agent that cannot be built. A service manager starts the agent
/// again, unless only a change to the configuration helps.
fn build_status(is_configuration: bool) -> u8 {
    if is_configuration { USAGE } else { FAILED }
}

/// Stops the agent within `limit`. A second signal ends the process immediately.
async fn stop(running: Running, limit: Duration, signals: &mut Signals) -> Stopped {
    tokio::select! {
        stopped = running.stop(limit) => stopped,
        name = signals.second() => {
            logging::report_repeats();
            log::error!("second signal ({name}): exiting immediately; undelivered events are not acknowledged");
            log::logger().flush();
            exit(i32::from(FAILED))
        }
    }
}

/// Maximum time of a shutdown after `--until-eof` has given up on a component. The other components
/// only need to close their files.
const GIVEN_UP_TIME: Duration = Duration::from_secs(2);

/// Waits for a signal to stop, or for the end of all sources. Returns the components that
/// `--until-eof` gives up on, because they have made no progress for `shutdown_timeout`.
async fn work(
    running: &mut Running,
    reloader: &mut Reloader,
    signals: &mut Signals,
    until_eof: bool,
) -> Vec<String> {
    let name = loop {
        let patience = reloader.config.globals.shutdown_timeout.0;
        let why = tokio::select! {
            late = running.finished(patience), if until_eof => return late,
            name = signals.stop() => break name,
            why = reloader.wanted() => why,
        };
        tokio::select! {
            () = reloader.reload(running, why) => {}
            name = signals.stop() => break name,
        }
    };
    log::info!("{name}: draining events in flight");
    Vec::new()
}

/// Logs how the run has ended, and returns the exit status.
fn ending(stopped: &Stopped, until_eof: bool, timeout: Interval) -> u8 {
    let summary = summary(stopped);
    logging::report_repeats();
    if let Some(failure) = failure(stopped, until_eof, timeout) {
        return failed(&format!("stopped; {failure}; {summary}"));
    }
    if stopped.snapshot.dropped_events() + stopped.snapshot.dropped_on_error() > 0 {
        log::warn!("stopped; {summary}");
        return if until_eof { DROPPED } else { DONE };
    }
    let undelivered = stopped.snapshot.undelivered_list();
    let is_late = waits(stopped) || !stopped.drained;
    if is_late && !undelivered.is_empty() {
        log::warn!("stopped; not everything was delivered (sink {undelivered}); {summary}");
        return DONE;
    }
    log::info!("stopped; {summary}");
    DONE
}

/// Returns the reason why the run failed, if it did.
fn failure(stopped: &Stopped, until_eof: bool, timeout: Interval) -> Option<String> {
    if let Some(error) = &stopped.uncommitted {
        let seconds = stopped.snapshot.checkpoints.committed_seconds.ceil();
        return Some(format!(
            "cannot commit the last checkpoints to data_dir: {error}; the agent resends the events \
             of the last {seconds:.0} s after a restart, with the same ids"
        ));
    }
    if !stopped.drained && (until_eof || !is_outage(stopped)) {
        let late = late(stopped);
        return Some(format!("not everything in flight was delivered within {timeout}{late}"));
    }
    if stopped.left.lost.bytes > 0 || !stopped.unsettled.is_empty() {
        return Some("some data could not be saved for the next start".to_owned());
    }
    if until_eof && waits(stopped) {
        return Some(format!("not everything was delivered{}", late(stopped)));
    }
    let unread = stopped.snapshot.unread();
    (until_eof && unread > 0)
        .then(|| format!("some files could not be read; see the {unread} errors in the log"))
}

/// Returns whether only sinks delayed the stop, and nothing is lost: the next start rereads what
/// these sinks have not delivered. A service manager must not treat this stop as a failure, or a
/// rolling restart during an outage would fail on every host.
fn is_outage(stopped: &Stopped) -> bool {
    stopped.holders.is_empty()
        && stopped.unsettled.is_empty()
        && stopped.left.lost.bytes == 0
        && !stopped.snapshot.undelivered_list().is_empty()
}

/// Returns whether data is waiting on disk until the agent restarts.
fn waits(stopped: &Stopped) -> bool {
    let waiting = stopped.left.waiting;
    waiting.bytes + waiting.events + stopped.snapshot.buffered_events() > 0
}

/// Returns what prevented delivery, in parentheses with a leading space, such as ` (sink out)`.
/// Returns an empty string if nothing did.
fn late(stopped: &Stopped) -> String {
    let sinks = stopped.snapshot.undelivered_list();
    let sinks = (!sinks.is_empty()).then(|| format!("sink {sinks}"));
    let holders = stopped.holders.iter().map(|holder| format!("events are waiting at {holder}"));
    let late: Vec<String> = holders.chain(sinks).collect();
    if late.is_empty() { String::new() } else { format!(" ({})", late.join("; ")) }
}

/// Formats the three numbers of a shutdown: delivered, waiting, lost.
fn summary(stopped: &Stopped) -> String {
    let snapshot = &stopped.snapshot;
    let of_sources = stopped.left.waiting;
    let of_sources = match of_sources.files {
        0 if of_sources.events > 0 => Some(format!("{} Kafka records", of_sources.events)),
        0 => None,
        1 => Some(format!("{} bytes in 1 file", of_sources.bytes)),
        files => Some(format!("{} bytes in {files} files", of_sources.bytes)),
    };
    let buffered = match snapshot.buffered_events() {
        0 => None,
        events => Some(format!("{events} events in disk buffers")),
    };
    let waiting: Vec<String> = of_sources.into_iter().chain(buffered).collect();
    let waiting = if waiting.is_empty() { "nothing".to_owned() } else { waiting.join(", ") };
    let chosen = match snapshot.dropped_on_error() {
        0 => String::new(),
        events => {
            format!("dropped by on_error: {events} events ({}); ", snapshot.dropped_on_error_list())
        }
    };
    format!(
        "delivered: {} events; waiting on disk for the next start: {waiting}; {chosen}lost: {}",
        snapshot.delivered_events(),
        lost(stopped)
    )
}

/// Formats the counted losses.
fn lost(stopped: &Stopped) -> String {
    let (events, bytes) = (stopped.snapshot.dropped_events(), stopped.snapshot.dropped_bytes());
    let mut parts = Vec::new();
    if events > 0 {
        parts.push(format!("{events} events ({})", stopped.snapshot.dropped_list()));
    }
    if bytes > 0 {
        parts.push(format!("{bytes} bytes from files"));
    }
    if !stopped.unsettled.is_empty() {
        parts.push(format!("{} from sources that cannot be reread", unsettled(stopped.unsettled)));
    }
    if parts.is_empty() { "nothing".to_owned() } else { parts.join(", ") }
}

fn unsettled(unsettled: Unsettled) -> String {
    match unsettled {
        Unsettled { records, bytes: 0 } => format!("{records} events"),
        Unsettled { records: 0, bytes } => format!("{bytes} bytes"),
        Unsettled { records, bytes } => format!("{records} events and {bytes} bytes"),
    }
}

fn failed(message: &str) -> u8 {
    log::error!("{message}");
    FAILED
}

/// The signal to a process that exceeds its file size limit.
const SIGXFSZ: i32 = rustix::process::Signal::XFSZ.as_raw();

/// The signals that the agent handles.
struct Signals {
    terminate: Signal,
    interrupt: Signal,
    /// Received so that exceeding `ulimit -f` causes an error of the write instead of killing the
    /// process.
    _file_size: Signal,
}

/// Time after which a second signal counts, because `timeout` and shells signal the process and its
/// group at the same time.
const SECOND_SIGNAL_AFTER: Duration = Duration::from_millis(500);

fn receive(kind: SignalKind) -> Result<Signal, Refusal> {
    signal(kind).map_err(|error| (FAILED, format!("cannot install signal handlers: {error}")))
}

impl Signals {
    fn receive() -> Result<Signals, Refusal> {
        let (terminate, interrupt) =
            (receive(SignalKind::terminate())?, receive(SignalKind::interrupt())?);
        let _file_size = receive(SignalKind::from_raw(SIGXFSZ))?;
        Ok(Signals { terminate, interrupt, _file_size })
    }

    /// Waits for a signal to stop; returns its name.
    async fn stop(&mut self) -> &'static str {
        tokio::select! {
            _ = self.terminate.recv() => "SIGTERM",
            _ = self.interrupt.recv() => "SIGINT",
        }
    }

    /// Waits for a second signal after [`SECOND_SIGNAL_AFTER`].
    async fn second(&mut self) -> &'static str {
        let since = Instant::now();
        loop {
            let name = self.stop().await;
            if since.elapsed() >= SECOND_SIGNAL_AFTER {
                return name;
            }
        }
    }
}

/// Maximum time to wait for a snapshot in progress when the engine stops.
const SNAPSHOT_TIME: Duration = Duration::from_secs(1);

/// Takes snapshots of the engine. The engine starts after the API and stops before the API.
#[derive(Clone, Default)]
struct Observer(Arc<OnceLock<RwLock<Option<Box<TakeSnapshot>>>>>);

impl Observer {
    /// Starts to observe an engine.
    fn begin(&self, take: Box<TakeSnapshot>) {
        let _ = self.0.set(RwLock::new(Some(take)));
    }

    /// Releases the engine, and waits for a snapshot in progress. Otherwise the task that takes the
    /// snapshot could be the last owner of the engine, and the process could exit before sockets
    /// are removed.
    fn end(&self) {
        // A snapshot that is blocked by a stuck component must not block the exit.
        let engine = self.0.get().and_then(|engine| engine.try_write_for(SNAPSHOT_TIME));
        let take = engine.and_then(|mut engine| engine.take());
        drop(take);
    }

    fn take(engine: &RwLock<Option<Box<TakeSnapshot>>>) -> AgentSnapshot {
        engine.read().as_ref().map_or_else(AgentSnapshot::default, |take| take())
    }

    /// Returns a snapshot, which is empty before the engine is set and after the engine has
    /// stopped.
    fn now(&self) -> AgentSnapshot {
        self.0.get().map_or_else(AgentSnapshot::default, Observer::take)
    }

    /// Returns a snapshot for the engine's threads. They may start slightly before the engine is
    /// set, so this call waits for it.
    fn wait_now(&self) -> AgentSnapshot {
        Observer::take(self.0.wait())
    }
}

/// The API, open before the engine runs.
struct Api {
    console: Console,
    ready: Arc<AtomicBool>,
    config: Arc<ConfigState>,
    internal_metrics: InternalMetrics,
    observer: Observer,
    taps: Arc<TapService>,
}

impl Api {
    /// Returns the services that a reload keeps up to date.
    fn services(&self, recording: &Recording, manager: ServiceManager) -> Services {
        Services {
            manager,
            state: self.config.clone(),
            recorder: recording.state.clone(),
            taps: self.taps.clone(),
        }
    }

    /// Opens the API. A one-off run uses any free port if another agent uses the configured port.
    async fn open(
        config: &Config,
        options: Options,
        recorder: &Arc<RecorderState>,
    ) -> Result<Api, String> {
        let (listen, ready) = (config.globals.api.listen, Arc::new(AtomicBool::new(false)));
        let state = Arc::new(ConfigState::new(config.hash));
        let observer = Observer::default();
        let (now, wait) = (observer.clone(), observer.clone());
        let taps = TapService::new();
        let snapshot: Arc<TakeSnapshot> = Arc::new(move || now.now());
        let start = |listen| {
            let data_dir = config.globals.data_dir.clone();
            let (version, config) = (env!("CARGO_PKG_VERSION"), state.clone());
            let (recorder, open_tap) = (recorder.clone(), taps.opener());
            millstream_console::start(
                ConsoleConfig { listen, data_dir, version, config, recorder, open_tap },
                snapshot.clone(),
                ready.clone(),
            )
        };
        let mut console = start(listen).await;
        if options.until_eof
            && console.as_ref().is_err_and(|error| error.kind() == std::io::ErrorKind::AddrInUse)
        {
            log::warn!("api.listen {listen} is in use; this run uses a free port");
            console = start((listen.ip(), 0).into()).await;
        }
        let console = console.map_err(|error| {
            format!("{error}; choose another address, or port 0 for any free one")
        })?;
        millstream_console::keep_profiles(config.globals.profiler.kept());
        announce(config, &console);
        let waiting = Arc::new(move || wait.wait_now());
        let internal_metrics = millstream_console::internal_metrics(
            waiting,
            console.diagnosis.clone(),
            env!("CARGO_PKG_VERSION"),
            state.clone(),
        );
        Ok(Api { console, ready, config: state, internal_metrics, observer, taps })
    }

    /// Returns the settings of an engine that this API shows.
    fn settings(&self, config: &Config, until_eof: bool) -> Settings {
        let internal_metrics = self.internal_metrics.clone();
        Settings { taps: self.taps.taps(), ..settings(config, until_eof, internal_metrics) }
    }

    /// Ends the taps, closes the API, and releases the engine.
    async fn shutdown(self) {
        self.taps.end();
        self.console.shutdown().await;
        self.observer.end();
    }

    /// Starts to show rates and the bottleneck, if requested.
    fn progress(&self, running: &Running, options: Options) -> Result<Option<Progress>, Refusal> {
        let diagnosis = self.console.diagnosis.clone();
        let bottleneck = move || diagnosis.bottleneck().line();
        let progress = options.progress.then(|| Progress::start(running.observer(), bottleneck));
        progress
            .transpose()
            .map_err(|error| (FAILED, format!("cannot start the progress thread: {error}")))
    }

    /// Sets the running engine and its configuration.
    fn show(&self, running: &Running, config: &Config) {
        let observer = running.observer();
        let take = move || AgentSnapshot { sections: sections(), engine: observer() };
        self.observer.begin(Box::new(take));
        self.taps.resume(config);
        self.ready.store(true, Ordering::Release);
    }
}

/// Returns the state of the parts that the agent runs in addition to the engine.
fn sections() -> Sections {
    Sections {
        jvm: jvm_snapshot(),
        collectors: collectors_snapshot(),
        jvm_processes: jvm_process_snapshots(),
    }
}

/// Logs the running components, and the addresses of the API.
fn announce(config: &Config, console: &Console) {
    log::info!(
        "millstream {} runs {} components; metrics and API at http://{}, control socket {}, token in {}",
        env!("CARGO_PKG_VERSION"),
        config.components.len(),
        console.tcp,
        console.socket_path.display(),
        console.token_path.display()
    );
    announce_proxies(config);
}

#[cfg(test)]
mod tests;
