//! File names: rotations of other names, and containers in log paths.

use std::collections::BTreeMap;
use std::path::Path;

/// Extensions of compressed files.
const COMPRESSED_EXTENSIONS: &[&str] = &[".gz", ".gzip", ".zst", ".zstd"];

/// Words that log rotation adds to names.
const ROTATION_WORDS: &[&str] = &["old", "bak", "backup", "prev", "log", "txt"];

/// Returns whether the name belongs to a compressed file, either complete or being written:
/// `app.log.1.gz.tmp`.
pub fn is_compressed_name(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy() + ".";
    COMPRESSED_EXTENSIONS.iter().any(|ending| name.contains(&format!("{ending}.")))
}

/// Returns whether a name ends in a rotation number: `app.log.1`, `app.log.2.gz`.
pub fn is_numbered(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let ending = COMPRESSED_EXTENSIONS.iter().find_map(|ending| name.strip_suffix(ending));
    let number = ending.unwrap_or(&name).rsplit_once('.').map(|(_, number)| number);
    number.is_some_and(|number| {
        !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit())
    })
}

/// Returns the prefix that the names of all of a file's rotations share: the file's name up to the
/// last dot. In a rotation's name, the prefix is followed by a dot, `-` or `_`.
pub fn stem(name: &str) -> &str {
    name.rsplit_once('.').map_or(name, |(stem, _)| stem)
}

/// Returns whether `other` is a name that a rotation could give to `original` or its compressed
/// form, such as one with a number, a date or an extension.
pub fn is_rotation_name(original: &str, other: &str) -> bool {
    let ending = COMPRESSED_EXTENSIONS.iter().find_map(|ending| other.strip_suffix(ending));
    if original == ending.unwrap_or(other) {
        return ending.is_some();
    }
    let stem = stem(original);
    let Some(rest) = other.strip_prefix(stem).map(|_| &ending.unwrap_or(other)[stem.len()..])
    else {
        return false;
    };
    let extension = &original[stem.len()..];
    let parts =
        rest.strip_prefix(extension).or_else(|| rest.strip_suffix(extension)).unwrap_or(rest);
    let is_part = |part: &str| {
        part.chars().all(|c| c.is_ascii_digit() || matches!(c, 'T' | 'Z' | ':'))
            || ROTATION_WORDS.contains(&part)
    };
    rest.starts_with(['.', '-', '_']) && parts.split(['.', '-', '_']).all(is_part)
}

/// Returns the names that a rotation may have changed to `other`, longest first. Other numbers for
/// the same file, such as `app.log.1` for `app.log.2.gz`, are not included.
pub fn originals_of(other: &str) -> Vec<String> {
    let ending = COMPRESSED_EXTENSIONS.iter().find_map(|ending| other.strip_suffix(ending));
    let plain = ending.unwrap_or(other);
    let extension = plain.rfind('.').map_or("", |dot| &plain[dot..]);
    let mut names = vec![plain.to_owned()];
    for (end, _) in plain.match_indices(['.', '-', '_']).filter(|(end, _)| *end > 0) {
        names.extend([plain[..end].to_owned(), format!("{}{extension}", &plain[..end])]);
    }
    names.retain(|name| is_rotation_name(name, other));
    names.sort_by_key(|name| std::cmp::Reverse(name.len()));
    names.dedup();
    names
}

/// Returns the container attributes in the path of a container log, named according to the
/// OpenTelemetry semantic conventions, such as `k8s.pod.name`. Empty for other paths.
///
/// Kubernetes stores logs as `/var/log/pods/NAMESPACE_POD_UID/CONTAINER/N.log` and links to them
/// from `/var/log/containers/POD_NAMESPACE_CONTAINER-ID.log`.
pub fn container(path: &Path) -> BTreeMap<String, String> {
    let text = path.to_string_lossy();
    let found = pods_path(&text).or_else(|| containers_path(&text)).unwrap_or_default();
    found.into_iter().map(|(key, value)| (key.to_owned(), value.to_owned())).collect()
}

fn pods_path(path: &str) -> Option<Vec<(&'static str, &str)>> {
    let (_, rest) = path.split_once("/pods/")?;
    let mut parts = rest.split('/');
    let folder = parts.next()?;
    let container = parts.next()?;
    parts.next()?;
    let mut names = folder.splitn(3, '_');
    let namespace = names.next()?;
    let pod = names.next()?;
    let uid = names.next()?;
    Some(vec![
        ("k8s.namespace.name", namespace),
        ("k8s.pod.name", pod),
        ("k8s.pod.uid", uid),
        ("k8s.container.name", container),
    ])
}

fn containers_path(path: &str) -> Option<Vec<(&'static str, &str)>> {
    let (_, file) = path.split_once("/containers/")?;
    let (names, id) = file.strip_suffix(".log")?.rsplit_once('-')?;
    let mut names = names.splitn(3, '_');
    let pod = names.next()?;
    let namespace = names.next()?;
    let container = names.next()?;
    let is_id = id.len() == 64 && id.bytes().all(|b| b.is_ascii_hexdigit());
    is_id.then(|| {
        vec![
            ("k8s.namespace.name", namespace),
            ("k8s.pod.name", pod),
            ("k8s.container.name", container),
            ("container.id", id),
        ]
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_incomplete_compressed_files_are_recognized() {
        for (name, is_compressed) in [
            ("/in/app.log.1.gz", true),
            ("/in/app.log.1.gz.tmp", true),
            ("/in/app.zst", true),
            ("/in.gz.d/app.log", false),
            ("/in/app.gzlog", false),
            ("/in/gz", false),
        ] {
            assert_eq!(is_compressed_name(Path::new(name)), is_compressed, "{name}");
        }
    }

    #[test]
    fn numbered_names_are_recognized() {
        for (name, is) in [
            ("/in/app.log.1", true),
            ("/in/app.log.12.gz", true),
            ("/in/app.log", false),
            ("/in/app.log.gz", false),
            ("/in/app.", false),
            ("/in.1/app", false),
        ] {
            assert_eq!(is_numbered(Path::new(name)), is, "{name}");
        }
    }

    #[test]
    fn rotation_names_are_recognized() {
        for (original, others) in [
            (
                "app.log",
                &[
                    "app.log.1",
                    "app.log.1.gz",
                    "app.log-20261122",
                    "app-2026-11-22.log.zst",
                    "app.log.gz",
                ][..],
            ),
            (
                "app.log",
                &[
                    "app.2026-11-22-10.3.log",
                    "app.log.old",
                    "app.log-2026-11-22T10:00:00Z.gz",
                    "app.1.log",
                ],
            ),
            ("syslog", &["syslog.1", "syslog.2.gz", "syslog-20261122"]),
            ("app.log.1", &["app.log.1.gz", "app.log.2.gz"]),
            ("0.log", &["0.log.20261122-101010", "0.log.20261122-101010.gz"]),
        ] {
            others
                .iter()
                .for_each(|other| assert!(is_rotation_name(original, other), "{original} {other}"));
            // `originals_of` omits names that themselves end in a rotation number.
            let found = |other: &&&str| originals_of(other).contains(&original.to_owned());
            assert!(
                original == "app.log.1" || others.iter().all(|other| found(&other)),
                "{original}"
            );
        }
    }

    #[test]
    fn unrelated_names_are_not_rotations() {
        for (original, other) in [
            ("app.log", "app.log"),
            ("app.log", "app-worker.log"),
            ("app1.log", "app10.log"),
            ("a.log", "b.log"),
            ("app.log", "applog.1"),
            ("app.log", "app.log.1.tmp"),
            ("sample.log", "sample2.log"),
        ] {
            assert!(!is_rotation_name(original, other), "{original} {other}");
        }
    }

    #[test]
    fn container_attributes_are_parsed_from_paths() {
        let attributes = |path: &str| container(Path::new(path));
        let pod = attributes("/var/log/pods/shop_cart-7d4_0a1b/web/0.log");
        assert_eq!(
            (
                &pod["k8s.namespace.name"][..],
                &pod["k8s.pod.name"][..],
                &pod["k8s.container.name"][..]
            ),
            ("shop", "cart-7d4", "web")
        );
        let id = "0123456789abcdef".repeat(4);
        let linked = attributes(&format!("/var/log/containers/cart-7d4_shop_web-sidecar-{id}.log"));
        assert_eq!(
            (&linked["k8s.pod.name"][..], &linked["k8s.container.name"][..]),
            ("cart-7d4", "web-sidecar")
        );
        assert_eq!(linked["container.id"], id);
        for other in ["/var/log/app.log", "/var/log/pods/x/0.log", "/var/log/containers/a_b-c.log"]
        {
            assert!(attributes(other).is_empty(), "{other}");
        }
    }
}
