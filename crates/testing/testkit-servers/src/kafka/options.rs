//! What a broker is started with, and the `server.properties` that comes of it.

use super::path_text;
use super::tls::Certificates;
use std::collections::HashMap;
use std::fmt::Write;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::net::TcpListener;
use std::path::Path;

/// User of the SASL listeners; `scripts/servers` formats the SCRAM logins with the same two.
pub(super) const USER: &str = "millstream";
pub(super) const PASSWORD: &str = "mill-secret";

/// An address of the broker, named after its protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Listener {
    /// Neither TLS nor login; every broker has it.
    Plaintext,
    /// TLS.
    Ssl,
    /// Login over a plain connection: PLAIN, SCRAM-SHA-256, SCRAM-SHA-512.
    SaslPlaintext,
    /// The same logins over TLS.
    SaslSsl,
}

impl Listener {
    /// Kafka's word for it, as in `security.protocol`.
    pub fn name(self) -> &'static str {
        match self {
            Listener::Plaintext => "PLAINTEXT",
            Listener::Ssl => "SSL",
            Listener::SaslPlaintext => "SASL_PLAINTEXT",
            Listener::SaslSsl => "SASL_SSL",
        }
    }

    pub(super) fn has_tls(self) -> bool {
        matches!(self, Listener::Ssl | Listener::SaslSsl)
    }

    pub(super) fn has_login(self) -> bool {
        matches!(self, Listener::SaslPlaintext | Listener::SaslSsl)
    }
}

/// What a broker is started with.
#[derive(Debug, Clone)]
pub struct KafkaOptions {
    /// Listeners beside [`Listener::Plaintext`].
    pub listeners: Vec<Listener>,
    /// The listener [`Listener::Ssl`] refuses clients without a certificate of the broker's CA.
    pub client_certificates: bool,
    /// Users need rights: who comes over [`Listener::Plaintext`] may do everything, [`Kafka::USER`]
    /// nothing until [`Kafka::allow`].
    ///
    /// [`Kafka::USER`]: super::Kafka::USER
    /// [`Kafka::allow`]: super::Kafka::allow
    pub acl: bool,
    /// Largest record batch the broker takes (`message.max.bytes`).
    pub message_max_bytes: Option<u32>,
    /// Further lines of `server.properties`; they win over those made here.
    pub properties: Vec<String>,
    /// Largest heap of the JVM.
    pub heap: &'static str,
    /// All of the JVM's compilers: slower to start, faster under load. For benchmarks.
    pub full_jit: bool,
    /// Processors it may run on, as `taskset -c` takes them.
    pub cpus: Option<String>,
}

impl Default for KafkaOptions {
    fn default() -> KafkaOptions {
        KafkaOptions {
            listeners: Vec::new(),
            client_certificates: false,
            acl: false,
            message_max_bytes: None,
            properties: Vec::new(),
            heap: "256m",
            full_jit: false,
            cpus: None,
        }
    }
}

impl KafkaOptions {
    /// A broker for benchmarks, on the given processors.
    pub fn bench(cpus: &str) -> KafkaOptions {
        KafkaOptions {
            heap: "512m",
            full_jit: true,
            cpus: Some(cpus.to_owned()),
            ..KafkaOptions::default()
        }
    }

    pub(super) fn has_tls(&self) -> bool {
        self.listeners.iter().any(|listener| listener.has_tls())
    }

    fn all_listeners(&self) -> Vec<Listener> {
        let mut all = vec![Listener::Plaintext];
        for listener in &self.listeners {
            if !all.contains(listener) {
                all.push(*listener);
            }
        }
        all
    }

    pub(super) fn properties(
        &self,
        ports: &Ports,
        data: &Path,
        tls: Option<&Certificates>,
    ) -> String {
        let mut text = BASE.to_owned();
        self.addresses(ports, &mut text);
        put(&mut text, "log.dirs", path_text(data));
        if let Some(tls) = tls {
            self.tls(tls, &mut text);
        }
        for listener in self.all_listeners().into_iter().filter(|listener| listener.has_login()) {
            logins(listener, &mut text);
        }
        if self.acl {
            text.push_str(ACL);
        }
        if let Some(bytes) = self.message_max_bytes {
            put(&mut text, "message.max.bytes", bytes);
        }
        // The last line with a key is the one that counts.
        self.properties.iter().fold(text, |text, line| text + line + "\n")
    }

    fn addresses(&self, ports: &Ports, text: &mut String) {
        let all = self.all_listeners();
        let urls = all.iter().map(|l| format!("{}://{}", l.name(), ports.address(*l)));
        let urls = urls.collect::<Vec<_>>().join(",");
        let protocols: String = all.iter().map(|l| format!(",{0}:{0}", l.name())).collect();
        let controller = format!("127.0.0.1:{}", ports.controller);
        put(text, "advertised.listeners", &urls);
        put(text, "listeners", format!("{urls},CONTROLLER://{controller}"));
        put(text, "listener.security.protocol.map", format!("CONTROLLER:PLAINTEXT{protocols}"));
        put(text, "controller.quorum.voters", format!("1@{controller}"));
    }

    fn tls(&self, tls: &Certificates, text: &mut String) {
        put(text, "ssl.keystore.type", "PEM");
        put(text, "ssl.keystore.location", path_text(&tls.server));
        put(text, "ssl.truststore.type", "PEM");
        put(text, "ssl.truststore.location", path_text(&tls.ca));
        if self.client_certificates {
            put(text, "listener.name.ssl.ssl.client.auth", "required");
        }
    }
}

fn put(text: &mut String, key: &str, value: impl std::fmt::Display) {
    writeln!(text, "{key}={value}").expect("text is written");
}

fn logins(listener: Listener, text: &mut String) {
    let prefix = format!("listener.name.{}", listener.name().to_lowercase());
    let module = "org.apache.kafka.common.security";
    let user = format!("{module}.plain.PlainLoginModule required user_{USER}=\"{PASSWORD}\";");
    put(text, &format!("{prefix}.sasl.enabled.mechanisms"), "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512");
    put(text, &format!("{prefix}.plain.sasl.jaas.config"), user);
    for mechanism in ["scram-sha-256", "scram-sha-512"] {
        let login = format!("{module}.scram.ScramLoginModule required;");
        put(text, &format!("{prefix}.{mechanism}.sasl.jaas.config"), login);
    }
}

/// One node that is broker and controller, small, and quick to start and to return after a kill.
/// A topic that nobody made is an error. Records of any age are kept: tests write old timestamps.
const BASE: &str = "\
process.roles=broker,controller
node.id=1
inter.broker.listener.name=PLAINTEXT
controller.listener.names=CONTROLLER
auto.create.topics.enable=false
num.partitions=1
log.retention.ms=-1
offsets.topic.num.partitions=1
offsets.topic.replication.factor=1
transaction.state.log.num.partitions=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
group.initial.rebalance.delay.ms=0
broker.heartbeat.interval.ms=500
broker.session.timeout.ms=3000
log.index.size.max.bytes=65536
log.cleaner.dedupe.buffer.size=4194304
num.network.threads=2
num.io.threads=2
";

const ACL: &str = "\
authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer
super.users=User:ANONYMOUS
";

/// The ports of a broker; it keeps them as long as it exists.
pub(super) struct Ports {
    controller: u16,
    listeners: HashMap<Listener, u16>,
}

impl Ports {
    /// Free ports. Below those that the kernel gives to outgoing connections: one of these could
    /// take the place of a broker that is stopped for a while.
    pub(super) fn choose(options: &KafkaOptions) -> Ports {
        let mut held = Vec::new();
        let mut port = || {
            let socket =
                (0..1000).find_map(|_| TcpListener::bind(("127.0.0.1", random_port())).ok());
            let socket = socket.expect("a free port on loopback");
            let port = socket.local_addr().expect("the address of a socket").port();
            // Held until all are chosen, so that none is chosen twice.
            held.push(socket);
            port
        };
        let controller = port();
        let listeners =
            options.all_listeners().into_iter().map(|listener| (listener, port())).collect();
        Ports { controller, listeners }
    }

    pub(super) fn address(&self, listener: Listener) -> String {
        let port = self.listeners.get(&listener);
        let port =
            port.unwrap_or_else(|| panic!("the options ask for no listener {}", listener.name()));
        format!("127.0.0.1:{port}")
    }
}

fn random_port() -> u16 {
    let random = RandomState::new().build_hasher().finish();
    12_000 + u16::try_from(random % 20_000).expect("a small number")
}
