//! Values of `${BENCH_…}` in a scenario: paths and addresses of one run.

use crate::scratch::Scratch;
use std::io;
use std::net::{TcpListener, UdpSocket};
use std::path::{Path, PathBuf};

const OPEN: &str = "${BENCH_";

/// The variables of one run of one program.
pub struct Variables(Vec<(&'static str, String)>);

impl Variables {
    /// Creates new folders for data and output, and chooses a free port.
    pub fn fresh(scratch: &Scratch, input: &Path) -> io::Result<Self> {
        let data = scratch.empty_folder("data")?;
        let output = scratch.empty_folder("out")?.join("out.log");
        let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        let text = |path: &Path| path.to_string_lossy().into_owned();
        Ok(Variables(vec![
            ("INPUT", text(input)),
            ("OUTPUT", text(&output)),
            ("DATA", text(&data)),
            ("CONFIG", text(&scratch.path("program.conf"))),
            ("LOG", text(&scratch.path("program.log"))),
            ("PORT", port.to_string()),
        ]))
    }

    /// Adds the address of a broker and the name of a topic.
    pub fn with_broker(mut self, address: &str, topic: &str) -> Self {
        self.0.extend([("BROKER", address.to_owned()), ("TOPIC", topic.to_owned())]);
        self
    }

    /// Adds the addresses of a load: a free UDP port and the path of a socket that does not exist
    /// yet.
    pub fn with_sockets(mut self, scratch: &Scratch) -> io::Result<Self> {
        let port = UdpSocket::bind("127.0.0.1:0")?.local_addr()?.port();
        let socket = scratch.empty_folder("sockets")?.join("load.sock");
        self.0
            .extend([("UDP", port.to_string()), ("SOCKET", socket.to_string_lossy().into_owned())]);
        Ok(self)
    }

    /// Sets `name` to `value`.
    pub fn with(mut self, name: &'static str, value: &str) -> Self {
        self.0.push((name, value.to_owned()));
        self
    }

    /// Returns the path in `name`.
    pub fn path(&self, name: &str) -> PathBuf {
        self.value(name).map_or_else(PathBuf::new, PathBuf::from)
    }

    /// Returns `text` with every `${BENCH_…}` replaced.
    pub fn fill(&self, text: &str) -> io::Result<String> {
        let mut parts = text.split(OPEN);
        let mut filled = parts.next().unwrap_or_default().to_owned();
        for part in parts {
            let (name, rest) = part.split_once('}').unwrap_or((part, ""));
            let value = self.value(name).ok_or_else(|| {
                io::Error::other(format!("{OPEN}{name}}} has no value in this scenario"))
            })?;
            filled.push_str(value);
            filled.push_str(rest);
        }
        Ok(filled)
    }

    fn value(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(of, _)| *of == name).map(|(_, value)| value.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_replaced_and_unknown_ones_refused() {
        let variables = Variables(vec![("INPUT", "/in".to_owned())]);
        assert_eq!(
            variables.fill("a ${BENCH_INPUT} ${b} ${BENCH_INPUT}!").unwrap(),
            "a /in ${b} /in!"
        );
        assert!(variables.fill("${BENCH_BROKER}").is_err());
    }
}
