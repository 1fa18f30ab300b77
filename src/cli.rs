//! The command line.

use crate::run;
use crate::wiring::LOADER;
use clap::{CommandFactory, Parser, Subcommand};
use millstream_commands::exit::{DONE, USAGE};
use millstream_commands::load::ConfigFiles;
use millstream_commands::{
    config_test, diagnose, generate, java, manual, profile, record, rules, spool, support, tap,
    top, validate, verify,
};
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

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
        /// Exit when the parent process exits
        #[arg(long, hide = true)]
        with_parent: bool,
    },
    /// Check a configuration without connecting to anything
    #[command(after_help = "Example:\n  \
                            millstream validate -c /etc/millstream/conf.d\n\n\
                            Errors have the form file:line:column: problem; advice.\n\
                            Exit status: 0 valid; 2 errors.")]
    Validate {
        #[command(flatten)]
        files: ConfigFiles,
    },
    /// Work with the task files of the `rules` transform
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
    /// Inspect the disk buffers of the sinks
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
    /// Explain why the events of a running agent are late, lost or wrong
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
    /// Print the version, the commit and the versions of libraries
    Version,
    /// Write the manual pages
    #[command(after_help = manual::MAN_HELP)]
    Man(manual::ManArgs),
    /// Print the completions for a shell
    #[command(after_help = manual::COMPLETIONS_HELP)]
    Completions(manual::CompletionsArgs),
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

#[derive(Subcommand)]
enum Rules {
    /// Show what tasks share, how each task finds its events, and its cost
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
fn configuration_of(arguments: &[OsString]) -> Option<Vec<PathBuf>> {
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
        Command::Validate { files } => validate::validate(&files.config, &LOADER),
        Command::Test { files, tests } => config_test::run(&files.config, &tests, &LOADER),
        Command::Schema => validate::schema(),
        Command::Version => manual::version(),
        Command::Man(args) => manual::man(Cli::command(), &args),
        Command::Completions(args) => manual::completions(Cli::command(), &args),
        Command::JvmProcess => millstream_jvm::serve_process(),
        Command::Rules { what: Rules::Explain(args) } => rules::explain(&args),
        Command::Verify(args) => verify::verify(&args),
        Command::Support(args) => support::support(&args, configuration_of),
        Command::Top(args) => top::top(&args),
        Command::Record(args) => record::record(&args),
        Command::Profile(args) => profile::profile(&args),
        Command::Diagnose(args) => diagnose::diagnose(&args),
        Command::Tap(args) => tap::tap(&args),
        Command::Spool { what: Spool::Ls(args) } => spool::ls(&args, &LOADER),
        Command::Spool { what: Spool::Cat(args) } => spool::cat(&args, &LOADER),
        Command::Java { what: Java::Attach(args) } => java::attach(&args),
        Command::Generate { what: Generate::Logs(args) } => generate::logs(&args),
        Command::Generate { what: Generate::Metrics(args) } => generate::metrics(&args),
    }
}
