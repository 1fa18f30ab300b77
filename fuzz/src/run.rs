//! Inputs from files, tried one at a time.

use crate::Target;
use std::any::Any;
use std::fs;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;

/// What a target said of an input that it panicked at.
pub type Crash = String;

/// The folder of the corpora.
fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("corpus")
}

/// The corpus of a target: name and content of each file, in the order of their names.
///
/// # Errors
/// If the folder of the corpus, or a file in it, cannot be read.
pub fn corpus(target: &Target) -> io::Result<Vec<(String, Vec<u8>)>> {
    let mut entries = Vec::new();
    for file in fs::read_dir(folder().join(target.name))? {
        let file = file?;
        entries.push((file.file_name().to_string_lossy().into_owned(), fs::read(file.path())?));
    }
    entries.sort();
    Ok(entries)
}

/// Gives an input to a target.
///
/// # Errors
/// What it says, if it panics.
pub fn try_input(target: &Target, input: &[u8]) -> Result<(), Crash> {
    // A target keeps nothing between two inputs but what is compiled once.
    catch_unwind(AssertUnwindSafe(|| (target.run)(input))).map_err(|payload| message(&*payload))
}

fn message(payload: &(dyn Any + Send)) -> Crash {
    let text = payload.downcast_ref::<String>().cloned();
    let text = text.or_else(|| payload.downcast_ref::<&str>().map(|text| (*text).to_owned()));
    text.unwrap_or_else(|| "a panic without a message".to_owned())
}
