//! A real toxiproxy, for tests: connections that are slow, narrow, cut, or gone.
//!
//! `scripts/servers` installs it. One process serves all tests, each with proxies of its own, and
//! ends with the test process.

use crate::kafka::process::spawn;
use serde_json::{Value, json};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// How long it may take until it answers, on a busy host.
const START: Duration = Duration::from_secs(60);

/// The process with its interface.
struct Toxiproxy {
    child: Child,
    port: u16,
}

/// A port in front of a server; gone when dropped.
pub struct Proxy {
    name: String,
    /// Where it listens, on 127.0.0.1.
    pub port: u16,
}

/// In which direction a fault works.
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
            // Somebody else may take the port in between.
            (0..5).find_map(|_| Toxiproxy::start(&program)).expect("toxiproxy starts")
        });
        &SHARED
    }

    fn start(program: &str) -> Option<Toxiproxy> {
        let free = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let port = free.local_addr().expect("its address").port();
        drop(free);
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "KILL", "--", program, "-host", "127.0.0.1", "-port"]);
        command.arg(port.to_string());
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let mut server = Toxiproxy { child: spawn(command).expect("setpriv starts"), port };
        let begun = Instant::now();
        while server.try_ask("GET", "/version", &Value::Null).is_none() {
            if server.child.try_wait().expect("its status").is_some() {
                return None;
            }
            assert!(begun.elapsed() < START, "toxiproxy does not answer");
            std::thread::sleep(Duration::from_millis(20));
        }
        Some(server)
    }

    fn ask(&self, method: &str, path: &str, body: &Value) -> Value {
        let answer = self.try_ask(method, path, body).expect("toxiproxy answers");
        let (head, body) = answer.split_once("\r\n\r\n").expect("a whole answer");
        assert!(
            head.split(' ').nth(1).is_some_and(|status| status.starts_with('2')),
            "{path}: {answer}"
        );
        serde_json::from_str(body).unwrap_or_default()
    }

    fn try_ask(&self, method: &str, path: &str, body: &Value) -> Option<String> {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).ok()?;
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let length = body.len();
        let head = format!(
            "{method} {path} HTTP/1.0\r\nHost: localhost\r\nContent-Length: {length}\r\n\r\n"
        );
        stream.write_all((head + &body).as_bytes()).ok()?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).ok()?;
        (!answer.is_empty()).then_some(answer)
    }
}

impl Drop for Toxiproxy {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Proxy {
    /// A proxy in front of a port of 127.0.0.1, without a fault.
    pub fn before(port: u16) -> Proxy {
        static LAST: AtomicUsize = AtomicUsize::new(0);
        let name = format!("proxy-{}", LAST.fetch_add(1, Ordering::Relaxed));
        let proxy = json!({ "name": name, "listen": "127.0.0.1:0", "upstream": format!("127.0.0.1:{port}") });
        let made = Toxiproxy::get().ask("POST", "/proxies", &proxy);
        let listens = made["listen"].as_str().expect("an address");
        let port = listens.rsplit(':').next().and_then(|port| port.parse().ok()).expect("a port");
        Proxy { name, port }
    }

    /// Adds one of toxiproxy's faults, such as `latency` with `{"latency": 100}`, under its own
    /// name.
    pub fn add(&self, fault: &str, stream: Stream, attributes: Value) {
        let stream = if stream == Stream::Up { "upstream" } else { "downstream" };
        let toxic =
            json!({ "name": fault, "type": fault, "stream": stream, "attributes": attributes });
        Toxiproxy::get().ask("POST", &format!("/proxies/{}/toxics", self.name), &toxic);
    }

    /// Takes a fault away.
    pub fn remove(&self, fault: &str) {
        Toxiproxy::get().ask(
            "DELETE",
            &format!("/proxies/{}/toxics/{fault}", self.name),
            &Value::Null,
        );
    }

    /// Nobody listens, and all connections are closed; or it listens again, at the same port.
    pub fn enable(&self, is_up: bool) {
        Toxiproxy::get().ask(
            "POST",
            &format!("/proxies/{}", self.name),
            &json!({ "enabled": is_up }),
        );
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        let _ =
            Toxiproxy::get().try_ask("DELETE", &format!("/proxies/{}", self.name), &Value::Null);
    }
}
