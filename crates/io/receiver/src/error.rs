//! The reason why a socket could not be opened, and how to fix it.

use crate::Address;
use std::io;

/// The error if a socket could not be opened. The message includes the address, the cause and
/// advice.
#[derive(Debug, thiserror::Error)]
#[error("{address}: {cause}; {advice}")]
pub struct BindError {
    address: String,
    cause: String,
    advice: String,
    source: Option<io::Error>,
}

impl BindError {
    pub(crate) fn new(
        address: &Address,
        cause: impl Into<String>,
        advice: impl Into<String>,
    ) -> BindError {
        BindError {
            address: address.to_string(),
            cause: cause.into(),
            advice: advice.into(),
            source: None,
        }
    }

    /// Wraps a system error that occurred while doing `action`, with advice that depends on its
    /// kind.
    pub(crate) fn system(
        address: &Address,
        action: &str,
        error: impl Into<io::Error>,
    ) -> BindError {
        let error = error.into();
        let advice = advice(address, &error);
        let cause = format!("cannot {action}: {error}");
        BindError { address: address.to_string(), cause, advice, source: Some(error) }
    }

    /// Returns the address as configured.
    pub fn address(&self) -> &str {
        &self.address
    }
}

fn advice(address: &Address, error: &io::Error) -> String {
    match (error.kind(), address.path()) {
        (io::ErrorKind::PermissionDenied, Some(path)) => {
            let folder = path.parent().unwrap_or(path).display();
            format!("give the agent's user write access to {folder}, or choose another folder")
        }
        (io::ErrorKind::PermissionDenied, None) => {
            "use a port of 1024 or above, or grant the program CAP_NET_BIND_SERVICE".into()
        }
        (io::ErrorKind::AddrInUse, None) => {
            "stop the process that uses the port (`ss -lunpt` shows it), or choose another port"
                .into()
        }
        (io::ErrorKind::AddrNotAvailable, _) => {
            "use an address of this host (`ip address` lists them), or 0.0.0.0 for all of them"
                .into()
        }
        (io::ErrorKind::NotADirectory, _) => "choose a path whose parents are folders".into(),
        (io::ErrorKind::ReadOnlyFilesystem, _) => "choose a path on a writable file system".into(),
        _ if error.raw_os_error() == Some(libc::EMFILE) => {
            "raise the open-file limit (`ulimit -n`, LimitNOFILE)".into()
        }
        _ => "choose another address".into(),
    }
}
