//! What a thread is told from outside: to notify, to pause, to end.

use crate::reader::Input;
use parking_lot::{Condvar, Mutex, MutexGuard};
use rustix::event::{EventfdFlags, eventfd};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// The wishes at one thread, and how far it has got.
#[derive(Debug)]
pub struct Control {
    state: Mutex<State>,
    changed: Condvar,
    /// Sockets that came after the thread was started.
    inputs: Mutex<Vec<Input>>,
    /// Readable while there is something to be looked at.
    wake: OwnedFd,
}

#[derive(Debug)]
struct State {
    is_pause_wanted: bool,
    /// The thread was told to pause; a resume takes that back.
    is_pausing: bool,
    is_end_wanted: bool,
    is_notify_wanted: bool,
    is_paused: bool,
    has_ended: bool,
}

/// What a thread is to do next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// Go on reading.
    Read,
    /// Call [`notified`](crate::MessageHandler::notified).
    Notify,
    /// Read what is there, call `notified`, then report with [`Control::paused`].
    Pause,
    /// End.
    End,
}

impl State {
    /// As in a pause: a thread that begins waits to be told to read.
    fn begin() -> State {
        State {
            is_pause_wanted: true,
            is_pausing: true,
            is_end_wanted: false,
            is_notify_wanted: false,
            is_paused: true,
            has_ended: false,
        }
    }
}

impl Control {
    /// For a thread that is paused.
    pub fn new() -> io::Result<Control> {
        let wake = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Control {
            state: Mutex::new(State::begin()),
            inputs: Mutex::default(),
            changed: Condvar::new(),
            wake,
        })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    pub fn fd(&self) -> BorrowedFd<'_> {
        self.wake.as_fd()
    }

    /// Has the thread look at its orders.
    pub fn wake(&self) {
        // It can only fail when the counter is full, and then the thread is awake.
        let _ = rustix::io::write(&self.wake, &1_u64.to_ne_bytes());
        self.changed.notify_all();
    }

    pub fn notify(&self) {
        self.state().is_notify_wanted = true;
        self.wake();
    }

    pub fn ask_pause(&self) {
        self.state().is_pause_wanted = true;
        self.wake();
    }

    /// Gives the thread a socket, to be taken when it goes on reading.
    pub fn give(&self, input: Input) {
        self.inputs.lock().push(input);
    }

    /// The thread takes the sockets it was given.
    pub fn take_inputs(&self) -> Vec<Input> {
        std::mem::take(&mut *self.inputs.lock())
    }

    pub fn resume(&self) {
        let mut state = self.state();
        (state.is_pause_wanted, state.is_pausing, state.is_paused) = (false, false, false);
        drop(state);
        self.wake();
    }

    pub fn end(&self) {
        self.state().is_end_wanted = true;
        self.wake();
    }

    /// Waits until the thread has stopped reading, or was told to go on, or has ended.
    pub fn wait_paused(&self) {
        let is_under_way =
            |state: &mut State| state.is_pause_wanted && !state.is_paused && !state.has_ended;
        self.changed.wait_while(&mut self.state(), is_under_way);
    }

    /// True if the thread has stopped reading, or has ended.
    pub fn is_paused(&self) -> bool {
        let state = self.state();
        state.is_paused || state.has_ended
    }

    /// The thread takes its next order. While it is paused this waits for one.
    pub fn order(&self) -> Order {
        let mut counter = [0; 8];
        let _ = rustix::io::read(&self.wake, &mut counter);
        let nothing_new =
            |state: &mut State| state.is_paused && !state.is_notify_wanted && !state.is_end_wanted;
        let mut state = self.state();
        self.changed.wait_while(&mut state, nothing_new);
        match () {
            () if state.is_end_wanted => Order::End,
            () if std::mem::take(&mut state.is_notify_wanted) => Order::Notify,
            () if state.is_pause_wanted => {
                state.is_pausing = true;
                Order::Pause
            }
            () => Order::Read,
        }
    }

    /// The thread has stopped reading. If it was told to go on meanwhile, that counts for nothing:
    /// a pause that is wanted by now has yet to be made.
    pub fn paused(&self) {
        let mut state = self.state();
        state.is_paused = state.is_pausing;
        drop(state);
        self.changed.notify_all();
    }

    /// The thread has ended.
    pub fn ended(&self) {
        self.state().has_ended = true;
        self.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pause_that_was_taken_back_is_no_pause() {
        let control = Control::new().unwrap();
        assert!(control.is_paused(), "it begins so");
        control.resume();
        assert_eq!((control.order(), control.is_paused()), (Order::Read, false));
        control.ask_pause();
        assert_eq!(control.order(), Order::Pause);
        control.resume();
        control.ask_pause();
        control.paused();
        assert!(!control.is_paused(), "the second one has not begun");
        assert_eq!(control.order(), Order::Pause);
        control.paused();
        assert!(control.is_paused());
        control.notify();
        assert_eq!((control.order(), control.is_paused()), (Order::Notify, true));
    }

    #[test]
    fn a_thread_that_has_ended_is_not_waited_for() {
        let control = Control::new().unwrap();
        control.resume();
        control.ask_pause();
        assert!(!control.is_paused());
        control.ended();
        control.wait_paused();
        assert!(control.is_paused());
    }
}
