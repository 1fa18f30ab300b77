//! `millstream validate` and `millstream schema`.

use crate::components::proxies;
use crate::exit::{DONE, FAILED, USAGE};
use crate::load::{Loader, shown};
use millstream_config::Registry;
use std::io::{self, Write};
use std::path::PathBuf;

/// Checks a configuration; returns the exit status.
pub fn validate(files: &[PathBuf], loader: &Loader) -> u8 {
    let Some(config) = loader.load(files) else { return USAGE };
    if !config.refused.is_empty() {
        config.refused.iter().for_each(|fault| eprintln!("{}", shown(fault)));
        return USAGE;
    }
    println!("configuration is valid: {} components", config.components.len());
    for (id, way) in proxies(&config) {
        println!("{id}: sends to {way}");
    }
    DONE
}

/// Prints the JSON Schema of the configuration; returns the exit status.
pub fn schema() -> u8 {
    let schema = millstream_config::schema(&Registry);
    let schema = serde_json::to_string_pretty(&schema).unwrap_or_default();
    // Unlike with `println!`, a closed pipe is an error and not a panic.
    match writeln!(io::stdout(), "{schema}") {
        Ok(()) => DONE,
        Err(_) => FAILED,
    }
}
