//! The `millstream` program: command line, configuration, wiring, exit codes.

#![forbid(unsafe_code)]

mod checks;
mod cli;
mod client;
mod components;
mod config_test;
mod diagnose;
mod exit;
mod generate;
mod governor;
mod headers;
mod interrupts;
mod java;
mod jvms;
mod load;
mod logging;
mod notices;
mod output;
mod profile;
mod progress;
mod random;
mod record;
mod recorder;
mod reload;
mod rules;
mod run;
mod run_files;
mod spool;
mod support;
mod tap;
mod text;
mod time;
mod top;
mod validate;
mod verify;
mod wiring;

use std::process::ExitCode;

fn main() -> ExitCode {
    cli::main()
}
