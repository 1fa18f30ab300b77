//! Conditions on entries, decided by the ids of their fields without decoding the fields.
//!
//! Each condition refers to pairs of name and value, and each pair has flags. An entry has the flags
//! of all its pairs, and the conditions are tests of these flags.

use millstream_journal::{Entry, Error, FieldId, JournalFile, ReadAt};
use millstream_model::OptionError;
use std::collections::HashMap;

/// Maximum number of fields in `matches`, because each field needs a flag.
const FIELDS_MAX: usize = 32;

/// Flag of entries to skip.
const SKIPPED: u64 = 1;

/// Flag of messages of the service manager, `_PID=1`.
const MANAGER: u64 = 1 << 1;

/// Flag of messages of root, `_UID=0`.
const ROOT: u64 = 1 << 2;

/// Flag of entries that mention a unit to read, if the service manager wrote them.
const BY_MANAGER: u64 = 1 << 3;

/// Flag of entries that mention a unit to read, if root wrote them.
const BY_ROOT: u64 = 1 << 4;

/// Flag of entries that mention a unit to skip, if the service manager wrote them.
const SKIPPED_BY_MANAGER: u64 = 1 << 5;

/// Flag of entries that mention a unit to skip, if root wrote them.
const SKIPPED_BY_ROOT: u64 = 1 << 6;

/// Flag of entries of a unit to read.
const UNIT: u64 = 1 << 7;

/// Flag of entries with an identifier to read.
const IDENTIFIER: u64 = 1 << 8;

/// Flag of entries with a priority to read.
const PRIORITY: u64 = 1 << 9;

/// First flag of the fields in `matches`.
const FIRST_FIELD: u64 = 1 << 10;

/// Flags that together give another flag.
const IMPLIED: [(u64, u64); 4] = [
    (BY_MANAGER | MANAGER, UNIT),
    (BY_ROOT | ROOT, UNIT),
    (SKIPPED_BY_MANAGER | MANAGER, SKIPPED),
    (SKIPPED_BY_ROOT | ROOT, SKIPPED),
];

/// Suffixes of unit names. A name without one of them means a service.
const SUFFIXES: [&str; 11] = [
    ".service",
    ".socket",
    ".device",
    ".mount",
    ".automount",
    ".swap",
    ".target",
    ".path",
    ".timer",
    ".slice",
    ".scope",
];

/// Fields and their values.
type Fields = Vec<(String, Vec<String>)>;

/// Options of a filter.
#[derive(Debug, Default)]
pub struct FilterOptions {
    /// Units to read; all if empty.
    pub units: Vec<String>,
    /// Units to skip.
    pub exclude_units: Vec<String>,
    /// Identifiers to read; all if empty.
    pub identifiers: Vec<String>,
    /// Identifiers to skip.
    pub exclude_identifiers: Vec<String>,
    /// Priorities to read; all if `None`.
    pub priorities: Option<Vec<u8>>,
    /// Fields that entries must have.
    pub matches: Fields,
    /// Fields of entries to skip.
    pub exclude_matches: Fields,
    /// Whether to read messages of the kernel.
    pub has_kernel: bool,
}

/// Conditions on entries.
#[derive(Debug, Default)]
pub struct Filter {
    /// Flags by pair, as `NAME=value`.
    pairs: HashMap<Vec<u8>, u64>,
    /// Flags that an entry must have.
    required: u64,
}

impl Filter {
    /// Compiles the options.
    ///
    /// # Errors
    /// Returns the errors in the options.
    pub fn new(options: &FilterOptions) -> Result<Filter, Vec<OptionError>> {
        let mut filter = Filter::default();
        let errors = check(options);
        if !errors.is_empty() {
            return Err(errors);
        }
        filter.units(&options.units, UNIT, BY_MANAGER, BY_ROOT);
        filter.units(&options.exclude_units, SKIPPED, SKIPPED_BY_MANAGER, SKIPPED_BY_ROOT);
        filter.field("SYSLOG_IDENTIFIER", &options.identifiers, IDENTIFIER);
        filter.field("SYSLOG_IDENTIFIER", &options.exclude_identifiers, SKIPPED);
        let has_units = !options.units.is_empty();
        filter.required |= if has_units { UNIT } else { 0 };
        filter.required |= if options.identifiers.is_empty() { 0 } else { IDENTIFIER };
        if let Some(priorities) = &options.priorities {
            let priorities: Vec<String> = priorities.iter().map(ToString::to_string).collect();
            filter.field("PRIORITY", &priorities, PRIORITY);
            filter.required |= PRIORITY;
        }
        for (index, (name, values)) in options.matches.iter().enumerate() {
            filter.field(name, values, FIRST_FIELD << index);
            filter.required |= FIRST_FIELD << index;
        }
        for (name, values) in &options.exclude_matches {
            filter.field(name, values, SKIPPED);
        }
        if !options.has_kernel {
            filter.pair("_TRANSPORT", "kernel", SKIPPED);
        }
        Ok(filter)
    }

    fn pair(&mut self, name: &str, value: &str, flags: u64) {
        *self.pairs.entry(format!("{name}={value}").into_bytes()).or_default() |= flags;
    }

    fn field(&mut self, name: &str, values: &[String], flags: u64) {
        values.iter().for_each(|value| self.pair(name, value, flags));
    }

    /// Adds the pairs of units. As in `journalctl --unit`, an entry belongs to a unit if the unit
    /// wrote the entry, or if the entry is about the unit and comes from a trusted process.
    fn units(&mut self, units: &[String], own: u64, by_manager: u64, by_root: u64) {
        for unit in units {
            let unit = full_name(unit);
            self.pair("_SYSTEMD_UNIT", &unit, own);
            self.pair("UNIT", &unit, by_manager);
            self.pair("OBJECT_SYSTEMD_UNIT", &unit, by_root);
            self.pair("COREDUMP_UNIT", &unit, by_root);
            if unit.ends_with(".slice") {
                self.pair("_SYSTEMD_SLICE", &unit, own);
            }
            self.pair("_PID", "1", MANAGER);
            self.pair("_UID", "0", ROOT);
        }
    }

    /// Returns whether the filter accepts every entry.
    pub fn is_empty(&self) -> bool {
        self.pairs.is_empty()
    }

    /// Returns whether the filter accepts the current entry of a reader, whose fields are decoded.
    ///
    /// # Errors
    /// Fails if the fields cannot be decoded.
    pub fn accepts_decoded<R: ReadAt>(&self, file: &mut JournalFile<R>) -> Result<bool, Error> {
        let mut flags = 0;
        let mut pair = Vec::new();
        for field in file.fields()?.flatten() {
            pair.clear();
            pair.extend_from_slice(field.name);
            pair.push(b'=');
            pair.extend_from_slice(field.value);
            flags |= self.pairs.get(&pair).copied().unwrap_or(0);
        }
        Ok(self.accepts(flags))
    }

    fn accepts(&self, mut flags: u64) -> bool {
        for (needed, implied) in IMPLIED {
            flags |= if flags & needed == needed { implied } else { 0 };
        }
        flags & SKIPPED == 0 && flags & self.required == self.required
    }
}

/// Returns the full name of a unit: a name without a suffix means a service.
fn full_name(unit: &str) -> String {
    match SUFFIXES.iter().any(|suffix| unit.ends_with(suffix)) {
        true => unit.to_owned(),
        false => format!("{unit}.service"),
    }
}

fn check(options: &FilterOptions) -> Vec<OptionError> {
    let mut errors = Vec::new();
    let mut error =
        |pointer: String, message: &str| errors.push(OptionError::new(pointer, message));
    for (key, units) in [("units", &options.units), ("exclude_units", &options.exclude_units)] {
        for (index, unit) in units.iter().enumerate() {
            let pointer = format!("/{key}/{index}");
            if unit.is_empty() || unit.contains('/') {
                error(pointer, "is not the name of a unit; use, for example, sshd.service");
            } else if unit.contains(['*', '?', '[']) {
                error(pointer, "contains a wildcard; list the names of the units");
            }
        }
    }
    let fields = [("matches", &options.matches), ("exclude_matches", &options.exclude_matches)];
    for (key, fields) in fields {
        for (name, values) in fields {
            let is_name = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
            if name.is_empty() || !name.bytes().all(is_name) {
                let message =
                    "is not the name of a field; use, for example, _SYSTEMD_SLICE, without =";
                error(format!("/{key}"), message);
            }
            if values.is_empty() {
                error(format!("/{key}/{name}"), "has no values; add one, or remove the field");
            }
        }
    }
    if options.matches.len() > FIELDS_MAX {
        error("/matches".to_owned(), "has more than 32 fields; use a filter transform");
    }
    errors
}

/// The flags of the pairs of a filter in one file.
#[derive(Debug, Default)]
pub struct FileFilter {
    flags: HashMap<FieldId, u64>,
    /// Bits of the ids in `flags`, so that most ids need no lookup.
    bloom: u64,
    /// Pairs that the file does not contain yet.
    missing: Option<Vec<(Vec<u8>, u64)>>,
    /// Whether the file's table of fields is damaged, so that entries must be decoded.
    is_damaged: bool,
}

impl FileFilter {
    /// Finds the pairs that the file did not contain before. Must be called after each refresh of
    /// the file.
    ///
    /// # Errors
    /// Fails if the file cannot be read, or if its hash table is damaged.
    pub fn resolve<R: ReadAt>(
        &mut self,
        filter: &Filter,
        file: &mut JournalFile<R>,
    ) -> Result<(), Error> {
        let all = || filter.pairs.iter().map(|(pair, flags)| (pair.clone(), *flags)).collect();
        let mut missing = self.missing.take().unwrap_or_else(all);
        let mut failed = None;
        missing.retain(|(pair, flags)| match file.find_field(pair) {
            Ok(Some(id)) => {
                *self.flags.entry(id).or_default() |= flags;
                self.bloom |= bloom_bit(id);
                false
            }
            Ok(None) => true,
            Err(error) => {
                self.is_damaged |= !error.is_io();
                failed = Some(error);
                true
            }
        });
        self.missing = Some(missing);
        failed.filter(Error::is_io).map_or(Ok(()), Err)
    }

    /// Returns whether entries must be decoded, because the file's table of fields is damaged.
    pub fn must_decode(&self) -> bool {
        self.is_damaged
    }

    /// Returns whether the filter accepts an entry with these fields.
    pub fn accepts(&self, filter: &Filter, ids: &[FieldId]) -> bool {
        if filter.is_empty() {
            return true;
        }
        let known = ids.iter().filter(|id| self.bloom & bloom_bit(**id) != 0);
        let flags = known.fold(0, |flags, id| flags | self.flags.get(id).copied().unwrap_or(0));
        filter.accepts(flags)
    }
}

/// Returns the bit of an id. Ids are offsets of objects, which are aligned to eight bytes.
fn bloom_bit(id: FieldId) -> u64 {
    1 << ((id.0 >> 3).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 58)
}

/// Returns whether an entry belongs to the boot, if there is one to which entries must belong.
pub fn is_of_boot(entry: &Entry, boot: Option<millstream_journal::Id>) -> bool {
    boot.is_none_or(|boot| entry.boot_id == boot)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns whether a filter accepts an entry with these pairs.
    fn accepts(options: &FilterOptions, pairs: &[&str]) -> bool {
        let filter = Filter::new(options).unwrap();
        let flags = |pair: &&str| filter.pairs.get(pair.as_bytes()).copied().unwrap_or(0);
        filter.accepts(pairs.iter().map(flags).fold(0, |all, flags| all | flags))
    }

    fn texts(texts: &[&str]) -> Vec<String> {
        texts.iter().map(|text| (*text).to_owned()).collect()
    }

    #[test]
    fn an_entry_belongs_to_its_unit_and_to_the_unit_that_a_trusted_process_mentions() {
        let options = FilterOptions {
            units: texts(&["ssh", "cron.service"]),
            has_kernel: true,
            ..FilterOptions::default()
        };
        let cases: [(&[&str], bool); 9] = [
            (&["_SYSTEMD_UNIT=ssh.service"], true),
            (&["_SYSTEMD_UNIT=cron.service", "_PID=1"], true),
            (&["_SYSTEMD_UNIT=ssh"], false),
            (&["UNIT=ssh.service", "_PID=1"], true),
            (&["UNIT=ssh.service", "_PID=2"], false),
            (&["OBJECT_SYSTEMD_UNIT=ssh.service", "_UID=0"], true),
            (&["COREDUMP_UNIT=ssh.service", "_UID=0"], true),
            (&["COREDUMP_UNIT=ssh.service", "_UID=1"], false),
            (&["_TRANSPORT=kernel"], false),
        ];
        for (pairs, expected) in cases {
            assert_eq!(accepts(&options, pairs), expected, "{pairs:?}");
        }
    }

    #[test]
    fn values_of_a_field_are_alternatives_and_fields_are_not() {
        let options = FilterOptions {
            identifiers: texts(&["sshd", "su"]),
            priorities: Some(vec![0, 1, 2, 3, 4]),
            matches: vec![("A".into(), texts(&["1", "2"])), ("B".into(), texts(&["3"]))],
            exclude_matches: vec![("C".into(), texts(&["4"]))],
            ..FilterOptions::default()
        };
        let all = ["SYSLOG_IDENTIFIER=su", "PRIORITY=4", "A=2", "B=3", "D=5"];
        assert!(accepts(&options, &all));
        for index in 0..4 {
            let mut some = all.to_vec();
            some.remove(index);
            assert!(!accepts(&options, &some), "{some:?}");
        }
        assert!(!accepts(&options, &[&all[..], &["C=4"]].concat()));
        assert!(!accepts(&options, &[&all[..], &["_TRANSPORT=kernel"]].concat()));
    }

    #[test]
    fn exclusions_alone_accept_everything_else() {
        let options = FilterOptions {
            exclude_units: texts(&["noisy"]),
            exclude_identifiers: texts(&["cron"]),
            has_kernel: true,
            ..FilterOptions::default()
        };
        assert!(accepts(&options, &["_TRANSPORT=kernel"]) && accepts(&options, &[]));
        assert!(!accepts(&options, &["_SYSTEMD_UNIT=noisy.service"]));
        assert!(!accepts(&options, &["UNIT=noisy.service", "_PID=1"]));
        assert!(!accepts(&options, &["SYSLOG_IDENTIFIER=cron"]));
        assert!(
            Filter::new(&FilterOptions { has_kernel: true, ..FilterOptions::default() })
                .unwrap()
                .is_empty()
        );
    }
}
