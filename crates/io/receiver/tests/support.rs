//! What the tests share: a handler that keeps everything, and sockets to send from.

use millstream_receiver::{
    Address, Framing, Listen, MessageHandler, Messages, Options, Receiver, Receiving, Sender, Stats,
};
use parking_lot::Mutex;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::AsRawFd;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::{Duration, Instant};

/// A message with its sender.
pub type Taken = (Vec<u8>, Option<Sender>);

/// What a panic may bring: whoever drops it has another panic.
pub struct Bomb;

impl Bomb {
    /// The message at which a keeper panics with a bomb.
    pub const MESSAGE: &[u8] = b"bomb";
}

impl Drop for Bomb {
    fn drop(&mut self) {
        panic!("a panic within a panic");
    }
}

/// Keeps all messages.
#[derive(Clone, Default)]
pub struct Keeper {
    pub taken: Arc<Mutex<Vec<Taken>>>,
    pub notified: Arc<AtomicUsize>,
    /// How long each round takes.
    pub delay: Duration,
    /// Panics at a message like this.
    pub panics_at: Option<&'static [u8]>,
}

impl MessageHandler for Keeper {
    fn round(&mut self, messages: &Messages<'_>) {
        assert_eq!(messages.len(), messages.iter().count());
        assert_eq!(
            messages.bytes(),
            messages.iter().map(|message| message.bytes.len()).sum::<usize>()
        );
        assert!(messages.received_ns() > 1_600_000_000_000_000_000 && !messages.is_empty());
        if let Some(bytes) = self.panics_at {
            assert!(messages.iter().all(|message| message.bytes != bytes), "asked to panic");
        }
        if messages.iter().any(|message| message.bytes == Bomb::MESSAGE) {
            std::panic::panic_any(Bomb);
        }
        let copies =
            messages.iter().map(|message| (message.bytes.to_vec(), message.sender.cloned()));
        self.taken.lock().extend(copies);
        std::thread::sleep(self.delay);
    }

    fn notified(&mut self) {
        self.notified.fetch_add(1, SeqCst);
    }
}

impl Keeper {
    pub fn texts(&self) -> Vec<String> {
        let taken = self.taken.lock();
        taken.iter().map(|(bytes, _)| String::from_utf8_lossy(bytes).into_owned()).collect()
    }

    /// Waits until all but a few of so many have come: they fit into the smallest buffer, so that a
    /// busy host drops none.
    pub fn keep_up(&self, sent: usize) {
        while sent.is_multiple_of(32) && sent > self.len() + 200 {
            std::thread::sleep(Duration::from_micros(100));
        }
    }

    pub fn len(&self) -> usize {
        self.taken.lock().len()
    }
}

pub fn options() -> Options {
    Options {
        shares: 1,
        receive_buffer: 4 << 20,
        message_bytes_max: 8192,
        connections_max: 64,
        credentials: false,
        merge: true,
    }
}

pub fn listen(address: Address) -> Listen {
    Listen { address, mode: None, framing: Framing::Lines }
}

pub fn udp() -> Listen {
    listen("udp://127.0.0.1:0".parse().unwrap())
}

pub fn unixgram(path: &Path) -> Listen {
    listen(Address::UnixDatagram(path.to_path_buf()))
}

/// A receiver on one address, with one keeper for all its threads.
pub fn start(listen: &Listen, options: &Options) -> (Receiving, Keeper, Address) {
    start_with(listen, options, Keeper::default())
}

pub fn start_with(
    listen: &Listen,
    options: &Options,
    keeper: Keeper,
) -> (Receiving, Keeper, Address) {
    let receiver = Receiver::open(std::slice::from_ref(listen), options).unwrap();
    let address = receiver.sockets()[0].address.clone();
    let handlers =
        (0..options.shares).map(|_| Box::new(keeper.clone()) as Box<dyn MessageHandler>).collect();
    let receiving = receiver.start("test", handlers).unwrap();
    receiving.resume();
    (receiving, keeper, address)
}

pub fn at(address: &Address) -> SocketAddr {
    match address {
        Address::Udp(at) | Address::Tcp(at) => *at,
        other => panic!("{other} has no port"),
    }
}

/// A UDP socket that sends to the address.
pub fn sender(address: &Address) -> UdpSocket {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.connect(at(address)).unwrap();
    socket
}

/// Waits until the statistics are as wanted; shows them if they never are.
pub fn wait_for(receiving: &Receiving, what: impl Fn(&Stats) -> bool) -> Stats {
    let start = Instant::now();
    loop {
        let stats = receiving.stats();
        if what(&stats) {
            return stats;
        }
        assert!(start.elapsed() < Duration::from_secs(20), "never came: {stats:?}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Bytes that the other end of a Unix stream has not read, or the host of a TCP one not received.
pub fn unread(client: &impl AsRawFd) -> usize {
    let mut waiting: libc::c_int = 0;
    // SAFETY: the kernel writes an int to the address.
    let result = unsafe { libc::ioctl(client.as_raw_fd(), libc::TIOCOUTQ, &raw mut waiting) };
    assert_eq!(result, 0);
    waiting as usize
}
