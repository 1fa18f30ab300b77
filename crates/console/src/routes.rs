//! The routes of the API.

use crate::config::ConfigState;
use crate::files;
use crate::process::ProcessStats;
use crate::prometheus::prometheus;
use crate::rules;
use http_body_util::Full;
use hyper::body::Bytes;
use hyper::header::{ALLOW, CACHE_CONTROL, CONTENT_TYPE, HeaderValue, X_CONTENT_TYPE_OPTIONS};
use hyper::{Method, Response, StatusCode, Uri};
use millstream_model::snapshot::{
    CheckpointSnapshot, ComponentSnapshot, DiskBufferSnapshot, JvmProcessSnapshot, Snapshot,
};
use serde::Serialize;
use serde_json::json;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A response with its body.
pub type Reply = Response<Full<Bytes>>;

/// Takes a snapshot of the engine; must not wait for I/O.
pub type TakeSnapshot = dyn Fn() -> Snapshot + Send + Sync;

const JSON: &str = "application/json";
const PROMETHEUS_TEXT: &str = "text/plain; version=0.0.4; charset=utf-8";

/// A route.
struct Route {
    path: &'static str,
    /// Whether it needs no token.
    open: bool,
    answer: fn(&Router, query: &str) -> Reply,
}

/// All routes.
const ROUTES: [Route; 6] = [
    Route { path: "/metrics", open: true, answer: |router, _| router.metrics() },
    Route { path: "/health", open: true, answer: |router, _| router.health() },
    Route { path: "/ready", open: true, answer: |router, _| router.ready() },
    Route { path: "/api/snapshot", open: false, answer: |router, _| router.snapshot() },
    Route { path: "/api/files", open: false, answer: Router::files },
    Route { path: "/api/rules", open: false, answer: |router, _| router.rules() },
];

/// Whether a path needs no token.
pub fn is_open(path: &str) -> bool {
    ROUTES.iter().any(|route| route.open && route.path == path)
}

/// Answers requests from snapshots of the agent.
pub struct Router {
    pub snapshot: Arc<TakeSnapshot>,
    pub ready: Arc<AtomicBool>,
    pub version: &'static str,
    pub config: Arc<ConfigState>,
}

/// The response of `/ready`.
#[derive(Serialize)]
struct Readiness<'a> {
    ready: bool,
    sinks: Vec<SinkState>,
    /// Deleted files that sources hold until they are delivered.
    held: Vec<files::HeldBySource<'a>>,
    checkpoints: CheckpointState,
    /// The processes of operators.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    jvm_processes: Vec<ProcessState>,
}

#[derive(Serialize)]
struct ProcessState {
    name: String,
    up: bool,
    /// Why it does not run; `null` if it does.
    error: Option<String>,
}

/// Whether checkpoints and ids can be saved.
#[derive(Serialize)]
struct CheckpointState {
    /// What cannot be saved, and why; `null` if all can.
    error: Option<String>,
    /// Seconds since the last successful commit.
    committed_seconds: f64,
    /// Age of the oldest uncommitted change in seconds; 0 if there is none.
    age_seconds: f64,
}

impl CheckpointState {
    fn of(
        CheckpointSnapshot { error, committed_seconds, age_seconds, .. }: CheckpointSnapshot,
    ) -> Self {
        CheckpointState { error, committed_seconds, age_seconds }
    }
}

#[derive(Serialize)]
struct SinkState {
    id: String,
    /// Why it makes no progress; `null` if it does.
    error: Option<String>,
    /// What is in its disk buffer, if it has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    disk_buffer: Option<DiskBufferSnapshot>,
}

impl Router {
    /// Answers an authorized request.
    pub fn answer(&self, method: &Method, uri: &Uri) -> Reply {
        let Some(route) = ROUTES.iter().find(|route| route.path == uri.path()) else {
            return not_found();
        };
        // The connection omits the body of a response to HEAD.
        if matches!(*method, Method::GET | Method::HEAD) {
            return (route.answer)(self, uri.query().unwrap_or_default());
        }
        let mut reply = error(StatusCode::METHOD_NOT_ALLOWED, "only GET and HEAD are allowed");
        reply.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
        reply
    }

    fn metrics(&self) -> Reply {
        let text =
            prometheus(&(self.snapshot)(), &ProcessStats::read(), self.version, &self.config);
        reply(StatusCode::OK, PROMETHEUS_TEXT, text.into())
    }

    fn health(&self) -> Reply {
        as_json(StatusCode::OK, &json!({ "status": "running", "version": self.version }))
    }

    fn ready(&self) -> Reply {
        let ready = self.ready.load(Ordering::Acquire);
        let snapshot = (self.snapshot)();
        let checkpoints = CheckpointState::of(snapshot.checkpoints);
        let sinks = snapshot.components.iter().filter(|component| component.kind == "sink");
        let state = |sink: &ComponentSnapshot| SinkState {
            id: sink.id.clone(),
            error: sink.error.clone(),
            disk_buffer: sink.disk_buffer.clone(),
        };
        let sinks = sinks.map(state);
        let sinks = sinks.collect();
        let held = files::held(&snapshot.components);
        let status = if ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
        let process = |of: &JvmProcessSnapshot| {
            let (name, up, error) = (of.name.clone(), of.pid.is_some(), of.error.clone());
            ProcessState { name, up, error }
        };
        let jvm_processes = snapshot.jvm_processes.iter().map(process).collect();
        as_json(status, &Readiness { ready, sinks, held, checkpoints, jvm_processes })
    }

    fn snapshot(&self) -> Reply {
        as_json(StatusCode::OK, &(self.snapshot)())
    }

    fn rules(&self) -> Reply {
        rules::answer(&(self.snapshot)())
    }

    fn files(&self, query: &str) -> Reply {
        files::answer(&(self.snapshot)(), query)
    }
}

fn not_found() -> Reply {
    let paths: Vec<&str> = ROUTES.iter().map(|route| route.path).collect();
    as_json(StatusCode::NOT_FOUND, &json!({ "error": "no such path", "routes": paths }))
}

/// Returns an error response.
pub fn error(status: StatusCode, text: &str) -> Reply {
    as_json(status, &json!({ "error": text }))
}

/// Returns a JSON response.
pub fn as_json(status: StatusCode, value: &impl Serialize) -> Reply {
    match serde_json::to_vec(value) {
        Ok(mut bytes) => {
            bytes.push(b'\n');
            reply(status, JSON, bytes.into())
        }
        Err(error) => {
            reply(StatusCode::INTERNAL_SERVER_ERROR, "text/plain", error.to_string().into())
        }
    }
}

fn reply(status: StatusCode, content_type: &'static str, body: Bytes) -> Reply {
    let mut reply = Response::new(Full::new(body));
    *reply.status_mut() = status;
    let headers = reply.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    reply
}
