//! Notifies the service manager when the agent is ready, reloads, stops and is alive, in the protocol
//! of sd_notify(3). Nothing is sent without the environment variable `NOTIFY_SOCKET`, which systemd
//! sets for units of `Type=notify`.

use sd_notify::NotifyState;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;
use std::time::Duration;

/// Time that a stop may take in addition to `shutdown_timeout`, to save checkpoints and close files.
const SAVING_TIME: Duration = Duration::from_secs(20);

/// Notifications per watchdog period. The service manager restarts the agent if none arrives for a
/// whole period.
const BEATS_PER_PERIOD: u32 = 3;

/// Minimum interval of watchdog notifications.
const BEAT_MIN: Duration = Duration::from_millis(10);

/// Maximum number of notifications that wait for the service manager. Additional ones are dropped.
const QUEUE_MAX: usize = 16;

/// The configuration in use, as `systemctl status` shows it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Configuration {
    /// The files were applied.
    Applied,
    /// The files were rejected, and the previous configuration stays in use.
    Rejected,
}

impl Configuration {
    fn status(self) -> &'static str {
        match self {
            Configuration::Applied => "running",
            Configuration::Rejected => {
                "running with the previous configuration; the new one was rejected, see the log"
            }
        }
    }
}

/// Variables of one notification.
type Notification = Vec<NotifyState<'static>>;

/// The service manager that has started the agent, if any.
#[derive(Clone)]
pub struct ServiceManager {
    queue: Option<SyncSender<Notification>>,
}

impl ServiceManager {
    /// Connects to the service manager. A thread sends the notifications, because a service manager
    /// that reads nothing blocks the sender.
    pub fn connect() -> ServiceManager {
        if std::env::var_os("NOTIFY_SOCKET").is_none() {
            return ServiceManager { queue: None };
        }
        let (queue, queued) = sync_channel(QUEUE_MAX);
        let started = thread::Builder::new().name("service".to_owned()).spawn(|| send_all(queued));
        if let Err(error) = &started {
            log::warn!("cannot notify the service manager: {error}");
        }
        ServiceManager { queue: started.ok().map(|_| queue) }
    }

    /// Notifies that the agent has started, and starts to notify the watchdog.
    pub fn started(&self) {
        self.ready(Configuration::Applied);
        self.keep_alive();
    }

    /// Notifies that the agent is running, after the start or a reload.
    pub fn ready(&self, configuration: Configuration) {
        self.notify(vec![NotifyState::Ready, NotifyState::Status(configuration.status())]);
    }

    /// Notifies that a reload begins. [`ServiceManager::ready`] ends it.
    pub fn reloading(&self) {
        let Ok(now) = NotifyState::monotonic_usec_now() else { return };
        let status = NotifyState::Status("reloading the configuration");
        self.notify(vec![NotifyState::Reloading, now, status]);
    }

    /// Notifies that the agent stops, and asks for the time that this may take, which may exceed the
    /// unit's `TimeoutStopSec`.
    pub fn stopping(&self, shutdown_timeout: Duration) {
        let longest = shutdown_timeout.saturating_add(SAVING_TIME).as_micros();
        let longest = u32::try_from(longest).unwrap_or(u32::MAX);
        self.notify(vec![
            NotifyState::Stopping,
            NotifyState::ExtendTimeoutUsec(longest),
            NotifyState::Status("delivering events in flight"),
        ]);
    }

    /// Notifies the watchdog for as long as the network runtime runs, if the unit sets
    /// `WatchdogSec`.
    fn keep_alive(&self) {
        // A period of 0 means that the unit has no watchdog.
        let period = sd_notify::watchdog_enabled().filter(|period| !period.is_zero());
        let Some(period) = period else { return };
        let mut beats = tokio::time::interval((period / BEATS_PER_PERIOD).max(BEAT_MIN));
        let manager = self.clone();
        tokio::spawn(async move {
            loop {
                beats.tick().await;
                manager.notify(vec![NotifyState::Watchdog]);
            }
        });
    }

    fn notify(&self, notification: Notification) {
        if let Some(queue) = &self.queue {
            // A full queue means that the service manager reads nothing.
            let _ = queue.try_send(notification);
        }
    }
}

/// Sends the queued notifications. The agent also runs without a service manager, so a failure is
/// only logged.
fn send_all(queued: Receiver<Notification>) {
    for notification in queued {
        if let Err(error) = sd_notify::notify(&notification) {
            log::warn!("cannot notify the service manager: {error}");
        }
    }
}
