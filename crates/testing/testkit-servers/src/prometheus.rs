//! A real Prometheus for tests.
//!
//! `scripts/servers` installs Prometheus. The server uses a temporary folder and loopback, and is
//! killed with the test process.

use crate::kafka::process::{folder, spawn};
use crate::ports::free_port;
use crate::shared::{self, SharedServer};
use serde_json::Value;
use std::fs::{self, File};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::LazyLock;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Timeout for the start, generous for busy hosts.
const START_TIMEOUT: Duration = Duration::from_secs(60);

/// Options for a Prometheus server.
#[derive(Clone, Debug, Default)]
pub struct PrometheusOptions {
    /// Targets (`host:port`) that job `agent` scrapes every half second.
    pub scrape: Vec<String>,
    /// A file with alert rules, evaluated every half second.
    pub rules: Option<PathBuf>,
    /// Additional flags, such as `--enable-feature=native-histograms`.
    pub flags: Vec<String>,
}

/// A running Prometheus that accepts remote write. Killed on drop.
pub struct Prometheus {
    /// The process; `None` if another process started it.
    child: Option<Child>,
    address: String,
    folder: TempDir,
}

impl Prometheus {
    /// Returns the server that all tests of the run share. Each test uses unique metric names.
    pub fn shared() -> &'static Prometheus {
        static SHARED: LazyLock<Prometheus> =
            LazyLock::new(|| match shared::address(SharedServer::Prometheus) {
                Some(address) => Prometheus { child: None, address, folder: folder() },
                None => Prometheus::start(&PrometheusOptions::default()),
            });
        &SHARED
    }

    /// Starts a server and waits until it is ready.
    pub fn start(options: &PrometheusOptions) -> Prometheus {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../scripts/servers");
        let output = Command::new(script).arg("prometheus").output().expect("scripts/servers runs");
        let message = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "scripts/servers cannot install Prometheus:\n{message}");
        let program = String::from_utf8_lossy(&output.stdout).trim().to_owned();
        // Another process may bind the port in between.
        let server = (0..5).find_map(|_| Prometheus::try_start(&program, options));
        server.expect("Prometheus starts")
    }

    fn try_start(program: &str, options: &PrometheusOptions) -> Option<Prometheus> {
        let folder = folder();
        let config = format!(
            "global: {{ scrape_interval: 500ms, scrape_timeout: 500ms, evaluation_interval: 500ms }}\n\
             rule_files: {:?}\nscrape_configs:\n  - job_name: agent\n    \
             static_configs: [{{ targets: {:?} }}]\n",
            options.rules.iter().collect::<Vec<_>>(),
            options.scrape
        );
        fs::write(folder.path().join("prometheus.yml"), config)
            .expect("the configuration is written");
        let address = format!("127.0.0.1:{}", free_port());
        let log = File::create(folder.path().join("log")).expect("a log file");
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "KILL", "--", program]);
        command.arg(format!("--web.listen-address={address}"));
        command.arg(format!("--config.file={}", folder.path().join("prometheus.yml").display()));
        command.arg(format!("--storage.tsdb.path={}", folder.path().join("data").display()));
        command.arg("--web.enable-remote-write-receiver").args(&options.flags);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
        let child = spawn(command).expect("setpriv starts");
        let mut server = Prometheus { child: Some(child), address, folder };
        let started = Instant::now();
        while server.get("/-/ready").is_none_or(|body| !body.contains("Ready")) {
            if server.poll_ended() {
                return None;
            }
            assert!(
                started.elapsed() < START_TIMEOUT,
                "Prometheus does not become ready:\n{}",
                server.log()
            );
            std::thread::sleep(Duration::from_millis(50));
        }
        Some(server)
    }

    fn poll_ended(&mut self) -> bool {
        let child = self.child.as_mut();
        child.is_some_and(|child| child.try_wait().expect("its status").is_some())
    }

    /// Returns the address as `host:port`.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Returns the URI for remote write.
    pub fn write_uri(&self) -> String {
        format!("http://{}/api/v1/write", self.address)
    }

    /// Returns the log.
    pub fn log(&self) -> String {
        fs::read_to_string(self.folder.path().join("log")).unwrap_or_default()
    }

    /// Returns the body of a GET response with status 200.
    pub fn get(&self, path: &str) -> Option<String> {
        let mut stream = TcpStream::connect(&self.address).ok()?;
        write!(stream, "GET {path} HTTP/1.0\r\nHost: {}\r\n\r\n", self.address).ok()?;
        let mut response = String::new();
        stream.read_to_string(&mut response).ok()?;
        let (head, body) = response.split_once("\r\n\r\n")?;
        head.contains(" 200 ").then(|| body.to_owned())
    }

    /// Runs an instant query. Returns a list of series, each with `metric` and `value`, or `values`
    /// for a range such as `x[5m]`.
    pub fn query(&self, query: &str) -> Vec<Value> {
        let encoded: String = query.bytes().map(|byte| format!("%{byte:02X}")).collect();
        let body =
            self.get(&format!("/api/v1/query?query={encoded}")).expect("a response to the query");
        let response: Value = serde_json::from_str(&body).expect("JSON");
        assert_eq!(response["status"], "success", "{body}");
        response["data"]["result"].as_array().expect("a list").clone()
    }

    /// Returns the value of a query that returns at most one series; `None` without a series.
    pub fn value(&self, query: &str) -> Option<f64> {
        let series = self.query(query);
        assert!(series.len() <= 1, "{query} returns several series: {series:?}");
        series.first()?["value"][1].as_str()?.parse().ok()
    }
}

impl Drop for Prometheus {
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}
