//! Socket files: made, found stale, removed.

use crate::{Address, BindError};
use rustix::fs::{FileType, Mode, OFlags, fstat, lstat};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind, connect, socket_with,
};
use std::fs;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

/// Bytes of a path that the kernel takes for a socket, without the byte 0 at its end.
const PATH_BYTES_MAX: usize = 107;

/// A socket file this process has made.
#[derive(Debug)]
pub struct SocketFile {
    path: PathBuf,
    /// The file itself, wherever its path leads by now. While it is open, no other file has its
    /// inode number.
    file: OwnedFd,
}

impl SocketFile {
    /// Binds the socket to the path. Missing folders are made; a file left by a process that has
    /// ended is replaced.
    pub fn bind(
        socket: &OwnedFd,
        address: &Address,
        mode: Option<u32>,
    ) -> Result<SocketFile, BindError> {
        let Some(path) = address.path() else {
            return Err(BindError::new(
                address,
                "it has no path",
                "write the path of a Unix socket",
            ));
        };
        let name = name(address, path)?;
        if let Some(folder) = path.parent() {
            let made = fs::create_dir_all(folder);
            let what = format!("make the folder {}", folder.display());
            made.map_err(|error| BindError::system(address, &what, error))?;
        }
        make_way(address, path, &name)?;
        if let Some(mode) = mode {
            // Before the file exists, so that nobody finds it with wider rights for a moment.
            let _ = rustix::fs::fchmod(socket, Mode::from_raw_mode(mode));
        }
        bind(socket, &name)
            .map_err(|error| BindError::system(address, "make the socket file", error))?;
        let file = SocketFile::open(path);
        let file =
            file.map_err(|error| BindError::system(address, "look at the socket file", error))?;
        match mode.map_or(Ok(()), |mode| file.set_mode(mode)) {
            Ok(()) => Ok(file),
            Err(error) => {
                file.remove();
                Err(BindError::system(address, "set the mode of the socket file", error))
            }
        }
    }

    /// The socket file at the path, which was made just now; a link that took its place is an
    /// error.
    fn open(path: &Path) -> Result<SocketFile, Errno> {
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = rustix::fs::open(path, flags, Mode::empty())?;
        match FileType::from_raw_mode(fstat(&file)?.st_mode) {
            FileType::Socket => Ok(SocketFile { path: path.to_path_buf(), file }),
            _ => Err(Errno::NOTSOCK),
        }
    }

    /// Gives the file other rights.
    pub fn set_mode(&self, mode: u32) -> Result<(), Errno> {
        // Not by its path: whoever may write to the folder could have put a link to any file there.
        let path = format!("/proc/self/fd/{}", self.file.as_raw_fd());
        rustix::fs::chmod(path, Mode::from_raw_mode(mode))
    }

    /// True while the path still leads to this file.
    pub fn is_there(&self) -> bool {
        let (there, ours) = (lstat(&self.path), fstat(&self.file));
        there.is_ok_and(|there| {
            ours.is_ok_and(|ours| (there.st_dev, there.st_ino) == (ours.st_dev, ours.st_ino))
        })
    }

    /// Removes the file, unless it is another one by now.
    pub fn remove(&self) {
        if self.is_there() {
            let _ = fs::remove_file(&self.path);
        }
    }
}

fn name(address: &Address, path: &Path) -> Result<SocketAddrUnix, BindError> {
    let length = path.as_os_str().len();
    if length > PATH_BYTES_MAX {
        let cause =
            format!("the path has {length} bytes, but the system allows at most {PATH_BYTES_MAX}");
        return Err(BindError::new(
            address,
            cause,
            "choose a shorter path, such as one under /run",
        ));
    }
    SocketAddrUnix::new(path).map_err(|error| BindError::system(address, "use this path", error))
}

/// Removes a socket file that nobody listens at; whatever else is at the path is an error.
fn make_way(address: &Address, path: &Path, name: &SocketAddrUnix) -> Result<(), BindError> {
    let meta = match fs::symlink_metadata(path) {
        Ok(meta) => meta,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(BindError::system(address, "look at the path", error)),
    };
    if !meta.file_type().is_socket() {
        let advice = "it is not touched; remove it, or choose another path";
        return Err(BindError::new(address, "a file exists there that is not a socket", advice));
    }
    match try_out(address, name) {
        Err(Errno::CONNREFUSED) => {}
        Err(Errno::NOENT) => return Ok(()),
        Err(error @ (Errno::ACCESS | Errno::PERM)) => {
            return Err(BindError::system(
                address,
                "find out whether the socket there is in use",
                error,
            ));
        }
        _ => {
            let advice = "stop it (`ss -xlp` shows it), or choose another path";
            return Err(BindError::new(address, "another process listens on it", advice));
        }
    }
    let removed = fs::remove_file(path);
    removed.map_err(|error| {
        BindError::system(address, "remove the socket file that is left over", error)
    })
}

/// Connects as a client would: refused means that nobody listens.
fn try_out(address: &Address, name: &SocketAddrUnix) -> Result<(), Errno> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(AddressFamily::UNIX, kind(address), flags, None)?;
    connect(&socket, name)
}

/// The type of socket that an address asks for.
pub fn kind(address: &Address) -> SocketType {
    match address {
        Address::Udp(_) | Address::UnixDatagram(_) => SocketType::DGRAM,
        Address::Tcp(_) | Address::UnixStream(_) => SocketType::STREAM,
        Address::UnixPacket(_) => SocketType::SEQPACKET,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt, symlink};

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().permissions().mode() & 0o777
    }

    #[test]
    fn rights_are_those_of_the_socket_and_never_of_what_took_its_place() {
        let folder = tempfile::tempdir().unwrap();
        let (path, precious) = (folder.path().join("a.sock"), folder.path().join("precious"));
        fs::write(&precious, "data").unwrap();
        fs::set_permissions(&precious, fs::Permissions::from_mode(0o600)).unwrap();
        let address = Address::UnixDatagram(path.clone());
        let socket =
            socket_with(AddressFamily::UNIX, kind(&address), SocketFlags::CLOEXEC, None).unwrap();
        let file = SocketFile::bind(&socket, &address, Some(0o622)).unwrap();
        assert!(file.is_there() && mode(&path) == 0o622);
        let moved = folder.path().join("moved.sock");
        fs::rename(&path, &moved).unwrap();
        symlink(&precious, &path).unwrap();
        file.set_mode(0o666).unwrap();
        assert_eq!((mode(&moved), mode(&precious)), (0o666, 0o600));
        assert!(!file.is_there());
        assert_eq!(SocketFile::open(&path).unwrap_err(), Errno::NOTSOCK);
        file.remove();
        assert!(path.exists() && moved.exists());
    }
}
