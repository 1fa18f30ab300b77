//! A real single-node Kafka broker for tests and benchmarks, which they can stop, kill and pause.
//!
//! `scripts/servers` installs the broker. It uses a temporary folder and loopback, and leaves no
//! files or processes behind, regardless of how the test process ends.

mod options;
pub(crate) mod process;
mod read;
mod tls;
mod topics;
mod write;

pub use options::{KafkaOptions, Listener};
pub use read::Record;
pub use tls::Certificates;
pub use write::Written;

use crate::shared::{self, SharedServer};
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

/// Timeout for starting or stopping a broker, generous for busy hosts.
const TIMEOUT: Duration = Duration::from_secs(90);

/// A broker, which is killed on drop.
pub struct Kafka {
    options: KafkaOptions,
    install: &'static Install,
    ports: Ports,
    tls: Option<Certificates>,
    broker: Option<Child>,
    admin: AdminClient<DefaultClientContext>,
    // Declared last: the folder is removed after the broker that writes into it.
    folder: TempDir,
}

impl Kafka {
    /// User of the SASL listeners, for PLAIN and for SCRAM.
    pub const USER: &str = USER;
    /// Password of that user.
    pub const PASSWORD: &str = PASSWORD;

    /// Starts a broker without TLS and SASL.
    pub fn start() -> Kafka {
        Kafka::with(KafkaOptions::default())
    }

    /// Starts a broker with options.
    pub fn with(options: KafkaOptions) -> Kafka {
        // Another process may bind a free port before the broker does. Retry with new ports.
        for _ in 0..3 {
            let mut kafka = Kafka::prepare(options.clone());
            match kafka.launch() {
                Ok(()) => return kafka,
                Err(error) if error.contains("BindException") => {}
                Err(error) => panic!("{error}"),
            }
        }
        panic!("the ports of Kafka were in use three times");
    }

    /// Returns the broker that all tests of the run share. Each test uses topics with unique names.
    pub fn shared() -> &'static Kafka {
        static SHARED: OnceLock<Kafka> = OnceLock::new();
        SHARED.get_or_init(|| match shared::address(SharedServer::Kafka) {
            Some(address) => Kafka::running_at(&address),
            None => Kafka::start(),
        })
    }

    /// Returns a broker of another process, with its plaintext listener at `address`. It cannot be
    /// stopped, and its log is unavailable.
    fn running_at(address: &str) -> Kafka {
        let options = KafkaOptions::default();
        let folder = process::folder();
        Kafka::with_ports(options, Ports::of_plaintext(address), None, folder)
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
        Kafka::with_ports(options, ports, tls, folder)
    }

    fn with_ports(
        options: KafkaOptions,
        ports: Ports,
        tls: Option<Certificates>,
        folder: TempDir,
    ) -> Kafka {
        let mut client = ClientConfig::new();
        client.set("bootstrap.servers", ports.address(Listener::Plaintext));
        // Tests stop the broker. Reconnect quickly once it is back.
        client.set("reconnect.backoff.ms", "10").set("reconnect.backoff.max.ms", "50");
        let admin = client.create().expect("an admin client");
        let install = Install::get();
        Kafka { options, install, ports, tls, broker: None, admin, folder }
    }

    /// Starts the broker and waits until it is ready.
    ///
    /// # Errors
    /// Returns an error if the broker does not become ready; the error includes the end of its log.
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
        let started = Instant::now();
        while !self.is_ready() {
            let broker = self.broker.as_mut().expect("a broker was started");
            let status = broker.try_wait().expect("the broker's status");
            if status.is_some() || started.elapsed() > TIMEOUT {
                let what = status
                    .map_or("is not ready".to_owned(), |status| format!("exited with {status}"));
                return Err(format!(
                    "Kafka {what} after {:?}:\n{}",
                    started.elapsed(),
                    self.log_tail()
                ));
            }
        }
        Ok(())
    }

    /// Returns whether the broker has joined and leads all of its partitions.
    fn is_ready(&self) -> bool {
        let Ok(metadata) = self.admin.inner().fetch_metadata(None, Duration::from_millis(500))
        else {
            return false;
        };
        let mut partitions = metadata.topics().iter().flat_map(|topic| topic.partitions());
        !metadata.brokers().is_empty() && partitions.all(|partition| partition.leader() >= 0)
    }

    /// Stops the broker gracefully (SIGTERM) and waits. It keeps its data and ports.
    pub fn stop(&mut self) {
        let Some(mut broker) = self.broker.take() else { return };
        signal(&broker, Signal::TERM);
        // A stopped process handles SIGTERM only after SIGCONT.
        signal(&broker, Signal::CONT);
        let started = Instant::now();
        while broker.try_wait().expect("the broker's status").is_none() {
            if started.elapsed() > TIMEOUT {
                kill_and_wait(&mut broker);
                panic!("Kafka does not stop:\n{}", self.log_tail());
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Kills the broker (SIGKILL) and waits. It keeps its data and ports.
    pub fn kill(&mut self) {
        if let Some(mut broker) = self.broker.take() {
            kill_and_wait(&mut broker);
        }
    }

    /// Restarts the broker with the same data and ports. Stops it first if it is running.
    pub fn restart(&mut self) {
        self.stop();
        if let Err(error) = self.launch() {
            panic!("{error}");
        }
    }

    /// Pauses the broker (SIGSTOP): connections stay open without responses.
    pub fn pause(&self) {
        signal(self.running(), Signal::STOP);
    }

    /// Resumes a paused broker (SIGCONT).
    pub fn resume(&self) {
        signal(self.running(), Signal::CONT);
    }

    /// Returns the process id of the broker.
    pub fn pid(&self) -> u32 {
        self.running().id()
    }

    fn running(&self) -> &Child {
        self.broker.as_ref().expect("the broker is not running")
    }

    /// Returns the address of the plaintext listener as `127.0.0.1:PORT`.
    pub fn bootstrap(&self) -> String {
        self.address(Listener::Plaintext)
    }

    /// Returns the address of a configured listener as `127.0.0.1:PORT`.
    pub fn address(&self, listener: Listener) -> String {
        self.ports.address(listener)
    }

    /// Returns the certificates of a broker with TLS.
    pub fn certificates(&self) -> &Certificates {
        self.tls.as_ref().expect("no TLS listener is configured")
    }

    /// Returns the librdkafka client settings for a listener. For SASL, the caller must add
    /// `sasl.mechanisms`.
    pub fn client(&self, listener: Listener) -> ClientConfig {
        let mut client = ClientConfig::new();
        client
            .set("bootstrap.servers", self.address(listener))
            .set("security.protocol", listener.name());
        if listener.has_tls() {
            client.set("ssl.ca.location", path_str(&self.certificates().ca));
        }
        if listener.has_sasl() {
            client.set("sasl.username", USER).set("sasl.password", PASSWORD);
        }
        client
    }

    /// Runs one of Kafka's command-line tools by its main class. Returns its output. Slow: each
    /// call starts a JVM.
    pub fn tool(&self, class: &str, args: &[&str]) -> String {
        let mut command =
            self.install.java(&KafkaOptions { heap: "64m", ..KafkaOptions::default() });
        command.arg(class).args(["--bootstrap-server", &self.bootstrap()]).args(args);
        process::output(command)
    }

    /// Runs kcat with the plaintext listener. Returns its output.
    pub fn kcat(&self, args: &[&str]) -> String {
        let mut command = Command::new("kcat");
        command.args(["-b", &self.bootstrap()]).args(args);
        process::output(command)
    }

    /// Returns the broker's whole log, including the log before restarts.
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

fn kill_and_wait(broker: &mut Child) {
    broker.kill().expect("the broker is killed");
    broker.wait().expect("the broker exits");
}

/// Returns a path as a string; the paths of this module are valid UTF-8.
fn path_str(path: &Path) -> &str {
    path.to_str().expect("a UTF-8 path")
}
