//! Files that had a name that is looked for, and lost it before anybody looked.

use super::discover::{Exclude, Pattern};
use std::path::PathBuf;

/// Where files are now that had a name that fits, after these moves in their order: from, to.
pub fn followed(moved: Vec<(PathBuf, PathBuf)>, patterns: &[Pattern], exclude: &Exclude) -> Vec<PathBuf> {
    let mut places: Vec<PathBuf> = Vec::new();
    for (from, to) in moved {
        let known = places.iter().position(|place| *place == from);
        if let Some(at) = known {
            places.swap_remove(at);
        }
        let fits = || patterns.iter().any(|pattern| pattern.matches(&from)) && !exclude.matches(&from);
        if known.is_some() || fits() {
            // What had this name before is gone.
            places.retain(|place| *place != to);
            places.push(to);
        }
    }
    places
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::discover::Glob;

    #[test]
    fn a_file_is_followed_from_the_name_that_fits() {
        let patterns = [Pattern::new("/in/app.log").unwrap(), Pattern::new("/in/*.txt").unwrap()];
        let exclude = Exclude::new(&[Glob("no.txt".to_owned())]).unwrap();
        let followed = |moved: &[(&str, &str)]| {
            let moved = moved.iter().map(|(from, to)| (from.into(), to.into())).collect();
            let places = super::followed(moved, &patterns, &exclude);
            let mut places: Vec<String> = places.iter().map(|place| place.display().to_string()).collect();
            places.sort();
            places
        };
        let rotation = ("/in/app.log", "/in/app.log.1");
        assert_eq!(followed(&[rotation]), ["/in/app.log.1"]);
        let second = [rotation, ("/in/app.log.1", "/in/app.log.2"), rotation];
        assert_eq!(followed(&second), ["/in/app.log.1", "/in/app.log.2"]);
        assert_eq!(followed(&[rotation, rotation]), ["/in/app.log.1"], "the first one was replaced");
        assert_eq!(followed(&[("/in/app.log.1", "/in/app.log.2")]), [""; 0]);
        assert_eq!(followed(&[("/in/a.txt", "/b"), ("/in/no.txt", "/c"), ("/b", "/d")]), ["/d"]);
    }
}
