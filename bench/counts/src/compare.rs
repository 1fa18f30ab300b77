//! Compares measured counts with the recorded counts.

use crate::callgrind::Measured;
use crate::record::Record;
use std::fmt::{self, Display, Formatter};

/// Difference in percent from which a count no longer matches the recorded count. The same source
/// always gives the same count; the tolerance is for code that the compiler generates differently
/// after changes elsewhere.
const PERCENT_MAX: f64 = 2.0;

/// Measured and recorded counts.
pub struct Comparison<'a> {
    /// Measured counts by load.
    pub measured: &'a [(String, Measured)],
    /// Recorded counts.
    pub recorded: &'a Record,
    /// Differences from the recorded versions.
    pub other_versions: Vec<String>,
    /// Whether other versions are an error.
    pub is_strict: bool,
}

/// Result of the comparison for one load.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Verdict {
    /// The load matches. Its count differs by this percentage.
    Same(f64),
    /// The load costs too much, by this percentage.
    More(f64),
    /// The load costs clearly less, by this percentage.
    Less(f64),
    /// The load has no recorded count.
    New,
}

impl Comparison<'_> {
    /// Returns whether no load fails, and the versions match or are allowed to differ.
    pub fn passes(&self) -> bool {
        self.failed() == 0 && (self.other_versions.is_empty() || !self.is_strict)
    }

    fn failed(&self) -> usize {
        let unused = self.unused().count();
        unused
            + self
                .measured
                .iter()
                .filter(|(name, count)| self.fails(self.verdict(name, count)))
                .count()
    }

    /// Returns whether a verdict is an error. With other versions, a higher count says nothing
    /// about the source and is not an error, so that a developer with another compiler can
    /// continue.
    fn fails(&self, verdict: Verdict) -> bool {
        match verdict {
            Verdict::More(_) => self.other_versions.is_empty(),
            Verdict::New => true,
            Verdict::Same(_) | Verdict::Less(_) => false,
        }
    }

    fn verdict(&self, name: &str, measured: &Measured) -> Verdict {
        let Some(recorded) = self.recorded.counts.get(name) else { return Verdict::New };
        let percent = (measured.instructions as f64 / *recorded as f64 - 1.0) * 100.0;
        match percent {
            PERCENT_MAX.. => Verdict::More(percent),
            _ if percent <= -PERCENT_MAX => Verdict::Less(percent),
            _ => Verdict::Same(percent),
        }
    }

    /// Returns the names of recorded counts for which there is no load.
    fn unused(&self) -> impl Iterator<Item = &String> {
        let is_load = |name: &String| self.measured.iter().any(|(load, _)| load == name);
        self.recorded.counts.keys().filter(move |name| !is_load(name))
    }

    fn row(&self, f: &mut Formatter<'_>, name: &str, measured: &Measured) -> fmt::Result {
        let recorded = self.recorded.counts.get(name).map_or("none".into(), u64::to_string);
        let per_unit = measured.instructions as f64 / measured.units as f64;
        let percent = match self.verdict(name, measured) {
            Verdict::Same(percent) | Verdict::More(percent) | Verdict::Less(percent) => {
                format!("{percent:+.2}%")
            }
            Verdict::New => String::new(),
        };
        let Measured { instructions, unit, .. } = measured;
        let per_unit = format!("{per_unit:.1} per {unit}");
        writeln!(f, "{name:<16} {instructions:>12} {recorded:>12} {percent:>10}  {per_unit}")
    }

    fn advice(&self, f: &mut Formatter<'_>, name: &str, measured: &Measured) -> fmt::Result {
        let verdict = self.verdict(name, measured);
        let recorded = self.recorded.counts.get(name).copied().unwrap_or(0);
        let instructions = measured.instructions;
        let accept = format!("scripts/counts --accept {name}");
        match verdict {
            Verdict::More(percent) if self.fails(verdict) => writeln!(
                f,
                "FAILED {name}: {instructions} instructions, {percent:+.2}% compared with the recorded \
                 {recorded}; {PERCENT_MAX}% is the maximum. If the change is worth it: {accept}, and \
                 say why in the commit",
            ),
            Verdict::More(percent) => {
                writeln!(f, "not compared, other versions: {name}: {percent:+.2}%")
            }
            Verdict::Less(percent) if self.other_versions.is_empty() => writeln!(
                f,
                "improved {name}: {percent:+.2}%. Record it, so that it is kept: {accept}"
            ),
            Verdict::New => writeln!(f, "FAILED {name}: no recorded count: {accept}"),
            Verdict::Same(_) | Verdict::Less(_) => Ok(()),
        }
    }
}

impl Display for Comparison<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        writeln!(f, "{:<16} {:>12} {:>12}", "load", "instructions", "recorded")?;
        for (name, measured) in self.measured {
            self.row(f, name, measured)?;
        }
        for (name, measured) in self.measured {
            self.advice(f, name, measured)?;
        }
        for name in self.unused() {
            writeln!(
                f,
                "FAILED {name}: recorded, but there is no such load: scripts/counts --accept"
            )?;
        }
        for difference in &self.other_versions {
            let word = if self.is_strict { "FAILED" } else { "note" };
            writeln!(f, "{word}: {difference}; counts can differ without a change of the source")?;
        }
        if self.is_strict && !self.other_versions.is_empty() {
            writeln!(f, "a build server needs the recorded versions, or: scripts/counts --accept")?;
        }
        let failed = self.failed();
        let passed = (self.measured.len() + self.unused().count()).saturating_sub(failed);
        writeln!(f, "counts: {passed} passed, {failed} failed")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::versions::Versions;

    /// Compares a count with 1,000. Returns whether the comparison passes, and the printed text.
    fn compared(instructions: u64, other: &[&str], is_strict: bool) -> (bool, String) {
        let versions = Versions { rustc: "r".into(), valgrind: "v".into(), glibc: "g".into() };
        let counts = [("nginx".to_owned(), 1000)].into();
        let measured = Measured { instructions, units: 10, unit: "line".into() };
        let comparison = Comparison {
            measured: &[("nginx".to_owned(), measured)],
            recorded: &Record { versions, counts },
            other_versions: other.iter().map(|text| (*text).to_owned()).collect(),
            is_strict,
        };
        (comparison.passes(), comparison.to_string())
    }

    #[test]
    fn a_load_fails_from_two_percent_on_and_says_how_to_accept_it() {
        let (passes, text) = compared(1019, &[], false);
        assert!(passes && text.ends_with("counts: 1 passed, 0 failed\n"), "{text}");
        let (passes, text) = compared(1021, &[], false);
        assert!(!passes && text.ends_with("counts: 0 passed, 1 failed\n"), "{text}");
        for part in ["FAILED nginx: 1021", "+2.10%", "1000", "scripts/counts --accept nginx"] {
            assert!(text.contains(part), "{text}");
        }
    }

    #[test]
    fn an_improvement_passes_with_a_prompt() {
        let (passes, text) = compared(979, &[], false);
        assert!(passes && text.contains("improved nginx: -2.10%"), "{text}");
    }

    #[test]
    fn other_versions_compare_without_failing_except_on_a_build_server() {
        let (passes, text) = compared(1500, &["rustc 2 here, rustc 1 recorded"], false);
        assert!(passes && text.contains("note: rustc 2 here"), "{text}");
        assert!(text.contains("not compared, other versions: nginx: +50.00%"), "{text}");
        let (passes, text) = compared(1000, &["rustc 2 here, rustc 1 recorded"], true);
        assert!(!passes && text.contains("FAILED: rustc 2 here"), "{text}");
    }

    #[test]
    fn a_load_and_its_record_need_each_other() {
        let versions = Versions { rustc: "r".into(), valgrind: "v".into(), glibc: "g".into() };
        let counts = [("gone".to_owned(), 1)].into();
        let measured = Measured { instructions: 1, units: 1, unit: "line".into() };
        let comparison = Comparison {
            measured: &[("new".to_owned(), measured)],
            recorded: &Record { versions, counts },
            other_versions: Vec::new(),
            is_strict: false,
        };
        let text = comparison.to_string();
        assert!(text.contains("FAILED new: no recorded count"), "{text}");
        assert!(text.contains("FAILED gone: recorded, but there is no such load"), "{text}");
        assert!(text.ends_with("counts: 0 passed, 2 failed\n") && !comparison.passes(), "{text}");
    }
}
