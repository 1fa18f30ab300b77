//! Configuration of the `syslog` source.

use super::SyslogSource;
use super::handler::SyslogHandler;
use super::networks::Network;
use super::queue::{Queue, memory_bytes_max};
use super::rows::{PeerField, Rows};
use crate::component::{Component, SourceComponent};
use crate::sources::points::batch_emitter::BatchEmitter;
use crate::util::sockets;
use millstream_model::{BuildError, Interval, OptionError, Size, Source, SourceOpen};
use millstream_parsers::{Syslog, SyslogConfig as ParserConfig};
use millstream_receiver::{Address, Framing, Listen, Options, Receiver, TlsConfigs};
use millstream_transport::tls::{ServerTls, ServerTlsFiles};
use millstream_zones::zone;
use schemars::JsonSchema;
use serde::Deserialize;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// Supported URI schemes.
const SCHEMES: [&str; 4] = ["udp", "tcp", "unixgram", "unix"];

/// Maximum time from the first to the last byte of a message. A sender that is slower blocks one of
/// the connections for no use.
const MESSAGE_TIME_MAX: Duration = Duration::from_secs(60);

/// What happens to a message over the limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum LongMessage {
    /// Truncated and marked as `truncated`.
    #[default]
    Truncate,
    /// Dropped and counted.
    Drop,
}

/// Options for the `syslog` source.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SyslogConfig {
    /// Addresses to listen on: `udp://HOST:PORT`, `tcp://HOST:PORT`, `unixgram:///PATH` such as
    /// `unixgram:///dev/log`, or `unix:///PATH`.
    #[schemars(length(min = 1))]
    pub listen: Vec<String>,
    /// TLS on all `tcp://` addresses. The default is plain text.
    pub tls: Option<ServerTlsFiles>,
    /// Permissions for Unix sockets, in octal. The default allows all users to send.
    #[serde(default = "default_mode")]
    pub mode: String,
    /// Time zone for times without a zone: `UTC` (the default), `+02:00`, `Europe/Berlin`, or
    /// `local` for the host's zone.
    pub timezone: Option<String>,
    /// Fields for the network address of the sender. The default is `address`.
    #[serde(default = "default_peer_fields")]
    pub peer_fields: Vec<PeerField>,
    /// Networks from which messages are accepted, such as `10.0.0.0/8`. The default is all. Unix
    /// sockets are not affected.
    #[serde(default)]
    pub allowed_networks: Vec<String>,
    /// Maximum size of a message, 1KiB to 1MiB.
    #[serde(default = "default_max_message")]
    pub max_message: Size,
    /// What happens to a message over `max_message`.
    #[serde(default)]
    pub on_long_message: LongMessage,
    /// Maximum number of concurrent connections; at most half of the process's limit on open files.
    #[schemars(range(min = 1, max = 65536))]
    #[serde(default = "default_max_connections")]
    pub max_connections: usize,
    /// Time without data after which a connection is closed, 1s to 7d. The default is none, because
    /// many senders lose messages if the connection is closed.
    pub idle_timeout: Option<Interval>,
    /// Requested size of the kernel's receive buffer for each UDP socket or connection, 4KiB to
    /// 1GiB. The log shows the granted size. Raise it if the kernel drops datagrams.
    #[serde(default = "default_receive_buffer")]
    pub receive_buffer: Size,
    /// Number of threads that receive, 1 to 64. Raise it if one thread saturates a core.
    #[schemars(range(min = 1, max = 64))]
    #[serde(default = "default_receivers")]
    pub receivers: usize,
}

fn default_mode() -> String {
    "0722".to_owned()
}

fn default_peer_fields() -> Vec<PeerField> {
    vec![PeerField::Address]
}

fn default_max_message() -> Size {
    Size(64 << 10)
}

fn default_max_connections() -> usize {
    1024
}

fn default_receive_buffer() -> Size {
    Size(8 << 20)
}

fn default_receivers() -> usize {
    1
}

impl SyslogConfig {
    fn parser(&self) -> Result<Syslog, String> {
        let zone = self.timezone.as_deref().map(zone).transpose()?;
        Syslog::new(&ParserConfig { zone })
    }

    fn networks(&self) -> Result<Vec<Network>, String> {
        self.allowed_networks.iter().map(|text| text.parse()).collect()
    }

    fn receiver(&self) -> Result<Receiver, BuildError> {
        let mode = Some(sockets::parse_mode(&self.mode).map_err(BuildError::Options)?);
        let tls = self.tls.clone().map(tls_configs).transpose()?;
        let listen = |text: &String| -> Result<Listen, BuildError> {
            let address: Address = text.parse().map_err(BuildError::Options)?;
            Ok(Listen { address, mode, framing: Framing::Syslog, tls: tls.clone() })
        };
        let listen = self.listen.iter().map(listen).collect::<Result<Vec<_>, _>>()?;
        let options = Options {
            shares: self.receivers,
            receive_buffer: self.receive_buffer.0 as usize,
            message_bytes_max: self.max_message.0 as usize,
            connections_max: sockets::connections_max(self.max_connections, &listen),
            truncates: self.on_long_message == LongMessage::Truncate,
            credentials: false,
            addresses: !self.peer_fields.is_empty() || !self.allowed_networks.is_empty(),
            idle_timeout: self.idle_timeout.map(|timeout| timeout.0),
            message_timeout: Some(MESSAGE_TIME_MAX),
            merge: true,
        };
        Receiver::open(&listen, &options).map_err(|error| BuildError::Listen(error.to_string()))
    }

    /// Checks the items of lists.
    fn check_lists(&self) -> Vec<OptionError> {
        let twice = |text: &str| format!("'{text}' is listed twice; list it once");
        let mut errors = Vec::new();
        for (index, text) in self.listen.iter().enumerate() {
            let message = match self.listen[..index].contains(text) {
                true => Some(twice(text)),
                false => sockets::check_address(text, &SCHEMES).err(),
            };
            errors.extend(message.map(|text| OptionError::new(format!("/listen/{index}"), text)));
        }
        for (index, text) in self.allowed_networks.iter().enumerate() {
            let message = text.parse::<Network>().err();
            let pointer = format!("/allowed_networks/{index}");
            errors.extend(message.map(|text| OptionError::new(pointer, text)));
        }
        for (index, field) in self.peer_fields.iter().enumerate() {
            if self.peer_fields[..index].contains(field) {
                let pointer = format!("/peer_fields/{index}");
                errors.push(OptionError::new(pointer, "is listed twice; list it once"));
            }
        }
        errors
    }
}

/// Returns the TLS configurations of connections. Reads the files for the first time.
fn tls_configs(files: ServerTlsFiles) -> Result<TlsConfigs, BuildError> {
    let tls = ServerTls::new(files);
    tls.config().map_err(|error| BuildError::Listen(error.to_string()))?;
    Ok(TlsConfigs::new(move || tls.config().map_err(|error| error.to_string())))
}

impl Component for SyslogConfig {
    fn check(&self) -> Vec<OptionError> {
        let mut errors = self.check_lists();
        if self.tls.is_some() && !self.listen.iter().any(|text| text.starts_with("tcp://")) {
            let message = "has no effect without a `tcp://` address; add one to `listen`";
            errors.push(OptionError::new("/tls", message));
        }
        if let Err(message) = sockets::parse_mode(&self.mode) {
            errors.push(OptionError::new("/mode", message));
        }
        if let Err(message) = self.timezone.as_deref().map_or(Ok(()), |name| zone(name).map(drop)) {
            errors.push(OptionError::new("/timezone", message));
        }
        let sizes = [
            ("/max_message", self.max_message, 1 << 10, 1 << 20, "1KiB to 1MiB"),
            ("/receive_buffer", self.receive_buffer, 4 << 10, 1 << 30, "4KiB to 1GiB"),
        ];
        for (key, size, least, most, range) in sizes {
            if !(least..=most).contains(&size.0) {
                errors.push(OptionError::new(key, format!("out of range; use {range}")));
            }
        }
        let range = Duration::from_secs(1)..=Duration::from_secs(7 * 86_400);
        if self.idle_timeout.is_some_and(|timeout| !range.contains(&timeout.0)) {
            errors.push(OptionError::new("/idle_timeout", "out of range; use 1s to 7d"));
        }
        errors
    }

    fn files(&self) -> Vec<(String, PathBuf)> {
        let files = self.tls.iter().flat_map(ServerTlsFiles::files);
        files.map(|(pointer, path)| (format!("/tls{pointer}"), path)).collect()
    }

    fn claims(&self) -> Vec<String> {
        sockets::claims(&self.listen)
    }
}

impl SourceComponent for SyslogConfig {
    fn open(&self, open: SourceOpen) -> Result<Box<dyn Source>, BuildError> {
        let rows = Rows::new(
            self.parser().map_err(BuildError::Options)?,
            self.peer_fields.clone(),
            BatchEmitter::new(&open)?,
        );
        let receiver = self.receiver()?;
        let queue = Queue::new(&open.info.id, open.wake.clone());
        let networks: Arc<[Network]> = self.networks().map_err(BuildError::Options)?.into();
        let handler = |_| {
            let (queue, networks) = (queue.clone(), networks.clone());
            Box::new(SyslogHandler { queue, networks, counters: open.counters.clone() }) as _
        };
        let handlers = (0..self.receivers).map(handler).collect();
        open.counters.register_drop_reasons(&["kernel", "long_message"]);
        let receiving = receiver.start(&open.info.id, handlers).map_err(BuildError::Thread)?;
        Ok(Box::new(SyslogSource::new(open.info.id.clone(), open.counters, receiving, queue, rows)))
    }

    fn queue_bytes(&self) -> u64 {
        memory_bytes_max(self.max_message.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_names_the_option_and_says_what_to_write() {
        let long = format!("unix:///{}", "x".repeat(108));
        let listen = r#""listen":["udp://127.0.0.1:514"]"#;
        for (options, pointer, advice) in [
            (r#"{"listen":["http://a:1"]}"#.to_owned(), "/listen/0", "use udp://"),
            (format!(r#"{{"listen":["{long}"]}}"#), "/listen/0", "use a shorter one"),
            (
                r#"{"listen":["udp://127.0.0.1:1","udp://127.0.0.1:1"]}"#.to_owned(),
                "/listen/1",
                "list it once",
            ),
            (
                format!(r#"{{{listen},"allowed_networks":["::/0","x"]}}"#),
                "/allowed_networks/1",
                "use, for example, 192.0.2.0/24",
            ),
            (
                format!(r#"{{{listen},"peer_fields":["port","port"]}}"#),
                "/peer_fields/1",
                "list it once",
            ),
            (
                format!(r#"{{{listen},"tls":{{"cert_file":"c","key_file":"k"}}}}"#),
                "/tls",
                "add one to `listen`",
            ),
            (format!(r#"{{{listen},"mode":"9"}}"#), "/mode", "use three octal digits"),
            (format!(r#"{{{listen},"timezone":"Mars"}}"#), "/timezone", "Mars"),
            (format!(r#"{{{listen},"max_message":"2MiB"}}"#), "/max_message", "use 1KiB to 1MiB"),
            (format!(r#"{{{listen},"receive_buffer":"1B"}}"#), "/receive_buffer", "use 4KiB"),
            (format!(r#"{{{listen},"idle_timeout":"1ms"}}"#), "/idle_timeout", "use 1s to 7d"),
        ] {
            let config: SyslogConfig = serde_json::from_str(&options).unwrap();
            let errors = config.check();
            assert_eq!(errors.len(), 1, "{options}: {errors:?}");
            assert!(
                errors[0].pointer == pointer && errors[0].to_string().contains(advice),
                "{options}: {errors:?}"
            );
        }
    }
}
