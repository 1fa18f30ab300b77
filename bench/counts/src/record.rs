//! Reads and writes the table of recorded counts.

use crate::versions::Versions;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::path::Path;

/// The first lines of the table.
const HEAD: &str = "\
# Instructions of the loads of millstream-counts, written by scripts/counts --accept.
# The check fails if a load costs 2% more than here; see bench/README.md.
";

/// Recorded counts and the versions with which they were counted.
#[derive(Debug, PartialEq)]
pub struct Record {
    /// Versions of the compiler, the counter and the C library.
    pub versions: Versions,
    /// Instructions by load.
    pub counts: BTreeMap<String, u64>,
}

impl Record {
    /// Reads the table.
    ///
    /// # Errors
    /// Returns an error if the file cannot be read, or if its content is invalid.
    pub fn read(path: &Path) -> Result<Record, String> {
        let name = path.display();
        let text = fs::read_to_string(path).map_err(|error| format!("{name}: {error}"))?;
        Record::parse(&text).map_err(|error| format!("{name}: {error}"))
    }

    /// Writes the table.
    ///
    /// # Errors
    /// Returns an error if the file cannot be written.
    pub fn write(&self, path: &Path) -> Result<(), String> {
        fs::write(path, self.text()).map_err(|error| format!("{}: {error}", path.display()))
    }

    fn parse(text: &str) -> Result<Record, String> {
        let mut values = BTreeMap::new();
        for line in text.lines().filter(|line| !line.starts_with('#')) {
            let (name, value) = line.split_once(": ").ok_or_else(|| format!("{line}: no value"))?;
            values.insert(name.to_owned(), value.to_owned());
        }
        let mut version = |name: &str| values.remove(name).ok_or(format!("no line {name}"));
        let versions = Versions {
            rustc: version("rustc")?,
            valgrind: version("valgrind")?,
            glibc: version("glibc")?,
        };
        let count = |(name, value): (String, String)| match value.parse() {
            Ok(count) => Ok((name, count)),
            Err(_) => Err(format!("{name}: {value} is not a number")),
        };
        let counts = values.into_iter().map(count).collect::<Result<_, String>>()?;
        Ok(Record { versions, counts })
    }

    fn text(&self) -> String {
        let Versions { rustc, valgrind, glibc } = &self.versions;
        let mut text = format!("{HEAD}rustc: {rustc}\nvalgrind: {valgrind}\nglibc: {glibc}\n");
        for (name, count) in &self.counts {
            let _ = writeln!(text, "{name}: {count}");
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record() -> Record {
        let versions = Versions {
            rustc: "rustc 1.95.0 (59807616e 2026-04-14)".into(),
            valgrind: "valgrind-3.19.0".into(),
            glibc: "glibc 2.36".into(),
        };
        Record { versions, counts: [("nginx".to_owned(), 12), ("json".to_owned(), 3)].into() }
    }

    #[test]
    fn what_is_written_is_read() {
        assert_eq!(Record::parse(&record().text()), Ok(record()));
    }

    #[test]
    fn errors_name_the_line() {
        let text = record().text();
        let without = text.replace("glibc: glibc 2.36\n", "");
        assert_eq!(Record::parse(&without), Err("no line glibc".into()));
        let bad = text.replace("nginx: 12", "nginx: many");
        assert_eq!(Record::parse(&bad), Err("nginx: many is not a number".into()));
    }
}
