//! The destination and the format of a profile.

use super::Failure;
use crate::exit::USAGE;
use crate::output::Output;
use jiff::Timestamp;
use millstream_profiles as formats;
use millstream_profiles::Profile;
use std::io::{self, IsTerminal};
use std::path::{Path, PathBuf};

/// The format of a profile.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum ProfileFormat {
    /// A page with a flame graph to search and zoom in
    Html,
    /// A picture of the flame graph
    Svg,
    /// One stack per line, with its sample count
    Collapsed,
    /// For go tool pprof
    Pprof,
    /// For the tools of the JDK and JDK Mission Control
    Jfr,
}

/// File name suffixes with their formats.
const NAMES: [(&str, ProfileFormat); 7] = [
    (".html", ProfileFormat::Html),
    (".svg", ProfileFormat::Svg),
    (".collapsed", ProfileFormat::Collapsed),
    (".folded", ProfileFormat::Collapsed),
    (".pb.gz", ProfileFormat::Pprof),
    (".pprof", ProfileFormat::Pprof),
    (".jfr", ProfileFormat::Jfr),
];

/// The destination of a profile.
#[derive(Debug)]
pub struct Target {
    format: ProfileFormat,
    /// The file; `None` for standard output.
    path: Option<PathBuf>,
    /// Whether the user did not choose the name.
    is_unnamed: bool,
}

impl Target {
    /// Returns the target of `-o` and `--format`.
    ///
    /// # Errors
    ///
    /// Returns an error with advice on what to use instead.
    pub fn new(output: Option<&Path>, format: Option<ProfileFormat>) -> Result<Target, String> {
        let Some(path) = output else {
            return Ok(Target::unnamed(format.unwrap_or(ProfileFormat::Html)));
        };
        let is_stdout = path == Path::new("-");
        let of_name = match is_stdout {
            true => Some(ProfileFormat::Collapsed),
            false => of_name(path),
        };
        let format = format.or(of_name).ok_or_else(|| {
            let path = path.display();
            let advice = "use the suffix .html, .svg, .collapsed, .folded, .pb.gz, .pprof or .jfr, \
                          or add --format";
            format!("-o {path}: the file name does not determine the format; {advice}")
        })?;
        let is_binary = matches!(format, ProfileFormat::Pprof | ProfileFormat::Jfr);
        if is_stdout && is_binary && io::stdout().is_terminal() {
            return Err("a terminal cannot show this format; use -o FILE, not -o -".to_owned());
        }
        let path = (!is_stdout).then(|| path.to_owned());
        Ok(Target { format, path, is_unnamed: false })
    }

    fn unnamed(format: ProfileFormat) -> Target {
        let end = NAMES.iter().find(|(_, named)| *named == format).map_or(".html", |(end, _)| end);
        let time = Timestamp::now().strftime("%Y%m%dT%H%M%SZ");
        let path = PathBuf::from(format!("millstream-{time}{end}"));
        Target { format, path: Some(path), is_unnamed: true }
    }

    /// Returns the name for messages.
    pub fn name(&self) -> &Path {
        self.path.as_deref().unwrap_or(Path::new("standard output"))
    }

    /// Returns whether the format stores threads in addition to the stacks.
    pub fn has_threads(&self) -> bool {
        self.format == ProfileFormat::Jfr
    }

    /// Writes a profile.
    pub fn write(&self, profile: &Profile) -> Result<(), Failure> {
        self.with_output(|output| match self.format {
            ProfileFormat::Html => formats::write_html(profile, output),
            ProfileFormat::Svg => formats::write_svg(profile, output),
            ProfileFormat::Collapsed => formats::write_collapsed(profile, output),
            ProfileFormat::Pprof => formats::write_pprof(profile, output),
            ProfileFormat::Jfr => formats::write_jfr(profile, output),
        })
    }

    /// Writes the difference between two profiles.
    pub fn write_difference(&self, before: &Profile, after: &Profile) -> Result<(), Failure> {
        match self.format {
            ProfileFormat::Html => {
                self.with_output(|output| formats::write_diff_html(before, after, output))
            }
            ProfileFormat::Svg => {
                self.with_output(|output| formats::write_diff_svg(before, after, output))
            }
            ProfileFormat::Collapsed | ProfileFormat::Pprof | ProfileFormat::Jfr => {
                let message = "--diff writes only *.html or *.svg".to_owned();
                Err(Failure(USAGE, Some(message)))
            }
        }
    }

    fn with_output(
        &self,
        write: impl FnOnce(&mut Output) -> io::Result<()>,
    ) -> Result<(), Failure> {
        let failed =
            |error: io::Error| Failure::failed(format!("{}: {error}", self.name().display()));
        let mut output = match &self.path {
            Some(path) => Output::create(path, self.is_unnamed).map_err(failed)?,
            None => Output::stdout(),
        };
        write(&mut output).map_err(failed)?;
        output.finish().map(drop).map_err(failed)
    }
}

fn of_name(path: &Path) -> Option<ProfileFormat> {
    let name = path.file_name()?.to_str()?;
    NAMES.iter().find(|(end, _)| name.ends_with(end)).map(|(_, format)| *format)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_says_the_format() {
        let format =
            |name: &str| Target::new(Some(Path::new(name)), None).map(|target| target.format);
        assert_eq!(format("a.html"), Ok(ProfileFormat::Html));
        assert_eq!(format("x/a.pb.gz"), Ok(ProfileFormat::Pprof));
        assert_eq!(format("a.jfr"), Ok(ProfileFormat::Jfr));
        assert_eq!(format("-"), Ok(ProfileFormat::Collapsed));
        assert!(format("a.gz").unwrap_err().contains("--format"));
        let named = Target::new(Some(Path::new("a.gz")), Some(ProfileFormat::Svg)).unwrap();
        assert_eq!(named.format, ProfileFormat::Svg);
    }

    #[test]
    fn without_a_name_it_is_a_page() {
        let name = Target::new(None, None).unwrap().name().display().to_string();
        assert!(name.starts_with("millstream-20") && name.ends_with("Z.html"), "{name}");
    }
}
