//! `millstream java`: the JVMs of the user's own programs.

mod attach;

use crate::cli::{DONE, FAILED, USAGE};
use attach::{AttachError, Target};
use std::path::{Path, PathBuf};

/// The help of `java attach`.
pub const ATTACH_HELP: &str = "Example:\n  millstream java attach 1234\n  \
    millstream java attach 1234 --options service=shop,threshold=10ms,stack=true\n\n\
    The agent sends metrics and slow calls to source metricserver, by default to its socket\n\
    /run/millstream/metric.stream.sock. docs/java.md has its options. It stays until the JVM ends;\n\
    a second one is not loaded. Run it as the user of the JVM, or as root.\n\n\
    Exit status: 0 loaded; 1 the JVM refused, or is none; 2 invalid usage.";

/// The arguments of `java attach`.
#[derive(clap::Args)]
pub struct AttachArgs {
    /// Id of the process
    #[arg(value_name = "PID", value_parser = clap::value_parser!(i32).range(1..))]
    pid: i32,
    /// Options of the agent: KEY=VALUE, separated by commas
    #[arg(long, value_name = "OPTIONS", default_value = "")]
    options: String,
    /// The agent's jar as the process sees it, such as in its container
    /// [default: millstream-javaagent.jar beside this program]
    #[arg(long, value_name = "JAR")]
    jar: Option<PathBuf>,
}

/// Loads the agent into a JVM.
pub fn attach(args: &AttachArgs) -> u8 {
    let jar = match jar(args.jar.as_deref()) {
        Ok(jar) => jar,
        Err(message) => {
            eprintln!("{message}");
            return USAGE;
        }
    };
    let attached = Target::open(args.pid).and_then(|target| target.load(&jar, &args.options));
    match attached {
        Ok(()) => {
            println!("the agent runs in process {}", args.pid);
            DONE
        }
        Err(error) => {
            eprintln!("cannot attach to process {}: {error}", args.pid);
            if matches!(error, AttachError::Usage(_)) { USAGE } else { FAILED }
        }
    }
}

/// Returns the given jar, else the one that comes with this program.
fn jar(given: Option<&Path>) -> Result<PathBuf, String> {
    if let Some(jar) = given {
        return match jar.is_absolute() {
            true => Ok(jar.to_owned()),
            false => std::path::absolute(jar).map_err(|error| error.to_string()),
        };
    }
    let program = std::env::current_exe().map_err(|error| error.to_string())?;
    millstream_jvm::find_agent_jar(&program).map_err(|places| {
        let places: Vec<String> = places.iter().map(|place| place.display().to_string()).collect();
        format!(
            "the agent's jar is in none of {}; build it with `make build`, or give it with --jar",
            places.join(", ")
        )
    })
}
