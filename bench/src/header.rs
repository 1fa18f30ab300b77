//! The comment lines at the top of a scenario: `# key: value`, read by the benchmark and not by the agent.

use std::collections::HashMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// A configuration of the agent with what the benchmark is to do with it.
pub struct Header {
    /// The file's name without `.yaml`.
    pub name: String,
    /// The configuration to give to the agent.
    pub path: PathBuf,
    values: HashMap<String, String>,
}

impl Header {
    /// The files of `folder` by name: those in `names`, or all if there are none.
    pub fn read_folder(folder: &Path, names: &[String]) -> io::Result<Vec<Header>> {
        let mut headers = Vec::new();
        for entry in fs::read_dir(folder)? {
            headers.push(Header::read(entry?.path())?);
        }
        if let Some(name) = names.iter().find(|name| headers.iter().all(|header| header.name != **name)) {
            return Err(io::Error::other(format!("{}: there is no {name}.yaml", folder.display())));
        }
        headers.retain(|header| names.is_empty() || names.contains(&header.name));
        headers.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(headers)
    }

    fn read(path: PathBuf) -> io::Result<Header> {
        let text = fs::read_to_string(&path)?;
        let pair = |line: &str| {
            let (key, value) = line.strip_prefix("# ")?.split_once(": ")?;
            Some((key.to_owned(), value.trim().to_owned()))
        };
        let values = text.lines().map_while(pair).collect();
        let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        Ok(Header { name, path, values })
    }

    /// The value of `key`, or "".
    pub fn text(&self, key: &str) -> &str {
        self.values.get(key).map_or("", String::as_str)
    }

    /// The number under `key`; `None` if the key is not there.
    pub fn number(&self, key: &str) -> io::Result<Option<f64>> {
        let parse = |value: &String| {
            value.parse().map_err(|_| {
                io::Error::other(format!("{}: {key}: not a number: {value}", self.path.display()))
            })
        };
        self.values.get(key).map(parse).transpose()
    }

    /// The number under `key`, which has to be there.
    pub fn required(&self, key: &str) -> io::Result<f64> {
        self.number(key)?
            .ok_or_else(|| io::Error::other(format!("{}: `# {key}: ` is missing", self.path.display())))
    }
}
