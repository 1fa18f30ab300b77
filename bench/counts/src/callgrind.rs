//! Counts loads under Callgrind.

use crate::load::COUNTED;
use std::path::Path;
use std::process::{Command, Output};
use std::sync::Mutex;
use std::thread;

/// Number of loads counted in parallel. The counts do not depend on this number.
const AT_A_TIME: usize = 2;

/// Scanner kernel that the CPU selects under Valgrind, which has no AVX-512 on any host.
const KERNEL: &str = "avx2";

/// The count of a load.
#[derive(Clone, Debug, PartialEq)]
pub struct Measured {
    /// Instructions of one pass.
    pub instructions: u64,
    /// Number of units in the input.
    pub units: u64,
    /// Name of a unit of the input, in the singular.
    pub unit: String,
}

/// Counts the loads with these names.
///
/// # Errors
/// Returns an error if Callgrind cannot be started, if a load fails, or if the CPU of this host has
/// no AVX2.
pub fn count(names: &[&str]) -> Result<Vec<(String, Measured)>, String> {
    let waiting = Mutex::new(names.iter().enumerate().rev().collect::<Vec<_>>());
    let done = Mutex::new(Vec::new());
    let work = || {
        while let Some((index, name)) = take(&waiting) {
            let measured = count_one(name);
            done.lock().expect("no panic").push((index, *name, measured));
        }
    };
    thread::scope(|scope| (0..AT_A_TIME).for_each(|_| _ = scope.spawn(work)));
    let mut done = done.into_inner().expect("no panic");
    done.sort_by_key(|(index, ..)| *index);
    done.into_iter().map(|(_, name, measured)| Ok((name.to_owned(), measured?))).collect()
}

fn take<T>(waiting: &Mutex<Vec<T>>) -> Option<T> {
    waiting.lock().expect("no panic").pop()
}

fn count_one(name: &str) -> Result<Measured, String> {
    let program = std::env::current_exe().map_err(|error| error.to_string())?;
    let output = command(&program, name).output();
    let output = output.map_err(|error| format!("valgrind cannot be started: {error}"))?;
    parse(&output)
        .map_err(|error| format!("{name}: {error}\n{}", String::from_utf8_lossy(&output.stderr)))
}

/// Returns the command that runs a load with an empty environment, in `/`, and at fixed addresses.
/// The environment and the name of the folder are on the stack and would change the counts.
fn command(program: &Path, name: &str) -> Command {
    let mut command = Command::new("setarch");
    command.args(["--addr-no-randomize", "valgrind", "--tool=callgrind"]);
    command.args(["--callgrind-out-file=/dev/null", "--collect-atstart=no"]);
    command.arg(format!("--toggle-collect=*{COUNTED}*"));
    command.arg(program).args(["run", name]);
    command.env_clear().env("PATH", "/usr/local/bin:/usr/bin:/bin").current_dir("/");
    command
}

fn parse(output: &Output) -> Result<Measured, String> {
    if !output.status.success() {
        return Err(output.status.to_string());
    }
    let (stdout, stderr) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    let [units, unit, kernel] = stdout.split_whitespace().collect::<Vec<_>>()[..] else {
        return Err(format!("printed {stdout:?}"));
    };
    if kernel != KERNEL {
        return Err(format!(
            "the CPU selects the kernel {kernel}; the recorded counts are for {KERNEL}"
        ));
    }
    let collected = stderr.lines().find_map(|line| line.split_once("Collected : "));
    let instructions = collected.and_then(|(_, count)| count.trim().parse().ok()).unwrap_or(0);
    if instructions == 0 {
        return Err(format!("Callgrind has not seen the function {COUNTED}"));
    }
    let units = units.parse().map_err(|_| format!("{units} units"))?;
    Ok(Measured { instructions, units, unit: unit.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::ExitStatus;

    fn parsed(stdout: &str, stderr: &str) -> Result<Measured, String> {
        let (stdout, stderr) = (stdout.as_bytes().to_vec(), stderr.as_bytes().to_vec());
        parse(&Output { status: ExitStatus::default(), stdout, stderr })
    }

    #[test]
    fn a_count_needs_the_function_and_the_kernel() {
        let stderr = "==1== Events    : Ir\n==1== Collected : 1234\n";
        let measured = Measured { instructions: 1234, units: 5, unit: "line".into() };
        assert_eq!(parsed("5 line avx2\n", stderr), Ok(measured));
        assert!(parsed("5 line scalar\n", stderr).unwrap_err().contains("kernel scalar"));
        assert!(parsed("", stderr).unwrap_err().contains("printed"));
        let nothing = parsed("5 line avx2\n", "==1== Collected : 0\n");
        assert!(nothing.unwrap_err().contains("counted_pass"));
    }
}
