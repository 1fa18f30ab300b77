//! A socket's events account for every byte that it received.

use crate::support::{at, listen, options, sender, start, udp, unixgram, wait_for};
use millstream_receiver::Address;
use millstream_recorder::schema::EventKind;
use millstream_testkit::{RecordedSum, recorded, start_recording};
use std::io::Write;
use std::net::TcpStream;
use std::os::unix::net::{UnixDatagram, UnixStream};

const MESSAGES: usize = 300;

/// Sends a datagram.
type Send = dyn Fn(&[u8]);

fn message(number: usize) -> String {
    format!("point.{number}:{}|c", "1".repeat(number % 100 + 1))
}

fn total(ending: &str) -> u64 {
    (0..MESSAGES).map(|number| (message(number).len() + ending.len()) as u64).sum()
}

/// Returns the recorded reads of a peer.
fn reads(peer: &str) -> RecordedSum {
    let all = recorded(EventKind::SocketRead);
    *all.get(peer).unwrap_or_else(|| panic!("no event of {peer}: {all:?}"))
}

#[test]
fn every_call_for_datagrams_is_one_event_with_their_bytes() {
    let _test = start_recording();
    let folder = tempfile::tempdir().unwrap();
    for entry in [udp(), unixgram(&folder.path().join("a.sock"))] {
        let (receiving, _, address) = start(&entry, &options());
        let send: Box<Send> = match &address {
            Address::Udp(_) => {
                let socket = sender(&address);
                Box::new(move |bytes| assert_eq!(socket.send(bytes).unwrap(), bytes.len()))
            }
            _ => {
                let socket = UnixDatagram::unbound().unwrap();
                socket.connect(address.path().unwrap()).unwrap();
                Box::new(move |bytes| assert_eq!(socket.send(bytes).unwrap(), bytes.len()))
            }
        };
        (0..MESSAGES).for_each(|number| send(message(number).as_bytes()));
        // The datagram exceeds the limit: it is received, but dropped.
        send(&[b'x'; 9000]);
        let stats = wait_for(&receiving, |stats| stats.messages as usize == MESSAGES);
        wait_for(&receiving, |stats| stats.truncated == 1);
        let sum = reads(&format!(",{address},0"));
        assert_eq!(sum.bytes, total("") + 9000, "{address}");
        assert!((1..=MESSAGES + 1).contains(&sum.events), "{address}: {sum:?}");
        assert_eq!(stats.bytes, total(""));
    }
}

#[test]
fn every_read_of_a_connection_is_one_event_with_its_bytes() {
    let _test = start_recording();
    let folder = tempfile::tempdir().unwrap();
    let stream = Address::UnixStream(folder.path().join("b.sock"));
    for address in ["tcp://127.0.0.1:0".parse().unwrap(), stream] {
        let (receiving, _, address) = start(&listen(address), &options());
        let (mut client, peer): (Box<dyn Write>, String) = match &address {
            Address::Tcp(_) => {
                let client = TcpStream::connect(at(&address)).unwrap();
                let own = client.local_addr().unwrap();
                (Box::new(client), format!(",{},{}", own.ip(), own.port()))
            }
            _ => {
                let client = UnixStream::connect(address.path().unwrap()).unwrap();
                (Box::new(client), format!(",{address},0"))
            }
        };
        (0..MESSAGES).for_each(|number| writeln!(client, "{}", message(number)).unwrap());
        drop(client);
        wait_for(&receiving, |stats| stats.messages as usize == MESSAGES && stats.connections == 0);
        assert_eq!(reads(&peer).bytes, total("\n"), "{address}");
    }
}
