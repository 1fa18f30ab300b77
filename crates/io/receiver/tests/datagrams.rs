//! UDP and Unix datagram sockets.

use crate::support::{
    Recorder, at, listen, options, sender, start, start_with, udp, unixgram, wait_for,
};
use millstream_receiver::{Address, Options, Receiver};
use std::collections::HashSet;
use std::net::UdpSocket;
use std::os::fd::AsRawFd;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixDatagram;
use std::time::{Duration, Instant};

#[test]
fn datagrams_arrive_whole_and_in_order() {
    for text in ["udp://127.0.0.1:0", "udp://[::1]:0"] {
        let (receiving, recorder, address) = start(&listen(text.parse().unwrap()), &options());
        let socket =
            UdpSocket::bind(if text.contains("::") { "[::1]:0" } else { "127.0.0.1:0" }).unwrap();
        for n in 0..500 {
            socket.send_to(format!("point.{n}:1|c\nx").as_bytes(), at(&address)).unwrap();
        }
        socket.send_to(b"", at(&address)).unwrap();
        let stats = wait_for(&receiving, |stats| stats.messages == 501);
        let expected: Vec<String> =
            (0..500).map(|n| format!("point.{n}:1|c\nx")).chain([String::new()]).collect();
        assert_eq!(recorder.texts(), expected);
        assert_eq!(stats.bytes as usize, expected.iter().map(String::len).sum::<usize>());
        assert_eq!((stats.kernel_drops, stats.last_error), (0, None));
    }
}

/// Sends `bytes` as datagrams of `segment` bytes with one call.
fn send_segments(socket: &UdpSocket, bytes: &[u8], segment: i32) {
    let length = size_of::<i32>() as libc::socklen_t;
    // SAFETY: the kernel reads four bytes at the address of `segment`.
    let set = unsafe {
        let value = std::ptr::from_ref(&segment).cast();
        libc::setsockopt(socket.as_raw_fd(), libc::SOL_UDP, libc::UDP_SEGMENT, value, length)
    };
    assert_eq!(set, 0);
    socket.send(bytes).unwrap();
}

#[test]
fn datagrams_merged_by_the_kernel_are_split() {
    let any = listen("udp://0.0.0.0:0".parse().unwrap());
    let (receiving, recorder, address) = start(&any, &options());
    let text: String = (0..1234).map(|n| char::from(b'a' + (n % 26) as u8)).collect();
    send_segments(&sender(&address), text.as_bytes(), 100);
    let stats = wait_for(&receiving, |stats| stats.messages == 13);
    assert_eq!(stats.rounds, 1, "the kernel delivered them as one");
    let expected: Vec<&[u8]> = text.as_bytes().chunks(100).collect();
    assert_eq!(
        recorder.texts(),
        expected.iter().map(|bytes| String::from_utf8_lossy(bytes)).collect::<Vec<_>>()
    );
}

#[test]
fn oversized_datagrams_are_counted_and_dropped() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.sock");
    let long = vec![b'x'; 70_000];
    let (receiving, recorder, _) =
        start(&unixgram(&path), &Options { message_bytes_max: 100, ..options() });
    let socket = UnixDatagram::unbound().unwrap();
    for length in [100, 101, 70_000, 5] {
        socket.send_to(&long[..length], &path).unwrap();
    }
    wait_for(&receiving, |stats| (stats.messages, stats.truncated) == (2, 2));
    assert_eq!(recorder.texts().iter().map(String::len).collect::<Vec<_>>(), [100, 5]);

    let any = listen("udp://0.0.0.0:0".parse().unwrap());
    let (receiving, _, address) = start(&any, &Options { message_bytes_max: 100, ..options() });
    sender(&address).send(&long[..101]).unwrap();
    send_segments(&sender(&address), &long[..350], 150);
    sender(&address).send(&long[..100]).unwrap();
    wait_for(&receiving, |stats| (stats.messages, stats.truncated) == (1, 4));
}

/// Every datagram is either received or counted as dropped: no datagram is lost silently or counted
/// twice.
#[test]
fn every_kernel_drop_is_counted_once() {
    for shares in [1, 3] {
        let options = Options { receive_buffer: 64 << 10, shares, ..options() };
        let recorder = Recorder { delay: Duration::from_millis(20), ..Recorder::default() };
        let (receiving, recorder, address) = start_with(&udp(), &options, recorder);
        let sent = 20_000;
        for n in 0..10 {
            let socket = sender(&address);
            for i in 0..sent / 10 {
                socket.send(format!("{n}.{i}").as_bytes()).unwrap();
            }
            receiving.stats();
        }
        let stats = wait_for(&receiving, |stats| stats.messages + stats.kernel_drops == sent);
        assert!(stats.kernel_drops > 0, "{stats:?}");
        assert_eq!(
            recorder.texts().into_iter().collect::<HashSet<_>>().len() as u64,
            stats.messages
        );
        std::thread::sleep(Duration::from_millis(50));
        assert_eq!(receiving.stats().kernel_drops, stats.kernel_drops);
    }
}

/// Datagrams that are dropped before the threads run are also counted.
#[test]
fn drops_before_the_start_are_counted() {
    let options = Options { receive_buffer: 8 << 10, ..options() };
    let receiver = Receiver::open(&[udp()], &options).unwrap();
    let socket = sender(&receiver.sockets()[0].address);
    (0..1000).for_each(|_| assert_eq!(socket.send(b"x").unwrap(), 1));
    let receiving = receiver.start("test", vec![Box::new(Recorder::default())]).unwrap();
    receiving.resume();
    let stats = wait_for(&receiving, |stats| stats.messages + stats.kernel_drops == 1000);
    assert!(stats.kernel_drops > 0);
}

/// Merge pauses lose and change no datagrams. Without `merge` there are no pauses.
#[test]
fn merging_changes_only_the_number_of_wake_ups() {
    for merge in [true, false] {
        let (receiving, recorder, address) =
            start(&udp(), &Options { merge, receive_buffer: 8 << 20, ..options() });
        let socket = sender(&address);
        let start = Instant::now();
        let sent = 30_000;
        for n in 0..sent {
            // 60 k/s, in small groups.
            while n % 32 == 0 && start.elapsed() < Duration::from_secs(1) * n / 60_000 {
                std::thread::sleep(Duration::from_micros(100));
            }
            recorder.keep_up(n as usize);
            socket.send(format!("{n}").as_bytes()).unwrap();
        }
        let stats = wait_for(&receiving, |stats| stats.messages == u64::from(sent));
        assert_eq!(recorder.texts(), (0..sent).map(|n| n.to_string()).collect::<Vec<_>>());
        assert_eq!(stats.kernel_drops, 0);
        assert!(merge || stats.merge_pauses == 0, "{stats:?}");
    }
}

#[test]
fn each_share_has_its_own_socket_on_one_port() {
    let options = Options { shares: 4, ..options() };
    let receiver = Receiver::open(&[udp()], &options).unwrap();
    let sockets = receiver.sockets();
    assert_eq!(sockets.len(), 4);
    assert!(
        sockets
            .iter()
            .all(|bound| bound.address == sockets[0].address && bound.requested == 4 << 20)
    );
    assert!(sockets.iter().all(|bound| bound.granted > 0), "{sockets:?}");
    let recorders: Vec<Recorder> = (0..4).map(|_| Recorder::default()).collect();
    let handlers = recorders.iter().map(|recorder| Box::new(recorder.clone()) as _).collect();
    let receiving = receiver.start("test", handlers).unwrap();
    receiving.resume();
    for n in 0..200 {
        sender(&sockets[0].address).send(format!("{n}").as_bytes()).unwrap();
    }
    wait_for(&receiving, |stats| stats.messages == 200);
    let busy = recorders.iter().filter(|recorder| recorder.len() > 0).count();
    assert!(busy >= 2, "200 senders reached {busy} of 4 threads");
}

#[test]
fn a_unix_socket_has_the_configured_mode_and_identifies_senders() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("new/folder/a.sock");
    let mut listen = unixgram(&path);
    listen.mode = Some(0o666);
    let (receiving, recorder, _) = start(&listen, &Options { credentials: true, ..options() });
    assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o666);
    let socket = UnixDatagram::unbound().unwrap();
    socket.send_to(b"mine", &path).unwrap();
    let python = "import socket,sys,os; s=socket.socket(socket.AF_UNIX,socket.SOCK_DGRAM); \
                  s.sendto(str(os.getpid()).encode(), sys.argv[1])";
    let mut child =
        std::process::Command::new("python3").args(["-c", python]).arg(&path).spawn().unwrap();
    child.wait().unwrap();
    wait_for(&receiving, |stats| stats.messages == 2);
    let recorded = recorder.recorded.lock();
    assert_eq!(recorded[0].1.as_ref().unwrap().pid, std::process::id());
    assert_eq!(recorded[1].1.as_ref().unwrap().pid, child.id());
    assert_eq!(recorded[1].0, child.id().to_string().as_bytes());
    drop(receiving);
    assert!(!path.exists(), "the socket file is removed on drop");
}

/// The kernel closes descriptors that a sender passes; otherwise they would accumulate in this
/// process.
#[test]
fn passed_descriptors_are_closed() {
    let folder = tempfile::tempdir().unwrap();
    for credentials in [true, false] {
        let path = folder.path().join(format!("{credentials}.sock"));
        let (receiving, _, _) = start(&unixgram(&path), &Options { credentials, ..options() });
        let marker = folder.path().join("passed");
        std::fs::write(&marker, "").unwrap();
        let python = "import socket,sys,os; s=socket.socket(socket.AF_UNIX,socket.SOCK_DGRAM); s.connect(sys.argv[1])\n\
                      for _ in range(20): socket.send_fds(s, [b'x'], [os.open(sys.argv[2], os.O_RDONLY)])";
        let mut command = std::process::Command::new("python3");
        assert!(command.args(["-c", python]).arg(&path).arg(&marker).status().unwrap().success());
        wait_for(&receiving, |stats| stats.messages == 20);
        let fds = std::fs::read_dir("/proc/self/fd").unwrap();
        let open = fds.filter_map(|fd| std::fs::read_link(fd.ok()?.path()).ok());
        assert_eq!(open.filter(|target| *target == marker).count(), 0);
    }
}

#[test]
fn a_bound_address_has_the_chosen_port() {
    let receiver = Receiver::open(&[udp()], &options()).unwrap();
    let Address::Udp(at) = receiver.sockets()[0].address else { panic!("not UDP") };
    assert_ne!(at.port(), 0);
}
