//! Checks that a profile does not start if another library handles the signal.

use millstream_profiler::{Event, Settings, StartError};
use std::time::Duration;

extern "C" fn foreign(_signal: libc::c_int) {}

fn set(action: usize) {
    // SAFETY: the handler does nothing.
    assert_ne!(unsafe { libc::signal(libc::SIGPROF, action) }, libc::SIG_ERR);
}

#[test]
fn another_handler_stays() {
    let settings =
        Settings { event: Event::Cpu, interval: Duration::from_millis(10), buffer_bytes: 1 << 16 };
    let handler = foreign as extern "C" fn(libc::c_int) as usize;
    set(handler);
    let refused = millstream_profiler::start(settings);
    assert!(matches!(refused, Err(StartError::ForeignHandler)), "{refused:?}");
    // SAFETY: the call only sets an action without a function, and returns the former one.
    assert_eq!(unsafe { libc::signal(libc::SIGPROF, libc::SIG_IGN) }, handler);
    // The failed start does not count as a running profile.
    millstream_profiler::start(settings).unwrap().stop();
    millstream_profiler::start(settings).unwrap().stop();
}
