//! The thread that reads standard input.
//!
//! It blocks in a system call that cannot be interrupted, so it lives as long as the process. A
//! source that replaces another at a reload inherits the thread and its unread data.

use millstream_model::Wake;
use parking_lot::Mutex;
use rustix::event::{PollFd, PollFlags};
use std::io::{self, Read};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, sync_channel};

/// Bytes per read.
const CHUNK_BYTES: usize = 64 * 1024;

/// Chunks buffered between the thread and the source.
const CHUNKS_MAX: usize = 4;

/// The reader between two sources.
static WAITING: Mutex<Option<Reader>> = Mutex::new(None);

/// The receiving end of the thread's chunks.
pub struct Reader {
    chunks: Receiver<io::Result<Vec<u8>>>,
    /// Bytes that the previous source received and did not use.
    rest: Option<Vec<u8>>,
    wake: Arc<Mutex<Wake>>,
}

impl Reader {
    /// Returns the reader of the process, which calls `wake` when data arrives. The first call
    /// starts the thread.
    pub fn take(wake: &Wake) -> io::Result<Reader> {
        if let Some(reader) = WAITING.lock().take() {
            *reader.wake.lock() = wake.clone();
            return Ok(reader);
        }
        let (sender, chunks) = sync_channel(CHUNKS_MAX);
        let wake = Arc::new(Mutex::new(wake.clone()));
        let current_wake = wake.clone();
        let wake_source = move || {
            let wake = current_wake.lock().clone();
            wake();
        };
        std::thread::Builder::new().name("stdin".into()).spawn(move || {
            read_chunks(&mut io::stdin().lock(), &sender, &wake_source);
            drop(sender);
            wake_source();
        })?;
        Ok(Reader { chunks, rest: None, wake })
    }

    /// Leaves the reader to the next source, which reads `bytes` first.
    pub fn put_back(mut self, bytes: Vec<u8>) {
        let behind = self.rest.take().unwrap_or_default();
        self.rest = Some([bytes, behind].concat()).filter(|rest| !rest.is_empty());
        *WAITING.lock() = Some(self);
    }

    /// Returns the next chunk, if any.
    pub fn next(&mut self) -> Result<io::Result<Vec<u8>>, TryRecvError> {
        self.rest.take().map_or_else(|| self.chunks.try_recv(), |rest| Ok(Ok(rest)))
    }
}

fn read_chunks(input: &mut impl Read, chunks: &SyncSender<io::Result<Vec<u8>>>, wake: &dyn Fn()) {
    loop {
        let mut chunk = vec![0; CHUNK_BYTES];
        let read = match input.read(&mut chunk) {
            Ok(0) => return,
            Ok(n) => {
                chunk.truncate(n);
                Ok(chunk)
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                wait_for_input();
                continue;
            }
            Err(error) => Err(error),
        };
        let failed = read.is_err();
        if chunks.send(read).is_err() || failed {
            return;
        }
        wake();
    }
}

/// Waits for input, in case another process made it non-blocking.
fn wait_for_input() {
    let stdin = io::stdin();
    let mut poll = [PollFd::new(&stdin, PollFlags::IN)];
    // An error is ignored: the next read reports it.
    let _ = rustix::event::poll(&mut poll, None);
}
