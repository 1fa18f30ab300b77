//! Starts the engine's named threads.

use std::thread::JoinHandle;

/// Starts a thread.
///
/// # Panics
///
/// Panics if the system cannot start another thread.
pub(crate) fn spawn(name: &str, body: impl FnOnce() + Send + 'static) -> JoinHandle<()> {
    let builder = std::thread::Builder::new().name(name.to_owned());
    builder.spawn(body).unwrap_or_else(|error| panic!("cannot start thread {name}: {error}"))
}
