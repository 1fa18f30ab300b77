//! The rules of `deny.toml` for the crates in the program: licenses, banned crates and sources.
//!
//! `cargo deny`, which `make check` runs, also knows advisories. Compiling it takes longer than all
//! other lints, so this test applies the rules that need no network.

use super::{fail_if_any, read, root};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;
use toml::Table;

/// The crates that are compiled into the program or run during its build.
struct Graph {
    packages: BTreeMap<String, Value>,
    /// Names of the crates that depend directly on a package, by the package's id.
    dependents: BTreeMap<String, BTreeSet<String>>,
}

impl Graph {
    fn read() -> Self {
        let mut command = Command::new(env!("CARGO"));
        command.args(["metadata", "--locked", "--format-version", "1"]);
        command.args(["--features", "vendored-openssl"]);
        command.args(["--filter-platform", "x86_64-unknown-linux-gnu"]).current_dir(root());
        let output = command.output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        Self::new(&serde_json::from_slice(&output.stdout).unwrap())
    }

    fn new(metadata: &Value) -> Self {
        let by_id = |list: &Value| -> BTreeMap<String, Value> {
            let entries = list.as_array().unwrap().iter();
            entries.map(|entry| (text(&entry["id"]), entry.clone())).collect()
        };
        let packages = by_id(&metadata["packages"]);
        let nodes = by_id(&metadata["resolve"]["nodes"]);
        let mut dependents = BTreeMap::new();
        let mut open = vec![text(&metadata["resolve"]["root"])];
        dependents.insert(open[0].clone(), BTreeSet::new());
        while let Some(id) = open.pop() {
            for dependency in nodes[&id]["deps"].as_array().unwrap() {
                let mut kinds = dependency["dep_kinds"].as_array().unwrap().iter();
                if kinds.all(|kind| kind["kind"] == "dev") {
                    continue;
                }
                let to = text(&dependency["pkg"]);
                if !dependents.contains_key(&to) {
                    open.push(to.clone());
                }
                dependents.entry(to).or_default().insert(text(&packages[&id]["name"]));
            }
        }
        Self { packages, dependents }
    }

    fn packages(&self) -> impl Iterator<Item = (&Value, &BTreeSet<String>)> {
        self.dependents.iter().map(|(id, dependents)| (&self.packages[id], dependents))
    }
}

fn text(value: &Value) -> String {
    value.as_str().unwrap().to_owned()
}

fn name(package: &Value) -> String {
    format!("{} {}", text(&package["name"]), text(&package["version"]))
}

fn rules() -> Table {
    read("deny.toml").parse().unwrap()
}

fn strings(list: Option<&toml::Value>) -> Vec<&str> {
    let list = list.and_then(toml::Value::as_array);
    list.into_iter().flatten().map(|entry| entry.as_str().unwrap()).collect()
}

fn license_fault(package: &Value, allowed: &[&str]) -> Option<String> {
    let Some(license) = package["license"].as_str() else {
        return Some(format!("{}: the manifest states no license", name(package)));
    };
    let expression = spdx::Expression::parse_mode(license, spdx::ParseMode::LAX).unwrap();
    let is_allowed = expression.evaluate(|requirement| {
        requirement.license.id().is_some_and(|id| allowed.contains(&id.name))
    });
    (!is_allowed).then(|| format!("{}: deny.toml does not allow {license}", name(package)))
}

#[test]
fn licenses_of_dependencies_are_allowed() {
    let rules = rules();
    let allowed = strings(rules["licenses"].get("allow"));
    let graph = Graph::read();
    assert!(graph.dependents.len() > 200, "{} crates", graph.dependents.len());
    let faults = graph.packages().filter_map(|(package, _)| license_fault(package, &allowed));
    fail_if_any(faults.collect());
}

#[test]
fn banned_crates_have_no_other_dependents_than_the_allowed_ones() {
    let rules = rules();
    let banned = rules["bans"]["deny"].as_array().unwrap();
    let graph = Graph::read();
    let fault = |(package, dependents): (&Value, &BTreeSet<String>)| {
        let ban = banned.iter().find(|ban| ban["crate"].as_str() == package["name"].as_str())?;
        let wrappers = strings(ban.get("wrappers"));
        let other = dependents.iter().find(|other| !wrappers.contains(&other.as_str()))?;
        let reason = ban["reason"].as_str().unwrap();
        Some(format!("{other} depends on {}: {reason}", name(package)))
    };
    fail_if_any(graph.packages().filter_map(fault).collect());
}

#[test]
fn dependencies_come_from_the_registry_of_crates() {
    let graph = Graph::read();
    let fault = |(package, _): (&Value, &BTreeSet<String>)| {
        let source = package["source"].as_str()?;
        let is_registry = source == "registry+https://github.com/rust-lang/crates.io-index";
        (!is_registry).then(|| format!("{} comes from {source}", name(package)))
    };
    fail_if_any(graph.packages().filter_map(fault).collect());
}

#[test]
fn a_license_that_is_not_allowed_is_found() {
    let package =
        |license: Value| serde_json::json!({ "name": "a", "version": "1.0.0", "license": license });
    let fault = |license: &str| license_fault(&package(license.into()), &["MIT", "Zlib"]);
    assert_eq!(fault("MIT OR GPL-3.0-only"), None);
    assert_eq!(fault("MIT/Apache-2.0"), None);
    assert_eq!(
        fault("MIT AND GPL-3.0-only").as_deref(),
        Some("a 1.0.0: deny.toml does not allow MIT AND GPL-3.0-only")
    );
    let unstated = license_fault(&package(Value::Null), &["MIT"]);
    assert_eq!(unstated.as_deref(), Some("a 1.0.0: the manifest states no license"));
}
