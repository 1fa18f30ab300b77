//! A set of sockets that is read by a set of threads.

use crate::control::Control;
use crate::ends::Ends;
use crate::handler::{Guarded, MessageHandler};
use crate::reader::{CONNECTIONS, Input, Reader};
use crate::socket::Held;
use crate::stats::{Counters, add};
use crate::sys::cpu_time;
use crate::{Address, BindError, Framing, Listen, Options, Stats};
use std::io;
use std::sync::Arc;
use std::thread::JoinHandle;

/// Bytes of a thread's name that the kernel keeps.
const NAME_BYTES_MAX: usize = 15;

/// More would need address space that the slots of several threads may not find.
const MESSAGE_BYTES_MAX: usize = 16 << 20;

/// Sockets that are bound; the kernel keeps what arrives, but nothing is read yet.
#[derive(Debug)]
pub struct Receiver {
    held: Vec<(Held, Framing)>,
    options: Options,
}

/// A socket that was opened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bound {
    /// Where it listens, with the port that the system chose if 0 was asked for.
    pub address: Address,
    /// Bytes of receive buffer that were asked for.
    pub asked: usize,
    /// Bytes the kernel granted: fewer if `net.core.rmem_max` is lower and the program may not go
    /// beyond it.
    pub granted: usize,
}

/// A receiver with its threads, paused at first. Dropping it ends them: what waits in the sockets
/// then is lost, unless another receiver of the process has the same address open. Socket files
/// that were made are removed with the last receiver that has them open.
pub struct Receiving {
    /// In this order: connections are left at the sockets by the threads, which end first.
    threads: Vec<(Arc<Control>, JoinHandle<()>)>,
    held: Vec<(Held, Framing)>,
    counters: Arc<Counters>,
    ends: Arc<Ends>,
}

impl Receiver {
    /// Binds a socket for each place, and for UDP as many as there are shares. An address that
    /// another receiver of this process has open is shared with it; mode, buffer and number of its
    /// sockets stay as they are until [`Receiving::resume`].
    ///
    /// # Errors
    /// With the first place that could not be opened; the others are closed again.
    pub fn open(listen: &[Listen], options: &Options) -> Result<Receiver, BindError> {
        let mut held = Vec::new();
        for (index, place) in listen.iter().enumerate() {
            if listen[..index]
                .iter()
                .any(|other| other.address == place.address && !is_any_port(other))
            {
                return Err(BindError::new(
                    &place.address,
                    "it is listed twice",
                    "remove one of them",
                ));
            }
            held.push((Held::open(place, options)?, place.framing));
        }
        let message_bytes_max = options.message_bytes_max.clamp(1, MESSAGE_BYTES_MAX);
        let options = Options { shares: options.shares.max(1), message_bytes_max, ..*options };
        Ok(Receiver { held, options })
    }

    /// The sockets: those of one address follow each other. Those of another receiver are as it has
    /// them, in number and buffers, until this one is resumed: see [`Receiving::sockets`].
    pub fn sockets(&self) -> Vec<Bound> {
        bound(&self.held)
    }

    /// Starts a thread `receive-NAME` per share; each calls its handler. There must be as many
    /// handlers as shares. The threads are paused, and read nothing before [`Receiving::resume`]:
    /// what is dropped before has taken nothing from a receiver with the same addresses.
    ///
    /// # Errors
    /// If their number is wrong, or the system has no room for the threads or their memory.
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
            held: self.held,
            counters: Arc::default(),
            ends: Arc::new(Ends::new(CONNECTIONS)?),
        };
        for (share, handler) in handlers.into_iter().enumerate() {
            let inputs = inputs(&receiving.held, share, shares);
            receiving.spawn(name, Guarded(handler), inputs, self.options)?;
        }
        Ok(receiving)
    }
}

fn bound(held: &[(Held, Framing)]) -> Vec<Bound> {
    let mut all = Vec::new();
    for (held, _) in held {
        all.extend(held.sockets().iter().map(|socket| Bound {
            address: socket.address.clone(),
            asked: held.asked(),
            granted: socket.granted(),
        }));
    }
    all
}

fn is_any_port(listen: &Listen) -> bool {
    listen.address.socket().is_some_and(|address| address.port() == 0)
}

/// What one thread reads: its part of the datagram sockets, and connections from all listeners.
fn inputs(held: &[(Held, Framing)], share: usize, shares: usize) -> Vec<Input> {
    let mut inputs = Vec::new();
    for (place, (held, framing)) in held.iter().enumerate() {
        for (index, socket) in held.sockets().into_iter().enumerate() {
            if !socket.address.is_datagram() || (place + index) % shares == share {
                inputs.push(Input { socket, framing: *framing });
            }
        }
    }
    inputs
}

impl Receiving {
    fn spawn(
        &mut self,
        name: &str,
        handler: Guarded,
        inputs: Vec<Input>,
        options: Options,
    ) -> io::Result<()> {
        let control = Arc::new(Control::new()?);
        let name: String =
            format!("receive-{name}").chars().filter(char::is_ascii).take(NAME_BYTES_MAX).collect();
        let (for_reader, counters) = (control.clone(), self.counters.clone());
        let ends = self.ends.clone();
        let (opened, is_open) = std::sync::mpsc::channel();
        let thread = std::thread::Builder::new().name(name).spawn(move || {
            let _ended = Ended(for_reader.clone(), counters.clone());
            // Made here because its memory belongs to the thread.
            match Reader::new(for_reader, counters, ends, options, handler, inputs) {
                Ok(reader) => {
                    let _ = opened.send(Ok(()));
                    reader.run();
                }
                Err(error) => {
                    let _ = opened.send(Err(error));
                }
            }
        })?;
        self.threads.push((control, thread));
        is_open
            .recv()
            .unwrap_or_else(|_| Err(io::Error::other("a receiving thread ended while it started")))
    }

    /// Has every thread call [`MessageHandler::notified`] soon, also while nothing arrives.
    pub fn notify(&self) {
        self.threads.iter().for_each(|(control, _)| control.notify());
    }

    /// Has every thread read what its sockets hold at this moment, hand it on, call
    /// [`MessageHandler::notified`], and then read nothing more until [`Receiving::resume`]; the
    /// kernel keeps what arrives as long as its buffers have room. Returns at once:
    /// [`Receiving::is_paused`] says when all of that is done.
    pub fn ask_pause(&self) {
        self.threads.iter().for_each(|(control, _)| control.ask_pause());
    }

    /// True when every thread stands still, or has ended.
    pub fn is_paused(&self) -> bool {
        self.threads.iter().all(|(control, _)| control.is_paused())
    }

    /// Asks for a pause and waits until every thread stands still.
    pub fn pause(&self) {
        self.ask_pause();
        self.threads.iter().for_each(|(control, _)| control.wait_paused());
    }

    /// Takes nothing more from senders, for good: what has come can be read without a race against
    /// what comes. Of UDP the kernel drops and counts what comes from here on; who sends to a Unix
    /// datagram socket gets an error.
    pub fn refuse(&self) {
        for socket in self.held.iter().flat_map(|(held, _)| held.sockets()) {
            if let Err(error) = socket.refuse() {
                log::warn!(
                    "{}: data that arrives from now on may be lost uncounted: {error}",
                    socket.address
                );
            }
        }
    }

    /// Begins to read, or goes on. The first time, sockets that are shared with another receiver
    /// get the options of this one; an error in that is counted and the last error of [`Stats`].
    pub fn resume(&self) {
        for (place, (held, framing)) in self.held.iter().enumerate() {
            let (new, error) = held.begin();
            for (index, socket) in new {
                // One of UDP: there is a single socket at every other address.
                let (control, _) = &self.threads[(place + index) % self.threads.len()];
                control.give(Input { socket, framing: *framing });
            }
            if let Some(error) = error {
                add(&self.counters.socket_errors, 1);
                self.counters.record_error(error.to_string());
            }
        }
        self.threads.iter().for_each(|(control, _)| control.resume());
    }

    /// The sockets as they are now: those of one address follow each other.
    pub fn sockets(&self) -> Vec<Bound> {
        bound(&self.held)
    }

    /// What was received since the start. Asks the kernel for its drops, so this makes a call per
    /// UDP socket.
    pub fn stats(&self) -> Stats {
        for socket in self.held.iter().flat_map(|(held, _)| held.sockets()) {
            add(&self.counters.kernel_drops, socket.new_drops() as usize);
        }
        let cpu = self.threads.iter().map(|(_, thread)| cpu_time(thread)).sum();
        Stats { cpu, connections: self.ends.open() as u64, ..self.counters.read() }
    }
}

/// Says so when a thread ends, however it does: nobody is to wait for it.
struct Ended(Arc<Control>, Arc<Counters>);

impl Drop for Ended {
    fn drop(&mut self) {
        add(&self.1.threads_ended, 1);
        self.0.ended();
    }
}

impl Drop for Receiving {
    fn drop(&mut self) {
        self.threads.iter().for_each(|(control, _)| control.end());
        for (_, thread) in self.threads.drain(..) {
            if thread.join().is_err() {
                log::error!("a receiving thread ended with a panic");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Messages;
    use std::io::Write;
    use std::os::unix::net::UnixStream;
    use std::time::{Duration, Instant};

    struct Nothing;

    impl MessageHandler for Nothing {
        fn round(&mut self, _: &Messages<'_>) {}
        fn notified(&mut self) {}
    }

    fn wait_for(receiving: &Receiving, what: impl Fn(&Stats) -> bool) {
        let start = Instant::now();
        while !what(&receiving.stats()) {
            assert!(
                start.elapsed() < Duration::from_secs(20),
                "never came: {:?}",
                receiving.stats()
            );
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    #[test]
    fn connections_of_a_thread_that_ended_go_to_another() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.sock");
        let address = Address::UnixStream(path.clone());
        let options = Options {
            shares: 2,
            receive_buffer: 1 << 16,
            message_bytes_max: 100,
            connections_max: 8,
            credentials: false,
            merge: false,
        };
        let listen = Listen { address, mode: None, framing: Framing::Lines };
        let receiver = Receiver::open(&[listen], &options).unwrap();
        let receiving = receiver.start("test", vec![Box::new(Nothing), Box::new(Nothing)]).unwrap();
        receiving.resume();
        let mut clients: Vec<UnixStream> =
            (0..4).map(|_| UnixStream::connect(&path).unwrap()).collect();
        wait_for(&receiving, |stats| stats.connections == 4);
        receiving.threads[0].0.end();
        wait_for(&receiving, |stats| (stats.threads_ended, stats.connections) == (1, 4));
        clients.iter_mut().for_each(|client| client.write_all(b"heard\n").unwrap());
        wait_for(&receiving, |stats| stats.messages == 4);
        receiving.pause();
        assert!(receiving.is_paused(), "a thread that has ended is not waited for");
        receiving.resume();
        receiving.threads[1].0.end();
        wait_for(&receiving, |stats| (stats.threads_ended, stats.connections) == (2, 0));
        assert_eq!(receiving.stats().last_error, None);
    }
}
