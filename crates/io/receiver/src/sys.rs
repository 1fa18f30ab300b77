//! The calls of the system that have no safe form elsewhere. All `unsafe` of this crate is here and
//! in `slots.rs`.

use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};
use std::ffi::c_int;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::os::unix::thread::JoinHandleExt;
use std::ptr::{self, NonNull};
use std::thread::JoinHandle;
use std::time::Duration;

/// Kernels give the datagrams of a socket that was too full at this place of `SO_MEMINFO`.
const MEMINFO_DROPS: usize = 8;

/// Takes an option of a socket: any `T` that the kernel fills with plain numbers.
fn option<T: Copy + Default>(socket: BorrowedFd<'_>, level: c_int, name: c_int) -> io::Result<T> {
    let mut value = T::default();
    let mut length = size_of::<T>() as libc::socklen_t;
    // SAFETY: the kernel writes at most `length` bytes, the size of `value`; every T below is made
    // of integers, for which any bytes are a value.
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

/// How many packets the kernel has dropped at this socket since it was made, because its buffer was
/// full or a checksum was wrong. Wraps at 2³².
pub fn drops(socket: BorrowedFd<'_>) -> io::Result<u32> {
    option::<[u32; 9]>(socket, libc::SOL_SOCKET, libc::SO_MEMINFO).map(|info| info[MEMINFO_DROPS])
}

/// The process at the other end of a connection, unless it is outside of our pid namespace.
pub fn peer(socket: BorrowedFd<'_>) -> Option<u32> {
    let [pid, _uid, _gid] = option::<[u32; 3]>(socket, libc::SOL_SOCKET, libc::SO_PEERCRED).ok()?;
    (pid != 0).then_some(pid)
}

/// Lets a slot hold several datagrams of one sender, where the kernel can (5.0 and later).
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

/// Has the kernel drop what arrives at the socket from here on.
pub fn filter_all(socket: BorrowedFd<'_>) -> io::Result<()> {
    // One instruction of the classic packet filter: return 0, the number of bytes to keep.
    let mut keep_nothing =
        libc::sock_filter { code: (libc::BPF_RET | libc::BPF_K) as u16, jt: 0, jf: 0, k: 0 };
    let program = libc::sock_fprog { len: 1, filter: &raw mut keep_nothing };
    // SAFETY: the kernel reads the program, and the one instruction it points to, during the call
    // only.
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

/// CPU time of a thread so far; nothing if it has ended.
pub fn cpu_time(thread: &JoinHandle<()>) -> Duration {
    let mut clock = 0;
    // SAFETY: the handle keeps the thread's number valid, as it is neither joined nor detached;
    // `clock` is ours.
    let found = unsafe { libc::pthread_getcpuclockid(thread.as_pthread_t(), &raw mut clock) };
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is ours. A clock whose thread has ended is an error.
    if found != 0 || unsafe { libc::clock_gettime(clock, &raw mut time) } != 0 {
        return Duration::ZERO;
    }
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// Memory straight from the kernel, zeroed: only pages that were written to are resident.
pub struct Area {
    start: NonNull<u8>,
    len: usize,
}

impl Area {
    pub fn new(len: usize) -> io::Result<Area> {
        let (read_write, flags) =
            (ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE | MapFlags::NORESERVE);
        // SAFETY: a new mapping at an address the kernel chooses touches no memory of anybody else.
        let start = unsafe { mmap_anonymous(ptr::null_mut(), len, read_write, flags)? };
        let Some(start) = NonNull::new(start.cast::<u8>()) else {
            return Err(io::Error::other("mmap gave address 0"));
        };
        let area = Area { start, len };
        // Huge pages would make all of it resident for a few short datagrams.
        // SAFETY: the range is the mapping made above; this advice changes no contents.
        let _ = unsafe { madvise(start.as_ptr().cast(), len, Advice::LinuxNoHugepage) };
        Ok(area)
    }

    pub fn start(&self) -> *mut u8 {
        self.start.as_ptr()
    }

    pub fn bytes(&self) -> &[u8] {
        // SAFETY: the mapping has `len` readable, initialised bytes and lives as long as `self`.
        // Only `Slots::receive` writes to it, which takes `&mut` of its owner.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.len) }
    }

    pub fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `bytes`, and `&mut self` makes the view the only one.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.len) }
    }

    /// Gives the pages back to the kernel; all bytes are 0 again.
    pub fn release(&mut self) {
        // SAFETY: the range is this mapping, private and anonymous, and `&mut self` says that there
        // is no view into it.
        let _ = unsafe { madvise(self.start.as_ptr().cast(), self.len, Advice::LinuxDontNeed) };
    }
}

impl Drop for Area {
    fn drop(&mut self) {
        // SAFETY: the range is this mapping, and nothing borrows it any more.
        let _ = unsafe { munmap(self.start.as_ptr().cast(), self.len) };
    }
}
