//! The `millstream` program: its command line, the agent that it runs, and their wiring.

#![forbid(unsafe_code)]

mod cli;
mod governor;
mod notices;
mod progress;
mod recorder;
mod reload;
mod run;
mod service;
mod wiring;

use std::process::ExitCode;

fn main() -> ExitCode {
    cli::main()
}
