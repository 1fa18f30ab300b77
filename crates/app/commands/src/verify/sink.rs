//! The destination of the agent under test, and reading it back.

use millstream_kafka::Reader;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

/// Bytes per read.
const READ_BYTES: usize = 1 << 20;

/// Timeout for a broker's response.
const BROKER_MAX: Duration = Duration::from_secs(10);

/// Time that a topic must be silent before it is treated as read.
const QUIET: Duration = Duration::from_millis(500);

/// The destination that `--sink` names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// A file.
    File(PathBuf),
    /// A topic, with a broker address.
    Kafka { broker: String, topic: String },
}

impl FromStr for Target {
    type Err = String;

    fn from_str(text: &str) -> Result<Target, String> {
        let wrong = || "not a sink; use file:///PATH or kafka://HOST:PORT/TOPIC".to_owned();
        // Other characters would need escaping in the configuration.
        let is_plain =
            |text: &str| text.chars().all(|c| c.is_ascii_alphanumeric() || "/._-:[]".contains(c));
        if !is_plain(text) {
            return Err(wrong());
        }
        if let Some(path) = text.strip_prefix("file://").filter(|path| path.starts_with('/')) {
            return Ok(Target::File(path.into()));
        }
        let (broker, topic) = text
            .strip_prefix("kafka://")
            .and_then(|rest| rest.split_once('/'))
            .ok_or_else(wrong)?;
        match broker.contains(':') && !topic.is_empty() && !topic.contains('/') {
            true => Ok(Target::Kafka { broker: broker.into(), topic: topic.into() }),
            false => Err(wrong()),
        }
    }
}

/// An open destination, read from the position at which it was opened.
pub struct Sink {
    target: Target,
    delivered: Delivered,
}

enum Delivered {
    File { file: Option<File>, rest: Vec<u8> },
    Kafka(Reader),
}

impl Sink {
    /// Ensures that only lines delivered in this run are read back. A file must not exist yet.
    pub fn open(target: Target) -> Result<Sink, String> {
        let delivered = match &target {
            Target::File(path) if path.exists() => {
                return Err(format!("{} already exists; use a new file", path.display()));
            }
            Target::File(_) => Delivered::File { file: None, rest: Vec::new() },
            Target::Kafka { broker, topic } => {
                let settings = [("bootstrap.servers", broker.as_str())];
                let reader = Reader::open(&settings, topic, BROKER_MAX);
                Delivered::Kafka(
                    reader
                        .map_err(|error| format!("topic {topic} at {broker}: {}", error.message))?,
                )
            }
        };
        Ok(Sink { target, delivered })
    }

    /// Reads a file that another process appends to.
    pub fn appended(path: PathBuf) -> Sink {
        Sink {
            target: Target::File(path),
            delivered: Delivered::File { file: None, rest: Vec::new() },
        }
    }

    /// Returns the sink's options in the configuration.
    pub fn options(&self) -> String {
        match &self.target {
            Target::File(path) => {
                format!("    type: file\n    path: '{}'\n    sync: 200ms\n", path.display())
            }
            Target::Kafka { broker, topic } => {
                format!(
                    "    type: kafka\n    brokers: ['{broker}']\n    topic: '{topic}'\n    compression: lz4\n"
                )
            }
        }
    }

    /// Passes every event that was delivered since the last call to `take`, and returns their
    /// number.
    pub fn read(&mut self, mut take: impl FnMut(&[u8])) -> io::Result<u64> {
        match (&mut self.delivered, &self.target) {
            (Delivered::Kafka(reader), _) => Ok(reader.read(QUIET, take)),
            (Delivered::File { file, rest }, Target::File(path)) => {
                read_lines(path, file, rest, &mut take)
            }
            (Delivered::File { .. }, Target::Kafka { .. }) => Ok(0),
        }
    }
}

/// Continues to read a growing file. An incomplete line is kept in `rest`.
fn read_lines(
    path: &Path,
    file: &mut Option<File>,
    rest: &mut Vec<u8>,
    take: &mut impl FnMut(&[u8]),
) -> io::Result<u64> {
    if file.is_none() {
        match File::open(path) {
            Ok(opened) => *file = Some(opened),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(0),
            Err(error) => return Err(error),
        }
    }
    let mut count = 0;
    while let Some(file) = file.as_mut() {
        let before = rest.len();
        if file.take(READ_BYTES as u64).read_to_end(rest)? == 0 {
            break;
        }
        let mut begin = 0;
        while let Some(length) = rest[begin.max(before)..].iter().position(|byte| *byte == b'\n') {
            let end = begin.max(before) + length;
            take(&rest[begin..end]);
            (begin, count) = (end + 1, count + 1);
        }
        rest.drain(..begin);
    }
    Ok(count)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sinks_are_parsed_from_their_addresses() {
        assert_eq!("file:///a/b.json".parse(), Ok(Target::File("/a/b.json".into())));
        let kafka = Target::Kafka { broker: "h:9092".into(), topic: "logs".into() };
        assert_eq!("kafka://h:9092/logs".parse(), Ok(kafka));
        for wrong in [
            "",
            "file://a",
            "kafka://h/logs",
            "kafka://h:1/",
            "kafka://h:1/a/b",
            "file:///a'b",
            "http://x:1/y",
        ] {
            assert!(wrong.parse::<Target>().is_err(), "{wrong}");
        }
    }
}
