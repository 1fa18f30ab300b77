//! Paths to values in JSON, in the syntax of expressions: `request.items[0]["user-agent"]`.

use crate::fault::Fault;
use crate::lexer::{Token, tokens};
use crate::parser::TEXT_BYTES_MAX;
use millstream_columns::Step;

/// Maximum number of steps in a path.
pub const STEPS_MAX: usize = 32;

/// Parses a path to a value in JSON: names separated by dots, and indexes and quoted names in
/// brackets.
///
/// # Errors
///
/// Returns an error if the text is not a path, or if the path has more than [`STEPS_MAX`] steps.
pub fn json_path(text: &str) -> Result<Vec<Step>, Fault> {
    steps(text).map_err(|fault| fault.with_position(text))
}

fn steps(text: &str) -> Result<Vec<Step>, Fault> {
    if text.len() > TEXT_BYTES_MAX {
        return Err(Fault::new(0, "the path is too long", "use fewer members"));
    }
    if text.starts_with('$') {
        return Err(Fault::new(0, "a path begins with a member", "remove the `$`"));
    }
    let tokens = tokens(text)?;
    let mut rest = &tokens[..];
    let mut steps = Vec::new();
    while let Some((step, after)) = step(rest, steps.is_empty())? {
        steps.push(step);
        rest = after;
    }
    if steps.len() > STEPS_MAX {
        return Err(Fault::new(0, "the path has more than 32 steps", "use fewer members"));
    }
    Ok(steps)
}

/// A token and its position.
type Placed = (usize, Token);

/// Returns the step at the start of `tokens` and the remaining tokens, or `None` at the end.
fn step(tokens: &[Placed], is_first: bool) -> Result<Option<(Step, &[Placed])>, Fault> {
    let (step, rest) = match tokens {
        [(_, Token::End)] if !is_first => return Ok(None),
        [(_, Token::Name(name) | Token::Quoted(name)), rest @ ..] if is_first => {
            (Step::Member(name.clone()), rest)
        }
        [(_, Token::Symbol(".")), (_, Token::Name(name) | Token::Quoted(name)), rest @ ..]
            if !is_first =>
        {
            (Step::Member(name.clone()), rest)
        }
        [(_, Token::Symbol("[")), (_, Token::Text(name)), (_, Token::Symbol("]")), rest @ ..] => {
            (Step::Member(name.clone()), rest)
        }
        [(_, Token::Symbol("[")), (at, Token::Int(index)), (_, Token::Symbol("]")), rest @ ..] => {
            (Step::Element(element(*index, *at)?), rest)
        }
        tokens => return Err(not_a_step(tokens)),
    };
    Ok(Some((step, rest)))
}

fn element(index: u64, at: usize) -> Result<u32, Fault> {
    let fault = |_| Fault::new(at, "this index is too large", "use a smaller one");
    u32::try_from(index).map_err(fault)
}

/// Returns the error for tokens that do not start with a step.
fn not_a_step(tokens: &[Placed]) -> Fault {
    let (at, first) = tokens.first().map_or((0, &Token::End), |(at, token)| (*at, token));
    match first {
        Token::End => Fault::new(at, "the path is empty", "use, for example, `request.status`"),
        Token::Double(_) => {
            Fault::new(at, "a number is not a name", "use `[0]` for an element of an array")
        }
        Token::Symbol(".") => {
            Fault::new(at, "a name is missing after the dot", "use, for example, `a.b`")
        }
        Token::Symbol("[") => {
            let advice = "use `[0]` for an element, [\"name\"] for a member";
            Fault::new(at, "the brackets do not contain an index or a quoted name", advice)
        }
        _ => {
            let advice = "put names with other characters in quotes and brackets: [\"user-agent\"]";
            Fault::new(at, "a dot or bracket is missing", advice)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use millstream_columns::DisplayPath;

    #[test]
    fn paths_are_names_and_indexes() {
        for (text, canonical) in [
            ("a", "a"),
            ("request.items[0].price", "request.items[0].price"),
            ("a . b [ 0 ]", "a.b[0]"),
            (r#"a["b.c"]['d']"#, r#"a["b.c"].d"#),
            ("a.`user-agent`", r#"a["user-agent"]"#),
            ("[0][1].in", "[0][1].in"),
            (r#"["a\"b"]"#, r#"["a\"b"]"#),
        ] {
            let path = json_path(text).unwrap();
            assert_eq!(DisplayPath(&path).to_string(), canonical, "{text}");
            assert_eq!(json_path(canonical).unwrap(), path, "{text}");
        }
    }

    #[test]
    fn other_texts_are_refused_with_their_position() {
        for (text, column, advice) in [
            ("", 1, "request.status"),
            ("$.a", 1, "remove"),
            ("a.", 2, "`a.b`"),
            ("a..b", 2, "`a.b`"),
            ("a.0", 2, "`[0]`"),
            ("a[", 2, "`[0]`"),
            ("a[-1]", 2, "`[0]`"),
            ("a[b]", 2, "[\"name\"]"),
            ("a[4294967296]", 3, "smaller"),
            ("user-agent", 5, "[\"user-agent\"]"),
            ("a b", 3, "quotes"),
            ("a.b + 1", 5, "quotes"),
            ("a.#", 3, "quotes"),
        ] {
            let fault = json_path(text).unwrap_err();
            assert_eq!(fault.column, column, "{text}: {fault}");
            assert!(fault.advice.contains(advice), "{text}: {fault}");
        }
        assert!(json_path(&["a"; STEPS_MAX].join(".")).is_ok());
        assert!(json_path(&["a"; STEPS_MAX + 1].join(".")).is_err());
    }
}
