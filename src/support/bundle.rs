//! The contents of the archive, from which what is secret is removed at the end.

use flate2::Compression;
use flate2::write::GzEncoder;
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::io::{self, Write};
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

/// The folder in the archive.
const FOLDER: &str = "millstream-support";

/// What the archive has, and what it lacks.
#[derive(Default)]
pub struct Bundle {
    /// Names and contents.
    entries: Vec<(String, Vec<u8>)>,
    /// What is missing, and why.
    missing: Vec<(String, String)>,
    /// Values that must not be in the archive.
    secrets: BTreeSet<String>,
}

impl Bundle {
    /// Adds a file.
    pub fn add(&mut self, name: &str, content: impl Into<Vec<u8>>) {
        self.entries.push((name.to_owned(), content.into()));
    }

    /// Adds a file, or says why there is none.
    pub fn add_if(&mut self, name: &str, content: Result<Vec<u8>, String>) {
        match content {
            Ok(content) => self.add(name, content),
            Err(why) => self.miss(name, why),
        }
    }

    /// Says why there is no such file.
    pub fn miss(&mut self, name: &str, why: impl Into<String>) {
        self.missing.push((name.to_owned(), why.into()));
    }

    /// Removes these values from all files.
    pub fn hide(&mut self, secrets: impl IntoIterator<Item = String>) {
        self.secrets.extend(secrets.into_iter().filter(|secret| !secret.is_empty()));
    }

    /// Adds the file that says what there is, and removes secrets from all.
    pub fn finish(&mut self) {
        let readme = self.readme();
        self.entries.insert(0, ("README.txt".to_owned(), readme.into_bytes()));
        let forms = forms(&self.secrets);
        for (_, content) in &mut self.entries {
            forms.iter().for_each(|form| mask(content, form));
            mask_credentials(content);
        }
    }

    /// Writes the archive.
    pub fn write(&self, output: &mut impl Write) -> io::Result<()> {
        let mut archive = tar::Builder::new(GzEncoder::new(output, Compression::default()));
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        for (name, content) in &self.entries {
            let mut header = tar::Header::new_gnu();
            header.set_size(content.len() as u64);
            header.set_mode(0o600);
            header.set_mtime(now);
            archive.append_data(&mut header, format!("{FOLDER}/{name}"), content.as_slice())?;
        }
        archive.into_inner()?.finish()?.flush()
    }

    /// Returns what was written, for the user.
    pub fn listing(&self, path: &Path, bytes: u64) -> String {
        let mut text = format!("{}: {bytes} bytes\n", path.display());
        for (name, content) in &self.entries {
            let _ = writeln!(text, "  {:>10}  {name}", content.len());
        }
        self.list_missing(&mut text);
        text
    }

    fn list_missing(&self, text: &mut String) {
        for (name, why) in &self.missing {
            let why = crate::logging::escaped(why, 500);
            let _ = writeln!(text, "     missing  {name}: {why}");
        }
    }

    fn readme(&self) -> String {
        let mut text = format!(
            "Support archive of millstream {}\n\n\
             Values of secret options, and texts under names that no option has, are REDACTED in the\n\
             configuration, and comments are left out. Those of at least 6 bytes, users and passwords\n\
             in URLs and the token of the API are replaced by asterisks in all other files.\n\n",
            env!("CARGO_PKG_VERSION")
        );
        for (name, content) in &self.entries {
            let _ = writeln!(text, "  {:>10}  {name}", content.len());
        }
        self.list_missing(&mut text);
        text
    }
}

/// Returns the forms in which secrets may occur, the longest first: as they are, and as in JSON.
fn forms(secrets: &BTreeSet<String>) -> Vec<Vec<u8>> {
    let in_json = |secret: &String| {
        let quoted = serde_json::to_string(secret).unwrap_or_default();
        quoted.trim_matches('"').to_owned()
    };
    let lines = secrets.iter().flat_map(|secret| secret.lines()).map(|line| line.trim().to_owned());
    let lines = lines.filter(|line| line.len() >= 12);
    let all = secrets.iter().flat_map(|secret| [secret.clone(), in_json(secret)]).chain(lines);
    let all: BTreeSet<Vec<u8>> = all.map(String::into_bytes).collect();
    let mut all: Vec<Vec<u8>> = all.into_iter().filter(|form| !form.is_empty()).collect();
    all.sort_by_key(|form| std::cmp::Reverse(form.len()));
    all
}

/// Replaces a value by as many asterisks, so that lengths in binary files stay valid.
fn mask(content: &mut [u8], secret: &[u8]) {
    let mut from = 0;
    while let Some(found) = find(&content[from..], secret) {
        let start = from + found;
        content[start..start + secret.len()].fill(b'*');
        from = start + secret.len();
    }
}

fn find(content: &[u8], part: &[u8]) -> Option<usize> {
    content.windows(part.len()).position(|window| window == part)
}

/// Replaces users and passwords of URLs.
fn mask_credentials(content: &mut [u8]) {
    let mut from = 0;
    while let Some(found) = find(&content[from..], b"://") {
        let start = from + found + 3;
        let ends = |byte: &u8| byte.is_ascii_whitespace() || b"/\"'\\<>,;".contains(byte);
        let length = content[start..].iter().take(512).position(ends);
        let end = start + length.unwrap_or((content.len() - start).min(512));
        if let Some(at) = content[start..end].iter().rposition(|byte| *byte == b'@') {
            content[start..start + at].fill(b'*');
        }
        from = start;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn masked(content: &str, secrets: &[&str]) -> String {
        let mut bundle = Bundle::default();
        bundle.add("a", content);
        bundle.hide(secrets.iter().map(|secret| (*secret).to_owned()));
        bundle.finish();
        String::from_utf8(bundle.entries[1].1.clone()).unwrap()
    }

    #[test]
    fn secrets_are_masked_in_every_form() {
        assert_eq!(masked("a hunter2, hunter2", &["hunter2"]), "a *******, *******");
        assert_eq!(masked(r#"{"a":"x\"y\\z"}"#, &["x\"y\\z"]), r#"{"a":"*******"}"#);
        assert_eq!(masked("abcdef abc", &["abc", "abcdef"]), "****** ***");
        assert_eq!(
            masked("to http://u:p@h:1/x and ftp://h/@", &[]),
            "to http://***@h:1/x and ftp://h/@"
        );
        assert_eq!(masked("://", &[]), "://");
    }

    #[test]
    fn the_archive_lists_itself() {
        let mut bundle = Bundle::default();
        bundle.add("a.txt", "one");
        bundle.miss("b.txt", "there is none\u{1b}");
        bundle.finish();
        let mut bytes = Vec::new();
        bundle.write(&mut bytes).unwrap();
        let mut archive = tar::Archive::new(flate2::read::GzDecoder::new(bytes.as_slice()));
        let names: Vec<String> = archive
            .entries()
            .unwrap()
            .map(|entry| entry.unwrap().path().unwrap().display().to_string())
            .collect();
        assert_eq!(names, ["millstream-support/README.txt", "millstream-support/a.txt"]);
        let listing = bundle.listing(Path::new("x.tar.gz"), 7);
        assert!(listing.contains("b.txt: there is none\\u{1b}"), "{listing}");
    }
}
