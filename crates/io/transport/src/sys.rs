//! The only system call without a safe wrapper in another crate. All of this crate's `unsafe` code
//! is here.

use std::ffi::c_int;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

/// Returns the number of bytes written to a connection that the peer's kernel has not acknowledged.
pub fn unacknowledged(socket: BorrowedFd<'_>) -> io::Result<u64> {
    let mut bytes: c_int = 0;
    // SAFETY: SIOCOUTQ, which equals TIOCOUTQ, writes one int to the given address, a local.
    let result = unsafe { libc::ioctl(socket.as_raw_fd(), libc::TIOCOUTQ, &raw mut bytes) };
    if result == 0 { Ok(bytes.max(0) as u64) } else { Err(io::Error::last_os_error()) }
}
