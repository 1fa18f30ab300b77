//! A real Kafka broker of one node, for tests and benchmarks: started, stopped, killed, paused.
//!
//! `scripts/servers` installs it. Everything is in a temporary folder and on loopback, and nothing
//! stays behind however the test process ends.

mod options;
pub(crate) mod process;
mod read;
mod tls;
mod topics;

pub use options::{KafkaOptions, Listener};
pub use read::Record;
pub use tls::Certificates;

use options::{PASSWORD, Ports, USER};
use process::Install;
use rdkafka::ClientConfig;
use rdkafka::admin::AdminClient;
use rdkafka::client::DefaultClientContext;
use rustix::process::{Pid, Signal, kill_process};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Longest time a broker may take to start or to stop: a busy host, not a good one.
const PATIENCE: Duration = Duration::from_secs(90);

/// One broker. Killed when dropped.
pub struct Kafka {
    options: KafkaOptions,
    install: &'static Install,
    ports: Ports,
    tls: Option<Certificates>,
    broker: Option<Child>,
    admin: AdminClient<DefaultClientContext>,
    // The last field: the folder goes after the broker that writes into it.
    folder: TempDir,
}

impl Kafka {
    /// User of the SASL listeners, for PLAIN and for SCRAM.
    pub const USER: &str = USER;
    /// Password of that user.
    pub const PASSWORD: &str = PASSWORD;

    /// A broker without TLS and logins.
    pub fn start() -> Kafka {
        Kafka::with(KafkaOptions::default())
    }

    /// A broker as the options say.
    pub fn with(options: KafkaOptions) -> Kafka {
        // A port that was free may be taken before the broker binds it; new ones are tried then.
        for _ in 0..3 {
            let mut kafka = Kafka::prepare(options.clone());
            match kafka.launch() {
                Ok(()) => return kafka,
                Err(fault) if fault.contains("BindException") => {}
                Err(fault) => panic!("{fault}"),
            }
        }
        panic!("Kafka found its ports taken three times");
    }

    /// The broker that the tests of this process share: for topics with names of their own.
    pub fn shared() -> &'static Kafka {
        static SHARED: OnceLock<Kafka> = OnceLock::new();
        SHARED.get_or_init(Kafka::start)
    }

    fn prepare(options: KafkaOptions) -> Kafka {
        let install = Install::get();
        let folder = process::folder();
        let data = folder.path().join("data");
        fs::create_dir(&data).expect("a data folder");
        for file in ["meta.properties", "bootstrap.checkpoint"] {
            fs::copy(install.template().join(file), data.join(file))
                .expect("a formatted data folder");
        }
        let tls = options.has_tls().then(|| Certificates::make(folder.path()));
        let ports = Ports::choose(&options);
        let mut client = ClientConfig::new();
        client.set("bootstrap.servers", ports.address(Listener::Plaintext));
        // The broker is away at times, by intention; its return must be seen soon.
        client.set("reconnect.backoff.ms", "10").set("reconnect.backoff.max.ms", "50");
        let admin = client.create().expect("an admin client");
        Kafka { options, install, ports, tls, broker: None, admin, folder }
    }

    /// Starts the broker and waits until it serves; the fault with the end of its log if it does
    /// not.
    fn launch(&mut self) -> Result<(), String> {
        let properties = self.folder.path().join("server.properties");
        let text = self.options.properties(
            &self.ports,
            &self.folder.path().join("data"),
            self.tls.as_ref(),
        );
        fs::write(&properties, text).expect("server.properties is written");
        let log =
            File::options().create(true).append(true).open(self.log_path()).expect("a log file");
        let mut command = self.install.java(&self.options);
        command.arg("kafka.Kafka").arg(&properties);
        command
            .stdin(Stdio::null())
            .stdout(log.try_clone().expect("the log file twice"))
            .stderr(log);
        self.broker = Some(process::spawn(command).expect("java starts"));
        self.wait_ready()
    }

    fn wait_ready(&mut self) -> Result<(), String> {
        let begun = Instant::now();
        while !self.is_ready() {
            let broker = self.broker.as_mut().expect("a broker was started");
            let ended = broker.try_wait().expect("the broker's status");
            if ended.is_some() || begun.elapsed() > PATIENCE {
                let what = ended
                    .map_or("is not ready".to_owned(), |status| format!("ended with {status}"));
                return Err(format!(
                    "Kafka {what} after {:?}:\n{}",
                    begun.elapsed(),
                    self.log_tail()
                ));
            }
        }
        Ok(())
    }

    /// Whether the broker has joined and leads every partition it has.
    fn is_ready(&self) -> bool {
        let Ok(metadata) = self.admin.inner().fetch_metadata(None, Duration::from_millis(500))
        else {
            return false;
        };
        let mut partitions = metadata.topics().iter().flat_map(|topic| topic.partitions());
        !metadata.brokers().is_empty() && partitions.all(|partition| partition.leader() >= 0)
    }

    /// Stops the broker in order (SIGTERM) and waits. It keeps its data and its ports.
    pub fn stop(&mut self) {
        let Some(mut broker) = self.broker.take() else { return };
        signal(&broker, Signal::TERM);
        // A paused process hears SIGTERM only once it runs again.
        signal(&broker, Signal::CONT);
        let begun = Instant::now();
        while broker.try_wait().expect("the broker's status").is_none() {
            if begun.elapsed() > PATIENCE {
                end(&mut broker);
                panic!("Kafka does not stop:\n{}", self.log_tail());
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Kills the broker (SIGKILL) and waits. It keeps its data and its ports.
    pub fn kill(&mut self) {
        if let Some(mut broker) = self.broker.take() {
            end(&mut broker);
        }
    }

    /// Starts the broker again with its data, on the same ports; stops it first if it runs.
    pub fn restart(&mut self) {
        self.stop();
        if let Err(fault) = self.launch() {
            panic!("{fault}");
        }
    }

    /// Halts the broker (SIGSTOP): connections stay open and nothing answers.
    pub fn pause(&self) {
        signal(self.running(), Signal::STOP);
    }

    /// Lets a halted broker go on (SIGCONT).
    pub fn resume(&self) {
        signal(self.running(), Signal::CONT);
    }

    /// Process id of the broker.
    pub fn pid(&self) -> u32 {
        self.running().id()
    }

    fn running(&self) -> &Child {
        self.broker.as_ref().expect("the broker was stopped before")
    }

    /// Address of the listener without TLS and login, as `127.0.0.1:PORT`.
    pub fn bootstrap(&self) -> String {
        self.address(Listener::Plaintext)
    }

    /// Address of a listener that the options asked for, as `127.0.0.1:PORT`.
    pub fn address(&self, listener: Listener) -> String {
        self.ports.address(listener)
    }

    /// The certificates of a broker with TLS.
    pub fn certificates(&self) -> &Certificates {
        self.tls.as_ref().expect("the options ask for no listener with TLS")
    }

    /// What a client of librdkafka needs for a listener. For a login it lacks `sasl.mechanisms`.
    pub fn client(&self, listener: Listener) -> ClientConfig {
        let mut client = ClientConfig::new();
        client
            .set("bootstrap.servers", self.address(listener))
            .set("security.protocol", listener.name());
        if listener.has_tls() {
            client.set("ssl.ca.location", path_text(&self.certificates().ca));
        }
        if listener.has_login() {
            client.set("sasl.username", USER).set("sasl.password", PASSWORD);
        }
        client
    }

    /// Runs one of Kafka's own command line tools by its main class; what it prints. For rare
    /// things: each call takes the start of a JVM.
    pub fn tool(&self, class: &str, args: &[&str]) -> String {
        let mut command =
            self.install.java(&KafkaOptions { heap: "64m", ..KafkaOptions::default() });
        command.arg(class).args(["--bootstrap-server", &self.bootstrap()]).args(args);
        process::output(command)
    }

    /// Runs kcat against the listener without TLS and login; what it prints.
    pub fn kcat(&self, args: &[&str]) -> String {
        let mut command = Command::new("kcat");
        command.args(["-b", &self.bootstrap()]).args(args);
        process::output(command)
    }

    /// Everything the broker has logged since it was made.
    pub fn log(&self) -> String {
        fs::read_to_string(self.log_path()).unwrap_or_default()
    }

    fn log_path(&self) -> PathBuf {
        self.folder.path().join("server.log")
    }

    fn log_tail(&self) -> String {
        let log = self.log();
        let lines: Vec<&str> = log.lines().collect();
        lines[lines.len().saturating_sub(60)..].join("\n")
    }
}

impl Drop for Kafka {
    fn drop(&mut self) {
        self.kill();
    }
}

fn signal(broker: &Child, signal: Signal) {
    kill_process(Pid::from_child(broker), signal).expect("the broker gets a signal");
}

fn end(broker: &mut Child) {
    broker.kill().expect("the broker is killed");
    broker.wait().expect("the broker is gone");
}

/// A path for a configuration; those of this module are plain text.
fn path_text(path: &Path) -> &str {
    path.to_str().expect("a path of plain text")
}
