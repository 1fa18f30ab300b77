//! TLS with client certificates, with the clients of Python and syslog-ng.

use super::{PATIENCE, counted, start, wait_for_events};
use crate::support::{Agent, folder, wait_until};
use millstream_testkit_servers::certificates::{Authority, Certificate, Validity};
use millstream_testkit_servers::ports::free_port;
use std::process::{Command, Output};

/// Sends a text over TLS: port, CA of the server, text, and optionally a certificate with its key.
/// Reads until the server closes, because a server checks certificates after the handshake of the
/// client.
const CLIENT: &str = r#"
import socket, ssl, sys
port, ca, text = int(sys.argv[1]), sys.argv[2], sys.argv[3]
context = ssl.create_default_context(cafile=ca)
if len(sys.argv) > 4:
    context.load_cert_chain(sys.argv[4], sys.argv[5])
with context.wrap_socket(socket.create_connection(("127.0.0.1", port)), server_hostname="127.0.0.1") as tls:
    tls.sendall(text.encode())
    tls.unwrap().close()
"#;

struct Bench {
    dir: tempfile::TempDir,
    port: u16,
    agent: Agent,
    authority: Authority,
}

impl Bench {
    fn new(more: &str) -> Bench {
        let (dir, port, authority) = (folder(), free_port(), Authority::new());
        authority.write(dir.path(), "ca");
        authority.issue(&["127.0.0.1"], Validity::Good).write(dir.path(), "server");
        authority.issue(&["client"], Validity::Good).write(dir.path(), "client");
        let agent = start(dir.path(), &config(port, more));
        Bench { dir, port, agent, authority }
    }

    fn path(&self, name: &str) -> String {
        self.dir.path().join(name).display().to_string()
    }

    /// Runs the client, with a certificate if it has a name.
    fn send(&self, ca: &str, text: &str, certificate: Option<&str>) -> Output {
        let mut command = Command::new("python3");
        command.args(["-c", CLIENT, &self.port.to_string(), &self.path(ca), text]);
        if let Some(name) = certificate {
            command.args([self.path(&format!("{name}.crt")), self.path(&format!("{name}.key"))]);
        }
        command.output().unwrap()
    }

    /// Sends a text, which must arrive.
    #[track_caller]
    fn arrives(&self, ca: &str, text: &str, certificate: Option<&str>, count: usize) {
        let output = self.send(ca, text, certificate);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let events = wait_for_events(self.dir.path(), count);
        assert_eq!(events[count - 1]["network.peer.address"], "127.0.0.1");
    }
}

fn config(port: u16, more: &str) -> String {
    format!(
        "sources:\n  net: {{ type: syslog, listen: ['tcp://127.0.0.1:{port}'], tls: {{ cert_file: \
         DIR/server.crt, key_file: DIR/server.key, {more} }} }}\nsinks:\n  out: {{ type: file, \
         inputs: [net], path: DIR/out.json, sync: 50ms, encoding: {{ metadata: [] }} }}\n"
    )
}

fn tls_errors(agent: &Agent) -> f64 {
    counted(agent, "errors", "error_type=\"tls\"")
}

#[test]
fn clients_need_a_certificate_of_the_authority() {
    let mut bench = Bench::new("client_ca_file: DIR/ca.crt");
    bench.arrives("ca.crt", "7 <13>one8 <13>four", Some("client"), 2);
    let large: String = (0..20_000).map(|n| format!("<13>app: number {n}\n")).collect();
    std::fs::write(bench.dir.path().join("large"), &large).unwrap();
    let client = CLIENT.replace("text.encode()", "open(text).read().encode()");
    let certificate = ["client.crt", "client.key"].map(|name| bench.path(name));
    let output = Command::new("python3")
        .args(["-c", &client, &bench.port.to_string(), &bench.path("ca.crt"), &bench.path("large")])
        .args(&certificate)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let events = wait_for_events(bench.dir.path(), 20_002);
    assert_eq!(super::numbers(&events[2..]), (0..20_000).collect::<Vec<_>>());
    // No certificate, one of another authority, an expired one.
    Authority::new().issue(&["client"], Validity::Good).write(bench.dir.path(), "other");
    bench.authority.issue(&["client"], Validity::Expired).write(bench.dir.path(), "expired");
    for (errors, certificate) in [None, Some("other"), Some("expired")].into_iter().enumerate() {
        bench.send("ca.crt", "<13>unwanted\n", certificate);
        wait_until("an error", PATIENCE, || tls_errors(&bench.agent) == errors as f64 + 1.0);
    }
    bench.agent.assert_logs("TLS failed on a connection from 127.0.0.1:");
    // Plain text.
    let mut plain = std::net::TcpStream::connect(("127.0.0.1", bench.port)).unwrap();
    std::io::Write::write_all(&mut plain, b"<13>unwanted\n").unwrap();
    wait_until("an error", PATIENCE, || tls_errors(&bench.agent) == 4.0);
    bench.arrives("ca.crt", "<13>last\n", Some("client"), 20_003);
    assert_eq!(bench.agent.stop().code(), Some(0), "{}", bench.agent.log());
}

#[test]
fn changed_certificates_apply_to_new_connections() {
    let mut bench = Bench::new("");
    bench.arrives("ca.crt", "<13>one\n", None, 1);
    let other = Authority::new();
    other.write(bench.dir.path(), "other");
    let replace = |certificate: &Certificate| {
        certificate.write(bench.dir.path(), "server");
    };
    replace(&other.issue(&["127.0.0.1"], Validity::Good));
    bench.arrives("other.crt", "<13>two\n", None, 2);
    // While only one of the files is replaced, the previous certificate stays in use.
    let next = other.issue(&["127.0.0.1"], Validity::Good);
    std::fs::write(bench.dir.path().join("server.crt"), &next.cert).unwrap();
    bench.arrives("other.crt", "<13>three\n", None, 3);
    bench.agent.assert_logs("the previous certificates stay in use");
    replace(&next);
    bench.arrives("other.crt", "<13>four\n", None, 4);
    assert_eq!(tls_errors(&bench.agent), 0.0);
    assert_eq!(bench.agent.stop().code(), Some(0), "{}", bench.agent.log());
}

#[test]
fn unusable_certificates_stop_the_start() {
    let dir = folder();
    Certificate::self_signed(&["a"], Validity::Good, false).write(dir.path(), "server");
    std::fs::write(dir.path().join("server.key"), "").unwrap();
    let mut agent = Agent::start(dir.path(), &config(free_port(), ""), &[]);
    assert_eq!(agent.wait(PATIENCE).code(), Some(1), "{}", agent.log());
    agent.assert_logs("contains no key");
    assert!(!dir.path().join("out.json").exists());
}
