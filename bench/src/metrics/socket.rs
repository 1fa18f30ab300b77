//! The kernel's view of a UDP socket of any process.

use rustix::net::sockopt;
use rustix::process::{Pid, PidfdFlags, PidfdGetfdFlags, pidfd_getfd, pidfd_open};
use std::fs;
use std::io;
use std::os::fd::AsFd;

/// A row of `/proc/net/udp`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Row {
    /// Bytes in the receive queue, including the kernel's overhead.
    pub queued_bytes: u64,
    /// Datagrams dropped because the buffer was full.
    pub drops: u64,
    inode: u64,
}

/// Returns the row of the socket that is bound to `port`; `None` if there is no such socket.
pub fn row(port: u16) -> io::Result<Option<Row>> {
    let text = fs::read_to_string("/proc/net/udp")? + &fs::read_to_string("/proc/net/udp6")?;
    Ok(text.lines().find_map(|line| parse(line, port)))
}

/// Parses a row:
/// `sl local_address rem_address st tx_queue:rx_queue tr:tm->when retrnsmt uid timeout inode ref pointer drops`
fn parse(line: &str, port: u16) -> Option<Row> {
    let fields: Vec<&str> = line.split_whitespace().collect();
    let (_, local) = fields.get(1)?.rsplit_once(':')?;
    if u16::from_str_radix(local, 16).ok()? != port {
        return None;
    }
    let (_, queued) = fields.get(4)?.split_once(':')?;
    Some(Row {
        queued_bytes: u64::from_str_radix(queued, 16).ok()?,
        drops: fields.get(12)?.parse().ok()?,
        inode: fields.get(9)?.parse().ok()?,
    })
}

/// Returns the receive buffer that the kernel granted to the socket that process `pid` has bound to
/// `port`, in bytes.
pub fn granted_bytes(pid: u32, port: u16) -> io::Result<usize> {
    let missing = || io::Error::other(format!("process {pid} has no socket at port {port}"));
    let wanted = format!("socket:[{}]", row(port)?.ok_or_else(missing)?.inode);
    let process = pidfd_open(Pid::from_raw(pid as i32).ok_or_else(missing)?, PidfdFlags::empty())?;
    for entry in fs::read_dir(format!("/proc/{pid}/fd"))? {
        let path = entry?.path();
        if fs::read_link(&path).is_ok_and(|link| link.as_os_str() == wanted.as_str()) {
            let number = path
                .file_name()
                .and_then(|name| name.to_str()?.parse().ok())
                .ok_or_else(missing)?;
            let socket = pidfd_getfd(process, number, PidfdGetfdFlags::empty())?;
            return Ok(sockopt::socket_recv_buffer_size(socket)?);
        }
    }
    Err(missing())
}

/// Requests a receive buffer of `bytes`, above the system's limit if the process has the
/// permission.
pub fn force_receive_buffer(socket: &impl AsFd, bytes: usize) -> io::Result<()> {
    match sockopt::set_socket_recv_buffer_size_force(socket, bytes) {
        Ok(()) => Ok(()),
        Err(_) => Ok(sockopt::set_socket_recv_buffer_size(socket, bytes)?),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::UdpSocket;

    #[test]
    fn a_socket_is_seen_from_outside() {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let port = socket.local_addr().unwrap().port();
        force_receive_buffer(&socket, 64 << 10).unwrap();
        assert_eq!(granted_bytes(std::process::id(), port).unwrap(), 128 << 10);
        assert_eq!(row(port).unwrap().unwrap().queued_bytes, 0);
        for _ in 0..1000 {
            socket.send_to(&[0; 1000], ("127.0.0.1", port)).unwrap();
        }
        let full = row(port).unwrap().unwrap();
        assert!(full.queued_bytes > 60_000 && full.drops > 500, "{full:?}");
        drop(socket);
        assert_eq!(row(port).unwrap(), None);
    }
}
