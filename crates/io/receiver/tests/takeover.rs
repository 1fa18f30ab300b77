//! A receiver that takes over the addresses of another receiver in the same process.

use crate::support::{
    Recorder, at, listen, options, sender, start, start_with, udp, unixgram, unread, wait_for,
};
use millstream_receiver::{Address, Framing, Listen, Options, Receiver};
use std::collections::HashSet;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixDatagram, UnixStream};
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

/// Receivers replace each other while datagrams arrive: each successor starts before its
/// predecessor ends.
#[test]
fn nothing_is_lost_between_two_receivers() {
    let (mut receiving, recorder, address) =
        start(&udp(), &Options { receive_buffer: 8 << 20, ..options() });
    let end = AtomicBool::new(false);
    let sent = std::thread::scope(|scope| {
        let sending = scope.spawn(|| {
            let (socket, mut n) = (sender(&address), 0_u64);
            while !end.load(SeqCst) {
                socket.send(n.to_string().as_bytes()).unwrap();
                n += 1;
                recorder.keep_up(n as usize);
                if n % 64 == 0 {
                    std::thread::sleep(std::time::Duration::from_micros(500));
                }
            }
            n
        });
        for round in 0..20 {
            let options = Options { shares: 1 + round % 3, receive_buffer: 8 << 20, ..options() };
            let (next, _, same) = start_with(&listen(address.clone()), &options, recorder.clone());
            assert_eq!(same, address);
            std::thread::sleep(std::time::Duration::from_millis(5));
            receiving.pause();
            assert_eq!(receiving.stats().kernel_drops, 0);
            receiving = next;
        }
        end.store(true, SeqCst);
        sending.join().unwrap()
    });
    wait_for(&receiving, |_| recorder.len() as u64 == sent);
    assert_eq!(recorder.texts().into_iter().collect::<HashSet<_>>().len() as u64, sent);
}

#[test]
fn the_last_receiver_removes_the_socket_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.sock");
    let (first, _, _) = start(&unixgram(&path), &options());
    first.pause();
    let client = UnixDatagram::unbound().unwrap();
    client.send_to(b"waits in the kernel", &path).unwrap();
    let mut changed = unixgram(&path);
    changed.mode = Some(0o622);
    let (second, recorder, _) = start(&changed, &Options { credentials: true, ..options() });
    drop(first);
    assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o622);
    client.send_to(b"next", &path).unwrap();
    wait_for(&second, |stats| stats.messages == 2);
    assert_eq!(recorder.texts(), ["waits in the kernel", "next"]);
    drop(second);
    assert!(!path.exists());
    let (third, _, _) = start(&unixgram(&path), &options());
    client.send_to(b"x", &path).unwrap();
    wait_for(&third, |stats| stats.messages == 1);
}

/// The successor completes a line whose first half the predecessor has read.
#[test]
fn connections_continue_with_the_successor() {
    let address: Address = "tcp://127.0.0.1:0".parse().unwrap();
    let (first, before, address) = start(&listen(address), &options());
    let mut client = TcpStream::connect(at(&address)).unwrap();
    client.write_all(b"one\nhalf").unwrap();
    wait_for(&first, |stats| stats.messages == 1);
    let (second, after, _) = start(&listen(address.clone()), &Options { shares: 2, ..options() });
    drop(first);
    client.write_all(b" and half\n").unwrap();
    wait_for(&second, |stats| stats.messages == 1 && stats.connections == 1);
    assert_eq!((before.texts(), after.texts()), (vec!["one".into()], vec!["half and half".into()]));
    let third = Receiver::open(&[listen(address)], &options()).unwrap();
    drop(second);
    client.write_all(b"left before the start\n").unwrap();
    let recorder = Recorder::default();
    let third = third.start("test", vec![Box::new(recorder.clone())]).unwrap();
    third.resume();
    wait_for(&third, |stats| stats.messages == 1);
    assert_eq!(recorder.texts(), ["left before the start"]);
}

/// Both receivers share the socket, and only one of them counts its drops.
#[test]
fn drops_are_counted_once() {
    let options = Options { receive_buffer: 8 << 10, ..options() };
    let (first, _, address) = start(&udp(), &options);
    let (second, _, _) = start(&listen(address.clone()), &options);
    first.pause();
    second.pause();
    let socket = sender(&address);
    (0..1000).for_each(|_| assert_eq!(socket.send(b"x").unwrap(), 1));
    first.resume();
    wait_for(&first, |first| {
        let second = second.stats();
        first.kernel_drops > 0 && first.messages + first.kernel_drops + second.kernel_drops == 1000
    });
}

/// The predecessor may have read more of a message than the successor allows.
#[test]
fn a_lower_limit_applies_to_a_partial_message() {
    let folder = tempfile::tempdir().unwrap();
    for framing in [Framing::Lines, Framing::Length] {
        let path = folder.path().join(format!("{framing:?}.sock"));
        let place = Listen { framing, ..listen(Address::UnixStream(path.clone())) };
        let large = Options { message_bytes_max: 1 << 20, ..options() };
        let (first, _, _) = start(&place, &large);
        let mut client = UnixStream::connect(&path).unwrap();
        client.write_all(&300_000_u32.to_le_bytes()).unwrap();
        client.write_all(&[b'x'; 200_000]).unwrap();
        wait_for(&first, |_| unread(&client) == 0);
        let small = Options { message_bytes_max: 100, credentials: true, ..options() };
        let (second, recorder, _) = start(&place, &small);
        drop(first);
        wait_for(&second, |stats| stats.framing_errors == 1);
        if framing == Framing::Length {
            assert_eq!(client.read(&mut [0; 8]).unwrap_or(0), 0, "the connection is closed");
            client = UnixStream::connect(&path).unwrap();
            client.write_all(b"\x04\0\0\0next").unwrap();
        } else {
            client.write_all(b"xx\nnext\n").unwrap();
        }
        let stats = wait_for(&second, |stats| stats.messages == 1);
        assert_eq!(
            (recorder.texts(), stats.framing_errors, stats.connections),
            (vec!["next".into()], 1, 1)
        );
        assert_eq!(recorder.recorded.lock()[0].1.as_ref().unwrap().pid, std::process::id());
    }
}

/// A receiver that never resumes takes nothing from its predecessor: no datagram, no connection, no
/// orphan.
#[test]
fn a_dropped_successor_has_taken_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let places =
        [udp(), unixgram(&folder.path().join("d.sock")), unixgram(&folder.path().join("s.sock"))];
    let mut places = places.to_vec();
    places[2].address = Address::UnixStream(folder.path().join("s.sock"));
    let open = |places: &[Listen]| Receiver::open(places, &options()).unwrap();
    let receiver = open(&places);
    places[0].address = receiver.sockets()[0].address.clone();
    let recorder = Recorder::default();
    let receiving = receiver.start("test", vec![Box::new(recorder.clone())]).unwrap();
    receiving.resume();
    for round in 1..=20 {
        let other = Recorder::default();
        let next = open(&places).start("next", vec![Box::new(other.clone())]).unwrap();
        assert!(next.is_paused());
        next.notify();
        wait_for(&next, |_| other.notified.load(SeqCst) == 1);
        sender(&places[0].address).send(b"x").unwrap();
        UnixDatagram::unbound().unwrap().send_to(b"x", folder.path().join("d.sock")).unwrap();
        UnixStream::connect(folder.path().join("s.sock")).unwrap().write_all(b"x").unwrap();
        wait_for(&receiving, |stats| stats.messages == 3 * round);
        assert_eq!((other.len(), next.stats().connections_accepted), (0, 0));
    }
    assert_eq!(recorder.len(), 60);
}

/// A shared socket keeps the predecessor's options until the successor reads.
#[test]
fn a_successor_changes_no_options_before_it_reads() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.sock");
    let small = Options { receive_buffer: 64 << 10, ..options() };
    let mut places = [udp(), unixgram(&path)];
    places[1].mode = Some(0o600);
    let receiver = Receiver::open(&places, &small).unwrap();
    places[0].address = receiver.sockets()[0].address.clone();
    let first = receiver.start("test", vec![Box::new(Recorder::default())]).unwrap();
    first.resume();
    let before = first.sockets();
    places[1].mode = Some(0o622);
    let recorder = Recorder::default();
    let next =
        Receiver::open(&places, &Options { shares: 3, receive_buffer: 128 << 10, ..options() })
            .unwrap();
    let next =
        next.start("next", (0..3).map(|_| Box::new(recorder.clone()) as _).collect()).unwrap();
    let mode = || path.metadata().unwrap().permissions().mode() & 0o777;
    assert_eq!((first.sockets(), mode(), next.sockets().len()), (before.clone(), 0o600, 2));
    next.resume();
    next.resume();
    let after = next.sockets();
    assert_eq!((mode(), after.len(), first.sockets().len()), (0o622, 4, 2));
    assert!(after.iter().all(|bound| bound.granted > before[0].granted), "{before:?} {after:?}");
    drop(first);
    for _ in 0..100 {
        sender(&places[0].address).send(b"x").unwrap();
    }
    let stats = wait_for(&next, |stats| stats.messages == 100);
    assert_eq!((stats.kernel_drops, stats.socket_errors), (0, 0));
}
