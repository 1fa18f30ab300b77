//! The only system call without a safe wrapper in another crate. All of this crate's `unsafe` code
//! is here.

use std::ffi::c_int;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

/// Returns how many bytes that were written to a connection have not been acknowledged by the
/// peer's kernel.
pub fn unacknowledged(socket: BorrowedFd<'_>) -> io::Result<u64> {
    let mut bytes: c_int = 0;
    // SAFETY: SIOCOUTQ, which equals TIOCOUTQ, writes one int to the given address, which is a
    // local variable.
    let result = unsafe { libc::ioctl(socket.as_raw_fd(), libc::TIOCOUTQ, &raw mut bytes) };
    if result == 0 { Ok(bytes.max(0) as u64) } else { Err(io::Error::last_os_error()) }
}
