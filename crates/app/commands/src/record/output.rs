//! The destination and the format of a recording.

use super::Failure;
use crate::output::Output;
use jiff::Timestamp;
use std::io::{self, IsTerminal};
use std::path::{Path, PathBuf};

/// The format of a recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Format {
    /// For the tools of the JDK
    Jfr,
    /// One event per line, as JSON
    Jsonl,
    /// A readable report of the last seconds
    Text,
}

/// The destination of a recording.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// The format.
    pub format: Format,
    /// The file; `None` for standard output.
    path: Option<PathBuf>,
    /// Whether the user did not choose the name.
    is_unnamed: bool,
}

impl Target {
    /// Returns the target of `-o` and `--format`; `is_live` chooses the defaults.
    ///
    /// # Errors
    ///
    /// Returns an error with advice on what to use instead.
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
                let advice = "use the suffix .jfr, .jsonl, .json or .txt, or add --format";
                return Err(format!(
                    "-o {path}: the file name does not determine the format; {advice}"
                ));
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
                Err(Failure::usage("a terminal cannot show JFR; use -o FILE"))
            }
            None => Ok(Output::stdout()),
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
        let format = |name: &str| target(Some(name), None, true).0;
        assert_eq!((format("a.jfr"), format("a.txt")), (Format::Jfr, Format::Text));
        assert_eq!((format("x/a.jsonl"), format("a.json")), (Format::Jsonl, Format::Jsonl));
        assert_eq!(format("-"), Format::Text);
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
}
