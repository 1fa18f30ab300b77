//! The output of a command: standard output, or a file that receives its final name only when it is
//! complete.

use crate::exit::FAILED;
use crate::text::escaped;
use std::fmt::Display;
use std::fs::{self, File};
use std::io::{self, BufWriter, ErrorKind, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// Maximum length, in bytes, of a message on standard error.
pub const MESSAGE_BYTES_MAX: usize = 4 << 10;

/// Prints a message on standard error. It is one line without control characters, because it may
/// quote text from an agent or the user. Unlike `eprintln!`, it does not panic.
pub fn print_error(message: impl Display) {
    let _ = writeln!(io::stderr(), "{}", escaped(message, MESSAGE_BYTES_MAX));
}

/// Prints text on standard output. Returns `status`, even if the reader is gone. After another
/// error, prints the error and returns the status of a failure.
pub fn print(text: &str, status: u8) -> u8 {
    let mut stdout = io::stdout().lock();
    let written = stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush());
    match written.err().and_then(|error| stdout_error(&error)) {
        Some(message) => {
            print_error(message);
            FAILED
        }
        None => status,
    }
}

/// Describes a write error on standard output; returns `None` if the reader is gone, in which case
/// the command exits quietly.
pub fn stdout_error(error: &io::Error) -> Option<String> {
    (error.kind() != ErrorKind::BrokenPipe).then(|| format!("standard output: {error}"))
}

/// An open output. A file receives its final name only when it is complete.
pub struct Output {
    writer: BufWriter<Box<dyn Write>>,
    bytes: u64,
    /// Temporary name, and final name.
    names: Option<(PathBuf, PathBuf)>,
    is_unnamed: bool,
}

/// A writer that discards everything once its reader is gone.
struct UntilClosed<W>(Option<W>);

impl<W: Write> UntilClosed<W> {
    fn try_with<T>(
        &mut self,
        closed: T,
        act: impl FnOnce(&mut W) -> io::Result<T>,
    ) -> io::Result<T> {
        let Some(writer) = &mut self.0 else { return Ok(closed) };
        match act(writer) {
            Err(error) if error.kind() == ErrorKind::BrokenPipe => {
                self.0 = None;
                Ok(closed)
            }
            done => done,
        }
    }
}

impl<W: Write> Write for UntilClosed<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.try_with(bytes.len(), |writer| writer.write(bytes))
    }

    fn flush(&mut self) -> io::Result<()> {
        self.try_with((), Write::flush)
    }
}

impl Output {
    /// Returns an output that writes to standard output. After its reader is gone, as with `head`,
    /// the rest is discarded without an error.
    pub fn stdout() -> Output {
        Output::new(Box::new(UntilClosed(Some(io::stdout()))))
    }

    fn new(writer: Box<dyn Write>) -> Output {
        Output { writer: BufWriter::new(writer), bytes: 0, names: None, is_unnamed: false }
    }

    /// Creates a file. `is_unnamed` is true if the user did not choose the name. The name is then
    /// printed.
    pub fn create(path: &Path, is_unnamed: bool) -> io::Result<Output> {
        Output::with_mode(path, is_unnamed, 0o666)
    }

    /// Creates a file that only this user may read.
    pub fn private(path: &Path) -> io::Result<Output> {
        Output::with_mode(path, false, 0o600)
    }

    fn with_mode(path: &Path, is_unnamed: bool, mode: u32) -> io::Result<Output> {
        // A device or a pipe must not be replaced with a file.
        if fs::metadata(path).is_ok_and(|meta| !meta.is_file()) {
            return Ok(Output::new(Box::new(File::options().write(true).open(path)?)));
        }
        let file_name = path.file_name().ok_or(ErrorKind::InvalidFilename)?;
        let mut new_name = file_name.to_owned();
        new_name.push(format!(".{}.new", std::process::id()));
        let new = path.with_file_name(new_name);
        let file = File::options().write(true).create_new(true).mode(mode).open(&new)?;
        let mut output = Output::new(Box::new(file));
        output.names = Some((new, path.to_owned()));
        output.is_unnamed = is_unnamed;
        Ok(output)
    }

    /// Gives the file its final name. Returns the number of written bytes.
    pub fn finish(mut self) -> io::Result<u64> {
        self.writer.flush()?;
        if let Some((new, path)) = &self.names {
            fs::rename(new, path)?;
            if self.is_unnamed {
                let printed = writeln!(io::stdout(), "{}", path.display());
                let said = printed.err().and_then(|error| stdout_error(&error));
                said.map_or(Ok(()), |message| Err(io::Error::other(message)))?;
            }
            self.names = None;
        }
        Ok(self.bytes)
    }
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.writer.write(bytes)?;
        self.bytes += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.writer.flush()
    }
}

impl Drop for Output {
    fn drop(&mut self) {
        if let Some((new, _)) = &self.names {
            let _ = fs::remove_file(new);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rest_is_discarded_once_the_reader_is_gone() {
        let (reader, writer) = io::pipe().unwrap();
        let mut output = UntilClosed(Some(writer));
        output.write_all(b"read").unwrap();
        drop(reader);
        output.write_all(b"not read").unwrap();
        output.write_all(b"nor this").unwrap();
        output.flush().unwrap();
        assert!(output.0.is_none());
    }

    #[test]
    fn a_file_has_its_name_only_when_it_is_complete() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.txt");
        fs::write(&path, "before").unwrap();
        let files = || fs::read_dir(dir.path()).unwrap().count();
        let mut output = Output::create(&path, false).unwrap();
        output.write_all(b"half").unwrap();
        output.flush().unwrap();
        assert_eq!((files(), fs::read_to_string(&path).unwrap()), (2, "before".to_owned()));
        drop(output);
        assert_eq!(files(), 1);
        let mut output = Output::create(&path, false).unwrap();
        output.write_all(b"whole").unwrap();
        assert_eq!(output.finish().unwrap(), 5);
        assert_eq!((files(), fs::read_to_string(&path).unwrap()), (1, "whole".to_owned()));
    }

    #[test]
    fn a_device_is_not_replaced() {
        let mut output = Output::create(Path::new("/dev/null"), false).unwrap();
        output.write_all(b"gone").unwrap();
        assert_eq!(output.finish().unwrap(), 4);
        assert!(!fs::metadata("/dev/null").unwrap().is_file());
    }
}
