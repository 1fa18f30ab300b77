//! The user's own JVMs: source `jfr` beside the JDK's tool, and what the Java agent costs a service.

mod agent_cost;
mod source;

use crate::Options;
use crate::java;
use crate::operators::Jdk;
use crate::report::Report;
use crate::scratch::Scratch;
use std::io;

/// Class path of the Java programs.
const CLASSES: &str = "java/benchmarks/target/benchmarks.jar";

/// Measures both, or those in `names`, on every JDK of the host.
pub fn run(
    options: &Options,
    names: &[String],
    scratch: &Scratch,
    report: &mut Report,
) -> io::Result<()> {
    let is_wanted = |name: &str| names.is_empty() || names.iter().any(|of| of == name);
    java::build()?;
    let jdks = Jdk::all()?;
    if is_wanted("source") {
        source::run(options, &jdks, scratch, report)?;
    }
    if is_wanted("agent") {
        agent_cost::run(options, &jdks, scratch, report)?;
    }
    Ok(())
}
