//! Where to listen, as people write it: `udp://127.0.0.1:8125`,
//! `unixgram:///run/millstream/dsd.sock`.

use crate::names::Names;
use std::fmt;
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

/// The check of a configuration, what it claims and its sockets all need the address of a name, one
/// after the other: for so long, besides the time in which name servers are asked, they see the
/// same one.
const SAME: Duration = Duration::from_secs(10);

/// The addresses of names that were looked up a moment ago.
static FOUND: Names = Names::new(SAME);

/// A place to listen at. Written as a URL; [`Display`](fmt::Display) gives what [`FromStr`] takes.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Address {
    /// `udp://127.0.0.1:8125`: datagrams.
    Udp(SocketAddr),
    /// `tcp://127.0.0.1:8125`: connections with streams of bytes.
    Tcp(SocketAddr),
    /// `unixgram:///run/a.sock`: datagrams of processes of this host.
    UnixDatagram(PathBuf),
    /// `unix:///run/a.sock`: connections with streams of bytes.
    UnixStream(PathBuf),
    /// `unixpacket:///run/a.sock`: connections with packets.
    UnixPacket(PathBuf),
}

const KINDS: &str =
    "udp://HOST:PORT, tcp://HOST:PORT, unixgram:///PATH, unix:///PATH or unixpacket:///PATH";

impl Address {
    /// The path of a Unix socket.
    pub fn path(&self) -> Option<&std::path::Path> {
        match self {
            Address::Udp(_) | Address::Tcp(_) => None,
            Address::UnixDatagram(path) | Address::UnixStream(path) | Address::UnixPacket(path) => {
                Some(path)
            }
        }
    }

    /// True for streams of bytes, whose messages [`Framing`](crate::Framing) tells apart.
    pub fn is_stream(&self) -> bool {
        matches!(self, Address::Tcp(_) | Address::UnixStream(_))
    }

    pub(crate) fn is_datagram(&self) -> bool {
        matches!(self, Address::Udp(_) | Address::UnixDatagram(_))
    }

    pub(crate) fn socket(&self) -> Option<SocketAddr> {
        match self {
            Address::Udp(address) | Address::Tcp(address) => Some(*address),
            _ => None,
        }
    }

    fn scheme(&self) -> &'static str {
        match self {
            Address::Udp(_) => "udp",
            Address::Tcp(_) => "tcp",
            Address::UnixDatagram(_) => "unixgram",
            Address::UnixStream(_) => "unix",
            Address::UnixPacket(_) => "unixpacket",
        }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Address::Udp(address) | Address::Tcp(address) => {
                write!(f, "{}://{address}", self.scheme())
            }
            Address::UnixDatagram(path) | Address::UnixStream(path) | Address::UnixPacket(path) => {
                write!(f, "{}://{}", self.scheme(), path.display())
            }
        }
    }
}

impl FromStr for Address {
    type Err = String;

    /// Host names are looked up here, so this may wait for a name server; of several addresses an
    /// IPv4 one is preferred, as clients of the protocols prefer it for `localhost`. What was found
    /// is kept for some seconds.
    fn from_str(text: &str) -> Result<Address, String> {
        let Some((scheme, rest)) = text.split_once("://") else {
            return Err(format!("'{text}' does not begin with a kind of socket; write {KINDS}"));
        };
        match scheme {
            "udp" => host_and_port(text, rest).map(Address::Udp),
            "tcp" => host_and_port(text, rest).map(Address::Tcp),
            "unixgram" => path(text, scheme, rest).map(Address::UnixDatagram),
            "unix" => path(text, scheme, rest).map(Address::UnixStream),
            "unixpacket" => path(text, scheme, rest).map(Address::UnixPacket),
            _ => Err(format!("'{scheme}' is not a kind of socket; write {KINDS}")),
        }
    }
}

fn host_and_port(text: &str, rest: &str) -> Result<SocketAddr, String> {
    let (host, port) = rest.rsplit_once(':').unwrap_or((rest, ""));
    if host.is_empty() {
        return Err(format!(
            "'{text}' has no host; write 127.0.0.1 for this host, 0.0.0.0 for any address"
        ));
    }
    if host.contains(':') && !host.starts_with('[') {
        return Err(format!("'{text}': an IPv6 address needs brackets, as in udp://[::1]:8125"));
    }
    if port.parse::<u16>().is_err() {
        return Err(format!(
            "'{text}' has no port from 0 to 65535; append it, as in udp://127.0.0.1:8125"
        ));
    }
    let look_up = |rest: &str| Ok(rest.to_socket_addrs()?.collect());
    let found = FOUND.resolve(rest, look_up).map_err(|error| {
        format!("'{text}': the host '{host}' is not found ({error}); write its IP address instead")
    })?;
    found.ok_or_else(|| format!("'{text}': the host has no address; write an IP address instead"))
}

fn path(text: &str, scheme: &str, rest: &str) -> Result<PathBuf, String> {
    match rest {
        _ if !rest.starts_with('/') => Err(format!(
            "'{text}': the path is not absolute; write three slashes, as in {scheme}:///run/a.sock"
        )),
        _ if rest.ends_with('/') => {
            Err(format!("'{text}' is a folder; write the name of the socket as well"))
        }
        _ if rest.contains('\0') => {
            Err(format!("'{scheme}://…': the path has a NUL byte; remove it"))
        }
        _ => Ok(PathBuf::from(rest)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_shown_can_be_read_again() {
        for text in [
            "udp://127.0.0.1:8125",
            "udp://[::1]:8125",
            "tcp://0.0.0.0:0",
            "unixgram:///run/a.sock",
            "unix:///run/b.sock",
            "unixpacket:///run/c.sock",
        ] {
            assert_eq!(text.parse::<Address>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn a_name_becomes_an_address() {
        assert_eq!(
            "udp://localhost:81".parse::<Address>(),
            Ok(Address::Udp("127.0.0.1:81".parse().unwrap()))
        );
    }

    #[test]
    fn an_error_says_what_to_write() {
        for (text, part) in [
            ("127.0.0.1:8125", "write udp://HOST:PORT"),
            ("dgram:///a", "'dgram' is not a kind of socket"),
            ("udp://127.0.0.1", "no port"),
            ("udp://127.0.0.1:99999", "no port"),
            ("udp://:8125", "no host"),
            ("udp://::1:8125", "brackets"),
            ("udp://no-such-host.invalid:1", "is not found"),
            ("unixgram://run/a", "three slashes, as in unixgram:///"),
            ("unix:///run/", "is a folder"),
            ("unix:///a\0b", "NUL byte"),
        ] {
            let error = text.parse::<Address>().unwrap_err();
            assert!(error.contains(part), "{text}: {error}");
        }
    }
}
