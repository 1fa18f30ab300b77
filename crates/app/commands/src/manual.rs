//! Prints what packages install beside the program: manual pages and shell completions. Also prints
//! the version.

use crate::exit::{DONE, FAILED};
use crate::output::{print, print_error};
use clap::{Args, Command};
use clap_complete::Shell;
use std::fmt::Write;
use std::fs;
use std::path::PathBuf;

/// Name of the program in completions.
const PROGRAM: &str = "millstream";

/// Commit that the program was built from, which `make dist` sets.
const COMMIT: Option<&str> = option_env!("MILLSTREAM_COMMIT");

/// Examples of `man`.
pub const MAN_HELP: &str = "Example:\n  millstream man | man -l -\n  \
    millstream man -o /usr/local/share/man/man1";

/// Examples of `completions`.
pub const COMPLETIONS_HELP: &str = "Example:\n  \
    millstream completions bash > /usr/share/bash-completion/completions/millstream";

/// Arguments of `man`.
#[derive(Args)]
pub struct ManArgs {
    /// Folder that receives a page for each command; without it, the program's page goes to
    /// standard output
    #[arg(short, long, value_name = "DIR")]
    output: Option<PathBuf>,
}

/// Arguments of `completions`.
#[derive(Args)]
pub struct CompletionsArgs {
    /// Shell that reads the completions
    shell: Shell,
}

/// Writes the manual pages of a command line. Returns the exit status.
pub fn man(command: Command, args: &ManArgs) -> u8 {
    let mut command = command.disable_help_subcommand(true);
    command.build();
    let Some(folder) = &args.output else {
        let mut page = Vec::new();
        return match clap_mangen::Man::new(command).render(&mut page) {
            Ok(()) => print(&String::from_utf8_lossy(&page), DONE),
            Err(error) => failed(&format!("cannot render the manual page: {error}")),
        };
    };
    let created = fs::create_dir_all(folder);
    match created.and_then(|()| clap_mangen::generate_to(command, folder)) {
        Ok(()) => DONE,
        Err(error) => failed(&format!("cannot write to {}: {error}", folder.display())),
    }
}

/// Prints the completions of a command line for a shell. Returns the exit status.
pub fn completions(command: Command, args: &CompletionsArgs) -> u8 {
    let mut command = without_hidden(&command);
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut command, PROGRAM, &mut script);
    print(&String::from_utf8_lossy(&script), DONE)
}

/// Returns the command line without hidden commands, because `clap_complete` lists them.
fn without_hidden(command: &Command) -> Command {
    let shown = command.get_subcommands().filter(|command| !command.is_hide_set());
    Command::new(PROGRAM)
        .version(env!("CARGO_PKG_VERSION"))
        .args(command.get_arguments().cloned())
        .subcommands(shown.cloned())
}

/// Prints the version of the program, the commit and the versions of the libraries that a bug
/// report needs. Returns the exit status.
pub fn version() -> u8 {
    let mut text = format!("{PROGRAM} {}\n", env!("CARGO_PKG_VERSION"));
    let commit = COMMIT.unwrap_or("unknown");
    let librdkafka = millstream_kafka::version();
    // Writing to a string does not fail.
    let _ = writeln!(text, "commit: {commit}");
    let _ = writeln!(text, "target: {}-{}", std::env::consts::ARCH, std::env::consts::OS);
    let _ = writeln!(text, "librdkafka: {librdkafka}");
    print(&text, DONE)
}

fn failed(message: &str) -> u8 {
    print_error(message);
    FAILED
}
