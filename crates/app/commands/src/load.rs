//! Loads a configuration, checks how its parts fit together, and prints its errors.

use crate::{checks, jvms};
use clap::Args;
use millstream_config::{Config, Fault, Registry, TaskFiles};
use millstream_model::secrets;
use std::path::PathBuf;

/// The files of a configuration.
#[derive(Args)]
pub struct ConfigFiles {
    /// Configuration file or folder; repeatable
    /// [default: ./millstream.yaml, then /etc/millstream/millstream.yaml]
    #[arg(short, long = "config", value_name = "FILE|DIR")]
    pub config: Vec<PathBuf>,
}

/// A configuration, or its errors.
pub type Loaded = Result<Config, Vec<Fault>>;

/// Loads configurations, and accepts those that an agent could run.
#[derive(Clone, Copy)]
pub struct Loader {
    /// Returns the reason why a checked configuration would be rejected at startup, if there is
    /// one. Opens nothing. It is a function pointer, because only the program can build the
    /// components.
    pub refused: fn(&Config) -> Option<String>,
}

impl Loader {
    /// Loads a configuration and checks that it could run in an agent that has reserved this much
    /// memory for a JVM. The tasks in `previous`, which are in use, replace task files that are
    /// invalid.
    pub fn check(&self, files: &[PathBuf], previous: &TaskFiles, reserved_bytes: u64) -> Loaded {
        let env = |name: &str| std::env::var(name).ok();
        let secrets = millstream_config::secrets(files, &env);
        secrets::remember(secrets::Origin::Configuration, secrets);
        let loaded = millstream_config::load_again(files, &Registry, &env, previous);
        self.runnable(loaded, |config| jvms::unreserved(config, reserved_bytes))
    }

    /// Checks how the parts of a configuration fit together. The JVM is started last, if at all.
    fn runnable(&self, loaded: Loaded, check: impl Fn(&Config) -> Option<Fault>) -> Loaded {
        loaded.and_then(|config| {
            let mut faults = checks::faults(&config);
            faults.extend(check(&config));
            if faults.is_empty() {
                let refused = (self.refused)(&config);
                faults.extend(refused.map(|message| Fault::anywhere(message, "")));
            }
            if faults.is_empty() { Ok(config) } else { Err(faults) }
        })
    }

    /// Loads a configuration, and prints its errors and warnings; `None` if there are errors.
    pub fn load(&self, files: &[PathBuf]) -> Option<Config> {
        let env = |name: &str| std::env::var(name).ok();
        // Remember the secrets before any message about the configuration is printed.
        let secrets = millstream_config::secrets(files, &env);
        secrets::remember(secrets::Origin::Configuration, secrets);
        self.accept(millstream_config::load(files, &Registry, &env))
    }

    /// Accepts a loaded configuration after additional checks, and prints its errors and warnings;
    /// `None` if there are errors.
    pub fn accept(&self, loaded: Loaded) -> Option<Config> {
        match self.runnable(loaded, |_| None) {
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
}

/// Returns the text of a fault, without the secrets of the configuration.
pub fn shown(fault: &Fault) -> String {
    secrets::mask(&fault.to_string()).into_owned()
}
