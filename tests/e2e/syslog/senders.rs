//! Real senders: `logger` of util-linux, rsyslog, syslog-ng, the handler of Python, and the
//! appender of log4j.

use super::{PATIENCE, config, start, wait_for_events};
use crate::support::java::log4j_writer;
use crate::support::{folder, wait_until};
use millstream_testkit_servers::ports::free_port;
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// Number of messages that a relay forwards to each of its destinations.
const MESSAGES: usize = 500;

fn run(command: &mut Command) {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn logger_is_understood_over_every_socket() {
    let (dir, port) = (folder(), free_port());
    let mut agent = start(dir.path(), &config(port, ""));
    let (port, path) = (port.to_string(), |name| dir.path().join(name).display().to_string());
    let (gram, stream) = (path("log"), path("stream"));
    let remote = ["--server", "127.0.0.1", "--port", &port];
    let ways: [&[&str]; 10] = [
        &["--udp", "--rfc3164"],
        &["--udp", "--rfc5424"],
        &["--udp", "--octet-count", "--rfc5424"],
        &["--tcp", "--rfc3164"],
        &["--tcp", "--rfc5424"],
        &["--tcp", "--octet-count", "--rfc5424"],
        &["--tcp", "--octet-count", "--rfc3164"],
        &["--socket", &gram],
        &["--socket", &stream, "--tcp", "--rfc5424"],
        &["--socket", &stream, "--tcp", "--octet-count", "--rfc5424"],
    ];
    for (index, way) in ways.iter().enumerate() {
        let mut command = Command::new("logger");
        if !way.contains(&"--socket") {
            command.args(remote);
        }
        command.args(*way).args(["--priority", "local3.err", "--id=77", "--tag", "backup"]);
        run(command.arg(format!("way {index}")));
    }
    let mut events = wait_for_events(dir.path(), ways.len());
    events.sort_by_key(|event| event["message"].to_string());
    for (index, event) in events.iter().enumerate() {
        let names = ["facility", "severity", "level", "app_name", "proc_id", "message"];
        let found = names.map(|name| event[name].as_str().unwrap_or_default().to_owned());
        let message = format!("way {index}");
        assert_eq!(found, ["local3", "err", "error", "backup", "77", &message], "{event}");
        let has_data = event["structured_data"]["timeQuality"].is_object();
        assert_eq!(has_data, ways[index].contains(&"--rfc5424"), "{event}");
        let peer = event["network.peer.address"].as_str();
        assert_eq!(peer.is_some(), !ways[index].contains(&"--socket"), "{event}");
    }
    assert_eq!(agent.stop().code(), Some(0), "{}", agent.log());
}

/// A relay that forwards what it reads from a Unix socket. Killed on drop.
struct Relay(Child);

impl Drop for Relay {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts a relay, whose program `scripts/servers` prints, and sends messages to its socket.
fn relay(name: &str, dir: &Path, arguments: &[&str], config: &str) -> Relay {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("scripts/servers");
    let output = Command::new(script).arg(name).output().expect("scripts/servers runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let program = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    let dir_text = dir.display().to_string();
    fs::write(dir.join("relay.conf"), config.replace("DIR", &dir_text)).unwrap();
    let log = File::create(dir.join("relay.log")).unwrap();
    let mut command = Command::new(program);
    command.args(arguments.iter().map(|argument| argument.replace("DIR", &dir_text)));
    command.stdin(Stdio::null()).stdout(log.try_clone().unwrap()).stderr(log);
    let mut relay = Relay(command.spawn().expect("the relay starts"));
    let socket = UnixDatagram::unbound().unwrap();
    wait_until("the relay listens", PATIENCE, || {
        let log = || fs::read_to_string(dir.join("relay.log")).unwrap_or_default();
        assert!(relay.0.try_wait().unwrap().is_none(), "{name} has ended: {}", log());
        socket.connect(dir.join("relay.sock")).is_ok()
    });
    for n in 0..MESSAGES {
        socket.send(format!("<30>Feb  5 17:32:18 app[7]: number {n}").as_bytes()).unwrap();
    }
    relay
}

/// Checks that each message has arrived once from each of the destinations of a relay.
fn check(events: &[Value], destinations: usize) {
    let mut all: Vec<&str> = Vec::new();
    for event in events {
        assert_eq!(
            (&event["app_name"], &event["proc_id"]),
            (&"app".into(), &"7".into()),
            "{event}"
        );
        assert_eq!(event["facility"], "daemon", "{event}");
        assert!(event["hostname"].is_string(), "{event}");
        all.push(event["message"].as_str().unwrap().trim_start());
    }
    assert_eq!(all.len(), MESSAGES * destinations);
    let distinct: BTreeSet<&str> = all.into_iter().collect();
    let expected: BTreeSet<String> = (0..MESSAGES).map(|n| format!("number {n}")).collect();
    assert_eq!(distinct, expected.iter().map(String::as_str).collect());
}

#[test]
fn rsyslog_is_understood() {
    let (dir, port) = (folder(), free_port());
    let mut agent = start(dir.path(), &config(port, ""));
    let to = format!("target=\"127.0.0.1\" port=\"{port}\"");
    let relay = relay(
        "rsyslog",
        dir.path(),
        &["-n", "-f", "DIR/relay.conf", "-i", "DIR/relay.pid"],
        &format!(
            "global(workDirectory=\"DIR\")\n\
             module(load=\"imuxsock\" SysSock.Use=\"off\")\n\
             input(type=\"imuxsock\" Socket=\"DIR/relay.sock\" RateLimit.Interval=\"0\")\n\
             action(type=\"omfwd\" {to} protocol=\"tcp\" template=\"RSYSLOG_ForwardFormat\")\n\
             action(type=\"omfwd\" {to} protocol=\"tcp\" TCP_Framing=\"octet-counted\" \
             template=\"RSYSLOG_SyslogProtocol23Format\")\n\
             action(type=\"omfwd\" {to} protocol=\"udp\" template=\"RSYSLOG_TraditionalForwardFormat\")\n"
        ),
    );
    check(&wait_for_events(dir.path(), MESSAGES * 3), 3);
    drop(relay);
    assert_eq!(agent.stop().code(), Some(0), "{}", agent.log());
}

#[test]
fn syslog_ng_is_understood() {
    let (dir, port) = (folder(), free_port());
    let mut agent = start(dir.path(), &config(port, ""));
    let to = format!("port({port})");
    let relay = relay(
        "syslog-ng",
        dir.path(),
        &[
            "--foreground",
            "--no-caps",
            "--cfgfile=DIR/relay.conf",
            "--pidfile=DIR/relay.pid",
            "--control=DIR/relay.ctl",
            "--persist-file=DIR/relay.persist",
        ],
        &format!(
            "@version: 3.38\n\
             source s {{ unix-dgram(\"DIR/relay.sock\"); }};\n\
             destination d {{ syslog(\"127.0.0.1\" transport(\"tcp\") persist-name(\"counted\") {to}); \
             network(\"127.0.0.1\" transport(\"tcp\") persist-name(\"lines\") {to}); \
             network(\"127.0.0.1\" transport(\"udp\") {to}); }};\n\
             log {{ source(s); destination(d); }};\n"
        ),
    );
    check(&wait_for_events(dir.path(), MESSAGES * 3), 3);
    drop(relay);
    assert_eq!(agent.stop().code(), Some(0), "{}", agent.log());
}

/// Logs over UDP, TCP and a Unix socket. The handler ends each message with a NUL, which is its
/// only delimiter over TCP.
const PYTHON: &str = r#"
import logging, logging.handlers, socket, sys
port, path = int(sys.argv[1]), sys.argv[2]
for address, kind in [(("127.0.0.1", port), socket.SOCK_DGRAM), (("127.0.0.1", port), socket.SOCK_STREAM), (path, socket.SOCK_DGRAM)]:
    handler = logging.handlers.SysLogHandler(address, socktype=kind)
    handler.setFormatter(logging.Formatter("shop[%(process)d]: %(message)s"))
    logger = logging.Logger("shop")
    logger.addHandler(handler)
    for n in range(100):
        logger.warning("disk of %s is full: %d", kind.name, n)
    handler.close()
"#;

#[test]
fn the_handler_of_python_is_understood() {
    let (dir, port) = (folder(), free_port());
    let mut agent = start(dir.path(), &config(port, ""));
    run(Command::new("python3")
        .args(["-c", PYTHON, &port.to_string()])
        .arg(dir.path().join("log")));
    let events = wait_for_events(dir.path(), 300);
    for event in &events {
        assert_eq!((&event["app_name"], &event["level"]), (&"shop".into(), &"warn".into()));
        assert!(event["message"].as_str().unwrap().starts_with("disk of SOCK_"), "{event}");
    }
    let distinct: BTreeSet<&str> =
        events.iter().map(|event| event["message"].as_str().unwrap()).collect();
    assert_eq!(distinct.len(), 200);
    assert_eq!(agent.stop().code(), Some(0), "{}", agent.log());
}

/// Logs in every format of the appender, over TCP and UDP. Appenders to the same address share a
/// connection, so the one with octet counts has another name of the host.
const LOG4J: &str = r#"
<Configuration status="warn">
  <Appenders>
    <Syslog name="tcp" host="127.0.0.1" port="PORT" protocol="TCP" format="RFC5424" appName="shop" facility="LOCAL3" newLine="true"/>
    <Syslog name="udp" host="127.0.0.1" port="PORT" protocol="UDP" format="RFC5424" appName="shop" facility="LOCAL3"/>
    <Syslog name="bsd" host="127.0.0.1" port="PORT" protocol="TCP" format="BSD" facility="LOCAL3" newLine="true"/>
    <Socket name="counted" host="localhost" port="PORT" protocol="TCP">
      <Rfc5424Layout appName="shop" facility="LOCAL3" useTlsMessageFormat="true"/>
    </Socket>
  </Appenders>
  <Loggers>
    <Root level="info">
      <AppenderRef ref="tcp"/><AppenderRef ref="udp"/><AppenderRef ref="bsd"/><AppenderRef ref="counted"/>
    </Root>
  </Loggers>
</Configuration>
"#;

#[test]
fn the_appender_of_log4j_is_understood() {
    let (dir, port, count) = (folder(), free_port(), 200);
    let mut agent = start(dir.path(), &config(port, ""));
    let settings = dir.path().join("log4j2.xml");
    fs::write(&settings, LOG4J.replace("PORT", &port.to_string())).unwrap();
    run(Command::new("java")
        .args(["-cp", &log4j_writer(dir.path()), "-Xmx128m"])
        .arg(format!("-Dlog4j2.configurationFile={}", settings.display()))
        .args(["Writer", &count.to_string(), "200"]));
    let events = wait_for_events(dir.path(), 4 * count);
    let mut texts: Vec<&str> = Vec::new();
    let mut without_app = 0;
    for event in &events {
        assert_eq!((&event["facility"], &event["level"]), (&"local3".into(), &"info".into()));
        // The BSD format has no tag.
        without_app += usize::from(event["app_name"] != "shop");
        texts.push(event["message"].as_str().unwrap());
    }
    assert_eq!(without_app, count);
    texts.sort_unstable();
    let text = |n: usize| format!("line {n:07} and some words behind it");
    let expected: Vec<String> = (0..count).flat_map(|n| vec![text(n); 4]).collect();
    assert_eq!(texts, expected);
    assert_eq!(agent.stop().code(), Some(0), "{}", agent.log());
}
