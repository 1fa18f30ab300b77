//! Tests of the real binary with real files: its guarantees when it is killed, starved and misused.

mod aggregate;
mod commands;
mod elasticsearch;
mod faults;
mod files;
mod full;
mod held;
mod http;
mod input;
mod kafka;
mod kafka_source;
mod kill;
mod late;
mod metrics;
mod output;
mod progress;
mod prometheus;
mod promises;
mod reload;
mod rotation;
mod rules;
mod stall;
mod stuck;
mod tcp;
mod unit_tests;
mod verify;
