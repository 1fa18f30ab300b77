//! Ports for servers that cannot choose one themselves.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::net::{Ipv4Addr, TcpListener, UdpSocket};

/// Returns an unused port of 127.0.0.1, for TCP or UDP.
///
/// The port is below the kernel's ephemeral range: otherwise an outgoing connection, or a socket
/// without a port, could take it before the server binds it, or while the server is stopped.
pub fn free_port() -> u16 {
    let is_free = |port: &u16| {
        let address = (Ipv4Addr::LOCALHOST, *port);
        TcpListener::bind(address).is_ok() && UdpSocket::bind(address).is_ok()
    };
    std::iter::repeat_with(random_port).take(1000).find(is_free).expect("a free port on loopback")
}

fn random_port() -> u16 {
    let random = RandomState::new().build_hasher().finish();
    12_000 + u16::try_from(random % 20_000).expect("a small number")
}
