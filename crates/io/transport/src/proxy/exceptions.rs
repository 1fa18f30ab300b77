//! The `NO_PROXY` variable, which lists targets to connect to directly.

use crate::target::Target;
use std::net::IpAddr;

/// The entries of the variable.
#[derive(Debug, PartialEq, Eq)]
pub struct Exceptions(Vec<Exception>);

#[derive(Debug, PartialEq, Eq)]
struct Exception {
    hosts: Hosts,
    /// The port to which the entry applies; `None` for all ports.
    port: Option<u16>,
}

/// The hosts to which an entry applies.
#[derive(Debug, PartialEq, Eq)]
enum Hosts {
    All,
    Address(IpAddr),
    Network {
        address: IpAddr,
        prefix_bits: u8,
    },
    /// A domain and its subdomains.
    Domain(String),
    /// Only the subdomains of a domain. The text begins with a dot.
    Subdomains(String),
}

impl Exceptions {
    /// Parses the variable, whose entries are separated by commas or whitespace.
    ///
    /// # Errors
    /// Returns an error if an entry looks like a network or a port but is invalid.
    pub fn parse(text: &str) -> Result<Exceptions, String> {
        let entries = text.split([',', ' ', '\t', '\n']).filter(|entry| !entry.is_empty());
        entries.map(exception).collect::<Result<_, _>>().map(Exceptions)
    }

    /// Returns whether an entry matches the target. Host names are not resolved.
    pub fn has(&self, target: &Target) -> bool {
        let host = target.host.trim_end_matches('.').to_ascii_lowercase();
        let address = host.parse::<IpAddr>().ok().map(|address| address.to_canonical());
        self.0.iter().any(|entry| {
            entry.port.is_none_or(|port| port == target.port) && entry.hosts.has(&host, address)
        })
    }
}

impl Hosts {
    fn has(&self, host: &str, address: Option<IpAddr>) -> bool {
        match self {
            Hosts::All => true,
            Hosts::Address(listed) => address == Some(*listed),
            Hosts::Network { address: network, prefix_bits } => address.is_some_and(|address| {
                prefix(address, *prefix_bits) == prefix(*network, *prefix_bits)
            }),
            Hosts::Domain(domain) => {
                let below = host.strip_suffix(domain.as_str());
                below.is_some_and(|below| below.is_empty() || below.ends_with('.'))
            }
            Hosts::Subdomains(suffix) => {
                host.len() > suffix.len() && host.ends_with(suffix.as_str())
            }
        }
    }
}

/// Returns whether an address is an IPv4 address, and the first `bits` bits of the address.
fn prefix(address: IpAddr, bits: u8) -> (bool, u128) {
    let (number, width): (u128, u8) = match address {
        IpAddr::V4(address) => (address.to_bits().into(), 32),
        IpAddr::V6(address) => (address.to_bits(), 128),
    };
    let first = number.checked_shr(u32::from(width.saturating_sub(bits))).unwrap_or(0);
    (address.is_ipv4(), first)
}

fn exception(entry: &str) -> Result<Exception, String> {
    let entry = entry.to_ascii_lowercase();
    let unusable =
        |what: &str| format!("the variable NO_PROXY: {entry:?} is not a {what}; correct it");
    if let Some((address, bits)) = entry.split_once('/') {
        let address = address.parse::<IpAddr>().map_err(|_| unusable("network"))?;
        let bits_max = if address.is_ipv4() { 32 } else { 128 };
        let bits = bits.parse().ok().filter(|bits| *bits <= bits_max);
        let prefix_bits = bits.ok_or_else(|| unusable("network"))?;
        return Ok(Exception { hosts: Hosts::Network { address, prefix_bits }, port: None });
    }
    if let Ok(address) = entry.trim_matches(['[', ']']).parse::<IpAddr>() {
        return Ok(Exception { hosts: Hosts::Address(address.to_canonical()), port: None });
    }
    let (host, port) = match entry.rsplit_once(':') {
        Some((host, port)) => (host, Some(port.parse().map_err(|_| unusable("host with a port"))?)),
        None => (entry.as_str(), None),
    };
    let host = host.trim_end_matches('.');
    let hosts = match host.trim_matches(['[', ']']).parse::<IpAddr>() {
        Ok(address) => Hosts::Address(address.to_canonical()),
        Err(_) if host == "*" => Hosts::All,
        Err(_) => match host.strip_prefix('*').unwrap_or(host) {
            suffix if suffix.starts_with('.') => Hosts::Subdomains(suffix.to_owned()),
            domain => Hosts::Domain(domain.to_owned()),
        },
    };
    Ok(Exception { hosts, port })
}
