//! Tests of the Kafka harness, which other tests rely on.

use millstream_testkit_servers::kafka::{Kafka, KafkaOptions, Listener};
use parking_lot::Mutex;
use rdkafka::ClientConfig;
use rdkafka::client::ClientContext;
use rdkafka::error::{KafkaError, RDKafkaErrorCode as Code};
use rdkafka::message::{Header, OwnedHeaders};
use rdkafka::producer::{BaseProducer, BaseRecord, DeliveryResult, Producer, ProducerContext};
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const TIMEOUT: Duration = Duration::from_secs(120);
const CODECS: [&str; 4] = ["gzip", "snappy", "lz4", "zstd"];

/// Sends lines and waits until the broker has acknowledged all of them.
fn produce(client: &ClientConfig, topic: &str, lines: &[String]) {
    let producer: BaseProducer = client.create().expect("a producer");
    for line in lines {
        let headers = OwnedHeaders::new()
            .insert(Header { key: "length", value: Some(&line.len().to_string()) });
        let record = BaseRecord::to(topic).partition(0).key("a key").payload(line).headers(headers);
        producer.send(record).expect("capacity in the queue");
    }
    producer.flush(TIMEOUT).expect("everything is sent");
}

fn lines(what: &str) -> Vec<String> {
    (0..100).map(|i| format!("line {i} of {what}")).collect()
}

fn texts(kafka: &Kafka, topic: &str) -> Vec<String> {
    kafka.read(topic).iter().map(|record| record.text().to_owned()).collect()
}

#[test]
fn three_clients_read_every_codec() {
    let kafka = Kafka::shared();
    kafka.create_topic("codecs", 3);
    let mut want = Vec::new();
    for codec in CODECS {
        let lines = lines(codec);
        produce(kafka.client(Listener::Plaintext).set("compression.type", codec), "codecs", &lines);
        want.extend(lines);
    }
    let records = kafka.read("codecs");
    assert_eq!(records.iter().map(|record| record.text()).collect::<Vec<_>>(), want);
    assert!(records.iter().zip(0..).all(|(record, i)| (record.partition, record.offset) == (0, i)));
    assert_eq!(records[7].key.as_deref(), Some(&b"a key"[..]));
    assert_eq!(records[7].header("length"), Some("14"));
    assert!(records[7].timestamp > Some(1_600_000_000_000));
    let by_kcat = kafka.kcat(&["-C", "-t", "codecs", "-e", "-q"]);
    assert_eq!(by_kcat.lines().collect::<Vec<_>>(), want);
    assert_eq!(kafka.java_consumer("codecs", want.len()), want);
}

#[test]
fn topics_are_created_and_deleted() {
    let kafka = Kafka::shared();
    kafka.create_topic_with("two_small_partitions", 2, &[("max.message.bytes", "200")]);
    assert_eq!(
        (kafka.count("two_small_partitions"), kafka.read("two_small_partitions").len()),
        (0, 0)
    );
    let client = kafka.client(Listener::Plaintext);
    let rejected = deliver(&client, "two_small_partitions", &"x".repeat(500));
    assert_eq!(rejected, Err(Code::MessageSizeTooLarge));
    produce(&client, "two_small_partitions", &["short".to_owned()]);
    assert_eq!(kafka.count("two_small_partitions"), 1);
    kafka.delete_topic("two_small_partitions");
    kafka.create_topic("two_small_partitions", 1);
    assert_eq!(kafka.count("two_small_partitions"), 0);
}

#[test]
fn a_restarted_broker_keeps_its_address_and_data() {
    let mut kafka = Kafka::start();
    kafka.create_topic("kept", 1);
    let client = kafka.client(Listener::Plaintext);
    let all = [lines("the start"), lines("the stop"), lines("the kill"), lines("the pause")];
    produce(&client, "kept", &all[0]);
    kafka.stop();
    kafka.restart();
    produce(&client, "kept", &all[1]);
    kafka.kill();
    kafka.restart();
    assert_eq!(texts(&kafka, "kept"), all[..2].concat());
    produce(&client, "kept", &all[2]);
    kafka.pause();
    let impatient = client.clone().set("message.timeout.ms", "300").to_owned();
    assert_eq!(deliver(&impatient, "kept", "lost"), Err(Code::MessageTimedOut));
    kafka.resume();
    produce(&client, "kept", &all[3]);
    let mut got = texts(&kafka, "kept");
    // The record that timed out may have been in the socket buffer, and then it was delivered
    // later.
    got.retain(|line| line != "lost");
    assert_eq!(got, all.concat());
}

#[test]
fn credentials_and_certificates_are_checked() {
    let options = KafkaOptions {
        listeners: vec![Listener::Ssl, Listener::SaslPlaintext, Listener::SaslSsl],
        client_certificates: true,
        ..KafkaOptions::default()
    };
    let kafka = Kafka::with(options);
    kafka.create_topic("guarded", 1);
    let mut sent = 0;
    for mechanism in ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"] {
        for listener in [Listener::SaslPlaintext, Listener::SaslSsl] {
            let mut client = kafka.client(listener);
            client.set("sasl.mechanisms", mechanism);
            assert_eq!(
                deliver(&client, "guarded", mechanism),
                Ok(()),
                "{mechanism} over {}",
                listener.name()
            );
            sent += 1;
            client.set("sasl.password", "wrong");
            assert_eq!(deliver(&client, "guarded", "x"), Err(Code::Authentication));
        }
    }
    let certificates = kafka.certificates();
    let mut client = kafka.client(Listener::Ssl);
    // With TLS 1.3, the client completes the handshake before the broker rejects the certificate
    // and closes the connection.
    assert_eq!(
        deliver(&client, "guarded", "x"),
        Err(Code::AllBrokersDown),
        "without a certificate"
    );
    identify(&mut client, &certificates.other_client_cert, &certificates.other_client_key);
    assert_eq!(
        deliver(&client, "guarded", "x"),
        Err(Code::AllBrokersDown),
        "with a certificate of an unknown CA"
    );
    identify(&mut client, &certificates.client_cert, &certificates.client_key);
    assert_eq!(deliver(&client, "guarded", "certificate"), Ok(()));
    client.set("ssl.ca.location", certificates.other_ca.display().to_string());
    // Either error of the client may come first.
    assert!(results(&client, "guarded", "x", Code::SSL).iter().all(Result::is_err), "another CA");
    assert_eq!(kafka.count("guarded"), sent + 1);
}

fn identify(client: &mut ClientConfig, cert: &Path, key: &Path) {
    client.set("ssl.certificate.location", cert.display().to_string());
    client.set("ssl.key.location", key.display().to_string());
}

#[test]
fn acls_and_limits_apply() {
    let cpu = cpus("self").split(['-', ',']).next().expect("a CPU").to_owned();
    let kafka = Kafka::with(KafkaOptions {
        cpus: Some(cpu.clone()),
        listeners: vec![Listener::SaslPlaintext],
        acl: true,
        message_max_bytes: Some(2000),
        properties: vec![
            "delete.topic.enable=true".to_owned(),
            "message.max.bytes=1000".to_owned(),
        ],
        ..KafkaOptions::default()
    });
    assert_eq!(cpus(&kafka.pid().to_string()), cpu);
    kafka.create_topic("mine", 1);
    let mut client = kafka.client(Listener::SaslPlaintext);
    client.set("sasl.mechanisms", "SCRAM-SHA-256");
    assert_eq!(deliver(&client, "mine", "x"), Err(Code::TopicAuthorizationFailed));
    kafka.allow("Write", "mine");
    assert_eq!(deliver(&client, "mine", "x"), Ok(()));
    let long = "x".repeat(1500);
    assert_eq!(
        deliver(&client, "mine", &long),
        Err(Code::MessageSizeTooLarge),
        "the last line takes effect"
    );
    assert_eq!(texts(&kafka, "mine"), ["x"]);
}

/// Returns the CPU affinity of a process as a list such as `0-3,7`.
fn cpus(process: &str) -> String {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).expect("a process");
    let cpus = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
    cpus.expect("its CPUs").trim().to_owned()
}

/// The results that librdkafka reports for a record: delivered, rejected, or no connection.
#[derive(Default)]
struct Results(Mutex<Vec<Result<(), Code>>>);

impl ClientContext for Results {
    fn error(&self, error: KafkaError, _: &str) {
        let code = error.rdkafka_error_code().expect("a code");
        // Other errors are temporary.
        if [Code::Authentication, Code::SSL, Code::AllBrokersDown].contains(&code) {
            self.0.lock().push(Err(code));
        }
    }
}

impl ProducerContext for Results {
    type DeliveryOpaque = ();

    fn delivery(&self, result: &DeliveryResult<'_>, (): ()) {
        let code = |error: &KafkaError| error.rdkafka_error_code().expect("a code");
        self.0.lock().push(result.as_ref().map(|_| ()).map_err(|(error, _)| code(error)));
    }
}

/// Returns the first result for a record.
fn deliver(client: &ClientConfig, topic: &str, payload: &str) -> Result<(), Code> {
    results_until(client, topic, payload, |results| !results.is_empty())[0]
}

/// Returns the results for a record, up to the result with this error.
fn results(client: &ClientConfig, topic: &str, payload: &str, code: Code) -> Vec<Result<(), Code>> {
    results_until(client, topic, payload, |results| results.contains(&Err(code)))
}

fn results_until(
    client: &ClientConfig,
    topic: &str,
    payload: &str,
    is_enough: impl Fn(&[Result<(), Code>]) -> bool,
) -> Vec<Result<(), Code>> {
    let producer: BaseProducer<Results> =
        client.create_with_context(Results::default()).expect("a producer");
    producer
        .send(BaseRecord::<str, str>::to(topic).payload(payload))
        .expect("capacity in the queue");
    let started = Instant::now();
    loop {
        let results = producer.context().0.lock().clone();
        if is_enough(&results) {
            return results;
        }
        assert!(started.elapsed() < TIMEOUT, "{results:?} for a record to {topic}");
        producer.poll(Duration::from_millis(10));
    }
}

/// Set in the child process, which runs the same test and is killed.
const CHILD: &str = "MILLSTREAM_TEST_CHILD";

#[test]
fn a_killed_test_process_leaves_nothing_behind() {
    if std::env::var_os(CHILD).is_some() {
        // The broker is started from a thread that exits, like a test's thread, and must keep
        // running.
        let pid = std::thread::spawn(|| Kafka::shared().pid()).join().expect("a broker");
        Kafka::shared().create_topic("alive", 1);
        eprintln!("broker {pid}");
        std::thread::sleep(TIMEOUT);
        return;
    }
    let mut child = Command::new(std::env::current_exe().expect("this program"));
    child.args(["--exact", "a_killed_test_process_leaves_nothing_behind", "--nocapture"]);
    let mut child = child
        .env(CHILD, "1")
        .env_remove(millstream_testkit_servers::shared::SOCKET_VARIABLE)
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the child starts");
    let mut stderr = BufReader::new(child.stderr.take().expect("its errors"))
        .lines()
        .map(|line| line.expect("text"));
    let pid =
        stderr.find_map(|line| Some(line.strip_prefix("broker ")?.to_owned())).expect("a broker");
    let broker = Path::new("/proc").join(pid);
    let command = std::fs::read_to_string(broker.join("cmdline")).expect("a running broker");
    let properties =
        Path::new(command.trim_end_matches('\0').rsplit('\0').next().expect("an argument"));
    assert!(properties.is_file(), "{}", properties.display());
    child.kill().expect("the child is killed");
    child.wait().expect("the child exits");
    let started = Instant::now();
    while broker.exists() || properties.exists() {
        assert!(started.elapsed() < TIMEOUT, "{} or {}", broker.display(), properties.display());
        std::thread::sleep(Duration::from_millis(10));
    }
}
