//! The commands of the program, and the code that they share with the agent.
//!
//! A separate crate because it is a tool with separate tests. The program parses the command line
//! and runs the agent. Functions that only the program can provide, such as building components or
//! parsing the command line of another process, are passed to the commands that need them.

#![forbid(unsafe_code)]

pub mod checks;
mod client;
pub mod components;
pub mod config_test;
pub mod diagnose;
pub mod exit;
pub mod generate;
pub mod headers;
mod interrupts;
pub mod java;
pub mod jvms;
pub mod load;
pub mod logging;
pub mod manual;
mod output;
pub mod profile;
mod random;
pub mod record;
pub mod rules;
pub mod run_files;
pub mod spool;
pub mod support;
pub mod tap;
pub mod text;
mod time;
pub mod top;
pub mod validate;
pub mod verify;
