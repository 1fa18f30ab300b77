//! Options for a broker, and its `server.properties`.

use super::path_str;
use super::tls::Certificates;
use crate::ports::free_port;
use std::collections::HashMap;
use std::fmt::Write;
use std::path::Path;

/// User of the SASL listeners. `scripts/servers` stores the same SCRAM credentials.
pub(super) const USER: &str = "millstream";
pub(super) const PASSWORD: &str = "mill-secret";

/// A listener of the broker, named after its security protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Listener {
    /// Neither TLS nor SASL; every broker has this listener.
    Plaintext,
    /// TLS.
    Ssl,
    /// SASL without TLS: PLAIN, SCRAM-SHA-256, SCRAM-SHA-512.
    SaslPlaintext,
    /// The same SASL mechanisms over TLS.
    SaslSsl,
}

impl Listener {
    /// Returns the value of `security.protocol`.
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

    pub(super) fn has_sasl(self) -> bool {
        matches!(self, Listener::SaslPlaintext | Listener::SaslSsl)
    }
}

/// Options for a broker.
#[derive(Debug, Clone)]
pub struct KafkaOptions {
    /// Listeners in addition to [`Listener::Plaintext`].
    pub listeners: Vec<Listener>,
    /// Whether [`Listener::Ssl`] requires a client certificate of the broker's CA.
    pub client_certificates: bool,
    /// Enables ACLs: clients of [`Listener::Plaintext`] have all permissions, and [`Kafka::USER`]
    /// has none until [`Kafka::allow`].
    ///
    /// [`Kafka::USER`]: super::Kafka::USER
    /// [`Kafka::allow`]: super::Kafka::allow
    pub acl: bool,
    /// Maximum size of a record batch (`message.max.bytes`).
    pub message_max_bytes: Option<u32>,
    /// Additional lines of `server.properties`, which override generated lines.
    pub properties: Vec<String>,
    /// Maximum heap size of the JVM.
    pub heap: &'static str,
    /// Enables all JIT compilers: slower to start, faster under load. For benchmarks.
    pub full_jit: bool,
    /// CPU affinity as a list for `taskset -c`.
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
    /// Returns options for benchmarks, with this CPU affinity.
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
        put(&mut text, "log.dirs", path_str(data));
        if let Some(tls) = tls {
            self.tls(tls, &mut text);
        }
        for listener in self.all_listeners().into_iter().filter(|listener| listener.has_sasl()) {
            sasl(listener, &mut text);
        }
        if self.acl {
            text.push_str(ACL);
        }
        if let Some(bytes) = self.message_max_bytes {
            put(&mut text, "message.max.bytes", bytes);
        }
        // The last line with a key takes effect.
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
        put(text, "ssl.keystore.location", path_str(&tls.server));
        put(text, "ssl.truststore.type", "PEM");
        put(text, "ssl.truststore.location", path_str(&tls.ca));
        if self.client_certificates {
            put(text, "listener.name.ssl.ssl.client.auth", "required");
        }
    }
}

fn put(text: &mut String, key: &str, value: impl std::fmt::Display) {
    writeln!(text, "{key}={value}").expect("text is written");
}

fn sasl(listener: Listener, text: &mut String) {
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

/// A small node that is both broker and controller, and starts and recovers quickly. Topics are not
/// created automatically. Retention is unlimited, because tests write old timestamps.
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

/// The ports of a broker, which do not change at a restart.
pub(super) struct Ports {
    controller: u16,
    listeners: HashMap<Listener, u16>,
}

impl Ports {
    /// Chooses free ports.
    pub(super) fn choose(options: &KafkaOptions) -> Ports {
        let listeners = options.all_listeners().into_iter();
        let listeners = listeners.map(|listener| (listener, free_port())).collect();
        Ports { controller: free_port(), listeners }
    }

    /// Returns the port of a broker's plaintext listener, `HOST:PORT`.
    pub(super) fn of_plaintext(address: &str) -> Ports {
        let port = address.rsplit(':').next().and_then(|port| port.parse().ok());
        let port = port.expect("an address ends with a port");
        Ports { controller: 0, listeners: HashMap::from([(Listener::Plaintext, port)]) }
    }

    pub(super) fn address(&self, listener: Listener) -> String {
        let port = self.listeners.get(&listener);
        let port = port.unwrap_or_else(|| panic!("listener {} is not configured", listener.name()));
        format!("127.0.0.1:{port}")
    }
}
