//! Runs a target with inputs from files, one at a time.

use crate::Target;
use std::any::Any;
use std::fs;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;

/// Message of a target that panicked on an input.
pub type Crash = String;

/// Returns the folder of the corpora.
fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("corpus")
}

/// Returns the corpus of a target: the name and the content of each file, sorted by name.
///
/// # Errors
/// Returns an error if the folder of the corpus, or a file in it, cannot be read.
pub fn corpus(target: &Target) -> io::Result<Vec<(String, Vec<u8>)>> {
    let mut entries = Vec::new();
    for file in fs::read_dir(folder().join(target.name))? {
        let file = file?;
        entries.push((file.file_name().to_string_lossy().into_owned(), fs::read(file.path())?));
    }
    entries.sort();
    Ok(entries)
}

/// Runs a target with an input.
///
/// # Errors
/// Returns the panic message if the target panics.
pub fn try_input(target: &Target, input: &[u8]) -> Result<(), Crash> {
    // A target keeps no state between two inputs, except compiled patterns.
    catch_unwind(AssertUnwindSafe(|| (target.run)(input))).map_err(|payload| message(&*payload))
}

fn message(payload: &(dyn Any + Send)) -> Crash {
    let text = payload.downcast_ref::<String>().cloned();
    let text = text.or_else(|| payload.downcast_ref::<&str>().map(|text| (*text).to_owned()));
    text.unwrap_or_else(|| "a panic without a message".to_owned())
}
