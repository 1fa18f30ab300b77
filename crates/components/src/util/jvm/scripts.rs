//! The scripts of an operator, and the files that contain them.

use millstream_jvm::RuleSource;
use millstream_model::OptionError;
use std::io;
use std::path::{Path, PathBuf};

/// Name of a script that is part of the configuration.
const INLINE: &str = "script";

/// Maximum number of scripts in a folder.
const RULES_MAX: usize = 10_000;

/// The reason why the scripts of an operator cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum RuleFault {
    /// A file or folder cannot be read.
    #[error("cannot read {path}: {error}", path = path.display())]
    Unreadable {
        /// The file or folder.
        path: PathBuf,
        /// The error.
        #[source]
        error: io::Error,
    },
    /// A folder contains no script.
    #[error("{} contains no file that ends with `.{extension}`; add a script", path.display())]
    Empty {
        /// The folder.
        path: PathBuf,
        /// File extension of the language.
        extension: &'static str,
    },
    /// A script contains no statement.
    #[error("{name} is empty; use at least one statement")]
    Blank {
        /// Name of the script.
        name: String,
    },
    /// A folder contains too many scripts.
    #[error("{} contains more than {RULES_MAX} scripts; use several transforms", path.display())]
    TooMany {
        /// The folder.
        path: PathBuf,
    },
}

/// The location of an operator's scripts.
#[derive(Clone, Copy, Debug)]
pub enum ScriptPlace<'a> {
    /// A script in the configuration.
    Inline(&'a str),
    /// A file.
    File(&'a Path),
    /// A folder: all files with this extension.
    Folder(&'a Path, &'static str),
}

impl ScriptPlace<'_> {
    /// Returns the files, in the order in which the scripts run.
    pub fn files(self) -> Result<Vec<PathBuf>, RuleFault> {
        match self {
            ScriptPlace::Inline(_) => Ok(Vec::new()),
            ScriptPlace::File(path) => Ok(vec![path.to_owned()]),
            ScriptPlace::Folder(path, extension) => listed(path, extension),
        }
    }

    /// Reads the scripts.
    pub fn read(self) -> Result<Vec<RuleSource>, RuleFault> {
        match self {
            ScriptPlace::Inline(text) => {
                Ok(vec![RuleSource { name: INLINE.to_owned(), text: text.to_owned() }])
            }
            _ => self.files()?.iter().map(|path| read(path)).collect(),
        }
    }
}

/// Returns the error in the option `script`.
pub fn check_inline(script: Option<&str>) -> Option<OptionError> {
    let error = || OptionError::new("/script", "is empty; use at least one statement");
    script.is_some_and(is_blank).then(error)
}

/// Returns whether a script contains only blanks and comments. Comments begin with `//` or `/*` in
/// Groovy, and with `##` in AviatorScript.
fn is_blank(script: &str) -> bool {
    let mut rest = script.trim_start();
    loop {
        let comment = if rest.starts_with("//") || rest.starts_with("##") {
            rest.split_once('\n')
        } else if let Some(block) = rest.strip_prefix("/*") {
            block.split_once("*/")
        } else {
            return rest.is_empty();
        };
        let Some((_, behind)) = comment else { return true };
        rest = behind.trim_start();
    }
}

fn listed(folder: &Path, extension: &'static str) -> Result<Vec<PathBuf>, RuleFault> {
    let unreadable = |error| RuleFault::Unreadable { path: folder.to_owned(), error };
    let entries = std::fs::read_dir(folder).map_err(unreadable)?;
    let paths = entries.map(|entry| entry.map(|entry| entry.path()));
    let mut files = paths.collect::<io::Result<Vec<PathBuf>>>().map_err(unreadable)?;
    files.retain(|path| {
        path.extension().is_some_and(|suffix| suffix == extension) && !is_hidden(path)
    });
    files.sort();
    match files.len() {
        0 => Err(RuleFault::Empty { path: folder.to_owned(), extension }),
        1..=RULES_MAX => Ok(files),
        _ => Err(RuleFault::TooMany { path: folder.to_owned() }),
    }
}

fn is_hidden(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"."))
}

fn read(path: &Path) -> Result<RuleSource, RuleFault> {
    let unreadable = |error| RuleFault::Unreadable { path: path.to_owned(), error };
    let text = std::fs::read_to_string(path).map_err(unreadable)?;
    let name = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned();
    if is_blank(&text) { Err(RuleFault::Blank { name }) } else { Ok(RuleSource { name, text }) }
}
