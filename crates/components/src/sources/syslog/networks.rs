//! Networks from which the source accepts messages.

use std::net::IpAddr;
use std::str::FromStr;

/// A network, such as `192.0.2.0/24`, or a single address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Network {
    address: IpAddr,
    /// Number of leading bits that an address in the network has in common with `address`.
    prefix: u32,
}

/// Returns the bits of an address at the start of a number, and how many there are.
fn bits(address: IpAddr) -> (u128, u32) {
    match address {
        IpAddr::V4(address) => (u128::from(u32::from(address)) << 96, 32),
        IpAddr::V6(address) => (u128::from(address), 128),
    }
}

impl Network {
    /// Returns whether the network contains an address. An IPv4 address that is mapped into IPv6 is
    /// an IPv4 address.
    pub fn contains(&self, address: IpAddr) -> bool {
        let ((own, width), (other, of_other)) = (bits(self.address), bits(address.to_canonical()));
        let differing = (own ^ other).leading_zeros();
        width == of_other && differing >= self.prefix
    }
}

impl FromStr for Network {
    type Err = String;

    fn from_str(text: &str) -> Result<Network, String> {
        let error = || {
            format!("'{text}' is not a network; use, for example, 192.0.2.0/24 or 2001:db8::/32")
        };
        let (address, prefix) = match text.split_once('/') {
            None => (text, None),
            Some((address, prefix)) => (address, Some(prefix)),
        };
        let address: IpAddr = address.parse().map_err(|_| error())?;
        let width = bits(address).1;
        let prefix = prefix.map_or(Ok(width), str::parse).map_err(|_| error())?;
        if prefix > width {
            return Err(error());
        }
        Ok(Network { address, prefix })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_network_contains_the_addresses_with_its_prefix() {
        for (network, inside, outside) in [
            ("192.0.2.0/24", &["192.0.2.255", "::ffff:192.0.2.1"][..], &["192.0.3.0", "::1"][..]),
            ("192.0.2.77/25", &["192.0.2.1"], &["192.0.2.128"]),
            ("192.0.2.7", &["192.0.2.7"], &["192.0.2.6"]),
            ("0.0.0.0/0", &["198.51.100.1"], &["2001:db8::1"]),
            ("2001:db8::/33", &["2001:db8:7fff::1"], &["2001:db8:8000::", "32.1.13.184"]),
            ("::/0", &["2001:db8::1"], &["192.0.2.1"]),
        ] {
            let network: Network = network.parse().unwrap();
            let contains = |text: &&str| network.contains(text.parse().unwrap());
            assert!(inside.iter().all(contains) && !outside.iter().any(contains), "{network:?}");
        }
    }

    #[test]
    fn other_texts_are_no_networks() {
        for text in ["", "192.0.2.0/33", "192.0.2/24", "2001:db8::/129", "host", "192.0.2.0/", "/8"]
        {
            assert!(text.parse::<Network>().is_err(), "{text}");
        }
    }
}
