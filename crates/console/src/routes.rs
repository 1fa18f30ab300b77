//! The routes of the API.

use crate::config::ConfigState;
use crate::diagnosis::{DiagnosisState, LISTEN};
use crate::files;
use crate::process::{ProcessStats, cpu_seconds};
use crate::profile;
use crate::prometheus::prometheus;
use crate::recorder::{self, RecorderState};
use crate::reply::{Reply, as_json, error, reply};
use crate::snapshot::AgentSnapshot;
use crate::tap::TapService;
use crate::{TakeSnapshot, rules};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::header::{ALLOW, HeaderValue};
use hyper::{Method, Request, StatusCode};
use millstream_jvm::JvmProcessSnapshot;
use millstream_model::snapshot::{CheckpointSnapshot, ComponentSnapshot, DiskBufferSnapshot};
use serde::Serialize;
use serde_json::json;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

const PROMETHEUS_TEXT: &str = "text/plain; version=0.0.4; charset=utf-8";

/// A route.
struct Route {
    path: &'static str,
    /// Whether the route needs no token.
    open: bool,
    answer: Answer,
}

/// The handler of a route.
enum Answer {
    /// GET and HEAD, served immediately.
    Read(fn(&Router, query: &str) -> Reply),
    /// Settings for the recorder; PUT changes them.
    Recorder,
    /// The recording, without the chunks that the body of a POST lists.
    Rings,
    /// Profiles: POST starts a profile, DELETE ends it.
    Profile,
    /// Samples of the events at an output, until the client disconnects.
    Tap,
}

/// All routes.
const ROUTES: [Route; 12] = [
    Route { path: "/metrics", open: true, answer: Answer::Read(|router, _| router.metrics()) },
    Route { path: "/health", open: true, answer: Answer::Read(|router, _| router.health()) },
    Route { path: "/ready", open: true, answer: Answer::Read(|router, _| router.ready()) },
    Route {
        path: "/api/snapshot",
        open: false,
        answer: Answer::Read(|router, _| router.snapshot()),
    },
    Route { path: "/api/files", open: false, answer: Answer::Read(Router::files) },
    Route { path: "/api/diagnosis", open: false, answer: Answer::Read(Router::diagnosis) },
    Route {
        path: "/api/bottleneck",
        open: false,
        answer: Answer::Read(|router, _| as_json(StatusCode::OK, &router.diagnosis.bottleneck())),
    },
    Route { path: "/api/rules", open: false, answer: Answer::Read(|router, _| router.rules()) },
    Route { path: "/api/recorder", open: false, answer: Answer::Recorder },
    Route { path: "/api/recorder/rings", open: false, answer: Answer::Rings },
    Route { path: "/api/profile", open: false, answer: Answer::Profile },
    Route { path: "/api/tap", open: false, answer: Answer::Tap },
];

impl Answer {
    /// Returns the allowed methods.
    fn methods(&self) -> &'static [&'static str] {
        match self {
            Answer::Read(_) => &["GET", "HEAD"],
            Answer::Recorder => &["GET", "HEAD", "PUT"],
            Answer::Rings => &["GET", "HEAD", "POST"],
            Answer::Profile => &["GET", "HEAD", "POST", "DELETE"],
            Answer::Tap => &["GET"],
        }
    }

    /// Returns the maximum size of a request body in bytes.
    fn body_bytes_max(&self) -> usize {
        match self {
            Answer::Read(_) | Answer::Tap => 0,
            Answer::Recorder => recorder::CHANGE_BYTES_MAX,
            Answer::Rings => recorder::KNOWN_BYTES_MAX,
            Answer::Profile => profile::REQUEST_BYTES_MAX,
        }
    }
}

/// Returns whether a path needs no token.
pub fn is_open(path: &str) -> bool {
    ROUTES.iter().any(|route| route.open && route.path == path)
}

/// Serves requests from snapshots of the agent.
pub struct Router {
    pub snapshot: Arc<TakeSnapshot>,
    pub ready: Arc<AtomicBool>,
    pub version: &'static str,
    pub config: Arc<ConfigState>,
    pub recorder: Arc<RecorderState>,
    pub diagnosis: DiagnosisState,
    pub taps: TapService,
}

/// The response from `/api/snapshot`.
#[derive(Serialize)]
struct OfProcess {
    version: &'static str,
    /// CPU time of the agent, user and system.
    cpu_seconds: f64,
    #[serde(flatten)]
    snapshot: AgentSnapshot,
}

/// The response from `/ready`.
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
    /// Reason why the process is not running; `null` if it is running.
    error: Option<String>,
}

/// Whether checkpoints and ids can be saved.
#[derive(Serialize)]
struct CheckpointState {
    /// What cannot be saved, and why; `null` if everything can be saved.
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
    /// Reason why the sink is not making progress; `null` if it is.
    error: Option<String>,
    /// State of the disk buffer, if the sink has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    disk_buffer: Option<DiskBufferSnapshot>,
}

/// Returns false only if a component has failed to listen on its address.
fn listens(component: &ComponentSnapshot) -> bool {
    component.failure.as_ref().is_none_or(|failure| failure.kind != LISTEN)
}

impl Router {
    /// Responds to an authorized request. The connection omits the body of a response to HEAD.
    pub async fn answer(&self, request: Request<Incoming>) -> Reply {
        let (head, body) = request.into_parts();
        let Some(route) = ROUTES.iter().find(|route| route.path == head.uri.path()) else {
            return not_found();
        };
        let answer = &route.answer;
        if !answer.methods().contains(&head.method.as_str()) {
            return not_allowed(answer.methods());
        }
        let has_body = !matches!(head.method, Method::GET | Method::HEAD);
        let body = match has_body {
            true => read_body(body, answer.body_bytes_max()).await,
            false => Ok(Bytes::new()),
        };
        match (answer, body) {
            (_, Err(refusal)) => refusal,
            (Answer::Read(read), _) => read(self, head.uri.query().unwrap_or_default()),
            (Answer::Recorder, Ok(body)) if has_body => recorder::change(&self.recorder, &body),
            (Answer::Recorder, _) => recorder::show(&self.recorder),
            (Answer::Rings, Ok(body)) => recorder::rings(&body).await,
            (Answer::Profile, Ok(body)) if head.method == Method::POST => {
                profile::start(&body).await
            }
            (Answer::Profile, _) if head.method == Method::DELETE => {
                profile::end(head.uri.query().unwrap_or_default()).await
            }
            (Answer::Profile, _) => profile::show(head.uri.query().unwrap_or_default()).await,
            (Answer::Tap, _) => self.taps.answer(head.uri.query().unwrap_or_default()).await,
        }
    }

    fn metrics(&self) -> Reply {
        let diagnosis = self.diagnosis.diagnosis();
        let (snapshot, process) = ((self.snapshot)(), ProcessStats::read());
        let text = prometheus(&snapshot, &diagnosis, &process, self.version, &self.config);
        reply(StatusCode::OK, PROMETHEUS_TEXT, text.into())
    }

    fn health(&self) -> Reply {
        as_json(StatusCode::OK, &json!({ "status": "running", "version": self.version }))
    }

    fn ready(&self) -> Reply {
        let AgentSnapshot { engine, sections } = (self.snapshot)();
        let ready = self.ready.load(Ordering::Acquire) && engine.components.iter().all(listens);
        let checkpoints = CheckpointState::of(engine.checkpoints);
        let sinks = engine.components.iter().filter(|component| component.kind == "sink");
        let state = |sink: &ComponentSnapshot| SinkState {
            id: sink.id.clone(),
            error: sink.error.clone(),
            disk_buffer: sink.disk_buffer.clone(),
        };
        let sinks = sinks.map(state);
        let sinks = sinks.collect();
        let held = files::held(&engine.components);
        let status = if ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
        let process = |jvm: &JvmProcessSnapshot| {
            let (name, up, error) = (jvm.name.clone(), jvm.pid.is_some(), jvm.error.clone());
            ProcessState { name, up, error }
        };
        let jvm_processes = sections.jvm_processes.iter().map(process).collect();
        as_json(status, &Readiness { ready, sinks, held, checkpoints, jvm_processes })
    }

    fn snapshot(&self) -> Reply {
        let (version, cpu_seconds) = (self.version, cpu_seconds());
        let snapshot = (self.snapshot)();
        as_json(StatusCode::OK, &OfProcess { version, cpu_seconds, snapshot })
    }

    /// Returns the diagnoses of all sources, or of one source.
    fn diagnosis(&self, query: &str) -> Reply {
        let mut diagnosis = self.diagnosis.diagnosis();
        if let Some(id) = query.strip_prefix("source=") {
            diagnosis.keep_source(id);
            if diagnosis.sources.is_empty() {
                return error(StatusCode::NOT_FOUND, &format!("no source has the id `{id}`"));
            }
        }
        as_json(StatusCode::OK, &diagnosis)
    }

    fn rules(&self) -> Reply {
        rules::answer(&(self.snapshot)().engine)
    }

    fn files(&self, query: &str) -> Reply {
        files::answer(&(self.snapshot)().engine, query)
    }
}

/// Reads the body of a request.
async fn read_body(body: Incoming, bytes_max: usize) -> Result<Bytes, Reply> {
    match Limited::new(body, bytes_max).collect().await {
        Ok(collected) => Ok(collected.to_bytes()),
        Err(failed) if failed.is::<LengthLimitError>() => {
            let text = format!("the body is longer than {bytes_max} bytes");
            Err(error(StatusCode::PAYLOAD_TOO_LARGE, &text))
        }
        Err(failed) => Err(error(StatusCode::BAD_REQUEST, &failed.to_string())),
    }
}

fn not_allowed(methods: &[&str]) -> Reply {
    let methods = methods.join(", ");
    let text = format!("only {methods} are allowed");
    let mut reply = error(StatusCode::METHOD_NOT_ALLOWED, &text);
    if let Ok(methods) = HeaderValue::from_str(&methods) {
        reply.headers_mut().insert(ALLOW, methods);
    }
    reply
}

fn not_found() -> Reply {
    let paths: Vec<&str> = ROUTES.iter().map(|route| route.path).collect();
    as_json(StatusCode::NOT_FOUND, &json!({ "error": "no such path", "routes": paths }))
}
