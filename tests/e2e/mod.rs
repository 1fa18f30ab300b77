//! The real binary with real files: what it promises when it is killed, starved and misused.

mod commands;
mod faults;
mod files;
mod held;
mod full;
mod http;
mod input;
mod kafka;
mod kill;
mod late;
mod metrics;
mod output;
mod prometheus;
mod promises;
mod reload;
mod rotation;
mod stall;
mod tcp;
mod unit_tests;
mod verify;
