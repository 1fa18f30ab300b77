//! Network interface traffic.

use crate::files::numbers;
use crate::filter::Filter;
use crate::reading::{Readings, labels};
use std::path::Path;

/// Reads the interfaces of process 1. These are the host's interfaces if the host's `/proc` is
/// mounted into a container. If its file is unreadable, the agent's own interfaces are read.
pub fn read(proc: &Path, interfaces: &Filter, out: &mut Readings) {
    let paths = ["1/net/dev", "net/dev"].map(|file| proc.join(file));
    let Some((path, bytes)) = out.read_first(paths) else { return };
    let text = String::from_utf8_lossy(&bytes);
    // Only the header lines contain a bar.
    let mut is_valid = text.contains('|');
    for line in text.lines().filter(|line| !line.contains('|')) {
        // The interface name itself may contain a colon.
        let Some((name, rest)) = line.rsplit_once(':') else {
            is_valid = false;
            continue;
        };
        if interfaces.allows(name.trim()) {
            is_valid &= interface(name.trim(), rest, out).is_some();
        }
    }
    if !is_valid {
        out.malformed(&path);
    }
}

fn interface(name: &str, rest: &str, out: &mut Readings) -> Option<()> {
    let labels = labels([("interface", name)]);
    let words = &mut rest.split_ascii_whitespace();
    let [bytes, packets, errors, drops, _, _, _, _] = numbers::<8>(words)?;
    let [sent_bytes, sent_packets, sent_errors, sent_drops] = numbers::<4>(words)?;
    for (name, value) in [
        ("host_network_receive_bytes_total", bytes),
        ("host_network_receive_packets_total", packets),
        ("host_network_receive_errors_total", errors),
        ("host_network_receive_drops_total", drops),
        ("host_network_transmit_bytes_total", sent_bytes),
        ("host_network_transmit_packets_total", sent_packets),
        ("host_network_transmit_errors_total", sent_errors),
        ("host_network_transmit_drops_total", sent_drops),
    ] {
        out.counter(name, &labels, value);
    }
    Some(())
}
