//! Tests that the agent counts datagrams that the kernel drops at a full socket.

use super::{Events, ONE_PERIOD, PATIENCE, config, counted, start, udp};
use crate::support::{folder, wait_until};
use rustix::process::Signal;
use std::net::UdpSocket;

const DATAGRAMS: usize = 20_000;

#[test]
fn kernel_drops_are_counted_exactly() {
    let (dir, address) = (folder(), udp());
    let options =
        format!("type: dogstatsd, listen: ['{address}'], receive_buffer: 64KiB, {ONE_PERIOD}");
    let mut agent = start(dir.path(), &options);
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.connect(address.trim_start_matches("udp://")).unwrap();
    let send = |count: usize| (0..count).for_each(|_| assert!(socket.send(b"sent:1|c").is_ok()));
    agent.send(Signal::STOP);
    send(DATAGRAMS);
    agent.send(Signal::CONT);
    let received = || counted(&agent, "received_events", "");
    let dropped = || counted(&agent, "dropped_events", "reason=\"kernel\"");
    wait_until("every datagram is accounted for", PATIENCE, || {
        received() + dropped() == DATAGRAMS as f64
    });
    let lost = dropped();
    assert!(lost > 0.0 && received() > 0.0, "{lost} lost, {} received", received());
    // The drops are not counted a second time.
    send(10);
    wait_until("the next ones", PATIENCE, || received() + dropped() == DATAGRAMS as f64 + 10.0);
    std::thread::sleep(std::time::Duration::from_millis(2500));
    assert_eq!(dropped(), lost);
    let taken = received();
    assert_eq!(agent.stop().code(), Some(0), "{}", agent.log());
    assert_eq!(Events::read(dir.path()).one("sent", ""), taken);
}

#[test]
fn drops_around_a_reload_are_counted_exactly() {
    let (dir, address) = (folder(), udp());
    let source = |receivers: usize| {
        format!(
            "type: dogstatsd, listen: ['{address}'], receive_buffer: 64KiB, receivers: {receivers}, {ONE_PERIOD}"
        )
    };
    let mut agent = start(dir.path(), &source(1));
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.connect(address.trim_start_matches("udp://")).unwrap();
    let send = |count: usize| (0..count).for_each(|_| assert!(socket.send(b"sent:1|c").is_ok()));
    let seen = || {
        counted(&agent, "received_events", "")
            + counted(&agent, "dropped_events", "reason=\"kernel\"")
    };
    let mut sent = 0;
    for receivers in [2, 3] {
        agent.send(Signal::STOP);
        send(DATAGRAMS / 2);
        sent += DATAGRAMS / 2;
        agent.reload(&config(&source(receivers)));
        agent.send(Signal::CONT);
        wait_until("every datagram is accounted for", PATIENCE, || seen() == sent as f64);
    }
    assert!(counted(&agent, "dropped_events", "reason=\"kernel\"") > 0.0);
    let taken = counted(&agent, "received_events", "");
    assert_eq!(agent.stop().code(), Some(0), "{}", agent.log());
    assert!(!agent.log().contains("everything read was delivered"), "{}", agent.log());
    assert_eq!(Events::read(dir.path()).sum("sent", ""), taken);
}
