//! The examples of the manual work.

use super::{faults_of, good};

const MANUAL: &str = include_str!("../../../../../docs/configuration.md");

/// Returns the blocks of the manual in this language.
fn blocks(language: &str) -> Vec<&'static str> {
    let parts =
        MANUAL.split("\n```").filter_map(|part| part.strip_prefix(language)?.strip_prefix('\n'));
    parts.collect()
}

/// The last YAML example is invalid and produces exactly the printed errors; all other examples are
/// valid.
#[test]
fn examples() {
    let examples = blocks("yaml");
    let (faulty, sound) = examples.split_last().unwrap();
    assert!(sound.len() >= 2);
    sound.iter().for_each(|text| drop(good(text)));
    let printed = blocks("text").pop().unwrap().replace("millstream.yaml:", "m.yaml:");
    let printed = printed.trim_end();
    assert_eq!(faults_of(faulty).join("\n"), printed);
}
