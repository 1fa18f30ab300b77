//! A receiver thread, which waits for its sockets, reads them and passes the messages on.

use crate::connection::{Connection, ReadOutcome, is_transient};
use crate::connection_limit::{ConnectionLimit, Slot};
use crate::control::{Command, Control};
use crate::epoll::{register, timespec};
use crate::handler::GuardedHandler;
use crate::merge_pacer::MergePacer;
use crate::messages::Batch;
use crate::receive_buffers::{Ancillary, ReceiveBuffers, Received};
use crate::senders::Senders;
use crate::socket::Input;
use crate::stats::{Counters, add};
use crate::stream::{Desynchronized, Stream};
use crate::sys::Mapping;
use crate::{Address, Options};
use rustix::event::{PollFd, PollFlags, Timespec, epoll, poll};
use rustix::io::Errno;
use rustix::net::{SocketFlags, acceptfrom_with};
use std::collections::HashMap;
use std::fmt::Display;
use std::io;
use std::mem::ManuallyDrop;
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Maximum number of receive rounds per socket before the next socket gets a turn.
const ROUNDS_MAX: usize = 8;

/// Maximum number of connections accepted per socket before the next socket gets a turn.
const ACCEPTS_MAX: usize = 64;

/// Maximum number of accept turns per socket during a pause, which is enough for a full backlog.
const PAUSE_ACCEPTS_MAX: usize = 16;

/// How long a socket is ignored after a persistent error, such as `EMFILE`.
const BACKOFF: Duration = Duration::from_millis(100);

/// Interval between two checks for connections that have timed out.
const CHECK_INTERVAL: Duration = Duration::from_millis(500);

/// Epoll tokens. A socket's token is its index; the tokens of connections start at
/// `FIRST_CONNECTION`.
const WAKE: u64 = u64::MAX;
const NON_UDP: u64 = u64::MAX - 1;
pub const FIRST_CONNECTION: u64 = 1 << 32;

/// A connection that this thread reads. Fields are dropped in order, so the slot is freed before
/// the descriptor is closed. The slot must be free once the connection limit can no longer detect a
/// hang-up.
struct OpenConnection {
    slot: Slot,
    index: usize,
    connection: Connection,
}

/// The state of one receiver thread.
pub struct Reader {
    control: Arc<Control>,
    counters: Arc<Counters>,
    options: Options,
    handler: GuardedHandler,
    inputs: Vec<Input>,
    /// Epoll instances: `all` for all descriptors, and `non_udp` for all except UDP sockets. A
    /// merge pause waits on `non_udp`.
    all: OwnedFd,
    non_udp: OwnedFd,
    connection_limit: Arc<ConnectionLimit>,
    connections: HashMap<u64, OpenConnection>,
    buffers: ReceiveBuffers,
    stream_memory: Mapping,
    batch: Batch,
    senders: Senders,
    pacer: MergePacer,
    /// Sockets that are ignored after an error, each with the end of that time.
    backing_off: Vec<(Instant, usize)>,
    /// Size of the smallest receive buffer among the UDP sockets, in bytes, as the kernel counts
    /// them.
    buffer_bytes: usize,
    /// When to look for connections that have timed out; `None` if there is nothing to look for.
    check_due: Option<Instant>,
    /// Token of the socket or connection that is being read, which is the cause if a read panics.
    reading: Option<u64>,
}

impl Reader {
    pub fn new(
        control: Arc<Control>,
        counters: Arc<Counters>,
        connection_limit: Arc<ConnectionLimit>,
        options: Options,
        handler: GuardedHandler,
        inputs: Vec<Input>,
    ) -> io::Result<Reader> {
        let all = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let non_udp = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        register(&all, non_udp.as_fd(), NON_UDP, epoll::EventFlags::IN)?;
        register(&non_udp, control.fd(), WAKE, epoll::EventFlags::IN)?;
        let buffers = ReceiveBuffers::new(&options)?;
        let stream_memory = Mapping::new(Stream::memory_bytes(options.message_bytes_max))?;
        let reader = Reader {
            control,
            counters,
            options,
            handler,
            inputs,
            all,
            non_udp,
            connection_limit,
            connections: HashMap::new(),
            buffers,
            stream_memory,
            batch: Batch::default(),
            senders: Senders::default(),
            pacer: MergePacer::new(Instant::now()),
            backing_off: Vec::new(),
            buffer_bytes: 0,
            check_due: None,
            reading: None,
        };
        (0..reader.inputs.len()).try_for_each(|index| reader.register_input(index))?;
        Ok(reader)
    }

    /// Registers a socket with epoll.
    fn register_input(&self, index: usize) -> io::Result<()> {
        let socket = &self.inputs[index].socket;
        let (epoll, flags) = match &socket.address {
            Address::Udp(_) => (&self.all, epoll::EventFlags::IN),
            Address::UnixDatagram(_) => (&self.non_udp, epoll::EventFlags::IN),
            // Every thread watches this socket, but a connection should wake only one of them.
            _ => (&self.non_udp, epoll::EventFlags::IN | epoll::EventFlags::EXCLUSIVE),
        };
        register(epoll, socket.fd.as_fd(), index as u64, flags)
    }

    /// Runs until the thread is asked to shut down.
    pub fn run(mut self) {
        let mut events = Vec::with_capacity(256);
        for input in self.inputs.iter().filter(|input| !input.socket.address.is_datagram()) {
            input.socket.add_reader(self.control.waker());
        }
        // The first command arrives when the receiver resumes.
        let mut is_running = self.catch_panic(Reader::run_commands);
        while is_running != Some(false) {
            is_running = self.catch_panic(|reader| reader.poll_once(&mut events));
        }
    }

    /// Calls `operation`; returns `None` if it panics. After a panic, the connection being read is
    /// closed, or the socket is ignored for a while, so that the same panic does not recur
    /// immediately.
    fn catch_panic<T>(&mut self, operation: impl FnOnce(&mut Reader) -> T) -> Option<T> {
        self.reading = None;
        let panic = match catch_unwind(AssertUnwindSafe(|| operation(self))) {
            Ok(value) => return Some(value),
            Err(panic) => panic,
        };
        let _ = ManuallyDrop::new(panic); // dropping it may panic, too
        add(&self.counters.panics, 1);
        self.counters.record_error("reading a socket panicked; see the log".into());
        match self.reading.take() {
            Some(token) if token >= FIRST_CONNECTION => _ = self.connections.remove(&token),
            Some(index) => self.back_off(index as usize),
            None => {}
        }
        // A command may have been taken but not carried out.
        self.control.wake();
        None
    }

    /// Waits for sockets, and reads those that are ready. Returns `false` on shutdown.
    fn poll_once(&mut self, events: &mut Vec<epoll::Event>) -> bool {
        self.wait(events);
        self.close_timed_out();
        let (mut datagrams, mut bytes, mut is_emptied) = (0, 0, false);
        let mut has_command = false;
        for event in events.drain(..) {
            if self.control.is_ending() {
                return false;
            }
            match event.data.u64() {
                WAKE => has_command = true,
                token if token >= FIRST_CONNECTION => {
                    let hang_up =
                        epoll::EventFlags::RDHUP | epoll::EventFlags::HUP | epoll::EventFlags::ERR;
                    let flags = event.flags; // the struct is packed
                    self.read_connection(token, flags.intersects(hang_up));
                }
                index => {
                    let (n, read, is_empty) = self.read_input(index as usize);
                    (datagrams, bytes, is_emptied) =
                        (datagrams + n, bytes + read, is_emptied || is_empty);
                }
            }
        }
        if datagrams > 0 && self.options.merge {
            self.pacer.record(Instant::now(), datagrams, bytes);
            if is_emptied {
                self.pause_to_merge();
            }
        }
        !has_command || self.run_commands()
    }

    /// Fills `events` with the descriptors that are ready; blocks if there are none.
    fn wait(&mut self, events: &mut Vec<epoll::Event>) {
        let now = Instant::now;
        while let Some(at) = self.backing_off.iter().position(|(until, _)| *until <= now()) {
            let (_, index) = self.backing_off.swap_remove(at);
            if let Err(error) = self.register_input(index) {
                self.record_failure(index, error);
            }
        }
        let until = self.backing_off.iter().map(|(until, _)| *until).chain(self.check_due).min();
        let timeout = until.map(|until| timespec(until.saturating_duration_since(now())));
        let waited =
            epoll::wait(&self.all, rustix::buffer::spare_capacity(events), timeout.as_ref());
        if waited.is_err() {
            return;
        }
        if let Some(at) = events.iter().position(|event| event.data.u64() == NON_UDP) {
            events.swap_remove(at);
            let zero = Timespec { tv_sec: 0, tv_nsec: 0 };
            let _ = epoll::wait(&self.non_udp, rustix::buffer::spare_capacity(events), Some(&zero));
        }
    }

    /// Runs pending commands. Returns `false` on shutdown.
    fn run_commands(&mut self) -> bool {
        self.reading = None;
        loop {
            match self.control.next_command() {
                Command::Read => {
                    self.take_inputs();
                    self.adopt_orphans();
                    return true;
                }
                Command::Shutdown => return false,
                Command::Notify => self.handler.notified(&self.counters),
                Command::Pause => {
                    self.adopt_orphans();
                    self.catch_panic(Reader::read_all);
                    self.handler.notified(&self.counters);
                    self.control.report_paused();
                }
            }
        }
    }

    /// Registers the sockets that were added since the last call, and recalculates the smallest
    /// buffer size, which may have changed.
    fn take_inputs(&mut self) {
        for input in self.control.take_inputs() {
            let index = self.inputs.len();
            self.inputs.push(input);
            if let Err(error) = self.register_input(index) {
                self.record_failure(index, error);
            }
        }
        let udp =
            self.inputs.iter().filter(|input| matches!(input.socket.address, Address::Udp(_)));
        self.buffer_bytes = udp.map(|input| input.socket.granted() * 2).min().unwrap_or(0);
    }

    /// Pauses briefly while UDP datagrams accumulate. Other sockets still wake the thread.
    fn pause_to_merge(&mut self) {
        let Some(pause) = self.pacer.pause(self.buffer_bytes) else { return };
        add(&self.counters.merge_pauses, 1);
        let mut fds = [PollFd::new(&self.non_udp, PollFlags::IN)];
        let _ = poll(&mut fds, Some(&timespec(pause)));
    }

    /// Reads a socket, or accepts its connections. Returns the number of datagrams and bytes that
    /// were read if it is a UDP socket, and whether the socket is now empty.
    fn read_input(&mut self, index: usize) -> (usize, usize, bool) {
        self.reading = Some(index as u64);
        if !self.inputs[index].socket.address.is_datagram() {
            self.accept(index);
            return (0, 0, false);
        }
        let is_udp = matches!(self.inputs[index].socket.address, Address::Udp(_));
        let (mut datagrams, mut bytes) = (0, 0);
        for _ in 0..ROUNDS_MAX {
            if self.control.is_ending() {
                break;
            }
            let max = self.buffers.depth();
            let Some(received) = self.receive_round(index, max) else {
                return (datagrams, bytes, false);
            };
            datagrams += self.batch.messages + received.truncated;
            bytes += self.batch.bytes;
            if received.buffers < max {
                return (if is_udp { datagrams } else { 0 }, bytes, is_udp);
            }
        }
        (if is_udp { datagrams } else { 0 }, bytes, false)
    }

    /// Receives one round from a datagram socket, and passes it on. Returns `None` on error.
    fn receive_round(&mut self, index: usize, max: usize) -> Option<Received> {
        let socket = self.inputs[index].socket.clone();
        self.batch.clear();
        let ancillary = match socket.address {
            Address::Udp(_) if socket.merges_datagrams() => Ancillary::Segments,
            Address::UnixDatagram(_) if self.options.credentials => {
                Ancillary::Senders(&mut self.senders)
            }
            _ => Ancillary::Plain(self.batch.add_sender(None)),
        };
        match self.buffers.receive(socket.fd.as_fd(), max, ancillary, &socket.peer, &mut self.batch)
        {
            Ok(received) => {
                add(&self.counters.truncated, received.truncated);
                self.handler.round(self.buffers.memory(), &self.batch, &self.counters);
                self.buffers.trim();
                Some(received)
            }
            Err(error) if is_transient(error) => Some(Received::default()),
            Err(error) => {
                self.record_failure(index, error);
                None
            }
        }
    }

    /// Counts a socket error, and ignores the socket for a while, because it would be ready again
    /// immediately.
    fn record_failure(&mut self, index: usize, error: impl Display) {
        add(&self.counters.socket_errors, 1);
        self.counters.record_error(format!("{}: {error}", self.inputs[index].socket.address));
        self.back_off(index);
    }

    fn back_off(&mut self, index: usize) {
        let socket = &self.inputs[index].socket;
        let epoll =
            if matches!(socket.address, Address::Udp(_)) { &self.all } else { &self.non_udp };
        let _ = epoll::delete(epoll, &socket.fd);
        self.backing_off.retain(|(_, waiting)| *waiting != index);
        self.backing_off.push((Instant::now() + BACKOFF, index));
    }

    /// Accepts waiting connections. Returns whether there may be more.
    fn accept(&mut self, index: usize) -> bool {
        for _ in 0..ACCEPTS_MAX {
            let Input { socket, protocol } = &self.inputs[index];
            match acceptfrom_with(&socket.fd, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK) {
                Ok((fd, address)) => {
                    let address = address.and_then(|address| address.try_into().ok());
                    let peer = socket.connection_peer(address);
                    let listener = &socket.address;
                    let connection =
                        Connection::new(fd, address, peer, listener, protocol, &self.options);
                    add(&self.counters.connections_accepted, 1);
                    match connection {
                        Ok(connection) => self.add_connection(index, connection),
                        Err(error) => self.record_tls_error(index, address, &error),
                    }
                }
                Err(Errno::CONNABORTED | Errno::PROTO | Errno::PERM) => {}
                Err(error) if is_transient(error) => return false,
                Err(error) => {
                    self.record_failure(index, error);
                    return false;
                }
            }
        }
        true
    }

    fn record_tls_error(&self, index: usize, peer: Option<SocketAddr>, error: &str) {
        add(&self.counters.tls_errors, 1);
        let address = &self.inputs[index].socket.address;
        let peer = from(peer);
        self.counters.record_error(format!("{address}: TLS failed on a connection{peer}: {error}"));
    }

    /// Registers an accepted connection, or rejects it if the handler does not accept its address
    /// or the limit is reached.
    fn add_connection(&mut self, index: usize, connection: Connection) {
        if connection.address().is_some_and(|address| !self.handler.0.accepts(address)) {
            return add(&self.counters.connections_denied, 1);
        }
        match self.register_connection(index, connection) {
            Ok(true) => {}
            Ok(false) => add(&self.counters.connections_refused, 1),
            Err(error) => {
                add(&self.counters.socket_errors, 1);
                self.counters
                    .record_error(format!("{}: {error}", self.inputs[index].socket.address));
            }
        }
    }

    /// Registers an accepted connection. Returns `false` if the limit is reached.
    fn register_connection(&mut self, index: usize, connection: Connection) -> io::Result<bool> {
        let acquired =
            self.connection_limit.acquire(&connection.fd, self.options.connections_max)?;
        let Some((slot, hung_up)) = acquired else { return Ok(false) };
        // A panic while reading a closed connection must not affect the new one.
        self.catch_panic(|reader| reader.close_hung_up(&hung_up));
        self.reading = Some(index as u64);
        let flags = epoll::EventFlags::IN | epoll::EventFlags::RDHUP;
        register(&self.non_udp, connection.fd.as_fd(), slot.token(), flags)?;
        self.connections.insert(slot.token(), OpenConnection { slot, index, connection });
        if self.options.idle_timeout.or(self.options.message_timeout).is_some() {
            self.check_due.get_or_insert_with(|| Instant::now() + CHECK_INTERVAL);
        }
        Ok(true)
    }

    /// Closes a connection as if its peer had closed it, so that its last message is kept even if
    /// the delimiter of the message is missing.
    fn end_connection(&mut self, token: u64) {
        let Some(open) = self.connections.get_mut(&token) else { return };
        self.reading = Some(token);
        self.batch.clear();
        let framing_errors = open.connection.finish(
            &mut self.stream_memory,
            &mut self.senders,
            &mut self.batch,
            &self.options,
        );
        self.handler.round(self.stream_memory.bytes(), &self.batch, &self.counters);
        add(&self.counters.framing_errors, framing_errors);
        self.connections.remove(&token);
    }

    /// Closes the connections that have timed out, if the check is due.
    fn close_timed_out(&mut self) {
        let now = Instant::now();
        if self.check_due.is_none_or(|due| due > now) {
            return;
        }
        // Data that has arrived is read first. The thread may have waited for its handler.
        let is_over = |open: &OpenConnection| {
            open.connection.is_timed_out(now, &self.options) && open.connection.waiting() == 0
        };
        let over = self.connections.iter().filter(|(_, open)| is_over(open));
        let over: Vec<u64> = over.map(|(token, _)| *token).collect();
        for token in over {
            self.end_connection(token);
            add(&self.counters.connections_timed_out, 1);
        }
        self.check_due = (!self.connections.is_empty()).then(|| now + CHECK_INTERVAL);
    }

    /// Drains and closes those of this thread's connections that their peers have closed. When
    /// connections come and go quickly, the hang-ups of old connections may be queued behind new
    /// connections.
    fn close_hung_up(&mut self, hung_up: &[u64]) {
        for token in hung_up {
            // The first read gets the data, and the second one gets the end of the stream. A
            // transient error must not block the thread.
            let mut reads = 0;
            while reads < 2 && self.connections.contains_key(token) {
                reads += usize::from(self.read_connection(*token, true) == 0);
            }
        }
    }

    /// Takes over the connections of receivers that have ended.
    fn adopt_orphans(&mut self) {
        for index in 0..self.inputs.len() {
            let socket = self.inputs[index].socket.clone();
            for mut connection in socket.take_orphans() {
                match connection.apply_options(&socket.address, &self.options) {
                    Ok(framing_errors) => {
                        add(&self.counters.framing_errors, framing_errors);
                        self.add_connection(index, connection);
                    }
                    Err(Desynchronized) => add(&self.counters.framing_errors, 1),
                }
            }
        }
    }

    /// Reads one chunk from a connection. Returns the number of bytes read if there may be more
    /// data, and otherwise 0.
    fn read_connection(&mut self, token: u64, is_hung_up: bool) -> usize {
        let Some(OpenConnection { index, connection, .. }) = self.connections.get_mut(&token)
        else {
            return 0;
        };
        self.reading = Some(token);
        self.batch.clear();
        let outcome = if connection.is_packets() {
            let outcome = connection.packets(
                &mut self.buffers,
                &mut self.senders,
                &mut self.batch,
                is_hung_up,
                &self.options,
            );
            self.handler.round(self.buffers.memory(), &self.batch, &self.counters);
            self.buffers.trim();
            outcome
        } else {
            let outcome = connection.stream(
                &mut self.stream_memory,
                &mut self.senders,
                &mut self.batch,
                &self.options,
            );
            self.handler.round(self.stream_memory.bytes(), &self.batch, &self.counters);
            outcome
        };
        let (index, peer) = (*index, connection.address());
        self.count(&outcome, index, peer);
        if outcome.is_finished {
            self.connections.remove(&token);
        } else if outcome.is_closing {
            self.read_connection(token, true);
        }
        if outcome.is_more { outcome.bytes } else { 0 }
    }

    /// Counts the errors of a read from a connection, and records what the user needs to know.
    fn count(&self, outcome: &ReadOutcome, index: usize, peer: Option<SocketAddr>) {
        add(&self.counters.truncated, outcome.truncated);
        add(&self.counters.framing_errors, outcome.framing_errors);
        let address = &self.inputs[index].socket.address;
        if let Some(error) = outcome.error {
            add(&self.counters.connection_errors, 1);
            self.counters.record_error(format!("{address}: a connection failed: {error}"));
        }
        if let Some(error) = &outcome.tls_error {
            self.record_tls_error(index, peer, error);
        }
        if outcome.is_desynchronized {
            // The sender may connect again and again.
            let peer = from(peer);
            self.counters.record_error(format!(
                "{address}: closed a connection{peer}, because the length of a message is invalid"
            ));
        }
    }

    /// Reads all data that is in the sockets at this moment.
    fn read_all(&mut self) {
        for index in 0..self.inputs.len() {
            self.reading = Some(index as u64);
            if !self.inputs[index].socket.address.is_datagram() {
                (0..PAUSE_ACCEPTS_MAX).take_while(|_| self.accept(index)).count();
                continue;
            }
            let mut left = self.inputs[index].socket.capacity();
            while !left.is_exhausted() && !self.control.is_ending() {
                let max = self.buffers.depth();
                let Some(received) = self.receive_round(index, max) else { break };
                if received.buffers < max {
                    break;
                }
                left.consume(received.buffers, self.batch.bytes);
            }
        }
        // Measure the amount before the first read. Otherwise, a peer that never stops sending
        // would prevent the receiver from pausing.
        let waiting = |(token, open): (&u64, &OpenConnection)| (*token, open.connection.waiting());
        let waiting: Vec<(u64, usize)> = self.connections.iter().map(waiting).collect();
        for (token, mut left) in waiting {
            let mut bytes = usize::MAX;
            while left > 0 && bytes > 0 && !self.control.is_ending() {
                bytes = self.read_connection(token, false);
                left = left.saturating_sub(bytes);
            }
        }
    }
}

/// Returns the peer of a connection for messages to the user.
fn from(peer: Option<SocketAddr>) -> String {
    peer.map_or_else(String::new, |peer| format!(" from {peer}"))
}

/// Leaves the connections to the socket's remaining readers, however the thread exits.
impl Drop for Reader {
    fn drop(&mut self) {
        for (_, OpenConnection { slot, index, connection }) in self.connections.drain() {
            let _ = epoll::delete(&self.non_udp, &connection.fd);
            self.connection_limit.unregister(&connection.fd);
            drop(slot);
            self.inputs[index].socket.add_orphan(connection);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::socket::SocketSet;
    use crate::{Framing, Listen, MessageHandler, Messages};

    struct NoopHandler;

    impl MessageHandler for NoopHandler {
        fn round(&mut self, _: &Messages<'_>) {}
        fn notified(&mut self) {}
    }

    /// Creates a reader for a Unix datagram socket.
    fn reader(folder: &std::path::Path) -> (Reader, SocketSet) {
        let options = Options {
            shares: 1,
            receive_buffer: 1 << 16,
            message_bytes_max: 100,
            connections_max: 1,
            truncates: false,
            credentials: false,
            addresses: false,
            idle_timeout: None,
            message_timeout: None,
            merge: false,
        };
        let listen = Listen {
            address: Address::UnixDatagram(folder.join("a.sock")),
            mode: None,
            framing: Framing::Lines,
            tls: None,
        };
        let sockets = SocketSet::open(&listen, &options).unwrap();
        let inputs =
            vec![Input { socket: sockets.sockets()[0].clone(), protocol: listen.protocol() }];
        let control = Arc::new(Control::new().unwrap());
        let connection_limit = Arc::new(ConnectionLimit::new(FIRST_CONNECTION).unwrap());
        let handler = GuardedHandler(Box::new(NoopHandler));
        (
            Reader::new(control, Arc::default(), connection_limit, options, handler, inputs)
                .unwrap(),
            sockets,
        )
    }

    /// Without a retry, the socket would never be read after that.
    #[test]
    fn a_failed_epoll_registration_is_retried() {
        let folder = tempfile::tempdir().unwrap();
        let (mut reader, _sockets) = reader(folder.path());
        reader.back_off(0);
        // The descriptor is not an epoll instance, so registering a socket fails.
        let event = rustix::event::eventfd(0, rustix::event::EventfdFlags::CLOEXEC).unwrap();
        let non_udp = std::mem::replace(&mut reader.non_udp, event);
        std::thread::sleep(BACKOFF);
        reader.wait(&mut Vec::with_capacity(8));
        assert_eq!(reader.counters.read().socket_errors, 1);
        assert_eq!(reader.backing_off.len(), 1);
        reader.non_udp = non_udp;
        std::thread::sleep(BACKOFF);
        reader.control.wake();
        reader.wait(&mut Vec::with_capacity(8));
        assert_eq!(reader.counters.read().socket_errors, 1);
        assert!(reader.backing_off.is_empty());
        assert!(reader.register_input(0).is_err(), "it is registered already");
    }
}
