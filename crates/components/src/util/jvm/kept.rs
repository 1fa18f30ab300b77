//! Keeps compiled code while a configuration is loaded: every check and every reload rebuilds all
//! components, and drops them if nothing has changed.

use parking_lot::Mutex;
use std::any::Any;

static LOADS: Mutex<Loads> = Mutex::new(Loads { count: 0, kept: Vec::new() });

/// The configurations that are being loaded.
struct Loads {
    /// Number of loads in progress.
    count: usize,
    /// Code that was compiled during these loads.
    kept: Vec<Box<dyn Any + Send>>,
}

/// Guard that keeps every operator and collector registered while it exists. A configuration is
/// first checked and then built, and its code is compiled only once.
pub struct KeptOperators(());

impl KeptOperators {
    /// Starts to keep operators and collectors.
    pub fn begin() -> KeptOperators {
        LOADS.lock().count += 1;
        KeptOperators(())
    }
}

impl Drop for KeptOperators {
    fn drop(&mut self) {
        let mut loads = LOADS.lock();
        loads.count -= 1;
        let let_go = match loads.count {
            0 => std::mem::take(&mut loads.kept),
            _ => Vec::new(),
        };
        drop(loads);
        drop(let_go);
    }
}

/// Keeps a value until no configuration is being loaded.
pub fn keep(code: impl Any + Send) {
    let mut loads = LOADS.lock();
    if loads.count > 0 {
        loads.kept.push(Box::new(code));
    }
}
