//! A real toxiproxy for tests: slow, throttled, reset and refused connections.
//!
//! `scripts/servers` installs it. All tests share a process, which is killed with the test process;
//! each test has separate proxies.

use crate::kafka::process::spawn;
use crate::ports::free_port;
use serde_json::{Value, json};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// Timeout for the start, generous for busy hosts.
const START_TIMEOUT: Duration = Duration::from_secs(60);

/// The process and its API.
struct Toxiproxy {
    child: Child,
    port: u16,
}

/// A proxy for a server. Removed on drop.
pub struct Proxy {
    name: String,
    /// Port on 127.0.0.1.
    pub port: u16,
}

/// The direction that a toxic affects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stream {
    /// From the client to the server.
    Up,
    /// From the server to the client.
    Down,
}

impl Toxiproxy {
    fn get() -> &'static Toxiproxy {
        static SHARED: LazyLock<Toxiproxy> = LazyLock::new(|| {
            let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../scripts/servers");
            let output =
                Command::new(script).arg("toxiproxy").output().expect("scripts/servers runs");
            let message = String::from_utf8_lossy(&output.stderr);
            assert!(
                output.status.success(),
                "scripts/servers cannot install toxiproxy:\n{message}"
            );
            let program = String::from_utf8_lossy(&output.stdout).trim().to_owned();
            // Another process may bind the port in between.
            (0..5).find_map(|_| Toxiproxy::start(&program)).expect("toxiproxy starts")
        });
        &SHARED
    }

    fn start(program: &str) -> Option<Toxiproxy> {
        let port = free_port();
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "KILL", "--", program, "-host", "127.0.0.1", "-port"]);
        command.arg(port.to_string());
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let mut server = Toxiproxy { child: spawn(command).expect("setpriv starts"), port };
        let started = Instant::now();
        while server.try_request("GET", "/version", &Value::Null).is_none() {
            if server.child.try_wait().expect("its status").is_some() {
                return None;
            }
            assert!(started.elapsed() < START_TIMEOUT, "toxiproxy does not respond");
            std::thread::sleep(Duration::from_millis(20));
        }
        Some(server)
    }

    fn request(&self, method: &str, path: &str, body: &Value) -> Value {
        let response = self.try_request(method, path, body).expect("toxiproxy responds");
        let (head, body) = response.split_once("\r\n\r\n").expect("a complete response");
        assert!(
            head.split(' ').nth(1).is_some_and(|status| status.starts_with('2')),
            "{path}: {response}"
        );
        serde_json::from_str(body).unwrap_or_default()
    }

    fn try_request(&self, method: &str, path: &str, body: &Value) -> Option<String> {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).ok()?;
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let length = body.len();
        let head = format!(
            "{method} {path} HTTP/1.0\r\nHost: localhost\r\nContent-Length: {length}\r\n\r\n"
        );
        stream.write_all((head + &body).as_bytes()).ok()?;
        let mut response = String::new();
        stream.read_to_string(&mut response).ok()?;
        (!response.is_empty()).then_some(response)
    }
}

impl Drop for Toxiproxy {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Proxy {
    /// Creates a proxy for a port of 127.0.0.1, without toxics.
    pub fn to_port(port: u16) -> Proxy {
        static LAST: AtomicUsize = AtomicUsize::new(0);
        let name = format!("proxy-{}", LAST.fetch_add(1, Ordering::Relaxed));
        let proxy = json!({ "name": name, "listen": "127.0.0.1:0", "upstream": format!("127.0.0.1:{port}") });
        let created = Toxiproxy::get().request("POST", "/proxies", &proxy);
        let address = created["listen"].as_str().expect("an address");
        let port = address.rsplit(':').next().and_then(|port| port.parse().ok()).expect("a port");
        Proxy { name, port }
    }

    /// Adds a toxic, such as `latency` with `{"latency": 100}`. The name of the toxic is its type.
    pub fn add(&self, kind: &str, stream: Stream, attributes: Value) {
        let stream = if stream == Stream::Up { "upstream" } else { "downstream" };
        let body =
            json!({ "name": kind, "type": kind, "stream": stream, "attributes": attributes });
        Toxiproxy::get().request("POST", &format!("/proxies/{}/toxics", self.name), &body);
    }

    /// Removes a toxic.
    pub fn remove(&self, kind: &str) {
        Toxiproxy::get().request(
            "DELETE",
            &format!("/proxies/{}/toxics/{kind}", self.name),
            &Value::Null,
        );
    }

    /// Enables or disables the proxy. Disabling closes the port and all connections.
    pub fn enable(&self, enabled: bool) {
        Toxiproxy::get().request(
            "POST",
            &format!("/proxies/{}", self.name),
            &json!({ "enabled": enabled }),
        );
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        let _ = Toxiproxy::get().try_request(
            "DELETE",
            &format!("/proxies/{}", self.name),
            &Value::Null,
        );
    }
}
