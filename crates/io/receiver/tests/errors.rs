//! The errors of sockets that cannot be opened, and the advice in these errors.

use crate::support::{listen, options, start, udp, unixgram, wait_for};
use millstream_receiver::{Address, BindError, Listen, Options, Receiver};
use std::fs;
use std::net::{TcpListener, UdpSocket};
use std::os::unix::net::{UnixDatagram, UnixListener};
use std::path::PathBuf;

fn open_error(listen: &Listen) -> String {
    match Receiver::open(std::slice::from_ref(listen), &options()) {
        Ok(_) => panic!("{listen:?} was opened"),
        Err(error) => {
            let text = BindError::to_string(&error);
            assert!(text.starts_with(&format!("{}: ", error.address())), "{text}");
            text
        }
    }
}

#[test]
fn a_port_in_use_is_an_error() {
    let other = UdpSocket::bind("127.0.0.1:0").unwrap();
    // Another program that shares the port must not accidentally get a part of the agent's
    // datagrams.
    rustix::net::sockopt::set_socket_reuseport(&other, true).unwrap();
    let text = open_error(&listen(Address::Udp(other.local_addr().unwrap())));
    assert!(text.contains("in use") && text.contains("ss -lunpt"), "{text}");
    let other = TcpListener::bind("127.0.0.1:0").unwrap();
    let text = open_error(&listen(Address::Tcp(other.local_addr().unwrap())));
    assert!(text.contains("in use"), "{text}");
}

#[test]
fn an_address_of_another_host_is_an_error() {
    let text = open_error(&listen("udp://192.0.2.1:8125".parse().unwrap()));
    assert!(text.contains("address of this host"), "{text}");
}

#[test]
fn a_socket_file_in_use_is_not_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.sock");
    let other = UnixDatagram::bind(&path).unwrap();
    for address in [
        Address::UnixDatagram(path.clone()),
        Address::UnixStream(path.clone()),
        Address::UnixPacket(path.clone()),
    ] {
        let text = open_error(&listen(address));
        assert!(
            text.contains("another process listens on it") && text.contains("ss -xlp"),
            "{text}"
        );
    }
    let client = UnixDatagram::unbound().unwrap();
    client.send_to(b"still works", &path).unwrap();
    assert_eq!(other.recv(&mut [0; 100]).unwrap(), 11);
}

#[test]
fn a_stale_socket_file_is_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.sock");
    drop(UnixDatagram::bind(&path).unwrap());
    assert!(path.exists());
    let (receiving, _, _) = start(&unixgram(&path), &options());
    UnixDatagram::unbound().unwrap().send_to(b"x", &path).unwrap();
    wait_for(&receiving, |stats| stats.messages == 1);
    drop(receiving);
    drop(UnixListener::bind(&path).unwrap());
    for address in [Address::UnixStream(path.clone()), Address::UnixPacket(path.clone())] {
        drop(UnixListener::bind(&path));
        drop(start(&listen(address), &options()));
        assert!(!path.exists());
    }
}

#[test]
fn a_regular_file_is_never_removed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("precious");
    fs::write(&path, "data").unwrap();
    let text = open_error(&unixgram(&path));
    assert!(text.contains("not a socket") && text.contains("choose another path"), "{text}");
    assert_eq!(fs::read(&path).unwrap(), b"data");
    let link = folder.path().join("link");
    std::os::unix::fs::symlink("nowhere", &link).unwrap();
    assert!(open_error(&unixgram(&link)).contains("not a socket"));
    assert!(open_error(&unixgram(&path.join("below"))).contains("folder"));
}

#[test]
fn an_overlong_path_is_an_error() {
    let path = PathBuf::from("/tmp").join("x".repeat(103));
    assert_eq!(path.as_os_str().len(), 108);
    let text = open_error(&unixgram(&path));
    assert!(
        text.contains("108 bytes") && text.contains("at most 107") && text.contains("shorter"),
        "{text}"
    );
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("y".repeat(106 - folder.path().as_os_str().len()));
    assert_eq!(path.as_os_str().len(), 107);
    assert!(Receiver::open(&[unixgram(&path)], &options()).is_ok());
}

#[test]
fn an_address_listed_twice_is_an_error_and_closes_the_first() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.sock");
    let error =
        Receiver::open(&[unixgram(&path), udp(), udp(), unixgram(&path)], &options()).unwrap_err();
    assert!(error.to_string().contains("listed twice"), "{error}");
    assert!(!path.exists());
}

#[test]
fn the_number_of_handlers_must_equal_the_shares() {
    let receiver = Receiver::open(&[udp()], &Options { shares: 2, ..options() }).unwrap();
    assert!(receiver.start("test", Vec::new()).is_err());
}

/// A file that replaced the agent's socket file belongs to another process.
#[test]
fn a_replaced_socket_file_is_not_removed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.sock");
    let (receiving, _, _) = start(&unixgram(&path), &options());
    // Create this file before the first file is removed. Otherwise, it could get the same inode
    // number.
    let next = folder.path().join("next.sock");
    let _other = UnixDatagram::bind(&next).unwrap();
    fs::rename(&next, &path).unwrap();
    drop(receiving);
    assert!(path.exists());
}
