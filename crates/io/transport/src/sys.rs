//! The one call of the system that has no safe form elsewhere. All `unsafe` of this crate is here.

use std::ffi::c_int;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

/// Bytes of a connection that were written and that the kernel of the peer has not acknowledged.
pub fn unacknowledged(socket: BorrowedFd<'_>) -> io::Result<u64> {
    let mut bytes: c_int = 0;
    // SAFETY: SIOCOUTQ, of the same number as TIOCOUTQ, writes one int to the address it is given,
    // which is ours.
    let result = unsafe { libc::ioctl(socket.as_raw_fd(), libc::TIOCOUTQ, &raw mut bytes) };
    if result == 0 { Ok(bytes.max(0) as u64) } else { Err(io::Error::last_os_error()) }
}
