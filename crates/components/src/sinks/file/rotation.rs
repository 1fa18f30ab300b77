//! File rotation: when a file is full, what it is renamed to, and which rotated files are deleted.

use crate::sinks::file::disk::{folder, rename_to_free};
use crate::util::formats::push_rfc3339;
use millstream_model::{Interval, Size};
use schemars::JsonSchema;
use serde::Deserialize;
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};

/// Compression extensions, which follow the file type extension.
const COMPRESSED: &[&str] = &["gz", "zst", "zstd", "bz2", "xz", "lz4"];

/// Conditions for rotation: the sink closes and renames the file, and starts a new one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Rotate {
    /// Size at which a file is rotated.
    pub size: Option<Size>,
    /// Rotation interval, aligned to UTC: the first event in a new interval rotates the file. `1h`
    /// rotates on the hour.
    pub every: Option<Interval>,
    /// Number of rotated files to keep per path; the oldest are deleted. The default is to keep all
    /// files.
    #[schemars(range(min = 1))]
    pub keep: Option<u32>,
}

impl Rotate {
    /// Returns the error in the options, as (key, "what is wrong; what to use instead"), for a sink
    /// whose path is this template.
    pub fn check(&self, path: &str) -> Option<(&'static str, &'static str)> {
        if self.size.is_none() && self.every.is_none() {
            return Some(("", "has no trigger; use size: 100MiB or every: 1h"));
        }
        let name = path.rsplit('/').next().filter(|_| self.keep.is_some())?;
        // A field value could look like another path's rotated file.
        if name.contains("{{") {
            let advice = "counts files by name, which is ambiguous with a field in the file name; \
                          move the field into the folder, as in /var/log/millstream/{{ host \
                          }}/app.log";
            return Some(("/keep", advice));
        }
        let advice = "counts the rotated files of one name, but a time in the file name changes \
                      the name; use app.log with `every: 1d` (rotated files have the time in their \
                      name), move the time into the folder, or remove `keep`";
        name.replace("%%", "").contains('%').then_some(("/keep", advice))
    }

    /// Returns whether a file of `bytes`, started at `started_ns`, is due for rotation.
    pub fn is_due(&self, bytes: u64, started_ns: i64, now_ns: i64) -> bool {
        let span = |every: Interval| i64::try_from(every.0.as_nanos()).unwrap_or(i64::MAX).max(1);
        let is_old = |every| started_ns.div_euclid(span(every)) < now_ns.div_euclid(span(every));
        bytes > 0
            && (self.size.is_some_and(|size| bytes >= size.0) || self.every.is_some_and(is_old))
    }

    /// Renames the file to its rotated name, and deletes the oldest rotated files beyond `keep`.
    pub fn rotate(&self, path: &Path, now_ns: i64) -> io::Result<()> {
        let (stem, ending) = split(path);
        let stamp = stamp(now_ns);
        let mut rotated = if self.keep.is_some() { rotated(path)? } else { Vec::new() };
        // Number the file after the last existing rotated file, even if earlier files were deleted,
        // so that names sort by age.
        let last = rotated.last().filter(|((last, _), _)| *last == stamp);
        let first = last.map_or(0, |((_, number), _)| number + 1);
        rename_to_free(path, first, |n| match n {
            0 => format!("{stem}-{stamp}{ending}"),
            n => format!("{stem}-{stamp}_{n:03}{ending}"),
        })?;
        let Some(keep) = self.keep else { return Ok(()) };
        let extra = (rotated.len() + 1).saturating_sub(keep as usize);
        for (_, name) in rotated.drain(..extra.min(rotated.len())) {
            let old = folder(path).join(name);
            // The rename is done, so a failed delete is not retried.
            if let Err(error) = std::fs::remove_file(&old) {
                log::warn!("cannot delete {}, which exceeds `keep`: {error}", old.display());
            }
        }
        Ok(())
    }
}

/// Lists the rotated files of this path as time, number and name, oldest first.
fn rotated(path: &Path) -> io::Result<Vec<((String, u32), OsString)>> {
    let (stem, ending) = split(path);
    let mut rotated = Vec::new();
    for entry in std::fs::read_dir(folder(path))? {
        let entry = entry?;
        // Folders and links are never rotated files, regardless of their name.
        if !entry.file_type()?.is_file() {
            continue;
        }
        let name = entry.file_name();
        let inside =
            name.to_str().and_then(|name| name.strip_prefix(&*stem)?.strip_suffix(&*ending));
        rotated.extend(inside.and_then(parse).map(|age| (age, name)));
    }
    rotated.sort();
    Ok(rotated)
}

/// Returns an example of a rotated file name for this path.
pub fn example(path: &Path) -> PathBuf {
    let (stem, ending) = split(path);
    path.with_file_name(format!("{stem}-{}{ending}", stamp(0)))
}

/// Splits a file's name from its extension, such as `.log` or `.json.gz`, which stays last.
fn split(path: &Path) -> (String, String) {
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let cut = |name: &str| name.rfind('.').filter(|at| *at > 0).unwrap_or(name.len());
    let mut at = cut(&name);
    if COMPRESSED.contains(&name[at..].trim_start_matches('.')) {
        at = cut(&name[..at]);
    }
    (name[..at].to_owned(), name[at..].to_owned())
}

/// Formats a time like `20261121T101500Z`.
fn stamp(ns: i64) -> String {
    let mut text = Vec::new();
    push_rfc3339(&mut text, ns);
    text.truncate("2026-11-21T10:15:00".len());
    text.retain(|byte| !b"-:".contains(byte));
    String::from_utf8_lossy(&text).into_owned() + "Z"
}

/// Parses the time and the number of `-20261121T101500Z_002`.
fn parse(inside: &str) -> Option<(String, u32)> {
    let (stamp, number) = inside.strip_prefix('-')?.split_at_checked("20261121T101500Z".len())?;
    let fits = stamp.bytes().enumerate().all(|(at, byte)| match at {
        8 => byte == b'T',
        15 => byte == b'Z',
        _ => byte.is_ascii_digit(),
    });
    let number = if number.is_empty() { 0 } else { number.strip_prefix('_')?.parse().ok()? };
    fits.then(|| (stamp.to_owned(), number))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;
    use std::fs;
    use std::time::Duration;

    const NOW_NS: i64 = 1_795_292_986_123_000_000;

    #[test]
    fn a_name_keeps_its_extension() {
        let named = |name: &str| example(&Path::new("/a").join(name)).display().to_string();
        assert_eq!(named("app.json.gz"), "/a/app-19700101T000000Z.json.gz");
        assert_eq!(named("app-1.2.log"), "/a/app-1.2-19700101T000000Z.log");
        assert_eq!(
            (named("app"), named(".app")),
            ("/a/app-19700101T000000Z".into(), "/a/.app-19700101T000000Z".into())
        );
    }

    #[test]
    fn a_file_is_due_by_its_size_and_on_the_hour() {
        let size = Rotate { size: Some(Size(100)), ..Rotate::default() };
        assert!(size.is_due(100, 0, 0) && !size.is_due(99, 0, i64::MAX));
        let hour = Rotate { every: Some(Interval(Duration::from_secs(3600))), ..Rotate::default() };
        let at = |hour: i64, second: i64| (hour * 3600 + second) * 1_000_000_000;
        assert!(hour.is_due(1, at(3, 3599), at(4, 0)) && !hour.is_due(1, at(3, 0), at(3, 3599)));
        assert!(!hour.is_due(0, at(3, 0), at(9, 0)), "nothing to rotate");
        assert!(!hour.is_due(1, at(3, 0), at(2, 0)), "a clock that was set back");
    }

    #[test]
    fn folders_and_links_named_like_rotated_files_are_ignored() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("app.log");
        fs::create_dir(dir.path().join("app-20200101T000000Z.log")).unwrap();
        std::os::unix::fs::symlink("x", dir.path().join("app-20200102T000000Z.log")).unwrap();
        let rotate = Rotate { keep: Some(1), ..Rotate::default() };
        for number in 0..3 {
            fs::write(&path, number.to_string()).unwrap();
            rotate.rotate(&path, NOW_NS + number * 1_000_000_000).unwrap();
        }
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 3);
        assert_eq!(fs::read_to_string(dir.path().join("app-20261121T202948Z.log")).unwrap(), "2");
    }

    #[test]
    fn keep_requires_a_constant_file_name() {
        let rotate = Rotate { size: Some(Size(1)), keep: Some(1), ..Rotate::default() };
        let refused = |path: &str| {
            rotate.check(path).is_some_and(|(key, text)| key == "/keep" && text.contains("; "))
        };
        assert!(refused("/o/app-%F.log") && refused("/o/{{ host }}.log"));
        assert!(!refused("/o/%F/{{ host }}/100%%.log"));
        assert!(Rotate { keep: None, ..rotate }.check("/o/app-%F.log").is_none());
    }

    #[test]
    fn the_newest_files_are_kept_and_nothing_is_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("app.log");
        for other in [
            "app-x.log",
            "app-20261121T202946Z-x.log",
            "apps-20201121T202946Z.log",
            "app-20201121T202946Z",
        ] {
            fs::write(dir.path().join(other), "not ours").unwrap();
        }
        let rotate = Rotate { keep: Some(11), ..Rotate::default() };
        for number in 0..14 {
            fs::write(&path, number.to_string()).unwrap();
            rotate.rotate(&path, NOW_NS).unwrap();
        }
        let files = fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().path());
        let texts: BTreeSet<String> = files.map(|path| fs::read_to_string(path).unwrap()).collect();
        let expected = (3..14).map(|n| n.to_string()).chain(["not ours".into()]).collect();
        assert_eq!(texts, expected);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 15);
    }
}
