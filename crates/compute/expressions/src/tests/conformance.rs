//! Runs the sections of the CEL conformance tests that the supported subset covers (see
//! `docs/expressions.md`).

use super::{have_equal_values, value_of};

/// Lines of the form `expression => value`. The value `error` means that the evaluation fails.
/// Section headers start with `#`.
const FACTS: &str = include_str!("conformance.txt");

fn fault(line: &str) -> Option<String> {
    let (expression, value) = line.split_once(" => ").expect("a fact has an arrow");
    let found = value_of(expression, false);
    let holds = match value {
        "error" => !matches!(found, Ok(Ok(_))),
        value => matches!(found, Ok(Ok(_))) && have_equal_values(expression, value),
    };
    // Strict compilation may reject an expression, but must not change its value.
    let is_same = value_of(expression, true).is_err()
        || have_equal_values(expression, value)
        || value == "error";
    (!holds || !is_same).then(|| format!("{line}\n    found {found:?}"))
}

#[test]
fn conformance_tests_pass() {
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
