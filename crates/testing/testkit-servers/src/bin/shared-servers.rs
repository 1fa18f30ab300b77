//! Starts servers for the tests of one run at the socket `shared-servers SOCKET`; see
//! [`millstream_testkit_servers::shared`].

use std::path::Path;
use std::process::ExitCode;

fn main() -> ExitCode {
    let Some(socket) = std::env::args_os().nth(1) else {
        eprintln!("usage: shared-servers SOCKET");
        return ExitCode::from(2);
    };
    match millstream_testkit_servers::shared::program::serve(Path::new(&socket)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{}: {error}", Path::new(&socket).display());
            ExitCode::FAILURE
        }
    }
}
