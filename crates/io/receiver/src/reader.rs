//! What one thread does: it waits for its sockets and hands on what they have.

use crate::connection::{Connection, Reading, is_passing};
use crate::control::{Control, Order};
use crate::ends::{Ends, Place};
use crate::handler::Guarded;
use crate::messages::Batch;
use crate::pace::Pace;
use crate::senders::Senders;
use crate::slots::{Notes, Received, Slots};
use crate::socket::Socket;
use crate::stats::{Counters, add};
use crate::stream::{Broken, Stream};
use crate::sys::Area;
use crate::wait::{timespec, watch};
use crate::{Address, Framing, Options};
use rustix::event::{PollFd, PollFlags, Timespec, epoll, poll};
use rustix::io::Errno;
use rustix::net::{SocketFlags, accept_with};
use std::collections::HashMap;
use std::fmt::Display;
use std::io;
use std::mem::ManuallyDrop;
use std::os::fd::{AsFd, OwnedFd};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Rounds from one socket before the others have their turn.
const ROUNDS: usize = 8;

/// Connections taken from one socket before the others have their turn.
const ACCEPTS: usize = 64;

/// Turns of so many while the receiver is being paused: as many as a full backlog needs.
const LAST_ACCEPTS: usize = 16;

/// A socket with an error that lasts, such as no more open files, is left alone for so long.
const REST: Duration = Duration::from_millis(100);

/// Marks of events: sockets have their index, connections a number from the first on.
const WAKE: u64 = u64::MAX;
const OTHERS: u64 = u64::MAX - 1;
pub const CONNECTIONS: u64 = 1 << 32;

/// A socket this thread reads, or takes connections from.
#[derive(Debug)]
pub struct Input {
    pub socket: Arc<Socket>,
    pub framing: Framing,
}

/// A connection this thread reads. The place comes first, as fields are dropped in this order:
/// whoever cannot find the end of a connection any more, because it is closed, is to find its place
/// free.
struct Open {
    place: Place,
    index: usize,
    connection: Connection,
}

/// One thread.
pub struct Reader {
    control: Arc<Control>,
    counters: Arc<Counters>,
    options: Options,
    handler: Guarded,
    inputs: Vec<Input>,
    /// Everything, and everything but UDP: that is what is listened to during a pause for merging.
    all: OwnedFd,
    others: OwnedFd,
    ends: Arc<Ends>,
    connections: HashMap<u64, Open>,
    slots: Slots,
    memory: Area,
    batch: Batch,
    senders: Senders,
    pace: Pace,
    /// Sockets that are left alone after an error, and until when.
    resting: Vec<(Instant, usize)>,
    /// Bytes of the smallest buffer of a UDP socket, as the kernel counts them.
    buffer_bytes: usize,
    /// The mark of what is being read: if there is a panic, it is at fault.
    reading: Option<u64>,
}

impl Reader {
    pub fn new(
        control: Arc<Control>,
        counters: Arc<Counters>,
        ends: Arc<Ends>,
        options: Options,
        handler: Guarded,
        inputs: Vec<Input>,
    ) -> io::Result<Reader> {
        let all = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let others = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        watch(&all, others.as_fd(), OTHERS, epoll::EventFlags::IN)?;
        watch(&others, control.fd(), WAKE, epoll::EventFlags::IN)?;
        let slots = Slots::new(options.message_bytes_max)?;
        let memory = Area::new(Stream::memory_bytes(options.message_bytes_max))?;
        let reader = Reader {
            control,
            counters,
            options,
            handler,
            inputs,
            all,
            others,
            ends,
            connections: HashMap::new(),
            slots,
            memory,
            batch: Batch::default(),
            senders: Senders::default(),
            pace: Pace::new(Instant::now()),
            resting: Vec::new(),
            buffer_bytes: 0,
            reading: None,
        };
        (0..reader.inputs.len()).try_for_each(|index| reader.listen(index))?;
        Ok(reader)
    }

    /// Begins to wait for a socket.
    fn listen(&self, index: usize) -> io::Result<()> {
        let socket = &self.inputs[index].socket;
        let (epoll, flags) = match &socket.address {
            Address::Udp(_) => (&self.all, epoll::EventFlags::IN),
            Address::UnixDatagram(_) => (&self.others, epoll::EventFlags::IN),
            // Every thread listens here; a connection is to wake one of them.
            _ => (&self.others, epoll::EventFlags::IN | epoll::EventFlags::EXCLUSIVE),
        };
        watch(epoll, socket.fd.as_fd(), index as u64, flags)
    }

    /// Reads until it is told to end.
    pub fn run(mut self) {
        let mut events = Vec::with_capacity(256);
        for input in self.inputs.iter().filter(|input| !input.socket.address.is_datagram()) {
            input.socket.announce(&self.control);
        }
        // The first order comes when it is to read.
        let mut goes_on = self.guard(Reader::obey);
        while goes_on != Some(false) {
            goes_on = self.guard(|reader| reader.cycle(&mut events));
        }
    }

    /// Calls `what`; None if it panics. A connection at fault is closed, and a socket rests, so
    /// that the same panic does not come again at once.
    fn guard<T>(&mut self, what: impl FnOnce(&mut Reader) -> T) -> Option<T> {
        self.reading = None;
        let panic = match catch_unwind(AssertUnwindSafe(|| what(self))) {
            Ok(value) => return Some(value),
            Err(panic) => panic,
        };
        let _ = ManuallyDrop::new(panic); // to drop it may panic as well
        add(&self.counters.panics, 1);
        self.counters.record_error("a panic while a socket was read; see the log".into());
        match self.reading.take() {
            Some(mark) if mark >= CONNECTIONS => _ = self.connections.remove(&mark),
            Some(index) => self.rest(index as usize),
            None => {}
        }
        // An order may have been taken that was not obeyed.
        self.control.wake();
        None
    }

    /// Waits for sockets and reads those that have something. False at the end.
    fn cycle(&mut self, events: &mut Vec<epoll::Event>) -> bool {
        self.wait(events);
        let (mut datagrams, mut bytes, mut is_emptied) = (0, 0, false);
        let mut has_order = false;
        for event in events.drain(..) {
            match event.data.u64() {
                WAKE => has_order = true,
                mark if mark >= CONNECTIONS => {
                    let ends =
                        epoll::EventFlags::RDHUP | epoll::EventFlags::HUP | epoll::EventFlags::ERR;
                    let flags = event.flags; // the struct is packed
                    self.connection(mark, flags.intersects(ends));
                }
                index => {
                    let (n, read, is_empty) = self.input(index as usize);
                    (datagrams, bytes, is_emptied) =
                        (datagrams + n, bytes + read, is_emptied || is_empty);
                }
            }
        }
        if datagrams > 0 && self.options.merge {
            self.pace.note(Instant::now(), datagrams, bytes);
            if is_emptied {
                self.merge_pause();
            }
        }
        !has_order || self.obey()
    }

    /// Fills `events` with what is ready; waits if nothing is.
    fn wait(&mut self, events: &mut Vec<epoll::Event>) {
        let now = Instant::now;
        while let Some(at) = self.resting.iter().position(|(until, _)| *until <= now()) {
            let (_, index) = self.resting.swap_remove(at);
            if let Err(error) = self.listen(index) {
                self.fail(index, error);
            }
        }
        let until = self.resting.iter().map(|(until, _)| *until).min();
        let timeout = until.map(|until| timespec(until.saturating_duration_since(now())));
        let waited =
            epoll::wait(&self.all, rustix::buffer::spare_capacity(events), timeout.as_ref());
        if waited.is_err() {
            return;
        }
        if let Some(at) = events.iter().position(|event| event.data.u64() == OTHERS) {
            events.swap_remove(at);
            let zero = Timespec { tv_sec: 0, tv_nsec: 0 };
            let _ = epoll::wait(&self.others, rustix::buffer::spare_capacity(events), Some(&zero));
        }
    }

    /// Does what it is told. False at the end.
    fn obey(&mut self) -> bool {
        self.reading = None;
        loop {
            match self.control.order() {
                Order::Read => {
                    self.take_inputs();
                    self.adopt();
                    return true;
                }
                Order::End => return false,
                Order::Notify => self.handler.notified(&self.counters),
                Order::Pause => {
                    self.adopt();
                    self.guard(Reader::read_all);
                    self.handler.notified(&self.counters);
                    self.control.paused();
                }
            }
        }
    }

    /// Begins to read the sockets it was given since the start. Buffers may have changed as well.
    fn take_inputs(&mut self) {
        for input in self.control.take_inputs() {
            let index = self.inputs.len();
            self.inputs.push(input);
            if let Err(error) = self.listen(index) {
                self.fail(index, error);
            }
        }
        let udp =
            self.inputs.iter().filter(|input| matches!(input.socket.address, Address::Udp(_)));
        self.buffer_bytes = udp.map(|input| input.socket.granted() * 2).min().unwrap_or(0);
    }

    /// Waits a moment while UDP datagrams gather; everything else is listened to.
    fn merge_pause(&mut self) {
        let Some(pause) = self.pace.pause(self.buffer_bytes) else { return };
        add(&self.counters.merge_pauses, 1);
        let mut fds = [PollFd::new(&self.others, PollFlags::IN)];
        let _ = poll(&mut fds, Some(&timespec(pause)));
    }

    /// Reads a socket or takes its connections. Returns datagrams and bytes of UDP, and whether the
    /// socket is empty now.
    fn input(&mut self, index: usize) -> (usize, usize, bool) {
        self.reading = Some(index as u64);
        if !self.inputs[index].socket.address.is_datagram() {
            self.accept(index);
            return (0, 0, false);
        }
        let is_udp = matches!(self.inputs[index].socket.address, Address::Udp(_));
        let (mut datagrams, mut bytes) = (0, 0);
        for _ in 0..ROUNDS {
            let most = self.slots.depth();
            let Some(received) = self.round(index, most) else { return (datagrams, bytes, false) };
            datagrams += self.batch.messages + received.truncated;
            bytes += self.batch.bytes;
            if received.slots < most {
                return (if is_udp { datagrams } else { 0 }, bytes, is_udp);
            }
        }
        (if is_udp { datagrams } else { 0 }, bytes, false)
    }

    /// One round from a socket with datagrams, handed on. None if there was an error.
    fn round(&mut self, index: usize, most: usize) -> Option<Received> {
        let socket = self.inputs[index].socket.clone();
        self.batch.clear();
        let notes = match socket.address {
            Address::Udp(_) if socket.merges_datagrams() => Notes::Segments,
            Address::UnixDatagram(_) if self.options.credentials => {
                Notes::Senders(&mut self.senders)
            }
            _ => Notes::Plain(self.batch.sender(None)),
        };
        match self.slots.receive(socket.fd.as_fd(), most, notes, &mut self.batch) {
            Ok(received) => {
                add(&self.counters.truncated, received.truncated);
                self.handler.round(self.slots.memory(), &self.batch, &self.counters);
                self.slots.settle();
                Some(received)
            }
            Err(error) if is_passing(error) => Some(Received::default()),
            Err(error) => {
                self.fail(index, error);
                None
            }
        }
    }

    /// Counts an error of a socket and leaves it alone for a while: it would be ready again at
    /// once.
    fn fail(&mut self, index: usize, error: impl Display) {
        add(&self.counters.socket_errors, 1);
        self.counters.record_error(format!("{}: {error}", self.inputs[index].socket.address));
        self.rest(index);
    }

    fn rest(&mut self, index: usize) {
        let socket = &self.inputs[index].socket;
        let epoll =
            if matches!(socket.address, Address::Udp(_)) { &self.all } else { &self.others };
        let _ = epoll::delete(epoll, &socket.fd);
        self.resting.retain(|(_, resting)| *resting != index);
        self.resting.push((Instant::now() + REST, index));
    }

    /// Takes connections that wait. True if there may be more.
    fn accept(&mut self, index: usize) -> bool {
        for _ in 0..ACCEPTS {
            let Input { socket, framing } = &self.inputs[index];
            match accept_with(&socket.fd, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK) {
                Ok(fd) => {
                    let connection = Connection::new(fd, socket, *framing, &self.options);
                    add(&self.counters.connections_accepted, 1);
                    self.connect(index, connection);
                }
                Err(Errno::CONNABORTED | Errno::PROTO | Errno::PERM) => {}
                Err(error) if is_passing(error) => return false,
                Err(error) => {
                    self.fail(index, error);
                    return false;
                }
            }
        }
        true
    }

    /// Begins to wait for a connection, unless there are too many.
    fn connect(&mut self, index: usize, connection: Connection) {
        match self.open(index, connection) {
            Ok(true) => {}
            Ok(false) => add(&self.counters.connections_refused, 1),
            Err(error) => {
                add(&self.counters.socket_errors, 1);
                self.counters
                    .record_error(format!("{}: {error}", self.inputs[index].socket.address));
            }
        }
    }

    /// Begins to wait for a connection. False if there are too many.
    fn open(&mut self, index: usize, connection: Connection) -> io::Result<bool> {
        let placed = self.ends.place(&connection.fd, self.options.connections_max)?;
        let Some((place, ended)) = placed else { return Ok(false) };
        // A panic at one that has ended is no reason to lose this one.
        self.guard(|reader| reader.close_ended(&ended));
        self.reading = Some(index as u64);
        let flags = epoll::EventFlags::IN | epoll::EventFlags::RDHUP;
        watch(&self.others, connection.fd.as_fd(), place.mark(), flags)?;
        self.connections.insert(place.mark(), Open { place, index, connection });
        Ok(true)
    }

    /// Reads those of this thread to their end and closes them: where connections come and go
    /// quickly, the ends of the old ones may wait behind the beginnings of the new ones.
    fn close_ended(&mut self, ended: &[u64]) {
        for mark in ended {
            // Once for the rest, and once for the end behind it; a passing error must not hold the
            // thread.
            let mut reads = 0;
            while reads < 2 && self.connections.contains_key(mark) {
                reads += usize::from(self.connection(*mark, true) == 0);
            }
        }
    }

    /// Takes the connections of a receiver that has ended.
    fn adopt(&mut self) {
        for index in 0..self.inputs.len() {
            let socket = self.inputs[index].socket.clone();
            for mut connection in socket.adopt() {
                match connection.adapt(&socket, &self.options) {
                    Ok(framing_errors) => {
                        add(&self.counters.framing_errors, framing_errors);
                        self.connect(index, connection);
                    }
                    Err(Broken) => add(&self.counters.framing_errors, 1),
                }
            }
        }
    }

    /// Reads a part of what a connection has. Returns how many bytes if there may be more, else 0.
    fn connection(&mut self, mark: u64, is_hung_up: bool) -> usize {
        let Some(Open { index, connection, .. }) = self.connections.get_mut(&mark) else {
            return 0;
        };
        self.reading = Some(mark);
        self.batch.clear();
        let reading = if connection.is_packets() {
            let reading =
                connection.packets(&mut self.slots, &mut self.senders, &mut self.batch, is_hung_up);
            self.handler.round(self.slots.memory(), &self.batch, &self.counters);
            self.slots.settle();
            reading
        } else {
            let reading = connection.stream(&mut self.memory, &mut self.senders, &mut self.batch);
            self.handler.round(self.memory.bytes(), &self.batch, &self.counters);
            reading
        };
        if let Some(error) = reading.error {
            let address = &self.inputs[*index].socket.address;
            self.counters.record_error(format!("{address}: a connection ended: {error}"));
        }
        self.count(&reading);
        if reading.is_over {
            self.connections.remove(&mark);
        }
        if reading.is_more { reading.bytes } else { 0 }
    }

    fn count(&self, reading: &Reading) {
        add(&self.counters.truncated, reading.truncated);
        add(&self.counters.framing_errors, reading.framing_errors);
        add(&self.counters.connection_errors, usize::from(reading.error.is_some()));
    }

    /// Reads what the sockets hold at this moment.
    fn read_all(&mut self) {
        for index in 0..self.inputs.len() {
            self.reading = Some(index as u64);
            if !self.inputs[index].socket.address.is_datagram() {
                (0..LAST_ACCEPTS).take_while(|_| self.accept(index)).count();
                continue;
            }
            let mut left = self.inputs[index].socket.room();
            while !left.is_used_up() {
                let most = self.slots.depth();
                let Some(received) = self.round(index, most) else { break };
                if received.slots < most {
                    break;
                }
                left.take(received.slots, self.batch.bytes);
            }
        }
        // Measured before the first is read: a peer that never stops sending would else keep the
        // receiver from pausing.
        let waiting = |(mark, open): (&u64, &Open)| (*mark, open.connection.waiting());
        let waiting: Vec<(u64, usize)> = self.connections.iter().map(waiting).collect();
        for (mark, mut left) in waiting {
            let mut bytes = usize::MAX;
            while left > 0 && bytes > 0 {
                bytes = self.connection(mark, false);
                left = left.saturating_sub(bytes);
            }
        }
    }
}

/// However the thread ends, its connections are left to whoever listens there.
impl Drop for Reader {
    fn drop(&mut self) {
        for (_, Open { place, index, connection }) in self.connections.drain() {
            let _ = epoll::delete(&self.others, &connection.fd);
            self.ends.forget(&connection.fd);
            drop(place);
            self.inputs[index].socket.leave(connection);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::socket::Held;
    use crate::{Listen, MessageHandler, Messages};

    struct Nothing;

    impl MessageHandler for Nothing {
        fn round(&mut self, _: &Messages<'_>) {}
        fn notified(&mut self) {}
    }

    /// A reader of a Unix datagram socket.
    fn reader(folder: &std::path::Path) -> (Reader, Held) {
        let options = Options {
            shares: 1,
            receive_buffer: 1 << 16,
            message_bytes_max: 100,
            connections_max: 1,
            credentials: false,
            merge: false,
        };
        let listen = Listen {
            address: Address::UnixDatagram(folder.join("a.sock")),
            mode: None,
            framing: Framing::Lines,
        };
        let held = Held::open(&listen, &options).unwrap();
        let inputs = vec![Input { socket: held.sockets()[0].clone(), framing: Framing::Lines }];
        let control = Arc::new(Control::new().unwrap());
        let ends = Arc::new(Ends::new(CONNECTIONS).unwrap());
        let handler = Guarded(Box::new(Nothing));
        (Reader::new(control, Arc::default(), ends, options, handler, inputs).unwrap(), held)
    }

    /// It would else never be heard again.
    #[test]
    fn a_socket_that_cannot_be_waited_for_is_tried_again() {
        let folder = tempfile::tempdir().unwrap();
        let (mut reader, _held) = reader(folder.path());
        reader.rest(0);
        // No epoll: to wait for a socket with it is an error.
        let event = rustix::event::eventfd(0, rustix::event::EventfdFlags::CLOEXEC).unwrap();
        let others = std::mem::replace(&mut reader.others, event);
        std::thread::sleep(REST);
        reader.wait(&mut Vec::with_capacity(8));
        assert_eq!(reader.counters.read().socket_errors, 1);
        assert_eq!(reader.resting.len(), 1);
        reader.others = others;
        std::thread::sleep(REST);
        reader.control.wake();
        reader.wait(&mut Vec::with_capacity(8));
        assert_eq!(reader.counters.read().socket_errors, 1);
        assert!(reader.resting.is_empty());
        assert!(reader.listen(0).is_err(), "it is waited for already");
    }
}
