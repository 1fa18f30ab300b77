//! Pause, resume and notify.

use crate::support::{at, listen, options, sender, start, udp, unixgram, unread, wait_for};
use millstream_receiver::{Address, Options};
use std::io::Write;
use std::net::TcpStream;
use std::os::unix::net::{UnixDatagram, UnixStream};
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

#[test]
fn a_pause_loses_nothing() {
    let (receiving, recorder, address) = start(&udp(), &Options { shares: 2, ..options() });
    let sockets = [sender(&address), sender(&address)];
    for round in 1..=20 {
        for n in 0..100 {
            sockets[n % 2].send(b"x").unwrap();
        }
        receiving.pause();
        assert_eq!(recorder.len(), round * 200 - 100, "data sent before the pause is read");
        for n in 0..100 {
            sockets[n % 2].send(b"y").unwrap();
        }
        std::thread::sleep(Duration::from_millis(2));
        assert_eq!(recorder.len(), round * 200 - 100, "data sent after the pause is not read");
        receiving.resume();
        wait_for(&receiving, |stats| stats.messages == round as u64 * 200);
    }
    assert_eq!(receiving.stats().kernel_drops, 0);
}

#[test]
fn every_thread_is_notified_before_and_during_a_pause() {
    let (receiving, recorder, _) = start(&udp(), &Options { shares: 3, ..options() });
    let until = |n: usize| wait_for(&receiving, |_| recorder.notified.load(SeqCst) == n);
    receiving.notify();
    until(3);
    receiving.pause();
    assert_eq!(recorder.notified.load(SeqCst), 6);
    receiving.notify();
    until(9);
    receiving.pause();
    receiving.resume();
    receiving.pause();
    assert_eq!(recorder.notified.load(SeqCst), 12, "a pause after a resume is a new one");
}

#[test]
fn a_paused_receiver_can_be_dropped() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.sock");
    let (receiving, recorder, _) = start(&unixgram(&path), &options());
    UnixDatagram::unbound().unwrap().send_to(b"x", &path).unwrap();
    receiving.pause();
    assert_eq!(recorder.texts(), ["x"]);
    drop(receiving);
    assert!(!path.exists());
}

/// A pause can be requested without blocking the caller.
#[test]
fn a_pause_can_be_requested_without_waiting() {
    let (receiving, recorder, address) = start(&udp(), &options());
    assert!(!receiving.is_paused());
    let blocked_round = recorder.recorded.lock();
    sender(&address).send(b"x").unwrap();
    receiving.request_pause();
    assert!(!receiving.is_paused());
    drop(blocked_round);
    wait_for(&receiving, |_| receiving.is_paused());
    assert_eq!((recorder.len(), recorder.notified.load(SeqCst)), (1, 1));
    receiving.resume();
    assert!(!receiving.is_paused());
}

/// Writes lines until the socket accepts no more; returns the number of bytes written.
fn fill(client: &mut impl Write) -> usize {
    let line = [&[b'x'; 998][..], b"\n"].concat();
    let (mut bytes, mut refusals) = (0, 0);
    while refusals < 40 {
        match client.write(&line[bytes % line.len()..]) {
            Ok(written) => (bytes, refusals) = (bytes + written, 0),
            // Data in transit may free buffer space.
            Err(_) => refusals += 1,
        }
        if refusals > 0 {
            std::thread::sleep(Duration::from_millis(2));
        }
    }
    bytes
}

/// All buffered data is read before a pause, however much it is.
#[test]
fn buffered_stream_data_is_read_before_a_pause() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("s.sock");
    let large = Options { receive_buffer: 8 << 20, ..options() };
    let (receiving, recorder, _) = start(&listen(Address::UnixStream(path.clone())), &large);
    let mut client = UnixStream::connect(&path).unwrap();
    wait_for(&receiving, |stats| stats.connections == 1);
    receiving.pause();
    client.set_nonblocking(true).unwrap();
    let lines = fill(&mut client) / 999;
    receiving.resume();
    receiving.pause();
    assert_eq!(recorder.len(), lines);

    let (receiving, recorder, address) =
        start(&listen("tcp://127.0.0.1:0".parse().unwrap()), &large);
    let mut client = TcpStream::connect(at(&address)).unwrap();
    wait_for(&receiving, |stats| stats.connections == 1);
    receiving.pause();
    client.set_nonblocking(true).unwrap();
    let received = fill(&mut client) - unread(&client);
    receiving.resume();
    receiving.pause();
    let read = recorder.len() * 999;
    assert!(read + 999 > received && received > 100_000, "{read} of {received}");
}

#[test]
fn queued_unix_datagrams_are_read_before_a_pause() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("d.sock");
    let (receiving, recorder, _) =
        start(&unixgram(&path), &Options { receive_buffer: 4 << 10, ..options() });
    receiving.pause();
    let clients: Vec<UnixDatagram> = (0..64).map(|_| UnixDatagram::unbound().unwrap()).collect();
    let mut sent = 0;
    for client in &clients {
        client.set_nonblocking(true).unwrap();
        while client.send_to(&[b'x'; 8000], &path).is_ok() {
            sent += 1;
        }
    }
    receiving.resume();
    receiving.pause();
    assert!(recorder.len() == sent && sent > 0, "{} of {sent}", recorder.len());
}
