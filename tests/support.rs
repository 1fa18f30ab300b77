//! What the tests share: the binary, temporary folders, running agents.

use std::path::PathBuf;

/// The program under test.
pub fn millstream() -> PathBuf {
    PathBuf::from(env!("CARGO_BIN_EXE_millstream"))
}
