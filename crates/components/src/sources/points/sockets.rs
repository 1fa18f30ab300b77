//! Reports on the sockets of a source.

use millstream_receiver::{Address, Bound};

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
