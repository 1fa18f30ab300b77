//! Runs a target under libFuzzer: `MILLSTREAM_FUZZ_TARGET` names it. `scripts/fuzz` builds and
//! calls this program.

#![no_main]

use libfuzzer_sys::fuzz_target;
use millstream_fuzz::{TARGETS, Target, dictionary};
use std::sync::LazyLock;
use std::{env, fs};

static TARGET: LazyLock<&Target> = LazyLock::new(|| {
    let name = env::var("MILLSTREAM_FUZZ_TARGET").unwrap_or_default();
    let names = || TARGETS.iter().map(|target| target.name).collect::<Vec<_>>().join(", ");
    let found = TARGETS.iter().find(|target| target.name == name);
    found.unwrap_or_else(|| panic!("set MILLSTREAM_FUZZ_TARGET to one of {}", names()))
});

/// Writes the target's words to the file that `MILLSTREAM_FUZZ_DICTIONARY` names, if it is set.
/// libFuzzer starts afterwards and reads its dictionary from this file.
fn write_dictionary() {
    if let Ok(path) = env::var("MILLSTREAM_FUZZ_DICTIONARY") {
        fs::write(path, dictionary(&TARGET)).expect("a file that can be written");
    }
}

fuzz_target!(
    init: write_dictionary(),
    |input: &[u8]| (TARGET.run)(input)
);
