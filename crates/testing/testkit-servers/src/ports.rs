//! Ports for servers that cannot choose one themselves.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::net::{Ipv4Addr, TcpListener, UdpSocket};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::sync::{Mutex, PoisonError};

/// Locks on the ports of this process.
static LOCKS: Mutex<Vec<UnixDatagram>> = Mutex::new(Vec::new());

/// Returns an unused port of 127.0.0.1, for TCP or UDP. No other test gets the port while this
/// process runs, so a server can be stopped and started again on it.
///
/// The port is below the kernel's ephemeral range: otherwise an outgoing connection, or a socket
/// without a port, could take it before the server binds it, or while the server is stopped.
pub fn free_port() -> u16 {
    let is_free = |port: &u16| lock(*port) && is_unbound(*port);
    std::iter::repeat_with(random_port).take(1000).find(is_free).expect("a free port on loopback")
}

fn random_port() -> u16 {
    let random = RandomState::new().build_hasher().finish();
    12_000 + u16::try_from(random % 20_000).expect("a small number")
}

/// Locks a port until this process ends. Returns false if this or another process holds the lock.
///
/// The lock is a socket with an abstract name: the kernel frees it with the process, and its names
/// have the scope of the ports, a network namespace.
fn lock(port: u16) -> bool {
    let name = SocketAddr::from_abstract_name(format!("millstream-test-port-{port}"));
    let Ok(socket) = UnixDatagram::bind_addr(&name.expect("a short name")) else { return false };
    LOCKS.lock().unwrap_or_else(PoisonError::into_inner).push(socket);
    true
}

fn is_unbound(port: u16) -> bool {
    let address = (Ipv4Addr::LOCALHOST, port);
    TcpListener::bind(address).is_ok() && UdpSocket::bind(address).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_is_given_once() {
        let port = free_port();
        assert!(is_unbound(port));
        assert!(!lock(port));
    }
}
