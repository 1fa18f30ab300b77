//! Where a recording is written to, and how.

use super::Failure;
use jiff::Timestamp;
use std::fs::{self, File};
use std::io::{self, BufWriter, ErrorKind, IsTerminal, Write};
use std::path::{Path, PathBuf};

/// The format of a recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Format {
    /// For the tools of the JDK
    Jfr,
    /// An event in each line, as JSON
    Jsonl,
    /// What happened, for people
    Text,
}

/// Where a recording is written to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// The format.
    pub format: Format,
    /// The file; `None` for standard output.
    path: Option<PathBuf>,
    /// Whether the user does not know the name.
    is_unnamed: bool,
}

impl Target {
    /// Returns the target of `-o` and `--format`; `is_live` chooses the defaults.
    ///
    /// # Errors
    ///
    /// What to write instead.
    pub fn new(
        output: Option<&Path>,
        format: Option<Format>,
        is_live: bool,
    ) -> Result<Target, String> {
        let stdout = |format| Ok(Target { format, path: None, is_unnamed: false });
        match (output, format) {
            (Some(path), format) if path == Path::new("-") => {
                stdout(format.unwrap_or(Format::Text))
            }
            (Some(path), Some(format)) => {
                Ok(Target { format, path: Some(path.to_owned()), is_unnamed: false })
            }
            (Some(path), None) => Target::of_name(path),
            (None, format) if !is_live => stdout(format.unwrap_or(Format::Text)),
            (None, format) => Ok(Target::unnamed(format.unwrap_or(Format::Jfr))),
        }
    }

    fn of_name(path: &Path) -> Result<Target, String> {
        let extension = path.extension().and_then(|extension| extension.to_str());
        let format = match extension {
            Some("jfr") => Format::Jfr,
            Some("jsonl" | "json") => Format::Jsonl,
            Some("txt") => Format::Text,
            _ => {
                let path = path.display();
                let advice = "name it *.jfr, *.jsonl, *.json or *.txt, or add --format";
                return Err(format!("-o {path}: the name does not say the format; {advice}"));
            }
        };
        Ok(Target { format, path: Some(path.to_owned()), is_unnamed: false })
    }

    fn unnamed(format: Format) -> Target {
        let extension = match format {
            Format::Jfr => "jfr",
            Format::Jsonl => "jsonl",
            Format::Text => "txt",
        };
        let time = Timestamp::now().strftime("%Y%m%dT%H%M%SZ");
        let path = PathBuf::from(format!("millstream-{time}.{extension}"));
        Target { format, path: Some(path), is_unnamed: true }
    }

    /// Returns the name for messages.
    pub fn name(&self) -> &Path {
        self.path.as_deref().unwrap_or(Path::new("standard output"))
    }

    /// Opens the output.
    pub fn open(&self) -> Result<Output, Failure> {
        let failed =
            |error: io::Error| Failure::failed(format!("{}: {error}", self.name().display()));
        match &self.path {
            Some(path) => Output::create(path, self.is_unnamed).map_err(failed),
            None if self.format == Format::Jfr && io::stdout().is_terminal() => {
                Err(Failure::usage("a terminal cannot show JFR; add -o FILE"))
            }
            None => Ok(Output::new(Box::new(io::stdout()))),
        }
    }
}

/// An open output. A file has its name only when it is complete.
pub struct Output {
    writer: BufWriter<Box<dyn Write>>,
    bytes: u64,
    /// The name until it is complete, and the one it gets.
    names: Option<(PathBuf, PathBuf)>,
    is_unnamed: bool,
}

impl Output {
    fn new(writer: Box<dyn Write>) -> Output {
        Output { writer: BufWriter::new(writer), bytes: 0, names: None, is_unnamed: false }
    }

    fn create(path: &Path, is_unnamed: bool) -> io::Result<Output> {
        // A device or a pipe stays what it is.
        if fs::metadata(path).is_ok_and(|meta| !meta.is_file()) {
            return Ok(Output::new(Box::new(File::options().write(true).open(path)?)));
        }
        let file_name = path.file_name().ok_or(ErrorKind::InvalidFilename)?;
        let mut new_name = file_name.to_owned();
        new_name.push(format!(".{}.new", std::process::id()));
        let new = path.with_file_name(new_name);
        let file = File::create_new(&new)?;
        let mut output = Output::new(Box::new(file));
        output.names = Some((new, path.to_owned()));
        output.is_unnamed = is_unnamed;
        Ok(output)
    }

    /// Gives the file its name; returns how many bytes were written.
    pub fn finish(mut self) -> io::Result<u64> {
        self.writer.flush()?;
        if let Some((new, path)) = &self.names {
            fs::rename(new, path)?;
            if self.is_unnamed {
                println!("{}", path.display());
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

    fn target(output: Option<&str>, format: Option<Format>, is_live: bool) -> (Format, String) {
        let target = Target::new(output.map(Path::new), format, is_live).unwrap();
        (target.format, target.name().display().to_string())
    }

    #[test]
    fn the_name_says_the_format() {
        let of = |name: &str| target(Some(name), None, true).0;
        assert_eq!((of("a.jfr"), of("a.txt")), (Format::Jfr, Format::Text));
        assert_eq!((of("x/a.jsonl"), of("a.json")), (Format::Jsonl, Format::Jsonl));
        assert_eq!(of("-"), Format::Text);
        assert_eq!(target(Some("a.log"), Some(Format::Jsonl), false).0, Format::Jsonl);
        let error = Target::new(Some(Path::new("a.log")), None, false).unwrap_err();
        assert!(error.contains("a.log") && error.contains("--format"), "{error}");
    }

    #[test]
    fn without_a_name_a_recording_from_now_on_is_a_file() {
        assert_eq!(target(None, None, false), (Format::Text, "standard output".to_owned()));
        let (format, name) = target(None, None, true);
        assert_eq!(format, Format::Jfr);
        assert!(name.starts_with("millstream-20") && name.ends_with("Z.jfr"), "{name}");
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
