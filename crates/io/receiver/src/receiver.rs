//! A set of sockets, and the set of threads that reads them.

use crate::connection_limit::ConnectionLimit;
use crate::control::Control;
use crate::handler::{GuardedHandler, MessageHandler};
use crate::reader::{FIRST_CONNECTION, Reader};
use crate::socket::{Input, SocketSet};
use crate::stats::{Counters, add};
use crate::sys::cpu_time;
use crate::{Address, BindError, Listen, Options, Protocol, Stats};
use std::io;
use std::sync::Arc;
use std::thread::JoinHandle;

/// Maximum length of a thread name in the kernel, in bytes.
const NAME_BYTES_MAX: usize = 15;

/// Maximum configurable size of a message, in bytes. With a larger size, the receive buffers of
/// several threads might not get enough address space.
const MESSAGE_BYTES_MAX: usize = 16 << 20;

/// Bound sockets. The kernel buffers incoming data, but nothing is read yet.
#[derive(Debug)]
pub struct Receiver {
    sets: Vec<(SocketSet, Protocol)>,
    options: Options,
}

/// An open socket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bound {
    /// The address, with the port that the kernel chose if 0 was requested.
    pub address: Address,
    /// Requested receive buffer size in bytes.
    pub requested: usize,
    /// Receive buffer size that the kernel granted, in bytes. This is less than requested if
    /// `net.core.rmem_max` is lower and the program may not exceed that limit.
    pub granted: usize,
}

/// A receiver with its threads, which are paused at first. Dropping the receiver ends the threads.
/// Data waiting in the sockets is then lost, unless another receiver in the process has the same
/// address open. Socket files are removed with the last receiver that has them open.
pub struct Receiving {
    /// The threads. They must be dropped first, because they leave their connections to the sockets
    /// when they exit.
    threads: Vec<(Arc<Control>, JoinHandle<()>)>,
    sets: Vec<(SocketSet, Protocol)>,
    counters: Arc<Counters>,
    connection_limit: Arc<ConnectionLimit>,
}

impl Receiver {
    /// Binds one socket per address, and one per share for UDP. An address that another receiver in
    /// this process has open is shared; its mode, buffer size and socket count stay unchanged until
    /// [`Receiving::resume`].
    ///
    /// # Errors
    /// Returns the error for the first address that could not be opened; the other addresses are
    /// closed again.
    pub fn open(listen: &[Listen], options: &Options) -> Result<Receiver, BindError> {
        let mut sets = Vec::new();
        for (index, entry) in listen.iter().enumerate() {
            if listen[..index]
                .iter()
                .any(|other| other.address == entry.address && !is_any_port(other))
            {
                return Err(BindError::new(
                    &entry.address,
                    "it is listed twice",
                    "remove one of them",
                ));
            }
            sets.push((SocketSet::open(entry, options)?, entry.protocol()));
        }
        let message_bytes_max = options.message_bytes_max.clamp(1, MESSAGE_BYTES_MAX);
        let options = Options { shares: options.shares.max(1), message_bytes_max, ..*options };
        Ok(Receiver { sets, options })
    }

    /// Returns the sockets, grouped by address. Sockets shared with another receiver keep the
    /// number and buffers of that receiver until this receiver resumes; see [`Receiving::sockets`].
    pub fn sockets(&self) -> Vec<Bound> {
        bound(&self.sets)
    }

    /// Spawns a thread named `receive-NAME` per share, each with its handler. The number of
    /// handlers must equal the number of shares. The threads are paused and read nothing before
    /// [`Receiving::resume`], so a receiver that is dropped before then takes nothing from another
    /// receiver on the same addresses.
    ///
    /// # Errors
    /// Returns an error if the number of handlers is wrong, or the threads or their memory cannot
    /// be allocated.
    pub fn start(
        self,
        name: &str,
        handlers: Vec<Box<dyn MessageHandler>>,
    ) -> io::Result<Receiving> {
        let shares = self.options.shares;
        if handlers.len() != shares {
            return Err(io::Error::other(format!(
                "{} handlers for {shares} shares",
                handlers.len()
            )));
        }
        let mut receiving = Receiving {
            threads: Vec::new(),
            sets: self.sets,
            counters: Arc::default(),
            connection_limit: Arc::new(ConnectionLimit::new(FIRST_CONNECTION)?),
        };
        for (share, handler) in handlers.into_iter().enumerate() {
            let inputs = inputs(&receiving.sets, share, shares);
            receiving.spawn(name, GuardedHandler(handler), inputs, self.options)?;
        }
        Ok(receiving)
    }
}

fn bound(sets: &[(SocketSet, Protocol)]) -> Vec<Bound> {
    let mut all = Vec::new();
    for (set, _) in sets {
        all.extend(set.sockets().iter().map(|socket| Bound {
            address: socket.address.clone(),
            requested: set.requested(),
            granted: socket.granted(),
        }));
    }
    all
}

fn is_any_port(listen: &Listen) -> bool {
    listen.address.socket().is_some_and(|address| address.port() == 0)
}

/// Returns the inputs of one thread: its share of the datagram sockets, and all listening sockets.
fn inputs(sets: &[(SocketSet, Protocol)], share: usize, shares: usize) -> Vec<Input> {
    let mut inputs = Vec::new();
    for (position, (set, protocol)) in sets.iter().enumerate() {
        for (index, socket) in set.sockets().into_iter().enumerate() {
            if !socket.address.is_datagram() || (position + index) % shares == share {
                inputs.push(Input { socket, protocol: protocol.clone() });
            }
        }
    }
    inputs
}

impl Receiving {
    fn spawn(
        &mut self,
        name: &str,
        handler: GuardedHandler,
        inputs: Vec<Input>,
        options: Options,
    ) -> io::Result<()> {
        let control = Arc::new(Control::new()?);
        let name: String =
            format!("receive-{name}").chars().filter(char::is_ascii).take(NAME_BYTES_MAX).collect();
        let (reader_control, counters) = (control.clone(), self.counters.clone());
        let connection_limit = self.connection_limit.clone();
        let (started, is_started) = std::sync::mpsc::channel();
        let thread = std::thread::Builder::new().name(name).spawn(move || {
            let _report_end = ReportEnd(reader_control.clone(), counters.clone());
            // The reader is created on the thread that owns its memory.
            match Reader::new(reader_control, counters, connection_limit, options, handler, inputs)
            {
                Ok(reader) => {
                    let _ = started.send(Ok(()));
                    reader.run();
                }
                Err(error) => {
                    let _ = started.send(Err(error));
                }
            }
        })?;
        self.threads.push((control, thread));
        is_started
            .recv()
            .unwrap_or_else(|_| Err(io::Error::other("a receiver thread failed during startup")))
    }

    /// Makes every thread call [`MessageHandler::notified`] soon, even if no data arrives.
    pub fn notify(&self) {
        self.threads.iter().for_each(|(control, _)| control.notify());
    }

    /// Makes every thread read the data in its sockets now, pass it on, call
    /// [`MessageHandler::notified`], and then stop reading until [`Receiving::resume`]. The kernel
    /// buffers incoming data within its limits. Returns immediately; [`Receiving::is_paused`]
    /// reports completion.
    pub fn request_pause(&self) {
        self.threads.iter().for_each(|(control, _)| control.request_pause());
    }

    /// Returns whether every thread has paused or exited.
    pub fn is_paused(&self) -> bool {
        self.threads.iter().all(|(control, _)| control.is_paused())
    }

    /// Requests a pause and waits until every thread has paused.
    pub fn pause(&self) {
        self.request_pause();
        self.threads.iter().for_each(|(control, _)| control.wait_paused());
    }

    /// Permanently stops accepting data, so that data that has arrived can be read without racing
    /// new arrivals. The kernel drops and counts further UDP datagrams; senders to a Unix datagram
    /// socket get an error.
    pub fn stop_receiving(&self) {
        for socket in self.sets.iter().flat_map(|(set, _)| set.sockets()) {
            if let Err(error) = socket.stop_receiving() {
                log::warn!(
                    "{}: data that arrives after this point may be lost without being counted: \
                     {error}",
                    socket.address
                );
            }
        }
    }

    /// Starts or resumes reading. The first call applies this receiver's options to shared sockets.
    /// An error while applying them is counted and becomes the last error in [`Stats`].
    pub fn resume(&self) {
        for (position, (set, protocol)) in self.sets.iter().enumerate() {
            let (new, error) = set.activate();
            for (index, socket) in new {
                // Any new socket is a UDP socket, because every other address has a single socket.
                let (control, _) = &self.threads[(position + index) % self.threads.len()];
                control.add_input(Input { socket, protocol: protocol.clone() });
            }
            if let Some(error) = error {
                add(&self.counters.socket_errors, 1);
                self.counters.record_error(error.to_string());
            }
        }
        self.threads.iter().for_each(|(control, _)| control.resume());
    }

    /// Returns the current sockets, grouped by address.
    pub fn sockets(&self) -> Vec<Bound> {
        bound(&self.sets)
    }

    /// Returns the statistics since the start. Makes one system call per UDP socket to read the
    /// kernel's drop counter.
    pub fn stats(&self) -> Stats {
        for socket in self.sets.iter().flat_map(|(set, _)| set.sockets()) {
            add(&self.counters.kernel_drops, socket.new_drops() as usize);
        }
        let cpu = self.threads.iter().map(|(_, thread)| cpu_time(thread)).sum();
        Stats { cpu, connections: self.connection_limit.open() as u64, ..self.counters.read() }
    }
}

/// Reports that a thread has exited, no matter how it exits, so that no caller keeps waiting for
/// it.
struct ReportEnd(Arc<Control>, Arc<Counters>);

impl Drop for ReportEnd {
    fn drop(&mut self) {
        add(&self.1.threads_ended, 1);
        self.0.report_ended();
    }
}

impl Receiving {
    /// Ends the threads after the round that each of them is reading. Data in the sockets stays
    /// there, for another receiver that has the address open.
    pub fn end(&mut self) {
        self.threads.iter().for_each(|(control, _)| control.shut_down());
        for (_, thread) in self.threads.drain(..) {
            if thread.join().is_err() {
                log::error!("a receiver thread panicked");
            }
        }
    }
}

impl Drop for Receiving {
    fn drop(&mut self) {
        self.end();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Messages;
    use std::io::Write;
    use std::os::unix::net::UnixStream;
    use std::time::{Duration, Instant};

    struct NoopHandler;

    impl MessageHandler for NoopHandler {
        fn round(&mut self, _: &Messages<'_>) {}
        fn notified(&mut self) {}
    }

    fn wait_for(receiving: &Receiving, condition: impl Fn(&Stats) -> bool) {
        let start = Instant::now();
        while !condition(&receiving.stats()) {
            assert!(
                start.elapsed() < Duration::from_secs(20),
                "timed out: {:?}",
                receiving.stats()
            );
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    #[test]
    fn connections_move_from_an_ended_thread_to_another() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.sock");
        let address = Address::UnixStream(path.clone());
        let options = Options {
            shares: 2,
            receive_buffer: 1 << 16,
            message_bytes_max: 100,
            connections_max: 8,
            truncates: false,
            credentials: false,
            addresses: false,
            idle_timeout: None,
            message_timeout: None,
            merge: false,
        };
        let listen = Listen { address, mode: None, framing: crate::Framing::Lines, tls: None };
        let receiver = Receiver::open(&[listen], &options).unwrap();
        let receiving =
            receiver.start("test", vec![Box::new(NoopHandler), Box::new(NoopHandler)]).unwrap();
        receiving.resume();
        let mut clients: Vec<UnixStream> =
            (0..4).map(|_| UnixStream::connect(&path).unwrap()).collect();
        wait_for(&receiving, |stats| stats.connections == 4);
        receiving.threads[0].0.shut_down();
        wait_for(&receiving, |stats| (stats.threads_ended, stats.connections) == (1, 4));
        clients.iter_mut().for_each(|client| client.write_all(b"heard\n").unwrap());
        wait_for(&receiving, |stats| stats.messages == 4);
        receiving.pause();
        assert!(receiving.is_paused(), "a thread that has exited is treated as paused");
        receiving.resume();
        receiving.threads[1].0.shut_down();
        wait_for(&receiving, |stats| (stats.threads_ended, stats.connections) == (2, 0));
        assert_eq!(receiving.stats().last_error, None);
    }
}
