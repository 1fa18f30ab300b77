//! Listening sockets, and the process-wide table of the open ones.

use crate::connection::Connection;
use crate::file::{SocketFile, kind};
use crate::wake::Wake;
use crate::{Address, BindError, Listen, Options, Protocol, sys};
use millstream_recorder::record::Subject;
use parking_lot::{Mutex, MutexGuard};
use rustix::io::Errno;
use rustix::net::{AddressFamily, Shutdown, SocketFlags, bind, getsockname, socket_with, sockopt};
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Once, Weak};

/// Listen backlog; the kernel caps it at `net.core.somaxconn`.
const BACKLOG: i32 = 1024;

/// Assumed queue length of a Unix datagram socket if the system does not report its limit.
const DATAGRAMS_MAX: usize = 4096;

/// How much of a buffer's contents, as of one moment, must still be read.
#[derive(Debug)]
pub enum BufferCapacity {
    Datagrams(usize),
    Bytes(usize),
}

impl BufferCapacity {
    pub fn is_exhausted(&self) -> bool {
        matches!(self, BufferCapacity::Datagrams(0) | BufferCapacity::Bytes(0))
    }

    pub fn consume(&mut self, datagrams: usize, bytes: usize) {
        match self {
            BufferCapacity::Datagrams(left) => *left = left.saturating_sub(datagrams),
            // The kernel also charges its bookkeeping overhead to every datagram.
            BufferCapacity::Bytes(left) => {
                *left = left.saturating_sub(bytes + datagrams * DATAGRAM_BYTES_MIN)
            }
        }
    }
}

/// Minimum overhead in bytes that the kernel charges per datagram, in addition to its payload.
const DATAGRAM_BYTES_MIN: usize = 512;

/// A listening socket. Receivers in one process share the socket for an address, so that a
/// successor reads the data that waits in its buffer.
#[derive(Debug)]
pub struct Socket {
    pub fd: OwnedFd,
    /// The address, with the port that the kernel chose if 0 was requested.
    pub address: Address,
    /// The socket as the subject of recorded reads. Reads of connections from processes on this
    /// host, which have no address, are also recorded with this subject.
    pub peer: Arc<Subject>,
    file: Option<SocketFile>,
    /// Maximum queue length of a Unix datagram socket. The kernel charges the queued bytes to the
    /// senders, so the bytes have no limit here.
    datagrams_max: usize,
    /// Number of kernel drops that have already been counted.
    drops_counted: Mutex<u32>,
    /// Connections whose receiver thread has exited. Another thread takes them over.
    orphans: Mutex<Vec<Connection>>,
    /// Threads that accept connections here and are woken for orphans.
    readers: Mutex<Vec<Weak<Wake>>>,
}

/// A socket that a thread reads, or from which it accepts connections.
#[derive(Debug)]
pub struct Input {
    pub socket: Arc<Socket>,
    pub protocol: Protocol,
}

/// This process's sockets. The references are weak, so the table keeps no socket open.
static TABLE: Mutex<Vec<Weak<Socket>>> = Mutex::new(Vec::new());

/// Used to log once that the kernel does not report drops to programs, which is so before Linux
/// 4.12.
static DROPS_UNSUPPORTED: Once = Once::new();

fn table() -> MutexGuard<'static, Vec<Weak<Socket>>> {
    TABLE.lock()
}

/// One receiver's sockets for one address. They are released under the table's lock, so no other
/// receiver finds a socket file that its owner is about to remove.
#[derive(Debug)]
pub struct SocketSet {
    listen: Listen,
    options: Options,
    sockets: Mutex<Vec<Arc<Socket>>>,
    /// Whether the options have not been applied yet. Shared sockets stay unchanged until this
    /// receiver reads.
    is_pending: AtomicBool,
}

impl Drop for SocketSet {
    fn drop(&mut self) {
        let mut table = table();
        self.sockets.lock().clear();
        table.retain(|socket| socket.strong_count() > 0);
    }
}

impl SocketSet {
    /// Opens an address, or shares the sockets that this process already has open for the address.
    pub fn open(listen: &Listen, options: &Options) -> Result<SocketSet, BindError> {
        let mut table = table();
        let mut sockets = find(&table, listen);
        let is_shared = !sockets.is_empty();
        if !is_shared {
            grow(&mut table, &mut sockets, listen, options)?;
        }
        drop(table);
        let (sockets, is_pending) = (Mutex::new(sockets), AtomicBool::new(is_shared));
        Ok(SocketSet { listen: listen.clone(), options: *options, sockets, is_pending })
    }

    /// On the first call, applies the options to shared sockets and opens missing ones. Returns the
    /// added sockets with their indexes, and the error that interrupted the call, if any.
    pub fn activate(&self) -> (Vec<(usize, Arc<Socket>)>, Option<BindError>) {
        if !self.is_pending.swap(false, Relaxed) {
            return (Vec::new(), None);
        }
        let (mut table, mut sockets) = (table(), self.sockets.lock());
        let known = sockets.len();
        for found in find(&table, &self.listen) {
            // Another receiver may have opened more sockets in the meantime.
            if !sockets.iter().any(|socket| Arc::ptr_eq(socket, &found)) {
                sockets.push(found);
            }
        }
        let applied =
            sockets.iter().try_for_each(|socket| socket.apply_options(&self.listen, &self.options));
        let grown = grow(&mut table, &mut sockets, &self.listen, &self.options);
        let new = sockets.iter().cloned().enumerate().skip(known).collect();
        (new, applied.and(grown).err())
    }

    pub fn sockets(&self) -> Vec<Arc<Socket>> {
        self.sockets.lock().clone()
    }

    /// Returns the requested receive buffer size in bytes.
    pub fn requested(&self) -> usize {
        self.options.receive_buffer
    }
}

/// Returns the sockets that this process has open for an address.
fn find(table: &[Weak<Socket>], listen: &Listen) -> Vec<Arc<Socket>> {
    let mut sockets: Vec<Arc<Socket>> = table.iter().filter_map(Weak::upgrade).collect();
    sockets.retain(|socket| socket.address == listen.address && socket.is_reachable());
    sockets
}

/// Opens sockets until there are as many as the options require.
fn grow(
    table: &mut Vec<Weak<Socket>>,
    sockets: &mut Vec<Arc<Socket>>,
    listen: &Listen,
    options: &Options,
) -> Result<(), BindError> {
    let wanted = if matches!(listen.address, Address::Udp(_)) { options.shares.max(1) } else { 1 };
    while sockets.len() < wanted {
        if let [.., last] = &sockets[..] {
            share_port(last)?;
        }
        let address = sockets.first().map_or(&listen.address, |first| &first.address);
        let is_shared = !sockets.is_empty();
        let opened = Socket::open(
            &Listen { address: address.clone(), ..listen.clone() },
            options,
            is_shared,
        );
        let socket = Arc::new(opened?);
        table.push(Arc::downgrade(&socket));
        sockets.push(socket);
    }
    Ok(())
}

/// Allows additional sockets on the same port. Call this only after the first socket was bound:
/// because that bind is exclusive, it shows that no other process uses the port.
fn share_port(socket: &Socket) -> Result<(), BindError> {
    let shared = sockopt::set_socket_reuseport(&socket.fd, true);
    shared
        .map_err(|error| BindError::system(&socket.address, "share the port among threads", error))
}

impl Socket {
    fn open(listen: &Listen, options: &Options, shares_port: bool) -> Result<Socket, BindError> {
        let address = &listen.address;
        let family = match address.socket() {
            None => AddressFamily::UNIX,
            Some(SocketAddr::V4(_)) => AddressFamily::INET,
            Some(SocketAddr::V6(_)) => AddressFamily::INET6,
        };
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let fd = socket_with(family, kind(address), flags, None);
        let fd = fd.map_err(|error| BindError::system(address, "create a socket", error))?;
        let prepared = prepare(&fd, address, shares_port);
        prepared.map_err(|error| BindError::system(address, "set up the socket", error))?;
        let file = match address.socket() {
            None => Some(SocketFile::bind(&fd, address, listen.mode)?),
            Some(at) => {
                bind(&fd, &at)
                    .map_err(|error| BindError::system(address, "listen on it", error))?;
                None
            }
        };
        // From here on, dropping the socket removes its file.
        let address = bound(&fd, address);
        let (orphans, readers) = (Mutex::default(), Mutex::default());
        let (datagrams_max, drops_counted) = (datagrams_max(), Mutex::new(0));
        let peer = Arc::new(Subject::local_peer(&address.to_string()));
        let socket =
            Socket { fd, address, peer, file, datagrams_max, drops_counted, orphans, readers };
        socket.apply_options(listen, options)?;
        if !socket.address.is_datagram() {
            let listening = rustix::net::listen(&socket.fd, BACKLOG);
            listening.map_err(|error| BindError::system(&socket.address, "listen on it", error))?;
        }
        Ok(socket)
    }

    /// Applies the options that can change while the socket is open.
    fn apply_options(&self, listen: &Listen, options: &Options) -> Result<(), BindError> {
        let requested = options.receive_buffer;
        // The forced size works only with CAP_NET_ADMIN; otherwise net.core.rmem_max is the limit.
        if sockopt::set_socket_recv_buffer_size_force(&self.fd, requested).is_err() {
            let _ = sockopt::set_socket_recv_buffer_size(&self.fd, requested);
        }
        if matches!(self.address, Address::UnixDatagram(_)) && options.credentials {
            let passed = sockopt::set_socket_passcred(&self.fd, true);
            passed
                .map_err(|error| BindError::system(&self.address, "request credentials", error))?;
        }
        match (&self.file, listen.mode) {
            (Some(file), Some(mode)) => file.set_mode(mode).map_err(|error| {
                BindError::system(&self.address, "set the mode of the socket file", error)
            }),
            _ => Ok(()),
        }
    }

    /// Returns whether the socket can be reached: `false` if its file was removed or replaced.
    fn is_reachable(&self) -> bool {
        self.file.as_ref().is_none_or(SocketFile::is_there)
    }

    /// Returns the receive buffer size in the unit of the request. The kernel doubles the request
    /// for its bookkeeping.
    pub fn granted(&self) -> usize {
        sockopt::socket_recv_buffer_size(&self.fd).unwrap_or(0) / 2
    }

    /// Returns the maximum amount of data that the socket's buffer can contain.
    pub fn capacity(&self) -> BufferCapacity {
        match self.address {
            Address::UnixDatagram(_) => BufferCapacity::Datagrams(self.datagrams_max),
            _ => BufferCapacity::Bytes(self.granted() * 2),
        }
    }

    /// Returns whether one receive buffer may contain several datagrams.
    pub fn merges_datagrams(&self) -> bool {
        has_network(&self.address)
    }

    /// Returns the subject with which reads of a connection from this address are recorded.
    pub fn connection_peer(&self, address: Option<SocketAddr>) -> Arc<Subject> {
        let remote = address.map(|address| Arc::new(Subject::peer("", address)));
        remote.unwrap_or_else(|| self.peer.clone())
    }

    /// Stops accepting datagrams. Datagrams that have already arrived can still be read.
    pub fn stop_receiving(&self) -> io::Result<()> {
        match self.address {
            Address::Udp(_) => sys::drop_all(self.fd.as_fd()),
            Address::UnixDatagram(_) => Ok(rustix::net::shutdown(&self.fd, Shutdown::Read)?),
            _ => Ok(()),
        }
    }

    /// Returns the number of packets that the kernel has dropped at this socket since the last call
    /// by any receiver. Each packet is counted once, even when two receivers share the socket.
    pub fn new_drops(&self) -> u32 {
        if !matches!(self.address, Address::Udp(_)) {
            return 0;
        }
        let mut counted = self.drops_counted.lock();
        let now = match sys::drops(self.fd.as_fd()) {
            Ok(now) => now,
            Err(error) => {
                DROPS_UNSUPPORTED.call_once(|| {
                    log::warn!(
                        "{}: this system does not report dropped packets: {error}",
                        self.address
                    );
                });
                return 0;
            }
        };
        let new = now.wrapping_sub(*counted);
        *counted = now;
        new
    }
}

/// Connections outlive the receiver thread that accepted them if another thread listens on the
/// address.
impl Socket {
    /// Registers a thread to be woken when there are orphans.
    pub fn add_reader(&self, reader: &Arc<Wake>) {
        let mut readers = self.readers.lock();
        readers.retain(|known| known.strong_count() > 0);
        readers.push(Arc::downgrade(reader));
    }

    /// Leaves a connection to the threads that still accept connections here. If there are none,
    /// the connection is closed with the socket.
    pub fn add_orphan(&self, connection: Connection) {
        self.orphans.lock().push(connection);
        self.readers.lock().iter().filter_map(Weak::upgrade).for_each(|reader| reader.wake());
    }

    /// Takes the orphaned connections.
    pub fn take_orphans(&self) -> Vec<Connection> {
        std::mem::take(&mut *self.orphans.lock())
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        if let Some(file) = &self.file {
            file.remove();
        }
    }
}

fn prepare(fd: &OwnedFd, address: &Address, shares_port: bool) -> Result<(), Errno> {
    match address {
        Address::Udp(_) => {
            if shares_port {
                sockopt::set_socket_reuseport(fd, true)?;
            }
            // This option is set only if a network card may have merged datagrams. With the option,
            // the kernel reads a cold cache line of every datagram, which costs a local datagram a
            // seventh of its CPU time. Kernels before 5.0 do not support the option; each datagram
            // then takes a buffer.
            if has_network(address) {
                let _ = sys::merge_datagrams(fd.as_fd());
            }
            Ok(())
        }
        // Connections of a previous process may still be closing.
        Address::Tcp(_) => sockopt::set_socket_reuseaddr(fd, true),
        _ => Ok(()),
    }
}

/// Returns the maximum queue length that a Unix datagram socket gets if it is created now.
fn datagrams_max() -> usize {
    let text = std::fs::read_to_string("/proc/sys/net/unix/max_dgram_qlen").unwrap_or_default();
    // The kernel accepts one datagram more than the limit. The fallback is the largest common
    // value.
    text.trim().parse().map_or(DATAGRAMS_MAX, |limit: usize| limit.saturating_add(1))
}

/// Returns whether this is a UDP address to which other hosts can send.
fn has_network(address: &Address) -> bool {
    matches!(address, Address::Udp(at) if !at.ip().is_loopback())
}

/// Returns the address with the port that the kernel chose, if the request left it open.
fn bound(fd: &OwnedFd, address: &Address) -> Address {
    let is = |requested: SocketAddr| {
        let name = getsockname(fd).ok().and_then(|name| SocketAddr::try_from(name).ok());
        SocketAddr::new(requested.ip(), name.map_or(requested.port(), |name| name.port()))
    };
    match address {
        Address::Udp(requested) => Address::Udp(is(*requested)),
        Address::Tcp(requested) => Address::Tcp(is(*requested)),
        unix => unix.clone(),
    }
}
