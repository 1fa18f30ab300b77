//! Options and reports of the sources that listen on sockets.

use crate::component::tcp_claim;
use millstream_receiver::{Address, Bound, Listen};

/// Maximum length of a Unix socket path in bytes: the kernel's limit without the final NUL.
const PATH_BYTES_MAX: usize = 107;

/// Queue length in datagrams below which the source warns about a Unix socket.
const QUEUE_DATAGRAMS: u32 = 512;

/// Logs that a socket is open. Warns if its receive buffer or queue is small.
pub fn report(source: &str, socket: &Bound) {
    let Bound { address, requested, granted } = socket;
    match address {
        // The kernel rounds the size.
        Address::Udp(_) if granted + 1 < *requested => log::warn!(
            "source {source}: listening on {address} with a receive buffer of {granted} bytes \
             instead of {requested}; bursts may be lost; to raise the limit, run: sysctl -w \
             net.core.rmem_max={requested}"
        ),
        Address::Udp(_) => {
            log::info!(
                "source {source}: listening on {address} with a receive buffer of {granted} bytes"
            );
        }
        Address::UnixDatagram(_) => report_queue(source, address),
        _ => log::info!("source {source}: listening on {address}"),
    }
}

/// Reports a Unix datagram socket's queue. The kernel limits the queue to a number of datagrams,
/// regardless of the buffer size.
fn report_queue(source: &str, address: &Address) {
    let text = std::fs::read_to_string("/proc/sys/net/unix/max_dgram_qlen").unwrap_or_default();
    match text.trim().parse::<u32>() {
        Ok(capacity) if capacity < QUEUE_DATAGRAMS => log::warn!(
            "source {source}: listening on {address}, whose queue holds only {capacity} datagrams; clients drop what \
             does not fit; before the agent starts, run: sysctl -w net.unix.max_dgram_qlen={QUEUE_DATAGRAMS}"
        ),
        _ => log::info!("source {source}: listening on {address}"),
    }
}

/// Checks an address, whose scheme must be one of `schemes`.
///
/// # Errors
/// Returns what is wrong with the address, and what to use instead.
pub fn check_address(address: &str, schemes: &[&str]) -> Result<(), String> {
    let scheme = address.split("://").next().unwrap_or_default();
    if !schemes.contains(&scheme) {
        let schemes = schemes.join("://, ");
        return Err(format!("'{scheme}' is not a supported scheme; use {schemes}://"));
    }
    let parsed: Address = address.parse()?;
    match parsed.path().map_or(0, |path| path.as_os_str().len()) > PATH_BYTES_MAX {
        true => Err(format!(
            "'{address}': the path is longer than {PATH_BYTES_MAX} bytes; use a shorter one"
        )),
        false => Ok(()),
    }
}

/// Parses the permissions of Unix sockets.
///
/// # Errors
/// Returns an error if `text` is not an octal number of up to three digits.
pub fn parse_mode(text: &str) -> Result<u32, String> {
    let mode = u32::from_str_radix(text, 8).ok().filter(|mode| *mode <= 0o777);
    mode.ok_or_else(|| format!("'{text}' is not a mode; use three octal digits, such as 0722"))
}

/// Returns names for the sockets, which two components cannot share. Sockets with port 0 are
/// omitted, because each of them binds a different free port.
pub fn claims(addresses: &[String]) -> Vec<String> {
    let claim = |address| match address {
        Address::Tcp(at) => tcp_claim(at),
        Address::Udp(at) if at.port() == 0 => None,
        other => Some(format!("the socket {other}")),
    };
    addresses.iter().filter_map(|text| text.parse().ok().and_then(claim)).collect()
}

/// Returns the limit on connections: `wanted`, but at most half of the process's file descriptors,
/// so that enough remain for sinks.
pub fn connections_max(wanted: usize, listen: &[Listen]) -> usize {
    let descriptors = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
    let capacity = descriptors.map_or(usize::MAX, |most| (most / 2) as usize).max(1);
    let has_connections =
        |at: &Listen| !matches!(at.address, Address::Udp(_) | Address::UnixDatagram(_));
    if capacity < wanted && listen.iter().any(has_connections) {
        log::warn!(
            "accepting at most {capacity} connections instead of {wanted}, which is half of the \
             open-file limit; raise the limit"
        );
    }
    wanted.min(capacity)
}
