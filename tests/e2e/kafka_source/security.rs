//! Tests TLS and SASL: successful logins, and the errors of failures.

use super::{PATIENCE, events, numbered, run, source};
use crate::support::{Agent, folder, wait_until};
use millstream_testkit_servers::kafka::{Kafka, KafkaOptions, Listener};
use std::fs;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

const SINK: &str = "sinks: { out: { type: file, inputs: [topic], path: DIR/out.json } }\n";

/// Returns an unsigned token, which the broker's validator for tests accepts.
fn token(lifetime: Duration) -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    let claims = format!(
        "{{\"sub\":\"agent\",\"iat\":{},\"exp\":{}}}",
        now.as_secs(),
        (now + lifetime).as_secs()
    );
    format!("{}.{}.", base64url(b"{\"alg\":\"none\"}"), base64url(claims.as_bytes()))
}

fn base64url(bytes: &[u8]) -> String {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let chunk = |chunk: &[u8]| {
        let bits = chunk.iter().fold(0u32, |bits, byte| bits << 8 | u32::from(*byte));
        let bits = bits << (8 * (3 - chunk.len()));
        let sextets = (0..=chunk.len()).map(|n| bits >> (18 - 6 * n) & 63);
        sextets.map(|n| char::from(ALPHABET[n as usize])).collect::<String>()
    };
    bytes.chunks(3).map(chunk).collect()
}

fn guarded() -> Kafka {
    let module = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required";
    let prefix = "listener.name.sasl_plaintext";
    Kafka::with(KafkaOptions {
        listeners: vec![Listener::Ssl, Listener::SaslPlaintext, Listener::SaslSsl],
        properties: vec![
            format!(
                "{prefix}.sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-256,SCRAM-SHA-512,OAUTHBEARER"
            ),
            format!(
                "{prefix}.oauthbearer.sasl.jaas.config={module} unsecuredLoginStringClaim_sub=\"broker\";"
            ),
        ],
        ..KafkaOptions::default()
    })
}

/// Runs all cases with one broker, because its start takes longer than each case.
#[test]
fn every_login_reads_and_a_wrong_one_is_said() {
    let (kafka, tokens) = (guarded(), folder());
    kafka.create_topic("secret", 2);
    kafka.write("secret", numbered(0..300, 2));
    let file = tokens.path().join("token");
    fs::write(&file, token(Duration::from_secs(3600))).unwrap();
    let user = |mechanism: &str, password: &str| {
        format!(
            "sasl: {{ mechanism: {mechanism}, username: {}, password: {password} }},",
            Kafka::USER
        )
    };
    let tls = format!("tls: {{ ca_file: '{}' }},", kafka.certificates().ca.display());
    let oauth = format!("sasl: {{ mechanism: OAUTHBEARER, token_file: '{}' }},", file.display());
    let cases = [
        ("tls", tls.clone(), Listener::Ssl),
        ("plain", user("PLAIN", Kafka::PASSWORD), Listener::SaslPlaintext),
        ("scram256", user("SCRAM-SHA-256", Kafka::PASSWORD), Listener::SaslPlaintext),
        ("scram512", user("SCRAM-SHA-512", Kafka::PASSWORD) + &tls, Listener::SaslSsl),
        ("oauth", oauth, Listener::SaslPlaintext),
    ];
    for (group, options, listener) in cases {
        let dir = folder();
        let config = source(&kafka.address(listener), "secret", group, &options) + SINK;
        run(dir.path(), &config);
        assert_eq!(events(&dir.path().join("out.json")).len(), 300, "{group}");
    }
    let wrong = user("PLAIN", "wrong");
    a_wrong_login_is_said(&source(
        &kafka.address(Listener::SaslPlaintext),
        "secret",
        "wrong",
        &wrong,
    ));
}

fn a_wrong_login_is_said(source: &str) {
    let dir = folder();
    let config = source.to_owned() + SINK;
    let mut agent = Agent::start(dir.path(), &config, &[]);
    wait_until("the error", PATIENCE, || agent.log().contains("check `sasl`"));
    wait_until("it is counted", PATIENCE, || {
        let metrics = agent.get("/metrics").unwrap_or_default();
        metrics.contains("error_type=\"authentication\"")
    });
    assert!(agent.stop().success(), "{}", agent.log());
}
