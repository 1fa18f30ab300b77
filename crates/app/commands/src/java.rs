//! `millstream java`: the JVMs of the user's own programs.

mod attach;

use crate::exit::{DONE, FAILED, USAGE};
use attach::{AttachError, Target};
use std::path::{Path, PathBuf};

/// The help of `java attach`.
pub const ATTACH_HELP: &str = "Example:\n  \
    millstream java attach 1234\n  \
    millstream java attach 1234 --options service=shop,threshold=10ms,stack=true\n\n\
    The Java agent sends metrics and slow calls to the metricserver source, by default to the socket\n\
    /run/millstream/metric.stream.sock. It stays until the JVM exits. Run the command as the user of\n\
    the JVM, or as root.\n\n\
    Options: socket=PATH or udp=HOST:PORT; service=NAME; threshold=20ms, from which socket, file and\n\
    monitor events are recorded; log_threshold=100ms or off, from which they are log events;\n\
    stack=true; max_tag_values=100; events=socket,file,gc,safepoint,monitor,exceptions,allocation,cpu.\n\n\
    Exit status: 0 loaded; 1 the JVM refused or already has the agent, or the process is not a JVM;\n\
    2 invalid usage.";

/// The arguments of `java attach`.
#[derive(clap::Args)]
pub struct AttachArgs {
    /// Process id of the JVM
    #[arg(value_name = "PID", value_parser = clap::value_parser!(i32).range(1..))]
    pid: i32,
    /// Options for the Java agent: KEY=VALUE, separated by commas
    #[arg(long, value_name = "OPTIONS", default_value = "")]
    options: String,
    /// Path of the Java agent's jar as the JVM sees it, for example inside a container [default:
    /// millstream-javaagent.jar next to this program]
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
    if let Err(message) = check(&args.options) {
        eprintln!("{message}");
        return USAGE;
    }
    let attached = Target::open(args.pid).and_then(|target| {
        target.load(&jar, &args.options)?;
        Ok(target)
    });
    match attached {
        Ok(target) => {
            println!("the Java agent is running in process {}", args.pid);
            note_socket(&target, &args.options);
            DONE
        }
        Err(error) => {
            eprintln!("cannot attach to process {}: {error}", args.pid);
            if matches!(error, AttachError::Usage(_)) { USAGE } else { FAILED }
        }
    }
}

/// Options for the agent.
const OPTIONS: [&str; 8] =
    ["socket", "udp", "service", "threshold", "log_threshold", "stack", "max_tag_values", "events"];

/// Socket that the agent sends to by default.
const SOCKET: &str = "/run/millstream/metric.stream.sock";

/// Checks the option names. A part without a value continues `events`.
fn check(options: &str) -> Result<(), String> {
    let parts = options.split(',').filter(|part| !part.is_empty());
    let mut is_list = false;
    for part in parts {
        let key = part.split_once('=').map(|(key, _)| key);
        match key {
            Some(key) if OPTIONS.contains(&key) => is_list = key == "events",
            None if is_list => {}
            _ => {
                return Err(format!(
                    "unknown option {part:?} of the Java agent; use KEY=VALUE with one of these \
                     keys: {}",
                    OPTIONS.join(", ")
                ));
            }
        }
    }
    Ok(())
}

/// Reports on standard error that no receiver exists yet.
fn note_socket(target: &Target, options: &str) {
    let value = |key: &str| {
        let value = |part: &'_ str| part.strip_prefix(key)?.strip_prefix('=').map(str::to_owned);
        options.split(',').find_map(value)
    };
    let socket = value("socket").unwrap_or_else(|| SOCKET.to_owned());
    if value("udp").is_none() && !target.sees(Path::new(&socket)) {
        println!(
            "note: there is no {socket} yet; the Java agent sends data when a metricserver source \
             listens on unix://{socket}"
        );
    }
}

/// Returns the configured jar, or the jar installed with this program.
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
            "the Java agent's jar was not found in {}; copy it there from target/release, where `make \
             build` puts it, or pass it with --jar",
            places.join(", ")
        )
    })
}
