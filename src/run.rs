//! `millstream run`: starts the agent, waits for a signal or the end, and stops it.

use crate::cli::{self, DONE, DROPPED, FAILED, USAGE};
use crate::config::{Config, LogLevel, LogTarget};
use crate::{logging, progress, wiring};
use millstream_console::{Console, ConsoleConfig};
use millstream_engine::{Clock, EngineError, Running, Settings, Stopped};
use millstream_model::Interval;
use std::path::PathBuf;
use std::process::exit;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tokio::signal::unix::{Signal, SignalKind, signal};

/// Threads for calls that block, such as disk syncs.
const BLOCKING_THREADS_MAX: usize = 32;

/// Options of `run` beside the configuration.
#[derive(Clone, Copy)]
pub struct Options {
    /// Read what is there, deliver it, exit.
    pub until_eof: bool,
    /// Show rates.
    pub progress: bool,
}

/// Runs the agent; returns the exit status.
pub fn run(files: &[PathBuf], options: Options) -> u8 {
    let Some(config) = cli::load(files) else { return USAGE };
    let target = match &config.globals.log.to {
        LogTarget::Stderr => logging::Target::Stderr,
        LogTarget::File(path) => logging::Target::File(path.clone()),
    };
    let log = match logging::init(level(config.globals.log.level), target) {
        Ok(log) => log,
        Err(error) => {
            eprintln!("log: {error}");
            return FAILED;
        }
    };
    logging::install_panic_hook();
    raise_open_files();
    let status = start(&config, options);
    log.flush();
    if log.dropped_lines() > 0 {
        eprintln!(
            "{} lines of the log were dropped: it came faster than it could be written",
            log.dropped_lines()
        );
    }
    status
}

fn level(level: LogLevel) -> log::LevelFilter {
    match level {
        LogLevel::Error => log::LevelFilter::Error,
        LogLevel::Warn => log::LevelFilter::Warn,
        LogLevel::Info => log::LevelFilter::Info,
        LogLevel::Debug => log::LevelFilter::Debug,
        LogLevel::Trace => log::LevelFilter::Trace,
    }
}

/// Tailing needs a descriptor per file: as many as the system allows.
fn raise_open_files() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    if let Err(error) = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit }) {
        log::warn!("the number of open files cannot be raised: {error}");
    }
}

fn start(config: &Config, options: Options) -> u8 {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .max_blocking_threads(BLOCKING_THREADS_MAX)
        .thread_name("network")
        .enable_all()
        .build();
    let runtime = match runtime {
        Ok(runtime) => runtime,
        Err(error) => return failed(&format!("the runtime cannot start: {error}")),
    };
    let built = match build(config, options.until_eof) {
        Ok(built) => built,
        Err((status, message)) => {
            log::error!("{message}");
            return status;
        }
    };
    let running = built.start(runtime.handle());
    let status = runtime.block_on(serve(config, options, running));
    // Threads that are stuck in a system call must not hold the exit.
    runtime.shutdown_background();
    status
}

fn failed(message: &str) -> u8 {
    log::error!("{message}");
    FAILED
}

fn build(config: &Config, until_eof: bool) -> Result<millstream_engine::Built, (u8, String)> {
    let globals = &config.globals;
    let available = std::thread::available_parallelism().map_or(1, usize::from);
    let settings = Settings {
        data_dir: globals.data_dir.clone(),
        threads: globals.limits.threads.min(available),
        memory_bytes: globals.limits.memory.0,
        sink_bytes_max: millstream_engine::limits::SINK_BYTES_MAX,
        until_eof,
        clock: Clock::System,
    };
    let blueprint = wiring::blueprint(config).map_err(|error| (USAGE, error.to_string()))?;
    blueprint.build(&settings).map_err(|error| match error {
        EngineError::Store(error) => (FAILED, error.to_string()),
        EngineError::Build(message) => (USAGE, message),
    })
}

async fn serve(config: &Config, options: Options, running: Running) -> u8 {
    let signals =
        (signal(SignalKind::terminate()), signal(SignalKind::interrupt()), signal(SignalKind::hangup()));
    let (Ok(mut terminate), Ok(mut interrupt), Ok(hangup)) = signals else {
        return failed("signals cannot be received");
    };
    tokio::spawn(answer_hangups(hangup));
    let ready = Arc::new(AtomicBool::new(false));
    let console = match open_console(config, &running, ready.clone()).await {
        Ok(console) => console,
        Err(error) => return failed(&error),
    };
    ready.store(true, Ordering::Release);
    let progress = options.progress.then(|| tokio::spawn(progress::show(running.observer())));
    tokio::select! {
        () = running.finished(), if options.until_eof => {}
        _ = terminate.recv() => log::info!("SIGTERM: delivering what is in flight"),
        _ = interrupt.recv() => log::info!("SIGINT: delivering what is in flight"),
    }
    ready.store(false, Ordering::Release);
    let timeout = config.globals.shutdown_timeout.0;
    let stopped = tokio::select! {
        stopped = running.stop(timeout) => stopped,
        () = second(&mut terminate, &mut interrupt) => exit(i32::from(FAILED)),
    };
    if let Some(progress) = progress {
        progress.abort();
    }
    console.shutdown().await;
    ending(stopped, options.until_eof, &config.globals.shutdown_timeout)
}

/// Says how the run ended; the exit status.
fn ending(stopped: Stopped, until_eof: bool, timeout: &Interval) -> u8 {
    match stopped {
        s if !s.drained => failed(&format!(
            "not everything was delivered within {}: the rest is read again at the next start",
            timeout
        )),
        s if until_eof && s.unread > 0 => failed("some files could not be read, see above; all others were"),
        s if until_eof && s.dropped_events > 0 => {
            log::warn!("{} events were dropped; /metrics says why while the agent runs", s.dropped_events);
            DROPPED
        }
        _ => {
            log::info!("stopped; everything read was delivered");
            DONE
        }
    }
}

/// A hang-up must not kill the agent, as it would by default.
async fn answer_hangups(mut hangup: Signal) {
    while hangup.recv().await.is_some() {
        log::warn!(
            "SIGHUP: this release does not reload; restart the agent to apply a changed configuration"
        );
    }
}

async fn second(terminate: &mut Signal, interrupt: &mut Signal) {
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
}

async fn open_console(config: &Config, running: &Running, ready: Arc<AtomicBool>) -> Result<Console, String> {
    let listen = config.globals.api.listen;
    let console_config = ConsoleConfig {
        listen,
        data_dir: config.globals.data_dir.clone(),
        version: env!("CARGO_PKG_VERSION"),
        config_hash: config.hash,
    };
    let console = millstream_console::start(console_config, Arc::new(running.observer()), ready).await;
    let console = console.map_err(|error| {
        format!("api.listen {listen}: {error}; choose another address, or port 0 for any free one")
    })?;
    log::info!(
        "millstream {} runs {} components; console at http://{} (token in {})",
        env!("CARGO_PKG_VERSION"),
        config.components.len(),
        console.tcp,
        config.globals.data_dir.join("token").display()
    );
    Ok(console)
}
