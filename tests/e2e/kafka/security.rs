//! Tests TLS, SASL and ACLs: successful logins, and the error messages of failures.

use super::{PATIENCE, config, finish, numbered, start, texts, wait_for_error, write};
use crate::support::{Agent, folder, wait_until};
use millstream_testkit_servers::kafka::{Kafka, KafkaOptions, Listener};
use std::path::Path;
use std::time::Duration;

/// Returns the options for a login with `mechanism`.
fn sasl(mechanism: &str, password: &str) -> String {
    format!("sasl: {{ mechanism: {mechanism}, username: {}, password: {password} }}", Kafka::USER)
}

fn tls(ca: &Path) -> String {
    format!("tls: {{ ca_file: '{}' }}", ca.display())
}

/// Starts a broker with every listener, ACLs, and logins that expire after two seconds.
fn guarded() -> Kafka {
    Kafka::with(KafkaOptions {
        listeners: vec![Listener::Ssl, Listener::SaslPlaintext, Listener::SaslSsl],
        client_certificates: true,
        acl: true,
        properties: vec!["connections.max.reauth.ms=2000".into()],
        ..KafkaOptions::default()
    })
}

/// Runs all cases with one broker, because its start takes longer than each case.
#[test]
fn tls_logins_and_acls() {
    let kafka = guarded();
    kafka.allow("All", "*");
    every_login_delivers(&kafka);
    a_certificate_of_the_agent_delivers(&kafka);
    wrong_certificates_and_logins_are_said(&kafka);
    a_login_that_expires_is_waited_for(&kafka);
}

fn every_login_delivers(kafka: &Kafka) {
    let cases = [
        ("plain", sasl("PLAIN", Kafka::PASSWORD), Listener::SaslPlaintext),
        ("scram", sasl("SCRAM-SHA-256", Kafka::PASSWORD), Listener::SaslPlaintext),
        (
            "tls",
            format!(
                "{}, {}",
                sasl("SCRAM-SHA-512", Kafka::PASSWORD),
                tls(&kafka.certificates().ca)
            ),
            Listener::SaslSsl,
        ),
    ];
    for (topic, options, listener) in cases {
        let dir = folder();
        kafka.create_topic(topic, 1);
        write(dir.path(), "a.log", numbered(500));
        let more = format!("encoding: {{ codec: text }}, {options}");
        finish(start(dir.path(), &config(&kafka.address(listener), topic, &more)));
        assert!(texts(&kafka.read(topic)).iter().copied().eq(numbered(500)), "{topic}");
    }
}

fn a_certificate_of_the_agent_delivers(kafka: &Kafka) {
    let (dir, files) = (folder(), kafka.certificates());
    kafka.create_topic("mutual", 1);
    write(dir.path(), "a.log", numbered(500));
    let more = format!(
        "encoding: {{ codec: text }}, tls: {{ ca_file: '{}', cert_file: '{}', key_file: '{}' }}",
        files.ca.display(),
        files.client_cert.display(),
        files.client_key.display()
    );
    // The certificate only authenticates the agent; it must also be authorized.
    kafka.tool(
        "org.apache.kafka.tools.AclCommand",
        &["--add", "--allow-principal", "User:*", "--operation", "All", "--topic", "mutual"],
    );
    finish(start(dir.path(), &config(&kafka.address(Listener::Ssl), "mutual", &more)));
    assert!(texts(&kafka.read("mutual")).iter().copied().eq(numbered(500)));
}

fn wrong_certificates_and_logins_are_said(kafka: &Kafka) {
    let files = kafka.certificates();
    let login = sasl("SCRAM-SHA-512", Kafka::PASSWORD);
    let cases = [
        (
            "certificate verify failed",
            format!("{login}, {}", tls(&files.other_ca)),
            Listener::SaslSsl,
        ),
        ("authentication failed", sasl("PLAIN", "wrong-password"), Listener::SaslPlaintext),
        ("authentication failed", sasl("SCRAM-SHA-256", "wrong-password"), Listener::SaslPlaintext),
        ("cannot reach kafka", tls(&files.ca), Listener::Ssl),
        ("cannot reach kafka", login.clone(), Listener::SaslSsl),
    ];
    // All cases run concurrently, because each takes seconds.
    let agents = cases.map(|(error, options, listener)| {
        let dir = folder();
        write(dir.path(), "a.log", numbered(10));
        let config = config(&kafka.address(listener), "nobody", &options);
        (error, Agent::start(dir.path(), &config, &[]), dir)
    });
    for (error, mut agent, _dir) in agents {
        wait_for_error(&agent, error);
        agent.kill();
        assert!(!agent.log().contains("wrong-password") && !agent.log().contains(Kafka::PASSWORD));
    }
}

fn a_login_that_expires_is_waited_for(kafka: &Kafka) {
    let dir = folder();
    kafka.create_topic("expires", 1);
    write(dir.path(), "a.log", numbered(500));
    let more = format!("encoding: {{ codec: text }}, {}", sasl("SCRAM-SHA-256", Kafka::PASSWORD));
    let mut agent = Agent::start(
        dir.path(),
        &config(&kafka.address(Listener::SaslPlaintext), "expires", &more),
        &[],
    );
    wait_until("the first lines", PATIENCE, || kafka.count("expires") == 500);
    let login = |change: &[&str]| {
        let user = ["--alter", "--entity-type", "users", "--entity-name", Kafka::USER];
        kafka.tool("kafka.admin.ConfigCommand", &[&user, change].concat());
    };
    login(&["--delete-config", "SCRAM-SHA-256"]);
    // Records that are sent before the broker requires reauthentication are still accepted, so
    // wait.
    std::thread::sleep(Duration::from_secs(4));
    let file = dir.path().join("in/a.log");
    let more_lines: String = numbered(700).skip(500).map(|line| line + "\n").collect();
    std::io::Write::write_all(
        &mut std::fs::OpenOptions::new().append(true).open(file).unwrap(),
        more_lines.as_bytes(),
    )
    .unwrap();
    wait_for_error(&agent, "authentication");
    login(&["--add-config", &format!("SCRAM-SHA-256=[password={}]", Kafka::PASSWORD)]);
    wait_until("the other lines", PATIENCE, || kafka.count("expires") == 700);
    assert!(agent.stop().success());
    assert!(texts(&kafka.read("expires")).iter().copied().eq(numbered(700)));
}

#[test]
fn a_missing_permission_is_waited_for() {
    let (dir, kafka) = (
        folder(),
        Kafka::with(KafkaOptions {
            listeners: vec![Listener::SaslPlaintext],
            acl: true,
            ..KafkaOptions::default()
        }),
    );
    kafka.create_topic("closed", 1);
    write(dir.path(), "a.log", numbered(500));
    let more = format!("encoding: {{ codec: text }}, {}", sasl("PLAIN", Kafka::PASSWORD));
    let agent =
        start(dir.path(), &config(&kafka.address(Listener::SaslPlaintext), "closed", &more));
    wait_for_error(&agent, "authorization failed");
    kafka.allow("All", "closed");
    finish(agent);
    assert!(texts(&kafka.read("closed")).iter().copied().eq(numbered(500)));
}

#[test]
fn an_unreadable_certificate_is_reported() {
    let dir = folder();
    write(dir.path(), "a.log", numbered(1));
    let agent = start(dir.path(), &config("127.0.0.1:1", "t", "tls: { ca_file: /nowhere/ca.pem }"));
    wait_for_error(&agent, "ssl.ca.location");
}

#[test]
fn contradictory_settings_are_rejected_at_startup() {
    let dir = folder();
    let mut agent = start(dir.path(), &config("127.0.0.1:1", "t", "options: { acks: 1 }"));
    assert_eq!(agent.wait(PATIENCE).code(), Some(2), "{}", agent.log());
    agent.assert_logs("acks");
}
