//! To stand still, to go on, to be notified.

use crate::support::{options, sender, start, udp, unixgram, wait_for};
use millstream_receiver::Options;
use std::os::unix::net::UnixDatagram;
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

#[test]
fn a_pause_loses_nothing() {
    let (receiving, keeper, address) = start(&udp(), &Options { shares: 2, ..options() });
    let sockets = [sender(&address), sender(&address)];
    for round in 1..=20 {
        for n in 0..100 {
            sockets[n % 2].send(b"x").unwrap();
        }
        receiving.pause();
        assert_eq!(keeper.len(), round * 200 - 100, "what was sent before is read");
        for n in 0..100 {
            sockets[n % 2].send(b"y").unwrap();
        }
        std::thread::sleep(Duration::from_millis(2));
        assert_eq!(keeper.len(), round * 200 - 100, "and nothing more");
        receiving.resume();
        wait_for(&receiving, |stats| stats.messages == round as u64 * 200);
    }
    assert_eq!(receiving.stats().kernel_drops, 0);
}

#[test]
fn every_thread_is_notified_before_a_pause_and_within_it() {
    let (receiving, keeper, _) = start(&udp(), &Options { shares: 3, ..options() });
    let until = |n: usize| wait_for(&receiving, |_| keeper.notified.load(SeqCst) == n);
    receiving.notify();
    until(3);
    receiving.pause();
    assert_eq!(keeper.notified.load(SeqCst), 6);
    receiving.notify();
    until(9);
    receiving.pause();
    receiving.resume();
    receiving.pause();
    assert_eq!(keeper.notified.load(SeqCst), 12, "a pause after a resume is a new one");
}

#[test]
fn a_paused_receiver_can_be_dropped() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.sock");
    let (receiving, keeper, _) = start(&unixgram(&path), &options());
    UnixDatagram::unbound().unwrap().send_to(b"x", &path).unwrap();
    receiving.pause();
    assert_eq!(keeper.texts(), ["x"]);
    drop(receiving);
    assert!(!path.exists());
}

/// Nobody has to wait where a pause is asked for.
#[test]
fn a_pause_can_be_asked_for() {
    let (receiving, keeper, address) = start(&udp(), &options());
    assert!(!receiving.is_paused());
    let round_waits = keeper.taken.lock().unwrap();
    sender(&address).send(b"x").unwrap();
    receiving.ask_pause();
    assert!(!receiving.is_paused());
    drop(round_waits);
    wait_for(&receiving, |_| receiving.is_paused());
    assert_eq!((keeper.len(), keeper.notified.load(SeqCst)), (1, 1));
    receiving.resume();
    assert!(!receiving.is_paused());
}
