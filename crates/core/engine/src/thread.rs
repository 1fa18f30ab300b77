//! Starts the named threads of the engine.

use std::thread::JoinHandle;

/// Starts a thread.
///
/// # Panics The system refuses another thread.
pub(crate) fn spawn(name: &str, body: impl FnOnce() + Send + 'static) -> JoinHandle<()> {
    let builder = std::thread::Builder::new().name(name.to_owned());
    builder.spawn(body).unwrap_or_else(|error| panic!("cannot start thread {name}: {error}"))
}
