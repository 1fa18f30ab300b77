//! Checks that threads for which the system has no timer are counted.

use millstream_profiler::{Event, Settings};
use std::thread;
use std::time::Duration;

#[test]
fn threads_without_a_timer_are_counted() {
    let none = libc::rlimit { rlim_cur: 0, rlim_max: libc::RLIM_INFINITY };
    // SAFETY: the limit outlives the call.
    if unsafe { libc::setrlimit(libc::RLIMIT_SIGPENDING, &none) } != 0 {
        // Only root may keep the hard limit.
        let none = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
        // SAFETY: as above.
        assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_SIGPENDING, &none) }, 0);
    }
    let settings =
        Settings { event: Event::Wall, interval: Duration::from_millis(1), buffer_bytes: 1 << 16 };
    let session = millstream_profiler::start(settings).unwrap();
    thread::sleep(Duration::from_millis(50));
    let profile = session.stop();
    // These are the main thread, this test's thread, and possibly the session's thread.
    assert!(profile.threads_without_timer >= 2, "{}", profile.threads_without_timer);
    assert_eq!(profile.stacks, []);
}
