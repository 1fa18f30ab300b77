//! The token for requests over TCP.

use crate::context;
use rustix::fs::{Mode, OFlags};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::Path;

/// Number of random bytes in a token. The text has twice as many hexadecimal digits.
const TOKEN_BYTES: usize = 32;
/// Minimum length of an accepted token, generated or configured.
const TOKEN_LEN_MIN: usize = 32;
/// Maximum number of bytes that are read from a token file.
const TOKEN_FILE_BYTES_MAX: u64 = 4096;

/// Reads the token at `path`, or creates one. Replaces a file that contains no token, which an
/// interrupted restore can leave behind.
pub fn load_or_create(path: &Path) -> io::Result<String> {
    let about = |error| context(format_args!("token {}", path.display()), error);
    match read(path) {
        Ok(Some(token)) => Ok(token),
        Ok(None) => {
            log::warn!(
                "token {}: not a token of at least {TOKEN_LEN_MIN} characters; replaced by a new one",
                path.display()
            );
            create(path).map_err(about)
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => create(path).map_err(about),
        Err(error) => Err(about(error)),
    }
}

/// Reads the token in the file, if it contains one.
fn read(path: &Path) -> io::Result<Option<String>> {
    // The flags prevent following a symlink, and blocking on a pipe.
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = File::from(rustix::fs::open(path, flags, Mode::empty())?);
    let metadata = file.metadata()?;
    if !metadata.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file"));
    }
    let mode = metadata.permissions().mode() & 0o777;
    if mode & !0o600 != 0 {
        log::warn!(
            "token {}: mode {mode:04o} lets other users read it; set it to 0600",
            path.display()
        );
    }
    let mut bytes = Vec::new();
    file.take(TOKEN_FILE_BYTES_MAX).read_to_end(&mut bytes)?;
    let token = bytes.trim_ascii();
    let is_token = token.len() >= TOKEN_LEN_MIN && token.iter().all(u8::is_ascii_graphic);
    Ok(is_token.then(|| String::from_utf8_lossy(token).into_owned()))
}

/// Creates a token. The file receives its final name after it is complete and on disk.
fn create(path: &Path) -> io::Result<String> {
    let mut random = [0; TOKEN_BYTES];
    getrandom::fill(&mut random).map_err(io::Error::other)?;
    let token: String = random.iter().map(|byte| format!("{byte:02x}")).collect();
    let unfinished = path.with_extension("new");
    remove_if_there(&unfinished)?;
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&unfinished)?;
    file.set_permissions(fs::Permissions::from_mode(0o600))?;
    file.write_all(format!("{token}\n").as_bytes())?;
    file.sync_all()?;
    fs::rename(&unfinished, path)?;
    Ok(token)
}

/// Removes a file that may not exist.
pub fn remove_if_there(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Compares two byte strings in constant time.
pub fn same(given: &[u8], token: &[u8]) -> bool {
    if given.len() != token.len() {
        return false;
    }
    let differing = given.iter().zip(token).fold(0, |bits, (a, b)| bits | (a ^ b));
    std::hint::black_box(differing) == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn token_comparison_covers_every_byte() {
        assert!(same(b"abc", b"abc"));
        assert!(!same(b"abc", b"abd"));
        assert!(!same(b"xbc", b"abc"));
        assert!(!same(b"ab", b"abc"));
        assert!(!same(b"", b"abc"));
    }

    #[test]
    fn a_token_is_generated_once_and_kept() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("token");
        fs::write(dir.path().join("token.new"), "left behind by a crash").unwrap();
        let token = load_or_create(&path).unwrap();
        assert_eq!(token.len(), 64);
        assert!(token.bytes().all(|byte| byte.is_ascii_hexdigit()));
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(load_or_create(&path).unwrap(), token);
        assert!(!dir.path().join("token.new").exists());
        fs::remove_file(&path).unwrap();
        assert_ne!(load_or_create(&path).unwrap(), token);
    }

    #[test]
    fn a_file_without_a_token_is_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("token");
        for content in ["", "short\n", "a token with spaces in it, which no header would carry"] {
            fs::write(&path, content).unwrap();
            assert_eq!(load_or_create(&path).unwrap().len(), 64, "{content:?}");
        }
    }

    #[test]
    fn a_users_token_is_read_without_its_newline() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("token");
        fs::write(&path, "0123456789-0123456789-0123456789\n").unwrap();
        assert_eq!(load_or_create(&path).unwrap(), "0123456789-0123456789-0123456789");
    }

    #[test]
    fn links_and_folders_are_rejected_by_name() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("token");
        std::os::unix::fs::symlink("/etc/hostname", &path).unwrap();
        assert!(load_or_create(&path).unwrap_err().to_string().contains("/token: "));
        fs::remove_file(&path).unwrap();
        fs::create_dir(&path).unwrap();
        assert!(load_or_create(&path).unwrap_err().to_string().contains("not a regular file"));
    }
}
