//! Inputs from files, tried one at a time.

use crate::Target;
use std::any::Any;
use std::fs;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;

/// What a target said of an input that it panicked at.
pub type Crash = String;

/// Tries made to find a smaller input that fails too.
const SMALLER_TRIES_MAX: usize = 3000;

/// The folder of this crate with corpora (`corpus`) or inputs that failed (`crashes`).
pub fn folder(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(name)
}

/// The corpus of a target: name and content of each file, in the order of their names.
///
/// # Errors
/// If the folder of the corpus, or a file in it, cannot be read.
pub fn corpus(target: &Target) -> io::Result<Vec<(String, Vec<u8>)>> {
    let mut entries = Vec::new();
    for file in fs::read_dir(folder("corpus").join(target.name))? {
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

/// A smaller input at which the target panics as well, made by taking pieces out of one that does.
pub fn smallest(target: &Target, input: &[u8]) -> Vec<u8> {
    let (mut kept, mut tries) = (input.to_vec(), 0);
    let mut piece = kept.len().div_ceil(2);
    while piece > 0 {
        let mut at = 0;
        while at < kept.len() && tries < SMALLER_TRIES_MAX {
            let end = (at + piece).min(kept.len());
            let smaller = [&kept[..at], &kept[end..]].concat();
            tries += 1;
            if try_input(target, &smaller).is_err() {
                kept = smaller;
            } else {
                at = end;
            }
        }
        piece /= 2;
    }
    kept
}
