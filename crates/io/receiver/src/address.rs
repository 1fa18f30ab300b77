//! Listen addresses as URLs: `udp://127.0.0.1:8125`, `unixgram:///run/millstream/dsd.sock`.

use crate::dns_cache::DnsCache;
use std::fmt;
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

/// Lifetime of a resolved host name. The configuration check, the claim on the address and the bind
/// each resolve the name in turn, and must see the same address. Time spent waiting for DNS does
/// not count.
const DNS_TTL: Duration = Duration::from_secs(10);

/// Recently resolved host names.
static DNS_CACHE: DnsCache = DnsCache::new(DNS_TTL);

/// A listen address. [`Display`](fmt::Display) writes the URL that [`FromStr`] parses.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Address {
    /// `udp://127.0.0.1:8125`: datagrams.
    Udp(SocketAddr),
    /// `tcp://127.0.0.1:8125`: byte-stream connections.
    Tcp(SocketAddr),
    /// `unixgram:///run/a.sock`: datagrams from processes on this host.
    UnixDatagram(PathBuf),
    /// `unix:///run/a.sock`: byte-stream connections.
    UnixStream(PathBuf),
    /// `unixpacket:///run/a.sock`: packet connections.
    UnixPacket(PathBuf),
}

const KINDS: &str =
    "udp://HOST:PORT, tcp://HOST:PORT, unixgram:///PATH, unix:///PATH or unixpacket:///PATH";

impl Address {
    /// Returns the path of a Unix socket; `None` for other sockets.
    pub fn path(&self) -> Option<&std::path::Path> {
        match self {
            Address::Udp(_) | Address::Tcp(_) => None,
            Address::UnixDatagram(path) | Address::UnixStream(path) | Address::UnixPacket(path) => {
                Some(path)
            }
        }
    }

    /// Returns whether this is a byte stream, which needs [`Framing`](crate::Framing) to delimit
    /// messages.
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

    /// Resolves host names, so this call may block on DNS. Prefers an IPv4 address, as clients of
    /// these protocols do for `localhost`. Resolved names are cached for a few seconds.
    fn from_str(text: &str) -> Result<Address, String> {
        let Some((scheme, rest)) = text.split_once("://") else {
            return Err(format!("'{text}' does not begin with a socket type; use {KINDS}"));
        };
        match scheme {
            "udp" => host_and_port(text, rest).map(Address::Udp),
            "tcp" => host_and_port(text, rest).map(Address::Tcp),
            "unixgram" => path(text, scheme, rest).map(Address::UnixDatagram),
            "unix" => path(text, scheme, rest).map(Address::UnixStream),
            "unixpacket" => path(text, scheme, rest).map(Address::UnixPacket),
            _ => Err(format!("'{scheme}' is not a socket type; use {KINDS}")),
        }
    }
}

fn host_and_port(text: &str, rest: &str) -> Result<SocketAddr, String> {
    let (host, port) = rest.rsplit_once(':').unwrap_or((rest, ""));
    if host.is_empty() {
        return Err(format!(
            "'{text}' has no host; use 127.0.0.1 for this host, 0.0.0.0 for any address"
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
    let found = DNS_CACHE.resolve(rest, look_up).map_err(|error| {
        format!("'{text}': cannot resolve the host '{host}' ({error}); use its IP address instead")
    })?;
    found.ok_or_else(|| format!("'{text}': the host has no address; use an IP address instead"))
}

fn path(text: &str, scheme: &str, rest: &str) -> Result<PathBuf, String> {
    match rest {
        _ if !rest.starts_with('/') => Err(format!(
            "'{text}': the path is not absolute; use three slashes, as in {scheme}:///run/a.sock"
        )),
        _ if rest.ends_with('/') => {
            Err(format!("'{text}' is a folder; append the name of the socket"))
        }
        _ if rest.contains('\0') => {
            Err(format!("'{scheme}://…': the path contains a NUL byte; remove it"))
        }
        _ => Ok(PathBuf::from(rest)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn displayed_addresses_parse_back() {
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
    fn host_names_resolve_to_an_ip_address() {
        assert_eq!(
            "udp://localhost:81".parse::<Address>(),
            Ok(Address::Udp("127.0.0.1:81".parse().unwrap()))
        );
    }

    #[test]
    fn errors_say_what_to_write() {
        for (text, part) in [
            ("127.0.0.1:8125", "use udp://HOST:PORT"),
            ("dgram:///a", "'dgram' is not a socket type"),
            ("udp://127.0.0.1", "no port"),
            ("udp://127.0.0.1:99999", "no port"),
            ("udp://:8125", "no host"),
            ("udp://::1:8125", "brackets"),
            ("udp://no-such-host.invalid:1", "cannot resolve the host"),
            ("unixgram://run/a", "three slashes, as in unixgram:///"),
            ("unix:///run/", "is a folder"),
            ("unix:///a\0b", "NUL byte"),
        ] {
            let error = text.parse::<Address>().unwrap_err();
            assert!(error.contains(part), "{text}: {error}");
        }
    }
}
