//! SIGINT and SIGTERM of commands that end their work in order.

use crate::cli::FAILED;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::signal::unix::{Signal, SignalKind, signal};

/// Counts SIGINT and SIGTERM from now on; they no longer end the process.
pub fn count() -> io::Result<Arc<AtomicUsize>> {
    let count = Arc::new(AtomicUsize::new(0));
    let counted = count.clone();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let (ready, is_ready) = std::sync::mpsc::channel();
    let listen = async move {
        let signals = (signal(SignalKind::interrupt()), signal(SignalKind::terminate()));
        let (Ok(mut interrupt), Ok(mut terminate)) = signals else { return };
        let _ = ready.send(());
        loop {
            tokio::select! {
                _ = interrupt.recv() => {}
                _ = terminate.recv() => {}
            }
            counted.fetch_add(1, Ordering::Relaxed);
        }
    };
    std::thread::Builder::new().name("signals".into()).spawn(move || runtime.block_on(listen))?;
    // A thread that could not listen has dropped its end.
    is_ready.recv().map_err(io::Error::other)?;
    Ok(count)
}

/// Ends the process at the second signal: a pipe that is not read keeps the first one waiting.
pub async fn end_at_second_signal(mut signals: Signals) {
    signals.stop().await;
    signals.stop().await;
    std::process::exit(i32::from(FAILED));
}

/// The signals that end a command early.
pub struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    /// Receives them from now on; they no longer end the process.
    pub fn receive() -> io::Result<Signals> {
        let terminate = signal(SignalKind::terminate())?;
        Ok(Signals { terminate, interrupt: signal(SignalKind::interrupt())? })
    }

    /// Waits for the next one.
    pub async fn stop(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}
