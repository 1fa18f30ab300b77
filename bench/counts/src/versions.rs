//! Versions of the tools that affect the number of instructions.

use std::process::Command;

/// Versions of the compiler, the counter and the C library.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Versions {
    /// Version of the compiler.
    pub rustc: String,
    /// Version of the counter, which also determines the CPU that programs see.
    pub valgrind: String,
    /// Version of the C library, which contains the allocator and the functions that copy memory.
    pub glibc: String,
}

impl Versions {
    /// Finds the versions on this host.
    ///
    /// # Errors
    /// Returns an error if a program cannot be run.
    pub fn find() -> Result<Versions, String> {
        Ok(Versions {
            rustc: first_line("rustc", "--version")?,
            valgrind: first_line("valgrind", "--version")?,
            glibc: first_line("getconf", "GNU_LIBC_VERSION")?,
        })
    }

    /// Describes the differences from the recorded versions.
    pub fn differences(&self, recorded: &Versions) -> Vec<String> {
        let pairs = [
            (&self.rustc, &recorded.rustc),
            (&self.valgrind, &recorded.valgrind),
            (&self.glibc, &recorded.glibc),
        ];
        let different = pairs.into_iter().filter(|(here, recorded)| here != recorded);
        different.map(|(here, recorded)| format!("{here} here, {recorded} recorded")).collect()
    }
}

fn first_line(program: &str, argument: &str) -> Result<String, String> {
    let output = Command::new(program).arg(argument).output();
    let output = output.map_err(|error| format!("{program} cannot be started: {error}"))?;
    let text = String::from_utf8_lossy(&output.stdout);
    let line = text.lines().next().map(str::trim).filter(|_| output.status.success());
    line.map(str::to_owned).ok_or_else(|| format!("{program} {argument} printed nothing"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_difference_names_both_versions() {
        let recorded = Versions { rustc: "r 1".into(), valgrind: "v".into(), glibc: "g".into() };
        let here = Versions { rustc: "r 2".into(), ..recorded.clone() };
        assert_eq!(here.differences(&recorded), ["r 2 here, r 1 recorded"]);
        assert!(recorded.differences(&recorded).is_empty());
    }
}
