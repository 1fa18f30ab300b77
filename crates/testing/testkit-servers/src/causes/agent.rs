//! An agent with an application that writes its input, and an endpoint that receives its output.

use super::writer::Writer;
use crate::http::{HttpServer, Reply};
use serde_json::Value;
use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

/// Number of lines that are written ten times a second, unless an injected cause changes the
/// number.
const PER_TICK: u64 = 5;

/// Maximum time for an agent to start.
const START: Duration = Duration::from_secs(60);

/// Bytes of the agent's log that are included in a report.
const LOG_BYTES: usize = 1500;

/// A user without privileges.
const NOBODY: u32 = 65534;

/// Flag in an endpoint's reaction: the lower bits are the milliseconds to wait before the response
/// 200, instead of a status.
const WAITS: u64 = 1 << 32;

/// The configuration of an agent.
pub struct Setup {
    pub dir: PathBuf,
    pub port: u16,
    /// The `include` patterns of the source.
    pub include: Vec<String>,
    /// Additional options of the source.
    pub source: String,
    /// Whether a transform reads the time of the lines.
    pub reads_times: bool,
    /// The `work` transform, after the transform for times.
    pub transform: String,
    /// Additional options of the sink.
    pub sink: String,
    pub limits: String,
    /// Sources, transforms and sinks that replace all of the above.
    pub instead: Option<String>,
    /// Whether the agent runs without privileges.
    pub as_nobody: bool,
    pub per_tick: u64,
    /// Whether the endpoint is up at the start.
    pub has_endpoint: bool,
}

impl Setup {
    fn new(dir: &Path, port: u16) -> Setup {
        Setup {
            dir: dir.to_owned(),
            port,
            include: vec![format!("{}/in/*.log", dir.display())],
            source: String::new(),
            reads_times: true,
            transform: String::new(),
            sink: String::new(),
            limits: "memory: 256MiB, threads: 2".to_owned(),
            instead: None,
            as_nobody: false,
            per_tick: PER_TICK,
            has_endpoint: true,
        }
    }

    fn yaml(&self) -> String {
        let Setup { source, sink, limits, port, .. } = self;
        let dir = self.dir.display();
        let head = format!(
            "data_dir: {dir}/state\napi: {{ listen: '127.0.0.1:0' }}\nshutdown_timeout: 1s\nlimits: {{ {limits} }}\n"
        );
        if let Some(instead) = &self.instead {
            return head + instead;
        }
        let include = serde_json::to_string(&self.include).expect("texts");
        let mut out = format!(
            "{head}sources:\n  web: {{ type: file, read_from: beginning, include: {include}, {source} }}\n"
        );
        let mut input = "web";
        if self.reads_times || !self.transform.is_empty() {
            out.push_str("transforms:\n");
        }
        if self.reads_times {
            out.push_str("  times: { type: parse, inputs: [web], time: { format: epoch_ms } }\n");
            input = "times";
        }
        if !self.transform.is_empty() {
            out.push_str(&format!("  work: {{ inputs: [{input}], {} }}\n", self.transform));
            input = "work";
        }
        out + &format!(
            "sinks:\n  out: {{ type: http, inputs: [{input}], uri: 'http://127.0.0.1:{port}/in', {sink} }}\n"
        )
    }
}

/// An agent with its surroundings. Dropping this value stops all of them.
pub struct World {
    pub seed: u64,
    pub writer: Writer,
    endpoint: Option<HttpServer>,
    port: u16,
    answer: Arc<AtomicU64>,
    agent: Child,
    /// The threads that the causes started hold weak references to this value, and exit once it is
    /// dropped.
    pub alive: Arc<()>,
    /// The folder of the run. Declared last, so that it is removed after everything else has
    /// stopped.
    pub dir: tempfile::TempDir,
}

impl World {
    /// Starts an agent with the default configuration as changed by `configure`.
    pub fn start(program: &Path, seed: u64, configure: impl FnOnce(&mut Setup)) -> World {
        let dir = tempfile::tempdir().expect("a folder");
        let answer = Arc::new(AtomicU64::new(200));
        let endpoint = endpoint(0, &answer);
        let port = endpoint.port;
        let mut setup = Setup::new(dir.path(), port);
        fs::create_dir(dir.path().join("in")).expect("a folder");
        configure(&mut setup);
        let endpoint = setup.has_endpoint.then_some(endpoint);
        let writer = Writer::start(&dir.path().join("in/app.log"), setup.per_tick);
        let agent = spawn(program, &setup);
        let alive = Arc::new(());
        let mut world = World { seed, writer, endpoint, port, answer, agent, alive, dir };
        world.wait_until_ready();
        world
    }

    fn wait_until_ready(&mut self) {
        let begun = Instant::now();
        // A sink that cannot listen never becomes ready, so the agent counts as started in that
        // case as well.
        let cannot_listen = |ready: &Value| {
            let error = ready["sinks"][0]["error"].as_str();
            error.is_some_and(|error| error.starts_with("cannot listen on "))
        };
        let is_up = |ready: Value| ready["ready"] == true || cannot_listen(&ready);
        while !self.get("/ready").is_some_and(is_up) {
            let has_ended = self.agent.try_wait().is_ok_and(|status| status.is_some());
            assert!(!has_ended && begun.elapsed() < START, "no agent: {}", self.report());
            thread::sleep(Duration::from_millis(50));
        }
    }

    /// Makes the endpoint respond with this status from now on.
    pub fn answer(&self, status: u64) {
        self.answer.store(status, Relaxed);
    }

    /// Makes the endpoint wait for this many milliseconds before each response.
    pub fn answer_slowly(&self, ms: u64) {
        self.answer.store(WAITS + ms, Relaxed);
    }

    /// Stops the endpoint.
    pub fn close_endpoint(&mut self) {
        self.endpoint = None;
    }

    /// Restarts the endpoint.
    pub fn open_endpoint(&mut self) {
        if self.endpoint.is_none() {
            self.endpoint = Some(endpoint(self.port, &self.answer));
        }
    }

    /// Returns the path of a file in the run.
    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Returns the process id of the agent.
    pub fn pid(&self) -> rustix::process::Pid {
        rustix::process::Pid::from_child(&self.agent)
    }

    /// Makes the agent reload a configuration that differs in one field.
    pub fn reload(&self, number: u64) {
        let path = self.path("millstream.yaml");
        let text = fs::read_to_string(&path).expect("the configuration");
        let kept: Vec<&str> = text.lines().filter(|line| !line.starts_with("#")).collect();
        let number = format!("{{ number: '{number}' }}");
        let changed = kept
            .join("\n")
            .replace("type: file, read", &format!("type: file, attributes: {number}, read"));
        let changed = if text.contains("attributes:") { text } else { changed };
        fs::write(path, changed).expect("the configuration");
        _ = rustix::process::kill_process(self.pid(), rustix::process::Signal::HUP);
    }

    /// Returns the named causes, in order.
    pub fn causes(&self) -> Vec<String> {
        self.named(|_| true)
    }

    /// Returns the named causes of sources that are late or degraded.
    pub fn alarms(&self) -> Vec<String> {
        self.named(|status| status == "late" || status == "degraded")
    }

    /// Returns whether a source is still too new to be diagnosed, or the agent does not respond.
    pub fn is_starting(&self) -> bool {
        let sources = self
            .get("/api/diagnosis")
            .and_then(|diagnosis| diagnosis["sources"].as_array().cloned());
        sources.is_none_or(|sources| {
            sources.is_empty() || sources.iter().any(|source| source["status"] == "starting")
        })
    }

    fn named(&self, counts: impl Fn(&str) -> bool) -> Vec<String> {
        let Some(diagnosis) = self.get("/api/diagnosis") else { return Vec::new() };
        let sources = diagnosis["sources"].as_array().cloned().unwrap_or_default();
        let also = |source: &Value| source["also"].as_array().cloned().unwrap_or_default();
        let all = sources.iter().flat_map(|source| [vec![source.clone()], also(source)].concat());
        let counted = all.filter(|source| source["status"].as_str().is_some_and(&counts));
        counted.filter_map(|source| Some(source["cause"].as_str()?.to_owned())).collect()
    }

    /// Returns the JSON at a path of the API.
    fn get(&self, path: &str) -> Option<Value> {
        let mut stream = UnixStream::connect(self.path("state/control.sock")).ok()?;
        stream.set_read_timeout(Some(Duration::from_secs(5))).ok()?;
        write!(stream, "GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
            .ok()?;
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).ok()?;
        let answer = String::from_utf8_lossy(&answer).into_owned();
        serde_json::from_str(answer.split_once("\r\n\r\n")?.1).ok()
    }

    /// Returns the last diagnosis and the end of the log.
    pub fn report(&self) -> String {
        let diagnosis = self.get("/api/diagnosis").unwrap_or_default();
        let log = fs::read(self.path("agent.log")).unwrap_or_default();
        let log = String::from_utf8_lossy(&log[log.len().saturating_sub(LOG_BYTES)..]).into_owned();
        let snapshot = self.get("/api/snapshot").unwrap_or_default();
        format!("{diagnosis:#}\n{log}\n{snapshot}")
    }
}

impl Drop for World {
    fn drop(&mut self) {
        drop(self.agent.kill());
        drop(self.agent.wait());
    }
}

/// Starts an endpoint that reacts according to `answer`.
fn endpoint(port: u16, answer: &Arc<AtomicU64>) -> HttpServer {
    let answer = answer.clone();
    HttpServer::on(port, move |_| {
        let answer = answer.load(Relaxed);
        if answer < WAITS {
            return Reply::status(answer as u16);
        }
        thread::sleep(Duration::from_millis(answer - WAITS));
        Reply::status(200)
    })
}

/// Starts the agent. SIGXFSZ is ignored, so that exceeding a file size limit is an error.
fn spawn(program: &Path, setup: &Setup) -> Child {
    let config = setup.dir.join("millstream.yaml");
    fs::write(&config, setup.yaml()).expect("the configuration");
    let mut command = Command::new("sh");
    command.args(["-c", "trap '' XFSZ; exec \"$@\"", "sh"]).arg(program).arg("run").arg("-c");
    command.arg(&config);
    if setup.as_nobody && rustix::process::geteuid().is_root() {
        let open = std::os::unix::fs::PermissionsExt::from_mode(0o777);
        fs::set_permissions(&setup.dir, open).expect("permissions");
        command.uid(NOBODY).gid(NOBODY);
    }
    let log = File::create(setup.dir.join("agent.log")).expect("a log");
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
    command.spawn().expect("the agent")
}
