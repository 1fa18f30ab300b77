//! The control socket.

use crate::context;
use crate::token::remove_if_there;
use std::fs::{self, File};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use tokio::net::{UnixListener, UnixSocket};

/// Maximum length of a Unix socket path in bytes, without the final NUL.
const SOCKET_PATH_BYTES_MAX: usize = 107;
/// Maximum number of connections that wait to be accepted.
const BACKLOG: u32 = 64;

/// Binds the control socket `path` in `data_dir` with mode 0660. Replaces any file with this name,
/// because the caller holds the folder's lock, so an existing socket is stale.
pub fn bind(data_dir: &Path, path: &Path) -> io::Result<UnixListener> {
    bind_and_rename(data_dir, path)
        .map_err(|error| context(format_args!("control socket {}", path.display()), error))
}

/// Sets the mode and the final name before the socket listens, so that no client connects to a
/// socket whose mode is too open.
fn bind_and_rename(data_dir: &Path, path: &Path) -> io::Result<UnixListener> {
    let unnamed = path.with_extension("new");
    remove_if_there(&unnamed)?;
    let socket = UnixSocket::new_stream()?;
    let folder = File::open(data_dir)?;
    socket.bind(short(&unnamed, &folder))?;
    fs::set_permissions(&unnamed, fs::Permissions::from_mode(0o660))?;
    fs::rename(&unnamed, path)?;
    socket.listen(BACKLOG)
}

/// Returns `path`, or a path to the same file that is short enough for a socket address: it goes
/// through the descriptor of the open `folder`.
fn short(path: &Path, folder: &File) -> PathBuf {
    match path.file_name() {
        Some(name) if path.as_os_str().len() > SOCKET_PATH_BYTES_MAX => {
            Path::new("/proc/self/fd").join(folder.as_raw_fd().to_string()).join(name)
        }
        _ => path.to_path_buf(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_folder_may_be_deeper_than_a_socket_address() {
        let dir = tempfile::tempdir().unwrap();
        let deep = dir.path().join("d".repeat(100)).join("e".repeat(100));
        fs::create_dir_all(&deep).unwrap();
        let path = deep.join("control.sock");
        let listener = bind(&deep, &path).unwrap();
        let folder = File::open(&deep).unwrap();
        tokio::net::UnixStream::connect(short(&path, &folder)).await.unwrap();
        listener.accept().await.unwrap();
    }

    #[tokio::test]
    async fn an_error_names_the_socket() {
        let error = bind(Path::new("/nowhere"), Path::new("/nowhere/control.sock")).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
        assert!(error.to_string().starts_with("control socket /nowhere/control.sock: "));
    }
}
