//! Measures agent features for the user's JVMs: the `jfr` source, compared with the JDK's tool, and
//! the cost of the Java agent for a service.

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

/// Measures the parts in `names`, or both, on every JDK of the host.
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
