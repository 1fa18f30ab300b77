//! System calls that have no safe wrapper in another crate. All of this crate's `unsafe` code is in
//! this file and in `receive_buffers.rs`.

use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};
use std::ffi::c_int;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::os::unix::thread::JoinHandleExt;
use std::ptr::{self, NonNull};
use std::thread::JoinHandle;
use std::time::Duration;

/// Index in `SO_MEMINFO` of the number of datagrams that were dropped at a full socket.
const MEMINFO_DROPS: usize = 8;

/// Reads a socket option. `T` must consist of integers that the kernel fills.
fn option<T: Copy + Default>(socket: BorrowedFd<'_>, level: c_int, name: c_int) -> io::Result<T> {
    let mut value = T::default();
    let mut length = size_of::<T>() as libc::socklen_t;
    // SAFETY: the kernel writes at most `length` bytes, the size of `value`. Every `T` in this file
    // consists of integers, for which any bytes are valid.
    let result = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            level,
            name,
            ptr::from_mut(&mut value).cast(),
            &raw mut length,
        )
    };
    if result == 0 { Ok(value) } else { Err(io::Error::last_os_error()) }
}

/// Returns how many packets the kernel has dropped at this socket since its creation, because its
/// buffer was full or a checksum was wrong. Wraps at 2³².
pub fn drops(socket: BorrowedFd<'_>) -> io::Result<u32> {
    option::<[u32; 9]>(socket, libc::SOL_SOCKET, libc::SO_MEMINFO).map(|info| info[MEMINFO_DROPS])
}

/// Returns the peer's process id, unless the peer is outside of the agent's PID namespace.
pub fn peer(socket: BorrowedFd<'_>) -> Option<u32> {
    let [pid, _uid, _gid] = option::<[u32; 3]>(socket, libc::SOL_SOCKET, libc::SO_PEERCRED).ok()?;
    (pid != 0).then_some(pid)
}

/// Enables UDP_GRO, which delivers several datagrams from one sender in one buffer (Linux 5.0 and
/// later).
pub fn merge_datagrams(socket: BorrowedFd<'_>) -> io::Result<()> {
    let on: c_int = 1;
    // SAFETY: the kernel reads `size_of::<c_int>()` bytes at the address of `on`.
    let result = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_UDP,
            libc::UDP_GRO,
            ptr::from_ref(&on).cast(),
            size_of::<c_int>() as libc::socklen_t,
        )
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Makes the kernel drop everything that arrives at the socket after this call.
pub fn drop_all(socket: BorrowedFd<'_>) -> io::Result<()> {
    // One classic BPF instruction, `return 0`. The 0 is the number of bytes to keep.
    let mut keep_nothing =
        libc::sock_filter { code: (libc::BPF_RET | libc::BPF_K) as u16, jt: 0, jf: 0, k: 0 };
    let program = libc::sock_fprog { len: 1, filter: &raw mut keep_nothing };
    // SAFETY: the kernel reads the program and its one instruction, and only during the call.
    let result = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_ATTACH_FILTER,
            ptr::from_ref(&program).cast(),
            size_of::<libc::sock_fprog>() as libc::socklen_t,
        )
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Returns a thread's CPU time so far; zero if it has exited.
pub fn cpu_time(thread: &JoinHandle<()>) -> Duration {
    let mut clock = 0;
    // SAFETY: the handle is neither joined nor detached, so the thread id is valid. `clock` is a
    // local variable.
    let found = unsafe { libc::pthread_getcpuclockid(thread.as_pthread_t(), &raw mut clock) };
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is a local variable. The call returns an error if the thread has exited.
    if found != 0 || unsafe { libc::clock_gettime(clock, &raw mut time) } != 0 {
        return Duration::ZERO;
    }
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// Anonymous memory from the kernel, initially zeroed. Only pages that have been written are
/// resident.
pub struct Mapping {
    start: NonNull<u8>,
    len: usize,
}

impl Mapping {
    pub fn new(len: usize) -> io::Result<Mapping> {
        let (read_write, flags) =
            (ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE | MapFlags::NORESERVE);
        // SAFETY: a new mapping at an address chosen by the kernel overlaps no other memory.
        let start = unsafe { mmap_anonymous(ptr::null_mut(), len, read_write, flags)? };
        let Some(start) = NonNull::new(start.cast::<u8>()) else {
            return Err(io::Error::other("mmap returned address 0"));
        };
        let area = Mapping { start, len };
        // Huge pages would make all of it resident for a few short datagrams. SAFETY: the range is
        // the mapping created above, and this advice does not change its contents.
        let _ = unsafe { madvise(start.as_ptr().cast(), len, Advice::LinuxNoHugepage) };
        Ok(area)
    }

    pub fn start(&self) -> *mut u8 {
        self.start.as_ptr()
    }

    pub fn bytes(&self) -> &[u8] {
        // SAFETY: the mapping has `len` readable, initialized bytes and lives as long as `self`.
        // Every writer has exclusive access: `bytes_mut` and `release` take `&mut self`, and
        // `ReceiveBuffers::receive` takes `&mut` to the owner of the mapping.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.len) }
    }

    pub fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `bytes`, and `&mut self` makes the view the only one.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.len) }
    }

    /// Returns the pages to the kernel, which resets all bytes to 0.
    pub fn release(&mut self) {
        // SAFETY: the range is this mapping, which is private and anonymous, and `&mut self` rules
        // out views into it.
        let _ = unsafe { madvise(self.start.as_ptr().cast(), self.len, Advice::LinuxDontNeed) };
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the range is this mapping, and nothing borrows it anymore.
        let _ = unsafe { munmap(self.start.as_ptr().cast(), self.len) };
    }
}
