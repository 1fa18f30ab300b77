//! Reload: rereads the configuration while the agent runs, on SIGHUP or when its files change.

use crate::governor;
use crate::notices;
use crate::service::{Configuration, ServiceManager};
use crate::wiring::{self, LOADER};
use log::Level;
use millstream_commands::tap::TapService;
use millstream_commands::{checks, headers, logging};
use millstream_components::transforms::jvm::KeptOperators;
use millstream_config::{Component, Config, Fault, Fingerprint, Globals, fingerprint};
use millstream_console::{ConfigState, RecorderState};
use millstream_engine::{Running, Settings};
use millstream_model::Kind;
use millstream_recorder::schema::EventKind;
use millstream_recorder::{record, recorder};
use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::signal::unix::Signal;

/// Interval at which the files are checked with `watch: true`.
const CHECK_INTERVAL: Duration = Duration::from_millis(250);

/// Time that the files must stay unchanged before a reload, because several may be written one
/// after another.
const SETTLED_AFTER: Duration = Duration::from_secs(1);

/// The files of a configuration.
pub struct Files<'f> {
    pub paths: &'f [PathBuf],
    /// Fingerprint of the files at the last read.
    pub seen: Fingerprint,
}

/// The services that a reload keeps up to date.
pub struct Services {
    pub manager: ServiceManager,
    /// The state of the configuration, as the API shows it.
    pub state: Arc<ConfigState>,
    pub recorder: Arc<RecorderState>,
    pub taps: Arc<TapService>,
}

/// Reloads the configuration of a running agent.
pub struct Reloader {
    /// The configuration in use.
    pub config: Arc<Config>,
    files: Vec<PathBuf>,
    /// Fingerprint of the files at the last read.
    seen: Fingerprint,
    hangup: Signal,
    settings: Settings,
    services: Services,
}

/// The difference between two configurations.
struct Changes {
    kept: HashSet<(Kind, String)>,
    added: Vec<String>,
    changed: Vec<String>,
    removed: Vec<String>,
}

impl Reloader {
    /// Starts with `config`, which was read from `files`, and runs with `settings`.
    pub fn new(
        config: Config,
        files: Files<'_>,
        hangup: Signal,
        settings: Settings,
        services: Services,
    ) -> Reloader {
        Reloader {
            config: Arc::new(config),
            files: files.paths.to_vec(),
            seen: files.seen,
            hangup,
            settings,
            services,
        }
    }

    /// Waits until a reload is due, and returns the reason.
    pub async fn wanted(&mut self) -> &'static str {
        let watched = (self.files.clone(), self.config.clone());
        let seen = self.seen.clone();
        let watches = self.config.globals.watch && !self.settings.until_eof;
        tokio::select! {
            Some(()) = self.hangup.recv() => "SIGHUP",
            () = changed(watched, seen), if watches => "the configuration files changed",
        }
    }

    /// Reloads the configuration. An invalid one is rejected, and the current one stays in use.
    pub async fn reload(&mut self, running: &mut Running, why: &str) {
        if self.settings.until_eof {
            return log::warn!("{why}: a run with --until-eof does not reload");
        }
        log::info!("{why}: reloading the configuration");
        self.services.manager.reloading();
        self.reread(running).await;
        let configuration = match self.services.state.is_refused() {
            true => Configuration::Rejected,
            false => Configuration::Applied,
        };
        self.services.manager.ready(configuration);
    }

    /// Reads the files, and applies a valid configuration.
    async fn reread(&mut self, running: &mut Running) {
        let timer = recorder::start(EventKind::Reload);
        let task_files = self.config.task_files.clone();
        let before = fingerprint_of_files(self.files.clone()).await;
        self.seen = fingerprint_of((self.files.clone(), self.config.clone())).await;
        let (files, reserved_bytes) = (self.files.clone(), self.settings.reserved_bytes);
        let _operators = KeptOperators::begin();
        let check = move || LOADER.check(&files, &task_files, reserved_bytes);
        let checked = tokio::task::spawn_blocking(check).await;
        let checked =
            checked.unwrap_or_else(|error| Err(vec![Fault::anywhere(error.to_string(), "")]));
        let seen = |config: &Config| [before, config.seen()].concat();
        let seen = checked.as_ref().ok().map(seen);
        let applied = self.apply(running, checked).await;
        match &applied {
            Ok(None) => record::reload(timer, "unchanged", 0),
            Ok(Some(components)) => record::reload(timer, "applied", *components),
            Err(_) => record::reload(timer, "rejected", 0),
        }
        if let Err(faults) = applied {
            self.reject(&faults);
        } else if let Some(seen) = seen {
            // The new configuration may name other files.
            self.seen = seen;
        }
    }

    fn reject(&self, faults: &[Fault]) {
        logging::each(Level::Error, module_path!(), faults.iter().map(ToString::to_string));
        let count = match faults.len() {
            1 => "1 error".to_owned(),
            count => format!("{count} errors"),
        };
        log::error!(
            "the configuration was rejected with {count}; the previous configuration stays in use"
        );
        self.services.state.refuse();
    }

    /// Applies a checked configuration. Returns the number of components that changed, or `None` if
    /// nothing changed.
    async fn apply(
        &mut self,
        running: &mut Running,
        checked: Result<Config, Vec<Fault>>,
    ) -> Result<Option<usize>, Vec<Fault>> {
        let mut next = checked?;
        logging::each(Level::Warn, module_path!(), next.warnings.iter().map(ToString::to_string));
        notices::report_refused(&next);
        let restart = keep_fixed(&self.config.globals, &mut next.globals);
        let faults = checks::faults(&next);
        if !faults.is_empty() {
            return Err(faults);
        }
        let changes = Changes::between(&self.config, &next);
        let is_same = changes.is_none(&self.config, &next);
        if !is_same {
            self.replace_components(running, &next, &changes).await?;
        }
        // Settings that were made through the API stay unless the configuration changes them.
        if next.globals.recorder != self.config.globals.recorder {
            self.services.recorder.set(next.globals.recorder.all_events());
        }
        if next.globals.profiler != self.config.globals.profiler {
            millstream_console::keep_profiles(next.globals.profiler.kept());
        }
        for key in restart {
            log::warn!("`{key}` changed; restart the agent to apply the change");
        }
        log::info!(
            "{}",
            if is_same { "nothing has changed".to_owned() } else { changes.summary() }
        );
        notices::warn_of_unowned(&next);
        if !is_same {
            notices::announce_proxies(&next);
        }
        self.services.state.took(next.hash);
        self.config = Arc::new(next);
        Ok((!is_same).then(|| changes.components()))
    }

    async fn replace_components(
        &mut self,
        running: &mut Running,
        next: &Config,
        changes: &Changes,
    ) -> Result<(), Vec<Fault>> {
        let refused = |message: String| vec![Fault::anywhere(message, "")];
        let config = next.clone();
        // Compiling operators takes time, and this thread also delivers payloads.
        let built = tokio::task::spawn_blocking(move || wiring::blueprint(&config)).await;
        let built = built.map_err(|error| refused(error.to_string()))?;
        let blueprint = built.map_err(|error| refused(error.to_string()))?;
        let settings = Settings { cpu: next.globals.limits.cpu, ..self.settings.clone() };
        let kept = |kind: Kind, id: &str| changes.kept.contains(&(kind, id.to_owned()));
        self.services.taps.pause();
        let reloaded =
            running.reload(blueprint, &settings, &kept, next.globals.shutdown_timeout.0).await;
        governor::release_unused_pages();
        self.services.taps.resume(if reloaded.is_ok() { next } else { &self.config });
        reloaded.map_err(|error| refused(error.to_string()))?;
        logging::set_level(logging::level(next.globals.log.level));
        self.settings = settings;
        Ok(())
    }
}

/// Resets settings that cannot change while the agent runs. Returns the keys that differ.
fn keep_fixed(running: &Globals, next: &mut Globals) -> Vec<&'static str> {
    fn keep<T: PartialEq + Clone>(running: &T, next: &mut T) -> bool {
        let differs = running != next;
        next.clone_from(running);
        differs
    }
    let differ = [
        ("data_dir", keep(&running.data_dir, &mut next.data_dir)),
        ("log.to", keep(&running.log.to, &mut next.log.to)),
        ("limits.threads", keep(&running.limits.threads, &mut next.limits.threads)),
        ("limits.memory", keep(&running.limits.memory, &mut next.limits.memory)),
        ("jvm", keep(&running.jvm, &mut next.jvm)),
        ("recorder.enabled", keep(&running.recorder.enabled, &mut next.recorder.enabled)),
        ("recorder.size", keep(&running.recorder.size, &mut next.recorder.size)),
        ("recorder.storage", keep(&running.recorder.storage, &mut next.recorder.storage)),
        ("api.listen", keep(&running.api.listen, &mut next.api.listen)),
    ];
    differ.into_iter().filter(|(_, differs)| *differs).map(|(key, _)| key).collect()
}

impl Changes {
    fn between(running: &Config, next: &Config) -> Changes {
        let mut changes = Changes {
            kept: HashSet::new(),
            added: Vec::new(),
            changed: Vec::new(),
            removed: Vec::new(),
        };
        let find = |config: &'_ Config, wanted: &Component| {
            config.components.iter().find(|c| (c.kind, &c.id) == (wanted.kind, &wanted.id)).cloned()
        };
        for component in &next.components {
            match find(running, component) {
                Some(before)
                    if before.is_same(component)
                        && headers::of(running, &before) == headers::of(next, component) =>
                {
                    _ = changes.kept.insert((component.kind, component.id.clone()));
                }
                Some(_) => changes.changed.push(component.id.clone()),
                None => changes.added.push(component.id.clone()),
            }
        }
        let gone = running.components.iter().filter(|component| find(next, component).is_none());
        changes.removed = gone.map(|component| component.id.clone()).collect();
        changes
    }

    /// Returns whether nothing changed.
    fn is_none(&self, running: &Config, next: &Config) -> bool {
        let joined = |config: &Config| {
            let mut parts: Vec<_> = config
                .components
                .iter()
                .map(|c| (c.id.clone(), c.inputs.clone(), c.pace, c.buffer))
                .collect();
            parts.sort_by(|one, other| one.0.cmp(&other.0));
            parts
        };
        let is_same = self.added.is_empty() && self.changed.is_empty() && self.removed.is_empty();
        is_same && running.globals == next.globals && joined(running) == joined(next)
    }

    /// Returns the number of components that are added, changed or removed.
    fn components(&self) -> usize {
        self.added.len() + self.changed.len() + self.removed.len()
    }

    fn summary(&self) -> String {
        let part = |what: &str, ids: &[String]| match ids {
            [] => String::new(),
            ids => format!("{what}: {}; ", ids.join(", ")),
        };
        let (added, changed) = (part("added", &self.added), part("changed", &self.changed));
        let removed = part("removed", &self.removed);
        format!("configuration reloaded; {added}{changed}{removed}unchanged: {}", self.kept.len())
    }
}

/// The files and folders of a configuration, and the configuration itself, which names more files.
type Watched = (Vec<PathBuf>, Arc<Config>);

async fn fingerprint_of_files(files: Vec<PathBuf>) -> Fingerprint {
    // Disk access may block. If reading panics, the fingerprint is empty.
    tokio::task::spawn_blocking(move || fingerprint(&files)).await.unwrap_or_default()
}

async fn fingerprint_of((files, config): Watched) -> Fingerprint {
    let of_config = tokio::task::spawn_blocking(move || config.fingerprint());
    [fingerprint_of_files(files).await, of_config.await.unwrap_or_default()].concat()
}

/// Waits until the files differ from `seen` and have been unchanged for [`SETTLED_AFTER`].
async fn changed(files: Watched, seen: Fingerprint) {
    let (mut last, mut since) = (seen.clone(), Instant::now());
    loop {
        tokio::time::sleep(CHECK_INTERVAL).await;
        let now = fingerprint_of(files.clone()).await;
        if now != last {
            (last, since) = (now, Instant::now());
        } else if last != seen && since.elapsed() >= SETTLED_AFTER {
            return;
        }
    }
}
