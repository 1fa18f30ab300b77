//! Counts SIGINT and SIGTERM, for commands that end their work in order.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::signal::unix::{SignalKind, signal};

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
