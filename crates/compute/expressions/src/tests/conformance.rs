//! Facts of the language: expressions and their values, from the sections of the conformance tests
//! of CEL that the subset covers (see `docs/expressions.md`).

use super::{have_one_value, value_of};

/// Lines `expression => value`, where `error` means that there is none; sections begin with `#`.
const FACTS: &str = include_str!("conformance.txt");

fn fault(line: &str) -> Option<String> {
    let (expression, value) = line.split_once(" => ").expect("a fact has an arrow");
    let found = value_of(expression, false);
    let holds = match value {
        "error" => !matches!(found, Ok(Ok(_))),
        value => matches!(found, Ok(Ok(_))) && have_one_value(expression, value),
    };
    // What is refused beforehand may not have been allowed; what is allowed has the same value.
    let is_same = value_of(expression, true).is_err()
        || have_one_value(expression, value)
        || value == "error";
    (!holds || !is_same).then(|| format!("{line}\n    found {found:?}"))
}

#[test]
fn the_facts_of_the_language_hold() {
    let (mut section, mut facts, mut faults) = ("", 0, Vec::new());
    for line in FACTS.lines().filter(|line| !line.is_empty()) {
        match line.strip_prefix("# ") {
            Some(name) => section = name,
            None => {
                facts += 1;
                faults.extend(fault(line).map(|fault| format!("{section}: {fault}")));
            }
        }
    }
    assert!(
        faults.is_empty(),
        "{} of {facts} facts do not hold:\n{}",
        faults.len(),
        faults.join("\n")
    );
    assert!(facts > 600, "{facts} facts");
}
