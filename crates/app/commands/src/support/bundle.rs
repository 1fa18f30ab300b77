//! The contents of the archive. Secrets are removed at the end.

use crate::text::escaped;
use flate2::Compression;
use flate2::write::GzEncoder;
use millstream_config::{self as config, is_cut_password};
use millstream_detect::{Detector, Detectors};
use serde::de::IgnoredAny;
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::io::{self, Write};
use std::ops::Range;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

/// The folder in the archive.
const FOLDER: &str = "millstream-support";

/// Folder of the configuration, in which options are hidden by their names.
const CONFIG_FOLDER: &str = "config/";

/// Minimum length, in bytes, at which a single line of a hidden value is searched for separately.
const LINE_BYTES_MIN: usize = 12;

/// Maximum length of the archive's path in the listing, in bytes.
const PATH_BYTES_MAX: usize = 4 << 10;

/// Maximum length of a user and password in an address, in bytes.
const USER_BYTES_MAX: usize = 512;

/// The contents of the archive, and the missing parts.
#[derive(Default)]
pub struct Bundle {
    /// Names and contents of files.
    entries: Vec<(String, Vec<u8>)>,
    /// Names of missing files, with the reasons.
    missing: Vec<(String, String)>,
    /// Values that must not be in the archive.
    secrets: BTreeSet<String>,
}

impl Bundle {
    /// Adds a file.
    pub fn add(&mut self, name: &str, content: impl Into<Vec<u8>>) {
        self.entries.push((name.to_owned(), content.into()));
    }

    /// Adds a file, or the reason why it is missing.
    pub fn add_if(&mut self, name: &str, content: Result<Vec<u8>, String>) {
        match content {
            Ok(content) => self.add(name, content),
            Err(why) => self.miss(name, why),
        }
    }

    /// Records the reason why a file is missing.
    pub fn miss(&mut self, name: &str, why: impl Into<String>) {
        self.missing.push((name.to_owned(), why.into()));
    }

    /// Adds values that [`Bundle::finish`] removes from all files. A binary file that contains one
    /// of them is omitted.
    pub fn hide(&mut self, secrets: impl IntoIterator<Item = String>) {
        self.secrets.extend(secrets.into_iter().filter(|secret| !secret.is_empty()));
    }

    /// Removes secrets from all files, and adds the file that lists the contents.
    pub fn finish(&mut self) {
        let forms = forms(&self.secrets);
        for (name, content) in std::mem::take(&mut self.entries) {
            let cleaned = clean(&name, content, &forms);
            self.add_if(&name, cleaned);
        }
        let mut readme = self.readme().into_bytes();
        mask_all(&mut readme, &forms);
        self.entries.insert(0, ("README.txt".to_owned(), readme));
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

    /// Returns a list of the written files, for the user.
    pub fn listing(&self, path: &Path, bytes: u64) -> String {
        let mut text = format!("{}: {bytes} bytes\n", escaped(path.display(), PATH_BYTES_MAX));
        for (name, content) in &self.entries {
            let _ = writeln!(text, "  {:>10}  {name}", content.len());
        }
        self.list_missing(&mut text);
        text
    }

    fn list_missing(&self, text: &mut String) {
        for (name, why) in &self.missing {
            let why = escaped(why, 500);
            let _ = writeln!(text, "     missing  {name}: {why}");
        }
    }

    fn readme(&self) -> String {
        let mut text = format!(
            "Support archive of millstream {}\n\
             \n\
             In the configuration, the values of secret options and of unknown options are \
             REDACTED, and\n\
             comments are removed. In all other files, asterisks replace such values of at least 6 \
             bytes that\n\
             are not ordinary words or numbers, values of variables, users and passwords in \
             addresses, the API\n\
             token, text that looks like a token, and text after a name such as password. A \
             recording that\n\
             contains such a value is omitted.\n\
             \n",
            env!("CARGO_PKG_VERSION")
        );
        for (name, content) in &self.entries {
            let _ = writeln!(text, "  {:>10}  {name}", content.len());
        }
        self.list_missing(&mut text);
        text
    }
}

/// Returns a file without secrets, or the reason why it is omitted.
fn clean(name: &str, mut content: Vec<u8>, forms: &[Vec<u8>]) -> Result<Vec<u8>, String> {
    if name.ends_with(".jfr") {
        let has_secret = forms.iter().any(|form| find(&content, form).is_some());
        if has_secret || !url_credentials(&content).is_empty() {
            let why = "the recording contains a secret; to keep a copy, run `millstream record`";
            return Err(why.to_owned());
        }
        return Ok(content);
    }
    let is_json = |content: &[u8]| serde_json::from_slice::<IgnoredAny>(content).is_ok();
    let was_json = name.ends_with(".json") && is_json(&content);
    mask_all(&mut content, forms);
    if !name.starts_with(CONFIG_FOLDER) {
        mask_detected(&mut content);
    }
    if was_json && !is_json(&content) {
        return Err("a hidden value is part of the JSON syntax".to_owned());
    }
    Ok(content)
}

/// Replaces secrets, and users and passwords in addresses, with the same number of asterisks.
fn mask_all(content: &mut [u8], forms: &[Vec<u8>]) {
    forms.iter().for_each(|form| mask(content, form));
    let users = url_credentials(content).into_iter().chain(address_credentials(content));
    for range in users.collect::<Vec<_>>() {
        content[range].fill(b'*');
    }
}

/// Replaces text that looks like a secret with the same number of asterisks: tokens of a known
/// form, and values after names such as `password`. An exception thrown by a script may quote a
/// secret that is not in any option.
fn mask_detected(content: &mut [u8]) {
    let detectors = Detectors::new(&[Detector::Token, Detector::Key], Vec::new());
    let mut hits = Vec::new();
    detectors.find(content, detectors.mask(), &mut hits);
    hits.iter().for_each(|hit| content[hit.start..hit.end].fill(b'*'));
}

/// Returns the forms in which secrets may occur, the longest first: unchanged, and escaped as in
/// JSON.
fn forms(secrets: &BTreeSet<String>) -> Vec<Vec<u8>> {
    let in_json = |secret: &String| {
        let quoted = serde_json::to_string(secret).unwrap_or_default();
        quoted.trim_matches('"').to_owned()
    };
    let lines = secrets.iter().flat_map(|secret| secret.lines()).map(|line| line.trim().to_owned());
    let lines = lines.filter(|line| line.len() >= LINE_BYTES_MIN && config::is_searched(line));
    let all = secrets.iter().flat_map(|secret| [secret.clone(), in_json(secret)]).chain(lines);
    let all: BTreeSet<Vec<u8>> = all.map(String::into_bytes).collect();
    let mut all: Vec<Vec<u8>> = all.into_iter().filter(|form| !form.is_empty()).collect();
    all.sort_by_key(|form| std::cmp::Reverse(form.len()));
    all
}

/// Replaces a value with the same number of asterisks.
fn mask(content: &mut [u8], secret: &[u8]) {
    let mut from = 0;
    while let Some(found) = find(&content[from..], secret) {
        let start = from + found;
        content[start..start + secret.len()].fill(b'*');
        from = start + secret.len();
    }
}

fn find(content: &[u8], part: &[u8]) -> Option<usize> {
    memchr::memmem::find(content, part)
}

/// Returns whether a byte cannot be in the host, user or password of an address.
fn ends_address(byte: &u8) -> bool {
    !byte.is_ascii_graphic() || b"/\"'\\<>,;".contains(byte)
}

/// Returns the ranges of users and passwords in URLs.
fn url_credentials(content: &[u8]) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    for scheme in memchr::memmem::find_iter(content, b"://") {
        let start = scheme + 3;
        let rest = &content[start..content.len().min(start + USER_BYTES_MAX)];
        let end_by = |is_end: fn(&u8) -> bool| rest.iter().position(is_end).unwrap_or(rest.len());
        let mut length = end_by(ends_address);
        if is_cut_password(rest, length) {
            length = end_by(|byte| !byte.is_ascii_graphic() || b"\"'\\<>".contains(byte));
        }
        if let Some(at) = rest[..length].iter().rposition(|byte| *byte == b'@') {
            found.push(start..start + at);
        }
    }
    found
}

/// Returns the ranges of users and passwords in addresses without a scheme: `user:password@host`.
fn address_credentials(content: &[u8]) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    for at in memchr::memchr_iter(b'@', content) {
        let before = &content[at.saturating_sub(USER_BYTES_MAX)..at];
        let is_end = |byte: &u8| ends_address(byte) || b"()[]{}=".contains(byte);
        let length = before.iter().rev().position(is_end).unwrap_or(before.len());
        let has_host =
            content.get(at + 1).is_some_and(|byte| byte.is_ascii_alphanumeric() || *byte == b'[');
        let user = &before[before.len() - length..];
        let password = user.iter().position(|byte| *byte == b':').map(|colon| &user[colon + 1..]);
        if has_host && password.is_some_and(|password| !password.is_empty()) {
            found.push(at - length..at);
        }
    }
    found
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

    /// Returns the file and the reason why it is missing.
    fn finished(name: &str, content: &[u8], secret: &str) -> (Option<Vec<u8>>, String) {
        let mut bundle = Bundle::default();
        bundle.add(name, content);
        bundle.hide([secret.to_owned()]);
        bundle.finish();
        let content = bundle.entries.into_iter().find(|(entry, _)| entry == name);
        let missing = bundle.missing.into_iter().map(|(name, why)| format!("{name}: {why}"));
        (content.map(|(_, content)| content), missing.collect())
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
        assert_eq!(masked("https://me:p/a;ss@h:1/x", &[]), "https://*********@h:1/x");
        assert_eq!(masked("http://h:1/x: no, a@b", &[]), "http://h:1/x: no, a@b");
        assert_eq!(masked("://", &[]), "://");
    }

    #[test]
    fn users_and_passwords_without_a_scheme_are_masked() {
        for (text, expected) in [
            ("to me:pw@h:1 now", "to *****@h:1 now"),
            (r#"{"broker":"a:1,me:pw@h:1"}"#, r#"{"broker":"a:1,*****@h:1"}"#),
            ("broker=me:p@w@[::1]", "broker=******@[::1]"),
            ("joe@example.com at 12:00", "joe@example.com at 12:00"),
            ("0::/system.slice/millstream@a.service", "0::/system.slice/millstream@a.service"),
            ("a:@b a:b@ c", "a:@b a:b@ c"),
        ] {
            assert_eq!(masked(text, &[]), expected);
        }
    }

    #[test]
    fn what_looks_like_a_secret_is_masked_but_for_the_configuration() {
        let text = r#"{"error":"IllegalStateException: password=of-script Bearer abcdef.ghi"}"#;
        assert_eq!(
            masked(text, &[]),
            r#"{"error":"IllegalStateException: password=********* Bearer **********"}"#
        );
        let (config, _) = finished("config/a.json", br#"{"token": "REDACTED"}"#, "");
        assert_eq!(config.unwrap(), br#"{"token": "REDACTED"}"#);
    }

    #[test]
    fn a_recording_is_whole_or_left_out() {
        let plain = b"FLR\0hunter\xff://\0a@b x:y@z";
        assert_eq!(finished("a.jfr", plain, "hunter2"), (Some(plain.to_vec()), String::new()));
        for bytes in [b"FLR\0\x07hunter2".as_slice(), b"FLR\0http://u:p@h/"] {
            let (content, missing) = finished("a.jfr", bytes, "hunter2");
            assert_eq!(content, None);
            assert!(missing.starts_with("a.jfr: the recording contains a secret"), "{missing}");
        }
    }

    #[test]
    fn a_json_file_stays_one_or_is_left_out() {
        let content = br#"{"a":"hunter2","b":1234567}"#;
        let (masked, _) = finished("a.json", content, "hunter2");
        assert_eq!(masked.unwrap(), br#"{"a":"*******","b":1234567}"#);
        let (masked, missing) = finished("a.json", content, r#"","b":"#);
        assert!(masked.is_none() && missing.contains("syntax"), "{missing}");
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
