//! Commands for a receiver thread: notify, pause, shut down.

use crate::socket::Input;
use crate::wake::Wake;
use parking_lot::{Condvar, Mutex, MutexGuard};
use std::io;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// Pending requests to one thread, and the progress of that thread.
#[derive(Debug)]
pub struct Control {
    state: Mutex<State>,
    changed: Condvar,
    /// Sockets added after the thread started.
    inputs: Mutex<Vec<Input>>,
    /// An event descriptor that is readable while requests are pending.
    waker: Arc<Wake>,
    /// Whether the thread must exit without reading further data.
    is_ending: AtomicBool,
}

#[derive(Debug)]
struct State {
    is_pause_requested: bool,
    /// Whether the thread has taken the pause command. Resuming clears this flag.
    is_pausing: bool,
    is_shutdown_requested: bool,
    is_notify_requested: bool,
    is_paused: bool,
    has_ended: bool,
}

/// The next step of a thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Command {
    /// Continue reading.
    Read,
    /// Call [`notified`](crate::MessageHandler::notified).
    Notify,
    /// Read all buffered data, call `notified`, and then call [`Control::report_paused`].
    Pause,
    /// Shut down.
    Shutdown,
}

impl State {
    /// Returns the initial state, which is paused: a new thread waits for the first resume.
    fn initial() -> State {
        State {
            is_pause_requested: true,
            is_pausing: true,
            is_shutdown_requested: false,
            is_notify_requested: false,
            is_paused: true,
            has_ended: false,
        }
    }
}

impl Control {
    /// Creates the control for a paused thread.
    pub fn new() -> io::Result<Control> {
        Ok(Control {
            state: Mutex::new(State::initial()),
            inputs: Mutex::default(),
            changed: Condvar::new(),
            waker: Arc::new(Wake::new()?),
            is_ending: AtomicBool::new(false),
        })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    pub fn fd(&self) -> BorrowedFd<'_> {
        self.waker.fd()
    }

    /// Returns the waker for a thread that waits for its sockets.
    pub fn waker(&self) -> &Arc<Wake> {
        &self.waker
    }

    /// Wakes the thread to check its requests.
    pub fn wake(&self) {
        self.waker.wake();
        self.changed.notify_all();
    }

    pub fn notify(&self) {
        self.state().is_notify_requested = true;
        self.wake();
    }

    pub fn request_pause(&self) {
        self.state().is_pause_requested = true;
        self.wake();
    }

    /// Adds a socket, which the thread picks up when it resumes.
    pub fn add_input(&self, input: Input) {
        self.inputs.lock().push(input);
    }

    /// Returns the sockets added since the last call.
    pub fn take_inputs(&self) -> Vec<Input> {
        std::mem::take(&mut *self.inputs.lock())
    }

    pub fn resume(&self) {
        let mut state = self.state();
        (state.is_pause_requested, state.is_pausing, state.is_paused) = (false, false, false);
        drop(state);
        self.wake();
    }

    pub fn shut_down(&self) {
        self.is_ending.store(true, Relaxed);
        self.state().is_shutdown_requested = true;
        self.wake();
    }

    /// Returns whether the thread must exit. It checks this between reads, so that the data which
    /// has not been read stays in the sockets.
    pub fn is_ending(&self) -> bool {
        self.is_ending.load(Relaxed)
    }

    /// Waits until the thread has paused or exited, or the pause request is canceled.
    pub fn wait_paused(&self) {
        let is_pending =
            |state: &mut State| state.is_pause_requested && !state.is_paused && !state.has_ended;
        self.changed.wait_while(&mut self.state(), is_pending);
    }

    /// Returns whether the thread has paused or exited.
    pub fn is_paused(&self) -> bool {
        let state = self.state();
        state.is_paused || state.has_ended
    }

    /// Returns the thread's next command. Blocks while the thread is paused.
    pub fn next_command(&self) -> Command {
        self.waker.reset();
        let is_idle = |state: &mut State| {
            state.is_paused && !state.is_notify_requested && !state.is_shutdown_requested
        };
        let mut state = self.state();
        self.changed.wait_while(&mut state, is_idle);
        match () {
            () if state.is_shutdown_requested => Command::Shutdown,
            () if std::mem::take(&mut state.is_notify_requested) => Command::Notify,
            () if state.is_pause_requested => {
                state.is_pausing = true;
                Command::Pause
            }
            () => Command::Read,
        }
    }

    /// Reports that the thread has stopped reading. If the thread was resumed in the meantime, this
    /// pause is canceled, but a pause that was requested after that is still pending.
    pub fn report_paused(&self) {
        let mut state = self.state();
        state.is_paused = state.is_pausing;
        drop(state);
        self.changed.notify_all();
    }

    /// Reports that the thread has exited.
    pub fn report_ended(&self) {
        self.state().has_ended = true;
        self.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_resume_cancels_an_unfinished_pause() {
        let control = Control::new().unwrap();
        assert!(control.is_paused(), "the initial state is paused");
        control.resume();
        assert_eq!((control.next_command(), control.is_paused()), (Command::Read, false));
        control.request_pause();
        assert_eq!(control.next_command(), Command::Pause);
        control.resume();
        control.request_pause();
        control.report_paused();
        assert!(!control.is_paused(), "the second pause has not started");
        assert_eq!(control.next_command(), Command::Pause);
        control.report_paused();
        assert!(control.is_paused());
        control.notify();
        assert_eq!((control.next_command(), control.is_paused()), (Command::Notify, true));
    }

    #[test]
    fn wait_paused_returns_after_the_thread_ended() {
        let control = Control::new().unwrap();
        control.resume();
        control.request_pause();
        assert!(!control.is_paused());
        control.report_ended();
        control.wait_paused();
        assert!(control.is_paused());
    }
}
