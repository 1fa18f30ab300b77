//! The command line.

use crate::wiring;
use crate::{
    config_test, diagnose, generate, java, profile, record, rules, run, spool, support, tap, top,
    verify,
};
use clap::{Args, Parser, Subcommand};
use millstream_config::{self as config, Registry};
use millstream_model::secrets;
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

/// Success.
pub const DONE: u8 = 0;
/// Something failed while running.
pub const FAILED: u8 = 1;
/// Invalid configuration or command line.
pub const USAGE: u8 = 2;
/// With `--until-eof`: all events are settled, but some were dropped.
pub const DROPPED: u8 = 3;

/// Host agent for logs, metrics and runtime events.
#[derive(Parser)]
#[command(name = "millstream", version, arg_required_else_help = true, max_term_width = 100)]
#[command(
    after_help = "Example:\n  millstream validate -c millstream.yaml && millstream run -c millstream.yaml"
)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Run the agent
    #[command(after_help = "Example:\n  millstream run -c millstream.yaml\n  \
        printf 'a\\nb\\n' | millstream run -c stdin-console.yaml --until-eof\n\n\
        Exit status: 0 done; 1 failed while running; 2 invalid configuration or usage;\n\
        3 with --until-eof: everything settled, but some events were dropped.\n\
        Signals: SIGTERM and SIGINT drain events in flight and exit; a second one exits immediately;\n\
        SIGHUP reloads the configuration.")]
    Run {
        #[command(flatten)]
        files: ConfigFiles,
        /// Read the existing input, deliver it and exit
        #[arg(long)]
        until_eof: bool,
        /// Show rates of sources and sinks, and the bottleneck, on standard error: on a terminal a
        /// block below the log, redrawn every second; elsewhere a line every 5 s
        #[arg(long)]
        progress: bool,
        /// Exit when the process that started this one ends
        #[arg(long, hide = true)]
        with_parent: bool,
    },
    /// Check a configuration without connecting to anything
    #[command(after_help = "Example:\n  millstream validate -c /etc/millstream/conf.d\n\n\
        Every error is printed as file:line:column: what is wrong; what to write instead.\n\
        Exit status: 0 valid; 2 errors.")]
    Validate {
        #[command(flatten)]
        files: ConfigFiles,
    },
    /// Work with the task files of the transform `rules`
    Rules {
        #[command(subcommand)]
        what: Rules,
    },
    /// Run the unit tests of a configuration
    #[command(after_help = config_test::HELP)]
    Test {
        #[command(flatten)]
        files: ConfigFiles,
        /// Additional files with tests; they may also contain components
        #[arg(value_name = "FILE")]
        tests: Vec<PathBuf>,
    },
    /// Print the JSON Schema of the configuration, for editors
    #[command(after_help = "Example:\n  millstream schema > millstream.schema.json")]
    Schema,
    /// Test on this host that no data is lost
    #[command(after_help = verify::HELP)]
    Verify(verify::VerifyArgs),
    /// Look into the disk buffers of the sinks
    Spool {
        #[command(subcommand)]
        what: Spool,
    },
    /// Watch a running agent: rates, lag, files, series, rules and memory
    #[command(after_help = top::HELP)]
    Top(top::TopArgs),
    /// Collect the information that a maintainer needs, in one archive without secrets
    #[command(after_help = support::HELP)]
    Support(support::SupportArgs),
    /// Record events of a running agent, or read the recording of an agent that died
    #[command(after_help = record::HELP)]
    Record(record::RecordArgs),
    /// Show what an agent uses its CPU time for, as a flame graph
    #[command(after_help = profile::HELP)]
    Profile(profile::ProfileArgs),
    /// Say why the events of a running agent are late, lost or wrong
    #[command(after_help = diagnose::HELP)]
    Diagnose(diagnose::DiagnoseArgs),
    /// Show a sample of the events at an output of a running agent
    #[command(after_help = tap::HELP)]
    Tap(tap::TapArgs),
    /// Work with the JVMs of this host
    Java {
        #[command(subcommand)]
        what: Java,
    },
    /// Run operators for the agent that started this process
    #[command(hide = true, name = "jvm-process")]
    JvmProcess,
    /// Generate log lines or metric points for tests and benchmarks
    #[command(
        after_help = "Example:\n  millstream generate logs --count 1000000 -o /tmp/web.log\n  \
        millstream generate metrics --to udp://127.0.0.1:8125 --rate 10000"
    )]
    Generate {
        #[command(subcommand)]
        what: Generate,
    },
}

/// The files of a configuration.
#[derive(Args)]
pub struct ConfigFiles {
    /// Configuration file or folder; repeatable
    /// [default: ./millstream.yaml, then /etc/millstream/millstream.yaml]
    #[arg(short, long = "config", value_name = "FILE|DIR")]
    pub config: Vec<PathBuf>,
}

#[derive(Subcommand)]
enum Rules {
    /// Show what tasks share, how each finds its events, and what each costs
    #[command(after_help = "Example:\n  millstream rules explain tasks/*.yaml\n  \
        millstream rules explain tasks/*.yaml --input app.log\n\n\
        Exit status: 0 done; 1 the input cannot be read; 2 errors in task files.")]
    Explain(rules::ExplainArgs),
}

#[derive(Subcommand)]
enum Spool {
    /// List the disk buffers: entries, events, bytes, age of the oldest entry, format, damage
    #[command(after_help = spool::LS_HELP)]
    Ls(spool::LsArgs),
    /// Write the payloads in a sink's disk buffer to standard output
    #[command(after_help = spool::CAT_HELP)]
    Cat(spool::CatArgs),
}

#[derive(Subcommand)]
enum Java {
    /// Load the Java agent into a running JVM
    #[command(after_help = java::ATTACH_HELP)]
    Attach(java::AttachArgs),
}

#[derive(Subcommand)]
enum Generate {
    /// Web server access log lines with sequence numbers
    #[command(
        after_help = "Example:\n  millstream generate logs --rate 500 --size 512B -o app.log"
    )]
    Logs(generate::LogsArgs),
    /// Metric points with a known sum
    #[command(after_help = generate::METRICS_HELP)]
    Metrics(generate::MetricsArgs),
}

/// Returns the configuration files in the command line of an agent; `None` for the command line of
/// another command.
pub fn configuration_of(arguments: &[OsString]) -> Option<Vec<PathBuf>> {
    match Cli::try_parse_from(arguments).ok()?.command {
        Command::Run { files, .. } => Some(files.config),
        _ => None,
    }
}

/// Runs the program.
pub fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            let _ = error.print();
            return ExitCode::from(if error.use_stderr() { USAGE } else { DONE });
        }
    };
    let code = run_command(cli.command);
    millstream_jvm::end_process(code);
    ExitCode::from(code)
}

fn run_command(command: Command) -> u8 {
    match command {
        Command::Run { files, until_eof, progress, with_parent } => {
            if with_parent {
                verify::end_with_parent();
            }
            run::run(&files.config, run::Options { until_eof, progress })
        }
        Command::Validate { files } => validate(&files.config),
        Command::Test { files, tests } => config_test::run(&files.config, &tests),
        Command::Schema => schema(),
        Command::JvmProcess => millstream_jvm::serve_process(),
        Command::Rules { what: Rules::Explain(args) } => rules::explain(&args),
        Command::Verify(args) => verify::verify(&args),
        Command::Support(args) => support::support(&args),
        Command::Top(args) => top::top(&args),
        Command::Record(args) => record::record(&args),
        Command::Profile(args) => profile::profile(&args),
        Command::Diagnose(args) => diagnose::diagnose(&args),
        Command::Tap(args) => tap::tap(&args),
        Command::Spool { what: Spool::Ls(args) } => spool::ls(&args),
        Command::Spool { what: Spool::Cat(args) } => spool::cat(&args),
        Command::Java { what: Java::Attach(args) } => java::attach(&args),
        Command::Generate { what: Generate::Logs(args) } => generate::logs(&args),
        Command::Generate { what: Generate::Metrics(args) } => generate::metrics(&args),
    }
}

/// A configuration, or its errors.
type Loaded = Result<config::Config, Vec<config::Fault>>;

/// Loads a configuration and checks that it can run in an agent that has reserved this much memory
/// for JVMs. The task files in use replace invalid task files.
pub fn check(files: &[PathBuf], previous: &config::TaskFiles, reserved_bytes: u64) -> Loaded {
    let env = |name: &str| std::env::var(name).ok();
    secrets::remember(secrets::Origin::Configuration, config::secrets(files, &env));
    let loaded = config::load_again(files, &Registry, &env, previous);
    runnable(loaded, |config| wiring::unreserved(config, reserved_bytes))
}

/// Checks how the parts of a configuration fit together. The JVM is started last, if at all.
fn runnable(loaded: Loaded, check: impl Fn(&config::Config) -> Option<config::Fault>) -> Loaded {
    loaded.and_then(|config| {
        let mut faults = wiring::faults(&config);
        faults.extend(check(&config));
        if faults.is_empty() {
            faults
                .extend(run::refused(&config).map(|message| config::Fault::anywhere(message, "")));
        }
        if faults.is_empty() { Ok(config) } else { Err(faults) }
    })
}

/// Loads a configuration, and prints its errors and warnings; `None` if there are errors.
pub fn load(files: &[PathBuf]) -> Option<config::Config> {
    let env = |name: &str| std::env::var(name).ok();
    // Remember the secrets before any message about the configuration.
    secrets::remember(secrets::Origin::Configuration, config::secrets(files, &env));
    accept(config::load(files, &Registry, &env))
}

/// Performs further checks of a loaded configuration, and prints its errors and warnings.
pub fn accept(loaded: Loaded) -> Option<config::Config> {
    match runnable(loaded, |_| None) {
        Ok(config) => {
            config.warnings.iter().for_each(|warning| eprintln!("warning: {}", shown(warning)));
            Some(config)
        }
        Err(faults) => {
            faults.iter().for_each(|fault| eprintln!("{}", shown(fault)));
            None
        }
    }
}

/// Returns the message of an error, without the secrets of the configuration.
fn shown(fault: &config::Fault) -> String {
    secrets::mask(&fault.to_string()).into_owned()
}

fn validate(files: &[PathBuf]) -> u8 {
    let Some(config) = load(files) else { return USAGE };
    if !config.refused.is_empty() {
        config.refused.iter().for_each(|fault| eprintln!("{}", shown(fault)));
        return USAGE;
    }
    println!("configuration is valid: {} components", config.components.len());
    for (id, way) in run::proxies(&config) {
        println!("{id}: sends to {way}");
    }
    DONE
}

fn schema() -> u8 {
    let schema = serde_json::to_string_pretty(&config::schema(&Registry)).unwrap_or_default();
    match print(&schema) {
        Ok(()) => DONE,
        Err(_) => FAILED,
    }
}

/// Prints a line. Unlike with `println!`, a closed pipe is an error, not a panic.
fn print(text: &str) -> std::io::Result<()> {
    use std::io::Write;
    writeln!(std::io::stdout(), "{text}")
}
