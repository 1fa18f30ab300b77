//! Filters names by patterns.

use globset::{GlobBuilder, GlobSet, GlobSetBuilder};

/// Allows the names that match an include pattern and no exclude pattern.
#[derive(Clone, Debug)]
pub struct Filter {
    /// Patterns to include; `None` includes all names.
    include: Option<GlobSet>,
    exclude: GlobSet,
}

impl Filter {
    /// Creates a filter from glob patterns. `*` does not match `/`. An empty `include` includes
    /// all names.
    ///
    /// # Errors
    /// Returns an error if a pattern is invalid; the text names the pattern.
    pub fn new(include: &[String], exclude: &[String]) -> Result<Filter, String> {
        let include = if include.is_empty() { None } else { Some(set(include)?) };
        Ok(Filter { include, exclude: set(exclude)? })
    }

    /// Returns whether the filter allows a name.
    pub fn allows(&self, name: &str) -> bool {
        self.include.as_ref().is_none_or(|include| include.is_match(name))
            && !self.exclude.is_match(name)
    }
}

fn set(patterns: &[String]) -> Result<GlobSet, String> {
    let mut set = GlobSetBuilder::new();
    for pattern in patterns {
        let glob = GlobBuilder::new(pattern).literal_separator(true).build();
        set.add(glob.map_err(|error| error.to_string())?);
    }
    set.build().map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filter(include: &[&str], exclude: &[&str]) -> Result<Filter, String> {
        let owned = |list: &[&str]| list.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
        Filter::new(&owned(include), &owned(exclude))
    }

    #[test]
    fn a_name_is_allowed_if_included_and_not_excluded() {
        let all = filter(&[], &["loop*"]).unwrap();
        assert!(all.allows("sda") && !all.allows("loop7"));
        let some = filter(&["sd*"], &["sdb"]).unwrap();
        assert!(some.allows("sda") && !some.allows("sdb") && !some.allows("vda"));
        let below = filter(&[], &["/run/**", "/boot/*"]).unwrap();
        assert!(
            below.allows("/run") && !below.allows("/run/user/7") && below.allows("/boot/efi/x")
        );
        assert!(filter(&["[a"], &[]).unwrap_err().contains("[a"));
    }
}
