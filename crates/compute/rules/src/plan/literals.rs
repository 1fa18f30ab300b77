//! Extraction of literals that every match of a regular expression must contain.

use regex_syntax::ParserBuilder;
use regex_syntax::hir::{Hir, HirKind};

/// Maximum number of alternative literals.
const ALTERNATIVES_MAX: usize = 16;

/// Returns strings of at least `bytes_min` bytes such that every match of the pattern contains one
/// of them. Returns `None` if there are no such strings.
pub fn required_literals(pattern: &str, bytes_min: usize) -> Option<Vec<Vec<u8>>> {
    let hir = ParserBuilder::new().utf8(false).build().parse(pattern).ok()?;
    required(&hir).filter(|literals| shortest(literals) >= bytes_min)
}

fn required(hir: &Hir) -> Option<Vec<Vec<u8>>> {
    match hir.kind() {
        HirKind::Literal(literal) => Some(vec![literal.0.to_vec()]),
        HirKind::Capture(capture) => required(&capture.sub),
        HirKind::Repetition(repetition) if repetition.min > 0 => required(&repetition.sub),
        HirKind::Concat(list) => {
            let all = list.iter().filter_map(required);
            all.max_by_key(|literals| shortest(literals))
        }
        HirKind::Alternation(list) => {
            let all: Option<Vec<Vec<Vec<u8>>>> = list.iter().map(required).collect();
            Some(all?.concat()).filter(|literals| literals.len() <= ALTERNATIVES_MAX)
        }
        _ => None,
    }
}

fn shortest(literals: &[Vec<u8>]) -> usize {
    literals.iter().map(Vec::len).min().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_match_contains_a_required_literal() {
        for (pattern, expected) in [
            ("timeout", Some(vec!["timeout"])),
            (r"^\d+ connection (refused|reset)", Some(vec![" connection "])),
            ("(refused|reset|timeout)", Some(vec!["refused", "reset", "timeout"])),
            ("(?:abc){2,}x", Some(vec!["abc"])),
            ("a(?:bcd)?e", None),
            ("(?i)timeout", None),
            ("[0-9]+", None),
            ("abc|[0-9]", None),
            ("(abc|de)fgh", Some(vec!["fgh"])),
            ("ab", None),
            ("", None),
        ] {
            let literals = required_literals(pattern, 3);
            let expected: Option<Vec<Vec<u8>>> =
                expected.map(|list| list.iter().map(|text| text.as_bytes().to_vec()).collect());
            assert_eq!(literals, expected, "{pattern}");
        }
    }
}
