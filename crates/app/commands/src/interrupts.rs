//! SIGINT, SIGTERM and SIGHUP for commands that stop their work in an orderly way.

use crate::exit::FAILED;
use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use tokio::signal::unix::{Signal, SignalKind, signal};

/// Starts to count SIGINT and SIGTERM, which then no longer kill the process.
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
    // A thread that could not listen has dropped its end of the channel.
    is_ready.recv().map_err(io::Error::other)?;
    Ok(count)
}

/// Exits the process at the second signal, because a pipe that is not read may block the reaction
/// to the first.
pub async fn end_at_second_signal(mut signals: Signals) {
    signals.stop().await;
    signals.stop().await;
    std::process::exit(i32::from(FAILED));
}

/// The signals that stop a command early.
pub struct Signals {
    terminate: Signal,
    interrupt: Signal,
    /// SIGHUP; `None` if it is ignored, as under `nohup`.
    hangup: Option<Signal>,
}

impl Signals {
    /// Starts to receive the signals, which then no longer kill the process.
    pub fn receive() -> io::Result<Signals> {
        let terminate = signal(SignalKind::terminate())?;
        let interrupt = signal(SignalKind::interrupt())?;
        let is_received = HANGUP_IS_RECEIVED.get_or_init(|| !is_hangup_ignored());
        let hangup = is_received.then(|| signal(SignalKind::hangup())).transpose()?;
        Ok(Signals { terminate, interrupt, hangup })
    }

    /// Waits for the next signal.
    pub async fn stop(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
            () = hangup(self.hangup.as_mut()) => {}
        }
    }
}

/// Whether SIGHUP was not ignored when the command started.
static HANGUP_IS_RECEIVED: OnceLock<bool> = OnceLock::new();

async fn hangup(signal: Option<&mut Signal>) {
    match signal {
        Some(signal) => _ = signal.recv().await,
        None => std::future::pending().await,
    }
}

fn is_hangup_ignored() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    mask.is_some_and(|mask| mask & 1 == 1)
}
