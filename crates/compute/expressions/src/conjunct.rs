//! The operands of a condition's top-level `&&`, in a form that a planner can use.

use crate::ast::{Expr, Form, Operator};
use crate::kernel::{Kernel, TextTest};
use crate::literal::Literal;
use crate::value::Value;
use crate::{Expression, Fault, compile, parser};

/// What a condition tests, to the extent that an index or a search over many conditions can use it.
#[derive(Clone, Debug, PartialEq)]
pub enum Test<'e> {
    /// The field equals one of these values.
    OneOf(&'e str, Vec<Literal<'e>>),
    /// The field is a string that contains the given string.
    Contains(&'e str, &'e [u8]),
    /// The field is a string that starts with the given string.
    StartsWith(&'e str, &'e [u8]),
    /// The field is a string that ends with the given string.
    EndsWith(&'e str, &'e [u8]),
    /// The field is a string that matches this pattern.
    Matches(&'e str, &'e str),
    /// The field is compared with a constant, tested for existence, or is itself the condition.
    Compare(&'e str),
    /// Any other condition.
    Other,
}

impl Expression {
    /// Splits a condition into the operands of its top-level `&&`. A row matches the condition if
    /// and only if it matches all operands. Operands that contain macros stay together, because
    /// they share a step limit.
    ///
    /// # Errors
    ///
    /// Never returns an error for a condition that [`Expression::condition`] accepted.
    pub fn conjuncts(&self) -> Result<Vec<Expression>, Fault> {
        let mut operands = Vec::new();
        flatten(parser::parse(&self.text)?, &mut operands);
        let (mut conjuncts, mut with_macros) = (Vec::new(), Vec::new());
        for operand in operands {
            match compile::compile(&operand, true)?.node.has_macro() {
                true => with_macros.push(operand),
                false => conjuncts.push(operand),
            }
        }
        match with_macros.len() {
            0 | 1 => conjuncts.append(&mut with_macros),
            _ => conjuncts.push(Expr::new(0, Form::All(with_macros))),
        }
        let expressions =
            conjuncts.iter().map(|operand| Expression::of(operand, &operand.to_string(), true));
        expressions.collect()
    }

    /// Returns what the condition tests.
    pub fn test(&self) -> Test<'_> {
        let name = |path: &usize| self.compiled.paths[*path].name();
        match &self.kernel {
            Kernel::Compare(path, Operator::Equal, value) => match literal(value) {
                Some(literal) => Test::OneOf(name(path), vec![literal]),
                None => Test::Compare(name(path)),
            },
            Kernel::In(path, set) => Test::OneOf(name(path), set.literals().collect()),
            Kernel::Text(path, TextTest::Contains(search)) => {
                Test::Contains(name(path), search.0.needle())
            }
            Kernel::Text(path, TextTest::StartsWith(text)) => Test::StartsWith(name(path), text),
            Kernel::Text(path, TextTest::EndsWith(text)) => Test::EndsWith(name(path), text),
            Kernel::Text(path, TextTest::Matches(regex)) => {
                Test::Matches(name(path), regex.as_str())
            }
            Kernel::Compare(path, ..) | Kernel::Has(path) | Kernel::Field(path) => {
                Test::Compare(name(path))
            }
            _ => Test::Other,
        }
    }
}

fn literal<'e>(value: &'e Value<'static>) -> Option<Literal<'e>> {
    match value {
        Value::Text(text) => Some(Literal::Text(text)),
        Value::Int(value) => Some(Literal::Int(*value)),
        _ => None,
    }
}

/// Collects the operands of nested `&&`.
fn flatten(expr: Expr, out: &mut Vec<Expr>) {
    match expr.form {
        Form::All(list) => list.into_iter().for_each(|operand| flatten(operand, out)),
        _ => out.push(expr),
    }
}
