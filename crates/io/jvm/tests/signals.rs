//! Signals are handled by the agent, not by the JVM.

use crate::support::{Batch, jvm, operator};
use std::io::{ErrorKind, Write};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::Duration;

static RECEIVED: AtomicU32 = AtomicU32::new(0);

extern "C" fn count(signal: libc::c_int) {
    RECEIVED.fetch_or(1 << signal, Ordering::SeqCst);
}

fn install(signals: &[libc::c_int]) {
    for signal in signals {
        let handler = count as *const () as libc::sighandler_t;
        // SAFETY: the handler modifies only an atomic number.
        assert_ne!(unsafe { libc::signal(*signal, handler) }, libc::SIG_ERR);
    }
}

/// Sends each signal to this process, and waits for its handler.
fn send(signals: &[libc::c_int]) {
    RECEIVED.store(0, Ordering::SeqCst);
    for signal in signals {
        // SAFETY: this process receives the signal, and `count` handles it.
        assert_eq!(unsafe { libc::kill(libc::getpid(), *signal) }, 0);
        while RECEIVED.load(Ordering::SeqCst) & 1 << signal == 0 {
            thread::sleep(Duration::from_millis(1));
        }
    }
}

#[test]
#[ignore = "run by every_java"]
fn handlers_of_the_agent_run_whether_installed_before_or_after_the_start() {
    install(&[libc::SIGTERM, libc::SIGHUP, libc::SIGUSR1]);
    jvm();
    Batch::new(&["keep"]).call(&operator());
    install(&[libc::SIGINT, libc::SIGUSR2, libc::SIGQUIT]);
    let all =
        [libc::SIGTERM, libc::SIGHUP, libc::SIGINT, libc::SIGUSR1, libc::SIGUSR2, libc::SIGQUIT];
    send(&all);
    Batch::new(&["recurse"]).call(&operator());
    send(&all);
    assert_eq!(Batch::new(&["drop"]).call(&operator()).dropped, [0]);
}

#[test]
#[ignore = "run by every_java"]
fn a_closed_pipe_is_an_error_and_no_signal() {
    jvm();
    let (read_end, mut write_end) = std::io::pipe().unwrap();
    drop(read_end);
    assert_eq!(write_end.write(b"x").unwrap_err().kind(), ErrorKind::BrokenPipe);
}
