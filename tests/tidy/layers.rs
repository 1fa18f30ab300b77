//! Which crates a crate may depend on.

use super::{fail_if_any, root};
use serde_json::Value;
use std::collections::HashMap;
use std::path::Path;
use std::process::Command;

/// The crates of the workspace that each crate may depend on. Tests may also use the test kit.
const ARROWS: &[(&str, &[&str])] = &[
    (
        "millstream",
        &[
            "millstream-allocator",
            "millstream-commands",
            "millstream-components",
            "millstream-config",
            "millstream-console",
            "millstream-engine",
            "millstream-host",
            "millstream-jvm",
            "millstream-model",
            "millstream-recorder",
            "millstream-spool",
        ],
    ),
    (
        "millstream-bench",
        &[
            "millstream-columns",
            "millstream-compression",
            "millstream-detect",
            "millstream-encodings",
            "millstream-expressions",
            "millstream-framing",
            "millstream-groups",
            "millstream-journal",
            "millstream-jvm",
            "millstream-parsers",
            "millstream-points",
            "millstream-recorder",
            "millstream-rules",
            "millstream-scan",
            "millstream-series",
            "millstream-spool",
            "millstream-testkit",
            "millstream-testkit-servers",
            "millstream-timestamps",
        ],
    ),
    ("millstream-allocator", &[]),
    (
        "millstream-codecs",
        &[
            "millstream-encodings",
            "millstream-model",
            "millstream-parsers",
            "millstream-scan",
            "millstream-timestamps",
        ],
    ),
    ("millstream-columns", &[]),
    (
        "millstream-commands",
        &[
            "millstream-columns",
            "millstream-components",
            "millstream-config",
            "millstream-console",
            "millstream-detect",
            "millstream-engine",
            "millstream-expressions",
            "millstream-jvm",
            "millstream-kafka",
            "millstream-model",
            "millstream-profiler",
            "millstream-profiles",
            "millstream-receiver",
            "millstream-recorder",
            "millstream-rules",
            "millstream-spool",
        ],
    ),
    (
        "millstream-components",
        &[
            "millstream-codecs",
            "millstream-compression",
            "millstream-detect",
            "millstream-encodings",
            "millstream-expressions",
            "millstream-framing",
            "millstream-groups",
            "millstream-host",
            "millstream-jfr",
            "millstream-journal",
            "millstream-jvm",
            "millstream-kafka",
            "millstream-model",
            "millstream-parsers",
            "millstream-patterns",
            "millstream-points",
            "millstream-profiler",
            "millstream-receiver",
            "millstream-recorder",
            "millstream-rules",
            "millstream-scan",
            "millstream-series",
            "millstream-tail",
            "millstream-timestamps",
            "millstream-transport",
            "millstream-zones",
        ],
    ),
    ("millstream-compression", &[]),
    (
        "millstream-config",
        &[
            "millstream-components",
            "millstream-console",
            "millstream-engine",
            "millstream-host",
            "millstream-jvm",
            "millstream-model",
            "millstream-recorder",
        ],
    ),
    (
        "millstream-console",
        &[
            "millstream-jvm",
            "millstream-model",
            "millstream-profiler",
            "millstream-recorder",
            "millstream-timestamps",
        ],
    ),
    (
        "millstream-counts",
        &[
            "millstream-codecs",
            "millstream-columns",
            "millstream-expressions",
            "millstream-framing",
            "millstream-groups",
            "millstream-model",
            "millstream-parsers",
            "millstream-points",
            "millstream-rules",
            "millstream-scan",
            "millstream-series",
        ],
    ),
    ("millstream-detect", &[]),
    ("millstream-encodings", &["millstream-columns", "millstream-scan"]),
    (
        "millstream-engine",
        &["millstream-model", "millstream-recorder", "millstream-spool", "millstream-store"],
    ),
    (
        "millstream-expressions",
        &["millstream-columns", "millstream-patterns", "millstream-timestamps"],
    ),
    (
        "millstream-framing",
        &["millstream-patterns", "millstream-scan", "millstream-timestamps", "millstream-zones"],
    ),
    (
        "millstream-fuzz",
        &[
            "millstream-columns",
            "millstream-components",
            "millstream-config",
            "millstream-console",
            "millstream-detect",
            "millstream-encodings",
            "millstream-expressions",
            "millstream-framing",
            "millstream-groups",
            "millstream-jfr",
            "millstream-journal",
            "millstream-model",
            "millstream-parsers",
            "millstream-points",
            "millstream-profiles",
            "millstream-recorder",
            "millstream-rules",
            "millstream-scan",
            "millstream-series",
            "millstream-spool",
            "millstream-tail",
            "millstream-testkit",
            "millstream-timestamps",
        ],
    ),
    ("millstream-groups", &["millstream-encodings", "millstream-scan", "millstream-series"]),
    ("millstream-host", &[]),
    ("millstream-jfr", &[]),
    ("millstream-journal", &[]),
    ("millstream-jvm", &["millstream-columns", "millstream-profiler", "millstream-recorder"]),
    ("millstream-kafka", &["millstream-recorder"]),
    (
        "millstream-model",
        &[
            "millstream-columns",
            "millstream-encodings",
            "millstream-profiler",
            "millstream-recorder",
            "millstream-timestamps",
        ],
    ),
    (
        "millstream-parsers",
        &[
            "millstream-columns",
            "millstream-framing",
            "millstream-patterns",
            "millstream-scan",
            "millstream-timestamps",
        ],
    ),
    ("millstream-patterns", &[]),
    ("millstream-points", &["millstream-scan", "millstream-series"]),
    ("millstream-profiler", &[]),
    ("millstream-profiles", &["millstream-jfr"]),
    ("millstream-receiver", &["millstream-framing", "millstream-recorder"]),
    ("millstream-recorder", &["millstream-jfr"]),
    ("millstream-scan", &[]),
    (
        "millstream-rules",
        &[
            "millstream-columns",
            "millstream-expressions",
            "millstream-groups",
            "millstream-parsers",
        ],
    ),
    ("millstream-series", &["millstream-scan"]),
    ("millstream-spool", &["millstream-recorder"]),
    ("millstream-store", &["millstream-model", "millstream-recorder"]),
    (
        "millstream-tail",
        &["millstream-framing", "millstream-model", "millstream-recorder", "millstream-scan"],
    ),
    ("millstream-testkit", &["millstream-jfr", "millstream-model", "millstream-recorder"]),
    ("millstream-testkit-random", &[]),
    ("millstream-testkit-servers", &[]),
    ("millstream-timestamps", &[]),
    ("millstream-transport", &["millstream-model", "millstream-recorder", "millstream-timestamps"]),
    ("millstream-zones", &["millstream-timestamps"]),
];

#[test]
fn crates_depend_only_on_allowed_crates() {
    fail_if_any(packages().iter().flat_map(wrong_arrows).collect());
}

/// Returns the packages of the workspace, as `cargo metadata` prints them.
fn packages() -> Vec<Value> {
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["metadata", "--no-deps", "--offline", "--format-version", "1"]).current_dir(root());
    let output = cargo.output().unwrap();
    let mut metadata: Value = serde_json::from_slice(&output.stdout).unwrap();
    let packages = metadata["packages"].take();
    serde_json::from_value(packages).unwrap()
}

fn wrong_arrows(package: &Value) -> Vec<String> {
    let name = package["name"].as_str().unwrap();
    let Some((_, allowed)) = ARROWS.iter().find(|(of, _)| *of == name) else {
        return vec![format!(
            "{name}: a new crate; say in ARROWS and in ARCHITECTURE.md what it may depend on"
        )];
    };
    let ours = package["dependencies"].as_array().unwrap().iter().filter_map(|dependency| {
        let target = dependency["name"].as_str()?;
        let for_tests = dependency["kind"] == "dev" && target.starts_with("millstream-testkit");
        (target.starts_with("millstream-") && !for_tests).then_some(target)
    });
    let wrong = ours.filter(|target| !allowed.contains(target));
    wrong
        .map(|target| format!("{name} depends on {target}, which the architecture does not allow"))
        .collect()
}

/// The folders of `crates`, from the lowest layer to the highest.
const LAYERS: &[&str] =
    &["bytes", "observe", "compute", "core", "io", "components", "console", "app"];

#[test]
fn crates_depend_on_no_crate_of_a_higher_layer() {
    let packages = packages();
    let layers: HashMap<&str, usize> = packages
        .iter()
        .filter_map(|package| Some((package["name"].as_str()?, layer(package)?)))
        .collect();
    let mut wrong = Vec::new();
    for package in &packages {
        let name = package["name"].as_str().unwrap();
        let Some(of) = layers.get(name) else { continue };
        for dependency in package["dependencies"].as_array().unwrap() {
            let target = dependency["name"].as_str().unwrap();
            if layers.get(target).is_some_and(|layer| layer > of) {
                wrong.push(format!("{name} depends on {target}, which is in a higher layer"));
            }
        }
    }
    fail_if_any(wrong);
}

/// Returns the layer of a crate in `crates`; `None` for the program, and for crates that only tests
/// and benchmarks use.
fn layer(package: &Value) -> Option<usize> {
    let path = Path::new(package["manifest_path"].as_str().unwrap());
    let path = path.strip_prefix(root().join("crates")).ok()?;
    let folder = path.components().next()?;
    LAYERS.iter().position(|layer| folder.as_os_str() == *layer)
}
