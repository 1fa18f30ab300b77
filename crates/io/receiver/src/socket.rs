//! Sockets that are listened at, and the table of those this process has open.

use crate::connection::Connection;
use crate::control::Control;
use crate::file::{SocketFile, kind};
use crate::{Address, BindError, Listen, Options, sys};
use parking_lot::{Mutex, MutexGuard};
use rustix::io::Errno;
use rustix::net::{AddressFamily, Shutdown, SocketFlags, bind, getsockname, socket_with, sockopt};
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Once, Weak};

/// Connections that wait to be taken; the system lowers it to net.core.somaxconn.
const BACKLOG: i32 = 1024;

/// Datagrams that wait at a Unix socket where the system does not say its limit.
const DATAGRAMS_MAX: usize = 4096;

/// What is left of a buffer's contents at one moment while they are read.
#[derive(Debug)]
pub enum Room {
    Datagrams(usize),
    Bytes(usize),
}

impl Room {
    pub fn is_used_up(&self) -> bool {
        matches!(self, Room::Datagrams(0) | Room::Bytes(0))
    }

    pub fn take(&mut self, datagrams: usize, bytes: usize) {
        match self {
            Room::Datagrams(left) => *left = left.saturating_sub(datagrams),
            // Every datagram is charged for its slot in the kernel as well.
            Room::Bytes(left) => {
                *left = left.saturating_sub(bytes + datagrams * DATAGRAM_BYTES_MIN)
            }
        }
    }
}

/// Bytes that the kernel charges for a datagram at least, beside its own.
const DATAGRAM_BYTES_MIN: usize = 512;

/// A socket that is listened at. Receivers of one process that listen at one address share it, so
/// that what waits in its buffer is read by whoever goes on.
#[derive(Debug)]
pub struct Socket {
    pub fd: OwnedFd,
    /// With the port the system gave, if 0 was asked for.
    pub address: Address,
    file: Option<SocketFile>,
    /// Datagrams that wait at most, if it is a Unix socket: their bytes are charged to senders.
    datagrams_max: usize,
    /// Drops of the kernel that have been counted already.
    drops_counted: Mutex<u32>,
    /// Connections whose receiver has ended, for one that goes on.
    orphans: Mutex<Vec<Connection>>,
    /// Threads that take connections here, to be told of orphans.
    readers: Mutex<Vec<Weak<Control>>>,
}

/// The sockets of this process. Weak: the table keeps nothing open.
static TABLE: Mutex<Vec<Weak<Socket>>> = Mutex::new(Vec::new());

/// Kernels before 4.12 do not count drops for a program; that is said once.
static UNKNOWN_DROPS: Once = Once::new();

fn table() -> MutexGuard<'static, Vec<Weak<Socket>>> {
    TABLE.lock()
}

/// The sockets of one address, held by one receiver. They are let go under the lock of the table:
/// nobody finds a socket file whose owner is just about to remove it.
#[derive(Debug)]
pub struct Held {
    listen: Listen,
    options: Options,
    sockets: Mutex<Vec<Arc<Socket>>>,
    /// Sockets of another receiver are left as they are until this one reads.
    is_unchanged: AtomicBool,
}

impl Drop for Held {
    fn drop(&mut self) {
        let mut table = table();
        self.sockets.lock().clear();
        table.retain(|socket| socket.strong_count() > 0);
    }
}

impl Held {
    /// Opens an address, or shares the sockets this process has open there.
    pub fn open(listen: &Listen, options: &Options) -> Result<Held, BindError> {
        let mut table = table();
        let mut sockets = find(&table, listen);
        let is_shared = !sockets.is_empty();
        if !is_shared {
            grow(&mut table, &mut sockets, listen, options)?;
        }
        drop(table);
        let (sockets, is_unchanged) = (Mutex::new(sockets), AtomicBool::new(is_shared));
        Ok(Held { listen: listen.clone(), options: *options, sockets, is_unchanged })
    }

    /// Applies what was asked for to sockets that are shared, and opens those that are missing,
    /// when it is called for the first time. Returns the sockets that are new here with their
    /// places in the list, and the error at which it stopped.
    pub fn begin(&self) -> (Vec<(usize, Arc<Socket>)>, Option<BindError>) {
        if !self.is_unchanged.swap(false, Relaxed) {
            return (Vec::new(), None);
        }
        let (mut table, mut sockets) = (table(), self.sockets.lock());
        let known = sockets.len();
        for found in find(&table, &self.listen) {
            // Another receiver may have opened more of them meanwhile.
            if !sockets.iter().any(|socket| Arc::ptr_eq(socket, &found)) {
                sockets.push(found);
            }
        }
        let adapted =
            sockets.iter().try_for_each(|socket| socket.adapt(&self.listen, &self.options));
        let grown = grow(&mut table, &mut sockets, &self.listen, &self.options);
        let new = sockets.iter().cloned().enumerate().skip(known).collect();
        (new, adapted.and(grown).err())
    }

    pub fn sockets(&self) -> Vec<Arc<Socket>> {
        self.sockets.lock().clone()
    }

    /// Bytes of receive buffer that were asked for.
    pub fn asked(&self) -> usize {
        self.options.receive_buffer
    }
}

/// The sockets this process has open at an address.
fn find(table: &[Weak<Socket>], listen: &Listen) -> Vec<Arc<Socket>> {
    let mut sockets: Vec<Arc<Socket>> = table.iter().filter_map(Weak::upgrade).collect();
    sockets.retain(|socket| socket.address == listen.address && socket.is_reachable());
    sockets
}

/// Opens sockets until there are as many as wanted.
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

/// Lets further sockets have the same port. Only after the first is bound: binding it alone shows
/// that no other process has the port.
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
        let fd = fd.map_err(|error| BindError::system(address, "make a socket", error))?;
        let prepared = prepare(&fd, address, shares_port);
        prepared.map_err(|error| BindError::system(address, "set up the socket", error))?;
        let file = match address.socket() {
            None => Some(SocketFile::bind(&fd, address, listen.mode)?),
            Some(at) => {
                bind(&fd, &at)
                    .map_err(|error| BindError::system(address, "listen there", error))?;
                None
            }
        };
        // From here on, dropping the socket removes its file.
        let address = bound(&fd, address);
        let (orphans, readers) = (Mutex::default(), Mutex::default());
        let (datagrams_max, drops_counted) = (datagrams_max(), Mutex::new(0));
        let socket = Socket { fd, address, file, datagrams_max, drops_counted, orphans, readers };
        socket.adapt(listen, options)?;
        if !socket.address.is_datagram() {
            let listening = rustix::net::listen(&socket.fd, BACKLOG);
            listening.map_err(|error| BindError::system(&socket.address, "listen there", error))?;
        }
        Ok(socket)
    }

    /// Applies what may be changed while the socket is open.
    fn adapt(&self, listen: &Listen, options: &Options) -> Result<(), BindError> {
        let asked = options.receive_buffer;
        // Only with CAP_NET_ADMIN; without it net.core.rmem_max is the limit.
        if sockopt::set_socket_recv_buffer_size_force(&self.fd, asked).is_err() {
            let _ = sockopt::set_socket_recv_buffer_size(&self.fd, asked);
        }
        if matches!(self.address, Address::UnixDatagram(_)) && options.credentials {
            let passed = sockopt::set_socket_passcred(&self.fd, true);
            passed
                .map_err(|error| BindError::system(&self.address, "ask for credentials", error))?;
        }
        match (&self.file, listen.mode) {
            (Some(file), Some(mode)) => file.set_mode(mode).map_err(|error| {
                BindError::system(&self.address, "set the mode of the socket file", error)
            }),
            _ => Ok(()),
        }
    }

    /// False if somebody has removed or replaced the socket file.
    fn is_reachable(&self) -> bool {
        self.file.as_ref().is_none_or(SocketFile::is_there)
    }

    /// Bytes of buffer, as asked for: the kernel keeps twice that, for its own bookkeeping.
    pub fn granted(&self) -> usize {
        sockopt::socket_recv_buffer_size(&self.fd).unwrap_or(0) / 2
    }

    /// What its buffer can hold.
    pub fn room(&self) -> Room {
        match self.address {
            Address::UnixDatagram(_) => Room::Datagrams(self.datagrams_max),
            _ => Room::Bytes(self.granted() * 2),
        }
    }

    /// True if one slot may bring several datagrams.
    pub fn merges_datagrams(&self) -> bool {
        has_network(&self.address)
    }

    /// Takes nothing more from senders of datagrams; what has come can still be read.
    pub fn refuse(&self) -> io::Result<()> {
        match self.address {
            Address::Udp(_) => sys::filter_all(self.fd.as_fd()),
            Address::UnixDatagram(_) => Ok(rustix::net::shutdown(&self.fd, Shutdown::Read)?),
            _ => Ok(()),
        }
    }

    /// Packets the kernel dropped here since the last call by anybody: each is counted once, also
    /// when two receivers share the socket.
    pub fn new_drops(&self) -> u32 {
        if !matches!(self.address, Address::Udp(_)) {
            return 0;
        }
        let mut counted = self.drops_counted.lock();
        let now = match sys::drops(self.fd.as_fd()) {
            Ok(now) => now,
            Err(error) => {
                UNKNOWN_DROPS.call_once(|| {
                    log::warn!("{}: this system does not report drops: {error}", self.address);
                });
                return 0;
            }
        };
        let new = now.wrapping_sub(*counted);
        *counted = now;
        new
    }
}

/// Connections live longer than the receiver that took them, if another one listens at the address.
impl Socket {
    /// Has the thread told when there are orphans.
    pub fn announce(&self, reader: &Arc<Control>) {
        let mut readers = self.readers.lock();
        readers.retain(|known| known.strong_count() > 0);
        readers.push(Arc::downgrade(reader));
    }

    /// Leaves a connection to whoever goes on; it is closed with the socket if nobody does.
    pub fn leave(&self, connection: Connection) {
        self.orphans.lock().push(connection);
        self.readers.lock().iter().filter_map(Weak::upgrade).for_each(|reader| reader.wake());
    }

    /// Takes the connections that were left.
    pub fn adopt(&self) -> Vec<Connection> {
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
            // Only where a network card may have merged datagrams: with this option the kernel
            // looks into a cold line of every datagram, which costs a local one a seventh of its
            // CPU time. Kernels before 5.0 do not know it; each datagram then has a slot of its
            // own.
            if has_network(address) {
                let _ = sys::merge_datagrams(fd.as_fd());
            }
            Ok(())
        }
        // Connections of the process before this one may still be ending.
        Address::Tcp(_) => sockopt::set_socket_reuseaddr(fd, true),
        _ => Ok(()),
    }
}

/// Datagrams that the system lets wait at a Unix socket that is made now.
fn datagrams_max() -> usize {
    let text = std::fs::read_to_string("/proc/sys/net/unix/max_dgram_qlen").unwrap_or_default();
    // One more than the limit says; if it cannot be read, the largest that is usual.
    text.trim().parse().map_or(DATAGRAMS_MAX, |limit: usize| limit.saturating_add(1))
}

/// True for a UDP address that other hosts can send to.
fn has_network(address: &Address) -> bool {
    matches!(address, Address::Udp(at) if !at.ip().is_loopback())
}

/// The address with the port the system has chosen, if it was left to it.
fn bound(fd: &OwnedFd, address: &Address) -> Address {
    let is = |asked: SocketAddr| {
        let name = getsockname(fd).ok().and_then(|name| SocketAddr::try_from(name).ok());
        SocketAddr::new(asked.ip(), name.map_or(asked.port(), |name| name.port()))
    };
    match address {
        Address::Udp(asked) => Address::Udp(is(*asked)),
        Address::Tcp(asked) => Address::Tcp(is(*asked)),
        unix => unix.clone(),
    }
}
