//! Conditions and computed fields, in a subset of the Common Expression Language, over columns.
//!
//! A separate crate because it is pure and fuzzed alone.
//!
//! An expression is parsed once ([`Expression::new`]) and then evaluated for the selected rows of
//! one batch at a time, as a condition ([`Expression::matches`]) or as a field
//! ([`Expression::compute`]). Comparing a field with a constant is a loop over the column. All
//! other expressions are evaluated row by row, with the same result. `docs/expressions.md`
//! describes the language.

#![forbid(unsafe_code)]

mod ast;
mod compile;
mod conjunct;
mod eval;
mod fault;
mod functions;
mod hex;
mod input;
mod json;
mod kernel;
mod lexer;
mod literal;
mod node;
mod output;
mod parser;
mod path;
mod search;
mod text;
mod time;
mod time_part;
mod types;
mod url;
mod value;
mod verdict;

#[cfg(test)]
mod tests;

pub use conjunct::Test;
pub use fault::Fault;
pub use hex::encode_hex;
pub use input::{Counts, Field, Input};
pub use kernel::Scratch;
pub use literal::Literal;
pub use parser::{HEIGHT_MAX, NESTING_MAX, TEXT_BYTES_MAX};
pub use path::{STEPS_MAX, json_path};

use ast::{Expr, Form};
use compile::{Compiled, EVENT, compile};
use input::Bound;
use kernel::{Kernel, Selected};
use millstream_columns::ColumnBuilder;
use std::fmt;
use types::Types;
use verdict::{FALSE, TRUE, Verdict, error_of};

/// A parsed and type-checked expression.
#[derive(Debug)]
pub struct Expression {
    text: String,
    compiled: Compiled,
    kernel: Kernel,
}

impl Expression {
    /// Parses an expression of any type.
    ///
    /// # Errors
    ///
    /// Returns an error if the syntax is invalid, a function is unknown, or the types are wrong as
    /// far as this can be determined without data. The error says what is wrong, where it is, and
    /// what to use instead.
    pub fn new(text: &str) -> Result<Expression, Fault> {
        Expression::parse(text, true).map_err(|fault| fault.with_position(text))
    }

    /// Parses an expression that will be used as a condition.
    ///
    /// # Errors
    ///
    /// Returns the same errors as [`Expression::new`], and an error if the expression can never be
    /// a boolean.
    pub fn condition(text: &str) -> Result<Expression, Fault> {
        let expression = Expression::new(text)?;
        if expression.compiled.types.can_be(Types::BOOL) {
            return Ok(expression);
        }
        let message =
            format!("the result is {}, not true or false", expression.compiled.types.words());
        Err(Fault::new(0, message, "compare it with something, as in `x != 0`").with_position(text))
    }

    /// Returns the expression for a field path. `a.b` is the field `a.b`, or otherwise the member
    /// `b` of `a`. Unlike in the text of an expression, a part may contain any characters except
    /// dots.
    ///
    /// # Errors
    ///
    /// Never returns an error if the path is not empty.
    pub fn field(path: &str) -> Result<Expression, Fault> {
        let event = Expr::new(0, Form::Name(EVENT.to_owned()));
        let member =
            |object, part: &str| Expr::new(0, Form::Member(Box::new(object), part.to_owned()));
        Expression::of(&path.split('.').fold(event, member), path, true)
    }

    fn parse(text: &str, strict: bool) -> Result<Expression, Fault> {
        Expression::of(&parser::parse(text)?, text, strict)
    }

    fn of(expr: &Expr, text: &str, strict: bool) -> Result<Expression, Fault> {
        // The tree is compiled twice, once for columns and once for single rows, because sharing
        // parts would not be worth the effort.
        let mut kernel = Kernel::new(compile(expr, strict)?.node);
        if kernel.macros() > 1 {
            kernel = Kernel::Row(compile(expr, strict)?.node);
        }
        Ok(Expression { text: text.to_owned(), compiled: compile(expr, strict)?, kernel })
    }

    /// Returns the distinct names of the fields to which the expression refers, with dots between
    /// the parts. Computed names such as `event[name]` are not included.
    pub fn fields(&self) -> impl Iterator<Item = &str> {
        self.compiled.paths.iter().map(|path| path.name())
    }

    /// Evaluates the condition for the selected rows. `out` receives one bit per row: bit
    /// `row % 64` of word `row / 64`. Rows whose evaluation results in an error do not match and
    /// are counted.
    pub fn matches(&self, input: &Input<'_>, out: &mut Vec<u64>, counts: &mut Counts) {
        let verdicts = self.verdicts(&Bound::new(&self.compiled.paths, input));
        out.clear();
        out.extend(verdicts.chunks(64).map(|chunk| {
            let bits =
                chunk.iter().enumerate().map(|(bit, verdict)| u64::from(*verdict == TRUE) << bit);
            bits.fold(0, |word, bit| word | bit)
        }));
        if verdicts.iter().copied().fold(FALSE, u8::max) > TRUE {
            verdicts
                .iter()
                .filter_map(|verdict| error_of(*verdict))
                .for_each(|error| counts.add(error));
        }
    }

    /// Evaluates the condition for these rows, which must be ascending, and removes the rows that
    /// do not match. The cost depends only on the number of rows, not on the size of the batch.
    /// Rows whose evaluation results in an error are counted.
    pub fn retain(
        &self,
        input: &Input<'_>,
        rows: &mut Vec<u32>,
        scratch: &mut Scratch,
        counts: &mut Counts,
    ) {
        let bound = Bound::new(&self.compiled.paths, input);
        let mut verdicts = scratch.verdicts(input.rows);
        self.kernel.run(&bound, Selected::Rows(rows), &mut verdicts, scratch);
        rows.retain(|row| {
            let verdict = verdicts[*row as usize];
            error_of(verdict).into_iter().for_each(|error| counts.add(error));
            verdict == TRUE
        });
        scratch.give_back_verdicts(verdicts);
    }

    /// Evaluates the expression for the selected rows. A row whose evaluation results in an error
    /// gets no value and is counted. Timestamps become
    /// [`Kind::Time`](millstream_columns::Kind::Time), durations become strings such as `1.5s`, and
    /// lists and maps become JSON. Values inside the block are not copied.
    pub fn compute(&self, input: &Input<'_>, counts: &mut Counts) -> ColumnBuilder {
        let bound = Bound::new(&self.compiled.paths, input);
        if self.compiled.types.is_same(Types::BOOL) {
            return output::of_verdicts(&self.verdicts(&bound), input, counts);
        }
        output::compute(&self.compiled.node, &bound, counts)
    }

    /// Evaluates the condition for the selected rows. The verdicts of all other rows are false.
    fn verdicts(&self, bound: &Bound<'_>) -> Vec<Verdict> {
        let mut verdicts = vec![FALSE; bound.input.rows];
        let selected = Selected::Runs(bound.input.runs);
        self.kernel.run(bound, selected, &mut verdicts, &mut Scratch::default());
        verdicts
    }
}

/// Formats an expression with all possible parentheses. Two expressions with the same canonical
/// form are the same expression, and the canonical form parses to the same expression. However, the
/// canonical form may be too long or too deeply nested to parse.
///
/// # Errors
///
/// Returns the same syntax errors as [`Expression::new`].
pub fn canonical(text: &str) -> Result<String, Fault> {
    parser::parse(text).map(|expr| expr.to_string()).map_err(|fault| fault.with_position(text))
}

impl fmt::Display for Expression {
    /// Writes the text that was parsed.
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.text)
    }
}
