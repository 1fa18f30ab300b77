//! The Kafka harness itself: what it starts, stops and reads back is what other tests lean on.

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

const PATIENCE: Duration = Duration::from_secs(30);
const CODECS: [&str; 4] = ["gzip", "snappy", "lz4", "zstd"];

/// Sends lines and waits until the broker has them all.
fn produce(client: &ClientConfig, topic: &str, lines: &[String]) {
    let producer: BaseProducer = client.create().expect("a producer");
    for line in lines {
        let headers = OwnedHeaders::new()
            .insert(Header { key: "length", value: Some(&line.len().to_string()) });
        let record = BaseRecord::to(topic).partition(0).key("a key").payload(line).headers(headers);
        producer.send(record).expect("room in the queue");
    }
    producer.flush(PATIENCE).expect("everything is sent");
}

fn lines(what: &str) -> Vec<String> {
    (0..100).map(|i| format!("line {i} of {what}")).collect()
}

fn texts(kafka: &Kafka, topic: &str) -> Vec<String> {
    kafka.read(topic).iter().map(|record| record.text().to_owned()).collect()
}

#[test]
fn three_clients_read_back_every_codec() {
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
fn topics_come_and_go() {
    let kafka = Kafka::shared();
    kafka.create_topic_with("small", 2, &[("max.message.bytes", "200")]);
    assert_eq!((kafka.count("small"), kafka.read("small").len()), (0, 0));
    let client = kafka.client(Listener::Plaintext);
    let refused = deliver(&client, "small", &"x".repeat(500));
    assert_eq!(refused, Err(Code::MessageSizeTooLarge));
    produce(&client, "small", &["short".to_owned()]);
    assert_eq!(kafka.count("small"), 1);
    kafka.delete_topic("small");
    kafka.create_topic("small", 1);
    assert_eq!(kafka.count("small"), 0);
}

#[test]
fn a_broker_that_returns_has_its_address_and_its_data() {
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
    let hurried = client.clone().set("message.timeout.ms", "300").to_owned();
    assert_eq!(deliver(&hurried, "kept", "lost"), Err(Code::MessageTimedOut));
    kafka.resume();
    produce(&client, "kept", &all[3]);
    let mut got = texts(&kafka, "kept");
    // The record that timed out may have lain in the socket's buffer.
    got.retain(|line| line != "lost");
    assert_eq!(got, all.concat());
}

#[test]
fn logins_and_certificates_are_checked() {
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
    // With TLS 1.3 the handshake is over for the client before the broker refuses: it hangs up.
    assert_eq!(
        deliver(&client, "guarded", "x"),
        Err(Code::AllBrokersDown),
        "without a certificate"
    );
    identify(&mut client, &certificates.other_client_cert, &certificates.other_client_key);
    assert_eq!(
        deliver(&client, "guarded", "x"),
        Err(Code::AllBrokersDown),
        "with a certificate of an unknown authority"
    );
    identify(&mut client, &certificates.client_cert, &certificates.client_key);
    assert_eq!(deliver(&client, "guarded", "certificate"), Ok(()));
    client.set("ssl.ca.location", certificates.other_ca.display().to_string());
    assert_eq!(deliver(&client, "guarded", "x"), Err(Code::SSL), "with another authority");
    assert_eq!(kafka.count("guarded"), sent + 1);
}

fn identify(client: &mut ClientConfig, cert: &Path, key: &Path) {
    client.set("ssl.certificate.location", cert.display().to_string());
    client.set("ssl.key.location", key.display().to_string());
}

#[test]
fn rights_and_limits_hold() {
    let cpu = cpus("self").split(['-', ',']).next().expect("a processor").to_owned();
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
        "the last line counts"
    );
    assert_eq!(texts(&kafka, "mine"), ["x"]);
}

/// The processors that a process may use, as a list like `0-3,7`.
fn cpus(process: &str) -> String {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).expect("a process");
    let cpus = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
    cpus.expect("its processors").trim().to_owned()
}

/// The first thing that librdkafka says of a record: delivered, refused, or no way to the broker.
#[derive(Default)]
struct Verdict(Mutex<Option<Result<(), Code>>>);

impl Verdict {
    fn set(&self, verdict: Result<(), Code>) {
        self.0.lock().get_or_insert(verdict);
    }
}

impl ClientContext for Verdict {
    fn error(&self, error: KafkaError, _: &str) {
        let code = error.rdkafka_error_code().expect("a code");
        // Others are attempts of which the next may go well.
        if [Code::Authentication, Code::SSL, Code::AllBrokersDown].contains(&code) {
            self.set(Err(code));
        }
    }
}

impl ProducerContext for Verdict {
    type DeliveryOpaque = ();

    fn delivery(&self, result: &DeliveryResult<'_>, (): ()) {
        let code = |error: &KafkaError| error.rdkafka_error_code().expect("a code");
        self.set(result.as_ref().map(|_| ()).map_err(|(error, _)| code(error)));
    }
}

fn deliver(client: &ClientConfig, topic: &str, payload: &str) -> Result<(), Code> {
    let producer: BaseProducer<Verdict> =
        client.create_with_context(Verdict::default()).expect("a producer");
    producer.send(BaseRecord::<str, str>::to(topic).payload(payload)).expect("room in the queue");
    let begun = Instant::now();
    loop {
        if let Some(verdict) = *producer.context().0.lock() {
            return verdict;
        }
        assert!(begun.elapsed() < PATIENCE, "no word of a record to {topic}");
        producer.poll(Duration::from_millis(10));
    }
}

/// Set for the process that is to be killed, which is this test once more.
const TO_BE_KILLED: &str = "MILLSTREAM_TEST_TO_BE_KILLED";

#[test]
fn a_test_process_that_is_killed_leaves_nothing() {
    if std::env::var_os(TO_BE_KILLED).is_some() {
        // From a thread that ends, as a test's thread does: the broker must live on.
        let pid = std::thread::spawn(|| Kafka::shared().pid()).join().expect("a broker");
        Kafka::shared().create_topic("alive", 1);
        eprintln!("broker {pid}");
        std::thread::sleep(PATIENCE);
        return;
    }
    let mut tests = Command::new(std::env::current_exe().expect("this program"));
    tests.args(["--exact", "a_test_process_that_is_killed_leaves_nothing", "--nocapture"]);
    let mut tests = tests
        .env(TO_BE_KILLED, "1")
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the tests start");
    let mut said = BufReader::new(tests.stderr.take().expect("its errors"))
        .lines()
        .map(|line| line.expect("text"));
    let pid =
        said.find_map(|line| Some(line.strip_prefix("broker ")?.to_owned())).expect("a broker");
    let broker = Path::new("/proc").join(pid);
    let command = std::fs::read_to_string(broker.join("cmdline")).expect("a broker that runs");
    let properties =
        Path::new(command.trim_end_matches('\0').rsplit('\0').next().expect("an argument"));
    assert!(properties.is_file(), "{}", properties.display());
    tests.kill().expect("the tests are killed");
    tests.wait().expect("the tests are gone");
    let begun = Instant::now();
    while broker.exists() || properties.exists() {
        assert!(begun.elapsed() < PATIENCE, "{} or {}", broker.display(), properties.display());
        std::thread::sleep(Duration::from_millis(10));
    }
}
