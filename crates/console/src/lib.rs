//! The HTTP interface of the agent: metrics, health, diagnoses and snapshots.
//!
//! A separate crate because it cuts a dependency: no other crate needs the HTTP server.
//!
//! A TCP listener and a Unix socket in the data folder, the *control socket*, serve the same
//! routes. Over TCP, most routes need a token, and the console rejects requests that a foreign web
//! page could have sent. Clients that may open the control socket need no token.
//!
//! The console and the engine never wait for each other: a request takes a snapshot, renders it and
//! sends it. A request can change the settings of the flight recorder and start a profile. The
//! number and the lifetime of connections are limited; a tap lasts as long as its client reads.

#![forbid(unsafe_code)]

mod access;
mod collectors;
mod config;
mod control;
mod diagnosis;
mod files;
mod listener;
mod process;
mod profile;
mod prometheus;
mod recorder;
mod reply;
mod routes;
mod rules;
mod snapshot;
mod tap;
mod token;
mod watched;

pub use config::ConfigState;
pub use diagnosis::{Bottleneck, Cause, Diagnosis, DiagnosisState, SourceDiagnosis, Status};
pub use process::ProcessStats;
pub use profile::{ProfileRequest, ProfileStarted, keep_profiles};
pub use prometheus::{internal_metrics, prometheus};
pub use recorder::{EventChange, Limit, RecorderState};
pub use snapshot::{AgentSnapshot, Sections};
pub use tap::{OpenTap, TapFormat, TapRefusal, TapRequest};

use listener::{Listener, Service};
use millstream_model::secrets;
use routes::Router;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use tap::TapService;
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// Takes a snapshot of the engine. Must not wait for I/O.
pub type TakeSnapshot = dyn Fn() -> AgentSnapshot + Send + Sync;

/// Settings for the console.
#[derive(Clone)]
pub struct ConsoleConfig {
    /// Address of the TCP listener; port 0 selects a free port.
    pub listen: SocketAddr,
    /// Existing folder for the token and the control socket. The caller holds the lock of the
    /// folder.
    pub data_dir: PathBuf,
    /// Version of the agent.
    pub version: &'static str,
    /// Status of the configuration.
    pub config: Arc<ConfigState>,
    /// The flight recorder.
    pub recorder: Arc<RecorderState>,
    /// Function that opens taps.
    pub open_tap: Arc<OpenTap>,
}

/// The running console. Dropping it without [`Console::shutdown`] closes it immediately.
pub struct Console {
    /// Address to which the TCP listener is bound.
    pub tcp: SocketAddr,
    /// File that holds the token.
    pub token_path: PathBuf,
    /// Path of the control socket.
    pub socket_path: PathBuf,
    /// The diagnosis of the agent.
    pub diagnosis: DiagnosisState,
    token: String,
    observer: JoinHandle<()>,
    stop: watch::Sender<()>,
    listeners: Vec<JoinHandle<()>>,
}

/// Opens the control socket and the TCP listener, and serves both on the current Tokio runtime.
///
/// The token is read from `DATA_DIR/token`, or created. `snapshot` is called once per request that
/// needs a snapshot; `ready` decides the response from `/ready`.
///
/// # Errors
///
/// Returns an error if the address is in use or not local, or if the token or the socket can be
/// neither read nor created; the message says which.
pub async fn start(
    config: ConsoleConfig,
    snapshot: Arc<TakeSnapshot>,
    ready: Arc<AtomicBool>,
) -> io::Result<Console> {
    let token_path = config.data_dir.join("token");
    let token = token::load_or_create(&token_path)?;
    secrets::remember(secrets::Origin::Configuration, [&token]);
    let tcp_listener = listener::bind_tcp(config.listen).await?;
    let tcp = tcp_listener.local_addr()?;
    let socket_path = config.data_dir.join("control.sock");
    let unix_listener = control::bind(&config.data_dir, &socket_path)?;
    let (recorder, version) = (config.recorder, config.version);
    let taps = TapService::new(config.open_tap);
    let diagnosis = DiagnosisState::default();
    let observer = tokio::spawn(diagnosis.clone().observe(snapshot.clone()));
    let router = Router {
        snapshot,
        ready,
        version,
        config: config.config,
        recorder,
        diagnosis: diagnosis.clone(),
        taps,
    };
    let service = Arc::new(Service { router, token: token.clone(), listen: tcp.ip() });
    let (stop, stopped) = watch::channel(());
    let listeners = [Listener::Tcp(tcp_listener), Listener::Unix(unix_listener)]
        .map(|listener| tokio::spawn(listener.run(service.clone(), stopped.clone())));
    let listeners = listeners.into();
    Ok(Console { tcp, token_path, socket_path, diagnosis, token, observer, stop, listeners })
}

impl Console {
    /// Returns the token for requests over TCP. The token is secret.
    pub fn token(&self) -> &str {
        &self.token
    }

    /// Stops accepting, lets open connections finish for a second, and removes the control socket.
    pub async fn shutdown(mut self) {
        self.stop.send_replace(());
        for listener in self.listeners.drain(..) {
            // Joining fails only if the listener panicked, in which case it is closed anyway.
            let _ = listener.await;
        }
    }
}

impl Drop for Console {
    fn drop(&mut self) {
        self.observer.abort();
        self.listeners.iter().for_each(JoinHandle::abort);
        if let Err(error) = std::fs::remove_file(&self.socket_path) {
            log::debug!("control socket {}: {error}", self.socket_path.display());
        }
    }
}

/// Adds context to an error and keeps its kind.
fn context(about: impl std::fmt::Display, error: io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{about}: {error}"))
}
