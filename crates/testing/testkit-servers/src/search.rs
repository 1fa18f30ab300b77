//! A real OpenSearch or Elasticsearch node for tests, which they can stop, kill and pause.
//!
//! `scripts/servers` installs both. A node uses a temporary folder and loopback, and leaves no
//! files or processes behind, regardless of how the test process ends.

use crate::kafka::process::{folder, spawn};
use crate::ports::free_port;
use crate::shared::{self, SharedServer};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Timeout for starting or stopping a node, generous for busy hosts.
const TIMEOUT: Duration = Duration::from_secs(120);

/// Maximum number of documents that one search returns, which is the servers' default limit.
const DOCUMENTS_MAX: usize = 10_000;

/// A node, which is killed on drop.
pub struct SearchServer {
    name: &'static str,
    install: PathBuf,
    /// Port of the API on 127.0.0.1.
    pub port: u16,
    transport_port: u16,
    settings: Vec<String>,
    node: Option<Child>,
    // Declared last: the folder is removed after the node that writes into it.
    folder: TempDir,
}

impl SearchServer {
    /// Starts an OpenSearch node.
    pub fn opensearch() -> SearchServer {
        SearchServer::start("opensearch", &[])
    }

    /// Starts an Elasticsearch node.
    pub fn elasticsearch() -> SearchServer {
        SearchServer::start("elasticsearch", &[])
    }

    /// Starts an OpenSearch node with additional settings, such as `http.max_content_length=1mb`.
    pub fn opensearch_with(settings: &[&str]) -> SearchServer {
        SearchServer::start("opensearch", settings)
    }

    /// Returns the OpenSearch node that all tests of the run share. Each test uses indexes with
    /// unique names.
    pub fn shared() -> &'static SearchServer {
        static SHARED: OnceLock<SearchServer> = OnceLock::new();
        SHARED.get_or_init(|| match shared::address(SharedServer::Search) {
            Some(address) => SearchServer::running_at(&address),
            None => SearchServer::opensearch(),
        })
    }

    /// Returns a node of another process. It cannot be stopped.
    fn running_at(address: &str) -> SearchServer {
        let port = address.rsplit(':').next().and_then(|port| port.parse().ok());
        SearchServer {
            name: "opensearch",
            install: PathBuf::new(),
            port: port.expect("an address ends with a port"),
            transport_port: 0,
            settings: Vec::new(),
            node: None,
            folder: folder(),
        }
    }

    fn start(name: &'static str, settings: &[&str]) -> SearchServer {
        let install = install(name);
        // Another process may bind a free port before the node does. Retry with new ports.
        for _ in 0..3 {
            let folder = folder();
            fs::create_dir(folder.path().join("config")).expect("a folder");
            let [port, transport_port] = [free_port(), free_port()];
            let mut server = SearchServer {
                name,
                install: install.clone(),
                port,
                transport_port,
                settings: settings.iter().map(|setting| (*setting).to_owned()).collect(),
                node: None,
                folder,
            };
            match server.launch() {
                Ok(()) => return server,
                Err(error) if error.contains("BindException") => {}
                Err(error) => panic!("{error}"),
            }
        }
        panic!("the ports of {name} were in use three times");
    }

    /// Starts the node and waits until it is ready.
    ///
    /// # Errors
    /// Returns an error if the node does not become ready; the error includes its log.
    fn launch(&mut self) -> Result<(), String> {
        let log =
            File::options().create(true).append(true).open(self.log_path()).expect("a log file");
        let mut command = self.java();
        command
            .stdin(Stdio::null())
            .stdout(log.try_clone().expect("the log file twice"))
            .stderr(log);
        self.node = Some(spawn(command).expect("java starts"));
        let started = Instant::now();
        while !self.is_ready() {
            let node = self.node.as_mut().expect("a node was started");
            let status = node.try_wait().expect("the node's status");
            if status.is_some() || started.elapsed() > TIMEOUT {
                let log = fs::read_to_string(self.log_path()).unwrap_or_default();
                return Err(format!("{} is not ready ({status:?}):\n{log}", self.name));
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    }

    fn java(&self) -> Command {
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "KILL", "--"]).arg(self.install.join("java"));
        command.args(["-Xms128m", "-Xmx512m", "-XX:+UseSerialGC", "-XX:-UsePerfData"]);
        command.arg("-XX:TieredStopAtLevel=1");
        let archive = self.install.join("classes.jsa");
        if archive.is_file() {
            command.arg(format!("-XX:SharedArchiveFile={}", archive.display()));
        }
        command.arg(format!("@{}", self.install.join("classpath").display())).arg("SearchNode");
        command.arg(format!("path.home={}", self.folder.path().display()));
        command.arg(format!("http.port={}", self.port));
        command.arg(format!("transport.port={}", self.transport_port));
        command.args(["cluster.name=test", "node.name=test", "network.host=127.0.0.1"]);
        command.args(["discovery.type=single-node", "node.processors=2"]);
        command.args(["http.type=netty4", "transport.type=netty4"]);
        command.arg("cluster.routing.allocation.disk.threshold_enabled=false");
        command.args(&self.settings);
        command
    }

    /// Returns whether all primary shards are available.
    fn is_ready(&self) -> bool {
        let health = self.try_request("GET", "/_cluster/health", "");
        health.is_some_and(|(status, body)| {
            status == 200 && body["status"].as_str().is_some_and(|status| status != "red")
        })
    }

    /// Returns the address of the API.
    pub fn uri(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// Sends a request, and returns the body of the response, regardless of its status.
    pub fn request(&self, method: &str, path: &str, body: &Value) -> Value {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        self.try_request(method, path, &body).expect("the node responds").1
    }

    fn try_request(&self, method: &str, path: &str, body: &str) -> Option<(u16, Value)> {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).ok()?;
        stream.set_read_timeout(Some(TIMEOUT)).ok()?;
        let length = body.len();
        let head = format!(
            "{method} {path} HTTP/1.0\r\nHost: localhost\r\nContent-Type: application/json\r\n\
             Content-Length: {length}\r\n\r\n"
        );
        stream.write_all((head + body).as_bytes()).ok()?;
        let mut response = String::new();
        stream.read_to_string(&mut response).ok()?;
        let (head, body) = response.split_once("\r\n\r\n")?;
        let status = head.split(' ').nth(1)?.parse().ok()?;
        Some((status, serde_json::from_str(body).unwrap_or_default()))
    }

    /// Returns the number of documents in an index, or 0 if the index does not exist.
    pub fn count(&self, index: &str) -> u64 {
        self.request("POST", &format!("/{index}/_refresh"), &Value::Null);
        let count = self.request("GET", &format!("/{index}/_count"), &Value::Null);
        count["count"].as_u64().unwrap_or(0)
    }

    /// Returns the documents of an index by id, at most 10,000.
    pub fn documents(&self, index: &str) -> BTreeMap<String, Value> {
        self.request("POST", &format!("/{index}/_refresh"), &Value::Null);
        let path = format!("/{index}/_search?size={DOCUMENTS_MAX}");
        let mut found = self.request("GET", &path, &Value::Null);
        let Value::Array(hits) = found["hits"]["hits"].take() else { return BTreeMap::new() };
        let document = |mut hit: Value| {
            (hit["_id"].as_str().expect("an id").to_owned(), hit["_source"].take())
        };
        hits.into_iter().map(document).collect()
    }

    /// Kills the node (SIGKILL) and waits. It keeps its data and port.
    pub fn kill(&mut self) {
        if let Some(mut node) = self.node.take() {
            node.kill().expect("the node is killed");
            node.wait().expect("the node exits");
        }
    }

    /// Restarts a killed node with the same data and port.
    pub fn restart(&mut self) {
        self.kill();
        if let Err(error) = self.launch() {
            panic!("{error}");
        }
    }

    /// Pauses the node (SIGSTOP): connections stay open without responses.
    pub fn pause(&self) {
        self.signal(Signal::STOP);
    }

    /// Resumes a paused node (SIGCONT).
    pub fn resume(&self) {
        self.signal(Signal::CONT);
    }

    fn signal(&self, signal: Signal) {
        let node = self.node.as_ref().expect("the node is not running");
        kill_process(Pid::from_child(node), signal).expect("the node gets a signal");
    }

    fn log_path(&self) -> PathBuf {
        self.folder.path().join("node.log")
    }
}

impl Drop for SearchServer {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Returns the folder of an installed server. Installs it if it is missing.
fn install(name: &str) -> PathBuf {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../scripts/servers");
    let output = Command::new(script).arg(name).output().expect("scripts/servers runs");
    let message = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "scripts/servers cannot install {name}:\n{message}");
    PathBuf::from(String::from_utf8_lossy(&output.stdout).trim())
}
