//! The thread that reads standard input.
//!
//! A source that replaces another source during a reload takes over the thread and its unread data.
//! The thread exits at the end of the input, or when the agent stops.

use millstream_model::Wake;
use parking_lot::Mutex;
use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd};
use rustix::io::Errno;
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, sync_channel};
use std::time::Duration;

/// Maximum number of bytes per read.
const CHUNK_BYTES: usize = 64 * 1024;

/// Number of chunks that are buffered between the thread and the source.
const CHUNKS_MAX: usize = 4;

/// Maximum time to wait for another chunk from a thread that must exit. The thread may be blocked,
/// because another process reads from the same pipe.
const END_TIME: Duration = Duration::from_millis(200);

/// The reader, while no source owns it.
static WAITING: Mutex<Option<Reader>> = Mutex::new(None);

/// The receiving end of the thread's chunks.
pub struct Reader {
    chunks: Receiver<io::Result<Vec<u8>>>,
    /// Bytes that the previous source received but did not emit.
    rest: Option<Vec<u8>>,
    wake: Arc<Mutex<Wake>>,
    /// Descriptor that is readable when the thread must exit.
    stop: Arc<OwnedFd>,
}

impl Reader {
    /// Returns the reader of the process. The reader calls `wake` when data arrives. The first call
    /// starts the thread.
    pub fn take(wake: &Wake) -> io::Result<Reader> {
        if let Some(reader) = WAITING.lock().take() {
            *reader.wake.lock() = wake.clone();
            return Ok(reader);
        }
        let (sender, chunks) = sync_channel(CHUNKS_MAX);
        let stop = Arc::new(eventfd(0, EventfdFlags::CLOEXEC)?);
        let stopped = stop.clone();
        let wake = Arc::new(Mutex::new(wake.clone()));
        let current_wake = wake.clone();
        let wake_source = move || {
            let wake = current_wake.lock().clone();
            wake();
        };
        std::thread::Builder::new().name("stdin".into()).spawn(move || {
            read_chunks(&mut io::stdin().lock(), &stopped, &sender, &wake_source);
            drop(sender);
            wake_source();
        })?;
        Ok(Reader { chunks, rest: None, wake, stop })
    }

    /// Returns the reader that a removed source has left, if there is one.
    pub fn left() -> Option<Reader> {
        WAITING.lock().take()
    }

    /// Leaves the reader to the next source, which reads `bytes` first.
    pub fn put_back(mut self, bytes: Vec<u8>) {
        let behind = self.rest.take().unwrap_or_default();
        self.rest = Some([bytes, behind].concat()).filter(|rest| !rest.is_empty());
        *WAITING.lock() = Some(self);
    }

    /// Stops the thread. Data that the thread has already read is still returned; the rest stays in
    /// the pipe.
    pub fn stop(&self) {
        // The write fails only if the counter is full, which also stops the thread.
        let _ = rustix::io::write(&self.stop, &1u64.to_ne_bytes());
    }

    /// Stops the thread, and returns the chunks that the thread has read but the source has not
    /// taken.
    pub fn into_rest(self) -> impl Iterator<Item = Vec<u8>> {
        self.stop();
        let read = std::iter::from_fn(move || self.chunks.recv_timeout(END_TIME).ok());
        self.rest.into_iter().chain(read.flatten())
    }

    /// Returns the next chunk or read error. Returns [`TryRecvError`] if there is no chunk yet or
    /// the thread has exited.
    pub fn next(&mut self) -> Result<io::Result<Vec<u8>>, TryRecvError> {
        self.rest.take().map_or_else(|| self.chunks.try_recv(), |rest| Ok(Ok(rest)))
    }
}

fn read_chunks(
    input: &mut impl Read,
    stop: &OwnedFd,
    chunks: &SyncSender<io::Result<Vec<u8>>>,
    wake: &dyn Fn(),
) {
    while waits_for_input(stop) {
        let mut chunk = vec![0; CHUNK_BYTES];
        let read = match input.read(&mut chunk) {
            Ok(0) => return,
            Ok(n) => {
                chunk.truncate(n);
                Ok(chunk)
            }
            // Another process has made the input non-blocking, and has read the data before this
            // thread.
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => continue,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => Err(error),
        };
        let failed = read.is_err();
        if chunks.send(read).is_err() || failed {
            return;
        }
        wake();
    }
}

/// Waits for input. Returns `false` if the thread must exit.
fn waits_for_input(stop: &OwnedFd) -> bool {
    let stdin = io::stdin();
    let mut poll = [PollFd::new(&stdin, PollFlags::IN), PollFd::new(stop, PollFlags::IN)];
    // Any other error is ignored, because the next read reports it.
    while rustix::event::poll(&mut poll, None) == Err(Errno::INTR) {}
    poll[1].revents().is_empty()
}
