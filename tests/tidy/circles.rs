//! Circles of modules: files that use each other, other than parent and child.

use super::rust::production;
use super::{fail_if_any, files, read};
use std::collections::{BTreeMap, BTreeSet};

/// The path of a module from the root of its crate.
type Module = Vec<String>;

/// Returns the modules of a crate that are in a circle, or between two circles. `files` are those
/// below its `src`, each with its text.
pub fn circular(files: &[(String, String)]) -> Vec<String> {
    let modules: BTreeSet<Module> = files.iter().map(|(path, _)| module(path)).collect();
    let mut edges: BTreeMap<Module, BTreeSet<Module>> = files
        .iter()
        .filter(|(path, _)| !is_test(&module(path)))
        .map(|(path, text)| {
            let own = module(path);
            let used = uses(&production(text)).into_iter();
            let used = used.filter_map(|path| resolve(&own, &path, &modules));
            let used = used.filter(|other| !is_family(&own, other) && !is_test(other)).collect();
            (own, used)
        })
        .collect();
    while let Some(end) = loose_end(&edges) {
        edges.remove(&end);
        for used in edges.values_mut() {
            used.remove(&end);
        }
    }
    let shown = |(module, used): (&Module, &BTreeSet<Module>)| {
        let used: Vec<String> = used.iter().map(|other| other.join("/")).collect();
        format!("{} uses {}", module.join("/"), used.join(", "))
    };
    edges.iter().map(shown).collect()
}

/// Returns a module that uses no other module, or that no other module uses.
fn loose_end(edges: &BTreeMap<Module, BTreeSet<Module>>) -> Option<Module> {
    let is_used = |module: &Module| edges.values().any(|used| used.contains(module));
    let found = edges.iter().find(|(module, used)| used.is_empty() || !is_used(module));
    found.map(|(module, _)| module.clone())
}

/// Returns the module of a file such as `sinks/kafka/mod.rs`.
fn module(path: &str) -> Module {
    let mut steps: Module = path.trim_end_matches(".rs").split('/').map(str::to_owned).collect();
    if steps.last().is_some_and(|last| last == "mod" || last == "lib") {
        steps.pop();
    }
    steps
}

fn is_test(module: &Module) -> bool {
    module.iter().any(|step| step == "tests")
}

/// Returns whether the modules are the same or one is above the other.
fn is_family(one: &Module, other: &Module) -> bool {
    one.starts_with(other) || other.starts_with(one)
}

/// Returns the paths in the `use` items, and other paths that start with `crate` or `super`.
fn uses(text: &str) -> Vec<Vec<String>> {
    let mut found = Vec::new();
    for item in text.split("use ").skip(1).filter_map(|rest| rest.split_once(';')) {
        let tree: String = item.0.chars().filter(|c| !c.is_whitespace()).collect();
        expand(&tree, &mut found);
    }
    let is_path = |c: char| c.is_alphanumeric() || c == '_' || c == ':';
    let paths = text.split(|c| !is_path(c));
    found.extend(
        paths
            .filter(|path| path.starts_with("crate::") || path.starts_with("super::"))
            .map(String::from),
    );
    found.iter().map(|path| path.split("::").map(str::to_owned).collect()).collect()
}

/// Expands the tree of a `use` item to its paths.
fn expand(tree: &str, found: &mut Vec<String>) {
    let Some((prefix, rest)) = tree.split_once('{') else {
        found.push(tree.to_owned());
        return;
    };
    let mut depth = 0;
    let is_end = |c: char| {
        depth += i32::from(c == '{') - i32::from(c == '}');
        c == ',' && depth == 0
    };
    for branch in rest.trim_end_matches('}').split(is_end).filter(|branch| !branch.is_empty()) {
        expand(&format!("{prefix}{branch}"), found);
    }
}

/// Returns the module to which a path in the module `own` leads; `None` if it is `own` itself.
fn resolve(own: &Module, path: &[String], modules: &BTreeSet<Module>) -> Option<Module> {
    let (base, rest) = match path.first()?.as_str() {
        "crate" => (Module::new(), &path[1..]),
        "self" => (own.clone(), &path[1..]),
        "super" => {
            let up = path.iter().take_while(|step| *step == "super").count();
            (own[..own.len().checked_sub(up)?].to_vec(), &path[up..])
        }
        _ => (own.clone(), path),
    };
    let mut found = base;
    for step in rest {
        found.push(step.clone());
        if !modules.contains(&found) {
            found.pop();
            break;
        }
    }
    (found != *own).then_some(found)
}

#[test]
fn modules_are_in_no_circle() {
    let all = files("");
    let roots = all.iter().filter_map(|path| path.strip_suffix("Cargo.toml"));
    let circles = roots.flat_map(|folder| circles_below(&format!("{folder}src/"), &all));
    fail_if_any(circles.collect());
}

/// Returns the circles of the crate whose source files are below `root`.
fn circles_below(root: &str, all: &[String]) -> Vec<String> {
    let sources = all.iter().filter(|path| path.ends_with(".rs"));
    let sources = sources.filter_map(|path| Some((path.strip_prefix(root)?, path)));
    let texts: Vec<(String, String)> =
        sources.map(|(below, path)| (below.to_owned(), read(path))).collect();
    circular(&texts).iter().map(|circle| format!("{root}: {circle}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(files: &[(&str, &str)]) -> Vec<String> {
        let files = files.iter().map(|(path, text)| ((*path).to_owned(), (*text).to_owned()));
        circular(&files.collect::<Vec<_>>())
    }

    #[test]
    fn a_circle_is_found_through_other_files() {
        let a = ("a.rs", "use crate::b::{self, c::{D, E}};");
        let found = of(&[
            a,
            ("b/mod.rs", ""),
            ("b/c.rs", "fn f() { crate::d::g() }"),
            ("d.rs", "use super::a::A;"),
        ]);
        assert_eq!(found, ["a uses b/c", "b/c uses d", "d uses a"]);
    }

    #[test]
    fn parent_and_child_and_tests_make_no_circle() {
        let parent = ("a.rs", "mod b; use b::B; #[cfg(test)] mod tests;");
        let child = ("a/b.rs", "use super::A; #[cfg(test)] mod tests { use crate::d::D; }");
        assert_eq!(
            of(&[parent, child, ("a/tests.rs", "use crate::d::D;"), ("d.rs", "use crate::a::A;")]),
            [""; 0]
        );
    }
}
