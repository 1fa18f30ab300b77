//! Tracks which source name owns each exposed name.
//!
//! Escaping and suffixes can map different source names to the same exposed name: `a.b` and `a_b`
//! both become `a_b`, and a counter `stat_count` looks like the count of a summary `stat`. Their
//! values must not mix, so the first source name keeps the exposed name until its series expire,
//! and other source names are rejected. Names are compared only when a series is new.

use super::RejectReason;
use super::overflow::{OVERFLOW_NAME, is_overflow};
use std::collections::{HashMap, HashSet};
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// Suffixes of the names that a summary exposes in addition to its quantiles.
const SUMMARY_SUFFIXES: [&[u8]; 2] = [b"_sum", b"_count"];

/// Prefix of the names under which overflow series are exposed. Other source names cannot use these
/// names, because they must be free when a limit is reached.
const OVERFLOW_EXPOSED: &[u8] = b"millstream_overflow";

/// Maximum number of distinct conflicts that are reported. Additional conflicts are only counted.
const REPORTED_MAX: usize = 1000;

/// Two source names, or two sets of tag keys, that map to the same exposed names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NameConflict {
    /// The exposed name of the metric.
    pub exposed: String,
    /// The source name that keeps the exposed name.
    pub kept: String,
    /// The source name that is rejected. Equal to `kept` if only the tag keys differ.
    pub refused: String,
}

/// The owner of an exposed name.
struct Owner {
    /// Id of the owner, which the entries of its series contain.
    id: u32,
    source: Box<[u8]>,
    /// Whether the owner also owns the names with [`SUMMARY_SUFFIXES`].
    is_summary: bool,
}

/// The owners of all exposed names.
#[derive(Default)]
pub(super) struct SourceNames {
    owners: HashMap<Box<[u8]>, Owner>,
    free_ids: Vec<u32>,
    /// Hashes of the conflicts that are already reported.
    reported: HashSet<u64>,
    /// Conflicts that are not reported yet.
    conflicts: Vec<NameConflict>,
}

impl SourceNames {
    /// Checks whether a source name may use this exposed name and, if it is a summary, the suffixed
    /// names.
    ///
    /// # Errors
    /// Returns an error if another source name owns one of these names.
    pub fn check(
        &mut self,
        source: &[u8],
        exposed: &[u8],
        is_summary: bool,
    ) -> Result<(), RejectReason> {
        let other = match exposed.starts_with(OVERFLOW_EXPOSED) && !is_overflow(source) {
            true => Some(OVERFLOW_NAME),
            false => self.other_owner(source, exposed, is_summary),
        };
        let Some(other) = other.map(Box::<[u8]>::from) else { return Ok(()) };
        self.report(source, exposed, &other);
        Err(RejectReason::NameConflict)
    }

    /// Returns the other source name that owns the exposed name, a summary name that `exposed`
    /// extends with a suffix, or one of the suffixed names of a summary.
    fn other_owner(&self, source: &[u8], exposed: &[u8], is_summary: bool) -> Option<&[u8]> {
        let own = self.owners.get(exposed);
        let of_summary = SUMMARY_SUFFIXES.into_iter().filter_map(|suffix| {
            let owner = self.owners.get(exposed.strip_suffix(suffix)?)?;
            owner.is_summary.then_some(owner)
        });
        let with_suffix = SUMMARY_SUFFIXES
            .into_iter()
            .filter(|_| is_summary)
            .filter_map(|suffix| self.owners.get(&*[exposed, suffix].concat()));
        let mut owners = own.into_iter().chain(of_summary).chain(with_suffix);
        owners.find(|owner| *owner.source != *source).map(|owner| &*owner.source)
    }

    /// Assigns the exposed name to a source name that was checked. Returns the owner's id.
    pub fn own(&mut self, source: &[u8], exposed: &[u8], is_summary: bool) -> u32 {
        if let Some(owner) = self.owners.get_mut(exposed) {
            owner.is_summary |= is_summary;
            return owner.id;
        }
        let id = self.free_ids.pop().unwrap_or(self.owners.len() as u32);
        self.owners.insert(exposed.into(), Owner { id, source: source.into(), is_summary });
        id
    }

    /// Removes the owners that no longer have series. `is_used` and `is_summary` are indexed by
    /// owner id: whether the owner has any series, and whether any of them is a summary.
    pub fn retain(&mut self, is_used: &[bool], is_summary: &[bool]) {
        let free_ids = &mut self.free_ids;
        self.owners.retain(|_, owner| {
            let is_kept = is_used[owner.id as usize];
            owner.is_summary &= is_summary[owner.id as usize];
            if !is_kept {
                free_ids.push(owner.id);
            }
            is_kept
        });
    }

    /// Returns an upper bound for the owner ids.
    pub fn ids(&self) -> usize {
        self.owners.len() + self.free_ids.len()
    }

    /// Reports a conflict about an exposed name, unless it was already reported.
    pub fn report(&mut self, refused: &[u8], exposed: &[u8], kept: &[u8]) {
        if self.reported.len() >= REPORTED_MAX {
            return;
        }
        let names = [exposed, kept, refused];
        let hash = names.iter().fold(0, |hash, name| xxh3_64_with_seed(name, hash));
        if self.reported.insert(hash) {
            let [exposed, kept, refused] =
                names.map(|name| String::from_utf8_lossy(name).into_owned());
            self.conflicts.push(NameConflict { exposed, kept, refused });
        }
    }

    /// Returns the conflicts found since the last call.
    pub fn take_conflicts(&mut self) -> Vec<NameConflict> {
        std::mem::take(&mut self.conflicts)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owned(names: &mut SourceNames, source: &str, exposed: &str, is_summary: bool) -> bool {
        let (source, exposed) = (source.as_bytes(), exposed.as_bytes());
        let is_owned = names.check(source, exposed, is_summary).is_ok();
        if is_owned {
            names.own(source, exposed, is_summary);
        }
        is_owned
    }

    #[test]
    fn an_exposed_name_belongs_to_the_first_source_name() {
        let mut names = SourceNames::default();
        assert!(owned(&mut names, "a.b", "a_b", false));
        assert!(owned(&mut names, "a.b", "a_b", false));
        for _ in 0..2 {
            assert!(!owned(&mut names, "a_b", "a_b", false));
        }
        let [exposed, kept, refused] = ["a_b", "a.b", "a_b"].map(str::to_owned);
        let conflict = NameConflict { exposed, kept, refused };
        assert_eq!(names.take_conflicts(), [conflict], "once");
    }

    #[test]
    fn the_names_of_a_summary_belong_together() {
        let mut names = SourceNames::default();
        assert!(owned(&mut names, "login", "login", true));
        assert!(!owned(&mut names, "login.sum", "login_sum", false));
        assert!(owned(&mut names, "logout.count", "logout_count", false));
        assert!(!owned(&mut names, "logout", "logout", true));
        assert!(owned(&mut names, "logout", "logout", false), "not a summary");
    }

    #[test]
    fn a_name_without_series_is_free_again() {
        let mut names = SourceNames::default();
        assert!(owned(&mut names, "a.b", "a_b", false));
        assert!(owned(&mut names, "c", "c", false));
        names.retain(&[false, true], &[false, false]);
        assert!(owned(&mut names, "a_b", "a_b", false));
        assert!(owned(&mut names, "d", "d", false));
        let mut ids: Vec<u32> = names.owners.values().map(|owner| owner.id).collect();
        ids.sort_unstable();
        assert_eq!((ids, names.ids()), (vec![0, 1, 2], 3));
    }

    #[test]
    fn a_name_is_no_summary_once_its_summaries_are_gone() {
        let mut names = SourceNames::default();
        assert!(owned(&mut names, "login", "login", true));
        names.retain(&[true], &[true]);
        assert!(!owned(&mut names, "login.sum", "login_sum", false));
        names.retain(&[true], &[false]);
        assert!(owned(&mut names, "login.sum", "login_sum", false));
    }

    #[test]
    fn the_names_of_overflow_series_are_reserved() {
        let mut names = SourceNames::default();
        assert!(!owned(&mut names, "millstream_overflow", "millstream_overflow_total", false));
        assert!(owned(&mut names, "millstream.overflow", "millstream_overflow_total", false));
        assert!(owned(&mut names, "millstream.overflow.set", "millstream_overflow_set", false));
    }

    #[test]
    fn reports_are_bounded() {
        let mut names = SourceNames::default();
        assert!(owned(&mut names, "a.b", "a_b", false));
        for number in 0..2 * REPORTED_MAX {
            assert!(!owned(&mut names, &format!("{number}"), "a_b", false));
        }
        assert_eq!(names.take_conflicts().len(), REPORTED_MAX);
    }
}
