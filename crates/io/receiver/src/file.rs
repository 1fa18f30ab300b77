//! Socket files: creation, detection of stale files, removal.

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

/// Maximum length of a Unix socket path in bytes, without the terminating NUL.
const PATH_BYTES_MAX: usize = 107;

/// A socket file created by this process.
#[derive(Debug)]
pub struct SocketFile {
    path: PathBuf,
    /// The file itself, even if another file has taken over its path. While this descriptor is
    /// open, the file's inode number is not reused.
    file: OwnedFd,
}

impl SocketFile {
    /// Binds the socket to the path. Creates missing folders and replaces a stale file left by a
    /// process that has exited.
    pub fn bind(
        socket: &OwnedFd,
        address: &Address,
        mode: Option<u32>,
    ) -> Result<SocketFile, BindError> {
        let Some(path) = address.path() else {
            return Err(BindError::new(address, "it has no path", "use the path of a Unix socket"));
        };
        let name = name(address, path)?;
        if let Some(folder) = path.parent() {
            let created = fs::create_dir_all(folder);
            let what = format!("create the folder {}", folder.display());
            created.map_err(|error| BindError::system(address, &what, error))?;
        }
        remove_stale(address, path, &name)?;
        if let Some(mode) = mode {
            // Set the mode before the file exists, so that the file never has wider permissions.
            let _ = rustix::fs::fchmod(socket, Mode::from_raw_mode(mode));
        }
        bind(socket, &name)
            .map_err(|error| BindError::system(address, "create the socket file", error))?;
        let file = SocketFile::open(path);
        let file =
            file.map_err(|error| BindError::system(address, "open the socket file", error))?;
        match mode.map_or(Ok(()), |mode| file.set_mode(mode)) {
            Ok(()) => Ok(file),
            Err(error) => {
                file.remove();
                Err(BindError::system(address, "set the mode of the socket file", error))
            }
        }
    }

    /// Opens the socket file that was just created at the path. A symlink that replaced it is an
    /// error.
    fn open(path: &Path) -> Result<SocketFile, Errno> {
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = rustix::fs::open(path, flags, Mode::empty())?;
        match FileType::from_raw_mode(fstat(&file)?.st_mode) {
            FileType::Socket => Ok(SocketFile { path: path.to_path_buf(), file }),
            _ => Err(Errno::NOTSOCK),
        }
    }

    /// Changes the file's permissions.
    pub fn set_mode(&self, mode: u32) -> Result<(), Errno> {
        // Do not use the path, because any user who may write to the folder could have replaced the
        // file with a symlink.
        let path = format!("/proc/self/fd/{}", self.file.as_raw_fd());
        rustix::fs::chmod(path, Mode::from_raw_mode(mode))
    }

    /// Returns whether the path still refers to this file.
    pub fn is_there(&self) -> bool {
        let (there, ours) = (lstat(&self.path), fstat(&self.file));
        there.is_ok_and(|there| {
            ours.is_ok_and(|ours| (there.st_dev, there.st_ino) == (ours.st_dev, ours.st_ino))
        })
    }

    /// Removes the file, unless the path refers to another file by now.
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

/// Removes a stale socket file. Any other file at the path is an error.
fn remove_stale(address: &Address, path: &Path, name: &SocketAddrUnix) -> Result<(), BindError> {
    let meta = match fs::symlink_metadata(path) {
        Ok(meta) => meta,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(BindError::system(address, "examine the path", error)),
    };
    if !meta.file_type().is_socket() {
        let advice = "the agent does not replace it; remove the file, or choose another path";
        return Err(BindError::new(address, "a file exists there that is not a socket", advice));
    }
    match probe(address, name) {
        Err(Errno::CONNREFUSED) => {}
        Err(Errno::NOENT) => return Ok(()),
        Err(error @ (Errno::ACCESS | Errno::PERM)) => {
            return Err(BindError::system(
                address,
                "determine whether the existing socket is in use",
                error,
            ));
        }
        _ => {
            let advice = "stop it (`ss -xlp` shows it), or choose another path";
            return Err(BindError::new(address, "another process listens on it", advice));
        }
    }
    let removed = fs::remove_file(path);
    removed.map_err(|error| BindError::system(address, "remove the stale socket file", error))
}

/// Connects as a client would. `ECONNREFUSED` means that no process is listening.
fn probe(address: &Address, name: &SocketAddrUnix) -> Result<(), Errno> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(AddressFamily::UNIX, kind(address), flags, None)?;
    connect(&socket, name)
}

/// Returns the socket type of an address.
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
    fn set_mode_never_follows_a_replaced_path() {
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
